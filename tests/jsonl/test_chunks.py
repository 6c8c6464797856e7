# SPDX-License-Identifier: Apache-2.0
"""The lines of plain and compressed files."""

from __future__ import annotations

import gzip
import io

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from posttrain.jsonl.chunks import DamagedFile, read_chunks, split_lines


def content(data: bytes, suffix: str) -> bytes:
    """What is read from a file of that suffix."""
    return b"".join(read_chunks(io.BytesIO(data), suffix))


@given(st.binary(max_size=400), st.integers(1, 50), st.integers(0, 3))
def test_any_cutting_gives_the_same_lines(data: bytes, step: int, feeds: int) -> None:
    """Lines do not depend on where the chunks are cut, and their sizes make up the whole."""
    data += b"\n" * feeds
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    found = list(split_lines(chunks, 1000))
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for line, _ in found] == expected
    assert sum(size for _, size in found) == len(data)


@pytest.mark.parametrize("step", [1, 3, 7, 100])
def test_a_long_line_is_not_kept(step: int) -> None:
    """Of a line over the limit only the length is told, the last one too; one at the limit is read."""
    data = b"12345\n" + b"x" * 6 + b"\nab\n" + b"y" * 20
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    assert list(split_lines(chunks, 5)) == [(b"12345", 6), (None, 7), (b"ab", 3), (None, 20)]


@given(st.lists(st.binary(max_size=2000), max_size=5))
def test_compressed_parts_are_joined(parts: list[bytes]) -> None:
    """A file of any number of compressed parts, padded with zeros between and behind them, gives their content."""
    whole = b"".join(parts)
    assert content(bytes(7).join(map(gzip.compress, parts)) + bytes(512), ".gz") == whole
    assert content(b"".join(map(zstandard.compress, parts)), ".ZST") == whole
    assert content(whole, ".jsonl") == whole


@pytest.mark.parametrize("keep", [1, 12, 40, -1])
@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
def test_a_truncated_file_is_damaged(suffix: str, kind: str, keep: int) -> None:
    """Wherever a compressed file is cut off, it is said to be."""
    plain = b"".join(b"%x\n" % (at * 7919**5) for at in range(1000))
    whole = gzip.compress(plain) if suffix == ".gz" else zstandard.compress(plain)
    with pytest.raises(DamagedFile, match=f"the {kind} file is cut off: its last part is missing; copy it again"):
        content(whole[:keep], suffix)


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
def test_another_format_is_damaged(suffix: str, kind: str) -> None:
    """A plain file with the suffix of a compressed one is no such file."""
    with pytest.raises(DamagedFile, match=f"is damaged, or is no {kind} file as its suffix says"):
        content(b'{"a": 1}\n', suffix)


def test_a_damaged_checksum_and_garbage_are_found() -> None:
    """A checksum that does not match, and bytes behind the last part that begin no other, are not passed over."""
    whole = bytearray(gzip.compress(b"text"))
    with pytest.raises(DamagedFile, match="is damaged"):
        content(bytes(whole) + b"garbage", ".gz")
    whole[-8] ^= 1
    with pytest.raises(DamagedFile, match="is damaged"):
        content(bytes(whole), ".gz")
