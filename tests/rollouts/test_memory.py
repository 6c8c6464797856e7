# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow with the file."""

import subprocess
import sys
from pathlib import Path

import pytest

_READ = """
import sys
from posttrain.rollouts.grouping import parse_grouping
from posttrain.rollouts.source import RolloutSource
path, grouping = sys.argv[1:]
source = RolloutSource(path, grouping=parse_grouping(grouping or None))
count = sum(len(group.trajectories) for group in source.groups())
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(count, peak.split()[1])
"""


def peak_kib(path: Path, grouping: str, candidates: int) -> int:
    """The peak memory of a process that reads the file and keeps nothing."""
    done = subprocess.run(
        [sys.executable, "-c", _READ, str(path), grouping], capture_output=True, text=True, check=True
    )
    count, peak = done.stdout.split()
    assert int(count) == candidates
    return int(peak)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize(("suffix", "grouping"), [("", ""), (".zst", ""), ("", "prompt"), ("", "consecutive:4")])
def test_memory_stays_flat(tmp_path: Path, suffix: str, grouping: str) -> None:
    """Ten times the rows cost no more than the digests that guard against ids used twice."""
    import zstandard

    peaks = []
    for groups in (5_000, 50_000):
        lines = [
            b'{"group_id": "g%d", "prompt": "%d", "completion": "%s"}\n' % (at, at, b"x" * 60)
            for at in range(groups)
            for _ in range(4)
        ]
        data = b"".join(lines)
        path = tmp_path / f"{groups}.jsonl{suffix}"
        path.write_bytes(zstandard.compress(data) if suffix else data)
        peaks.append(peak_kib(path, grouping, 4 * groups))
    # 200,000 candidates and 50,000 groups: at most 36 bytes each while a table grows, 9 MB. Kept trajectories of this
    # size would be 200 MB.
    assert peaks[1] - peaks[0] < 16_000
