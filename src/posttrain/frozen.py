# SPDX-License-Identifier: Apache-2.0
"""Deep freezing of JSON values, and the type-strict structural equality that goes with it.

Frozen values are detached from the caller's objects: mappings become read-only, sequences become tuples, scalars stay.
`1`, `True` and `1.0` are three different values, and so are `0.0` and `-0.0`; the order of keys does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Never, NoReturn, TypeAlias

from posttrain.errors import RewardContractError, describe, listing

__all__ = ["MAX_DEPTH", "FrozenJson", "Json", "first_difference", "freeze", "strict_equal", "thaw"]

Json: TypeAlias = "str | int | float | bool | Mapping[str, Json] | Sequence[Json] | None"
FrozenJson: TypeAlias = "str | int | float | bool | Mapping[str, FrozenJson] | tuple[FrozenJson, ...] | None"

MAX_DEPTH = 200
"""Deepest nesting that is accepted, so that no later walk over the value can run out of stack."""

_ATOMS = frozenset({str, bool, type(None)})
_LONGEST_INT = 14_000
"""Bits of an int; more can't be written as JSON under Python's limit of 4300 digits."""
_MISSING = object()


class _Unfreezable(Exception):  # noqa: N818  # internal signal, never seen outside
    """The fast walk met something that is not JSON; the slow walk finds out what and where."""


class _FrozenDict(dict[str, Any]):
    """A read-only dict: still a `dict` to `json`, `isinstance`, pickle and deepcopy, but its mutators raise."""

    __slots__ = ()

    def __init__(self, *_: object, **__: object) -> None:
        _refuse_mutation()

    def __setitem__(self, key: str, value: object) -> Never:
        _refuse_mutation()

    def __delitem__(self, key: str) -> Never:
        _refuse_mutation()

    def __ior__(self, other: object) -> Never:  # type: ignore[misc]  # refusing is the point
        _refuse_mutation()

    def clear(self) -> Never:
        _refuse_mutation()

    def pop(self, *_: object) -> Never:
        _refuse_mutation()

    def popitem(self) -> Never:
        _refuse_mutation()

    def setdefault(self, *_: object) -> Never:
        _refuse_mutation()

    def update(self, *_: object, **__: object) -> Never:
        _refuse_mutation()

    def __deepcopy__(self, memo: dict[int, Any]) -> _FrozenDict:
        return self  # as deep as it goes, nothing in it can change

    def __reduce__(self) -> tuple[Any, ...]:
        return _frozen_dict, (dict(self),)


def _refuse_mutation() -> NoReturn:
    raise TypeError("this mapping is frozen: a provider that needs to change it makes a private copy with thaw()")


def _frozen_dict(items: dict[str, Any]) -> _FrozenDict:
    frozen = _FrozenDict.__new__(_FrozenDict)
    dict.update(frozen, items)
    return frozen


def freeze(value: object, path: str = "value") -> FrozenJson:
    """A detached, deeply immutable copy of a JSON value.

    Accepted are `str`, `int`, finite `float`, `bool`, `None`, mappings with `str` keys, lists and tuples, nested at
    most `MAX_DEPTH` deep; subclasses of the scalar types are not, since they could carry state of their own.

    Args:
        value: the value to freeze; it is not changed.
        path: what to call the value in an error, for example ``reference``.

    Raises:
        RewardContractError: naming every offending place by its path, for example ``reference.arguments[2]``.
    """
    try:
        try:
            frozen: FrozenJson = _freeze(value, MAX_DEPTH)
        except _Unfreezable:
            faults = list(_faults(value, path, ()))
        else:
            return frozen
    except RecursionError:
        faults = [f"{path}: the stack is too full to walk it"]
    raise RewardContractError(f"not a JSON value:\n{listing(faults)}")


def _freeze(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is float or kind is int:
        if math.isfinite(value) if kind is float else value.bit_length() <= _LONGEST_INT:
            return value
        raise _Unfreezable
    if depth == 0:
        raise _Unfreezable
    if isinstance(value, (list, tuple)):
        return tuple([_freeze(item, depth - 1) for item in value])
    if isinstance(value, Mapping):
        items = {}
        for key, item in value.items():
            if type(key) is not str:
                raise _Unfreezable
            items[key] = _freeze(item, depth - 1)
        return _frozen_dict(items)
    raise _Unfreezable


def _faults(value: Any, path: str, holders: tuple[int, ...]) -> Iterator[str]:
    if not isinstance(value, (list, tuple, Mapping)):
        if (fault := _scalar_fault(value)) is not None:
            yield f"{path}: {fault}"
    elif id(value) in holders:
        yield f"{path}: the value contains itself"
    elif len(holders) >= MAX_DEPTH:
        yield f"{path}: nested more than {MAX_DEPTH} deep"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if type(key) is not str:
                yield f"{path}: expected string keys, got the key {describe(key)}"
            yield from _faults(item, f"{path}{_step(key)}", (*holders, id(value)))
    else:
        for index, item in enumerate(value):
            yield from _faults(item, f"{path}[{index}]", (*holders, id(value)))


def _scalar_fault(value: Any) -> str | None:
    kind = type(value)
    if kind is float:
        return None if math.isfinite(value) else f"expected a finite number, got {value!r}"
    if kind is int:
        fits = value.bit_length() <= _LONGEST_INT
        return None if fits else f"expected a number that JSON can hold, got {describe(value)}"
    return None if kind in _ATOMS else f"expected a JSON type, got {describe(value)}{_fix(value)}"


def _step(key: object) -> str:
    return f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{describe(key)}]"


def _fix(value: object) -> str:
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return f": write {base.__name__}(value)"
    if isinstance(value, (set, frozenset)):
        return ": write sorted(value)"
    if isinstance(value, (bytes, bytearray)):
        return ": write value.decode()"
    if callable(getattr(value, "tolist", None)):
        return ": write value.tolist()"
    return ""


def thaw(value: FrozenJson) -> Any:
    """A mutable private copy of a frozen value: dicts and lists in place of frozen mappings and tuples."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value


