# SPDX-License-Identifier: Apache-2.0
"""``rl.group_size=8``: one key and one value, as they are typed."""

from __future__ import annotations

from pathlib import Path

from posttrain.runs.config.node import Node, printable
from posttrain.runs.config.scalars import read_word
from posttrain.runs.config.yaml_text import read_flow

__all__ = ["read_override"]


def read_override(text: str) -> tuple[str, Node]:
    """The key and the value of ``KEY=VALUE``.

    A value in ``[...]``, ``{...}``, ``"..."`` or ``'...'`` is read in YAML's flow form, which JSON is too. Any other is
    one word, taken as it stands: a number, true, false, null, or the text that it looks like, with the colons, hashes
    and spaces in it.

    Raises:
        ValueError: there is no key, no value, or a bracket or quote is not closed; the text begins with the place.
    """
    where = f"override {printable(text)}"
    key, equals, value = text.partition("=")
    key, value = key.strip(), value.strip()
    if not equals or not key:
        raise ValueError(f"{where}: expected KEY=VALUE, for example rl.group_size=8; a file is no override")
    if not value:
        # Most often a variable of the shell that is not set.
        raise ValueError(f"{where}: no value; write {key}=null for the default, {key}='\"\"' for the empty text")
    if value[0] not in "[{\"'":
        return key, Node(read_word(value), where, Path.cwd())
    try:
        return key, read_flow(value, where, Path.cwd())
    except ValueError as error:
        raise ValueError(f"{where}: {error}; put the whole value in quotes if it is meant as text") from error
