# SPDX-License-Identifier: Apache-2.0
"""What the three judges have in common: a group becomes questions, and the answers become scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

from posttrain.frozen import FrozenJson, Json, freeze
from posttrain.judges.endpoint import JudgeCall
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["JudgeMethod", "Plan", "Settled", "message", "object_schema", "probe_request"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The scores of a group."""

    terms: Sequence[Mapping[str, float]]
    """[group_size], in the order of the request."""
    diagnostics: Mapping[str, MetricContribution] = field(default_factory=dict)
    """Of the whole group."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The questions about one group, and what their answers mean."""

    calls: Sequence[JudgeCall[Any]]
    """May be empty, where nothing has to be asked."""
    settle: Callable[[Sequence[Any]], Settled]
    """The parsed value of each call, in their order, to the scores. It does not fail: the parsers did the checking."""


class JudgeMethod(Protocol):
    """A way of judging a group; `posttrain.judges.provider` carries it out."""

    @property
    def terms(self) -> tuple[str, ...]:
        """The declared terms."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The canonical inputs that it reads."""
        ...

    @property
    def diagnostics(self) -> tuple[str, ...]:
        """Its own diagnostics, beyond those of any judge."""
        ...

    @property
    def least_calls(self) -> int:
        """Calls of the smallest group that is judged at all, for one sample."""
        ...

    def content(self) -> dict[str, Json]:
        """Everything of the judge that decides a question or what its answer means, as JSON."""
        ...

    def plan(self, request: RewardGroupRequest, samples: int) -> Plan:
        """The questions about a group, each asked `samples` times.

        Raises:
            RewardContractError: the group can't be judged, naming the field.
        """
        ...

    def probe_reference(self) -> Json:
        """A reference that a made-up group may have."""
        ...


def message(role: str, content: str) -> FrozenJson:
    """One message of a question, which nobody changes."""
    return {"role": role, "content": content}


def object_schema(properties: Mapping[str, Json]) -> FrozenJson:
    """JSON schema of an object with exactly these properties, in this order."""
    return freeze(
        {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
    )


def probe_request(method: JudgeMethod) -> RewardGroupRequest:
    """A small group that the judge could be given: two answers to a sum."""
    context = RewardContext(
        prompt="What is 2 + 3?" if "prompt" in method.needs else None,
        reference=freeze(method.probe_reference()) if "reference" in method.needs else None,
    )
    return RewardGroupRequest("probe", (RewardCandidate("probe-0", "5"), RewardCandidate("probe-1", "6")), context)
