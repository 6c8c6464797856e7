# SPDX-License-Identifier: Apache-2.0
"""The one text of a completion that was saved as messages, where it is sure which that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from posttrain.errors import describe

__all__ = ["RENDERS", "Unrendered", "completion_text"]

RENDERS: Final = ("last",)
"""What a completion of several messages may be read as: ``last`` is the content of the last, an assistant's."""

_NAMED: Final = 8


class Unrendered(Exception):  # noqa: N818  # internal signal: the fault of a row
    """It is not sure which text the completion is."""


def completion_text(value: Any, field: str, render: str | None) -> str | None:
    """A text as it is; of one assistant message without tool calls, the content; of others what `render` says.

    Args:
        value: what the dump holds.
        field: its name there.
        render: one of `RENDERS`, or None.

    Raises:
        Unrendered: it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise Unrendered(f"field {field!r}: expected a text or a list of messages, got {describe(value)}")
    if not value:
        raise Unrendered(f"field {field!r}: expected a completion, got a list without messages")
    last = value[-1]
    if len(value) > 1 and render != "last":
        roles = [str(each.get("role")) for each in value[:_NAMED]] + ["..."] * (len(value) > _NAMED)
        raise Unrendered(
            f"field {field!r}: {len(value)} messages ({', '.join(roles)}), of which it is open what text the "
            "completion is; --render last takes the content of the last, or write the texts to a field of their own"
        )
    at = f"field {field!r}[{len(value) - 1}]"
    if last.get("role") != "assistant":
        raise Unrendered(f"{at}: expected a message of the assistant, got one of role {last.get('role')!r}")
    if last.get("tool_calls") and render != "last":
        raise Unrendered(
            f"{at}: it calls tools, which its content does not show; --render last takes the content alone"
        )
    content = last.get("content")
    if not isinstance(content, str):
        raise Unrendered(f"{at}: expected a content that is a text, got {describe(content)}")
    return content
