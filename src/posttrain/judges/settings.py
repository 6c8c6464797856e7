# SPDX-License-Identifier: Apache-2.0
"""Checks of the settings that the judges have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.judges.rendering import Page, Shown
from posttrain.rewards.contract.names import name_faults

__all__ = ["Presented", "checked_page", "criteria_faults", "flag_faults", "lone_faults"]


class Presented(Protocol):
    """How a judge shows its data; see `Page`."""

    @property
    def instructions(self) -> str:
        """Text of its own."""
        ...

    @property
    def template(self) -> str | None:
        """Text with placeholders."""
        ...

    @property
    def show_reference(self) -> bool:
        """A flag."""
        ...

    @property
    def show_truncation(self) -> bool:
        """A flag."""
        ...

    @property
    def explain(self) -> bool:
        """A flag."""
        ...

    @property
    def shown(self) -> Shown:
        """How texts are shown."""
        ...


def checked_page(judge: Presented, faults: list[str], *, body: str, required: tuple[str, ...]) -> Page:
    """The judge's page.

    Raises:
        RewardConfigError: naming `faults` and every fault of what all judges have.
    """
    flags = {name: getattr(judge, name) for name in ("show_reference", "show_truncation", "explain")}
    found = [*faults, *flag_faults(flags)]
    if not isinstance(judge.instructions, str):
        found.append(f"instructions: expected text, got {describe(judge.instructions)}")
    page: Page | None = None
    try:
        page = Page(
            judge.template,
            body=body,
            required=required,
            show_reference=judge.show_reference is True,
            shown=judge.shown,
            show_truncation=judge.show_truncation,
        )
    except RewardConfigError as error:
        found.append(error.message)
    if page is None or found:
        raise RewardConfigError(f"{type(judge).__name__} is not valid:\n{listing(found)}")
    return page


def flag_faults(flags: Mapping[str, object]) -> list[str]:
    """One line for each that is no bool."""
    return [f"{name}: expected a bool, got {describe(flag)}" for name, flag in flags.items() if type(flag) is not bool]


def criteria_faults(criteria: object, term: object) -> list[str]:
    """What is wrong with the criteria and the term's name."""
    faults = [f"term: {fault}" for fault in name_faults("term", [term])]
    if not isinstance(criteria, str) or not criteria.strip():
        faults.append(f"criteria: expected what makes a response the better one, got {describe(criteria)}")
    return faults


def lone_faults(lone: object) -> list[str]:
    """What is wrong with the declared score of a group of one."""
    if lone is None or (isinstance(lone, (int, float)) and type(lone) is not bool and 0 <= lone <= 1):
        return []
    return [f"lone: expected a number from 0 to 1, or None, got {describe(lone)}"]
