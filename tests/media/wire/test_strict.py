# SPDX-License-Identifier: Apache-2.0
"""JSON with one meaning, or none."""

from __future__ import annotations

import pytest

from posttrain.media.wire.strict import NotJsonError, read_json


@pytest.mark.parametrize(
    ("body", "value"),
    [(b'{"a":[1,0.5,"x",null,true]}', {"a": [1, 0.5, "x", None, True]}), (b" 0.5\n", 0.5), (b"[]", [])],
)
def test_json_is_read(body: bytes, value: object) -> None:
    """Any JSON value is read as it is."""
    assert read_json(body) == value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is empty"),
        (b" \r\n", "the body is empty"),
        (b"<html>", "Expecting value"),
        (b'{"a":1', "Expecting"),
        (b'{"a":1} {"b":2}', "Extra data"),
        (b'{"scores":[1],"scores":[2]}', "a key stands twice"),
        (b'{"a":{"b":1,"b":1}}', "a key stands twice"),
        (b'{"a":NaN}', "NaN is no JSON number"),
        (b'{"a":-Infinity}', "-Infinity is no JSON number"),
        (b'{"a":"\xff"}', "no UTF-8 at byte 6"),
        (b"\xef\xbb\xbf{}", "BOM"),
        (b"\xff\xfe{\x00}\x00", "no UTF-8 at byte 0"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5_000, "Exceeds the limit"),
    ],
)
def test_what_has_no_single_meaning_is_refused(body: bytes, message: str) -> None:
    """Each kind of body that two readers could take differently is refused with the reason."""
    with pytest.raises(NotJsonError, match=message):
        read_json(body)
