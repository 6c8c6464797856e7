# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow with the file: the bound is stated in docs/design/008-offline-scoring.md."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# The command as it is, and the peak of its process at the end. The usage that the system keeps for a child counts the
# parent's memory too, from before the program was loaded.
_MEASURED = """
import atexit, sys
from posttrain.cli import main

def tell():
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    open("peak", "w").write(peak.split()[1])

atexit.register(tell)
main()
"""

BOUND = 80 * 1024
"""KiB that a run takes at most beyond what its provider holds, for rows of a few kilobytes."""
GROWTH = 16 * 1024
"""KiB by which 225,000 ids more may raise that: digests of up to 24 bytes each, twice while their table grows."""


def peak_kib(folder: Path, lengths: str, estimator: str) -> int:
    """Peak memory of a run over the rollouts of a folder."""
    arguments = [
        "score", "rollouts.jsonl", "--catalog", lengths, "--reward", "length", "--group-size", "8",
        "--estimator", estimator, "--out", "out.jsonl", "--restart",
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int((folder / "peak").read_text())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("estimator", ["group_norm", "group_mean_batch_std"])
def test_memory_stays_flat(
    quick_path: Path, lengths: str, many_groups: Callable[[Path, int], Path], estimator: str
) -> None:
    """Ten times the rows cost no more than the digests of their ids, with a second pass too, and stay in the bound."""
    peaks = []
    for groups in (2_500, 25_000):
        many_groups(quick_path / "rollouts.jsonl", groups)
        peaks.append(peak_kib(quick_path, lengths, estimator))
    # The scored rows alone are 22 MB of text, and several times that as objects.
    assert (quick_path / "out.jsonl").stat().st_size > 15e6
    assert peaks[1] - peaks[0] < GROWTH
    assert peaks[1] < BOUND


def test_the_bound_is_written_down(repository: Path) -> None:
    """The design note states the numbers that this file measures."""
    text = (repository / "docs/design/008-offline-scoring.md").read_text(encoding="utf-8")
    bound, growth = re.search(r"at most (\d+) MiB", text), re.search(r"by less than\s+(\d+) MiB", text)
    assert bound is not None
    assert growth is not None
    assert int(bound[1]) * 1024 == BOUND
    assert int(growth[1]) * 1024 == GROWTH
