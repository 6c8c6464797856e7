# SPDX-License-Identifier: Apache-2.0
"""Items of a rubric, folded into one score, and rubrics that come with a row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.frozen import freeze
from posttrain.judges import RubricItem
from posttrain.judges.rubric.item import fold, items_of_row


def test_a_fold_is_the_weighted_mean_of_normalised_ratings() -> None:
    """(2 x 3/4 + 1 x (5 - 1)/(5 - 1)) / 3 = (1.5 + 1) / 3."""
    items = [RubricItem("a", "A", weight=2, scale=(0, 4)), RubricItem("b", "B", scale=(1, 5))]
    assert fold(items, [3, 5]) == pytest.approx(2.5 / 3, rel=1e-15)


def test_equal_weights_fold_to_the_mean() -> None:
    """Case judge-04: two of three items met are 2/3."""
    assert fold([RubricItem(name, name) for name in ("r1", "r2", "r3")], [1, 0, 1]) == pytest.approx(2 / 3, rel=1e-15)


def test_a_negative_weight_is_a_fault() -> None:
    """With weights 3 and -1: none of the fault and all of the merit is 1, the reverse 0, both (3 + 0) / 4."""
    items = [RubricItem("good", "good", weight=3), RubricItem("bad", "bad", weight=-1)]
    assert [fold(items, ratings) for ratings in ([1, 0], [0, 1], [1, 1], [0, 0])] == [1.0, 0.0, 0.75, 0.25]


@given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(0, 1)), min_size=1, max_size=8))
def test_a_fold_stays_in_its_range(pairs: list[tuple[float, float]]) -> None:
    """Between the lowest and the highest rating, and never outside [0, 1] by rounding."""
    items = [RubricItem(f"i{at}", "x", weight=weight) for at, (weight, _) in enumerate(pairs)]
    ratings = [rating for _, rating in pairs]
    value = fold(items, ratings)
    assert 0 <= value <= 1
    assert min(ratings) - 1e-12 <= value <= max(ratings) + 1e-12


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "no spaces"}, r"id: item name 'no spaces' \(str\)"),
        ({"id": "final"}, "reserved"),
        ({"id": "reasoning"}, "is the key of the judge's own text"),
        ({"id": None}, "id: item name None"),
        ({"text": " "}, "text: expected what to look for"),
        ({"text": 3}, "text: expected what to look for, got 3"),
        ({"weight": 0}, "weight: expected a number of size 1e-06 to 1e.06, got 0"),
        ({"weight": float("nan")}, "weight: expected"),
        ({"weight": True}, r"weight: expected .* got True"),
        ({"scale": (1, 1)}, "scale: expected the lowest rating below the highest"),
        ({"scale": (1, 0)}, "scale: expected the lowest"),
        ({"scale": (0, float("inf"))}, "scale: expected two numbers"),
        ({"scale": (False, True)}, "scale: expected two numbers"),
        ({"scale": 5}, "scale: expected the lowest and the highest rating, got 5"),
        ({"scale": (0, 0.5), "whole": True}, "scale: expected whole numbers"),
        ({"whole": 1}, "whole: expected a bool, got 1"),
    ],
)
def test_an_item_that_is_not_valid_is_refused(fields: dict[str, Any], message: str) -> None:
    """Each field is checked when the item is made."""
    with pytest.raises(RewardConfigError, match=message):
        RubricItem(**{"id": "a", "text": "A", **fields})


def test_a_row_brings_its_items() -> None:
    """They come after the judge's own, with the same fields and defaults."""
    reference = freeze({"rubric": [{"id": "b", "text": "B", "weight": -2, "scale": [0, 4], "whole": True}]})
    common = RubricItem("a", "A")
    assert items_of_row(reference, "rubric", [common]) == (
        common,
        RubricItem("b", "B", weight=-2.0, scale=(0.0, 4.0), whole=True),
    )


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("text", "reference: expected a mapping with the field 'rubric', a list of rubric items; got 'text'"),
        ({}, r"reference\.rubric: expected a list of rubric items that is not empty, got None"),
        ({"rubric": []}, r"reference\.rubric: expected a list"),
        ({"rubric": {"id": "b"}}, r"reference\.rubric: expected a list"),
        ({"rubric": ["b"]}, r"reference\.rubric\[0\]: expected a mapping with id and text, got 'b'"),
        ({"rubric": [{"id": "b"}]}, r"reference\.rubric\[0\]\.text is missing"),
        ({"rubric": [{"id": "b", "text": "B", "points": 3}]}, r"reference\.rubric\[0\]: 'points' \(str\) is no field"),
        ({"rubric": [{"id": "b", "text": "B", "weight": "3"}]}, r"reference\.rubric\[0\]\.weight: expected a number"),
        ({"rubric": [{"id": "a", "text": "B"}]}, r"reference\.rubric: the id 'a' stands 2 times"),
    ],
)
def test_a_row_that_is_not_valid_is_refused(reference: Any, message: str) -> None:
    """The data is at fault, and the field is named."""
    with pytest.raises(RewardContractError, match=message):
        items_of_row(freeze(reference), "rubric", [RubricItem("a", "A")])


def test_every_fault_of_a_row_is_named() -> None:
    """Two bad items make two lines."""
    reference = freeze({"rubric": [{"id": "b"}, {"id": "c", "text": "C", "scale": [1, 0]}]})
    with pytest.raises(RewardContractError, match=r"(?s)\[0\]\.text is missing.*\[1\]\.scale: expected the lowest"):
        items_of_row(reference, "rubric", [])
