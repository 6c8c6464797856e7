# SPDX-License-Identifier: Apache-2.0
"""Results of the DiffusionNFT recipes: each over three seeds, beside a control with a constant reward.

    python benchmarks/nft_results.py [--seeds 0 1 2] [--runs FOLDER]

Starts the reference service, runs the two tiny recipes and their controls with two ranks each, and prints the table of
docs/results.md: the watched mean over the first and the last five batches. Samples are fresh in every batch and none is
seen twice, so the training curve is the measurement.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from posttrain.runs.directory import RecordedRun

ROOT = Path(__file__).resolve().parents[1]
WATCHED = {"image": "brightness", "video": "temporal_smoothness"}
LOOKED_AT = 5


@contextmanager
def service() -> Iterator[str]:
    """The reference service on a free port; gives its address."""
    own = [f"--{media}-scorer=always_{media}=nft_control:always" for media in WATCHED]
    paths = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, "-m", "posttrain", "serve", "--port", "0", *own],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None  # noqa: S101  # asked for above
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(60)


def run(media: str, seed: int, folder: Path, address: str, *, control: bool) -> tuple[list[float], float]:
    """One run; gives the watched mean of every batch, and the seconds that it took."""
    name = f"{media}-{'control' if control else 'recipe'}-{seed}"
    watched, reward = WATCHED[media], "rl.nft.reward"
    overrides = [f"rl.{key}.seed={seed}" for key in ("policy", "nft", "data")]
    overrides += [f"rl.run.directory={folder}", f"rl.run.name={name}"]
    if control:
        overrides += [f"rl.reward=[always,{watched}]", f"rl.reward_catalog=nft_control:{media}s"]
        overrides += [f"rl.reward_stage.weights.{watched}=0.0", f"{reward}.enqueue_url=null"]
    else:
        overrides += [f"{reward}.{way}_url={address}/api/reward/{way}" for way in ("enqueue", "pull")]
    command = [sys.executable, "-m", "posttrain", "nft", "--config", f"recipes/nft_{media}_tiny.toml", "--ranks", "2"]
    paths = os.pathsep.join([str(ROOT / "benchmarks"), os.environ.get("PYTHONPATH", "")])
    begun = time.monotonic()
    subprocess.run(
        [*command, *overrides],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "NFT_SERVICE": address, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    taken = time.monotonic() - begun
    term = watched if control else media
    metrics = RecordedRun(folder / name).metrics()
    return [metrics[step][f"train/reward/{term}/mean"] for step in sorted(metrics)], taken


def row(media: str, kind: str, seed: int, curve: Sequence[float], taken: float) -> str:
    """A row of the table."""
    count = len(curve)
    shown = " ".join(f"{sum(curve[at : at + LOOKED_AT]) / LOOKED_AT:.4f}" for at in range(0, count, LOOKED_AT))
    return f"| {media} | {kind} | {seed} | {shown} | {taken:.0f} |"


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--media", nargs="+", default=list(WATCHED), choices=list(WATCHED))
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    folder = options.runs or Path(tempfile.mkdtemp(prefix="nft-results-"))
    print(f"| model | reward | seed | mean of the watched term, each over {LOOKED_AT} batches | seconds |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    with service() as address:
        for media in options.media:
            for seed in options.seeds:
                for control in (False, True):
                    kind = "constant" if control else WATCHED[media]
                    curve, taken = run(media, seed, folder, address, control=control)
                    print(row(media, kind, seed, curve, taken), flush=True)


if __name__ == "__main__":
    main()
