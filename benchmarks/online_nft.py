# SPDX-License-Identifier: Apache-2.0
"""Where a batch of DiffusionNFT spends its time: decode, transform, upload, wait, gather, beside sampling and update.

    python benchmarks/online_nft.py [--media image] [--batches 6] [--side 32] [--frames 9]

Starts the reference service and runs the tiny recipe with two ranks. A sample's parts are means over all samples, from
the provider's own diagnostics; "gather and the rest" is what is left of the stage's time: the exchange between the
ranks, binding, the wait for the slower rank. The first batch, which warms up, is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from nft_results import ROOT, service
from posttrain.runs.directory import RecordedRun

ROUNDS = 8
PARTS = {
    "decode_seconds": "decode",
    "transform_seconds": "transform and spool",
    "enqueue_seconds": "upload",
    "wait_seconds": "wait for the score",
}
SCORER = {"image": "brightness", "video": "temporal_smoothness"}


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--media", default="image", choices=list(SCORER))
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--frames", type=int, default=9)
    options = parser.parse_args()
    nft = {"steps": options.batches, "rounds": ROUNDS, "height": options.side, "width": options.side}
    if options.media == "video":
        nft["frames"] = options.frames
    with tempfile.TemporaryDirectory() as folder, service() as address:
        urls = [f"rl.nft.reward.{way}_url={address}/api/reward/{way}" for way in ("enqueue", "pull")]
        overrides = [*urls, *(f"rl.nft.{key}={value}" for key, value in nft.items())]
        overrides += [f"rl.run.directory={folder}", "rl.run.name=timed"]
        recipe = f"recipes/nft_{options.media}_tiny.toml"
        command = [sys.executable, "-m", "posttrain", "nft", "--config", recipe, "--ranks", "2", *overrides]
        subprocess.run(command, cwd=ROOT, check=True)
        batches = list(RecordedRun(Path(folder, "timed")).metrics().values())[1:]

    def mean(name: str) -> float:
        return statistics.fmean(batch[name] for batch in batches)

    parts = {label: ROUNDS * mean(f"train/reward_provider/{options.media}/{name}") for name, label in PARTS.items()}
    whole = {name: mean(f"train/nft/{name}_seconds") for name in ("sample", "score", "update")}
    rows = {
        "sample": whole["sample"],
        **parts,
        "gather and the rest": whole["score"] - sum(parts.values()),
        "update": whole["update"],
    }
    total = sum(rows.values())
    print(f"{options.media}, {ROUNDS} samples a rank, 2 ranks, {len(batches)} batches: {total:.2f} s a batch\n")
    print("| part | ms a batch | share |")
    print("| --- | --- | --- |")
    for label, seconds in rows.items():
        print(f"| {label} | {1000 * seconds:.0f} | {100 * seconds / total:.0f} % |")


if __name__ == "__main__":
    main()
