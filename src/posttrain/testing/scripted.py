# SPDX-License-Identifier: Apache-2.0
"""A provider that says what a test tells it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

from posttrain.errors import RewardContractError
from posttrain.rewards import (
    ProviderExecution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
)

__all__ = ["Script", "ScriptedProvider"]

Script: TypeAlias = Sequence[float] | BaseException | Callable[[RewardGroupRequest], Any]
"""Values of the one term, one per candidate; or what to raise; or a function that answers, with anything at all."""


@final
class ScriptedProvider:
    """Answers each group by its script and remembers the requests. Values are passed on unchecked, as an author's are.

    Args:
        scripts: group id to script.
        term: name of its one term.
        otherwise: script of every other group; None: such a group is a contract error.

    Example:
        ::

            provider = ScriptedProvider({"g1": [1.0, 0.0], "g2": RewardUnavailableError("503")})
            worker = RewardWorker(catalog={"scripted": provider.spec()}, reward="scripted", group_size=2)
    """

    def __init__(
        self, scripts: Mapping[str, Script] | None = None, *, term: str = "task", otherwise: Script | None = None
    ) -> None:
        self._scripts = dict(scripts or {})
        self._term = term
        self._otherwise = otherwise
        self.requests: list[RewardGroupRequest] = []
        """Every request, in the order of the calls."""
        self.opened = 0
        """How often it was opened."""
        self.closed = 0
        """How often it was closed."""

    def spec(
        self,
        *,
        needs: Sequence[str] = (),
        diagnostics: Sequence[str] = (),
        revision: str = "scripted",
        execution: ProviderExecution | None = None,
    ) -> RewardProviderSpec:
        """A spec whose factory gives this very provider."""
        return RewardProviderSpec(
            factory=lambda: self,
            revision=revision,
            terms=(self._term,),
            needs=needs,
            diagnostics=diagnostics,
            execution=execution or ProviderExecution(),
        )

    def open(self) -> None:
        """Count the call."""
        self.opened += 1

    def close(self) -> None:
        """Count the call."""
        self.closed += 1

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Follow the group's script."""
        self.requests.append(request)
        script = self._scripts.get(request.group_id, self._otherwise)
        if script is None:
            raise RewardContractError(f"no script for group {request.group_id!r}")
        if isinstance(script, BaseException):
            raise script
        if callable(script):
            answer: RewardGroupResult = script(request)
            return answer
        return RewardGroupResult(
            request.group_id,
            tuple(
                RewardCandidateResult(candidate.trajectory_id, RewardProviderResult({self._term: value}))
                for candidate, value in zip(request.candidates, script, strict=False)
            ),
        )
