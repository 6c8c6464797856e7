# SPDX-License-Identifier: Apache-2.0
"""Every test says in a sentence what it shows, and no `pytest.raises` takes just any message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

RULE = "a test has a docstring that states the behaviour, and pytest.raises has a match that is not empty"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _habits(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            if not (ast.get_docstring(node) or "").strip():
                yield node.lineno, f"{node.name} has no docstring"
        elif isinstance(node, ast.Call) and _name(node.func) == "raises":
            matches = [keyword.value for keyword in node.keywords if keyword.arg == "match"]
            if not matches or (isinstance(matches[0], ast.Constant) and not matches[0].value):
                yield node.lineno, "raises without a match"


def habit_faults(tests: Path) -> list[str]:
    """Every test and every `raises` that breaks the rule, with its place."""
    return [
        f"{file.relative_to(tests)}:{line} {fault}"
        for file in sorted(tests.rglob("*.py"))
        for line, fault in _habits(ast.parse(file.read_text()))
    ]


def test_tests_say_what_they_show(repository: Path) -> None:
    """The whole suite keeps to the rule."""
    faults = habit_faults(repository / "tests")
    assert not faults, "\n".join([RULE, *faults])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("def test_a():\n    pass\n", "test_x.py:1 test_a has no docstring"),
        ("async def test_a():\n    pass\n", "test_x.py:1 test_a has no docstring"),
        ("class TestA:\n    def test_a(self):\n        '''  '''\n", "test_x.py:2 test_a has no docstring"),
        ("with pytest.raises(ValueError):\n    pass\n", "test_x.py:1 raises without a match"),
        ("with raises(ValueError, match=''):\n    pass\n", "test_x.py:1 raises without a match"),
        ("pytest.raises(ValueError, int, 'x')\n", "test_x.py:1 raises without a match"),
    ],
)
def test_a_bad_habit_is_found(tmp_path: Path, text: str, fault: str) -> None:
    """The check can fail, and names the place."""
    (tmp_path / "test_x.py").write_text(text)
    assert habit_faults(tmp_path) == [fault]


def test_good_habits_pass(tmp_path: Path) -> None:
    """Helpers need no docstring, and any match counts, one that is computed too."""
    text = (
        "def helper():\n    with pytest.raises(ValueError, match='a'), raises(KeyError, match=f'{x}'):\n        pass\n"
    )
    (tmp_path / "test_x.py").write_text(f"{text}def test_a():\n    'It holds.'\n")
    assert habit_faults(tmp_path) == []
