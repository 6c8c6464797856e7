# SPDX-License-Identifier: Apache-2.0
"""From the outcomes of pairs to one score for each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, fsum, inf, log, log1p
from typing import Final, NamedTuple

from posttrain.errors import RewardContractError

__all__ = ["Outcome", "bradley_terry", "win_rate"]

_MOST_STEPS: Final = 200
_SMALL: Final = 1e-12
_NEAR: Final = 1e-6
_PLACES: Final = 12


class Outcome(NamedTuple):
    """What came of one pair."""

    first: int
    """Place of one candidate."""
    second: int
    """Place of the other."""
    share: float
    """Of the win that goes to the first: 1 won, 0 lost, 0.5 a tie."""


def win_rate(size: int, outcomes: Sequence[Outcome]) -> list[float]:
    """Wins over games for each candidate, in [0, 1]; every one has played."""
    won, played = [0.0] * size, [0] * size
    for first, second, share in outcomes:
        won[first] += share
        won[second] += 1.0 - share
        played[first] += 1
        played[second] += 1
    return [wins / games for wins, games in zip(won, played, strict=True)]


def bradley_terry(size: int, outcomes: Sequence[Outcome], prior: float) -> list[float]:
    """For each candidate the chance to beat one of average strength, in (0, 1); over the group they average to 0.5.

    Bradley and Terry (1952): candidate i beats j with the chance s(a_i - a_j), where s is the logistic function. Each
    candidate also has half of `prior` wins and as many losses against an imagined one of strength 0. With them the
    likelihood has exactly one maximum, finite also when one candidate wins everything, or when some never meet. The
    maximum is found by Newton's method, with steps shortened so that it gets there from anywhere (Sun and Tran-Dinh
    2019, for generalised self-concordant functions); the score is s(a_i), rounded to 12 decimal places. The work grows
    with the cube of `size`.

    Args:
        size: candidates.
        outcomes: shared wins count as that part of a win.
        prior: imagined games for each candidate, at least 0.1: the more, the nearer all scores are to 0.5. With few of
            them and many real ones the scores of candidates that win nearly all lie close to 1.

    Raises:
        RewardContractError: the search did not settle.
    """
    strength = _first_guess(size, outcomes, prior)
    before = inf
    for _ in range(_MOST_STEPS):
        step = _solved(*_slopes(strength, outcomes, prior))
        longest = max(map(abs, step))
        if longest <= _SMALL or (longest < _NEAR and longest >= before):
            return [round(_logistic(each), _PLACES) for each in strength]
        before = longest
        share = log1p(2 * longest) / (2 * longest)
        strength = [each + share * move for each, move in zip(strength, step, strict=True)]
    raise RewardContractError(
        f"the strengths of {size} candidates did not settle: choose a larger prior than {prior:g}"
    )


def _first_guess(size: int, outcomes: Sequence[Outcome], prior: float) -> list[float]:
    """The strengths that would be right if everyone had met only candidates of average strength."""
    won, lost = [prior / 2] * size, [prior / 2] * size
    for first, second, share in outcomes:
        won[first] += share
        lost[first] += 1.0 - share
        won[second] += 1.0 - share
        lost[second] += share
    return [log(wins / losses) for wins, losses in zip(won, lost, strict=True)]


def _slopes(
    strength: Sequence[float], outcomes: Sequence[Outcome], prior: float
) -> tuple[list[list[float]], list[float]]:
    """The curvature of the log likelihood, its sign turned, and its slope."""
    size = len(strength)
    curvature = [[0.0] * size for _ in range(size)]
    slope = [0.0] * size
    for at, each in enumerate(strength):
        chance = _logistic(each)
        slope[at] = prior * (0.5 - chance)
        curvature[at][at] = prior * chance * (1.0 - chance)
    for first, second, share in outcomes:
        chance = _logistic(strength[first] - strength[second])
        surprise, weight = share - chance, chance * (1.0 - chance)
        slope[first] += surprise
        slope[second] -= surprise
        curvature[first][first] += weight
        curvature[second][second] += weight
        curvature[first][second] -= weight
        curvature[second][first] -= weight
    return curvature, slope


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The x of matrix x = right, by elimination; the matrix has a dominant diagonal, so no rows need to be swapped."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for at in range(size):
        pivot = rows[at][at:]
        for row in rows[at + 1 :]:
            if factor := row[at] / pivot[0]:
                row[at:] = [value - factor * above for value, above in zip(row[at:], pivot)]  # noqa: B905  # same length; strict costs a quarter
    found = [0.0] * size
    for at in reversed(range(size)):
        known = fsum(rows[at][other] * found[other] for other in range(at + 1, size))
        found[at] = (rows[at][size] - known) / rows[at][at]
    return found


def _logistic(value: float) -> float:
    if value >= 0:
        return 1.0 / (1.0 + exp(-value))
    power = exp(value)
    return power / (1.0 + power)
