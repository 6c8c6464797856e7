# SPDX-License-Identifier: Apache-2.0
"""A catalog for runs in tests: the sum is right, unless the environment says that something is to happen.

FAULT is ``KIND@BATCH`` or ``KIND@BATCH@RANK``: at the first group of that batch (and in that rank) the process is
killed, hangs, or the provider raises. The reward's identity does not know of it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from posttrain.errors import RewardUnavailableError
from posttrain.rewards import (
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
)

__all__ = ["catalog"]


class Closeness:
    """1 for the right answer, less the more characters it is long."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Score a group."""
        _happen(request.group_id)
        reference = str(request.context.reference)
        items = tuple(
            RewardCandidateResult(
                each.trajectory_id,
                RewardProviderResult({"close": _close(each.completion, reference)}),
            )
            for each in request.candidates
        )
        return RewardGroupResult(request.group_id, items)


def _close(completion: str, reference: str) -> float:
    same = sum(one == other for one, other in zip(completion, reference, strict=False))
    return same / max(len(completion), len(reference), 1)


def _happen(group_id: str) -> None:
    kind, batch, rank = (*os.environ.get("FAULT", "").split("@"), "", "")[:3]
    if not kind or not group_id.startswith(f"train/{batch}/") or rank not in {"", os.environ.get("RANK", "0")}:
        return
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hang":
        time.sleep(10_000)
    if kind == "away":
        raise RewardUnavailableError("the scorer answered 503")
    raise ValueError("out of cheese")


def catalog() -> Mapping[str, RewardProviderSpec]:
    """The provider."""
    revision = os.environ.get("REVISION", "1")
    return {"close": RewardProviderSpec(factory=Closeness, revision=revision, terms=("close",), needs=("reference",))}
