# SPDX-License-Identifier: Apache-2.0
"""The body of a request, as bytes: the same question gives the same bytes, which is what the cache goes by."""

from __future__ import annotations

from typing import Any

import msgspec

from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.call import JudgeCall

__all__ = ["estimated_tokens", "request_body"]

_BYTES_PER_TOKEN = 3
"""Of text in an OpenAI-compatible body, rather too few than too many: an estimate may be high, not low."""
_UNKNOWN_COMPLETION = 1024


def request_body(config: JudgeConfig, call: JudgeCall[Any]) -> bytes:
    """The JSON of one question; the seed of sample `i` is `JudgeConfig.seed` plus `i`."""
    body: dict[str, Any] = {"model": config.model, "messages": call.messages}
    for name in ("temperature", "top_p", "max_tokens"):
        value = getattr(config, name)
        if value is not None:
            body[name] = value
    if config.seed is not None:
        body["seed"] = config.seed + call.sample
    if config.structured_output == "json_object":
        body["response_format"] = {"type": "json_object"}
    elif config.structured_output == "json_schema" and call.schema is not None:
        schema = {"name": call.schema_name, "strict": True, "schema": call.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    body.update(config.extra_body)
    return msgspec.json.encode(body)


def estimated_tokens(config: JudgeConfig, body: bytes) -> int:
    """What a request may take of the tokens per minute, before its usage is known."""
    longest = config.max_tokens or config.extra_body.get("max_completion_tokens")
    return len(body) // _BYTES_PER_TOKEN + (longest if type(longest) is int else _UNKNOWN_COMPLETION)
