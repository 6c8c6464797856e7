# SPDX-License-Identifier: Apache-2.0
"""What asking a judge costs: wall time against the ideal, and the client's processor time a call, beside other clients.

    python benchmarks/judge_concurrency.py [--groups 64] [--size 8] [--concurrency 64] [--latency 0.2] [--repeats 5]

One call a candidate, against a server on this machine in another process that answers after a fixed latency. The ideal
is calls x latency / concurrency. The rows take turns, after one round that is not counted. Posttrain is timed twice:
`JudgeEndpoint.ask` alone, and the whole stage, from `RewardWorker.score` with a `RubricJudge` to the advantages. TRL's
row is its own call of an async reward function. The server shares the machine's cores. Ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import importlib.util
import os
import platform
import resource
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

from peers.judge_clients import ask_aiohttp, ask_openai, ask_raw
from peers.judge_service import ANSWER, judge_service
from peers.workload import Group
from posttrain.judges import JudgeConfig, RubricItem, RubricJudge
from posttrain.judges.endpoint import JudgeCall, JudgeEndpoint
from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory

Row = Callable[[str], None]
"""Asks everything once, at the URL that it is given."""


class Cost(NamedTuple):
    """One repeat of a row."""

    wall_s: float
    cpu_s: float


def workload(groups: int, size: int) -> list[Group]:
    """Groups of texts of about 200 tokens, all different."""
    filler = "a response that goes on for a while and then a little longer " * 10
    return [
        Group(f"g{at}", f"question {at}", "none", [f"{at}.{number} {filler}" for number in range(size)])
        for at in range(groups)
    ]


def _trajectories(groups: Sequence[Group]) -> list[Trajectory]:
    return [
        Trajectory(
            trajectory_id=f"{group.group_id}/{number}",
            group_id=group.group_id,
            obs=Observation(id=group.group_id, prompt=group.prompt),
            completion=text,
            policy_info={"finish_reason": "stop"},
        )
        for group in groups
        for number, text in enumerate(group.completions)
    ]


def stage_row(url: str, groups: Sequence[Group], size: int, concurrency: int, stack: ExitStack) -> Row:
    """The whole stage with a rubric of one item."""
    config = JudgeConfig(model="judge", revision="1", base_url=url, concurrency=concurrency)
    judge = RubricJudge(items=(RubricItem("correct", "The answer is right."),))
    worker = stack.enter_context(RewardWorker(catalog={"judge": judge.spec(config)}, reward="judge", group_size=size))

    def run(_: str) -> None:
        report = worker.score(_trajectories(groups))
        if report.metrics()["train/reward/final/mean"] != 1.0:
            raise RuntimeError("the stage did not see the judge's answers")

    return run


def endpoint_row(url: str, texts: Sequence[str], concurrency: int, stack: ExitStack) -> Row:
    """One ask of all questions, as plain as those of the other clients."""
    config = JudgeConfig(model="judge", revision="1", base_url=url, concurrency=concurrency)
    endpoint = JudgeEndpoint(config, hashlib.sha256(b"benchmark").hexdigest())
    endpoint.open()
    stack.callback(endpoint.close)
    calls = [JudgeCall(messages=({"role": "user", "content": text},), parse=str, key=text[:8]) for text in texts]

    def run(_: str) -> None:
        if {answer.value for answer in endpoint.ask(calls)} != {ANSWER}:
            raise RuntimeError("the endpoint gave other answers")

    return run


def other_rows(groups: Sequence[Group], texts: Sequence[str], size: int, concurrency: int) -> dict[str, Row]:
    """The clients and peers that are installed."""

    def asked(ask: Callable[..., object], url: str) -> None:
        asyncio.run(ask(url, texts, concurrency))  # type: ignore[arg-type]  # each of them is a coroutine function

    found: dict[str, Row] = {
        "raw sockets": partial(asked, ask_raw),
        "aiohttp, one session": partial(asked, ask_aiohttp),
    }
    if importlib.util.find_spec("openai") is not None:
        found["openai, one AsyncOpenAI"] = partial(asked, ask_openai)
        if importlib.util.find_spec("trl") is not None:
            from peers.trl_judge_path import trl_judge

            found["TRL, async reward function"] = trl_judge(groups, size, concurrency)
    return found


def timed(row: Row, url: str) -> Cost:
    """Wall and processor time of this process for one round."""
    before, started = resource.getrusage(resource.RUSAGE_SELF), perf_counter()
    row(url)
    wall, after = perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    groups = workload(options.groups, options.size)
    texts = [text for group in groups for text in group.completions]
    ideal = len(texts) * options.latency / options.concurrency
    with judge_service(options.latency) as url, ExitStack() as stack:
        rows = {
            "posttrain: RewardWorker.score": stage_row(url, groups, options.size, options.concurrency, stack),
            "posttrain: JudgeEndpoint.ask": endpoint_row(url, texts, options.concurrency, stack),
            **other_rows(groups, texts, options.size, options.concurrency),
        }
        costs: dict[str, list[Cost]] = {name: [] for name in rows}
        for repeat in range(options.repeats + 1):
            for name, row in rows.items():
                cost = timed(row, url)
                if repeat:
                    costs[name].append(cost)
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, load {load:.1f}, {len(texts)} calls, concurrency {options.concurrency}")
    print(f"latency {options.latency * 1000:g} ms, ideal {ideal:.3f} s, {options.repeats} repeats; medians (least)\n")
    print(f"  {'':32} {'wall s':>16} {'x ideal':>8} {'client CPU us a call':>22}")
    for name, found in costs.items():
        wall = statistics.median(cost.wall_s for cost in found)
        cpu = [cost.cpu_s / len(texts) * 1e6 for cost in found]
        ratio = f"{wall / ideal:8.3f}" if ideal else f"{'-':>8}"
        least = min(cost.wall_s for cost in found)
        print(f"  {name:32} {wall:8.3f} ({least:.3f}) {ratio} {statistics.median(cpu):14.0f} ({min(cpu):.0f})")


if __name__ == "__main__":
    main()
