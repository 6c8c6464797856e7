# SPDX-License-Identifier: Apache-2.0
"""A catalog may be a single file: it is recorded with its content, and no two files ever get into each other's way."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest

Write = Callable[..., Path]


def _paid(catalog: RewardCatalog) -> float:
    """What the catalog's provider `mine` pays."""
    request = RewardGroupRequest("g", (RewardCandidate("t", ""),), RewardContext())
    return catalog["mine"].factory().evaluate(request).items[0].result.terms["task"]


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture(autouse=True)
def _forget_catalog_modules() -> Any:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("posttrain_catalog_"):
            del sys.modules[name]


def test_a_file_is_recorded_relative_to_its_base_with_its_content(tmp_path: Path, write: Write) -> None:
    """Given relative or whole, the record is the same: the path below the base, and the hash of what was read."""
    file = write("rewards/mine.py", value=0.5)
    for path in ("rewards/mine.py:catalog", f"{file}:catalog", "rewards/../rewards/mine.py:catalog"):
        catalog = load_catalog(path, base=tmp_path)
        assert catalog.path == f"rewards/mine.py@sha256:{_sha256(file)}:catalog"
        assert catalog.identity("mine").catalog == catalog.path
        assert _paid(catalog) == 0.5
    assert load_catalog("mine.py:catalog", base=file.parent).path == f"mine.py@sha256:{_sha256(file)}:catalog"


def test_a_base_is_the_working_directory_by_default(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for any program that is given a file."""
    file = write("mine.py")
    monkeypatch.chdir(tmp_path)
    assert load_catalog("mine.py:catalog").path == f"mine.py@sha256:{_sha256(file)}:catalog"


def test_a_file_outside_its_base_is_recorded_relative_to_it(tmp_path: Path, write: Write) -> None:
    """However it was given, the identity holds no path of a machine."""
    file = write("elsewhere/mine.py")
    base = tmp_path / "run"
    base.mkdir()
    for given in ("../elsewhere/mine.py", str(file)):
        recorded = f"../elsewhere/mine.py@sha256:{_sha256(file)}:catalog"
        assert load_catalog(f"{given}:catalog", base=base).path == recorded


def test_two_files_of_one_name_never_shadow_each_other(tmp_path: Path, write: Write) -> None:
    """Loaded in any order, each keeps its own functions and its own module; so do two files of the same content."""
    write("a/mine.py", value=1.0)
    write("b/mine.py", value=2.0)
    write("c/mine.py", value=1.0)
    loaded = [(each, load_catalog(f"{each}/mine.py:catalog", base=tmp_path)) for each in ("a", "b", "c", "a", "b")]
    assert [_paid(catalog) for _, catalog in loaded] == [1.0, 2.0, 1.0, 1.0, 2.0]
    modules = {each: catalog["mine"].factory.args[0].__module__ for each, catalog in loaded}  # type: ignore[attr-defined]  # it is a partial
    assert len(set(modules.values())) == 3
    assert [len(sys.modules[name].LOADED) for name in modules.values()] == [2, 2, 1]


def test_a_file_shadows_no_module(tmp_path: Path, write: Write) -> None:
    """Not even one that is named like a module of the standard library, nor does its folder get on the path."""
    write("json.py")
    path = list(sys.path)
    assert "mine" in load_catalog("json.py:catalog", base=tmp_path)
    assert sys.modules["json"] is json
    assert sys.path == path


def test_an_edited_file_is_read_again(tmp_path: Path, write: Write) -> None:
    """After an edit the new content is loaded and recorded; the catalog of before keeps what it had."""
    file = write("mine.py", value=1.0)
    before = load_catalog("mine.py:catalog", base=tmp_path)
    write("mine.py", value=2.0)
    after = load_catalog("mine.py:catalog", base=tmp_path)
    assert (_paid(before), _paid(after)) == (1.0, 2.0)
    assert before.path != after.path == f"mine.py@sha256:{_sha256(file)}:catalog"
    assert before.identity("mine") != after.identity("mine")


def test_an_unchanged_file_is_run_once(tmp_path: Path, write: Write) -> None:
    """Loading it again gives the same module, and asks its factory again."""
    write("mine.py")
    one, other = (load_catalog("mine.py:catalog", base=tmp_path) for _ in range(2))
    scorer: Any = one["mine"].factory
    assert scorer.args[0] is other["mine"].factory.args[0]  # type: ignore[attr-defined]  # it is a partial
    assert sys.modules[scorer.args[0].__module__].LOADED == ["called", "called"]


def test_a_file_s_definitions_are_those_of_a_module(tmp_path: Path, write: Write, pickled: Callable[..., Any]) -> None:
    """Classes know their module, so dataclasses and pickling work; annotations are values unless the file says else."""
    text = """
    from __future__ import annotations
    import dataclasses

    @dataclasses.dataclass
    class Config:
        retries: int = 3

    def catalog():
        return {}
    """
    load_catalog(f"{write('postponed.py', text)}:catalog", base=tmp_path)
    load_catalog(f"{write('plain.py', text.replace('from __future__ import annotations', ''))}:catalog", base=tmp_path)
    found = {
        Path(module.__file__ or "").name: module
        for name, module in sys.modules.items()
        if name.startswith("posttrain_catalog_")
    }
    for name, kind in (("postponed.py", "int"), ("plain.py", int)):
        config = found[name].Config
        assert dataclasses.fields(config)[0].type == kind
        assert pickled(config(5)) == config(5)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def catalog(:\n", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit('usage')\n", "SystemExit: usage"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("x = '\0'\n", ""),
    ],
    ids=["error", "syntax", "exit", "dependency", "null byte"],
)
def test_a_failing_file_is_refused_with_its_cause(tmp_path: Path, write: Write, text: str, said: str) -> None:
    """Nothing of it stays behind, and once mended it loads."""
    before = set(sys.modules)
    write("mine.py", text)
    for _ in range(2):
        with pytest.raises(RewardConfigError, match=r"^catalog file 'mine\.py' failed at import: ") as caught:
            load_catalog("mine.py:catalog", base=tmp_path)
        assert caught.value.message.startswith(f"catalog file 'mine.py' failed at import: {said}")
        assert set(sys.modules) == before
    write("mine.py")
    assert _paid(load_catalog("mine.py:catalog", base=tmp_path)) == 1.0


@pytest.mark.parametrize("name", ["nothing.py", "nowhere/mine.py", "folder.py"])
def test_a_file_that_can_not_be_read_is_refused(tmp_path: Path, name: str) -> None:
    """A missing file and a folder are shown as given, with the system's reason."""
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(RewardConfigError, match=f"catalog file '{name}' can't be read: (No such file|Is a directory)"):
        load_catalog(f"{name}:catalog", base=tmp_path)


def test_a_missing_factory_of_a_file_is_answered_with_what_there_is(tmp_path: Path, write: Write) -> None:
    """The file is shown as given, with its public functions."""
    write("mine.py", "def rewards():\n    pass\n")
    with pytest.raises(RewardConfigError, match=r"^mine\.py has no 'catalog'; its public functions: rewards$"):
        load_catalog("mine.py:catalog", base=tmp_path)


def test_a_factory_may_be_inside_a_class(tmp_path: Path, write: Write) -> None:
    """The name behind the colon may be dotted."""
    write("mine.py", "class Made:\n    @staticmethod\n    def catalog():\n        return {}\n")
    assert str(load_catalog("mine.py:Made.catalog", base=tmp_path).path).endswith(":Made.catalog")
