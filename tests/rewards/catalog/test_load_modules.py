# SPDX-License-Identifier: Apache-2.0
"""A catalog factory is found by its dotted path; whatever goes wrong on the way is a config error that says what."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.scorers import BUILT_IN

Write = Callable[..., Path]

FORMS = "package.module:factory, package.module.factory or file.py:factory"


def _refusal(path: Any, match: str) -> RewardConfigError:
    with pytest.raises(RewardConfigError, match=match) as caught:
        load_catalog(path)
    return caught.value


def test_no_path_gives_the_built_ins() -> None:
    """And records none."""
    catalog = load_catalog()
    assert dict(catalog) == dict(load_catalog(None)) == dict(BUILT_IN)
    assert catalog.path is None


@pytest.mark.parametrize(
    ("path", "recorded"),
    [
        ("shop.rewards:catalog", "shop.rewards:catalog"),
        ("shop.rewards.catalog", "shop.rewards:catalog"),
        ("shop:catalog", "shop:catalog"),
        ("shop.catalog", "shop:catalog"),
        ("shop.rewards:Made.catalog", "shop.rewards:Made.catalog"),
    ],
)
def test_both_forms_of_a_path_are_one_factory(importable: Path, write: Write, path: str, recorded: str) -> None:
    """With a colon or a dot before its name, and the recorded path is the one with the colon."""
    write("shop/__init__.py")
    file = write("shop/rewards.py")
    file.write_text(f"{file.read_text()}\n\nclass Made:\n    catalog = staticmethod(catalog)\n")
    catalog = load_catalog(path)
    assert catalog.path == recorded
    assert list(catalog) == [*BUILT_IN, "mine"]
    assert catalog.identity("mine").catalog == recorded


@pytest.mark.parametrize(
    "path",
    [
        "catalog",
        "shop.rewards:",
        ":catalog",
        ".catalog",
        "shop.rewards:1st",
        "shop.rewards:catalog()",
        "shop.rewards:a..b",
        "my-shop:catalog",
        "shop/rewards:catalog",
        "shop..rewards:catalog",
        " shop.rewards:catalog",
        "shop.rewards:catalog ",
        "rewards.py",
        "folder/rewards.py",
        "rewards.py:",
        "shop:rewards:catalog",
    ],
)
def test_another_form_is_refused(path: str) -> None:
    """The error shows the path and the forms there are."""
    error = _refusal(path, "^catalog path ")
    assert error.message.startswith(f"catalog path {path!r}: ")
    assert error.message.endswith(f"expected {FORMS}")


@pytest.mark.parametrize(("path", "shown"), [("", r"'' \(str\)"), (" \t", r".* \(str\)"), (5, r"5 \(int\)")], ids=repr)
def test_a_path_is_a_filled_string(path: Any, shown: str) -> None:
    """Nothing else is taken for a path."""
    _refusal(path, f"^a catalog path is a string such as .*, got {shown}$")


@pytest.mark.parametrize(
    "path", ["nowhere_to_be_found:catalog", "nowhere_to_be_found.rewards:catalog", "shop.nowhere:catalog"]
)
def test_a_module_that_is_not_there_is_told_apart(importable: Path, write: Write, path: str) -> None:
    """Whether the package or a part of it is missing: install it, or put it on the path, on every machine."""
    write("shop/__init__.py")
    error = _refusal(path, "can't be found: install its package, or put its folder on PYTHONPATH")
    assert error.message.startswith(f"catalog module {path.partition(':')[0]!r} ")
    assert isinstance(error.__cause__, ModuleNotFoundError)


def test_a_dependency_with_the_beginning_of_the_catalog_s_name_is_told_apart(importable: Path, write: Write) -> None:
    """The catalog is there; what it imports is not."""
    write("nowhere_rewards.py", "import nowhere\n")
    _refusal("nowhere_rewards:catalog", "failed at import: ModuleNotFoundError: No module named 'nowhere'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("from shop import nothing\n", "ImportError: cannot import name 'nothing' from 'shop'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def catalog(:\n", "SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        (
            "class Wordless(Exception):\n    def __str__(self):\n        raise OSError\nraise Wordless\n",
            "Wordless: <unprint",
        ),
    ],
    ids=["dependency", "name", "error", "syntax", "exit", "wordless"],
)
def test_a_failing_import_is_refused_with_its_cause(importable: Path, write: Write, text: str, said: str) -> None:
    """Also a module that ends the process, or raises what can't be printed; it can be mended and loaded again."""
    write("shop/__init__.py", "")
    file = write("shop/rewards.py", text)
    error = _refusal("shop.rewards:catalog", "failed at import")
    assert error.message.startswith(f"catalog module 'shop.rewards' failed at import: {said}")
    assert error.__cause__ is not None
    assert "shop.rewards" not in sys.modules
    file.unlink()
    write("shop/rewards.py")
    assert "mine" in load_catalog("shop.rewards:catalog")


