# SPDX-License-Identifier: Apache-2.0
"""Evaluate groups in worker processes that can be killed without harm to the caller."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError, describe
from posttrain.execution.processes.dispatch import Call
from posttrain.execution.processes.limits import Limits
from posttrain.execution.processes.messages import Start, promise_of
from posttrain.execution.processes.pool import Pool
from posttrain.rewards.scorers import BUILT_IN
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.prepare import Selection, construct

__all__ = ["ProcessEvaluator"]

_FILE: Final = re.compile(r"(?P<file>.*\.py)@sha256:[0-9a-f]{64}:(?P<attribute>.+)", re.DOTALL)


@final
class ProcessEvaluator:
    """A `GroupEvaluator` for scorers that compute, or that are not trusted to return.

    Each worker is a process that was started afresh: it resolves the catalog itself, constructs and opens its own
    providers, and evaluates one group at a time. One that is too slow with a group, grows too large or dies is killed
    and replaced, and its group is a `RewardUnavailableError` that names provider and group, and the candidate under
    `map_candidates`. Results are those of the in-process evaluator to the bit. It may be called from several threads,
    which share the workers.

    Args:
        workers: processes, at least 1.
        group_timeout_s: wall-clock seconds for one group by all selected providers.
        memory_limit_mib: bound on the resident memory of a worker and what it started, looked at every 50 ms. Default:
            none.
        start_timeout_s: seconds for a worker to start and open its providers; to close them it has as many, at most 10.
        catalog_folder: folder that a catalog file is relative to. Default: the working directory.

    Raises:
        RewardConfigError: naming every argument that is not valid.

    Example:
        ::

            evaluator = ProcessEvaluator(workers=4, group_timeout_s=30)
            with RewardWorker(catalog="my_rewards:catalog", reward="code", group_size=8, evaluator=evaluator) as worker:
                worker.score(trajectories)
    """

    def __init__(
        self,
        *,
        workers: int = 4,
        group_timeout_s: float = 300.0,
        memory_limit_mib: int | None = None,
        start_timeout_s: float = 60.0,
        catalog_folder: Path | str | None = None,
    ) -> None:
        self._limits = Limits(
            workers=workers,
            group_timeout_s=group_timeout_s,
            memory_limit_mib=memory_limit_mib,
            start_timeout_s=start_timeout_s,
        )
        self._folder = None if catalog_folder is None else Path(catalog_folder)
        self._count = self._limits.workers
        self._names: tuple[str, ...] = ()
        self._start: bytes | None = None
        self._pool: Pool | None = None
        self._unfinished: Pool | None = None
        """A pool that is being opened, or whose opening was interrupted."""
        self._restarts = 0
        # Whoever opens or closes; evaluating needs none.
        self._changing = threading.RLock()

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return f"ProcessEvaluator({state}, workers={self._count}, group_timeout_s={self._limits.group_timeout_s:g})"

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """See `GroupEvaluator.prepare`. The providers are constructed here too, as a check, and let go of again.

        Raises:
            RewardConfigError: a factory does not keep its contract; the catalog has no path that a worker could
                resolve; a provider is rank-local.
        """
        if groups_in_flight is not None and (type(groups_in_flight) is not int or groups_in_flight < 1):
            raise RewardConfigError(
                f"groups_in_flight: expected an int of at least 1, got {describe(groups_in_flight)}"
            )
        _refuse_rank_local(selection)
        path, folder = self._resolvable(selection)
        for name, spec in zip(selection.names, selection.specs, strict=True):
            construct(name, spec)
        pairs = zip(selection.identities, selection.specs, strict=True)
        start = Start(path, folder, tuple(sys.path), tuple(promise_of(identity, spec) for identity, spec in pairs))
        self.close()
        self._names, self._start = selection.names, msgspec.msgpack.encode(start)
        self._count = min(self._limits.workers, groups_in_flight or self._limits.workers)

    def _resolvable(self, selection: Selection) -> tuple[str | None, str | None]:
        """The catalog's path as a worker resolves it, and the folder that it is relative to."""
        path = selection.catalog.path
        if path is None:
            if custom := [name for name in selection.names if name not in BUILT_IN]:
                raise RewardConfigError(
                    f"{', '.join(map(repr, custom))}: a catalog that was passed as an object can't be resolved in a "
                    'worker process; put it into a module and pass its path, catalog="my_rewards:catalog"'
                )
            return None, None
        if path.startswith("__main__:"):
            raise RewardConfigError(
                f"catalog {path!r} is in the script itself, which a worker process does not run again; put it into a "
                'module and pass its path, catalog="my_rewards:catalog"'
            )
        if (file := _FILE.fullmatch(path)) is None:
            return path, None
        return f"{file['file']}:{file['attribute']}", str((self._folder or Path.cwd()).resolve())

    @property
    def groups_in_flight(self) -> int:
        """See `GroupEvaluator.groups_in_flight`: the number of workers, each with one group."""
        return self._count

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that run now."""
        pool = self._pool
        return () if pool is None else tuple(it.pid for each in pool.workers if (it := each.child) is not None)

    @property
    def restarts(self) -> int:
        """Workers that were killed or died and were replaced, since the evaluator was made."""
        pool = self._pool
        return self._restarts + (0 if pool is None else pool.restarts)

    def open(self) -> None:
        """Start the workers and wait until their providers are open.

        Raises:
            RewardConfigError: a worker can't start, its catalog is another one, or the machine lacks what a provider
                needs.
            RewardError: a provider failed to open.
        """
        if self._is_open:
            return
        with self._changing:
            if self._is_open:
                return
            self.close()  # what an interrupt has left of an earlier life
            if self._start is None:
                raise RewardConfigError("the evaluator is not prepared: give it to a RewardWorker as its evaluator")
            pool = self._unfinished = Pool(self._count, self._start, self._limits)
            try:
                Call(pool, (), self._names, self._limits, collect_unavailable=False).open_all()
            except BaseException:
                self._drop_unfinished()
                raise
            self._pool, self._unfinished = pool, None

    @property
    def _is_open(self) -> bool:
        pool = self._pool
        return pool is not None and not pool.is_closing

    def _drop_unfinished(self) -> None:
        if self._unfinished is not None:
            for worker in self._unfinished.workers:
                worker.stop()
            self._unfinished = None

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """See `GroupEvaluator.evaluate`. From several threads at once, each gets its share of the workers."""
        self.open()
        pool = self._pool
        if pool is None:
            raise RewardUnavailableError("the evaluator was closed while groups were to be evaluated on it")
        outcomes = Call(pool, groups, self._names, self._limits, collect_unavailable=collect_unavailable).run()
        evaluations: list[GroupEvaluation] = []
        failure: BaseException | None = None
        for outcome in outcomes:
            if isinstance(outcome, tuple) or (collect_unavailable and isinstance(outcome, RewardUnavailableError)):
                evaluations.append(outcome)
            elif outcome is not None and failure is None:
                failure = outcome
        if failure is not None:
            raise failure
        if len(evaluations) != len(groups):
            raise RewardError(f"{len(evaluations)} of {len(groups)} groups came back")
        return evaluations

    def close(self) -> None:
        """See `GroupEvaluator.close`. What another thread still opens or evaluates is given up."""
        if (opening := self._unfinished) is not None:
            # Else the lock would be waited for as long as a provider may take to open.
            opening.is_closing = True
            for worker in opening.workers:
                if (child := worker.child) is not None:
                    child.kill()
        with self._changing:
            self._drop_unfinished()
            if (pool := self._pool) is not None:
                try:
                    pool.close()
                except RewardError:
                    self._let_go(pool)
                    raise
                self._let_go(pool)

    def _let_go(self, pool: Pool) -> None:
        self._restarts, self._pool = self._restarts + pool.restarts, None


def _refuse_rank_local(selection: Selection) -> None:
    local = [name for name, spec in zip(selection.names, selection.specs, strict=True) if spec.execution.rank_local]
    if local:
        raise RewardConfigError(
            f"{', '.join(map(repr, local))} scores latents, which never leave their rank: evaluate it in process or "
            "with RankEvaluator, not in worker processes"
        )
