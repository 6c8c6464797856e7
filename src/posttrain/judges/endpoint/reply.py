# SPDX-License-Identifier: Apache-2.0
"""What the body of a chat completion says: a text, or why there is none that can be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from posttrain.judges.endpoint.call import JudgeReplyError, ReplyFault

__all__ = ["Reply", "Usage", "oversized", "read_reply", "shown"]

_SHOWN: Final = 200
_LARGEST_COUNT: Final = 2**53
_ENDED: Final = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call", ""})
"""Verdicts of an answer that the model ended itself. Any other, such as ``abort`` or ``error``, was broken off."""


class Usage(NamedTuple):
    """Tokens of one request as the endpoint counted them; None: it did not say."""

    prompt: int | None
    completion: int | None


class Reply(NamedTuple):
    """A body that was read: its text, or its fault, and what it took in either case."""

    text: str
    fault: JudgeReplyError | None
    usage: Usage


_NOTHING_SAID = Usage(None, None)


def read_reply(body: bytes) -> Reply:
    """Read the body of a reply with status 200. It never raises: what is wrong with it is its `fault`."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _faulty("malformed", f"the body is not JSON: {shown(body)}", _NOTHING_SAID)
    if not isinstance(decoded, dict):
        return _faulty("malformed", f"the body is no JSON object: {shown(body)}", _NOTHING_SAID)
    usage = _usage(decoded.get("usage"))
    choices = decoded.get("choices")
    if not isinstance(choices, list) or not choices:
        return _faulty("malformed", f"it has no choices: {shown(body)}", usage)
    if len(choices) > 1:
        return _faulty("malformed", f"it has {len(choices)} choices, one was asked for", usage)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return _faulty("malformed", f"its choice has no message: {shown(body)}", usage)
    return _of_message(choice.get("finish_reason"), message, usage)


def oversized(most: int) -> Reply:
    """The reply whose body is longer than `most` bytes."""
    return _faulty("oversized", f"the body is longer than {most} bytes (max_response_bytes)", _NOTHING_SAID)


def _of_message(finish_reason: Any, message: dict[str, Any], usage: Usage) -> Reply:
    text, refusal = _text(message.get("content")), message.get("refusal")
    if text is None:
        return _faulty("malformed", "its content is neither text nor a list of text parts", usage)
    if finish_reason is not None and str(finish_reason).lower() not in _ENDED:
        return _faulty(*_broken_off(str(finish_reason), text), usage)
    if isinstance(refusal, str) and refusal:
        return _faulty("refusal", f"the model declined: {shown(refusal)}", usage)
    if not text.strip():
        return _faulty("empty", f"no text came (finish_reason {shown(str(finish_reason))})", usage)
    return Reply(text, None, usage)


def _broken_off(finish_reason: str, text: str) -> tuple[ReplyFault, str]:
    """Why the model did not end its answer itself."""
    if finish_reason == "content_filter":
        return "filtered", "the endpoint's content filter withheld it"
    if finish_reason != "length":
        return "truncated", f"broken off: its finish_reason is {shown(finish_reason)}"
    cut = shown(text[-_SHOWN:]) if text.strip() else "no text at all"
    return "truncated", f"cut at the token limit (max_tokens); it ends with {cut}"


def _text(content: Any) -> str | None:
    """The text of a message; empty where there is none, None where it is something else."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [each.get("text") for each in content if isinstance(each, dict) and each.get("type") == "text"]
        texts = [each for each in parts if isinstance(each, str)]
        if len(texts) == len(content):
            return "".join(texts)
    return None


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return _NOTHING_SAID
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    return Usage(*(each if type(each) is int and 0 <= each < _LARGEST_COUNT else None for each in counts))


def _faulty(kind: ReplyFault, message: str, usage: Usage) -> Reply:
    return Reply("", JudgeReplyError(kind, message), usage)


def shown(text: str | bytes, masked: Callable[[str], str] = str) -> str:
    """How a text of the endpoint begins, on one line and printable.

    Args:
        text: of any length.
        masked: takes out what may not be shown, before the text is cut.
    """
    begin = text[: 4 * _SHOWN]
    plain = masked(begin.decode(errors="replace") if isinstance(begin, bytes) else begin)
    return repr(f"{plain[: _SHOWN - 3]}..." if len(plain) > _SHOWN else plain)
