# SPDX-License-Identifier: Apache-2.0
"""What a fake judge is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias, final

import msgspec

__all__ = ["Drop", "JudgeReply", "JudgeRequest", "JudgeScript"]

Drop: TypeAlias = Literal["before headers", "after headers", "mid body"]
"""Where a reply breaks off and its connection is cut."""

_REASONS = {200: "OK", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """A request as it arrived."""

    number: int
    """From 0, in the order of arrival."""
    at: float
    """`time.monotonic` of its arrival, in seconds."""
    connection: int
    """Which connection it came over, from 0."""
    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    """The body."""

    @property
    def body(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.raw)

    @property
    def text(self) -> str:
        """The contents of all messages, one below the other."""
        return "\n".join(str(message["content"]) for message in self.body["messages"])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A reply: by default a chat completion with one choice. Every field that is set makes it another kind of bad."""

    content: Any = ""
    """The text of the message; anything that is JSON is put there as it is, so None too."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent besides the usual ones, for example ``{"Retry-After": "2"}``."""
    finish_reason: str | None = "stop"
    refusal: str | None = None
    usage: tuple[int, int] | None = (10, 5)
    """Tokens of prompt and answer; None: the reply does not tell."""
    body: bytes | None = None
    """The whole body, in the place of a chat completion."""
    delay_s: float = 0.0
    """Seconds between the request and the reply."""
    drop: Drop | None = None
    """Where it breaks off."""
    trickle_s: float = 0.0
    """Seconds between any two bytes of the body."""

    @classmethod
    def error(cls, status: int, message: str = "scripted", *, retry_after: str | None = None) -> Self:
        """A status with an error object, as such endpoints send it."""
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return cls(status=status, headers=headers, body=msgspec.json.encode({"error": {"message": message}}))

    def encoded(self) -> tuple[bytes, bytes]:
        """Head and body, as they are sent."""
        body = self.body if self.body is not None else _completion(self)
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS.get(self.status, 'Scripted')}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers.items()),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"), body


def _completion(reply: JudgeReply) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.refusal is not None:
        message["refusal"] = reply.refusal
    whole: dict[str, Any] = {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
    }
    if reply.usage is not None:
        prompt, completion = reply.usage
        total = prompt + completion
        whole["usage"] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    return msgspec.json.encode(whole)


JudgeScript: TypeAlias = "str | JudgeReply | Callable[[JudgeRequest], str | JudgeReply]"
"""A text, a reply, or a function that makes one of a request."""
