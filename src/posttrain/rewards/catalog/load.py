# SPDX-License-Identifier: Apache-2.0
"""Find a catalog factory by its path and call it: on the driver, in a worker process and in an actor alike."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from posttrain.errors import RewardConfigError, describe, text_of
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.scorers import BUILT_IN

__all__ = ["load_catalog"]

_FORMS: Final = "package.module:factory, package.module.factory or file.py:factory"


def load_catalog(path: str | None = None, *, base: Path | None = None) -> RewardCatalog:
    """The built-ins and, when `path` is given, what the factory of that path adds.

    Args:
        path: ``package.module:factory``, ``package.module.factory`` or ``file.py:factory``; the factory is a function
            without arguments that returns a mapping from name to `RewardProviderSpec`.
        base: folder that a file's path is relative to, for example the config's; None: the working directory.

    Returns:
        The catalog. Its `path` is the normalised ``module:attr``, or the file's path relative to `base` with the
        SHA-256 of its content, so that a record tells which file it was.

    Raises:
        RewardConfigError: the path has no such form, the import or the call failed, the factory takes arguments, or
            what it returned is no valid catalog.
    """
    if path is None:
        return RewardCatalog()
    if not isinstance(path, str) or not path.strip():
        raise RewardConfigError(f"a catalog path is a string such as {_FORMS}, got {describe(path)}")
    where, attribute = _split(path)
    if where.endswith(".py"):
        module, recorded = _load_file(where, base or Path.cwd())
        recorded = f"{recorded}:{attribute}"
    else:
        module, recorded = _import_module(where), f"{where}:{attribute}"
    try:
        factory: Any = module
        for step in attribute.split("."):
            factory = getattr(factory, step)
    except AttributeError:
        known = ", ".join(sorted(name for name, it in vars(module).items() if callable(it) and name[0] != "_"))
        raise RewardConfigError(f"{where} has no {attribute!r}; its public functions: {known or 'none'}") from None
    return RewardCatalog(_entries(factory, path), path=recorded)


def _split(path: str) -> tuple[str, str]:
    where, colon, attribute = path.rpartition(":")
    if not colon:
        where, _, attribute = path.rpartition(".")
    dotted = attribute.split(".")
    if not where or not all(part.isidentifier() for part in dotted) or path.endswith(".py"):
        raise RewardConfigError(f"catalog path {path!r}: expected {_FORMS}")
    if not where.endswith(".py") and not all(part.isidentifier() for part in where.split(".")):
        raise RewardConfigError(f"catalog path {path!r}: {where!r} is no module name; expected {_FORMS}")
    return where, attribute


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise RewardConfigError(
                f"catalog module {name!r} can't be found: install its package, or put its folder on PYTHONPATH, "
                "here and on every worker"
            ) from error
        raise RewardConfigError(f"catalog module {name!r} failed at import: {_text(error)}") from error


def _load_file(where: str, base: Path) -> tuple[ModuleType, str]:
    """The module of a file, under a name of its own, so that two files of one name never shadow each other."""
    file = (base / where).resolve()
    try:
        source = file.read_bytes()
    except OSError as error:
        raise RewardConfigError(f"catalog file {where!r} can't be read: {error.strerror or error}") from error
    digest = hashlib.sha256(source).hexdigest()
    # Relative also where the file lies elsewhere: an identity holds no path of a machine.
    shown = Path(os.path.relpath(file, base.resolve()))
    recorded = f"{shown.as_posix()}@sha256:{digest}"
    name = f"posttrain_catalog_{hashlib.sha256(str(file).encode() + source).hexdigest()[:24]}"
    if name in sys.modules:
        return sys.modules[name], recorded
    module = ModuleType(name)
    module.__file__ = str(file)
    sys.modules[name] = module
    try:
        # The file's own future imports count, not those of this module.
        code = compile(source, str(file), "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102  # the operator's own catalog file
    except BaseException as error:
        del sys.modules[name]
        if not isinstance(error, (Exception, SystemExit)):
            raise
        raise RewardConfigError(f"catalog file {where!r} failed at import: {_text(error)}") from error
    return module, recorded


def _entries(factory: Callable[[], Any], path: str) -> Any:
    if not callable(factory):
        raise RewardConfigError(f"catalog {path!r}: expected a function without arguments, got {describe(factory)}")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise RewardConfigError(f"catalog factory {path!r} has to be callable without arguments: {error}") from error
    except ValueError:
        pass  # no signature to look at: the call itself will tell
    try:
        entries = factory()
    except (Exception, SystemExit) as error:
        raise RewardConfigError(f"catalog factory {path!r} raised {_text(error)}") from error
    if isinstance(entries, RewardCatalog):
        return {name: spec for name, spec in entries.items() if name not in BUILT_IN}
    if inspect.iscoroutine(entries):
        entries.close()
        raise RewardConfigError(f"catalog factory {path!r} is async: write it as a plain function")
    if not isinstance(entries, Mapping):
        raise RewardConfigError(
            f"catalog factory {path!r} has to return a mapping from provider name to RewardProviderSpec, "
            f"got {describe(entries)}"
        )
    return entries


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {text_of(error)}"
