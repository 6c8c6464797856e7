# SPDX-License-Identifier: Apache-2.0
"""What it costs to read training rows, beside plain `json.loads` and `datasets` alone, in one run.

    python benchmarks/data_loading.py [--rows 50000] [--many 1000000] [--repeats 3]

The first table is microseconds a row over a file of made-up rows (three mapped columns and one that is not, about 400
bytes), and the ratio to the plain row of its kind; the rows of the table take turns. The second is the peak memory of
a process that draws every row once and keeps none, at a tenth of `--many` rows and at all of them; the last of it
shows what keeping the rows would take. Ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from posttrain.data import ColumnMapping, Env, HfRows, JsonlRows

COLUMNS = ColumnMapping(prompt_column="messages", response_column="reward_input", row_id_column="source_id")
UNNAMED = ColumnMapping(prompt_column="messages", response_column="reward_input")
BATCH = 512

Lap: TypeAlias = Callable[[], object]

_PEAK = """
import json, sys
from posttrain.data import ColumnMapping, Env, open_rows
way, path = sys.argv[1:]
mapping = ColumnMapping(prompt_column="messages", response_column="reward_input")
if way == "draw":
    env = Env(open_rows(path, columns=mapping), needs=("reference",))
    count = sum(len(batch.observations) for batch in env.batches(512, 8, epochs=1))
elif way == "keep":
    with open(path, "rb") as file:
        count = len([json.loads(line) for line in file])
else:
    count = 0
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(count, peak.split()[1])
"""


def row_texts(count: int) -> Iterator[str]:
    """Made-up rows as lines of JSON."""
    rng = random.Random(30)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(2000)]
    for at in range(count):
        row = {
            "messages": [{"role": "user", "content": " ".join(rng.choices(words, k=30))}],
            "reward_input": {"constraint_ids": rng.choices(words, k=2), "arguments": {"count": at, "weight": 0.5}},
            "source_id": f"row-{at}",
            "notes": " ".join(rng.choices(words, k=12)),
        }
        yield json.dumps(row) + "\n"


def write_rows(path: Path, count: int) -> None:
    """A file of so many rows."""
    with path.open("w") as file:
        file.writelines(row_texts(count))


def plain(path: Path) -> None:
    """Every line through `json.loads`, kept nowhere: the least that reading it in Python can cost."""
    with path.open("rb") as file:
        for line in file:
            json.loads(line)


def draw(env: Env) -> None:
    """One epoch of batches."""
    for _ in env.batches(BATCH, 8, epochs=1):
        pass


def local_laps(path: Path) -> dict[str, tuple[Lap, str]]:
    """The local loader, each against plain `json.loads`."""
    named, unnamed = JsonlRows(path, COLUMNS), JsonlRows(path, UNNAMED)
    base = "json.loads of each line"
    return {
        base: (lambda: plain(path), base),
        "JsonlRows: open and check all": (lambda: JsonlRows(path, COLUMNS), base),
        "Env: draw all, shuffled, id column": (lambda: draw(Env(named, needs=("reference",))), base),
        "Env: draw all, shuffled, digest ids": (lambda: draw(Env(unnamed, needs=("reference",))), base),
        "Env: draw all, in order, digest ids": (lambda: draw(Env(unnamed, needs=("reference",), shuffle=False)), base),
    }


def hf_laps(path: Path, cache: Path) -> dict[str, tuple[Lap, str]]:
    """The Hugging Face path, each against `datasets` doing the same part alone."""
    datasets: Any = importlib.import_module("datasets")
    datasets.disable_progress_bars()
    dataset = datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(cache))
    rng = random.Random(4)
    order = rng.sample(range(len(dataset)), len(dataset))

    def batches() -> None:
        for at in range(0, len(order), BATCH):
            dataset[order[at : at + BATCH]]

    def prepare(row: dict[str, Any]) -> dict[str, Any]:
        row["notes"] = None
        return row

    rows = HfRows(dataset, COLUMNS)
    iterate, shuffled = "datasets: iterate", "datasets: shuffled batches"
    return {
        iterate: (lambda: [None for _ in dataset], iterate),
        shuffled: (batches, shuffled),
        "HfRows: open, id column": (lambda: HfRows(dataset, COLUMNS), iterate),
        "HfRows: open, items_fn": (lambda: HfRows(dataset, COLUMNS, items_fn=prepare), iterate),
        "Env over HfRows: draw all, shuffled": (lambda: draw(Env(rows, needs=("reference",))), shuffled),
    }


def measure(laps: dict[str, tuple[Lap, str]], rows: int, repeats: int) -> dict[str, float]:
    """Median microseconds a row; the laps take turns, after one round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in laps}
    for repeat in range(repeats + 1):
        for name, (lap, _) in laps.items():
            started = perf_counter()
            lap()
            if repeat:
                times[name].append((perf_counter() - started) / rows * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def show_times(laps: dict[str, tuple[Lap, str]], rows: int, repeats: int) -> None:
    """One table."""
    medians = measure(laps, rows, repeats)
    print(f"  {'':38} {'us a row':>9} {'rows a s':>10}   times the plain one")
    for name, (_, base) in laps.items():
        ratio = "" if name == base else f"{medians[name] / medians[base]:8.2f}  of {base}"
        print(f"  {name:38} {medians[name]:9.2f} {1e6 / medians[name]:10,.0f}   {ratio}")


def peak_mib(way: str, path: Path) -> float:
    """Peak memory of a process of its own."""
    done = subprocess.run([sys.executable, "-c", _PEAK, way, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[1]) / 1024


def show_memory(folder: Path, many: int) -> None:
    """Peak memory at two sizes that differ ten times."""
    few_path, many_path = folder / "few.jsonl", folder / "many.jsonl"
    write_rows(few_path, many // 10)
    write_rows(many_path, many)
    started = peak_mib("start", few_path)
    few, all_of_them, kept = peak_mib("draw", few_path), peak_mib("draw", many_path), peak_mib("keep", few_path)
    print(f"\npeak memory, MiB ({many_path.stat().st_size / 2**20:,.0f} MiB of rows at the most)")
    print(f"  the interpreter with posttrain.data      {started:8.1f}")
    print(f"  {many // 10:>9,} rows drawn                     {few:8.1f}")
    print(f"  {many:>9,} rows drawn                     {all_of_them:8.1f}   {all_of_them / few:.2f} times that")
    print(
        f"  {many // 10:>9,} rows kept by json.loads        {kept:8.1f}   so about {(kept - started) * 10:,.0f} for all"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {options.rows:,} rows, {options.repeats} repeats")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "rows.jsonl"
        write_rows(path, options.rows)
        show_times(local_laps(path), options.rows, options.repeats)
        if importlib.util.find_spec("datasets") is not None:
            show_times(hf_laps(path, folder / "cache"), options.rows, options.repeats)
        if options.many and Path("/proc/self/status").exists():
            show_memory(folder, options.many)


if __name__ == "__main__":
    main()
