# SPDX-License-Identifier: Apache-2.0
"""Read a config: a file, overrides over it, and one error for all that is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, final

from pydantic import ValidationError

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.runs.config.keys import LEAVES, OPEN, Key, dotted, split_key
from posttrain.runs.config.kinds import Expected
from posttrain.runs.config.merge import Merge
from posttrain.runs.config.model import RLConfig, names_file
from posttrain.runs.config.node import Node, printable
from posttrain.runs.config.overrides import read_override
from posttrain.runs.config.toml_text import read_toml
from posttrain.runs.config.write import to_toml
from posttrain.runs.config.yaml_text import read_yaml

__all__ = ["ResolvedConfig", "load_config", "resolve_config"]

_CATALOG: Final = ("rl", "reward_catalog")
_FOLDER: Final = ("rl", "reward_catalog_folder")


@final
@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A config and where each of its values came from."""

    config: RLConfig
    origins: Mapping[str, str]
    """Dotted key to ``run.toml:3``, ``override rl.group_size=8`` or a flag; a key that is not there has its default."""

    def to_toml(self) -> str:
        """The config as TOML, each value with its origin in a comment."""
        return to_toml(self.config, self.origins)


def load_config(path: Path | str | None = None, overrides: Sequence[str] = ()) -> RLConfig:
    """The config of a run.

    Args:
        path: a file with the suffix ``.toml``, ``.yaml`` or ``.yml``, with ``rl`` as its one root key; None: no file.
        overrides: ``rl.key=value`` each, laid over the file from left to right. See docs/config.md for how a value is
            read.

    Raises:
        RewardConfigError: naming every fault, each with its key, its place, what was expected and what came.
    """
    return resolve_config(path, overrides).config


def resolve_config(
    path: Path | str | None = None, overrides: Sequence[str] = (), flags: Mapping[str, Node] | None = None
) -> ResolvedConfig:
    """The config of a run with the origins of its values.

    Args:
        path: see `load_config`.
        overrides: see `load_config`.
        flags: dotted key to a value that a flag of a command gave: over everything else.

    Raises:
        RewardConfigError: see `load_config`.
    """
    merge, faults = Merge(), list[str]()
    if path is not None:
        tree = _read(Path(path), faults)
        if tree is not None:
            merge.put((), tree)
    unreadable = bool(faults)
    merge.source = 1
    for text in overrides:
        try:
            key, node = read_override(text)
        except ValueError as error:
            faults.append(str(error))
        else:
            merge.put(split_key(key), node)
    merge.source = 2
    for key, node in (flags or {}).items():
        merge.put(split_key(key), node)
    faults += merge.faults
    _place_catalog(merge)
    try:
        config = RLConfig.model_validate(merge.tree())
    except ValidationError as error:
        # Of a file that can't be read, nobody knows which keys it leaves out.
        faults += [text for kind, text in _told(error, merge) if not (unreadable and kind == "missing")]
        _refuse(faults, path)
    if faults:
        _refuse(faults, path)
    origins = {dotted(key): node.where for key, node in merge.values.items()}
    if config.data.source is not None:
        origins.setdefault("rl.data.source", "default for this path")
    return ResolvedConfig(config, origins)


def _refuse(faults: list[str], path: Path | str | None) -> NoReturn:
    name = "the config" if path is None else f"the config {path}"
    raise RewardConfigError(f"{name} is not valid:\n{listing(faults, limit=len(faults))}") from None


def _read(path: Path, faults: list[str]) -> Node | None:
    readers = {".toml": read_toml, ".yaml": read_yaml, ".yml": read_yaml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        faults.append(f"{path}: expected a file that ends in {', '.join(readers)}")
        return None
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        faults.append(f"{path}: can't be read: {error.strerror or error}")
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        faults.append(f"{path}:{line}: no UTF-8: the byte {error.object[error.start]:#04x}; save the file as UTF-8")
        return None
    return reader(text, str(path), path.resolve().parent, faults)


def _place_catalog(merge: Merge) -> None:
    """Fix the folder that a catalog file is relative to: the config then means the same wherever it is read again."""
    catalog, folder = merge.values.get(_CATALOG), merge.values.get(_FOLDER)
    if folder is not None and merge.sources[_FOLDER] < merge.sources.get(_CATALOG, 0):
        # That folder was meant for another catalog.
        folder = None
        del merge.values[_FOLDER]
    if folder is not None:
        if isinstance(folder.value, str) and folder.value and not folder.value.startswith("~"):
            merge.values[_FOLDER] = Node(str(folder.folder / folder.value), folder.where, folder.folder)
    elif catalog is not None and isinstance(catalog.value, str) and names_file(catalog.value):
        merge.values[_FOLDER] = Node(str(catalog.folder), f"from {catalog.where}", catalog.folder)


def _told(error: ValidationError, merge: Merge) -> list[tuple[str, str]]:
    """Kind and words of each fault, in the order of the keys' declaration."""
    told = []
    for each in error.errors(include_url=False):
        key, inner = _located(each["loc"])
        expected = LEAVES[key if key in LEAVES else key[:-1]]
        name = printable(dotted(key) + "".join(f"[{step}]" for step in inner if isinstance(step, int)))
        if each["type"] == "missing":
            example = f", for example {dotted(key)}={expected.example}"
            told.append(("missing", f"{name}: missing; expected {expected.words}{example}"))
            continue
        node = merge.values.get(key)
        where = "default" if node is None else node.deepest(inner).where
        told.append((each["type"], f"{name} ({where}): {_words(expected, each)}"))
    return told


def _located(steps: tuple[str | int, ...]) -> tuple[Key, list[str | int]]:
    """The key of a fault, and the steps from there into its value."""
    path: list[str | int] = ["rl", *steps]
    length = next(end for end in range(len(path), 0, -1) if tuple(path[:end]) in LEAVES)
    key = tuple(map(str, path[:length]))
    if key in OPEN and len(path) > length:
        key, length = (*key, str(path[length])), length + 1
    return key, path[length:]


def _words(expected: Expected, fault: Any) -> str:
    if fault["type"] == "value_error":
        return str(fault["ctx"]["error"])
    return f"expected {expected.words}, got {describe(fault['input'])}{expected.mend(fault['input'])}"
