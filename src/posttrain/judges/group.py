# SPDX-License-Identifier: Apache-2.0
"""For judges that look at a whole group: an order and a seed that come from its content, and groups of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posttrain.errors import RewardContractError
from posttrain.judges.method import Settled
from posttrain.judges.rendering import digest
from posttrain.rewards.contract.request import RewardCandidate

__all__ = ["canonical", "group_seed", "lone_scores"]


def canonical(candidates: Sequence[RewardCandidate]) -> list[int]:
    """Places of the candidates in an order that does not depend on the one they came in.

    By what a judge sees of them; ids, which another run mints anew, decide between candidates that look the same.
    """
    return sorted(
        range(len(candidates)),
        key=lambda at: (
            candidates[at].completion,
            candidates[at].is_length_truncated,
            candidates[at].trajectory_id,
        ),
    )


def group_seed(inputs: Mapping[str, str], candidates: Sequence[RewardCandidate], order: Sequence[int]) -> str:
    """A text made from what a judge sees of the group: the same for the same content, in any order, under any ids."""
    seen = [text for at in order for text in (candidates[at].completion, str(candidates[at].is_length_truncated))]
    return digest(*inputs.values(), *seen)


def lone_scores(term: str, lone: float | None) -> Settled:
    """The declared score of a group of one.

    Raises:
        RewardContractError: none is declared.
    """
    if lone is None:
        raise RewardContractError(
            "a group of one candidate can't be compared: use groups of two or more, or declare its score with lone"
        )
    return Settled(terms=[{term: float(lone)}])
