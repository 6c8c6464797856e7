# SPDX-License-Identifier: Apache-2.0
"""Why a group has no spread."""

from __future__ import annotations

import pytest

from posttrain.report.spread import REASONS, TermRanges, zero_spread

WEIGHTS = {"right": 1.0, "style": 0.5, "long": -0.5, "ignored": 0.0}


def _reason(terms: dict[str, list[float]], finals: list[float], seen: dict[str, list[float]] | None = None) -> str:
    ranges = TermRanges()
    ranges.add(terms, WEIGHTS)
    if seen is not None:
        ranges.add(seen, WEIGHTS)
    zero = zero_spread(terms, WEIGHTS, finals)
    assert zero is not None
    return ranges.reason(zero)


def test_a_group_with_spread_has_no_reason() -> None:
    """Where rewards differ there is nothing to explain."""
    assert zero_spread({"right": [1.0, 0.0]}, WEIGHTS, [1.0, 0.0]) is None


# What the rest of the file shows: terms that are sometimes 0 and sometimes 1.
VERDICTS = {"right": [0.0, 1.0], "style": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("terms", "finals", "reason"),
    [
        ({"right": [1.0, 1.0], "style": [1.0, 1.0]}, [1.5, 1.5], "all right"),
        ({"right": [0.0, 0.0], "style": [0.0, 0.0]}, [0.0, 0.0], "all wrong"),
        # They say right or wrong, and they disagree.
        ({"right": [1.0, 1.0], "style": [0.0, 0.0]}, [1.0, 1.0], "one value"),
        # 1 - 0.5 * 1 and 0.5 * 1 - 0.5 * 0
        ({"right": [1.0, 0.0], "style": [0.0, 1.0], "long": [1.0, 0.0]}, [0.5, 0.5], "terms cancel"),
        # A penalty that is the same for all says nothing about right or wrong.
        ({"right": [1.0, 1.0], "style": [1.0, 1.0], "long": [0.0, 0.0]}, [1.5, 1.5], "all right"),
        # What has no weight makes no reward, so it can't cancel.
        ({"right": [0.0, 0.0], "style": [0.0, 0.0], "ignored": [0.0, 1.0]}, [0.0, 0.0], "all wrong"),
        # A group of one is judged by its value.
        ({"right": [1.0], "style": [1.0]}, [1.5], "all right"),
    ],
)
def test_the_reason_by_the_terms(terms: dict[str, list[float]], finals: list[float], reason: str) -> None:
    """Each reason comes from what its definition says, and from nothing else."""
    assert _reason(terms, finals, VERDICTS) == reason
    assert reason in REASONS


@pytest.mark.parametrize("terms", [{"graded": [0.7, 0.7]}, {"long": [1.0, 1.0]}, {"long": [0.0, 0.0]}])
def test_without_a_term_that_says_right_or_wrong_there_is_one_value(terms: dict[str, list[float]]) -> None:
    """Of a graded term, or of a penalty alone, nobody knows what is right."""
    assert _reason(terms, [0.0, 0.0]) == "one value"


def test_one_graded_value_anywhere_makes_a_term_graded() -> None:
    """A group of ones is not all right when another group was given a half."""
    assert _reason({"right": [1.0, 1.0]}, [1.0, 1.0], {"right": [0.5, 0.5]}) == "one value"


def test_a_term_that_is_zero_everywhere_does_not_call_a_right_group_wrong() -> None:
    """A bonus that nobody ever got says nothing, as long as another term is 1 somewhere."""
    ranges = TermRanges()
    ranges.add({"right": [0.0, 1.0], "style": [0.0, 0.0]}, WEIGHTS)
    zero = zero_spread({"right": [1.0, 1.0], "style": [0.0, 0.0]}, WEIGHTS, [1.0, 1.0])
    assert zero is not None
    assert ranges.verdicts() == {"right"}
    assert ranges.reason(zero) == "all right"


def test_where_nothing_is_ever_right_all_is_wrong() -> None:
    """A file of zeros is all wrong, rather than a riddle."""
    assert _reason({"right": [0.0, 0.0], "style": [0.0, 0.0]}, [0.0, 0.0]) == "all wrong"
