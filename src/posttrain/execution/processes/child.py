# SPDX-License-Identifier: Apache-2.0
"""A worker process: resolves the catalog itself, opens its own providers, and evaluates one group after the other.

Run as `python -P -u -m posttrain.execution.processes.child` by `posttrain.execution.processes.worker`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError, listing
from posttrain.execution.ending import ended_by
from posttrain.execution.processes.attached import Attached, attach
from posttrain.execution.processes.board import Board
from posttrain.execution.processes.messages import GROUP_HEAD, Kind, Promise, Start, promise_of
from posttrain.execution.wire import Outcome, decode_groups, encode_error, encode_outcomes
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.failure import classified
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.pointwise import watch_candidates
from posttrain.rewards.contract.provider import CheckedRewardProvider
from posttrain.rewards.contract.request import RewardCandidate
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.boundary import GroupScores, evaluate_group
from posttrain.rewards.stage.prepare import PreparedProvider, construct

__all__ = ["main"]

_decode_start: Final = msgspec.msgpack.Decoder(Start).decode


@final
class _Evaluation:
    """Evaluates groups and keeps the board up to date."""

    def __init__(self, prepared: tuple[PreparedProvider, ...], board: Board) -> None:
        self._prepared = prepared
        self._cells = board.cells
        self._candidates: object = None
        self._thread = threading.get_ident()
        watch_candidates(self._watched)

    def evaluate(self, number: int, group: BoundGroup, *, collect_unavailable: bool) -> Outcome:
        """The outcome of one group, as the in-process evaluator has it; None: the driver has cancelled it."""
        cells = self._cells
        cells[Board.PROVIDER] = cells[Board.CANDIDATE] = 0
        cells[Board.SINCE] = time.monotonic_ns()
        cells[Board.STARTED] = number
        if 0 < cells[Board.CANCELLED] <= number:
            return None
        scores: list[GroupScores] = []
        unavailable: RewardUnavailableError | None = None
        for index, (prepared, request) in enumerate(zip(self._prepared, group.requests, strict=True)):
            cells[Board.PROVIDER], cells[Board.CANDIDATE] = index, 0
            self._candidates = request.candidates
            try:
                scores.append(evaluate_group(prepared, request))
            except RewardUnavailableError as error:
                if not collect_unavailable:
                    return error
                unavailable = error if unavailable is None else unavailable
            except (RewardError, CancelledError) as error:
                return error
            except (SystemExit, KeyboardInterrupt) as error:
                return ended_by(prepared.name, request, error)
        return tuple(scores) if unavailable is None else unavailable

    def _watched(self, candidates: tuple[RewardCandidate, ...]) -> Iterator[RewardCandidate]:
        # Only of the group itself, and in the thread that evaluates it, does an index say which candidate is meant.
        if candidates is not self._candidates or threading.get_ident() != self._thread:
            yield from candidates
            return
        cells = self._cells
        for number, candidate in enumerate(candidates, 1):
            cells[Board.CANDIDATE] = number
            yield candidate
        cells[Board.CANDIDATE] = 0


def main() -> None:
    """Serve the driver until it hangs up."""
    driver = attach()
    first = driver.receive()
    if first is None:
        return
    start = _decode_start(first[1])
    with ExitStack() as providers:
        try:
            evaluation = _begin(start, driver.board, providers)
        except RewardError as error:
            driver.send(Kind.REFUSED, encode_error(error))
            return
        driver.send(Kind.READY)
        _serve(driver, evaluation)
        try:
            providers.close()
        except RewardError as error:
            driver.send(Kind.CLOSED, encode_error(error))
            return
    driver.send(Kind.CLOSED)


def _begin(start: Start, board: Board, providers: ExitStack) -> _Evaluation:
    """Everything up to open providers, which `providers` closes."""
    sys.path[:] = start.path
    catalog = load_catalog(start.catalog, base=None if start.folder is None else Path(start.folder))
    board.cells[Board.PROVIDER] = 1
    names = [promise.identity.provider for promise in start.promises]
    _check_promises(start.promises, tuple(promise_of(catalog.identity(name), catalog.spec(name)) for name in names))
    prepared = tuple(construct(name, catalog.spec(name)) for name in names)
    board.cells[Board.PROVIDER] = 2
    _check_machine(prepared)
    board.cells[Board.PROVIDER] = 3
    providers.enter_context(opened({each.name: each.provider for each in prepared}))
    board.cells[Board.PROVIDER] = 4
    return _Evaluation(prepared, board)


def _check_promises(driver: tuple[Promise, ...], here: tuple[Promise, ...]) -> None:
    different = [
        f"provider {theirs.identity.provider!r}: the driver has {theirs}; the worker found {ours}"
        for theirs, ours in zip(driver, here, strict=True)
        if theirs != ours
    ]
    if different:
        raise RewardConfigError(
            f"the catalog is another one in the worker than in the driver, so nothing is scored:\n"
            f"{listing(different)}\n"
            "A catalog has to come out the same in every process: make it depend on nothing but its code, and start "
            "the run again when that was edited."
        )


def _check_machine(prepared: tuple[PreparedProvider, ...]) -> None:
    faults: list[RewardConfigError] = []
    for each in prepared:
        if isinstance(each.provider, CheckedRewardProvider):
            try:
                each.provider.check_machine()
            except RewardConfigError as error:
                error.provider = error.provider or each.name
                faults.append(error)
            except Exception as error:
                raise classified(error, provider=each.name) from error
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise RewardConfigError("\n".join(map(str, faults)))


def _serve(driver: Attached, evaluation: _Evaluation) -> None:
    while (message := driver.receive()) is not None:
        kind, payload = message
        if kind == Kind.CLOSE:
            return
        number, collect_unavailable = GROUP_HEAD.unpack_from(payload)
        groups = decode_groups(memoryview(payload)[GROUP_HEAD.size :])
        outcome = evaluation.evaluate(number, groups[0], collect_unavailable=collect_unavailable)
        head = GROUP_HEAD.pack(number, collect_unavailable)
        driver.send(Kind.ANSWER, head + encode_outcomes(groups, [outcome]))


if __name__ == "__main__":
    main()
