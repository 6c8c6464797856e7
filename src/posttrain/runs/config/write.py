# SPDX-License-Identifier: Apache-2.0
"""A checked config as TOML text: the same text for the same config, with the origin of each value if wished."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

__all__ = ["to_toml", "toml_string"]

_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_toml(config: BaseModel, origins: Mapping[str, str] | None = None) -> str:
    """The text of a config under the root key ``rl``; a key without a value is left out.

    Args:
        config: the config.
        origins: key to where its value came from, written behind it as a comment; keys without a value are then told
            of in comments. A key that is not there came from the default.
    """
    return "\n\n".join("\n".join(block) for block in _tables("rl", config, origins)) + "\n"


def _tables(path: str, table: Any, origins: Mapping[str, str] | None) -> Iterator[list[str]]:
    items = (
        table.items()
        if isinstance(table, Mapping)
        else ((key, getattr(table, key)) for key in type(table).model_fields)
    )
    inner, lines = [], [f"[{path}]"]
    for key, value in items:
        full = f"{path}.{key}"
        if value is None or value == {}:
            lines += [] if origins is None else [f"# {key} is not set"]
        elif isinstance(value, (BaseModel, Mapping)):
            inner.append((f"{path}.{key}", value))
        else:
            origin = "" if origins is None else f"  # {origins.get(full, 'default')}"
            lines.append(f"{_key(key)} = {_literal(value)}{origin}")
    yield lines
    for name, value in inner:
        yield from _tables(name, value, origins)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key, re.ASCII) else toml_string(key)


def _literal(value: Any) -> str:
    if isinstance(value, tuple):
        return _literal(value[0]) if len(value) == 1 else f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return toml_string(value) if isinstance(value, str) else repr(value)


def toml_string(text: str) -> str:
    """A basic string; what does not print is escaped."""
    return f'"{"".join(_SHORT.get(each) or (each if each.isprintable() else _escape(each)) for each in text)}"'


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
