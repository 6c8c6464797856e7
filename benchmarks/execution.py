# SPDX-License-Identifier: Apache-2.0
"""Overhead of worker processes: the whole stage on each backend, on the same batches, taking turns.

    python benchmarks/execution.py            # 512 groups of 16, about 200 tokens each
    python benchmarks/execution.py --scaling  # a provider that waits and one that computes, on 1, 2, 4, 8 workers

Printed are microseconds a candidate (medians of the repeats) and what a backend adds to the in-process evaluator.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

from posttrain.execution import ProcessEvaluator
from posttrain.rewards import (
    GroupEvaluator,
    RewardCandidate,
    RewardCandidateResult,
    RewardContext,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
    map_candidates,
)
from posttrain.schema import Observation, Trajectory

__all__ = ["CATALOG", "batch_of", "catalog", "measure", "table", "worker_on"]

CATALOG = f"{Path(__file__).stem}:catalog"
"""Path of the catalog below, for evaluators that resolve it elsewhere; its folder is put on ``sys.path``."""

Laps: TypeAlias = dict[str, list[float]]


def _holds(candidate: RewardCandidate, _: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": float("zebra" in candidate.completion)})


def _hashes(candidate: RewardCandidate, _: RewardContext) -> RewardProviderResult:
    digest = candidate.completion.encode()
    for _turn in range(1500):  # about a millisecond of work that no cache shortens
        digest = hashlib.sha256(digest).digest()
    return RewardProviderResult({"task": digest[0] / 255})


class Waiting:
    """A judge far away: each group takes 50 ms, and no processor time."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Wait, then pay everyone the same."""
        time.sleep(0.05)
        result = RewardProviderResult({"task": 1.0})
        items = tuple(RewardCandidateResult(each.trajectory_id, result) for each in request.candidates)
        return RewardGroupResult(request.group_id, items)


def catalog() -> dict[str, RewardProviderSpec]:
    """A substring search, work for the processor, and a wait."""
    return {
        name: RewardProviderSpec(factory=factory, revision="1", terms=("task",))
        for name, factory in (
            ("holds", partial(map_candidates, _holds)),
            ("hashes", partial(map_candidates, _hashes)),
            ("waits", Waiting),
        )
    }


def batch_of(groups: int, size: int, tokens: int) -> list[Trajectory]:
    """Complete groups whose completions are about as long as so many tokens."""
    text = "some words " * (tokens * 4 // 11)
    batch = []
    for group in range(groups):
        obs = Observation(id=f"g{group}", prompt="Name an animal.")
        batch += [
            Trajectory(trajectory_id=f"g{group}/{index}", group_id=obs.id, obs=obs, completion=f"{text}{group * index}")
            for index in range(size)
        ]
    return batch


def worker_on(evaluator: GroupEvaluator | None, reward: str, size: int) -> RewardWorker:
    """The stage with that reward on an evaluator; None: in process."""
    return RewardWorker(catalog=CATALOG, reward=reward, group_size=size, evaluator=evaluator)


def measure(runs: dict[str, Callable[[], object]], repeats: int) -> Laps:
    """Seconds of every repeat; the runs take turns, after one round that is not counted."""
    laps: Laps = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = perf_counter()
            run()
            if repeat:
                laps[name].append(perf_counter() - started)
    return laps


def table(title: str, laps: Laps, candidates: int) -> None:
    """Microseconds a candidate, and what each row adds to the first."""
    print(f"\n{title}: microseconds a candidate")
    print(f"  {'':28} {'median':>9} {'min':>9} {'max':>9} {'above first':>12} {'first / this':>13}")
    base = 0.0
    for name, seconds in laps.items():
        micros = [each / candidates * 1e6 for each in seconds]
        median = statistics.median(micros)
        base = base or median
        spread = f"{median:9.2f} {min(micros):9.2f} {max(micros):9.2f}"
        print(f"  {name:28} {spread} {median - base:12.2f} {base / median:13.2f}")


def on_each(evaluators: dict[str, GroupEvaluator | None], reward: str, batch: list[Trajectory], repeats: int) -> Laps:
    """Score the batch on every evaluator, all of them open at once, each idle while another is measured."""
    size = sum(each.group_id == batch[0].group_id for each in batch)
    with ExitStack() as stack:
        workers = {
            name: stack.enter_context(worker_on(evaluator, reward, size)) for name, evaluator in evaluators.items()
        }
        return measure({name: partial(worker.score, batch) for name, worker in workers.items()}, repeats)


def overhead(groups: int, size: int, tokens: Sequence[int], repeats: int) -> None:
    """One table for each completion length."""
    for length in tokens:
        batch = batch_of(groups, size, length)
        evaluators: dict[str, GroupEvaluator | None] = {
            "in process": None,
            "1 worker process": ProcessEvaluator(workers=1),
            "2 worker processes": ProcessEvaluator(workers=2),
        }
        table(
            f"{groups} groups of {size}, about {length} tokens",
            on_each(evaluators, "holds", batch, repeats),
            len(batch),
        )


def scaling(repeats: int) -> None:
    """The provider that waits should get faster with each worker, the one that computes up to the cores."""
    for reward, batch in (("waits", batch_of(64, 16, 50)), ("hashes", batch_of(64, 16, 50))):
        evaluators: dict[str, GroupEvaluator | None] = {
            f"{count} workers": ProcessEvaluator(workers=count) for count in (1, 2, 4, 8)
        }
        table(f"64 groups of 16, a provider that {reward}", on_each(evaluators, reward, batch, repeats), len(batch))


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=512)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--tokens", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--scaling", action="store_true", help="only the scaling over workers")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))
    print(f"Python {platform.python_version()}, {options.repeats} repeats")
    if options.scaling:
        scaling(min(3, options.repeats))
    else:
        overhead(options.groups, options.size, options.tokens, options.repeats)


if __name__ == "__main__":
    main()
