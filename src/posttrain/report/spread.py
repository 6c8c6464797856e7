# SPDX-License-Identifier: Apache-2.0
"""Why the candidates of a group all have the same final reward, so that none of them gets an advantage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import msgspec

__all__ = ["REASONS", "TermRanges", "ZeroSpread", "zero_spread"]

REASONS: Final = ("all right", "all wrong", "terms cancel", "one value")
"""Every reason, in the order in which it is told. See `TermRanges.reason`."""


@final
class ZeroSpread(msgspec.Struct, frozen=True):
    """What a group without spread shows by itself."""

    cancels: bool
    """Whether a term with a weight differs inside the group: the weighted sum is the same all the same."""
    ones: tuple[str, ...] = ()
    """Terms with a positive weight that are 1 for every candidate."""
    zeros: tuple[str, ...] = ()
    """Terms with a positive weight that are 0 for every candidate."""


def zero_spread(
    terms: Mapping[str, Sequence[float]], weights: Mapping[str, float], finals: Sequence[float]
) -> ZeroSpread | None:
    """What there is to say of a group without spread; None where there is spread.

    Args:
        terms: raw values, [group_size] each.
        weights: term to weight; 1 where none is given.
        finals: [group_size], at least one.
    """
    if min(finals) != max(finals):
        return None
    weighted = {term: values for term, values in terms.items() if weights.get(term, 1.0)}
    if any(min(values) != max(values) for values in weighted.values()):
        return ZeroSpread(cancels=True)
    paying = {term: values[0] for term, values in weighted.items() if weights.get(term, 1.0) > 0}
    return ZeroSpread(
        cancels=False,
        ones=tuple(term for term, value in paying.items() if value == 1),
        zeros=tuple(term for term, value in paying.items() if value == 0),
    )


@final
class TermRanges:
    """Which terms only say right or wrong: those with a positive weight whose every value is 0 or 1."""

    __slots__ = ("_verdicts",)

    def __init__(self) -> None:
        self._verdicts: dict[str, bool | None] = {}
        """Term to whether a 1 was seen among its values; None: another value was."""

    def add(self, terms: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> None:
        """Look at the values of a group."""
        for term, values in terms.items():
            seen = self._verdicts.get(term, False)
            if seen is None:
                continue
            if weights.get(term, 1.0) <= 0 or not set(values) <= {0.0, 1.0}:
                self._verdicts[term] = None
            else:
                self._verdicts[term] = seen or 1.0 in values

    def verdicts(self) -> frozenset[str]:
        """The terms that say right or wrong. One that is 0 everywhere counts only where no term is ever 1."""
        ever = frozenset(term for term, seen in self._verdicts.items() if seen)
        return ever or frozenset(term for term, seen in self._verdicts.items() if seen is False)

    def reason(self, zero: ZeroSpread) -> str:
        """Why a group has no spread.

        ``terms cancel``: a weighted term differs inside the group. ``all right``, ``all wrong``: every term that says
        right or wrong, and there is one, is 1, or 0, for every candidate. ``one value``: anything else.
        """
        if zero.cancels:
            return "terms cancel"
        verdicts = self.verdicts()
        if verdicts and verdicts <= {*zero.ones}:
            return "all right"
        return "all wrong" if verdicts and verdicts <= {*zero.zeros} else "one value"
