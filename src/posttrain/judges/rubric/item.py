# SPDX-License-Identifier: Apache-2.0
"""One item of a rubric, and a rubric that comes with a row of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Final, final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.frozen import FrozenJson, Json
from posttrain.judges.explanation import EXPLANATION
from posttrain.judges.scale import scale_faults
from posttrain.rewards.contract.names import name_faults

__all__ = ["RubricItem", "fold", "items_of_row", "repeated_ids"]

_LIGHTEST, _HEAVIEST = 1e-6, 1e6
_FIELDS: Final = ("id", "text", "weight", "scale", "whole")


@final
@dataclass(frozen=True, slots=True)
class RubricItem:
    """What is looked for, and the scale that it is rated on.

    Raises:
        RewardConfigError: naming every field that is not valid.

    Example:
        ``RubricItem("correct", "The final answer is right.", weight=3.0, scale=(0, 4), whole=True)``
    """

    id: str
    """Key of the rating in the judge's answer; the name of a term when the rubric is not folded."""
    text: str
    """What the judge is told to look for."""
    weight: float = 1.0
    """Share in the folded score, not 0. Below 0 it is a fault: the more of it, the lower the score."""
    scale: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest rating, both allowed."""
    whole: bool = False
    """Whether only whole numbers are ratings."""

    def __post_init__(self) -> None:
        """Refuse what is not valid, all at once."""
        if faults := _faults(self):
            raise RewardConfigError(f"RubricItem {describe(self.id)} is not valid:\n{listing(faults)}")
        low, high = self.scale
        object.__setattr__(self, "weight", float(self.weight))
        object.__setattr__(self, "scale", (float(low), float(high)))

    def content(self) -> dict[str, Json]:
        """The item as JSON."""
        return {"id": self.id, "text": self.text, "weight": self.weight, "scale": self.scale, "whole": self.whole}

    def normalised(self, rating: float) -> float:
        """The rating in [0, 1]: 1 is best, which for a negative weight is the lowest rating."""
        low, high = self.scale
        share = (rating - low) / (high - low)
        return share if self.weight > 0 else 1.0 - share


def fold(items: Sequence[RubricItem], ratings: Sequence[float]) -> float:
    """The mean of the normalised ratings, weighted by the weights' sizes: in [0, 1]."""
    total = fsum(abs(item.weight) for item in items)
    pairs = zip(items, ratings, strict=True)
    return min(1.0, max(0.0, fsum(abs(item.weight) * item.normalised(rating) for item, rating in pairs) / total))


def repeated_ids(items: Sequence[RubricItem]) -> list[str]:
    """One line for each id that more than one item has."""
    ids = [item.id for item in items]
    return [f"the id {name!r} stands {ids.count(name)} times" for name in dict.fromkeys(ids) if ids.count(name) > 1]


def items_of_row(reference: FrozenJson, field: str, common: Sequence[RubricItem]) -> tuple[RubricItem, ...]:
    """The judge's own items, then those that stand in `field` of the row's reference.

    Raises:
        RewardContractError: naming every fault by its path, for example ``reference.rubric[2].weight``.
    """
    path = f"reference.{field}"
    if not isinstance(reference, Mapping):
        raise RewardContractError(
            f"reference: expected a mapping with the field {field!r}, a list of rubric items; got {describe(reference)}"
        )
    rows = reference.get(field)
    if not isinstance(rows, tuple) or not rows:
        raise RewardContractError(f"{path}: expected a list of rubric items that is not empty, got {describe(rows)}")
    faults: list[str] = []
    items = list(common)
    for at, row in enumerate(rows):
        made = _item_of(row, f"{path}[{at}]", faults)
        items += [] if made is None else [made]
    faults += [f"{path}: {fault}" for fault in repeated_ids(items)]
    if faults:
        raise RewardContractError(f"the row's rubric is not valid:\n{listing(faults)}")
    return tuple(items)


def _item_of(row: FrozenJson, path: str, faults: list[str]) -> RubricItem | None:
    if not isinstance(row, Mapping):
        faults.append(f"{path}: expected a mapping with id and text, got {describe(row)}")
        return None
    found = [f"{path}.{name} is missing" for name in ("id", "text") if name not in row]
    found += [f"{path}: {describe(name)} is no field of an item" for name in row if name not in _FIELDS]
    if found:
        faults += found
        return None
    fields: dict[str, Any] = dict(row)
    try:
        return RubricItem(**fields)
    except RewardConfigError as error:
        faults += [f"{path}.{line.strip()}" for line in error.message.splitlines()[1:]]
        return None


def _faults(item: RubricItem) -> list[str]:
    faults = [f"id: {fault}" for fault in name_faults("item", [item.id])]
    if item.id == EXPLANATION:
        faults.append(f"id: {EXPLANATION!r} is the key of the judge's own text: choose another")
    if not isinstance(item.text, str) or not item.text.strip():
        faults.append(f"text: expected what to look for, got {describe(item.text)}")
    weight: object = item.weight
    if type(weight) not in (int, float) or not _LIGHTEST <= abs(item.weight) <= _HEAVIEST:
        faults.append(f"weight: expected a number of size {_LIGHTEST:g} to {_HEAVIEST:g}, got {describe(weight)}")
    if type(item.whole) is not bool:
        faults.append(f"whole: expected a bool, got {describe(item.whole)}")
    faults += [f"scale: {fault}" for fault in scale_faults(item.scale, whole=item.whole is True)]
    return faults
