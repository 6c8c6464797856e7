# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser, without a network: what a person sees, finds and opens."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from posttrain.report import build_report, open_scores, write_report

Rows = Callable[..., list[dict[str, Any]]]
Run = Callable[..., Path]
Opened = Callable[..., Any]

STAGE = {
    "providers": [{"catalog": None, "provider": "judge", "revision": "7", "sha256": "ab" * 32}],
    "weights": {"right": 1.0, "long": -0.5},
    "estimator": "group_mean",
}
LONG = "beginning " + "filler " * 2000 + "needle-in-the-middle " + "filler " * 2000 + "the end"


@pytest.fixture
def report(run: Run, rows: Rows, dropped: Rows, tmp_path: Path) -> Path:
    """Three steps; step 3 has a long text, step 1 a dropped group, and each step groups with and without spread."""

    def group(name: str, right: list[float], long: list[float], texts: list[str]) -> list[dict[str, Any]]:
        final = [a - b / 2 for a, b in zip(right, long, strict=True)]
        more = {
            "prompt": [{"role": "user", "content": f"Question of {name}?"}],
            "reference": {"answer": 12345678901234567890},
        }
        return rows(name, {"right": right, "long": long}, final=final, texts=texts, completion_token_count=9, **more)

    steps = {
        step: [
            *group(f"spread-{step}", [1.0, 0.0], [0.5, 0.0], [f"good {step}", f"bad {step}"]),
            *group(f"right-{step}", [1.0, 1.0], [0.0, 0.0], ["yes", "yes, too"]),
            *group(f"wrong-{step}", [0.0, 0.0], [0.0, 0.0], ["no", ""]),
        ]
        for step in (1, 2, 3)
    }
    steps[1] += dropped("lost", 2, completion="never scored", prompt="Question of lost?")
    steps[3] += group("long", [1.0, 0.0], [0.0, 1.0], [LONG, "short"])
    steps[2][0]["finish_reason"] = "length"
    metrics = [
        {"step": step, "val/pass_at_4": step / 4, "train/reward_provider/judge/calls": step} for step in (1, 2, 3)
    ]
    state = {"report": {"providers": {"judge": {"seconds": 9, "slowest_seconds": 2.5, "slowest_group": "right-2"}}}}
    write_report(
        build_report(open_scores(run(steps, metrics=metrics, provenance={"stage": STAGE}, state=state))),
        tmp_path / "r.html",
    )
    return tmp_path / "r.html"


def _groups(page: Any) -> list[str]:
    found: list[str] = page.locator(".groups tbody tr .link").all_text_contents()
    return found


def _shows(page: Any, groups: list[str]) -> bool:
    count: str = page.locator(".count").text_content()
    return count == f"{len(groups)} of 11 groups" and _groups(page) == groups


def _until(page: Any, wanted: Callable[[], bool]) -> None:
    """Wait without code of the page's own: its policy lets nobody evaluate texts."""
    deadline = time.monotonic() + 15
    while not wanted():
        assert time.monotonic() < deadline, page.locator(".count").text_content()
        page.wait_for_timeout(20)


@pytest.mark.parametrize(("width", "height"), [(1366, 768), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_section_is_drawn_at_any_width_and_colour(
    opened: Opened, report: Path, width: int, height: int, scheme: str
) -> None:
    """Nothing is wider than the screen, every chart has lines, and no place says NaN."""
    with opened(report, width=width, height=height, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        names = page.locator("section > h2").all_text_contents()
        assert names == [
            "Reward",
            "Terms",
            "Groups without spread",
            "Length and truncation",
            "Train against held-out",
            "Provider diagnostics",
            "Slowest groups",
            "Groups",
        ]
        plots = page.locator(".plot")
        assert plots.count() >= 6
        for at in range(plots.count()):
            assert plots.nth(at).locator("svg :is(path, rect)").count() > 0
        assert "NaN" not in page.content()
        assert "undefined" not in page.locator("main").inner_text()
        # Dark ground under light letters, or the other way round.
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground.strip("rgb()").split(","))) < 384) is (scheme == "dark")


