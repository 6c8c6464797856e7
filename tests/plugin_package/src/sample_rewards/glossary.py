# SPDX-License-Identifier: Apache-2.0
"""`glossary`: how much of the package's word list a completion uses. A managed reward: it opens the list once."""

from __future__ import annotations

from importlib.resources import files

from posttrain.rewards import (
    RewardCandidateResult,
    RewardContractError,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
)

__all__ = ["Glossary"]


class Glossary:
    """Pays the share of the words of a file of this package that stand in the completion and not in the prompt."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._words: tuple[str, ...] | None = None

    def open(self) -> None:
        """Read the word list."""
        self._words = tuple((files(__package__ or "") / self._file).read_text(encoding="utf-8").split())

    def close(self) -> None:
        """Let go of it."""
        self._words = None

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Look every word up in each completion."""
        prompt = request.context.prompt
        if self._words is None or not isinstance(prompt, str):
            raise RewardContractError("glossary has to be opened first, and expects a prompt that is text")
        wanted = [word for word in self._words if word not in prompt.split()]
        if not wanted:
            raise RewardContractError("glossary has no word left that the prompt does not hold")
        items = []
        for candidate in request.candidates:
            used = sum(word in candidate.completion.split() for word in wanted)
            result = RewardProviderResult(terms={"glossary": used / len(wanted)})
            items.append(RewardCandidateResult(candidate.trajectory_id, result))
        return RewardGroupResult(request.group_id, tuple(items))
