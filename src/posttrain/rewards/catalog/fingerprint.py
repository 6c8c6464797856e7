# SPDX-License-Identifier: Apache-2.0
"""A fingerprint of a provider's source, to notice code that changed while its declared revision did not.

What counts, and how far imports are followed, is told in docs/design/012-run-directory.md. Nothing is imported or run
to find out: source text is read, parsed and hashed, so absolute paths, compiled files and hash seeds play no part.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source, resolve_name
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, final

import msgspec

from posttrain.rewards.catalog.identity import identity_sha256
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["SourceFingerprint", "changed_without_revision", "fingerprint_provider"]

_OWN: Final = __name__.partition(".")[0]
_VERSIONED: Final = frozenset({*sys.stdlib_module_names, _OWN})
"""Top-level packages whose versions say what their source is: the standard library and Posttrain itself."""
_LIBRARY_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})
_SHOWN: Final = 12


@final
class SourceFingerprint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run records of the source of one provider."""

    provider: str
    revision: str
    """Declared revision."""
    sha256: str | None
    """SHA-256 over `modules`; None: there is none, for the reason in `missing`."""
    modules: dict[str, str] = {}
    """Module to the SHA-256 of its text; a module that was loaded from a path goes by the name of its file."""
    missing: str | None = None
    """Why there is no fingerprint."""


def fingerprint_provider(name: str, spec: RewardProviderSpec) -> SourceFingerprint:
    """The fingerprint of the source that the spec's factory is made of.

    These are the modules of every function and class in the chain that makes the provider (`functools.partial`,
    `map_candidates`, bound methods, closures, decorators, the entries of a `route`), whole, and those that they import
    from the same top-level package or the same folder. Libraries, the standard library and Posttrain's own modules
    have versions of their own and are left out.

    Args:
        name: the provider's name in its catalog.
        spec: its spec. The factory is looked at, never called.
    """
    sources = _Sources()
    without = sources.add_all(_definers(spec.factory))
    modules = sources.digests()
    missing = None
    if without:
        missing = f"no source text is to be had of {', '.join(map(repr, sorted(without)))}"
    elif not modules:
        missing = "it is made of Posttrain's own code and libraries alone, whose versions say what they are"
    return SourceFingerprint(
        provider=name,
        revision=spec.revision,
        sha256=None if missing else identity_sha256(modules),
        modules={} if missing else modules,
        missing=missing,
    )


def changed_without_revision(recorded: SourceFingerprint, now: SourceFingerprint) -> str | None:
    """One line of warning when the source of a provider changed while its revision did not; None otherwise.

    None too where nothing can be said: one of the two has no fingerprint, or they are of two providers.
    """
    if (recorded.provider, recorded.revision) != (now.provider, now.revision):
        return None
    if recorded.sha256 is None or now.sha256 is None or recorded.sha256 == now.sha256:
        return None
    names = sorted({*recorded.modules, *now.modules})
    changed = [name for name in names if recorded.modules.get(name) != now.modules.get(name)]
    return (
        f"the source of provider {now.provider!r} changed, but its revision is still {now.revision!r}: recorded "
        f"{recorded.sha256[:_SHOWN]}, now {now.sha256[:_SHOWN]} ({', '.join(changed)}); give it a new revision if it "
        "may score differently"
    )


class _Definer(NamedTuple):
    """A module that defines a part of the chain."""

    module: str
    is_code: bool
    """Whether it defines what runs, rather than the type of a value that is handed along."""


_Part: TypeAlias = tuple[Any, bool]
"""A value, and whether it stands where the chain calls it."""


def _definers(factory: Callable[..., Any]) -> list[_Definer]:
    """The modules of everything in the chain, standard library and Posttrain left out."""
    found: dict[_Definer, None] = {}
    seen: dict[int, Any] = {}
    waiting: list[_Part] = [(factory, True)]
    while waiting:
        value, is_called = waiting.pop()
        if id(value) in seen:
            continue
        # Kept, so that no other value can get its id.
        seen[id(value)] = value
        module = _module_of(value)
        if module is not None and _top(module) not in _VERSIONED:
            is_code = issubclass(type(value), (type, types.FunctionType)) or (is_called and callable(value))
            found[_Definer(module, is_code)] = None
        waiting.extend(_parts(value))
    return list(found)


