# SPDX-License-Identifier: Apache-2.0
"""A value as somebody wrote it, with the place where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

__all__ = ["MAX_DEPTH", "Node", "given", "printable"]

MAX_DEPTH: Final = 100
"""Deepest nesting that is read, so that no later walk over a value can run out of stack."""

_SHOWN: Final = 80


@final
@dataclass(frozen=True, slots=True)
class Node:
    """One value of a config that is not checked yet."""

    value: Any
    """A scalar, a list of nodes, or a dict from key to node."""
    where: str
    """``run.toml:3``, ``override rl.group_size=8`` or ``--group-size``, for errors and for the resolved print."""
    folder: Path
    """What a relative path that is written here starts from: absolute."""

    def plain(self) -> Any:
        """The value alone, without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def deepest(self, path: Sequence[str | int]) -> Node:
        """The node at `path` inside this one, or the last one on the way there."""
        node = self
        for step in path:
            holds = isinstance(node.value, list) and isinstance(step, int) and step < len(node.value)
            if not holds and not (isinstance(node.value, dict) and step in node.value):
                break
            node = node.value[step]
        return node


def given(value: Any, where: str) -> Node:
    """The node of a value that was handed in as such, for example by a flag; its paths are the working directory's."""
    folder = Path.cwd()
    if isinstance(value, (list, tuple)):
        return Node([given(item, where) for item in value], where, folder)
    if isinstance(value, dict):
        return Node({key: given(item, where) for key, item in value.items()}, where, folder)
    return Node(value, where, folder)


def printable(text: str) -> str:
    """`text` on one line and not too long, safe for a terminal and for a comment."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
