# SPDX-License-Identifier: Apache-2.0
"""The page of a comparison in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardContractError
from posttrain.report import open_scores
from posttrain.report.compare import compare_scores, write_comparison
from posttrain.rollouts.source import RolloutSource

Written = Callable[..., Path]
Rows = Callable[..., list[dict[str, Any]]]
Opened = Callable[..., Any]


@pytest.fixture
def pair(written: Written, rows: Rows) -> tuple[Path, Path]:
    """Two groups: one whose ranking turns round, and one that stays."""
    a = [*rows("stays", {"x": [1.0, 0.0]}), *rows("<b>turns", {"x": [1.0, 0.0], "old": [0.0, 0.0]})]
    b = [*rows("stays", {"x": [1.0, 0.0]}), *rows("<b>turns", {"x": [0.0, 1.0], "new": [0.0, 0.0]})]
    return written("a.jsonl", a), written("b.jsonl", b)


def _write(pair: tuple[Path, Path], out: Path, rollouts: RolloutSource | None = None) -> None:
    comparison, largest = compare_scores(*map(open_scores, pair), top=200)
    assert write_comparison(comparison, largest, out, sources=pair, rollouts=rollouts) == out.stat().st_size


@pytest.mark.parametrize("width", [1366, 390])
def test_both_scorings_stand_side_by_side(
    opened: Opened, pair: tuple[Path, Path], written: Written, tmp_path: Path, width: int
) -> None:
    """Changes, the groups that moved most, and each number of A with that of B where it differs."""
    names = ["stays", "<b>turns"]
    texts = [
        {"group_id": name, "trajectory_id": f"{name}/{at}", "prompt": f"ask {name}", "completion": f"<i>{name} {at}"}
        for name in names
        for at in (0, 1)
    ]
    _write(pair, tmp_path / "c.html", RolloutSource(written("r.jsonl", texts)))
    with opened(tmp_path / "c.html", width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        tiles = dict(
            zip(page.locator(".tile dt").all_text_contents(), page.locator(".tile dd").all_text_contents(), strict=True)
        )
        assert tiles["rank flips"] == "50.0% 1 of 2 pairs"
        assert tiles["advantage sign flips"] == "50.0% 2"
        assert tiles["another best candidate"] == "50.0% 1 groups"
        # Finals of A and B: 1 0 1 0 and 1 0 0 1; half of them changed, by 1 each.
        final = page.locator("#changes tbody tr").first
        assert final.locator("td").all_text_contents() == ["0.5", "0.5", "0", "50.0%", "0.5", "1"]
        assert page.locator("#changes tbody th small").all_text_contents() == [" only in A", " only in B"]
        rows = page.locator(".groups tbody tr .link")
        assert rows.all_text_contents() == ["<b>turns", "stays"]
        rows.first.click()
        first = page.locator("dialog .candidate").first
        numbers = first.locator(".num").all_text_contents()
        assert numbers == ["1 → 0", "+0.5 → −0.5", "1 → 0", "0 → –", "– → 0"]
        assert first.locator(".text").inner_text() == "<i><b>turns 0"
        assert page.locator("dialog .input").first.inner_text() == "Prompt\nask <b>turns"
        assert page.locator("dialog .facts").first.inner_text() == (
            "2 candidates · advantage moved by 1 · 1 rank flip · 2 sign flips"
        )


def test_what_is_not_known_is_said(opened: Opened, pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Without recorded digests nobody vouches for the rollouts, and without rollouts there are no texts."""
    _write(pair, tmp_path / "c.html")
    with opened(tmp_path / "c.html") as page:
        (remark,) = page.locator(".remark").all_text_contents()
        assert remark.startswith("Nothing recorded says that both were made from the same rollouts")
        page.locator(".groups tbody tr .link").first.click()
        assert page.locator("dialog .candidate .none").first.inner_text() == "The text is not at hand."


def test_rollouts_without_a_shown_candidate_are_refused(
    pair: tuple[Path, Path], written: Written, tmp_path: Path
) -> None:
    """Nothing is written then."""
    rollouts = written("r.jsonl", [{"group_id": "stays", "trajectory_id": "stays/0", "completion": "x"}])
    with pytest.raises(RewardContractError, match=r"(?s)does not hold.*<b>turns/0.*stays/1"):
        _write(pair, tmp_path / "c.html", RolloutSource(rollouts))
    assert not (tmp_path / "c.html").exists()
