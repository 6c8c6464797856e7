# SPDX-License-Identifier: Apache-2.0
"""One child process: started as a module of ours, spoken to over a channel of its own, and ended for certain.

Nothing here blocks but `end`, within its bound. The child's standard output and error are one pipe, apart from the
channel, so that no print can get between two messages.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import islice
from time import monotonic
from typing import Final, final

from posttrain.errors import RewardConfigError
from posttrain.execution.processes.board import Board, board_descriptor
from posttrain.execution.processes.printed import Printed
from posttrain.execution.wire.frames import FrameReader, frame_header

__all__ = ["ChildProcess"]

_READ: Final = 1 << 18
_REAP_SECONDS: Final = 10.0
_LAST_WORDS_SECONDS: Final = 0.2
_PRINTED_AT_ONCE: Final = 16
_PARTS_AT_ONCE: Final = 16


@final
class ChildProcess:
    """Runs ``python -m module`` in a process group of its own; the module calls `attach` first of all.

    The child ends with this process, however that ends, and so does everything that stayed in its process group.

    Args:
        module: dotted name of the child's module; nothing secret, it stands on the command line.
        name: what the lines that it prints are forwarded under.

    Raises:
        RewardConfigError: no process can be started.
    """

    def __init__(self, module: str, *, name: str) -> None:
        self.printed = Printed(name)
        self.is_hung_up = False
        """Whether the child's end of the channel is closed."""
        self._frames = FrameReader()
        self._unsent: deque[memoryview] = deque()
        self.is_printing = True
        """Whether the pipe of what it prints is open."""
        self.printing = -1
        """Descriptor of that pipe."""
        self.death: int | None = None
        """Descriptor that is readable once the process has ended; None where the system has no such thing."""
        self._process: subprocess.Popen[bytes] | None = None
        self._ours = ExitStack()
        try:
            self._begin(module)
        except BaseException as error:
            self.end()
            if isinstance(error, OSError):
                raise RewardConfigError(f"no worker process can be started: {error.strerror or error}") from error
            raise

    def _begin(self, module: str) -> None:
        with ExitStack() as theirs:
            self.channel, far = socket.socketpair()
            self._ours.callback(self.channel.close)
            theirs.callback(far.close)
            self.channel.setblocking(False)  # noqa: FBT003  # it takes no keyword
            lifeline, self._lifeline = os.pipe()
            self._ours.callback(os.close, self._lifeline)
            theirs.callback(os.close, lifeline)
            self.printing, printing = os.pipe()
            self._ours.callback(os.close, self.printing)
            theirs.callback(os.close, printing)
            os.set_blocking(self.printing, False)
            shared = board_descriptor()
            theirs.callback(os.close, shared)
            self.board = Board(shared)
            self._ours.callback(self.board.close)
            handed = (far.fileno(), lifeline, shared)
            # The kernel's tie to a parent is a tie to the thread that started the child.
            tied = int(threading.current_thread() is threading.main_thread())
            self._process = subprocess.Popen(  # noqa: S603  # our own module
                [sys.executable, "-P", "-u", "-m", module, *map(str, (*handed, os.getpid(), tied))],
                stdin=subprocess.DEVNULL,
                stdout=printing,
                stderr=printing,
                pass_fds=handed,
                start_new_session=True,
            )
            self.death = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
            if self.death is not None:
                self._ours.callback(os.close, self.death)

    @property
    def pid(self) -> int:
        """Its process id, which is its group's and its session's too."""
        if self._process is None:
            raise RuntimeError("no process was started")  # a slip in here, never a user's
        return self._process.pid

    @property
    def has_unsent(self) -> bool:
        """Whether a message waits for room on the channel."""
        return bool(self._unsent)

    @property
    def has_ended(self) -> bool:
        """Whether the process is over, by whatever cause."""
        if self._process is None or self._process.returncode is not None:
            return True
        try:
            # It is looked at, not reaped: until then nothing else can get its number.
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def send(self, kind: int, *payload: bytes | bytearray) -> None:
        """Queue one message and send what the channel takes. A child that is gone tells so by its end, not here.

        Args:
            kind: of the message.
            payload: in one part or several, which are not copied.

        Raises:
            WireError: it is longer than a frame may be; nothing is sent.
        """
        header = frame_header(kind, sum(map(len, payload)))
        self._unsent += [memoryview(part) for part in (header, *payload) if part]
        self.flush()

    def flush(self) -> None:
        """Send more of what waits, as far as the channel takes it."""
        while self._unsent:
            try:
                sent = self.channel.sendmsg(list(islice(self._unsent, _PARTS_AT_ONCE)))
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            while self._unsent and sent >= len(self._unsent[0]):
                sent -= len(self._unsent.popleft())
            if sent:
                self._unsent[0] = self._unsent[0][sent:]

    def receive(self) -> Iterator[tuple[int, bytes]]:
        """The messages that have come, kind and payload.

        Raises:
            WireError: the child wrote what is no message; nothing more can be read from it.
        """
        while not self.is_hung_up:
            try:
                data = self.channel.recv(_READ)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.is_hung_up = True
                return
            yield from self._frames.feed(data)
            if len(data) < _READ:
                return

    def read_printed(self) -> None:
        """Take in what the child printed by now, up to a bound, so that one that prints without end holds nobody up."""
        for _ in range(_PRINTED_AT_ONCE):
            if not self.is_printing:
                return
            try:
                data = os.read(self.printing, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.is_printing = False
                return
            self.printed.take(data)

    def ask_where(self) -> None:
        """Have a child that hangs print where it is, within a moment; it is to be killed right after.

        The first signal is answered by Python code, the second in the middle of any code (see `attach`): being asked
        may be the end of it.
        """
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            if self._process is None or self.has_ended or self._tells(number):
                return

    def _tells(self, number: signal.Signals) -> bool:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)
        has_told, deadline = False, monotonic() + _LAST_WORDS_SECONDS
        while self.is_printing and (left := deadline - monotonic()) > 0 and _readable([self.printing], left):
            self.read_printed()
            # The rest of the lines follows at once.
            has_told, deadline = True, min(deadline, monotonic() + _LAST_WORDS_SECONDS / 4)
        return has_told

    def kill(self) -> None:
        """Kill the child and everything in its process group; it is reaped by `end`. Safe from any thread."""
        # Not once it is reaped: its number may be another's by then.
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def end(self, *, patience_s: float = 0.0) -> str:
        """Wait for the child to end by itself, kill what is left of its group, reap it, let go of everything.

        Args:
            patience_s: seconds to wait before it is killed.

        Returns:
            How it ended, in words: ``was killed by SIGSEGV``, ``ended with exit code 1``.
        """
        self.await_end(patience_s)
        self.kill()
        code: int | None = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):  # stuck in the kernel; Python reaps it later
                code = self._process.wait(_REAP_SECONDS)
            self.read_printed()
        self.printed.flush()
        self.is_printing, self.is_hung_up = False, True
        self._ours.close()
        return how_it_ended(code)

    def await_end(self, patience_s: float) -> None:
        """Wait for the child to end by itself, within that bound, and take in what it prints meanwhile."""
        deadline = monotonic() + patience_s
        while (left := deadline - monotonic()) > 0 and not self.has_ended:
            watched = [self.printing] if self.is_printing else []
            if self.death is not None:
                watched.append(self.death)
            _readable(watched, left if self.death is not None else min(left, 0.02))
            self.read_printed()


def _readable(descriptors: list[int], seconds: float) -> bool:
    """Whether one of them can be read within that time; unlike `select.select`, of any number."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(max(0, int(seconds * 1000) + 1)))


def how_it_ended(code: int | None) -> str:
    """An exit code in words."""
    if code is None:
        return "does not end although it was killed"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
