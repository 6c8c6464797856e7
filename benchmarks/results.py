# SPDX-License-Identifier: Apache-2.0
"""Held-out curves of the tiny GRPO recipe over several seeds, beside a control whose reward is constant.

    OMP_NUM_THREADS=1 python benchmarks/results.py --out out/results

Prints the tables and the chart of docs/results.md. The control differs in nothing but ``rl.reward=constant``; both are
validated by `arithmetic`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "grpo_tiny.toml"
METRIC = "val/reward/final/mean"
KINDS = {"arithmetic": [], "constant": ["rl.reward=constant"]}
BARS = " ▁▂▃▄▅▆▇█"


def main() -> None:
    """Run every seed of both kinds, unless its run is there already, and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/results"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    curves = {}
    for kind, overrides in KINDS.items():
        for seed in given.seeds:
            seconds = run(given.out, f"{kind}-{seed}", seed, overrides)
            curves[kind, seed] = curve(given.out / f"{kind}-{seed}")
            print(f"{kind}, seed {seed}: {seconds:.0f} s", file=sys.stderr)
    table(curves)


def run(out: Path, name: str, seed: int, overrides: list[str]) -> float:
    """One run in a process of its own; its seconds, 0 where it was there."""
    if (out / name / "report.html").is_file():
        return 0.0
    started = time.perf_counter()
    keys = [f"rl.run.directory={out}", f"rl.policy.seed={seed}", f"rl.grpo.seed={seed}", f"rl.data.seed={seed}"]
    command = [sys.executable, "-m", "posttrain", "grpo", "--config", str(RECIPE), "--run", name, "--resume"]
    subprocess.run([*command, *keys, "rl.validation.reward=arithmetic", *overrides], check=True, stdout=sys.stderr)
    return time.perf_counter() - started


def curve(path: Path) -> dict[int, float]:
    """Step to the held-out mean reward."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return {int(line["step"]): line[METRIC] for line in lines if METRIC in line}


def table(curves: dict[tuple[str, int], dict[int, float]]) -> None:
    """The numbers, and each curve as a row of bars from 0 to 1."""
    steps = sorted(next(iter(curves.values())))
    print(f"| reward | seed | {' | '.join(f'step {step}' for step in steps)} |")
    print(f"| --- | --- | {' | '.join('---' for _ in steps)} |")
    for (kind, seed), found in curves.items():
        print(f"| {kind} | {seed} | {' | '.join(f'{found[step]:.3f}' for step in steps)} |")
    print()
    for (kind, seed), found in curves.items():
        bars = "".join(BARS[round(found[step] * (len(BARS) - 1))] * 4 for step in steps)
        print(f"{kind:>10} {seed}  {found[steps[0]]:.2f} {bars} {found[steps[-1]]:.2f}")


if __name__ == "__main__":
    main()
