# SPDX-License-Identifier: Apache-2.0
"""Share of a GRPO step that the reward stage takes, in one process and in two, beside TRL with a bare function.

    OMP_NUM_THREADS=1 python benchmarks/online.py

The tiny recipe without validation, 32 groups of 8 a step, scored by `arithmetic`. The bare function is the same scorer
called by TRL itself. Medians over the steps behind the first five; times are wall-clock and include waiting.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "grpo_tiny.toml"
BEHIND = 5


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=25)
    given = parser.parse_args()
    print("| what | step, ms | stage, ms | share |")
    print("| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for ranks in (1, 2):
            steps, stage = ours(Path(folder), given.steps, ranks)
            named = "one process" if ranks == 1 else f"{ranks} processes"
            print(f"| posttrain grpo, {named} | {steps:.1f} | {stage:.2f} | {100 * stage / steps:.1f} % |")
        steps, function = bare(Path(folder), given.steps)
        print(f"| TRL, bare function | {steps:.1f} | {function:.2f} | {100 * function / steps:.1f} % |")


def ours(folder: Path, steps: int, ranks: int) -> tuple[float, float]:
    """Median milliseconds of a step, and of the stage in it, of a run."""
    keys = [f"rl.run.directory={folder}", f"rl.run.name=ranks-{ranks}", f"rl.grpo.steps={steps}"]
    keys += ["rl.validation.enabled=false", f"rl.grpo.save_steps={steps}"]
    launch = ["-m", "posttrain"]
    if ranks > 1:
        launcher = "torch.distributed.run --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1"
        launch = ["-m", *launcher.split(), f"--nproc-per-node={ranks}", "-m", "posttrain"]
    command = [sys.executable, *launch, "grpo", "--config", str(RECIPE), *keys]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in (folder / f"ranks-{ranks}" / "metrics.jsonl").read_text().splitlines()]
    later = [line for line in lines if line["step"] > BEHIND and "trainer/step_time" in line]
    return _median(later, "trainer/step_time"), _median(later, "trainer/stage_seconds")


def bare(folder: Path, steps: int) -> tuple[float, float]:
    """The same of TRL's own trainer with the scorer as its reward function."""
    program = Path(__file__).resolve().parent / "peers" / "trl_grpo.py"
    done = subprocess.run(
        [sys.executable, str(program), str(folder / "bare"), str(steps)],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    found = re.findall(r'^\{"step_time.*\}$', done.stdout, re.MULTILINE)
    later = [json.loads(line) for line in found][BEHIND:]
    return _median(later, "step_time"), _median(later, "function")


def _median(lines: list[dict[str, Any]], key: str) -> float:
    return 1000 * float(statistics.median(line[key] for line in lines))


if __name__ == "__main__":
    main()
