# SPDX-License-Identifier: Apache-2.0
"""What a report costs: build time, size of the file, memory, and how fast a browser opens and searches it.

    python benchmarks/report_build.py [--candidates 20000] [--size 8] [--steps 25] [--tokens 200 1000] [--repeats 3]

A run is written with three terms, prompts as conversations and completions of about so many tokens, made of words by
their frequency in a language (Zipf), so that they compress about as texts do. Each report is built in a process of its
own. Beside it stand the plain reading of the same rows by `json.loads`, and `zlib` at the report's level over the same
texts: nothing that holds all texts can be below the two together. Where playwright and chromium are installed, the file
is opened without a network.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import zlib
from itertools import accumulate
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from posttrain.report import build_report, open_scores, write_report
from posttrain.rewards.stage.estimators import estimator_named
from posttrain.runs.records import step_name

WEIGHTS = {"correct": 1.0, "format": 0.2, "overlong": -0.3}
RARE = "anserine"


class Writer:
    """Writes completions of about `tokens` tokens (1.6 a word), of made-up words."""

    def __init__(self, tokens: int) -> None:
        self.rng = random.Random(20)
        letters = "etaoinshrdlucmfwypvbgkjqxz"
        self._words = [
            "".join(self.rng.choices(letters, range(26, 0, -1), k=self.rng.randint(2, 9))) for _ in range(20_000)
        ]
        self._odds = list(accumulate(1 / rank for rank in range(1, len(self._words) + 1)))
        self._length = round(tokens / 1.6)

    def text(self) -> str:
        """One completion."""
        length = self.rng.randint(self._length // 2, self._length * 3 // 2)
        words = self.rng.choices(self._words, cum_weights=self._odds, k=length)
        return f"{' '.join(words)}\nThe answer is {self.rng.randint(1, 999)}."


def write_group(writer: Writer, name: str, size: int) -> list[dict[str, Any]]:
    """The rows of one group."""
    rng = writer.rng
    solved = rng.betavariate(1.2, 1.2)
    terms = [
        (float(rng.random() < solved), float(rng.random() < 0.9), max(0.0, rng.gauss(0, 0.2))) for _ in range(size)
    ]
    finals = [sum(w * x for w, x in zip(WEIGHTS.values(), each, strict=True)) for each in terms]
    advantages = estimator_named("group_norm").advantages(finals)
    rows = []
    for place, (values, final, advantage) in enumerate(zip(terms, finals, advantages, strict=True)):
        text = writer.text()
        rows.append(
            {
                "trajectory_id": f"{name}/{place}",
                "group_id": name,
                "prompt": [{"role": "user", "content": f"What is the question of {name}?"}],
                "reference": name,
                "completion": text,
                "finish_reason": "stop",
                "completion_token_count": round(len(text.split()) * 1.6),
                "reward": {**dict(zip(WEIGHTS, values, strict=True)), "final": final},
                "advantage": advantage,
            }
        )
    return rows


def write_run(folder: Path, groups: int, size: int, steps: int, tokens: int) -> None:
    """A run of `groups` groups over `steps` steps."""
    writer = Writer(tokens)
    (folder / "scored").mkdir(parents=True)
    for step in range(1, steps + 1):
        numbers = range(groups * (step - 1) // steps, groups * step // steps)
        rows = [{**row, "step": step} for number in numbers for row in write_group(writer, f"g{number}", size)]
        if step == steps:
            rows[-1]["completion"] = f"{rows[-1]['completion']} {RARE}"
        (folder / "scored" / f"{step_name(step)}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "provenance.json").write_text(json.dumps({"stage": {"weights": WEIGHTS, "estimator": "group_norm"}}))


def build(run: Path, out: Path) -> dict[str, float]:
    """Build once, in this process."""
    started = perf_counter()
    size = write_report(build_report(open_scores(run)), out)
    seconds = perf_counter() - started
    return {"seconds": seconds, "bytes": size, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def floor(run: Path) -> dict[str, float]:
    """Plain reading of the rows, and compression of their texts by group."""
    read = packed = 0.0
    count = 0
    for path in sorted((run / "scored").iterdir()):
        started = perf_counter()
        rows = [json.loads(line) for line in path.open()]
        read += perf_counter() - started
        groups: dict[str, list[str]] = {}
        for row in rows:
            groups.setdefault(row["group_id"], []).append(row["completion"])
        started = perf_counter()
        for group in groups.values():
            zlib.compress(json.dumps(group).encode(), 4)
        packed += perf_counter() - started
        count += sum(map(len, (row["completion"] for row in rows)))
    return {"read": read, "packed": packed, "characters": count}


def browse(file: Path) -> dict[str, float] | None:
    """Seconds to the drawn page, to an opened group, and to the end of a search through all texts."""
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page: Any = browser.new_context(offline=True).new_page()
        started = perf_counter()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        drawn = perf_counter() - started
        started = perf_counter()
        page.locator(".groups tbody .link").nth(5).click()
        page.wait_for_selector("dialog .candidate")
        opened = perf_counter() - started
        page.keyboard.press("Escape")
        started = perf_counter()
        page.fill("#needle", RARE)
        while not re.fullmatch("1 of [0-9,]+ groups", page.locator(".count").text_content()):
            sleep(0.02)
        return {"drawn": drawn, "opened": opened, "searched": perf_counter() - started}


def in_a_process(run: Path, out: Path) -> dict[str, float]:
    """`build` in a fresh process, so that its memory is its own."""
    done = subprocess.run([sys.executable, __file__, "--build", run, out], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print one block per completion length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--tokens", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--build", type=Path, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        print(json.dumps(build(*options.build)))
        return
    print(f"Python {platform.python_version()}, {options.candidates:,} candidates in groups of {options.size}")
    for tokens in options.tokens:
        with tempfile.TemporaryDirectory() as scratch:
            run, out = Path(scratch) / "run", Path(scratch) / "report.html"
            write_run(run, options.candidates // options.size, options.size, options.steps, tokens)
            laps = [(in_a_process(run, out), floor(run)) for _ in range(options.repeats)]
            tell(tokens, laps, browse(out))


def tell(tokens: int, laps: list[tuple[dict[str, float], dict[str, float]]], seen: dict[str, float] | None) -> None:
    """Print what was measured; times are medians."""
    seconds = statistics.median(lap["seconds"] for lap, _ in laps)
    least = statistics.median(lap["read"] + lap["packed"] for _, lap in laps)
    last, plain = laps[-1]
    count = plain["characters"]
    print(f"\nabout {tokens} tokens: {count / 1e6:.0f} million characters of completions")
    print(f"  build         {seconds:7.2f} s, {seconds / least:.2f} times json.loads and zlib alone ({least:.2f} s)")
    print(f"  file          {last['bytes'] / 1e6:7.1f} MB, {last['bytes'] / count:.2f} bytes a character")
    print(f"  peak memory   {last['peak'] / 1e6:7.0f} MB")
    if seen is not None:
        print(f"  in a browser  {seen['drawn']:7.2f} s to the page, {seen['opened']:.2f} s to a group")
        print(f"                {seen['searched']:7.2f} s to search all texts")


if __name__ == "__main__":
    main()
