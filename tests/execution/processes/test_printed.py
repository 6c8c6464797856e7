# SPDX-License-Identifier: Apache-2.0
"""Lines that a child prints: whole, bounded, and without the credentials that it inherited."""

from __future__ import annotations

import pytest

from posttrain.execution.processes.printed import Printed

SECRETS = {"JUDGE_API_KEY": "sk-0123456789", "HF_TOKEN": "hf-abcdefgh", "PLAIN": "visible-value", "SHORT_KEY": "abc"}


@pytest.fixture
def printed(caplog: pytest.LogCaptureFixture) -> Printed:
    """Of a child with these variables."""
    caplog.set_level("WARNING", "posttrain.execution.processes")
    return Printed("w", SECRETS)


def test_lines_are_forwarded_when_they_are_whole(printed: Printed, caplog: pytest.LogCaptureFixture) -> None:
    """However they come in; empty ones are left out, and what does not print is replaced."""
    for piece in (b"one\ntw", b"o\n\n  \nthr\x1b[31mee\n", b"\xff\n", b"rest"):
        printed.take(piece)
    assert caplog.messages == ["w: one", "w: two", "w: thr\ufffd[31mee", "w: \ufffd"]
    assert printed.last_lines[:2] == ["one", "two"]


def test_credentials_are_masked_by_name(printed: Printed, caplog: pytest.LogCaptureFixture) -> None:
    """Also where the pieces cut one in two; short values are no secrets that could be told from words."""
    printed.take(b"key sk-01234")
    assert "01234" not in repr(printed.last_lines)
    printed.take(b"56789 and hf-abcdefgh, visible-value abc\n")
    assert caplog.messages == ["w: key <JUDGE_API_KEY> and <HF_TOKEN>, visible-value abc"]


def test_a_line_without_end_is_cut(printed: Printed, caplog: pytest.LogCaptureFixture) -> None:
    """Memory stays bounded, the rest of the line is dropped, and a secret at the cut does not show by half."""
    printed.take(b"x" * 1995 + b"sk-01234")
    printed.take(b"56789")
    for _ in range(100):
        printed.take(b"y" * 1000)
    printed.take(b" end\nnext\n")
    assert [len(each) for each in caplog.messages] == [len("w: ") + 1990 + len(" ..."), len("w: next")]
    assert "sk" not in caplog.text


def test_a_flood_is_thinned_and_counted(printed: Printed, caplog: pytest.LogCaptureFixture) -> None:
    """At most 200 lines a second are forwarded; the last ones are kept for an error all the same."""
    printed.take(b"".join(b"line %d\n" % number for number in range(5000)))
    printed.flush()
    assert len(caplog.messages) <= 2 * 201 + 1
    assert "more lines in that second are left out" in caplog.messages[-1]
    assert printed.last_lines[-1] == "line 4999"
    assert len(printed.last_lines) == 12
