# SPDX-License-Identifier: Apache-2.0
"""The bodies that the service answers with, in the shapes of the public reward service."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["compact", "error_result", "not_found", "pending", "scored_result"]


def compact(value: Any) -> bytes:
    """JSON without spaces; a number that is not finite is an error and never sent.

    A lone surrogate comes out as its JSON escape, the one spelling of it that UTF-8 can hold.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        errors="backslashreplace"
    )


def not_found(uuid: str) -> bytes:
    """The legacy text: not scored yet, or not known. The two can't be told apart."""
    return compact({"message": f"Not found scores for {uuid}"})


def pending(uuid: str) -> bytes:
    """The unambiguous form: accepted, and not scored yet."""
    return compact({"uuid": uuid, "status": "pending"})


def scored_result(
    reward: str, scores: Mapping[str, Sequence[float]], input_info: Mapping[str, Any], seconds: float, opened: float
) -> bytes:
    """The scores of a batch: series name to [B] numbers, in the order of the batch."""
    return compact(
        {
            "scores": scores,
            "input_info": input_info,
            "duration": f"{seconds:.2f}",
            "decoded_duration": f"{opened:.2f}",
            "type": reward,
        }
    )


def error_result(reward: str, error: str, input_info: Mapping[str, Any], seconds: float = 0.0) -> bytes:
    """No scores, and why."""
    return compact(
        {
            "scores": None,
            "input_info": input_info,
            "duration": f"{seconds:.2f}",
            "decoded_duration": "0.00",
            "type": reward,
            "error": error,
        }
    )
