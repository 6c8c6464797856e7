# SPDX-License-Identifier: Apache-2.0
"""Imports point down only, never sideways: every import of every module is read, those inside functions too."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RULE = "imports point down only, never sideways (the floors stand in tests/rules/test_layers.py)"

# Unit to (floor, place on the floor). A unit may import units that stand strictly lower, and itself.
STANDING: dict[str, tuple[int, int]] = {
    "": (0, 0),
    "errors": (1, 0),
    "frozen": (1, 1),
    "schema": (1, 1),
    "rewards.metrics": (2, 0),
    "rewards.contract": (2, 1),
    "rewards.scorers": (2, 2),
    "rewards.catalog": (2, 3),
    "rewards.stage": (2, 4),
    "rewards": (2, 5),
    "judges": (3, 0),
    "media": (3, 0),
    "jsonl": (3, 0),
    "rollouts": (3, 1),
    "data": (3, 1),
    "execution": (4, 0),
    "runs": (5, 0),
    "testing": (5, 1),
    "integrations": (6, 0),
    "service": (6, 0),
    "report": (6, 0),
    "training": (7, 0),
    "cli": (8, 0),
    "__main__": (9, 0),
}

# Units of floor 3 see less of the reward core than their floor would allow.
REWARDS_SEEN_BY: dict[str, frozenset[str]] = {
    "judges": frozenset({"rewards.metrics", "rewards.contract"}),
    "media": frozenset({"rewards.metrics", "rewards.contract"}),
    "rollouts": frozenset(),
}

# What the lowest floors may import from outside the standard library.
OUTSIDE: dict[int, frozenset[str]] = {
    0: frozenset(),
    1: frozenset(),
    2: frozenset({"msgspec", "typing_extensions"}),
}


def _module(file: Path, source: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _unit(module: str) -> str:
    """The unit that a module of the package belongs to, for example ``rewards.metrics``."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2] if parts[:1] == ["rewards"] else parts[:1])


def _imports(tree: ast.AST, package: str, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Line and full name of every module that is imported, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield node.lineno, inner if inner in modules else base
        elif isinstance(node, ast.Call) and node.args:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            target = node.args[0]
            if name in {"import_module", "__import__"} and isinstance(target, ast.Constant):
                yield node.lineno, str(target.value)


def _outside_fault(importer: str, root: str) -> str | None:
    floor = STANDING[importer][0]
    allowed = OUTSIDE.get(floor)
    if allowed is None or root in allowed or root in sys.stdlib_module_names:
        return None
    return f"floor {floor} may use the standard library and {', '.join(sorted(allowed)) or 'no more'}"


def _fault(importer: str, target: str) -> str | None:
    root = target.partition(".")[0]
    if root != "posttrain":
        return _outside_fault(importer, root)
    unit = _unit(target)
    if unit not in STANDING:
        return f"{unit!r} stands on no floor"
    seen = REWARDS_SEEN_BY.get(importer)
    if seen is not None and unit.startswith("rewards") and unit not in seen:
        return f"{importer} may import {' and '.join(sorted(seen)) or 'nothing'} of rewards"
    if unit == importer or STANDING[unit] < STANDING[importer]:
        return None
    return f"{importer or 'posttrain'} stands at {STANDING[importer]}, {unit or 'posttrain'} at {STANDING[unit]}"


def layer_faults(source: Path) -> list[str]:
    """Every import that breaks the rule, with its file and line."""
    files = {_module(file, source): file for file in sorted(source.glob("posttrain/**/*.py"))}
    faults = []
    for module, file in files.items():
        unit = _unit(module)
        if unit not in STANDING:
            faults.append(f"{file.relative_to(source)}: {unit!r} stands on no floor")
            continue
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        for line, target in _imports(ast.parse(file.read_text()), package, set(files)):
            if (fault := _fault(unit, target)) is not None:
                faults.append(f"{file.relative_to(source)}:{line} imports {target}: {fault}")
    return faults


def test_imports_point_down_only(source: Path) -> None:
    """No module of the package imports a unit above it or beside it."""
    faults = layer_faults(source)
    assert not faults, "\n".join([RULE, *faults])


def _tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "posttrain" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("errors.py", "import posttrain.schema"),
        ("schema.py", "from posttrain.frozen import freeze"),
        ("schema.py", "import msgspec"),
        ("rewards/metrics/a.py", "from posttrain.rewards.contract.b import c"),
        ("rewards/metrics/a.py", "from posttrain.rewards import contract"),
        ("rewards/metrics/a.py", "from ..contract import b"),
        ("rewards/metrics/a.py", "from posttrain import rewards"),
        ("rewards/metrics/a.py", "import numpy"),
        ("rewards/scorers/a.py", "def late():\n    from posttrain.rewards.catalog import load\n"),
        ("rewards/stage/a.py", "from posttrain.rewards import RewardWorker"),
        ("rewards/stage/a.py", "import torch.distributed"),
        ("rewards/stage/a.py", "import posttrain.rollouts.records"),
        ("rewards/stage/a.py", "import importlib\nimportlib.import_module('posttrain.cli')"),
        ("rewards/stage/a.py", "from importlib import import_module\nimport_module('posttrain.cli')"),
        ("rewards/stage/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import posttrain.runs\n"),
        ("judges/a.py", "import posttrain.media.client"),
        ("judges/a.py", "from posttrain.rewards import RewardGroupRequest"),
        ("media/a.py", "from posttrain.rewards.stage import worker"),
        ("rollouts/a.py", "from posttrain.rewards.contract import request"),
        ("rollouts/a.py", "from posttrain.data import rows"),
        ("data/a.py", "from posttrain.rollouts import rows"),
        ("execution/a.py", "import posttrain.runs"),
        ("runs/a.py", "import posttrain.testing"),
        ("testing/a.py", "import posttrain.service"),
        ("service/a.py", "import posttrain.report"),
        ("training/a.py", "import posttrain.cli"),
        ("__init__.py", "from posttrain.errors import RewardError"),
        ("utilities/a.py", ""),
        ("cli/a.py", "import posttrain.utilities"),
    ],
)
def test_an_import_up_or_sideways_is_found(tmp_path: Path, name: str, text: str) -> None:
    """The check fails for each kind of forbidden import, and names the file."""
    packages = {"rewards/__init__.py": "", "rewards/contract/__init__.py": "", "cli/__init__.py": ""}
    faults = layer_faults(_tree(tmp_path, {**packages, name: text}))
    assert len(faults) == 1
    assert faults[0].startswith(f"posttrain/{name}:")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("frozen.py", "import json\nfrom posttrain.errors import RewardError"),
        ("rewards/contract/a.py", "import msgspec\nfrom posttrain.rewards.metrics import exact\nfrom . import b"),
        ("rewards/__init__.py", "from posttrain.rewards.stage.worker import RewardWorker"),
        ("judges/a.py", "import aiohttp\nfrom posttrain.rewards.contract.request import RewardCandidate"),
        ("data/a.py", "from posttrain.rewards import RewardWorker"),
        ("testing/a.py", "import posttrain.runs, posttrain.media"),
        ("cli/a.py", "from posttrain import __version__\nimport posttrain.training.grpo"),
    ],
)
def test_an_import_down_is_fine(tmp_path: Path, name: str, text: str) -> None:
    """Lower units, the unit itself and what a floor may use from outside pass."""
    assert layer_faults(_tree(tmp_path, {name: text})) == []
