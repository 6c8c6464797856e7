# SPDX-License-Identifier: Apache-2.0
"""What preflight costs a run of a built-in provider without data: its two fresh processes are included.

    python benchmarks/preflight_time.py [--repeats 9]

Beside it stand one bare interpreter and one that imports the reward core; two of the latter side by side are about the
least that a check in fresh processes can cost. The last row is the whole command, from the shell. Rows take turns, the
numbers are medians, and ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter

from posttrain.runs import load_config
from posttrain.runs.checks import preflight

LIMIT = 0.5
RUN = ["rl.reward=gsm8k", "rl.group_size=8"]
CONFIG = load_config(None, RUN)


def _python(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def _side_by_side(program: str) -> None:
    both = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(2)]
    for each in both:
        each.wait()


ROWS: dict[str, Callable[[], object]] = {
    "one bare interpreter": lambda: _python("-c", "pass"),
    "one that imports the reward core": lambda: _python("-c", "import posttrain.rewards"),
    "two of those side by side": lambda: _side_by_side("import posttrain.rewards"),
    "preflight(config)": lambda: preflight(CONFIG).raise_if_failed(),
    "the command `posttrain preflight`": lambda: _python("-m", "posttrain", "preflight", *RUN),
}


def main() -> None:
    """Time each row in turns and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    taken: dict[str, list[float]] = {name: [] for name in ROWS}
    for _ in range(repeats):
        for name, call in ROWS.items():
            started = perf_counter()
            call()
            taken[name].append(perf_counter() - started)
    base = statistics.median(taken["two of those side by side"])
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, {repeats} repeats")
    for name, seconds in taken.items():
        middle = statistics.median(seconds)
        print(f"{name:36} {middle:6.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})  {middle / base:5.2f}")
    verdict = "below" if statistics.median(taken["preflight(config)"]) < LIMIT else "NOT below"
    print(f"preflight(config) is {verdict} the limit of {LIMIT} s")


if __name__ == "__main__":
    main()
