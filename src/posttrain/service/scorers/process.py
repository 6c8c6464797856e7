# SPDX-License-Identifier: Apache-2.0
"""One scorer's process: started when it is needed, killed when it hangs or grows too large, and then started anew."""

from __future__ import annotations

import math
import select
import threading
from time import monotonic
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError
from posttrain.execution.processes.handle import ChildProcess
from posttrain.execution.processes.memory import resident_bytes
from posttrain.execution.wire import WireError
from posttrain.service.scorers.call import ScoreCall, ScoreReply
from posttrain.service.scorers.messages import LOAD, READY, REFUSED, REPLY, SCORE, pack, unpack_reply, unpack_text
from posttrain.service.scorers.spec import ScorerSpec
from posttrain.service.work.worker import WorkerLostError

__all__ = ["ScorerProcess"]

_MODULE: Final = "posttrain.service.scorers.child"
_LOOK_S: Final = 0.05
"""Seconds between two looks at the memory, and at a process where the system can't tell of its end."""
_LAST_MOMENT_S: Final = 5.0
_MIB: Final = 1 << 20
_STACK: Final = "Stack (most recent call first):"
_SHOWN: Final = 3


@final
class ScorerProcess:
    """Scores with one function, one batch at a time; a `posttrain.service.work.worker.ScoringWorker`.

    Args:
        spec: whose function.
        start_timeout_s: seconds that it may take until the function is loaded.
        memory_limit_mib: resident memory, the mapped array included, above which the process is killed.
    """

    def __init__(self, spec: ScorerSpec, *, start_timeout_s: float, memory_limit_mib: int | None) -> None:
        self._spec = spec
        self._start_timeout_s = start_timeout_s
        self._limit = None if memory_limit_mib is None else memory_limit_mib * _MIB
        self._child: ChildProcess | None = None
        self._closed = False
        # Guards the two above: `close` comes from another thread.
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process and load the function, if it does not run yet.

        Raises:
            RewardConfigError: the function can't be loaded.
            WorkerLostError: the process hangs or dies.
        """
        if self._child is not None:
            return
        with self._lock:
            if self._closed:
                raise WorkerLostError("it is closed", cause="start")
            child = self._child = ChildProcess(_MODULE, name=f"scorer {self._spec.name}")
        child.send(LOAD, pack(self._spec.function))
        kind, payload = self._answer(child, self._start_timeout_s, "it was loaded")
        if kind == REFUSED:
            text = unpack_text(payload)
            self._end(child)
            raise RewardConfigError(text)
        if kind != READY:
            raise self._lost(child, "sent an answer that nobody asked for", "died")

    def score(self, call: ScoreCall, *, timeout_s: float) -> ScoreReply:
        """See `ScoringWorker.score`."""
        try:
            self.start()
        except RewardError as error:
            raise WorkerLostError(f"the scorer can't be started: {error.message}", cause="start") from error
        child = self._child
        if child is None:
            raise WorkerLostError("it is closed", cause="start")
        child.send(SCORE, pack(call))
        kind, payload = self._answer(child, timeout_s, "it scored")
        if kind != REPLY:
            raise self._lost(child, "sent an answer that nobody asked for", "died")
        try:
            return unpack_reply(payload)
        except msgspec.DecodeError as error:
            raise self._lost(child, "sent an answer that can't be read", "died") from error

    def close(self) -> None:
        """See `ScoringWorker.close`."""
        with self._lock:
            self._closed = True
            child = self._child
            if child is not None:
                # The thread that waits for it, if any, sees its end and lets go of it too.
                child.kill()

    def release(self) -> None:
        """After `close`, from the thread that scores: reap the process if no call has done so."""
        if self._child is not None:
            self._end(self._child)

    def _answer(self, child: ChildProcess, timeout_s: float, doing: str) -> tuple[int, bytes]:
        """The next message of the process.

        Raises:
            WorkerLostError: there is none; the process is gone for good.
        """
        deadline = monotonic() + timeout_s
        while (left := deadline - monotonic()) > 0:
            if self._limit is not None and (used := resident_bytes(child.pid)) > self._limit:
                limit = f"{used // _MIB} MiB of memory, above the limit of {self._limit // _MIB} MiB"
                raise self._lost(child, f"used {limit}", "memory", doing)
            _wait(child, left if self._limit is None else min(left, _LOOK_S))
            child.flush()
            child.read_printed()
            try:
                for message in child.receive():
                    return message
            except WireError as error:
                raise self._lost(child, "wrote an answer that can't be read", "died", doing) from error
            if child.is_hung_up or child.has_ended:
                raise self._lost(child, None, "died", doing)
        child.ask_where()
        raise self._lost(child, f"did not answer within {timeout_s:g} s", "timeout", doing)

    def _lost(self, child: ChildProcess, what: str | None, cause: str, doing: str = "it scored") -> WorkerLostError:
        how = self._end(child)
        printed = child.printed.last_lines
        if _STACK in printed:
            # It was asked where it is: the innermost calls come first.
            at = len(printed) - 1 - printed[::-1].index(_STACK)
            printed = printed[at + 1 : at + 1 + _SHOWN]
        last = f"; it printed last: {' | '.join(map(str.strip, printed[-_SHOWN:]))}" if printed else ""
        return WorkerLostError(f"the scorer's process {what or how} while {doing}{last}", cause=cause)

    def _end(self, child: ChildProcess) -> str:
        with self._lock:
            self._child = None
            # A process that closed its channel by itself is about to end: its own exit code tells more than our kill.
            return child.end(patience_s=_LAST_MOMENT_S if child.is_hung_up else 0.0)


def _wait(child: ChildProcess, seconds: float) -> None:
    """Until something is to be read or sent, the process ends, or the time is over."""
    # Not `select`: its descriptors have to be small numbers, and a busy server has many open.
    poller = select.poll()
    poller.register(child.channel, select.POLLIN | (select.POLLOUT if child.has_unsent else 0))
    poller.register(child.printing, select.POLLIN)
    if child.death is not None:
        poller.register(child.death, select.POLLIN)
    else:
        seconds = min(seconds, _LOOK_S)
    poller.poll(math.ceil(seconds * 1000))
