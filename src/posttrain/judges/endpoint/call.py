# SPDX-License-Identifier: Apache-2.0
"""What is asked of an endpoint, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar, final

import msgspec

from posttrain.frozen import FrozenJson

__all__ = ["JudgeAnswer", "JudgeCall", "JudgeReplyError", "ReplyFault"]

T = TypeVar("T")

ReplyFault: TypeAlias = Literal[
    "unparsable", "refusal", "filtered", "truncated", "empty", "missing", "off_scale", "malformed", "oversized"
]
"""Why a reply can't be used.

``unparsable``: its text is not what was asked for. ``refusal``: the model declined. ``filtered``: the endpoint
withheld it. ``truncated``: cut at the token limit, or broken off otherwise. ``empty``: no text. ``missing``: it lacks
a part, or has one too many. ``off_scale``: a number outside the scale, or no finite one. ``malformed``: the body is
no chat completion. ``oversized``: the body is longer than `JudgeConfig.max_response_bytes`.
"""


@final
class JudgeReplyError(Exception):
    """A reply that can't be used: a failure of the judge, asked again within the budget, never a number.

    Raised by the parser of a call, and by what reads the body of a reply.
    """

    def __init__(self, kind: ReplyFault, message: str) -> None:
        super().__init__(message)
        self.kind: ReplyFault = kind
        """Why it can't be used."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.args[0]}"

    def __reduce__(self) -> tuple[type[JudgeReplyError], tuple[ReplyFault, str]]:
        return JudgeReplyError, (self.kind, self.args[0])


class JudgeCall(msgspec.Struct, Generic[T], frozen=True, kw_only=True, eq=False, gc=False):
    """One question to the model."""

    messages: tuple[FrozenJson, ...]
    """Chat messages, each a mapping with ``role`` and ``content``."""
    parse: Callable[[str], T]
    """Makes the value of the answer's text, which may begin with reasoning. It raises `JudgeReplyError` when it can't,
    is called from another thread, and has no effect besides."""
    key: str
    """Whom an error names: the trajectory ids, for example ``trajectory 'a'`` or ``pair 'a', 'b'``."""
    schema: FrozenJson = None
    """JSON schema of the answer, sent when `JudgeConfig.structured_output` is ``json_schema``; None: none."""
    schema_name: str = "judgement"
    """Name of the schema: letters, digits, ``_`` and ``-``."""
    sample: int = 0
    """Which of the repeated askings of the same question this is, from 0."""


class JudgeAnswer(msgspec.Struct, Generic[T], frozen=True, kw_only=True, gc=False):
    """An answer that was parsed, with what it took."""

    value: T
    """What `JudgeCall.parse` made of it."""
    calls: int
    """Requests sent, the retries included; 0: the answer was recorded, or shared with an equal call of the same ask."""
    retries: int
    """Requests after the first."""
    prompt_tokens: int | None
    """Over all requests, as the endpoint counted them; None: a reply did not say. 0 when `cached`."""
    completion_tokens: int | None
    """Likewise, of the answers."""
    cost: float | None
    """In the currency of the prices; None: no prices are set, or the tokens are not known. 0.0 when `cached`."""
    seconds: float
    """From the first request to the accepted answer; what it waited for its turn before is not counted."""
    parse_failures: int
    """Replies that came whole and could not be used."""
    cached: bool
    """Whether nothing was sent: the answer was recorded, or shared with an equal call of the same ask."""
