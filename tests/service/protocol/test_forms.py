# SPDX-License-Identifier: Apache-2.0
"""The forms of ping and pull, as curl and others write them."""

from __future__ import annotations

import pytest

from posttrain.service.protocol.forms import form_fields
from posttrain.service.protocol.refusal import Refusal

URLENCODED = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"uuid=a&type=b", {"uuid": "a", "type": "b"}),
        (b"uuid=..%2Fx+y&type=%C3%A9", {"uuid": "../x y", "type": "é"}),
        (b"uuid=../x y", {"uuid": "../x y"}),
        (b"uuid=&type=b", {"type": "b"}),
        (b"uuid=a&uuid=b", {"uuid": "b"}),
        (b"", {}),
        (b"\xff=\xfe&uuid=a", {"ÿ": "þ", "uuid": "a"}),
    ],
)
def test_urlencoded(body: bytes, fields: dict[str, str]) -> None:
    """An empty value is as if it were not there; of two the last counts."""
    assert form_fields(f"{URLENCODED}; charset=utf-8", body) == fields


def test_another_kind_has_no_fields() -> None:
    """JSON, a query or nothing at all are no form."""
    assert form_fields("application/json", b'{"uuid": "a"}') == {}
    assert form_fields("", b"uuid=a") == {}


def test_too_many_fields_are_refused() -> None:
    """A form is small."""
    with pytest.raises(Refusal, match="more than 100 form fields"):
        form_fields(URLENCODED, b"&".join(b"a=1" for _ in range(101)))


def test_multipart() -> None:
    """As `curl -F` sends it."""
    body = (
        b'--xyz\r\nContent-Disposition: form-data; name="uuid"\r\n\r\na b\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="type"\r\n\r\n\xc3\xa9\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="empty"\r\n\r\n\r\n--xyz--\r\n'
    )
    assert form_fields("multipart/form-data; boundary=xyz", body) == {"uuid": "a b", "type": "é"}


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("multipart/form-data", b"--xyz--", "Missing boundary in multipart."),
        ("multipart/form-data; boundary=xyz", b"uuid=a", "Invalid multipart data."),
        ("multipart/form-data; boundary=xyz", b"", "Invalid multipart data."),
        ("multipart/form-data; boundary=xyz", b"--xyz\r\n", "Invalid multipart data."),
    ],
)
def test_bad_multipart_is_refused(content_type: str, body: bytes, text: str) -> None:
    """Status 400 in the public server's words."""
    with pytest.raises(Refusal, match=text) as caught:
        form_fields(content_type, body)
    assert caught.value.status == 400
