# SPDX-License-Identifier: Apache-2.0
"""Terms become one reward: weighted, in any order, and refused by name where no float can hold the sum."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rewards import RewardCombiner, RewardProviderSpec, RewardWorker
from posttrain.schema import Trajectory
from strategies import wide_floats

LARGEST = sys.float_info.max

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]

pairs = st.lists(st.tuples(wide_floats, wide_floats), min_size=1, max_size=5)
"""Weights and values of one candidate's terms."""


def _combined(pairs_of: list[tuple[float, float]]) -> float:
    names = [f"t{index}" for index in range(len(pairs_of))]
    combiner = RewardCombiner({name: weight for name, (weight, _) in zip(names, pairs_of, strict=True)})
    (final,) = combiner.combine({name: (value,) for name, (_, value) in zip(names, pairs_of, strict=True)})
    return final


@pytest.mark.parametrize(
    ("weights", "terms", "expected"),
    [
        ({"a": 1.0}, {"a": (0.5, 1.0)}, (0.5, 1.0)),
        ({"a": 2.0}, {"a": (0.5, 1.0)}, (1.0, 2.0)),
        # 2 · 1 + 0.5 · 4 and 2 · 3 + 0.5 · -2.
        ({"a": 2.0, "b": 0.5}, {"a": (1.0, 3.0), "b": (4.0, -2.0)}, (4.0, 5.0)),
        # A weight of 0 keeps a term out, a negative one punishes.
        ({"a": 1.0, "b": 0.0}, {"a": (1.0, 3.0), "b": (4.0, -2.0)}, (1.0, 3.0)),
        ({"a": 1.0, "b": -0.5}, {"a": (1.0, 3.0), "b": (4.0, -2.0)}, (-1.0, 4.0)),
        ({"a": 0.0}, {"a": (1.0, LARGEST)}, (0.0, 0.0)),
        # The terms may stand in any order.
        ({"b": 10.0, "a": 1.0}, {"a": (1.0,), "b": (2.0,)}, (21.0,)),
        # The large ones cancel; the small one survives, wherever it stands.
        ({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": (1e17,), "b": (1.0,), "c": (-1e17,)}, (1.0,)),
    ],
)
def test_sums_worked_out_by_hand(
    weights: dict[str, float], terms: dict[str, tuple[float, ...]], expected: tuple[float, ...]
) -> None:
    """Each candidate's reward is the weighted sum of its terms."""
    assert RewardCombiner(weights).combine(terms) == expected


@given(pairs)
@example([(2.0, 1e308), (-1.5, 1e308)])
@example([(1.0, 1e308), (1.0, 1e308), (1.0, -1e308)])
@example([(1.0, LARGEST), (1.0, LARGEST)])
@example([(LARGEST, LARGEST), (-LARGEST, LARGEST), (1.0, 0.5)])
def test_sums_agree_with_rational_arithmetic(pairs_of: list[tuple[float, float]]) -> None:
    """A sum is right but for the rounding of its products and of itself, and refused only when no float can hold it."""
    products = [Fraction(weight) * Fraction(value) for weight, value in pairs_of]
    exact = sum(products, Fraction())
    # Half a unit in the last place for each product and for the sum: 2^-53 of each, or half the smallest float.
    slack = sum((abs(product) for product in [*products, exact]), Fraction()) / 2**53 + 6 * Fraction(5e-324)
    try:
        got = _combined(pairs_of)
    except RewardContractError:
        assert abs(exact) + slack > Fraction(LARGEST)
        return
    assert abs(Fraction(got) - exact) <= slack


@given(st.data(), pairs)
def test_the_order_of_terms_changes_no_bit(data: st.DataObject, pairs_of: list[tuple[float, float]]) -> None:
    """The same terms in another order give the same bits, or are refused likewise."""

    def told(ordered: list[tuple[float, float]]) -> str:
        try:
            return _combined(ordered).hex()
        except RewardContractError as error:
            return error.message

    assert told(data.draw(st.permutations(pairs_of))) == told(pairs_of)


@pytest.mark.parametrize("order", ["abc", "acb", "bca", "cab"])
def test_a_partial_sum_may_leave_the_range(order: str) -> None:
    """A sum that a float can hold is not refused for the order in which it is added up."""
    values = {"a": (1e308,), "b": (1e308,), "c": (-1e308,)}
    assert RewardCombiner(dict.fromkeys(order, 1.0)).combine(values) == (1e308,)


def test_a_partial_sum_out_of_range_is_rounded_like_any_other() -> None:
    """Of the same rounded products, an order that overflows on the way gives the bits of one that does not."""
    values = {"a": (5.2e307,), "b": (5e307,), "c": (4.3e307,)}
    weights = {"a": 3.0, "b": 3.0, "c": -3.0}
    overflows, fits = ([3 * 5.2e307, 3 * 5e307, -3 * 4.3e307], [3 * 5.2e307, -3 * 4.3e307, 3 * 5e307])
    with pytest.raises(OverflowError, match="fsum"):
        math.fsum(overflows)
    assert RewardCombiner(weights).combine(values) == (math.fsum(fits),)
    # Exact products would round to another float.
    assert math.fsum(fits) != float(sum(Fraction(weights[term]) * Fraction(values[term][0]) for term in "abc"))


def test_a_product_may_leave_the_range() -> None:
    """A sum that a float can hold is not refused for a product that none could: 2e308 - 1.5e308."""
    combiner = RewardCombiner({"a": 2.0, "b": -1.5})
    assert combiner.combine({"a": (1e308,), "b": (1e308,)}) == pytest.approx((0.5e308,), rel=1e-15)


def test_sums_out_of_range_are_named() -> None:
    """Every candidate whose sum no float can hold is named, by its place or its id, and no other."""
    combiner = RewardCombiner({"a": 1.0, "b": 1.0})
    terms = {"a": (1e308, 1.0, -1e308), "b": (1e308, 1.0, -1e308)}
    with pytest.raises(RewardContractError, match=r"beyond the range of a float:\n  \[0\]\n  \[2\]$") as caught:
        combiner.combine(terms)
    assert caught.value.trajectory_id is None
    with pytest.raises(RewardContractError, match=r"beyond the range of a float:\n  x\n  z$"):
        combiner.combine(terms, ("x", "y", "z"))
    with pytest.raises(RewardContractError, match=r"^trajectory 'z': .*\n  z$") as caught:
        combiner.combine({"a": (0.0, 1.0, 1e308), "b": (0.0, 1.0, 1e308)}, ("x", "y", "z"))
    assert caught.value.trajectory_id == "z"


def test_a_batch_with_a_sum_out_of_range_names_group_and_trajectory(batch_of: Batch, spec_of: Spec) -> None:
    """The stage's error says which group and which trajectory."""
    worker = RewardWorker(catalog={"p": spec_of("task")}, reward="p", group_size=2, weights={"task": 2.0})
    batch = batch_of({"fine": [0.0, 1.0], "huge": [0.0, 1e308]})
    with pytest.raises(RewardContractError, match=r"^group 'huge', trajectory 'huge/1': ") as caught:
        worker.score(batch)
    assert (caught.value.group_id, caught.value.trajectory_id) == ("huge", "huge/1")


def test_terms_without_a_weight_count_once() -> None:
    """1.0 is the weight of a term that is given none; each is a Python float, whatever was given."""
    float_like: Any = np.float32(0.5)
    combiner = RewardCombiner.of_terms(("a", "b", "c"), {"b": float_like, "c": -2})
    assert combiner.weights == {"a": 1.0, "b": 0.5, "c": -2.0}
    assert [type(weight) for weight in combiner.weights.values()] == [float] * 3
    assert repr(combiner) == "RewardCombiner({'a': 1.0, 'b': 0.5, 'c': -2.0})"


def test_the_weights_are_the_callers_no_longer() -> None:
    """Changing the mapping afterwards changes no reward."""
    weights = {"a": 2.0}
    combiner = RewardCombiner(weights)
    weights["a"] = 9.0
    assert combiner.combine({"a": (1.0,)}) == (2.0,)


def test_unknown_terms_are_refused() -> None:
    """Every weight for a term that nobody declares is named, beside the terms that there are."""
    with pytest.raises(
        RewardConfigError, match=r"^weights for unknown terms 'taks', 'final'; the terms are task, style$"
    ):
        RewardCombiner.of_terms(("task", "style"), {"taks": 1.0, "task": 1.0, "final": 1.0})


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (True, "True (bool)"),
        (math.nan, "nan (float)"),
        (math.inf, "inf (float)"),
        ("1", "'1' (str)"),
        (None, "None"),
        (10**400, "an int of 1329 bits"),
        ([1.0], "[1.0] (list)"),
    ],
)
def test_a_weight_is_a_finite_number(weight: Any, shown: str) -> None:
    """Every weight that is none is named with what came, and the sound one is not."""
    with pytest.raises(RewardConfigError, match="the weights are not valid") as caught:
        RewardCombiner({"good": 1.0, "bad": weight, "worse": weight})
    assert caught.value.message.splitlines()[1:] == [
        f"  weight of {name!r}: expected a finite number, got {shown}" for name in ("bad", "worse")
    ]


@pytest.mark.parametrize("weights", [[("a", 1.0)], 1.0, "a", ("a",)])
def test_weights_are_a_mapping(weights: Any) -> None:
    """Anything else is refused with what came."""
    with pytest.raises(RewardConfigError, match=re.escape("weights: expected a mapping from term to number, got ")):
        RewardCombiner.of_terms(("a",), weights)