def strict_equal(left: object, right: object) -> bool:
    """Whether two JSON values are the same after freezing: same types, same structure, any order of keys.

    Neither has to be frozen. Lists and tuples are one kind, as they are after freezing. Values that can't be frozen
    equal nothing but themselves; those nested too deep for the stack are among them.
    """
    try:
        return _equal(left, right)
    except RecursionError:
        return False


def _equal(left: object, right: object) -> bool:
    if left is right:
        return True
    kind = type(left)
    if kind is type(right):
        if kind in _ATOMS or kind is int:
            return left == right
        if kind is float:
            return left == right and math.copysign(1.0, left) == math.copysign(1.0, right)  # type: ignore[arg-type]  # both are floats
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return (
            len(left) == len(right)
            and all(type(key) is str for key in chain(left, right))
            and all(key in right and _equal(item, right[key]) for key, item in left.items())
        )
    return False


def first_difference(left: object, right: object, path: str = "value") -> str | None:
    """Where two JSON values first differ under `strict_equal`, in words; None when they don't."""
    try:
        return _first_difference(left, right, path)
    except RecursionError:
        return f"{path} is nested too deep to be compared"


def _first_difference(left: object, right: object, path: str) -> str | None:  # noqa: PLR0911  # one a kind
    if strict_equal(left, right):
        return None
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in [*left, *(key for key in right if key not in left)]:
            step = f"{path}{_step(key)}"
            if key not in right:
                return f"{step} is missing from the second"
            if key not in left:
                return f"{step} is missing from the first"
            if (found := _first_difference(left[key], right[key], step)) is not None:
                return found
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        for index, (one, other) in enumerate(zip(left, right, strict=False)):
            if (found := _first_difference(one, other, f"{path}[{index}]")) is not None:
                return found
        return f"{path} has {len(left)} items in the first and {len(right)} in the second"
    at = ""
    if isinstance(left, str) and isinstance(right, str):
        start = next(
            (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
        )
        start = max(0, start - 10)
        at, left, right = f"[{start}:]" if start else "", left[start:], right[start:]
    return f"{path}{at} is {describe(left)} in the first and {describe(right)} in the second"