def test_what_is_told_are_the_numbers_of_the_report(opened: Opened, report: Path) -> None:
    """Tiles, shares and reasons show what was added up."""
    with opened(report) as page:
        tiles = dict(
            zip(page.locator(".tile dt").all_text_contents(), page.locator(".tile dd").all_text_contents(), strict=True)
        )
        assert tiles["groups"] == "11 22 candidates"
        assert tiles["without spread"] == "60.0% 6"
        assert tiles["not scored"] == "1 group"
        # Finals 0.75 0 three times and 1 -0.5: deviations 0.375 and 0.75, squares 6 * 0.140625 + 2 * 0.5625 = 1.96875.
        # The parts of long: -0.125 * 0.375 * 6 + 0.25 * 0.75 * 2 = 0.09375, a share of 4.76 %.
        shares = page.locator("#terms tbody tr").all_text_contents()
        assert "95.2%" in shares[0]
        assert "4.8%" in shares[1]
        reasons = page.locator(".reason").all_text_contents()
        assert [text.replace(" ", "") for text in reasons] == [
            "allright3·30.0%",
            "allwrong3·30.0%",
            "termscancel0·0.0%",
            "onevalue0·0.0%",
        ]
        assert page.locator("#slow tbody").inner_text().split() == ["judge", "right-2", "2.5", "s", "9", "s"]


def test_a_group_is_opened_and_read(opened: Opened, report: Path) -> None:
    """Prompt, reference to the last digit, each completion with terms, final, advantage and its parts."""
    with opened(report) as page:
        page.get_by_role("button", name="spread-1").click()
        dialog = page.locator("dialog[open]")
        assert dialog.locator(".input").nth(0).inner_text() == "Prompt\nuser\nQuestion of spread-1?"
        assert "12345678901234567890" in dialog.locator(".input").nth(1).inner_text()
        best, other = (dialog.locator(".candidate").nth(at).inner_text().split() for at in (0, 1))
        assert best[:2] == ["1", "spread-1/0"]
        # Final 1 - 0.25; the mean is 0.375. Right adds 1 - 0.5, long -0.5 * (0.5 - 0.25).
        assert best[best.index("final") : best.index("term")] == ["final", "0.75", "advantage", "+0.375"]
        assert best[best.index("right") :] == ["right", "1", "+0.5", "long", "0.5", "−0.125", "good", "1"]
        assert other[:2] == ["2", "spread-1/1"]
        assert other[-2:] == ["bad", "1"]
        page.keyboard.press("Escape")
        assert dialog.count() == 0


def test_a_dropped_group_is_not_scored(opened: Opened, report: Path) -> None:
    """It has a cause and texts, and no number stands for a missing score."""
    with opened(report) as page:
        row = page.locator(".groups tbody tr", has_text="lost")
        assert row.locator(".tag").all_text_contents() == ["not scored"]
        assert row.locator("td").all_text_contents() == ["1", "2", "–", "–", "–", "–", "0"]
        row.locator(".link").click()
        dialog = page.locator("dialog[open]")
        assert dialog.locator(".facts").first.inner_text() == "step 1 · 2 candidates · not scored: judge: TimeoutError"
        assert dialog.locator(".candidate .note").all_text_contents() == ["not scored", "not scored"]
        assert dialog.locator(".candidate .text").all_text_contents() == ["never scored"] * 2


def test_groups_are_sorted_by_any_column(opened: Opened, report: Path) -> None:
    """A click sorts, a second one turns round, and what has no value comes last both ways."""
    with opened(report) as page:
        head = page.locator(".groups th[data-sort=mean]")
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        names = _groups(page)
        assert names[:3] == ["right-1", "right-2", "right-3"]
        assert names[-1] == "lost"
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        names = _groups(page)
        assert names[:3] == ["wrong-1", "wrong-2", "wrong-3"]
        assert names[-1] == "lost"


def test_groups_are_filtered(opened: Opened, report: Path) -> None:
    """By step, spread, truncation and score, alone and together; clearing brings all back."""
    with opened(report) as page:
        page.fill("#from", "2")
        page.fill("#to", "2")
        assert _groups(page) == ["spread-2", "right-2", "wrong-2"]
        page.select_option("#why", "spread")
        assert _groups(page) == ["spread-2"]
        assert page.locator(".count").text_content() == "1 of 11 groups"
        page.get_by_role("button", name="clear").click()
        _until(page, lambda: page.locator(".count").text_content() == "11 groups")
        page.select_option("#cut", "yes")
        assert _groups(page) == ["spread-2"]
        page.select_option("#cut", "")
        page.select_option("#dropped", "yes")
        assert _groups(page) == ["lost"]
        page.select_option("#dropped", "")
        page.select_option("#why", "none")
        assert len(_groups(page)) == 6
        page.locator(".reason", has_text="all wrong").click()
        _until(page, lambda: _groups(page) == ["wrong-1", "wrong-2", "wrong-3"])


