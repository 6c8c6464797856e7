# SPDX-License-Identifier: Apache-2.0
"""A judge at work: asks what its method plans about a group, and returns what the answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from posttrain.judges.config import JudgeConfig
from posttrain.judges.diagnostics import group_diagnostics
from posttrain.judges.endpoint import JudgeEndpoint
from posttrain.judges.method import JudgeMethod, probe_request
from posttrain.rewards.contract.request import RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult

__all__ = ["JudgeProvider"]


@final
class JudgeProvider:
    """Scores groups by asking a model. Made without a call, a key or a file; `open` reads the key.

    Args:
        method: the way of judging.
        config: the endpoint, and how it is asked.
        content_sha256: hash of the method's content.
    """

    def __init__(self, method: JudgeMethod, config: JudgeConfig, content_sha256: str) -> None:
        self._method = method
        self._config = config
        self._content = content_sha256
        self._endpoint = JudgeEndpoint(config, content_sha256)

    def __repr__(self) -> str:
        return f"JudgeProvider({type(self._method).__name__}, {self._config.model!r} at {self._config.url})"

    def open(self) -> None:
        """Read the key and join the endpoint's session; no network call."""
        self._endpoint.open()

    def close(self) -> None:
        """Let go of everything; what is still asked is cancelled."""
        self._endpoint.close()

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Ask about the whole group at once and score it when every answer is there.

        Raises:
            RewardUnavailableError: an answer could not be had, or not be used, within retries and deadline.
            RewardContractError: the group can't be judged, naming the field.
            RewardConfigError: the endpoint refused in a way that only a person can mend.
        """
        plan = self._method.plan(request, self._config.samples)
        answers = self._endpoint.ask(plan.calls) if plan.calls else []
        settled = plan.settle([answer.value for answer in answers])
        truncated = sum(candidate.is_length_truncated for candidate in request.candidates)
        priced = self._config.prompt_price_per_million is not None
        # They are the group's, so one of its results carries them; the stage merges them over the group anyway.
        notes = {**group_diagnostics(answers, truncated, priced=priced), **settled.diagnostics}
        results = [
            RewardProviderResult(terms) if at else RewardProviderResult(terms, notes)
            for at, terms in enumerate(settled.terms)
        ]
        pairs = zip(request.candidates, results, strict=True)
        items = tuple([RewardCandidateResult(candidate.trajectory_id, result) for candidate, result in pairs])
        return RewardGroupResult(request.group_id, items)

    def check_machine(self) -> None:
        """No network; keeps nothing.

        Raises:
            RewardConfigError: naming everything that this machine lacks: the key's variable, aiohttp, a usable
                proxy or cache.
        """
        self._endpoint.check_machine()

    def probe(self) -> str:
        """Ask one real question, past any recorded answer: one line saying what came back."""
        call = self._method.plan(probe_request(self._method), 1).calls[0]
        return self._endpoint.probe(call)

    def calls_at_once(self) -> Mapping[str, int]:
        """Base URL to the calls that one process has in flight at most."""
        return self._endpoint.calls_at_once()

    def cautions(self) -> tuple[str, ...]:
        """What may surprise, one line each."""
        return self._endpoint.cautions()
