# SPDX-License-Identifier: Apache-2.0
"""Starts fresh processes side by side, waits for their answers, and leaves nothing of them behind.

An operator's code may print, hang, kill itself, or fork a child that holds every descriptor. So the answer has a pipe
of its own, what is printed goes to a file that has no name, the wait ends with the answer and not with the end of the
pipe, and the whole process group is killed when it is over.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import IO, Final, final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.runs.checks.messages import Answer, Event, Message, Request, Step

__all__ = ["HASH_SEEDS", "Fresh", "run_fresh"]

HASH_SEEDS: Final = ("1", "2")
"""PYTHONHASHSEED of each fresh process: what depends on the order of a set shows between them."""

_COMMAND: Final = ("-P", "-u", "-m", "posttrain.runs.checks.fresh")
_READ: Final = 1 << 16
_LOOK_AGAIN: Final = 0.05
"""Seconds after which a process that says nothing is looked at: it may have died while a child holds its pipe."""
_LAST_WORDS: Final = 0.3
"""Seconds that a process has to write down where it hangs."""
_LONGEST_PRINT: Final = 1 << 16

_decode = msgspec.json.Decoder(Message).decode


@final
@dataclass(kw_only=True)
class Fresh:
    """What came of one fresh process."""

    answer: Answer | None = None
    events: list[Event] = field(default_factory=list)
    doing: str = "it started"
    """The step that it was at last."""
    ended: str = ""
    """How it ended without an answer, in words; empty: it answered."""
    printed: str = ""
    """What it printed, in full up to a limit; only of one that did not answer. It may hold secrets."""


def run_fresh(
    catalog: str | None, base: str | None, providers: Sequence[str], *, deadline_s: float, python: str = sys.executable
) -> list[Fresh]:
    """Construct the providers in one fresh process for each hash seed, all at once.

    Args:
        catalog: path of the catalog.
        base: folder that a catalog file is relative to.
        providers: names to construct.
        deadline_s: seconds after which those that did not answer are killed.
        python: the interpreter.

    Raises:
        RewardConfigError: no process can be started.
    """
    runs: list[_Run] = []
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        try:
            for seed in HASH_SEEDS:
                runs.append(run := _Run(python, seed))
                stack.callback(run.end)
                run.ask(catalog, base, tuple(providers))
                selector.register(run.reading, selectors.EVENT_READ, run)
        except OSError as error:
            raise RewardConfigError(f"a fresh process can't be started: {error.strerror or error}") from error
        _wait(runs, selector, monotonic() + deadline_s)
        for run in runs:
            run.judge(deadline_s)
    return [run.fresh for run in runs]


def _wait(runs: list[_Run], selector: selectors.BaseSelector, deadline: float) -> None:
    while any(not run.is_over for run in runs) and (left := deadline - monotonic()) > 0:
        for key, _ in selector.select(min(left, _LOOK_AGAIN)):
            run: _Run = key.data
            run.read()
            if run.is_over:
                selector.unregister(run.reading)
        for run in runs:
            if not run.is_over and run.process.poll() is not None:
                run.read()
                run.is_over = True
                selector.unregister(run.reading)


@final
class _Run:
    """One fresh process while it lives."""

    def __init__(self, python: str, hash_seed: str) -> None:
        self.fresh = Fresh()
        self.is_over = False
        self._buffer = b""
        self.reading, self._writing = os.pipe()
        os.set_blocking(self.reading, False)
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        try:
            self.process = subprocess.Popen(  # noqa: S603  # our own module
                [python, *_COMMAND],
                stdin=subprocess.PIPE,
                stdout=self._printed,
                stderr=self._printed,
                pass_fds=[self._writing],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                start_new_session=True,
            )
        except BaseException:
            os.close(self.reading)
            self._printed.close()
            raise
        finally:
            os.close(self._writing)

    def ask(self, catalog: str | None, base: str | None, providers: tuple[str, ...]) -> None:
        """Send the request."""
        # The descriptor has the same number over there.
        request = Request(answer_to=self._writing, catalog=catalog, base=base, providers=providers)
        # A process that is dead already says so by its end.
        with suppress(BrokenPipeError), self.process.stdin as stdin:  # type: ignore[union-attr]  # a pipe was asked for
            stdin.write(msgspec.json.encode(request))

    def read(self) -> None:
        """Take in what it has written by now."""
        while not self.is_over:
            try:
                data = os.read(self.reading, _READ)
            except BlockingIOError:
                return
            self.is_over = not data
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except msgspec.DecodeError:
            self.fresh.ended = "wrote an answer that can't be read"
            self.is_over = True
            return
        match message:
            case Step():
                self.fresh.doing = message.doing
            case Event():
                self.fresh.events.append(message)
            case Answer():
                self.fresh.answer = message
                self.is_over = True

    def judge(self, deadline_s: float) -> None:
        """Find out how one ended that did not answer, and what it printed."""
        if self.fresh.answer is not None:
            return
        if not self.is_over:
            self.fresh.ended = f"gave no answer within {deadline_s:g} s"
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self.process.send_signal(signal.SIGUSR1)
                self.process.wait(_LAST_WORDS)
        elif not self.fresh.ended:
            self.fresh.ended = _how(self._code())
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _LONGEST_PRINT))
        text = self._printed.read().decode(errors="replace")
        # A line that is cut off at its front may be half a secret, which nobody would know for one.
        self.fresh.printed = text if size <= _LONGEST_PRINT else text.partition("\n")[2]

    def _code(self) -> int | None:
        try:
            # Its pipe is closed already: it is about to end, or closed every descriptor and goes on.
            return self.process.wait(_LAST_WORDS)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """Kill what is left of it, its children too, and close everything."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.reading)
        self._printed.close()


def _how(code: int | None) -> str:
    if code is None:
        return "closed the pipe that its answer goes to"
    if code >= 0:
        return f"ended with exit code {code} before it answered"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
