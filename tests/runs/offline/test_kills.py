# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments of a long run: each is resumed, and the end is as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

GROUPS, CANDIDATES = 25_000, 200_000
KILLS = 25
LONGEST = 3.0
"""Seconds that a run is taken to last at most: on a slow machine the kills come earlier in it."""
NAMES = ("out.jsonl", "metrics.json", "out.identity.json")


def _score(folder: Path, lengths: str, estimator: str, out: str) -> list[str]:
    return [
        sys.executable, "-m", "posttrain", "score", "rollouts.jsonl", "--catalog", lengths, "--reward", "length",
        "--group-size", "8", "--estimator", estimator, "--out", f"{folder.name}/{out}/out.jsonl", "--resume",
    ]  # fmt: skip


def _calm(folder: Path, lengths: str, estimator: str) -> tuple[dict[str, bytes], float]:
    """The files of an uninterrupted run, and how long it took."""
    started = time.monotonic()
    done = subprocess.run(
        _score(folder, lengths, estimator, "calm"), cwd=folder.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{CANDIDATES:,}" in done.stdout
    return {name: (folder / "calm" / name).read_bytes() for name in NAMES}, time.monotonic() - started


def _storm(
    folder: Path, lengths: str, estimator: str, wanted: dict[str, bytes], took: float, moments: list[float]
) -> int:
    """Kill a run at each of the moments and resume it; whenever it came to its end, look, and begin another output.

    The moments are shares of the time that a whole run takes, which is `took` until a whole run was quicker. Gives how
    many outputs were finished.
    """
    finished, left, is_whole = 0, list(moments), True
    while True:
        name, started = f"storm{finished}", time.monotonic()
        with subprocess.Popen(
            _score(folder, lengths, estimator, name), cwd=folder.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as run:
            try:
                _, told = run.communicate(timeout=left[0] * took if left else 120)
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
                left.pop(0)
                is_whole = False
                continue
        assert run.returncode == 0, told.decode()
        assert told == b""
        made = sorted((folder / name).iterdir())
        assert [each.name for each in made] == sorted(NAMES)
        assert {each.name: each.read_bytes() for each in made} == wanted
        finished += 1
        assert finished < 4 * KILLS
        if not left:
            return finished
        if is_whole:
            took = min(took, time.monotonic() - started)
        is_whole = True


@pytest.mark.slow
def test_kills_at_random_moments(quick_path: Path, lengths: str, many_groups: Callable[[Path, int], Path]) -> None:
    """Fifty kills, half of them of a run with a second pass: the same bytes of every file, and nothing left beside."""
    many_groups(quick_path / "rollouts.jsonl", GROUPS)
    runs = [("group_norm", quick_path / "norm"), ("group_mean_batch_std", quick_path / "batch")]
    calm = [_calm(folder, lengths, estimator) for estimator, folder in runs]
    chance = random.Random(5)
    moments = [[chance.uniform(0, 0.8) for _ in range(KILLS)] for _ in runs]
    with ThreadPoolExecutor(2) as both:
        storms = [
            both.submit(_storm, folder, lengths, estimator, wanted, min(took, LONGEST), shares)
            for (estimator, folder), (wanted, took), shares in zip(runs, calm, moments, strict=True)
        ]
        assert all(storm.result() >= 1 for storm in storms)
