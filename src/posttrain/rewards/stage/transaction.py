# SPDX-License-Identifier: Apache-2.0
"""The commit: the only code that touches a trajectory.

Everything that can fail is done before the first write. The writes themselves are slots of records set by one call
into C, during which the interpreter (with its global lock) runs no Python code: no interrupt, no other thread and no
tracing hook gets in between, so what is seen from outside is the state before or the state after, never a mixture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from posttrain.errors import RewardContractError, describe, listing
from posttrain.rewards.metrics.report import RewardReport
from posttrain.rewards.stage.bind import all_are
from posttrain.rewards.stage.outcome import RewardOutcome
from posttrain.schema import Trajectory

__all__ = ["commit"]

_Reward: TypeAlias = dict[str, float]

# The slots' own setters: a subclass can't put Python code between two writes.
_set_reward: Callable[[Trajectory, _Reward], None] = vars(Trajectory)["reward"].__set__
_set_advantage: Callable[[Trajectory, float | None], None] = vars(Trajectory)["advantage"].__set__


def commit(trajectories: Sequence[Trajectory], outcome: RewardOutcome) -> RewardReport:
    """Write an outcome into exactly the trajectories that it was computed for, and return its report.

    Of a scored group each candidate gets its terms, ``reward["final"]`` and `advantage`; of a dropped one the stage's
    keys are removed and `advantage` is None. Every other key of `reward` is left alone. `reward` is a new dict, so
    whoever holds the old one keeps it as it was.

    Raises:
        RewardContractError: the trajectories are not those of the outcome; nothing is written.
    """
    targets = _targets(list(trajectories), outcome)
    own: list[_Reward] = []
    advantages: list[float | None] = []
    for group in outcome.groups:
        if group.dropped_because is None:
            own.extend(group.rewards())
            advantages.extend(group.advantages)
        else:
            own.extend({} for _ in group.trajectory_ids)
            advantages.extend(None for _ in group.trajectory_ids)
    old_rewards = [each.reward for each in targets]
    old_advantages = [each.advantage for each in targets]
    rewards = _joined(old_rewards, own, frozenset((*outcome.terms, "final"))) if any(old_rewards) else own
    try:
        _swap(targets, rewards, advantages)
    except BaseException:
        # Only memory can run out in there. The old values are at hand, so putting them back needs none.
        _swap(targets, old_rewards, old_advantages)
        raise
    return outcome.report


def _swap(targets: list[Trajectory], rewards: list[_Reward], advantages: list[Any]) -> None:
    deque(chain(map(_set_reward, targets, rewards), map(_set_advantage, targets, advantages)), maxlen=0)


def _joined(old: list[_Reward], own: list[_Reward], owned: frozenset[str]) -> list[_Reward]:
    """What others wrote, then what the stage writes."""
    return [
        {**{name: value for name, value in before.items() if name not in owned}, **new}
        for before, new in zip(old, own, strict=True)
    ]


def _targets(given: list[Trajectory], outcome: RewardOutcome) -> list[Trajectory]:
    """The trajectories in the order of the outcome, after checking that they are exactly the outcome's."""
    groups = outcome.groups
    ids = list(chain.from_iterable([group.trajectory_ids for group in groups]))
    group_ids = list(chain.from_iterable([[group.group_id] * len(group.trajectory_ids) for group in groups]))
    if not (
        all_are(Trajectory, given)
        and all_are(dict, [each.reward for each in given])
        and all_are(str, [each.trajectory_id for each in given])
    ):
        raise _mismatch(given, dict(zip(ids, group_ids, strict=True)))
    targets = given
    if [each.trajectory_id for each in given] != ids:
        by_id = {each.trajectory_id: each for each in given}
        targets = [by_id[trajectory_id] for trajectory_id in ids if trajectory_id in by_id]
    if not len(targets) == len(ids) == len(given) or [each.group_id for each in targets] != group_ids:
        raise _mismatch(given, dict(zip(ids, group_ids, strict=True)))
    return targets


def _mismatch(given: list[Any], expected: dict[str, str]) -> RewardContractError:
    faults = []
    seen: set[str] = set()
    for index, each in enumerate(given):
        if not isinstance(each, Trajectory) or not isinstance(each.reward, dict):
            faults.append(f"[{index}]: expected a Trajectory with a dict as its reward, got {describe(each)}")
            continue
        if not isinstance(each.trajectory_id, str):
            faults.append(f"[{index}]: expected a string as trajectory_id, got {describe(each.trajectory_id)}")
            continue
        if each.trajectory_id not in expected:
            faults.append(f"{each.trajectory_id!r} is not in the outcome")
        elif each.trajectory_id in seen:
            faults.append(f"{each.trajectory_id!r} stands more than once")
        elif each.group_id != (group_id := expected[each.trajectory_id]):
            faults.append(f"{each.trajectory_id!r} is in group {each.group_id!r}, but was scored in {group_id!r}")
        seen.add(each.trajectory_id)
    faults += [f"{trajectory_id!r} is in the outcome only" for trajectory_id in expected if trajectory_id not in seen]
    return RewardContractError(
        f"the trajectories are not those that the outcome was computed for:\n{listing(faults)}\n"
        "Commit with the same trajectories that were given to compute."
    )
