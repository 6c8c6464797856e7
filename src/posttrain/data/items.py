# SPDX-License-Identifier: Apache-2.0
"""The row map of a run: found by its dotted path, called on a row, and held to the row's keys."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from posttrain.errors import RewardConfigError, RewardContractError, describe, text_of
from posttrain.frozen import first_difference, freeze

__all__ = ["ItemsFn", "difference", "load_function", "load_items_fn", "map_row"]

ItemsFn: TypeAlias = Callable[[dict[str, Any]], Mapping[str, Any]]
"""Takes a row as a fresh dict and gives it back with the same keys; values may be other ones."""

_KEY = "rl.data.items_fn"


def load_items_fn(path: str) -> ItemsFn:
    """The row map of a dotted path.

    Raises:
        RewardConfigError: see `load_function`.
    """
    function: ItemsFn = load_function(path, _KEY, "of one row")
    return function


def load_function(path: str, key: str, takes: str) -> Callable[..., Any]:
    """The function of a dotted path, ``package.module:function`` or ``package.module.function``.

    Args:
        path: the dotted path.
        key: the config key that holds it, for errors.
        takes: what it takes, for errors.

    Raises:
        RewardConfigError: the path has no such form, its module can't be imported, or it names no plain function.
    """
    where, mark, attribute = path.partition(":") if isinstance(path, str) else ("", "", "")
    if not mark:
        where, mark, attribute = where.rpartition(".")
    if not mark or not all(part.isidentifier() for part in (*where.split("."), *attribute.split("."))):
        raise RewardConfigError(f"{key}: expected package.module:function, got {describe(path)}")
    try:
        found: Any = importlib.import_module(where)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{where}.".startswith(f"{error.name}."):
            raise RewardConfigError(
                f"{key}: module {where!r} can't be found: install its package, or put its folder on PYTHONPATH"
            ) from error
        raise RewardConfigError(
            f"{key}: module {where!r} failed at import: {type(error).__name__}: {text_of(error)}"
        ) from error
    for step in attribute.split("."):
        found = getattr(found, step, None)
    if not callable(found) or inspect.iscoroutinefunction(found):
        raise RewardConfigError(f"{key}: {path} has to be a plain function {takes}, got {describe(found)}")
    function: Callable[..., Any] = found
    return function


def map_row(function: ItemsFn, row: dict[str, Any]) -> Mapping[str, Any]:
    """The row that the map makes of `row`, which it may change on the way.

    Raises:
        RewardContractError: it raised, gave no mapping, or did not keep the row's keys.
    """
    keys = set(row)
    try:
        mapped = function(row)
    except Exception as error:
        raise RewardContractError(f"items_fn raised {type(error).__name__}: {text_of(error)}") from error
    if not isinstance(mapped, Mapping):
        raise RewardContractError(f"items_fn has to return the row as a mapping, got {describe(mapped)}")
    if mapped.keys() != keys:
        missing, extra = sorted(keys - mapped.keys()), sorted(map(str, mapped.keys() - keys))
        parts = [
            f"{what} {', '.join(map(repr, names))}" for what, names in (("lost", missing), ("added", extra)) if names
        ]
        raise RewardContractError(
            f"items_fn {' and '.join(parts)}; it may rewrite values, and returns the row with the keys that it had"
        )
    return mapped


def difference(first: Mapping[str, Any], second: Mapping[str, Any]) -> str | None:
    """Where two results of the map on one row differ, in words; values that are no JSON are not compared."""
    for key, value in first.items():
        try:
            freeze(value), freeze(second[key])
        except RewardContractError:
            continue
        if (found := first_difference(value, second[key], repr(key))) is not None:
            return found
    return None
