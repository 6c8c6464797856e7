# SPDX-License-Identifier: Apache-2.0
"""Foreign words in our errors."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from posttrain.errors import RewardError
from posttrain.media.wire import Quoter, read_enqueued, read_pulled

ECHOED = 'tok/TEST"111\\+'


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {ECHOED} is bad",
        json.dumps({"seen": ECHOED}),
        json.dumps({"seen": ECHOED}).replace("/", "\\/"),
        f"?t={quote(ECHOED, safe='')}",
        f"Bearer {ECHOED}".encode(),
        "".join(f"\\u{ord(each):04X}" for each in ECHOED),
        "".join(f"%{ord(each):02x}" for each in ECHOED),
        json.dumps({"seen": ECHOED}).replace("k", "\\u006b"),
        {"seen": ECHOED},
        "x" * 295 + ECHOED,
        ECHOED * 100,
    ],
)
def test_a_credential_is_masked_in_every_spelling(text: object) -> None:
    """Plain, JSON and URL spellings are masked before the text is cut, so not even the beginning of one is left."""
    shown = Quoter([ECHOED])(text)
    assert "tok" not in shown
    assert "TEST" not in shown
    assert "[cred" in shown


def test_a_quotation_is_short_and_on_one_line() -> None:
    """Line breaks, control and zero-width characters become blanks; what is too long is cut."""
    assert Quoter()("a\r\nb\x1b[31m\u200bc") == '"a b [31m c"'
    assert Quoter()(b"\xffx") == '"\\xffx"'
    assert Quoter()("y" * 1000) == f'"{"y" * 300}..."'
    assert Quoter()(["a", None]) == '"["a", null]"'
    assert repr(Quoter(["s3cret"])) == "Quoter()"


@pytest.mark.parametrize("status", [200, 202, 400, 403, 500])
def test_a_credential_that_is_a_key_twice_stays_out(status: int) -> None:
    """A body that is no JSON for its keys: the reason does not name them."""
    quoted, body = Quoter([ECHOED]), json.dumps({ECHOED: 1})[:-1].encode() + b"," + json.dumps({ECHOED: 1})[1:].encode()
    try:
        said = repr(read_pulled(status, body, uuid="u", score_key="s", what="pull", quoted=quoted))
    except RewardError as error:
        said = str(error)
    assert "[credential]" in said
    assert "TEST" not in said
    assert "TEST" not in str(read_enqueued(body))