def _module_of(value: Any) -> str | None:
    """Name of the module that defines a function, a class, or the class of an instance; None: of no interest."""
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        return str(value.__name__)
    module = _own(value, "__module__") if callable(value) else kind.__module__
    return module if isinstance(module, str) else None


def _own(value: Any, name: str) -> Any:
    """An attribute that a value really has, without running what its author wrote to make one up; None: it has none."""
    try:
        look_up = type.__getattribute__ if issubclass(type(value), type) else object.__getattribute__
        return look_up(value, name)
    except AttributeError:
        return None


def _parts(value: Any) -> Iterator[_Part]:
    """What a part of the chain is itself made of."""
    # Not isinstance, which a proxy answers with code of its own.
    kind = type(value)
    if issubclass(kind, functools.partial):
        yield value.func, True
        # What is bound to one of Posttrain's own functions is what that one will call: a scorer, for example.
        is_called = _top(_module_of(value.func) or "") == _OWN
        yield from ((each, is_called) for each in (*value.args, *value.keywords.values()))
    elif issubclass(kind, types.MethodType):
        yield from ((each, True) for each in (value.__func__, value.__self__))
    elif issubclass(kind, types.FunctionType):
        yield from ((each, False) for each in _parts_of_function(value))
    elif issubclass(kind, RewardProviderSpec):
        yield value.factory, True
    elif issubclass(kind, (dict, types.MappingProxyType)):
        yield from ((each, False) for each in value.values())
    elif issubclass(kind, (list, tuple)):
        yield from ((each, False) for each in value)
    elif not issubclass(kind, (type, types.ModuleType)):
        yield from _parts_of_instance(value)


