# SPDX-License-Identifier: Apache-2.0
"""TOML to nodes: the values by the standard library's reader, the lines by our own walk over the text."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from posttrain.runs.config.node import MAX_DEPTH, Node, printable
from posttrain.runs.config.toml_lines import Place, TomlLines

__all__ = ["read_toml"]

_PLACE: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")
_ABOUT_REPETITION: Final = ("Cannot", "Duplicate")
"""How the reader begins when a key or a table stands twice, of which it names only the line."""


def read_toml(text: str, label: str, folder: Path, faults: list[str]) -> Node | None:
    """The tree of a TOML document; None, with the reasons in `faults`, when it is none.

    Args:
        text: the document.
        label: the file's name, for places.
        folder: what relative paths in it start from.
        faults: grows by every key that stands twice, or by what else makes it invalid.
    """
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
        lines = TomlLines(text).lines
        return _node(values, (), lines, label, folder)
    except tomllib.TOMLDecodeError as error:
        repeated = _repeated_keys(text, label)
        faults += repeated
        if not repeated or not str(error).startswith(_ABOUT_REPETITION):
            faults.append(_invalid(str(error), label))
    except ValueError as error:
        faults.append(f"{label}: no valid TOML: {printable(str(error))}")
    except RecursionError:
        faults.append(f"{label}: nested too deep")
    return None


def _node(value: Any, place: Place, lines: dict[Place, int], label: str, folder: Path) -> Node:
    if len(place) > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict):
        value = {key: _node(item, (*place, key), lines, label, folder) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_node(item, (*place, index), lines, label, folder) for index, item in enumerate(value)]
    return Node(value, f"{label}:{lines[place]}" if place in lines else label, folder)


def _repeated_keys(text: str, label: str) -> list[str]:
    try:
        repeated = TomlLines(text).repeated
    except RecursionError:
        return []
    return [
        f"{label}:{second}: {printable(_dotted(place))} stands twice, first at {label}:{first}: keep one"
        for place, first, second in repeated
    ]


def _dotted(place: Place) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")


def _invalid(text: str, label: str) -> str:
    if (at := _PLACE.search(text)) is None:
        return f"{label}: no valid TOML: {printable(text)}"
    return f"{label}:{at[1]}: no valid TOML: {printable(text[: at.start()])}, in column {at[2]}"
