# SPDX-License-Identifier: Apache-2.0
"""The tree of keys that `RLConfig` has, and the words for a key that is not in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from posttrain.runs.config.kinds import Expected
from posttrain.runs.config.model import RLConfig
from posttrain.runs.config.node import printable

__all__ = ["LEAVES", "OPEN", "SECTIONS", "Key", "dotted", "split_key", "unknown_key"]

Key: TypeAlias = tuple[str, ...]

_SAME: Final = 0.85
"""Likeness, from 0 to 1, of two names of which one is a slip for the other."""
_LIKE: Final = 0.6
"""Likeness of names that may be meant for each other."""
_AKIN: Final = 0.4
"""The same inside of one section, where there are few names to choose from."""


def dotted(key: Key) -> str:
    """A key as it is written in an override."""
    return ".".join(key)


def _walk(model: type[BaseModel], path: Key) -> Iterator[tuple[Key, type[BaseModel] | FieldInfo]]:
    yield path, model
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _walk(kind, (*path, name))
        else:
            yield (*path, name), field


def _expected(kind: Any, metadata: tuple[Any, ...]) -> Expected:
    """The outermost `Expected` of a type, wherever in it that stands."""
    found = next((each for each in metadata if isinstance(each, Expected)), None)
    if found is not None:
        return found
    inner = get_args(kind)
    if hasattr(kind, "__metadata__"):
        return _expected(inner[0], kind.__metadata__)
    return next(_expected(each, ()) for each in inner if each is not type(None))


_TREE: Final = dict(_walk(RLConfig, ("rl",)))

SECTIONS: Final[Mapping[Key, Key]] = {
    (): ("rl",),
    **{key: tuple(it.model_fields) for key, it in _TREE.items() if isinstance(it, type)},
}
"""Each section with the names right below it."""

LEAVES: Final[Mapping[Key, Expected]] = {
    key: _expected(it.annotation, tuple(it.metadata)) for key, it in _TREE.items() if isinstance(it, FieldInfo)
}
"""Each key that holds a value, with what it takes."""

OPEN: Final = frozenset(
    key for key, it in _TREE.items() if isinstance(it, FieldInfo) and get_origin(it.annotation) is Mapping
)
"""Keys below which names are free."""

_KNOWN: Final = tuple(dotted(key) for key in (*LEAVES, *SECTIONS) if key)


def split_key(text: str) -> Key:
    """The parts of a key as an override has it; below an open key the rest is one name, dots and all."""
    parts = tuple(text.split("."))
    for open_key in OPEN:
        if parts[: len(open_key)] == open_key and len(parts) > len(open_key):
            return (*open_key, ".".join(parts[len(open_key) :]))
    return parts


def unknown_key(key: Key) -> str:
    """What to tell of a key that is not in the tree: the nearest one, or those that there are."""
    if dotted(key) in _KNOWN:
        nested = ": ".join(key[-1].split("."))
        return f"a dotted key is one name in here; nest its parts instead, as in {printable(nested)}: ..."
    above = next(key[:end] for end in range(len(key) - 1, -1, -1) if key[:end] in SECTIONS or key[:end] in LEAVES)
    if above in LEAVES:
        return f"unknown key: {dotted(above)} holds a value, and no keys"
    if (near := _nearest(key, above)) is not None:
        return f"unknown key; did you mean {near}?"
    if not above:
        return "unknown key; every key begins with rl, for example rl.group_size"
    return f"unknown key; the keys of {dotted(above)} are {', '.join(SECTIONS[above])}"


def _nearest(key: Key, above: Key) -> str | None:
    """The key that was probably meant: one with a slip in it, one of that name elsewhere, a like one."""
    whole = _plain(dotted(key))
    likeness, near = max((_ratio(whole, other), other) for other in _KNOWN)
    if likeness >= _SAME:
        return near
    # Only the first part that is unknown counts; what stands behind it may be anything.
    name = _plain(key[len(above)])
    beside = [dotted((*above, each)) for each in SECTIONS[above]]
    for known, least in ((_KNOWN, _SAME), (beside, _AKIN), (_KNOWN, _LIKE)):
        likeness, _, near = max((_ratio(name, each.rpartition(".")[2]), _ratio(whole, each), each) for each in known)
        if likeness >= least:
            return near
    return None


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


def _ratio(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
