# SPDX-License-Identifier: Apache-2.0
"""What the reward stage costs a candidate, beside the bare scorer and the peers' own reward paths, in one run.

    python benchmarks/stage_overhead.py [--groups 512] [--size 16] [--tokens 200 2000] [--repeats 7]

The reward is one substring search. Every row scores the same texts; the rows take turns, so that a machine that slows
down slows all of them. Peers are timed when they are installed in the running interpreter: TRL 1.16 from its texts to
its advantages and logs, verifiers (classic rubric, before 0.4) from its states to reward and advantage. Their numbers
are medians of the same repeats. Ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import random
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from peers.workload import Group, Lap, Timed
from posttrain.rewards import (
    RewardCandidate,
    RewardContext,
    RewardProviderResult,
    RewardProviderSpec,
    RewardWorker,
    map_candidates,
)
from posttrain.schema import Observation, Trajectory


def words(count: int, rng: random.Random) -> list[str]:
    """Made-up lower-case words of 2 to 9 letters."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(count)]


def workload(groups: int, size: int, tokens: int) -> list[Group]:
    """Groups of texts of about `tokens` tokens (1.6 a word); about half of them hold the reference near their end."""
    rng = random.Random(20)
    vocabulary = words(4000, rng)
    bodies = [" ".join(rng.choices(vocabulary, k=round(tokens / 1.6))) for _ in range(256)]
    made = []
    for number in range(groups):
        reference = f"ANSWER{number:05d}"
        completions = []
        for _ in range(size):
            body = rng.choice(bodies)
            at = rng.randrange(len(body)) if rng.random() < 0.5 else None
            completions.append(body + " " if at is None else f"{body[:at]} {reference} {body[at:]}")
        made.append(Group(f"g{number}", " ".join(rng.choices(vocabulary, k=30)), reference, completions))
    return made


def holds(completion: str, reference: str) -> float:
    """The reward: 1.0 when the reference stands in the completion."""
    return 1.0 if reference in completion else 0.0


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """The same reward for the stage."""
    return RewardProviderResult(terms={"task": holds(candidate.completion, str(context.reference))})


def trajectories_of(groups: list[Group]) -> list[Trajectory]:
    """Fresh records, as a rollout would hand them over."""
    made = []
    for group in groups:
        observation = Observation(id=group.group_id, prompt=group.prompt, reference=group.reference)
        made += [
            Trajectory(
                trajectory_id=f"{group.group_id}/{index}",
                group_id=group.group_id,
                obs=observation,
                completion=completion,
                policy_info={"finish_reason": "stop"},
            )
            for index, completion in enumerate(group.completions)
        ]
    return made


def time_bare(groups: list[Group]) -> Timed:
    """The scorer alone: nothing can be below this."""

    def run() -> Lap:
        started = perf_counter()
        for group in groups:
            for completion in group.completions:
                holds(completion, group.reference)
        return perf_counter() - started

    return run


def time_stage(groups: list[Group], size: int) -> Timed:
    """`RewardWorker.score` with every check on."""
    spec = RewardProviderSpec(
        factory=partial(map_candidates, score_candidate), revision="1", terms=("task",), needs=("reference",)
    )
    worker = RewardWorker(catalog={"substring": spec}, reward="substring", group_size=size)

    def run() -> Lap:
        batch = trajectories_of(groups)
        started = perf_counter()
        worker.score(batch)
        return perf_counter() - started

    return run


def peers(groups: list[Group], size: int) -> dict[str, Timed]:
    """The peers that are installed here."""
    found: dict[str, Timed] = {}
    if importlib.util.find_spec("trl") is not None:
        from peers.trl_path import time_trl

        found["TRL: texts to advantages and logs"] = time_trl(groups, size, holds)
    if importlib.util.find_spec("verifiers") is not None:
        from peers.verifiers_path import time_verifiers

        found["verifiers: group function"] = time_verifiers(groups, holds, by_group=True)
        found["verifiers: function per rollout"] = time_verifiers(groups, holds, by_group=False)
    return found


def measure(rows: dict[str, Callable[[], Lap]], repeats: int, candidates: int) -> dict[str, list[float]]:
    """Microseconds a candidate of every repeat; the rows take turns, after one round that is not counted."""
    laps: dict[str, list[float]] = {name: [] for name in rows}
    for repeat in range(repeats + 1):
        for name, run in rows.items():
            lap = run() / candidates * 1e6
            if repeat:
                laps[name].append(lap)
    return laps


def main() -> None:
    """Print one table per completion length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=512)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--tokens", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {options.groups} groups of {options.size}, {options.repeats} repeats")
    for tokens in options.tokens:
        groups = workload(options.groups, options.size, tokens)
        candidates = options.groups * options.size
        rows = {"bare scorer": time_bare(groups), "posttrain: worker.score": time_stage(groups, options.size)}
        rows |= peers(groups, options.size)
        laps = measure(rows, options.repeats, candidates)
        medians = {name: statistics.median(values) for name, values in laps.items()}
        stage = medians["posttrain: worker.score"]
        print(f"\nabout {tokens} tokens: microseconds a candidate")
        print(f"  {'':36} {'median':>8} {'min':>8} {'max':>8}   stage / this")
        for name, values in laps.items():
            print(
                f"  {name:36} {medians[name]:8.2f} {min(values):8.2f} {max(values):8.2f}   {stage / medians[name]:8.2f}"
            )


if __name__ == "__main__":
    main()
