# SPDX-License-Identifier: Apache-2.0
"""The reasons that a judge may be asked to write before its verdict, into the same JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from posttrain.frozen import Json
from posttrain.judges.replies import last_verdict, text_of_key, with_exactly

__all__ = ["EXPLAIN", "EXPLANATION", "explained_verdict", "reasons_schema"]

EXPLANATION: Final = "reasoning"
"""Key of the reasons; nothing else in a verdict has it for its name."""
EXPLAIN: Final = f"The first key, {EXPLANATION!r}, holds your reasons in a few sentences."
"""Part of the system message."""


def reasons_schema(*, explain: bool) -> dict[str, Json]:
    """The properties that come first in the schema."""
    return {EXPLANATION: {"type": "string"}} if explain else {}


def explained_verdict(reply: str, shown: Sequence[str], keys: Sequence[str], *, explain: bool) -> Mapping[str, Any]:
    """The verdict of a reply, with exactly these keys, and the reasons if they were asked for.

    Raises:
        JudgeReplyError: see `last_verdict` and `with_exactly`; or the reasons are no text.
    """
    verdict = with_exactly(last_verdict(reply, shown), (EXPLANATION, *keys) if explain else keys)
    if explain:
        text_of_key(EXPLANATION, verdict[EXPLANATION])
    return verdict