def test_texts_are_searched_wherever_they_stand(opened: Opened, report: Path) -> None:
    """In prompts, references, completions and ids, in any case, and not in the names of our own fields."""
    with opened(report) as page:
        for text, groups in (
            ("question of LOST", ["lost"]),
            ("never SCORED", ["lost"]),
            ("needle-in-the-middle", ["long"]),
            ("spread-3/1", ["spread-3"]),
            ("tokens", []),
        ):
            page.fill("#needle", text)
            _until(page, partial(_shows, page, groups))
        page.fill("#needle", "12345678901234567890")
        _until(page, lambda: page.locator(".count").text_content() == "10 of 11 groups")


def test_a_long_text_folds_and_what_was_searched_for_is_marked(opened: Opened, report: Path) -> None:
    """Beginning and end are there at once, the middle on demand."""
    with opened(report) as page:
        page.fill("#needle", "needle-in")
        _until(page, lambda: _groups(page) == ["long"])
        page.get_by_role("button", name="long", exact=True).click()
        text = page.locator("dialog .candidate .text").first
        shown = text.inner_text()
        assert shown.startswith("beginning")
        assert shown.endswith("the end")
        assert len(shown) < 2000
        assert text.locator("mark").count() == 0
        text.get_by_role("button").click()
        assert text.text_content() == LONG
        assert text.locator("mark").all_text_contents() == ["needle-in"]


def test_everything_can_be_done_from_the_keyboard(opened: Opened, report: Path) -> None:
    """Sections, sorting, groups and charts: by tab, enter, arrows and escape."""
    with opened(report) as page:
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Reward"
        page.locator(".plot").first.focus()
        page.keyboard.press("Home")
        readout = page.locator(".readout").first
        assert readout.inner_text().startswith("step 1")
        page.keyboard.press("ArrowRight")
        assert readout.inner_text().startswith("step 2")
        page.get_by_role("button", name="spread-1").focus()
        page.keyboard.press("Enter")
        title = page.locator("#group-title")
        assert title.inner_text() == "spread-1"
        page.keyboard.press("ArrowRight")
        _until(page, lambda: title.inner_text() == "right-1")
        page.keyboard.press("ArrowLeft")
        _until(page, lambda: title.inner_text() == "spread-1")
        assert page.get_by_role("button", name="previous").is_disabled()
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0
        assert page.evaluate("document.activeElement.textContent") == "spread-1"


def test_a_link_opens_its_group(opened: Opened, report: Path) -> None:
    """The address names the group that is open, so that somebody else can be sent there."""
    with opened(report) as page:
        page.locator("#slow").get_by_role("button", name="right-2").click()
        page.wait_for_selector("dialog .candidate")
        address = page.url
        page.keyboard.press("Escape")
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("dialog[open] .candidate")
        assert page.locator("#group-title").inner_text() == "right-2"


def test_more_rows_are_drawn_as_somebody_scrolls(opened: Opened, run: Run, rows: Rows, tmp_path: Path) -> None:
    """Of two thousand groups only the first few are drawn, and the rest is there."""
    found = [row for at in range(2000) for row in rows(f"group-{at}", {"x": [0.0, 1.0]})]
    write_report(build_report(open_scores(run({1: found}))), tmp_path / "many.html")
    with opened(tmp_path / "many.html") as page:
        drawn = page.locator(".groups tbody tr")
        assert drawn.count() < 400
        assert page.locator(".count").text_content() == "2,000 groups"
        before = drawn.count()
        drawn.last.scroll_into_view_if_needed()
        _until(page, lambda: drawn.count() > before)


def test_a_run_without_rows_and_a_single_scored_file_are_shown(
    opened: Opened, run: Run, rows: Rows, written: Callable[..., Path], tmp_path: Path
) -> None:
    """Sections that have nothing to say are left out."""
    metrics = [{"step": step, "train/reward/final/mean": 0.5, "train/reward/final/std": 0.1} for step in (1, 2)]
    write_report(build_report(open_scores(run(metrics=metrics))), tmp_path / "bare.html")
    with opened(tmp_path / "bare.html") as page:
        assert page.locator("section > h2").all_text_contents() == ["Reward"]
        assert page.locator(".tile dd").first.inner_text() == "not scored"
    path = written("s.jsonl", rows("only", {"x": [1.0, 0.0]}))
    write_report(build_report(open_scores(path)), tmp_path / "one.html")
    with opened(tmp_path / "one.html") as page:
        assert page.locator("section > h2").all_text_contents() == [
            "Reward",
            "Terms",
            "Groups without spread",
            "Groups",
        ]
        page.get_by_role("button", name="only").click()
        assert page.locator("dialog .candidate .none").first.inner_text() == "The text is not at hand."
