# SPDX-License-Identifier: Apache-2.0
"""Messages on a stream: whole or not at all, whatever the pieces, and garbage is told from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.execution.wire import MAX_FRAME, FrameReader, WireError, frame_header

messages = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=6)


def _stream(sent: list[tuple[int, bytes]]) -> bytes:
    return b"".join(frame_header(kind, len(payload)) + payload for kind, payload in sent)


@given(messages, st.lists(st.integers(1, 9), min_size=1, max_size=40))
def test_messages_come_out_whole_however_the_stream_is_cut(sent: list[tuple[int, bytes]], cuts: list[int]) -> None:
    """Each once, in order, as soon as its last byte is there."""
    stream, reader, got = _stream(sent), FrameReader(), []
    for turn in range(len(stream)):
        piece, stream = stream[: cuts[turn % len(cuts)]], stream[cuts[turn % len(cuts)] :]
        got += list(reader.feed(piece))
    assert got == sent


def test_what_is_no_message_is_refused_after_those_before_it() -> None:
    """A print that got onto the stream ends it, and takes no whole message with it."""
    coming = FrameReader().feed(_stream([(1, b"one"), (2, b"")]) + b"hello world")
    assert [next(coming), next(coming)] == [(1, b"one"), (2, b"")]
    with pytest.raises(WireError, match="expected a message, got b'hello wor'"):
        next(coming)


def test_another_version_is_refused() -> None:
    """Both sides come from one release."""
    header = bytearray(frame_header(1, 0))
    header[3] = 9
    with pytest.raises(WireError, match="of version 1, got version 9"):
        list(FrameReader().feed(bytes(header)))


def test_a_length_beyond_the_bound_is_refused_on_both_sides() -> None:
    """Before any memory is taken for it."""
    with pytest.raises(WireError, match=f"a message of {MAX_FRAME + 1} bytes is longer"):
        frame_header(1, MAX_FRAME + 1)
    header = frame_header(1, MAX_FRAME)[:-4] + (MAX_FRAME + 1).to_bytes(4, "big")
    with pytest.raises(WireError, match=f"a message of {MAX_FRAME + 1} bytes is announced"):
        list(FrameReader().feed(header))
