# SPDX-License-Identifier: Apache-2.0
"""Memory does not hold the rows of a dump."""

import importlib
import json
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.rollouts.importers import dump_source

MIB = 1 << 20


def peak_of(path: Path, peer: str) -> int:
    """Most bytes that Python held while all groups were read and let go."""
    tracemalloc.start()
    try:
        for _ in dump_source(path, peer).groups():
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_gathered_rows_are_not_held(tmp_path: Path) -> None:
    """Of 20,000 shuffled rows of 1 KiB, 20 MiB in all, reading holds less than a quarter."""
    rows = [(group, at) for group in range(5000) for at in range(4)]
    random.Random(1).shuffle(rows)
    path = tmp_path / "1.jsonl"
    with path.open("w") as file:
        for group, at in rows:
            file.write(json.dumps({"step": 1, "input": f"{group}", "output": f"{at}" + "x" * 1000}) + "\n")
    assert peak_of(path, "verl") < 5 * MIB


def test_samples_of_an_archive_are_not_held(tmp_path: Path) -> None:
    """Of 2,000 samples of 10 KiB, 20 MiB in all, reading holds less than a quarter."""
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for at in range(2000):
            output = {"choices": [{"stop_reason": "stop"}], "completion": "x" * 10_000}
            sample = {"id": at, "epoch": 1, "input": "q", "target": "t", "output": output}
            archive.writestr(f"samples/{at}_epoch_1.json", json.dumps(sample))
    assert peak_of(path, "inspect") < 5 * MIB


def test_a_table_is_not_held(tmp_path: Path, fresh_python: Callable[[str], str]) -> None:
    """Of a table with one row group of 48 MB, reading takes less than 36 MiB beyond what pyarrow takes."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    texts = [random.Random(at).randbytes(600).hex() for at in range(40_000)]
    path = tmp_path / "table.parquet"
    columns = {"step": [1] * len(texts), "prompt": ["q"] * len(texts), "completion": texts}
    parquet.write_table(arrow.table(columns), path, compression="none", use_dictionary=False)
    assert path.stat().st_size > 48_000_000
    program = f"""
import resource
import pyarrow.parquet
from posttrain.rollouts.grouping import consecutive
from posttrain.rollouts.importers import dump_source
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
for _ in dump_source({str(path)!r}, "trl", grouping=consecutive(4)).groups():
    pass
print(peak() - before)
"""
    assert int(fresh_python(program)) < 36