@pytest.mark.parametrize("where", ["module", "file"])
def test_an_interrupt_during_the_import_passes_through(importable: Path, write: Write, where: str) -> None:
    """It is the user's, and no fault of the catalog."""
    file = write("interrupted.py", "raise KeyboardInterrupt('stop')\n")
    with pytest.raises(KeyboardInterrupt, match="stop"):
        load_catalog("interrupted:catalog" if where == "module" else f"{file}:catalog")


def test_a_missing_factory_is_answered_with_what_there_is(importable: Path, write: Write) -> None:
    """The module's public functions are listed, sorted; private ones and values are not."""
    write(
        "shop.py", "def rewards():\n    pass\n\n\ndef make():\n    pass\n\n\ndef _private():\n    pass\n\n\nVALUE = 1\n"
    )
    for name in ("catalog", "make.catalog"):
        error = _refusal(f"shop:{name}", "^shop has no ")
        assert error.message == f"shop has no {name!r}; its public functions: make, rewards"
    write("bare.py", "VALUE = 1\n")
    assert _refusal("bare:catalog", "^bare has no ").message == "bare has no 'catalog'; its public functions: none"


@pytest.mark.parametrize(
    ("factory", "match"),
    [
        ("catalog = {}", r"^catalog 'shop:catalog': expected a function without arguments, got \{\} \(dict\)$"),
        ("def catalog(url): ...", "has to be callable without arguments: missing a required argument: 'url'$"),
        ("def catalog(*, url): ...", "has to be callable without arguments: missing a required .*argument: 'url'$"),
        ("class catalog:\n    def __init__(self, url): ...", "has to be callable without arguments: missing"),
        ("def catalog(): raise OSError('no licence')", r"^catalog factory 'shop:catalog' raised OSError: no licence$"),
        ("async def catalog(): return {}", "^catalog factory 'shop:catalog' is async: write it as a plain function$"),
        ("def catalog(): {}", r"^catalog factory 'shop:catalog' has to return a mapping from .* to .*, got None$"),
        ("def catalog(): return []", r"'shop:catalog' has to return a mapping .*, got \[\] \(list\)$"),
        ("def catalog(): yield {}", r"'shop:catalog' has to return a mapping .* \(generator\)$"),
        ("def catalog(): return {'mine': 1.0}", "^catalog shop:catalog is not valid:\n  'mine': expected a RewardProv"),
        ("def catalog(): return {'gsm8k': 1.0}", "'gsm8k' is a built-in provider and can't be overridden"),
    ],
)
def test_a_factory_that_breaks_its_contract_is_refused(
    importable: Path, write: Write, factory: str, match: str
) -> None:
    """It takes no argument, is plain, does not fail and returns a mapping of names to specs."""
    write("shop.py", f"{factory}\n")
    _refusal("shop:catalog", match)


@pytest.mark.parametrize(
    "factory",
    ["def make(strict=True, **more): return {}", "make = dict", "class make(dict): pass", "make = lambda: {}"],
)
def test_whatever_can_be_called_without_arguments_is_a_factory(importable: Path, write: Write, factory: str) -> None:
    """Functions with defaults, classes and built-in types."""
    write("shop.py", f"{factory}\n")
    assert dict(load_catalog("shop:make")) == dict(BUILT_IN)


def test_the_factory_is_called_anew_by_each_load(importable: Path, write: Write) -> None:
    """The module is imported once, its factory asked each time."""
    write("shop.py")
    load_catalog("shop:catalog")
    load_catalog("shop.catalog")
    assert sys.modules["shop"].LOADED == ["called", "called"]
