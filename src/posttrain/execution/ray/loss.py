# SPDX-License-Identifier: Apache-2.0
"""What is said when an actor is lost with its groups, or one group takes too long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from posttrain.errors import RewardUnavailableError, listing, text_of
from posttrain.execution.ray.member import Member
from posttrain.execution.ray.messages import Running
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.prepare import Selection

__all__ = ["Losses"]

_SHOWN = 300


@final
class Losses:
    """Knows the selected providers, and which of them may evaluate a group again.

    Args:
        selection: the providers.
    """

    def __init__(self, selection: Selection) -> None:
        self._names = selection.names
        pairs = zip(selection.names, selection.specs, strict=True)
        self._once = [name for name, spec in pairs if not spec.execution.repeatable]

    @property
    def repeatable(self) -> bool:
        """Whether a group that was lost may be given to another actor: every provider has to allow it."""
        return not self._once

    @staticmethod
    def reason(error: BaseException) -> str:
        """Why Ray says that an actor is gone, in a few words."""
        lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
        named = ("class_name:", "actor_id:", "pid:", "namespace:", "ip:", "name:")
        text = " ".join(line for line in lines if not line.startswith(named)) or type(error).__name__
        # The causes that Ray can only guess at are the same for every death.
        text = text.partition(" Some common causes include")[0]
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."

    def error(self, group: BoundGroup, member: Member, why: str, lost: Sequence[str]) -> RewardUnavailableError:
        """Of one group that was lost with its actor.

        Args:
            group: the group.
            member: the actor.
            why: what is known of the cause.
            lost: ids of all groups of the chunk.
        """
        text = f"{member} was lost: {why}"
        if self._once:
            text += (
                f"\nThe group was not given to another actor: {', '.join(map(repr, self._once))} may not evaluate a "
                "group twice (set repeatable=True in its ProviderExecution if it may)."
            )
        if len(lost) > 1:
            text += f"\nGroups that were lost with it:\n{listing(list(lost))}"
        return self._named(RewardUnavailableError(text), group, self._once or self._names, "ActorLost")

    def too_long(self, group: BoundGroup, late: Running, member: Member, limit: float) -> RewardUnavailableError:
        """Of the group that was in a provider's hands for longer than `limit` seconds."""
        error = RewardUnavailableError(
            f"the group took longer than {limit:g} s (group_timeout_s), so {member} was ended and is replaced"
        )
        return self._named(error, group, [late.provider], "TimeoutError")

    def _named(
        self, error: RewardUnavailableError, group: BoundGroup, names: Sequence[str], cause: str
    ) -> RewardUnavailableError:
        error.group_id = group.group_id
        error.provider = names[0] if len(names) == 1 else ", ".join(names)
        error.cause_type = cause
        if len(names) == 1:
            error.request = group.requests[self._names.index(names[0])]
        return error
