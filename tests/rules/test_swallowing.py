# SPDX-License-Identifier: Apache-2.0
"""No exception is swallowed and nothing is printed: a failure that goes unseen is how a wrong reward is born."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

RULE = (
    "a handler of every Exception raises on each of its paths, and nothing is printed; a handler that must go on is "
    "named in tests/rules/test_swallowing.py with its reason"
)

# File and function to the reason why its handler may end without raising.
ALLOWED: dict[tuple[str, str], str] = {
    ("posttrain/errors.py", "_safe_repr"): "a foreign repr may raise anything; the value is described without it",
    ("posttrain/errors.py", "text_of"): "a foreign str may raise anything; the cause is described without it",
    (
        "posttrain/rewards/contract/pointwise.py",
        "_MappedCandidates.evaluate",
    ): "the failure is kept and raised with those of the other candidates",
}

_BROAD = {"Exception", "BaseException"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def _is_broad(node: ast.expr | None) -> bool:
    if node is None:
        return True
    if isinstance(node, ast.Tuple):
        return any(map(_is_broad, node.elts))
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in _BROAD


def _ends_in_raise(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _ends_in_raise(last.body) and _ends_in_raise(last.orelse)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return _ends_in_raise(last.body)
    return isinstance(last, ast.Raise)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a statement of the body, those of inner functions apart, jumps out of it without raising."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
            return True
        if not isinstance(node, _FUNCTIONS):
            waiting += ast.iter_child_nodes(node)
    return False


def _offences(node: ast.AST, where: tuple[str, ...] = ()) -> Iterator[tuple[str, int, str]]:
    """Function, line and kind of every swallowing handler and every print below `node`."""
    for child in ast.iter_child_nodes(node):
        inner = where
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = (*where, child.name)
        if isinstance(child, ast.ExceptHandler) and _is_broad(child.type):
            if not _ends_in_raise(child.body) or _leaves(child.body):
                yield ".".join(where), child.lineno, "swallows"
        elif isinstance(child, ast.Call):
            name = child.func.attr if isinstance(child.func, ast.Attribute) else getattr(child.func, "id", "")
            if name == "suppress" and any(map(_is_broad, child.args)):
                yield ".".join(where), child.lineno, "swallows"
            elif isinstance(child.func, ast.Name) and name == "print":
                yield ".".join(where), child.lineno, "prints"
        yield from _offences(child, inner)


def _found(source: Path) -> Iterator[tuple[str, str, int, str]]:
    for file in sorted(source.rglob("*.py")):
        for function, line, kind in _offences(ast.parse(file.read_text())):
            yield file.relative_to(source).as_posix(), function, line, kind


def swallowing_faults(source: Path, allowed: dict[tuple[str, str], str]) -> list[str]:
    """Every handler that may swallow and every print, with its place; those that are allowed are left out."""
    return [
        f"{file}:{line} {function or 'module level'} {kind}"
        for file, function, line, kind in _found(source)
        if kind == "prints" or (file, function) not in allowed
    ]


def test_nothing_is_swallowed_or_printed(source: Path) -> None:
    """Each broad handler of the package raises, or is on the list."""
    faults = swallowing_faults(source, ALLOWED)
    assert not faults, "\n".join([RULE, *faults])


def test_every_allowance_is_used(source: Path) -> None:
    """An entry of the list whose handler is gone is taken off it."""
    used = {(file, function) for file, function, _, kind in _found(source) if kind == "swallows"}
    assert set(ALLOWED) <= used


def _handler(body: str, caught: str = "except Exception:") -> str:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    return f"class C:\n    def f(self):\n        try:\n            x = 1\n        {caught}\n{lines}\n"


@pytest.mark.parametrize(
    "text",
    [
        _handler("pass"),
        _handler("pass", "except:"),
        _handler("pass", "except BaseException as error:"),
        _handler("pass", "except (ValueError, Exception):"),
        _handler("pass", "except builtins.Exception:"),
        _handler("return 0.0"),
        _handler("if x:\n    raise"),
        _handler("if x:\n    return 0.0\nraise"),
        _handler("if x:\n    raise\nelse:\n    x = 0.0"),
        _handler("def inner():\n    raise ValueError"),
        "class C:\n    def f(self):\n        with contextlib.suppress(Exception):\n            x = 1\n",
        "class C:\n    def f(self):\n        with suppress(KeyError, BaseException):\n            x = 1\n",
    ],
)
def test_a_swallowing_handler_is_found(tmp_path: Path, text: str) -> None:
    """Any way to end a broad handler without raising is named with its function, unless the list allows it."""
    (tmp_path / "a.py").write_text(text)
    (fault,) = swallowing_faults(tmp_path, {})
    assert fault.endswith(" C.f swallows")
    assert swallowing_faults(tmp_path, {("a.py", "C.f"): "on purpose"}) == []
    assert len(swallowing_faults(tmp_path, {("a.py", "C.g"): "another function"})) == 1


def test_a_print_is_found(tmp_path: Path) -> None:
    """A print is named with its line, and no list allows it."""
    (tmp_path / "a.py").write_text("def f():\n    return [print(1)]\n")
    assert swallowing_faults(tmp_path, {("a.py", "f"): "on purpose"}) == ["a.py:2 f prints"]


@pytest.mark.parametrize(
    "text",
    [
        _handler("raise"),
        _handler("x = 1\nraise ValueError from None"),
        _handler("if x:\n    raise ValueError\nelse:\n    raise"),
        _handler("with x:\n    raise"),
        _handler("def inner():\n    return 1\nraise"),
        _handler("pass", "except (KeyError, ValueError):"),
        "pprint(1)\nconsole.print(2)\n",
    ],
)
def test_a_handler_that_raises_is_fine(tmp_path: Path, text: str) -> None:
    """Narrow handlers, broad ones that raise on each path, and other things called print pass."""
    (tmp_path / "a.py").write_text(text)
    assert swallowing_faults(tmp_path, {}) == []
