# SPDX-License-Identifier: Apache-2.0
"""Scored rows, runs made of them, and a real browser without a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.report.group import ScoredGroup
from posttrain.runs.records import RecordedCandidate, step_name

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Callable[..., list[Row]]

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def rows() -> Rows:
    """Make the rows of one group: each term a list of values, `final` their sum unless it is given."""

    def make(
        group_id: str,
        terms: Mapping[str, Sequence[float]],
        *,
        final: Sequence[float] | None = None,
        advantage: Sequence[float | None] | None = None,
        texts: Sequence[str] | None = None,
        **more: Any,
    ) -> list[Row]:
        columns = list(zip(*terms.values(), strict=True))
        finals = [sum(column) for column in columns] if final is None else final
        made = []
        for place, column in enumerate(columns):
            row = {
                "trajectory_id": f"{group_id}/{place}",
                "group_id": group_id,
                "reward": {**dict(zip(terms, column, strict=True)), "final": finals[place]},
                "advantage": finals[place] - sum(finals) / len(finals) if advantage is None else advantage[place],
                **more,
            }
            if texts is not None:
                row["completion"] = texts[place]
            made.append(row)
        return made

    return make


@pytest.fixture(scope="session")
def dropped() -> Callable[..., list[Row]]:
    """Make the rows of a group that was dropped."""

    def make(group_id: str, size: int, cause: str = "judge: TimeoutError", **more: Any) -> list[Row]:
        return [
            {
                "trajectory_id": f"{group_id}/{place}",
                "group_id": group_id,
                "reward": {},
                "advantage": None,
                "dropped_because": cause,
                **more,
            }
            for place in range(size)
        ]

    return make


@pytest.fixture(scope="session")
def group(rows: Rows) -> Callable[..., ScoredGroup]:
    """The same as a checked group."""

    def make(group_id: str, terms: Mapping[str, Sequence[float]], **more: Any) -> ScoredGroup:
        candidates = tuple(RecordedCandidate(**row) for row in rows(group_id, terms, **more))
        return ScoredGroup(step=candidates[0].step, group_id=group_id, candidates=candidates)

    return make


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Write the directory of a run: rows by step, metrics a dict a step, and what other files hold."""

    def write(
        steps: Mapping[int, Sequence[Row]] | None = None,
        *,
        metrics: Sequence[Row] = (),
        name: str = "run",
        **files: Any,
    ) -> Path:
        folder = tmp_path / name
        (folder / "scored").mkdir(parents=True, exist_ok=True)
        for step, found in (steps or {}).items():
            text = "".join(json.dumps({**row, "step": step}) + "\n" for row in found)
            (folder / "scored" / f"{step_name(step)}.jsonl").write_text(text, encoding="utf-8")
        if metrics:
            (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in metrics), encoding="utf-8")
        for file, content in files.items():
            (folder / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return write


Opened: TypeAlias = Callable[..., AbstractContextManager[Any]]


# Not for the whole session: while it is open, nobody else in this thread can run an event loop.
@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    """Open an HTML file in a headless browser that can reach nothing; what its console says is a failure."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser found, none of {', '.join(_BROWSERS)}: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))

        @contextmanager
        def open_file(path: Path, *, width: int = 1366, height: int = 768, **more: Any) -> Iterator[Any]:
            context = browser.new_context(viewport={"width": width, "height": height}, offline=True, **more)
            page = context.new_page()
            page.set_default_timeout(20_000)
            complaints: list[str] = []
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda asked: complaints.append(asked.url) if asked.url != path.as_uri() else None)
            page.on("dialog", lambda dialog: complaints.append(dialog.message))
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready=yes]")
            yield page
            context.close()
            assert complaints == []

        yield open_file
        browser.close()
