# SPDX-License-Identifier: Apache-2.0
"""One scored group as a report and a comparison look at it."""

from __future__ import annotations

from typing import Any, final

import msgspec

from posttrain.runs.records import RecordedCandidate

__all__ = ["UNTOLD", "ScoredGroup"]

UNTOLD = "cause not recorded"
"""Stands for the cause of a dropped group whose record names none."""


@final
class ScoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """All candidates of one group, checked: every one is scored with the same terms, or every one is dropped."""

    step: int
    group_id: str
    candidates: tuple[RecordedCandidate, ...]
    """[group_size], in the order of the file, never empty."""

    @property
    def key(self) -> tuple[int, str]:
        """What tells the group from all others: ids may come back in another step."""
        return self.step, self.group_id

    @property
    def dropped_because(self) -> str | None:
        """Why the group has no reward; None: it is scored."""
        first = self.candidates[0]
        return None if first.reward else first.dropped_because or UNTOLD

    @property
    def terms(self) -> dict[str, list[float]]:
        """Term to raw values, [group_size] each; empty when dropped."""
        names = [name for name in self.candidates[0].reward if name != "final"]
        return {name: [each.reward[name] for each in self.candidates] for name in names}

    @property
    def finals(self) -> list[float]:
        """Combined rewards, [group_size]; empty when dropped."""
        return [each.reward["final"] for each in self.candidates if each.reward]

    @property
    def advantages(self) -> list[float] | None:
        """[group_size]; None: dropped, or not annotated."""
        values = [each.advantage for each in self.candidates if each.advantage is not None]
        return values if len(values) == len(self.candidates) else None

    @property
    def row_id(self) -> str | None:
        """The data row's stable id, where it is recorded."""
        return self.candidates[0].row_id

    @property
    def prompt(self) -> Any:
        """The group's prompt; None: no candidate has one at hand."""
        return next((each.prompt for each in self.candidates if each.prompt is not None), None)

    @property
    def reference(self) -> Any:
        """The group's reference; None: no candidate has one at hand."""
        return next((each.reference for each in self.candidates if each.reference is not None), None)
