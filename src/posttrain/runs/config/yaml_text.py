# SPDX-License-Identifier: Apache-2.0
"""YAML to nodes: the structure by YAML, the words by our own rule, and every line number kept."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

import yaml

from posttrain.runs.config.node import MAX_DEPTH, Node, printable
from posttrain.runs.config.scalars import read_word

__all__ = ["read_flow", "read_yaml"]

_WORD: Final = "word"
"""Tag of a scalar without quotes, so that `!!str 8` can be told from 8."""
_TEXT: Final = "tag:yaml.org,2002:str"
_LIST: Final = "tag:yaml.org,2002:seq"
_MAPPING: Final = "tag:yaml.org,2002:map"


class _Composer(
    yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, yaml.resolver.BaseResolver
):
    """Text to a tree of YAML nodes with their marks; nothing is constructed, and nothing stands for something else."""

    def __init__(self, text: str) -> None:
        yaml.reader.Reader.__init__(self, text)
        yaml.scanner.Scanner.__init__(self)
        yaml.parser.Parser.__init__(self)
        yaml.composer.Composer.__init__(self)
        yaml.resolver.BaseResolver.__init__(self)

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        """The tag of a node that has none written."""
        del value
        if kind is yaml.ScalarNode:
            return _WORD if implicit[0] else _TEXT
        return _LIST if kind is yaml.SequenceNode else _MAPPING

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node; an alias is refused, since a value has one place."""
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave it out
            raise yaml.composer.ComposerError(None, None, "aliases are not followed: write the value out", mark)
        return super().compose_node(parent, index)


class _Reader:
    """Makes our nodes of YAML's and notes what can't stand in a config."""

    def __init__(self, text: str, label: str, folder: Path, faults: list[str]) -> None:
        self.text, self.label, self.folder, self.faults = text, label, folder, faults

    def where(self, mark: yaml.Mark) -> str:
        # YAML counts more characters as line ends than an editor does, so its own line numbers are not used.
        line = self.text.count("\n", 0, mark.index) + 1
        return f"{self.label}:{line}"

    def node(self, found: yaml.Node, path: str, mark: yaml.Mark, depth: int = 0) -> Node:
        """The node of `found`, which is said to stand at `mark`: where its key is."""
        if depth > MAX_DEPTH:
            raise RecursionError
        where = self.where(mark)
        if isinstance(found, yaml.ScalarNode) and found.tag in {_WORD, _TEXT}:
            return Node(read_word(found.value) if found.tag == _WORD else found.value, where, self.folder)
        if isinstance(found, yaml.SequenceNode) and found.tag == _LIST:
            items = [
                self.node(item, f"{path}[{index}]", item.start_mark, depth + 1)
                for index, item in enumerate(found.value)
            ]
            return Node(items, where, self.folder)
        if isinstance(found, yaml.MappingNode) and found.tag == _MAPPING:
            return self._mapping(found, path, where, depth)
        self.faults.append(
            f"{where}: {printable(path) or 'the file'} has the tag {printable(found.tag)}: write the value as it is"
        )
        return Node(None, where, self.folder)

    def _mapping(self, found: yaml.MappingNode, path: str, where: str, depth: int) -> Node:
        items: dict[str, Node] = {}
        for key, value in found.value:
            at = self.where(key.start_mark)
            if not isinstance(key, yaml.ScalarNode) or key.tag not in {_WORD, _TEXT}:
                self.faults.append(f"{at}: a key is plain text, not a list, a mapping or something with a tag")
                continue
            name = str(key.value)
            full = f"{path}.{name}" if path else name
            if name in items:
                self.faults.append(f"{at}: {printable(full)} stands twice, first at {items[name].where}: keep one")
                continue
            items[name] = self.node(value, full, key.start_mark, depth + 1)
        return Node(items, where, self.folder)


def read_yaml(text: str, label: str, folder: Path, faults: list[str]) -> Node | None:
    """The tree of a YAML document; None, with the reason in `faults`, when it is none.

    Args:
        text: the document.
        label: the file's name, for places.
        folder: what relative paths in it start from.
        faults: grows by every duplicate key, every tag and every key that is no text.
    """
    reader = _Reader(text, label, folder, faults)
    try:
        found = _Composer(text).get_single_node()
        if found is None:
            return Node({}, f"{label}:1", folder)
        return reader.node(found, "", found.start_mark)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        faults.append(f"{label}:{line}: no valid YAML: the character {error.character:#06x} is not allowed")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = label if mark is None else reader.where(mark)
        faults.append(f"{at}: no valid YAML: {_problem(error)}")
    except RecursionError:
        faults.append(f"{label}: nested too deep")
    return None


def read_flow(text: str, where: str, folder: Path) -> Node:
    """The value of a list in brackets, a mapping in braces or a string in quotes, which `text` has to be as a whole.

    Raises:
        ValueError: it is something else; the text says what.
    """
    faults: list[str] = []
    reader = _Reader(text, "override", folder, faults)
    try:
        found = _Composer(text).get_single_node()
        if found is None or not _is_whole(found, text):
            _refuse("something stands behind its end")
        node = reader.node(found, "the value", found.start_mark)
    except yaml.reader.ReaderError as error:
        raise ValueError(f"the character {error.character:#06x} is not allowed") from error
    except yaml.MarkedYAMLError as error:
        raise ValueError(_problem(error)) from error
    except RecursionError:
        raise ValueError("nested too deep") from None
    if faults:
        raise ValueError("; ".join(fault.partition(": ")[2] for fault in faults))
    return _at(node, where)


def _is_whole(found: yaml.Node, text: str) -> bool:
    """Whether `text` is that node in flow form and nothing else: ``"a": b`` begins as a text, but is a mapping."""
    if isinstance(found, yaml.CollectionNode):
        is_flow = bool(found.flow_style)
    else:
        is_flow = isinstance(found, yaml.ScalarNode) and found.style in {"'", '"'}
    return is_flow and found.start_mark.index == 0 and found.end_mark.index == len(text)


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _at(node: Node, where: str) -> Node:
    """The same at one place: an override has no lines."""
    value = node.value
    if isinstance(value, dict):
        value = {key: _at(item, where) for key, item in value.items()}
    elif isinstance(value, list):
        value = [_at(item, where) for item in value]
    return Node(value, where, node.folder)


def _problem(error: yaml.MarkedYAMLError) -> str:
    """YAML's own words, without its marks."""
    return ", ".join(printable(part) for part in (error.context, error.problem) if part)
