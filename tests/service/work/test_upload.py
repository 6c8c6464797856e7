# SPDX-License-Identifier: Apache-2.0
"""Taking in a body, however it is cut into pieces."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.service.protocol.npy import NpyHeader
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.request_line import RequestLine, parse_line
from posttrain.service.scorers.spec import BUILT_IN_SCORERS
from posttrain.service.work.spool import Spool, SpooledFile
from posttrain.service.work.upload import take_in
from service.driving import body_of, image_line, npy


async def _stream(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def uploaded(folder: Path, pieces: Iterable[bytes], *, most_line: int = 1000) -> bytes:
    """Take in a body; gives what was spooled. Nothing is left in the spool."""
    spool = Spool(folder, limit=1 << 30)

    def accept(line: bytes, header: NpyHeader) -> tuple[RequestLine, SpooledFile]:
        request = parse_line(line, header.shape, BUILT_IN_SCORERS, max_samples=9)
        file = spool.reserve(header.total_bytes)
        assert file is not None
        return request, file

    try:
        _, file = asyncio.run(take_in(_stream(pieces), most_line_bytes=most_line, accept=accept))
        data = file.path.read_bytes()
        file.remove()
    finally:
        used = spool.used
        spool.close()
    assert used == 0
    return data


ARRAY = npy(1, 4, 5, 3)
BODY = body_of(image_line(), ARRAY)


@given(st.lists(st.integers(0, len(BODY)), max_size=6).map(sorted))
def test_cuts_do_not_matter(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    """Wherever the network cuts the body, the array is spooled to the byte."""
    edges = [0, *cuts, len(BODY)]
    pieces = [BODY[a:b] for a, b in pairwise(edges)]
    assert uploaded(tmp_path_factory.getbasetemp(), pieces) == ARRAY


def test_byte_by_byte(tmp_path: Path) -> None:
    """The smallest pieces there are."""
    assert uploaded(tmp_path, [BODY[at : at + 1] for at in range(len(BODY))]) == ARRAY


def test_a_large_array_goes_out_in_blocks(tmp_path: Path) -> None:
    """Several megabytes in pieces as a network gives them."""
    array = npy(1, 1200, 1000, 3, fill=9)
    body = body_of(image_line(), array)
    assert uploaded(tmp_path, [body[at : at + 65_536] for at in range(0, len(body), 65_536)]) == array


def test_a_carriage_return_is_no_fault(tmp_path: Path) -> None:
    """The line may end as on Windows: JSON passes over it."""
    assert uploaded(tmp_path, [json.dumps(image_line()).encode() + b"\r\n" + ARRAY]) == ARRAY


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        (b"", 400, "the body is empty: expected one line of JSON"),
        (b'{"media_type": "image"}', 400, "there is no line feed: expected one line"),
        (b"x" * 1200, 400, "no line feed in the first 1000 bytes"),
        (b'{"a": "' + b"x" * 1000 + b'"}\n' + ARRAY, 400, "first line has more than 1000 bytes|no line feed in"),
        (b"\n" + BODY, 400, "no .npy file"),
        (json.dumps(image_line(), indent=1).encode() + b"\n" + ARRAY, 400, "no .npy file"),
        (body_of(image_line(), b""), 400, "there is no array behind the first line"),
        (body_of(image_line(), ARRAY[:8]), 400, "ends in its header"),
        (body_of(image_line(), ARRAY[:50]), 400, "ends in its header"),
        (BODY[:-1], 400, "the array is cut off: 187 of 188 bytes of .npy came"),
        (BODY + b"\n", 400, "there are bytes behind the array: it ends after 188 bytes"),
        (body_of(image_line(), b"\n" + ARRAY), 400, "no .npy file"),
        (body_of(image_line("ocr"), ARRAY), 422, "no reward is named 'ocr'"),
        (body_of(b"nonsense", ARRAY), 400, "the first line is not JSON"),
    ],
)
def test_what_is_no_upload_is_refused(tmp_path: Path, body: bytes, status: int, text: str) -> None:
    """With a status and what is wrong; nothing stays in the spool."""
    with pytest.raises(Refusal, match=text) as caught:
        uploaded(tmp_path, [body[:40], body[40:]])
    assert caught.value.status == status
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_read_behind_a_line_that_is_refused(tmp_path: Path) -> None:
    """The array of a request that can't be done is not even waited for."""

    def pieces() -> Iterable[bytes]:
        yield body_of(image_line("ocr"), ARRAY[:-1])
        pytest.fail("more was read")

    with pytest.raises(Refusal, match="no reward is named 'ocr'"):
        uploaded(tmp_path, pieces())


def test_a_header_that_claims_much_takes_nothing(tmp_path: Path) -> None:
    """The shape is looked at before any room is made for it."""
    with pytest.raises(Refusal, match="no side may be longer than 65536"):
        uploaded(tmp_path, [body_of(image_line(), npy(1, 1 << 40, 1 << 40, 3, fill=b""))])


def test_a_cancelled_upload_lets_go_when_its_write_has_ended(tmp_path: Path) -> None:
    """The descriptor is not closed under the thread that writes: its number could be another upload's by then."""
    array = npy(1, 1200, 1000, 3)
    body, taken = body_of(image_line(), array), list[SpooledFile]()
    spool = Spool(tmp_path, limit=1 << 30)
    slow, disk = os.pipe()

    def accept(line: bytes, header: NpyHeader) -> tuple[RequestLine, SpooledFile]:
        file = spool.reserve(header.total_bytes)
        assert file is not None
        # A disk that takes no more than the buffer of a pipe until somebody reads.
        os.dup2(disk, file._file)
        os.close(disk)
        taken.append(file)
        return parse_line(line, header.shape, BUILT_IN_SCORERS, max_samples=9), file

    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        upload = asyncio.create_task(take_in(_stream([body]), most_line_bytes=1000, accept=accept))
        first = await loop.run_in_executor(None, os.read, slow, 1)
        upload.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not upload.done()
        os.fstat(taken[0]._file)
        with open(slow, "rb") as reading:  # noqa: PTH123  # a descriptor
            rest = await loop.run_in_executor(None, reading.read)
        (ended,) = await asyncio.gather(upload, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError)
        return first + rest

    try:
        assert asyncio.run(run()) == array
        assert spool.used == 0
    finally:
        spool.close()
