# SPDX-License-Identifier: Apache-2.0
"""The side of a child process: what `ChildProcess` handed to it, and the ties that end it with its driver.

A child is tied twice. The kernel kills its whole process group when the driver's end of the lifeline closes, which it
does however the driver ends; a thread looks for a driver that is gone where the lifeline was inherited by another
process. Neither needs the child's own code to be in a state to listen.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Final, final

from posttrain.execution.processes.board import Board
from posttrain.execution.wire.frames import HEADER_SIZE, frame_header, read_header

__all__ = ["Attached", "attach"]

_PR_SET_PDEATHSIG: Final = 1
_F_SETSIG: Final = 10
_LOOK_SECONDS: Final = 2.0
_PREFERRED_VICTIM: Final = "500"
_SHOWN_LINES: Final = 12
"""As many as the driver quotes in an error."""


@final
class Attached:
    """The child's end of the channel, and the board."""

    def __init__(self, channel: socket.socket, board: Board) -> None:
        self._channel = channel
        self._reader = channel.makefile("rb", buffering=1 << 16)
        self.board = board

    def receive(self) -> tuple[int, bytes] | None:
        """The next message, kind and payload; None: the driver hung up.

        Raises:
            WireError: what came is no message.
        """
        header = self._reader.read(HEADER_SIZE)
        if len(header) < HEADER_SIZE:
            return None
        kind, length = read_header(header)
        payload = self._reader.read(length)
        return (kind, payload) if len(payload) == length else None

    def send(self, kind: int, payload: bytes | bytearray = b"") -> None:
        """Send one message."""
        self._channel.sendall(frame_header(kind, len(payload)) + payload)


def attach() -> Attached:
    """Take over what the driver handed to this process on its command line; called once, as early as possible."""
    channel, lifeline, board, driver, tied = map(int, sys.argv[1:6])
    _tie(lifeline, driver, to_thread=bool(tied))
    for descriptor in (channel, lifeline, board):
        os.set_inheritable(descriptor, False)  # noqa: FBT003  # it takes no keyword
    # A crash tells where it was, and so does a hang, when the driver asks before it kills: Python code by itself. Only
    # C code that never comes back to it is looked at from outside, which may crash where Python code is running.
    faulthandler.enable(all_threads=False)
    signal.signal(signal.SIGUSR1, _tell_where)
    faulthandler.register(signal.SIGUSR2, all_threads=False)
    shared = Board(board)
    shared.seal(board)
    os.close(board)
    # When memory runs out, the kernel should rather end a worker than the training.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_PREFERRED_VICTIM, encoding="ascii")
    return Attached(socket.socket(fileno=channel), shared)


def _tell_where(_: int, frame: FrameType | None) -> None:
    lines = ["Stack (most recent call first):"]
    while frame is not None and len(lines) < _SHOWN_LINES:
        lines.append(f'  File "{frame.f_code.co_filename}", line {frame.f_lineno} in {frame.f_code.co_name}')
        frame = frame.f_back
    os.write(2, "\n".join([*lines, ""]).encode("utf-8", "replace"))


def _tie(lifeline: int, driver: int, *, to_thread: bool) -> None:
    if sys.platform == "linux":
        if to_thread:
            # Sent when the thread that started this process ends: only of use where that is the driver's main thread.
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        # Closing the other end makes this one readable, and the kernel then sends the chosen signal to the group.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _F_SETSIG, int(signal.SIGKILL))
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([lifeline], [], [], 0)[0] or os.getppid() != driver:
        _end_group()  # it ended before this process was tied to it
    threading.Thread(target=_watch, args=(driver,), name="posttrain-driver-watch", daemon=True).start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_LOOK_SECONDS)
    _end_group()


def _end_group() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)
