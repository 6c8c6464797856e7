# SPDX-License-Identifier: Apache-2.0
"""Two scorings of the same rollouts, compared: what each number means is said at its field."""

from __future__ import annotations

import heapq
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.report.compare.changes import ColumnChange, TermChange, finite
from posttrain.report.compare.pairing import Pair, Pairing
from posttrain.report.compare.ranks import rank_change
from posttrain.report.facts import Facts
from posttrain.report.reading import Scores

__all__ = ["Comparison", "GroupChange", "compare_scores"]

_LISTED: Final = 20


@final
class GroupChange(msgspec.Struct, frozen=True, kw_only=True):
    """One group that both sides scored, over the candidates that both have."""

    step: int
    """Of A."""
    group_id: str
    row_id: str | None
    candidates: int
    advantage_change: float | None
    """Mean absolute change of the advantage; None: a side has none, or it is beyond the range of a float."""
    final_change: float | None
    """Mean absolute change of the final reward."""
    rank_flips: int
    """Pairs of candidates that both sides rank, without a tie, in opposite orders."""
    sign_flips: int
    """Candidates whose advantage is above 0 on one side and below 0 on the other."""


@final
class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from A to B. Everything but the counts of left-out candidates is over what both sides scored."""

    a: str
    b: str
    same_rollouts: bool | None
    """Whether both were made from rollouts with the same digest; None: not recorded on both sides."""
    differences: list[list[str]]
    """What made them and differs: name, in A, in B."""
    groups: int
    """Groups with a candidate that both sides scored."""
    candidates: int
    """Candidates that both sides scored."""
    changes: list[TermChange]
    """The final reward, the advantage, then each term."""
    rank_flips: int
    ordered_pairs: int
    """Pairs of candidates of a group that neither side ties."""
    groups_with_rank_flips: int
    another_top: int
    """Groups whose best candidates, ties included, in A and in B have none in common."""
    sign_flips: int
    annotated: int
    """Candidates that have an advantage on both sides."""
    only_a: int
    """Candidates that only A has; `only_a_ids` names the first of them."""
    only_b: int
    only_a_ids: list[str]
    only_b_ids: list[str]
    not_scored_a: int
    """Candidates of groups that were dropped in A."""
    not_scored_b: int
    other_texts: int
    """Candidates whose completion is another text in B; more than none only when forced."""
    largest: list[GroupChange]
    """The groups that changed most, largest first: by the change of the advantage, then of the final reward."""


@final
class _Sums:
    """What is added up over the pairs."""

    def __init__(self, top: int) -> None:
        self.final = ColumnChange("final", "final")
        self.advantage = ColumnChange("advantage", "advantage")
        self.terms: dict[str, ColumnChange] = {}
        self.groups = self.candidates = self.flips = self.ordered = self.flipped = self.tops = 0
        self.signs = self.annotated = 0
        self._top = top
        self._largest: list[tuple[tuple[float, float], int, GroupChange, Pair]] = []

    def add(self, pair: Pair) -> None:
        """Add a group that both sides scored."""
        a, b = pair.a, pair.b
        terms_a, terms_b = a.terms, b.terms
        for term in dict.fromkeys((*terms_a, *terms_b)):
            self.terms.setdefault(term, ColumnChange(term)).add(terms_a.get(term), terms_b.get(term))
        self.final.add(a.finals, b.finals)
        ranks = rank_change(a.finals, b.finals)
        self.groups += 1
        self.candidates += len(a.candidates)
        self.flips += ranks.flips
        self.flipped += ranks.flips > 0
        self.ordered += ranks.ordered
        self.tops += ranks.another_top
        signs, moved = self._add_advantages(a.advantages, b.advantages)
        change = GroupChange(
            step=a.step,
            group_id=a.group_id,
            row_id=a.row_id if a.row_id is not None else b.row_id,
            candidates=len(a.candidates),
            advantage_change=None if moved is None else finite(moved),
            final_change=finite(_mean_change(a.finals, b.finals)),
            rank_flips=ranks.flips,
            sign_flips=signs,
        )
        key = (moved or 0.0, _mean_change(a.finals, b.finals))
        heapq.heappush(self._largest, (key, -self.groups, change, pair))
        if len(self._largest) > self._top:
            heapq.heappop(self._largest)

    def _add_advantages(self, a: list[float] | None, b: list[float] | None) -> tuple[int, float | None]:
        if a is None or b is None:
            return 0, None
        self.advantage.add(a, b)
        signs = sum((left > 0 > right) or (left < 0 < right) for left, right in zip(a, b, strict=True))
        self.signs += signs
        self.annotated += len(a)
        return signs, _mean_change(a, b)

    def columns(self) -> list[ColumnChange]:
        """The final reward, the advantage if there is one, and every term."""
        return [self.final, *([self.advantage] if self.annotated else []), *self.terms.values()]

    def largest(self) -> list[tuple[GroupChange, Pair]]:
        """Largest first; of two alike the earlier one."""
        return [(change, pair) for _, _, change, pair in sorted(self._largest, key=lambda each: each[:2], reverse=True)]


def compare_scores(
    a: Scores, b: Scores, *, top: int = 10, force: bool = False
) -> tuple[Comparison, list[tuple[GroupChange, Pair]]]:
    """Compare two scorings of the same rollouts, and give the `top` groups that changed most with their scores.

    Args:
        a: the one to compare with.
        b: the other one.
        top: how many groups to name.
        force: compare all the same where the rollouts are other ones.

    Raises:
        RewardConfigError: the recorded digests of the rollouts differ, a file can't be read, or there is nothing in
            common.
        RewardContractError: rows are at fault, candidates have other texts on the other side, or are grouped otherwise.
    """
    if _same_rollouts(a.facts, b.facts) is False and not force:
        raise _other_rollouts(a, b)
    pairing, sums = Pairing(a, b), _Sums(top)
    for pair in pairing.pairs():
        if pair.a.candidates and pair.is_scored:
            sums.add(pair)
    if pairing.other_texts and not force:
        raise RewardContractError(
            f"{pairing.other_texts} of {pairing.texts_compared} candidates have another completion in B:\n"
            f"{listing(pairing.text_examples)}\nThey are not scores of the same rollouts; give --force to compare them "
            "all the same."
        )
    if not sums.groups:
        raise RewardConfigError(
            f"{a.path} and {b.path} have no candidate in common that both scored: {len(pairing.only[0])} are only in "
            f"A, {len(pairing.only[1])} only in B; are they scores of the same rollouts?"
        )
    largest = sums.largest()
    return _result(a, b, pairing, sums, [change for change, _ in largest]), largest


def _result(a: Scores, b: Scores, pairing: Pairing, sums: _Sums, largest: list[GroupChange]) -> Comparison:
    only_a, only_b = pairing.only
    return Comparison(
        a=a.name,
        b=b.name,
        same_rollouts=_same_rollouts(a.facts, b.facts),
        differences=_differences(a.facts, b.facts),
        groups=sums.groups,
        candidates=sums.candidates,
        changes=[each.result() for each in sums.columns()],
        rank_flips=sums.flips,
        ordered_pairs=sums.ordered,
        groups_with_rank_flips=sums.flipped,
        another_top=sums.tops,
        sign_flips=sums.signs,
        annotated=sums.annotated,
        only_a=len(only_a),
        only_b=len(only_b),
        only_a_ids=list(only_a)[:_LISTED],
        only_b_ids=list(only_b)[:_LISTED],
        not_scored_a=pairing.not_scored[0],
        not_scored_b=pairing.not_scored[1],
        other_texts=pairing.other_texts,
        largest=largest,
    )


def _mean_change(a: list[float], b: list[float]) -> float:
    """Infinite where it is beyond the range of a float: larger than any other."""
    return sum(abs(right - left) for left, right in zip(a, b, strict=True)) / len(a)


def _same_rollouts(a: Facts, b: Facts) -> bool | None:
    digests = [each.rollouts.get("sha256") for each in (a, b)]
    return None if None in digests else digests[0] == digests[1]


def _other_rollouts(a: Scores, b: Scores) -> RewardConfigError:
    lines = [f"{each.path}: {each.facts.rollouts.get('name')}, {each.facts.rollouts['sha256']}" for each in (a, b)]
    return RewardConfigError(
        f"these are scores of different rollouts:\n{listing(lines)}\n"
        "Compare scores of one file of rollouts, or give --force to compare candidates that have the same ids."
    )


def _differences(a: Facts, b: Facts) -> list[list[str]]:
    """Every recorded fact about what made the scores that is another one in B."""
    left, right = _flat(a), _flat(b)
    names = dict.fromkeys((*left, *right))
    return [[name, left.get(name, "–"), right.get(name, "–")] for name in names if left.get(name) != right.get(name)]


def _flat(facts: Facts) -> dict[str, str]:
    found: dict[str, str] = {}
    _flatten("", {**facts.stage, "posttrain": facts.version, "rollouts": facts.rollouts.get("name")}, found)
    return found


def _flatten(path: str, value: Any, found: dict[str, str]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{path}.{key}" if path else str(key), item, found)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            name = item.get("provider", "?") if isinstance(item, dict) else describe(item)
            _flatten(f"{path}.{name}", item, found)
    elif value is not None:
        found[path] = value if isinstance(value, str) else msgspec.json.encode(value).decode()
