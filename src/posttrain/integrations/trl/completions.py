# SPDX-License-Identifier: Apache-2.0
"""What TRL's trainer sampled, in the words of the contract: completion text and finish verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from posttrain.errors import RewardContractError, describe

__all__ = ["Render", "completion_text", "finish_verdict", "table_column"]

_OF_THE_TABLE = frozenset({"step", "prompt", "completion", "advantage", "image"})

Render: TypeAlias = Callable[[Sequence[Mapping[str, Any]]], str]
"""Makes the completion's text of its messages."""


def completion_text(completion: Any, render: Render | None = None) -> str:
    """The text of a completion: a string as it is, of one assistant message its content, of others what `render` makes.

    Raises:
        RewardContractError: it is anything else and there is no `render`, or `render` gives no string.
    """
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, Sequence) or not all(isinstance(each, Mapping) for each in completion):
        raise RewardContractError(f"the completion is {describe(completion)}, expected a string or a list of messages")
    if render is not None:
        text = render(completion)
        if type(text) is not str:
            raise RewardContractError(f"render gave {describe(text)}, expected the completion as a string")
        return text
    if len(completion) == 1 and completion[0].get("role") == "assistant" and not completion[0].get("tool_calls"):
        content = completion[0].get("content")
        if type(content) is str:
            return content
        raise RewardContractError(f"the message's content is {describe(content)}, expected a string: pass render=")
    roles = ", ".join(str(each.get("role")) for each in completion)
    raise RewardContractError(
        f"the completion has {len(completion)} messages ({roles}), of which only one assistant message without tool "
        "calls is a text by itself: pass render=, a function from the messages to the text that is to be scored"
    )


def finish_verdict(
    token_ids: Sequence[int],
    *,
    eos_token_ids: Collection[int],
    pad_token_id: int | None,
    max_completion_length: int | None,
    has_stop_strings: bool = False,
) -> str | None:
    """How a completion ended, read off its tokens where the engine does not say.

    ``"stop"``: its last token ends a sequence, or stop strings are in use and it was padded after one. ``"length"``:
    it fills the budget without such an end. None: it is shorter, or there is no budget, and nothing tells why it ended.
    """
    if token_ids and token_ids[-1] in eos_token_ids:
        return "stop"
    if has_stop_strings and token_ids and token_ids[-1] == pad_token_id:
        return "stop"
    if max_completion_length is not None and len(token_ids) >= max_completion_length:
        return "length"
    return None


def table_column(term: str) -> str:
    """Name of a term's column in TRL's table of completions, beside the columns that TRL has in it."""
    return f"reward/{term}" if term in _OF_THE_TABLE else term
