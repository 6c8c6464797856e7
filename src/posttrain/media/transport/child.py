# SPDX-License-Identifier: Apache-2.0
"""Runs one child process to its end: bounded in time and output, its whole group killed and reaped whatever happens."""

from __future__ import annotations

import io
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import IO, Final, final

__all__ = ["Ended", "run_child"]

_CHUNK: Final = 65_536
_LONGEST_REPORT: Final = 65_536
_REAPED_WITHIN: Final = 5.0


@final
@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a child."""

    exit_code: int
    """As the child gave it; negative: the signal that ended it."""
    out: bytes
    """Standard output, up to the limit."""
    report: bytes
    """Standard error, up to 64 KiB."""
    overran: bool
    """Killed because its time was over."""
    overflowed: bool
    """Killed because it wrote more than the limit."""


def run_child(
    command: Sequence[str],
    *,
    text: bytes,
    env: Mapping[str, str],
    pass_fds: Sequence[int],
    limit: int,
    kill_after_s: float,
) -> Ended:
    """Start `command`, give it `text` on standard input, and read what it writes until it ends.

    The child leads a process group of its own. An exception in here, an interrupt above all, kills the group, reaps
    the child and passes on.

    Args:
        command: program and arguments; they are visible to everybody on the machine.
        text: for standard input.
        env: the child's whole environment.
        pass_fds: descriptors that it inherits.
        limit: bytes of standard output after which it is killed.
        kill_after_s: seconds after which it is killed.

    Raises:
        OSError: it can't be started.
        subprocess.TimeoutExpired: it was killed, and is still not gone after 5 s: it hangs in the kernel.
    """
    ends = monotonic() + kill_after_s
    given, kept = os.pipe()
    # The child's standard input is a pipe of ours: whatever comes in between, even right after the start, closes it,
    # and a child that was given no text ends by itself.
    with open(given, "rb", buffering=0) as theirs, open(kept, "wb", buffering=0) as stdin:  # noqa: PTH123  # descriptors
        process = subprocess.Popen(  # noqa: S603  # the caller's program; no shell
            list(command),
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(env),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
        return _watched(process, theirs, stdin, text, limit, ends)


def _watched(
    process: subprocess.Popen[bytes], theirs: io.FileIO, stdin: io.FileIO, text: bytes, limit: int, ends: float
) -> Ended:
    try:
        theirs.close()
        talk = _Talk(process, stdin, text, limit)
        finished = talk.until(ends) and _ended(process, ends)
        overran = not finished and not talk.overflowed
    finally:
        try:
            _end(process)
        except BaseException:
            # An interrupt that came just here must not keep the child alive.
            _end(process)
            raise
    return Ended(process.returncode, bytes(talk.out), bytes(talk.report), overran, talk.overflowed)


@final
class _Talk:
    """Writes to one pipe of the child and reads from two, none of them longer than it has to."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: io.FileIO, text: bytes, limit: int) -> None:
        self.out, self.report = bytearray(), bytearray()
        self.overflowed = False
        self._stdin = stdin
        self._stdout, self._stderr = _outputs(process)
        self._left = memoryview(text)
        self._limit = limit

    def until(self, ends: float) -> bool:
        """Go on until both outputs are at their end; False: the time was over first, or there was too much."""
        with selectors.DefaultSelector() as ready:
            ready.register(self._stdin, selectors.EVENT_WRITE)
            for pipe in (self._stdout, self._stderr):
                ready.register(pipe, selectors.EVENT_READ)
            for pipe in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(pipe.fileno(), False)
            reading = 2
            while reading:
                left = ends - monotonic()
                if left <= 0 or self.overflowed:
                    return False
                for key, _ in ready.select(left):
                    if key.fileobj is self._stdin:
                        self._write(ready)
                    elif not self._read(key.fd, into_out=key.fileobj is self._stdout):
                        ready.unregister(key.fileobj)
                        reading -= 1
        return not self.overflowed

    def _write(self, ready: selectors.BaseSelector) -> None:
        # A child that ended before it read everything says so by its exit code.
        with suppress(BrokenPipeError):
            self._left = self._left[os.write(self._stdin.fileno(), self._left) :]
            if self._left:
                return
        ready.unregister(self._stdin)
        self._stdin.close()

    def _read(self, fd: int, *, into_out: bool) -> bool:
        chunk = os.read(fd, _CHUNK)
        if into_out:
            self.out += chunk
            self.overflowed = len(self.out) > self._limit
        else:
            self.report += chunk[: _LONGEST_REPORT - len(self.report)]
        return bool(chunk)


def _outputs(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    if process.stdout is None or process.stderr is None:
        raise AssertionError("the child was started without its pipes")
    return process.stdout, process.stderr


def _ended(process: subprocess.Popen[bytes], ends: float) -> bool:
    try:
        process.wait(max(0.0, ends - monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the group, close the pipes and reap the child. Doing it twice is no error."""
    # Until the child is reaped its process id is taken, so the group is no other's.
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in _outputs(process):
        pipe.close()
    process.wait(_REAPED_WITHIN)
