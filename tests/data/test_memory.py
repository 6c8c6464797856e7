# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow with the rows, and nothing heavy is loaded for them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_DRAW = """
import sys
from itertools import islice
from posttrain.data import ColumnMapping, Env, open_rows
path, ids = sys.argv[1:]
rows = open_rows(path, columns=ColumnMapping(row_id_column=ids or None))
count = sum(len(batch.observations) for batch in Env(rows, needs=("reference",)).batches(512, 8, epochs=1))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(count, peak.split()[1])
"""


def peak_kib(path: Path, ids: str, rows: int) -> int:
    """The peak memory of a process that draws every row of the file and keeps nothing."""
    done = subprocess.run([sys.executable, "-c", _DRAW, str(path), ids], capture_output=True, text=True, check=True)
    count, peak = done.stdout.split()
    assert int(count) == rows
    return int(peak)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak memory is read from /proc")
@pytest.mark.parametrize(("suffix", "ids"), [("", ""), ("", "id"), (".zst", "")])
def test_memory_stays_flat(tmp_path: Path, suffix: str, ids: str) -> None:
    """Ten times the rows cost the places at which they begin, and their ids while those are compared."""
    import zstandard

    peaks = []
    for rows in (5_000, 50_000):
        lines = (
            b'{"id": "i%d", "prompt": "%d", "reference": {"text": "%s"}}\n' % (at, at, b"x" * 200) for at in range(rows)
        )
        path = tmp_path / f"{rows}.jsonl{suffix}"
        data = b"".join(lines)
        path.write_bytes(zstandard.compress(data) if suffix else data)
        peaks.append(peak_kib(path, ids, rows))
    # 45,000 rows more: 8 bytes each for their places and 8 for their ids, 0.7 MB. The rows themselves would be 30 MB.
    assert peaks[1] - peaks[0] < 4_000


def test_nothing_heavy_is_loaded(fresh_python: Callable[[str], str], tmp_path: Path) -> None:
    """Reading a local file loads neither datasets nor an array library, a trainer, the reward core or zstandard."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "p"}\n')
    program = (
        f"import sys\nfrom posttrain.data import Env, open_rows\nEnv(open_rows({str(path)!r})).probe()\n"
        "print(*sorted(sys.modules))"
    )
    loaded = {name.partition(".")[0] for name in fresh_python(program).split()}
    assert not loaded & {"datasets", "numpy", "pyarrow", "torch", "transformers", "zstandard"}


def test_rewards_are_not_loaded(fresh_python: Callable[[str], str]) -> None:
    """Rows know nothing of rewards."""
    loaded = fresh_python("import sys, posttrain.data\nprint(*sorted(sys.modules))").split()
    assert "posttrain.data.env" in loaded
    assert not [name for name in loaded if name.startswith(("posttrain.rewards", "posttrain.rollouts"))]