def _parts_of_function(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # the enclosing function has not bound it yet
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if "__wrapped__" in vars(function):
        yield vars(function)["__wrapped__"]


def _parts_of_instance(value: Any) -> Iterator[_Part]:
    kind, state = type(value), _own(value, "__dict__") or {}
    if issubclass(type(wrapped := state.get("__wrapped__")), types.FunctionType):
        yield wrapped, True  # a cache or another callable around a function
    is_own = _top(kind.__module__) == _OWN
    module = sys.modules.get(kind.__module__)
    # What a library keeps in its objects may be large, and is no code of the author's.
    if not is_own and (_top(kind.__module__) in _VERSIONED or module is None or _is_library(module)):
        return
    yield from ((each, is_own) for each in state.values())
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            yield _own(value, slot), is_own


class _Text(NamedTuple):
    """The source of one module."""

    name: str
    """Dotted name; where it was loaded from a path, the file's name."""
    text: str
    package: str
    """What its relative imports are relative to; empty: it can't have any."""
    folder: str
    """Where its top-level package lies."""
    is_library: bool


@final
class _Sources:
    """The modules whose source counts, found by following imports."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._found: dict[tuple[str, str], _Text | None] = {}

    def add_all(self, definers: list[_Definer]) -> set[str]:
        """Add the definers and what they import; gives the names of those without source text."""
        tops = {_top(each.module) for each in definers if each.is_code}
        without: set[str] = set()
        waiting: list[_Text] = []
        for each in definers:
            module = sys.modules.get(each.module)
            # The type of a mere value counts where it is the author's own; an array's class is a library's.
            if not each.is_code and module is not None and _is_library(module) and _top(each.module) not in tops:
                continue
            text = None if module is None else _loaded(module)
            if text is None:
                without.add(each.module)
            else:
                waiting.append(text)
        done: set[tuple[str, str]] = set()
        while waiting:
            text = waiting.pop()
            if (text.name, text.text) not in done:
                done.add((text.name, text.text))
                self._texts.setdefault(text.name, []).append(text.text)
                waiting.extend(self._imported(text))
        return without

    def digests(self) -> dict[str, str]:
        """Module to SHA-256 of its text."""
        return {name: _digest(texts) for name, texts in sorted(self._texts.items())}

    def _imported(self, text: _Text) -> Iterator[_Text]:
        for name, member in _imports(text):
            inner = None if member is None else self._find(f"{name}.{member}", text)
            if (found := inner or self._find(name, text)) is not None:
                yield found

    def _find(self, name: str, importer: _Text) -> _Text | None:
        """The source of an imported module, if it is one that counts."""
        top = _top(name)
        # Of a library, the author's own installed package, only that very package counts.
        if top in _VERSIONED or (importer.is_library and top != _top(importer.name)):
            return None
        key = (name, importer.folder)
        if key not in self._found:
            found = _located(name, importer)
            self._found[key] = None if found is None or (found.is_library and not importer.is_library) else found
        return self._found[key]


def _top(module: str) -> str:
    return module.partition(".")[0]


def _digest(texts: list[str]) -> str:
    # Two files of one name are hashed together, in an order of their own.
    digests = sorted(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for text in texts)
    return digests[0] if len(digests) == 1 else identity_sha256(tuple(digests))


def _loaded(module: types.ModuleType) -> _Text | None:
    """The source of a module that is loaded; None: there is none."""
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    text = _text_in(file) if file.endswith(".py") and Path(file).is_file() else _text_by(spec)
    if text is None:
        return None
    if spec is None:
        folder = Path(file).parent
        return _Text(Path(file).name, text, "", str(folder), is_library=_is_library_folder(folder))
    package = spec.name if spec.submodule_search_locations is not None else spec.name.rpartition(".")[0]
    folder = _folder(spec.name, file)
    return _Text(spec.name, text, package, str(folder), is_library=_is_library_folder(folder))


def _located(name: str, importer: _Text) -> _Text | None:
    """Look a module up where its importer lies, without running anything; None: it is not there, or has no source."""
    steps = name.split(".")
    top = sys.modules.get(steps[0])
    # A loaded package knows its folders best: an editable install may have mapped it anywhere.
    is_own = top is not None and hasattr(top, "__path__") and steps[0] == _top(importer.name)
    path: list[str] | None = [importer.folder]
    spec = None
    for depth in range(1, len(steps) + 1):
        if depth == 1 and is_own and len(steps) > 1:
            path = list(top.__path__)  # type: ignore[union-attr]  # it has one, says `is_own`
            continue
        # By its last name alone: a folder without __init__ would ask for its parent, which may not be loaded.
        spec = PathFinder.find_spec(steps[depth - 1], path) if path is not None else None
        if spec is None:
            return None
        path = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    text = _text_by(spec)
    if text is None or spec is None or spec.origin is None:
        return None
    package = name if path is not None else name.rpartition(".")[0]
    folder = _folder(name, spec.origin)
    return _Text(name, text, package, str(folder), is_library=_is_library_folder(folder))


def _text_in(file: str) -> str | None:
    try:
        return decode_source(Path(file).read_bytes())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None  # it was taken away, or is no text any more


def _text_by(spec: ModuleSpec | None) -> str | None:
    """What a module's loader says, which knows the inside of a zip file too; None for compiled code."""
    get_source = getattr(spec.loader, "get_source", None) if spec is not None else None
    if spec is None or get_source is None:
        return None
    try:
        text: str | None = get_source(spec.name)
    except (ImportError, OSError):
        return None
    return text


def _folder(name: str, file: str) -> Path:
    """The folder in which the top-level package of a module lies."""
    above = Path(file).parents
    return above[min(len(name.split(".")) - (Path(file).stem != "__init__"), len(above) - 1)]


def _is_library(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and _is_library_folder(_folder(module.__name__, file))


@functools.lru_cache(maxsize=256)
def _is_library_folder(folder: Path) -> bool:
    """Whether packages were installed into a folder, as opposed to being written in it."""
    return not _LIBRARY_FOLDERS.isdisjoint(folder.parts) or any(folder.glob("*.dist-info"))


def _imports(text: _Text) -> Iterator[tuple[str, str | None]]:
    """Every import of a module, wherever it stands: a module, and what is taken from it, which may be a module too."""
    try:
        tree = ast.parse(text.text)
    except (SyntaxError, ValueError, RecursionError):
        return  # it was edited since it was loaded; its text counts all the same
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                steps = alias.name.split(".")
                # Without `as`, the packages on the way are bound too.
                first = len(steps) if alias.asname else 1
                yield from ((".".join(steps[:depth]), None) for depth in range(first, len(steps) + 1))
        elif isinstance(node, ast.ImportFrom):
            try:
                base = resolve_name("." * node.level + (node.module or ""), text.package)
            except ImportError:
                continue  # it points above its package and would fail
            yield from ((base, alias.name) for alias in node.names)
