# SPDX-License-Identifier: Apache-2.0
"""Overhead and scaling of reward actors on a local Ray, beside the in-process evaluator, in one run.

    python benchmarks/execution_ray.py              # overhead, 512 groups of 16
    python benchmarks/execution_ray.py --scaling    # a provider that waits and one that computes, on 1, 2, 4, 8 actors
    python benchmarks/execution_ray.py --memory     # 100,000 candidates: resident memory of the driver
    python benchmarks/execution_ray.py --constants  # what the model of docs/scale.md is made of

Every actor asks for a tenth of a core, so that the machine's cores are what limits the computing ones.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import shutil
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter, process_time

from execution import batch_of, on_each, table, worker_on
from posttrain.execution import RayEvaluator
from posttrain.execution.ray.member import Member, least_loaded
from posttrain.execution.wire import decode_groups, decode_outcomes, encode_groups, encode_outcomes
from posttrain.rewards import GroupEvaluator
from posttrain.rewards.stage.bind import bind

HERE = Path(__file__).parent
ACTORS = (1, 2, 4, 8)


@contextmanager
def local_ray() -> Iterator[None]:
    """A Ray of this process alone, whose actors find the catalog of `execution`."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH", "")]))
    import ray

    folder = tempfile.mkdtemp(prefix="pt-")
    ray.init(
        address="local",
        num_cpus=16,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=256 * 2**20,
        _temp_dir=folder,
    )
    try:
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def actors(count: int) -> RayEvaluator:
    """A pool of exactly so many."""
    return RayEvaluator(min_actors=count, num_cpus=0.1)


def overhead(groups: int, size: int, repeats: int) -> None:
    """One table for each completion length."""
    for tokens in (200, 2000):
        evaluators: dict[str, GroupEvaluator | None] = {"in process": None}
        evaluators |= {f"{count} actors": actors(count) for count in ACTORS}
        batch = batch_of(groups, size, tokens)
        table(
            f"{groups} groups of {size}, about {tokens} tokens",
            on_each(evaluators, "holds", batch, repeats),
            len(batch),
        )


def scaling(repeats: int) -> None:
    """The provider that waits should get faster with each actor, the one that computes up to the cores."""
    for reward in ("waits", "hashes"):
        batch = batch_of(128, 16, 50)
        evaluators: dict[str, GroupEvaluator | None] = {f"{count} actors": actors(count) for count in ACTORS}
        table(f"128 groups of 16, a provider that {reward}", on_each(evaluators, reward, batch, repeats), len(batch))


def resident() -> tuple[float, float]:
    """MiB of this process: its own, and those that it shares with Ray's object store."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    own, shared = (int(fields[name].split()[0]) / 1024 for name in ("RssAnon", "RssShmem"))
    return own, shared


def memory() -> None:
    """Resident memory while many candidates go out and come back, above what the bound batch takes."""
    print("\ncandidates of about 200 tokens: peak MiB above the bound batch, own and in the object store")
    for name, evaluator in (("in process", None), ("2 actors", actors(2))):
        with worker_on(evaluator, "holds", 16) as worker:
            for count in (2048, 100_000, 200_000):
                groups = bind(batch_of(count // 16, 16, 200), worker.stage.selection, 16)
                samples, over, before = [resident()], threading.Event(), resident()

                def watch(samples: list[tuple[float, float]] = samples, over: threading.Event = over) -> None:
                    while not over.wait(0.005):
                        samples.append(resident())

                watcher = threading.Thread(target=watch)
                watcher.start()
                started = perf_counter()
                results = worker.stage.evaluator.evaluate(groups, collect_unavailable=False)
                seconds = perf_counter() - started
                over.set()
                watcher.join()
                own, shared = (max(each[part] for each in samples) - before[part] for part in (0, 1))
                print(f"  {name:12} {count:8} {own:8.1f} {shared:8.1f}   {len(results)} groups in {seconds:.2f} s")


def microseconds(run: Callable[[], object], per: int) -> float:
    """Best of five, for each of `per` units."""
    laps = []
    for _ in range(5):
        started = perf_counter()
        run()
        laps.append(perf_counter() - started)
    return min(laps) / per * 1e6


def constants() -> None:
    """Each part of the model by itself."""
    with worker_on(None, "holds", 16) as here, worker_on(actors(1), "holds", 16) as there:
        groups = bind(batch_of(512, 16, 200), here.stage.selection, 16)
        names, payload = here.stage.selection.names, encode_groups(groups)
        outcomes = here.stage.evaluator.evaluate(groups, collect_unavailable=False)
        answer = encode_outcomes(groups, outcomes)
        print("\nmicroseconds")
        print(f"  encode a candidate on the driver   {microseconds(lambda: encode_groups(groups), 8192):8.2f}")
        print(f"  decode one in the actor            {microseconds(lambda: decode_groups(payload), 8192):8.2f}")
        print(
            f"  encode its scores in the actor     {microseconds(lambda: encode_outcomes(groups, outcomes), 8192):8.2f}"
        )
        read = microseconds(lambda: decode_outcomes(answer, groups, names), 8192)
        print(f"  decode them on the driver          {read:8.2f}")
        single = groups[:1]
        there.stage.open()
        laps, spent = [], process_time()
        for _ in range(300):
            started = perf_counter()
            there.stage.evaluator.evaluate(single, collect_unavailable=False)
            laps.append((perf_counter() - started) * 1e6)
        spent = (process_time() - spent) / len(laps) * 1e6
        print(f"  a chunk there and back, alone      {statistics.median(laps):8.2f}")
        print(f"  of that, processor of the driver   {spent:8.2f}")
    members = [Member(number, None, monotonic()) for number in range(1000)]
    for member in members:
        member.state = "ready"

    choice = microseconds(lambda: least_loaded(members, 2, monotonic()), 1)
    print(f"  choose among 1,000 idle actors     {choice:8.2f}")


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=512)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    for name in ("scaling", "memory", "constants"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with local_ray():
        if options.scaling:
            scaling(min(3, options.repeats))
        elif options.memory:
            memory()
        elif options.constants:
            constants()
        else:
            overhead(options.groups, options.size, options.repeats)


if __name__ == "__main__":
    main()
