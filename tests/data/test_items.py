# SPDX-License-Identifier: Apache-2.0
"""The row map: found by its path, and held to the keys of the row."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.data.items import difference, load_items_fn, map_row
from posttrain.errors import RewardConfigError, RewardContractError

MODULE = """
class Prepare:
    @staticmethod
    def row(row):
        return row

def upper(row):
    return {**row, "q": row["q"].upper()}

async def later(row):
    return row

number = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """The name of an importable module with row maps, and of some that can't be imported."""
    (tmp_path / "items_for_tests.py").write_text(MODULE)
    (tmp_path / "items_that_fail.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "items_that_need.py").write_text("import no_such_module_at_all\n")
    sys.path.insert(0, str(tmp_path))
    yield "items_for_tests"
    sys.path.remove(str(tmp_path))
    sys.modules.pop("items_for_tests", None)


def test_a_map_is_found_by_its_path(module: str) -> None:
    """A function of a module is found, and one that is held by a class too."""
    assert load_items_fn(f"{module}:upper")({"q": "a", "x": 1}) == {"q": "A", "x": 1}
    assert load_items_fn(f"{module}.upper") is load_items_fn(f"{module}:upper")
    assert load_items_fn(f"{module}:Prepare.row")({"q": "a"}) == {"q": "a"}


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("items_for_tests", r"expected package\.module:function, got 'items_for_tests'"),
        ("items_for_tests.lower", "has to be a plain function of one row, got None"),
        (":upper", r"expected package\.module:function"),
        ("items_for_tests:", r"expected package\.module:function"),
        ("items for tests:upper", r"expected package\.module:function"),
        ("no_such_module_at_all:upper", "module 'no_such_module_at_all' can't be found: install its package"),
        ("items_that_fail:upper", "module 'items_that_fail' failed at import: RuntimeError: no licence"),
        ("items_that_need:upper", "failed at import: ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("items_for_tests:lower", "has to be a plain function of one row, got None"),
        ("items_for_tests:number", r"has to be a plain function of one row, got 3 \(int\)"),
        ("items_for_tests:later", "has to be a plain function of one row, got <function later"),
    ],
)
def test_a_path_that_leads_nowhere(module: str, path: str, fault: str) -> None:
    """Each way in which a path can be wrong is told, with the config key."""
    with pytest.raises(RewardConfigError, match=rf"^rl\.data\.items_fn: .*{fault}"):
        load_items_fn(path)


def test_something_else_than_a_path() -> None:
    """What is no text at all is no path either."""
    wrong: Any = 3
    with pytest.raises(RewardConfigError, match=r"expected package\.module:function, got 3 \(int\)"):
        load_items_fn(wrong)


@given(
    st.sets(st.sampled_from("abcd")),
    st.sets(st.sampled_from("abcdef")),
    st.booleans(),
)
def test_the_keys_are_kept(before: set[str], after: set[str], in_place: bool) -> None:
    """A map may give any mapping with the row's keys; keys that went and keys that came are named, all of them."""

    def rename(row: dict[str, Any]) -> Any:
        if in_place:
            row.clear()
            row.update(dict.fromkeys(after, 2))
            return row
        return MappingProxyType(dict.fromkeys(after, 2))

    row: dict[str, Any] = dict.fromkeys(before, 1)
    if before == after:
        assert dict(map_row(rename, row)) == dict.fromkeys(after, 2)
        return
    with pytest.raises(RewardContractError, match=r"items_fn (lost|added) ") as caught:
        map_row(rename, row)
    lost, added = (", ".join(map(repr, sorted(keys))) for keys in (before - after, after - before))
    expected = " and ".join(f"{what} {names}" for what, names in (("lost", lost), ("added", added)) if names)
    assert str(caught.value).startswith(f"items_fn {expected}; it may rewrite values")


def test_what_it_raises_is_kept_as_the_cause() -> None:
    """An exception of the map is told by type and text, and is at hand as the cause."""
    with pytest.raises(RewardContractError, match="items_fn raised KeyError: 'q'") as caught:
        map_row(lambda row: {"a": row["q"]}, {"a": 1})
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_interrupt_passes_through() -> None:
    """Ctrl-C inside a map is no fault of a row."""

    def stop(row: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        map_row(stop, {})


def test_a_map_that_forgets_to_return() -> None:
    """A map that changes the row in place and gives None is told to return it."""
    forgetful: Any = lambda row: row.update(a=2)  # noqa: E731  # short, and its None is the point
    with pytest.raises(RewardContractError, match="items_fn has to return the row as a mapping, got None"):
        map_row(forgetful, {"a": 1})


def test_two_results_are_compared_strictly() -> None:
    """A difference is named by its place; 1 and 1.0 differ; values that are no JSON are passed over."""
    assert difference({"a": [1], "b": object()}, {"a": [1], "b": object()}) is None
    assert "'a'[0] is 1 (int) in the first and 1.0 (float)" in str(difference({"a": [1]}, {"a": [1.0]}))
