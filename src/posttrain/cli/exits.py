# SPDX-License-Identifier: Apache-2.0
"""Exit codes: 0 done; 2 bad usage or set-up; 3 a contract was broken; 4 an outside service failed."""

from __future__ import annotations

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError

__all__ = ["exit_code", "failure_text"]


def exit_code(error: RewardError) -> int:
    """What the shell is told."""
    if isinstance(error, RewardConfigError):
        return 2
    return 4 if isinstance(error, RewardUnavailableError) else 3


def failure_text(error: RewardError) -> str:
    """What a person is told: what kind of failure, whom it is about, what to do."""
    kind = {2: "set-up", 3: "contract broken", 4: "unavailable"}[exit_code(error)]
    return "\n".join([f"posttrain: {kind}: {error}", *getattr(error, "__notes__", [])])
