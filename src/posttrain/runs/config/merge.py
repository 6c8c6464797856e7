# SPDX-License-Identifier: Apache-2.0
"""File, overrides and flags laid over each other, key by key, before anything is checked."""

from __future__ import annotations

from typing import Any, final

from posttrain.errors import describe
from posttrain.rewards.contract.names import name_fault
from posttrain.runs.config.keys import LEAVES, OPEN, SECTIONS, Key, dotted, unknown_key
from posttrain.runs.config.node import Node, printable

__all__ = ["Merge"]


@final
class Merge:
    """The value of each key that somebody set: a later one takes the place of an earlier one.

    A section that is given as a whole sets the keys that it holds. The weights, an open mapping, are replaced as a
    whole or set term by term. null takes a key's value away again, so that its default holds.
    """

    def __init__(self) -> None:
        self.values: dict[Key, Node] = {}
        self.faults: list[str] = []
        self.source = 0
        """Ordinal of the source that is laid over the others now: the file, the overrides, the flags."""
        self.sources: dict[Key, int] = {}
        """The source of each value."""

    def put(self, key: Key, node: Node) -> None:
        """Set a key, or every key below it; what can't be set is noted in `faults`."""
        if node.value is None and (key in SECTIONS or key in LEAVES):
            self._forget(key)
        elif key in SECTIONS:
            self._put_each(key, node, f"the keys {', '.join(SECTIONS[key])} under it")
        elif key in OPEN:
            self._forget(key)
            self._put_each(key, node, "a mapping from term to number")
        elif key[:-1] in OPEN and node.value is None:
            self._put_nothing(key, node)
        elif key in LEAVES or key[:-1] in OPEN:
            self.values[key] = node
            self.sources[key] = self.source
        else:
            self.faults.append(f"{printable(dotted(key))} ({node.where}): {unknown_key(key)}")

    def _put_each(self, key: Key, node: Node, expected: str) -> None:
        if not isinstance(node.value, dict):
            self.faults.append(
                f"{dotted(key) or 'the file'} ({node.where}): expected {expected}, got {describe(node.plain())}"
            )
            return
        for name, child in node.value.items():
            self.put((*key, name), child)

    def _put_nothing(self, key: Key, node: Node) -> None:
        # In flow form, {task:1} is one name without a value, which must not pass for null.
        if (fault := name_fault("term", key[-1])) is not None:
            fix = ": put a space behind the colon" if ":" in key[-1] else ""
            self.faults.append(f"{printable(dotted(key))} ({node.where}): {fault}{fix}")
        else:
            self._forget(key)

    def _forget(self, prefix: Key) -> None:
        for key in [key for key in self.values if key[: len(prefix)] == prefix]:
            del self.values[key]

    def tree(self) -> dict[str, Any]:
        """The values below ``rl`` alone, nested, as `RLConfig` takes them."""
        root: dict[str, Any] = {}
        for key, node in self.values.items():
            table = root
            for part in key[1:-1]:
                table = table.setdefault(part, {})
            table[key[-1]] = node.plain()
        return root
