# SPDX-License-Identifier: Apache-2.0
"""Lines that lie apart come group by group: the same lines, each once, with their own numbers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from posttrain.jsonl.lines import RowFault, read_rows
from posttrain.rollouts.importers.gathered import GatheredLines

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read(path: Path, *, longest: int = 1 << 20) -> list[tuple[int, Any]]:
    """Number of each line, and its object; None for a fault."""
    with GatheredLines(path, ("k",)) as gathered:
        rows = list(read_rows(gathered, _decode, longest=longest))
        return [(gathered.number(place), None if isinstance(row, RowFault) else row) for place, row, _, _ in rows]


@given(keys=st.lists(st.sampled_from([1, 1.0, True, "1", None, [1], {"a": 1}]), max_size=12), blank=st.booleans())
def test_gathering_is_a_stable_sort(tmp_path_factory: Any, keys: list[Any], blank: bool) -> None:
    """Groups by their first line, lines of a group in their order; 1, 1.0 and true are three keys."""
    path = tmp_path_factory.mktemp("gathered") / "lines.jsonl"
    between = "\n\n" if blank else "\n"
    path.write_text(between.join(json.dumps({"k": key, "at": at}) for at, key in enumerate(keys)))
    # An independent way to the same order: the JSON text tells the keys apart.
    texts = [json.dumps(key) for key in keys]
    order = sorted(range(len(keys)), key=lambda at: texts.index(texts[at]))
    assert read(path) == [((2 if blank else 1) * at + 1, {"k": keys[at], "at": at}) for at in order]


def test_lines_without_a_key_stay_where_they_are(lines: Callable[..., Path]) -> None:
    """A line that is no object, or lacks the field, is a group by itself."""
    path = lines([{"k": 1}, b"[]", {"k": 2}, {"x": 1}, {"k": 1}])
    assert read(path) == [(1, {"k": 1}), (5, {"k": 1}), (2, None), (3, {"k": 2}), (4, {"x": 1})]


def test_a_byte_order_mark_and_other_line_ends(tmp_path: Path) -> None:
    """A byte order mark, CRLF ends and a last line without an end are fine."""
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"k": 1}\r\n{"k": 2}\r\n{"k": 1}')
    assert read(path) == [(1, {"k": 1}), (3, {"k": 1}), (2, {"k": 2})]


def test_a_line_that_is_too_long_is_one_fault(lines: Callable[..., Path]) -> None:
    """A line beyond the limit is a fault of its own, wherever it stands, and the others are read."""
    path = lines([{"k": 1}, {"k": 2, "text": "x" * 100}, {"k": 1}])
    assert read(path, longest=50) == [(1, {"k": 1}), (3, {"k": 1}), (2, None)]


def test_a_file_that_became_shorter_is_the_last_fault(lines: Callable[..., Path]) -> None:
    """Lines that were there when the file was looked through and are gone now end the reading."""
    path = lines([{"k": 1}, {"k": 2}])
    with GatheredLines(path, ("k",)) as gathered:
        path.write_bytes(b"")
        ((place, fault, _, _),) = read_rows(gathered, _decode)
    assert (place, isinstance(fault, RowFault)) == (1, True)
