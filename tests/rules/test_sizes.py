# SPDX-License-Identifier: Apache-2.0
"""Small files and small functions: what outgrows them is two ideas."""

from __future__ import annotations

import ast
from pathlib import Path

LINES_OF_A_FILE = 400
LINES_OF_A_FUNCTION = 50
RULE = f"a file has at most {LINES_OF_A_FILE} lines, a function at most {LINES_OF_A_FUNCTION}: split it by idea"


def size_faults(source: Path) -> list[str]:
    """Every file and function that is too long, with its length."""
    faults = []
    for file in sorted(source.rglob("*.py")):
        text, name = file.read_text(), file.relative_to(source)
        lines = len(text.splitlines())
        if lines > LINES_OF_A_FILE:
            faults.append(f"{name}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > LINES_OF_A_FUNCTION:
                    faults.append(f"{name}:{node.lineno} {node.name}: {lines} lines")
    return faults


def test_files_and_functions_stay_small(source: Path) -> None:
    """Nothing in the package is longer than the caps."""
    faults = size_faults(source)
    assert not faults, "\n".join([RULE, *faults])


def test_what_is_too_long_is_found(tmp_path: Path) -> None:
    """The check names the file and the functions that are one line too long, and no others."""
    (tmp_path / "long.py").write_text("x = 1\n" * 401)
    (tmp_path / "short.py").write_text("x = 1\n" * 400)
    body, inner = "    x = 1\n", "        x = 1\n"
    # Lines 1 to 50, 52 to 102 and, in the class that opens at 104, 105 to 155.
    (tmp_path / "functions.py").write_text(
        f"def fits():\n{body * 49}\ndef outgrown():\n{body * 50}\nclass C:\n    async def method(self):\n{inner * 50}"
    )
    assert size_faults(tmp_path) == [
        "functions.py:52 outgrown: 51 lines",
        "functions.py:105 method: 51 lines",
        "long.py: 401 lines",
    ]
