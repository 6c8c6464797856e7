# SPDX-License-Identifier: Apache-2.0
"""`posttrain init-provider`: a small provider package that works, with its test and some rollouts to try it on."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Final

import typer

from posttrain.errors import RewardConfigError

__all__ = ["InitProviderOptions", "init_provider"]

_TAKEN: Final = sys.stdlib_module_names | {"posttrain"}
_FILES: Final = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "rollouts.jsonl": "rollouts.jsonl.txt",
    "src/{package}/__init__.py": "rewards.py.txt",
    "src/{package}/py.typed": None,
    "tests/test_rewards.py": "test_rewards.py.txt",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProviderOptions:
    """What the user asked for."""

    directory: Annotated[Path, typer.Argument(help="Folder to make; its name becomes the package's.")]


def init_provider(options: InitProviderOptions) -> None:
    """Write a small working provider package with its test.

    Example: posttrain init-provider my_rewards
    """
    directory = options.directory
    package = _package_name(directory)
    _check_free(directory)
    _write(directory, package)
    typer.echo(
        f"wrote {directory}. Try it:\n"
        f"  cd {shlex.quote(str(directory))} && pip install -e . && pytest\n"
        f"  posttrain score rollouts.jsonl --catalog {package}:catalog --reward mentions --group-size 2"
    )


def _package_name(directory: Path) -> str:
    name = directory.resolve().name
    package = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not package.isidentifier() or keyword.iskeyword(package):
        raise RewardConfigError(f"{name!r} gives no package name: begin it with a letter, for example my_rewards")
    if package in _TAKEN:
        raise RewardConfigError(f"{name!r} would hide the module {package!r}: choose another name")
    return package


def _check_free(directory: Path) -> None:
    try:
        if directory.resolve() == Path.cwd():
            raise RewardConfigError(f"{directory} is the folder that you stand in: name one to be made")
        if directory.is_symlink() or (directory.exists() and (not directory.is_dir() or any(directory.iterdir()))):
            raise RewardConfigError(f"{directory} exists and is not an empty folder: choose another name")
    except OSError as error:
        raise RewardConfigError(f"{directory} can't be looked into: {error.strerror or error}") from error


def _write(directory: Path, package: str) -> None:
    """Write everything aside, then move it into place whole."""
    templates = files("posttrain.cli") / "template"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
            root = Path(scratch) / directory.name
            for name, template in _FILES.items():
                file = root / name.format(package=package)
                file.parent.mkdir(parents=True, exist_ok=True)
                text = "" if template is None else (templates / template).read_text(encoding="utf-8")
                text = text.replace("{{package}}", package).replace("{{name}}", package.replace("_", "-"))
                file.write_text(text, encoding="utf-8")
            if directory.is_dir():
                directory.rmdir()
            shutil.move(root, directory)
    except OSError as error:
        raise RewardConfigError(f"{directory} can't be written: {error.strerror or error}") from error
