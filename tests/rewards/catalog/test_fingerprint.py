# SPDX-License-Identifier: Apache-2.0
"""Which modules the fingerprint of a provider covers, and that nothing but their text changes it."""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from posttrain.rewards import RewardCatalog, RewardProviderSpec, load_catalog
from posttrain.rewards.catalog.fingerprint import SourceFingerprint, changed_without_revision, fingerprint_provider

Write = Callable[..., Path]

HEAD = """
import functools
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates, route


def spec(factory):
    return RewardProviderSpec(factory=factory, revision="1", terms=("task",))

"""


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _fingerprint(path: str, name: str = "mine", **base: Path) -> SourceFingerprint:
    return fingerprint_provider(name, load_catalog(path, **base).spec(name))


@pytest.fixture
def package(write: Write, importable: Path) -> Callable[..., Path]:
    """`package("name", module="text")` writes a package that can be imported; `__init__` is empty unless given."""

    def make(name: str, **modules: str) -> Path:
        for module, text in {"__init__": "", **modules}.items():
            write(f"{name}/{module.replace('__in__', '/')}.py", text)
        return importable / name

    return make


SCORE = "def score(candidate, context):\n    return None\n"


@pytest.mark.parametrize(
    ("case", "factory"),
    [
        ("partial", "partial(map_candidates, scorers.score)"),
        ("nested_partial", "partial(partial(map_candidates), scorers.score)"),
        ("keyword", "partial(map_candidates, scorer=scorers.score)"),
        ("partial_of_scorer", "partial(map_candidates, partial(scorers.with_setting, 3))"),
        ("class_", "scorers.Judge"),
        ("bound_method", "scorers.Judge().make"),
        ("class_method", "scorers.Judge.built"),
        ("callable_instance", "partial(map_candidates, scorers.Judge())"),
        ("instance_as_factory", "scorers.Judge()"),
        ("closure", "scorers.closing_over(3)"),
        ("lambda_with_default", "(lambda make=scorers.Judge: make())"),
        ("lambda_with_keyword", "(lambda *, make=scorers.Judge: make())"),
        ("cached", "functools.cache(scorers.plain)"),
        ("decorated", "scorers.decorated"),
        ("lifted", "(lambda provider: lambda: provider)(map_candidates(scorers.score))"),
        ("value", "partial(dict, setting=scorers.Judge())"),
        ("listed", "partial(dict, setting=[{'a': (scorers.score,)}])"),
        ("slots", "partial(dict, setting=scorers.Slotted(scorers.score))"),
        ("routed", "route(str, {'one': spec(partial(map_candidates, scorers.score))}).factory"),
    ],
)
def test_each_link_of_a_chain_is_followed(package: Callable[..., Path], case: str, factory: str) -> None:
    """Whatever way a factory is put together from another module, that module counts, whole and by its own name."""
    name = f"chain_{case}"
    scorers = (
        SCORE
        + """
import functools
def with_setting(setting, candidate, context): return None
def plain(): return None
def closing_over(value):
    def make(): return value
    return make
def decorated_by(function):
    @functools.wraps(function)
    def around(): return function()
    return around
@decorated_by
def decorated(): return None
class Judge:
    def __call__(self, *of): return None
    def make(self): return self
    @classmethod
    def built(cls): return cls()
class Slotted:
    __slots__ = ("inner",)
    def __init__(self, inner): self.inner = inner
"""
    )
    # Imported by a name that is made at run time, so that no import leads there, and only the chain does.
    found_by_name = f"from importlib import import_module\nscorers = import_module('{name}.' + 'scorers')\n"
    catalog = f"{HEAD}\n{found_by_name}def catalog(): return {{'mine': spec({factory})}}\n"
    package(name, scorers=scorers, catalog=catalog)
    found = _fingerprint(f"{name}.catalog:catalog")
    assert found.modules[f"{name}.scorers"] == _sha256(scorers)
    assert found.missing is None


def test_it_covers_what_is_imported_from_the_same_package_or_folder(package: Callable[..., Path], write: Write) -> None:
    """Imports are followed, also lazy and relative ones, into the package and beside it; what nobody imports is not."""
    files = {
        "scorers": f"{HEAD}from .parts import words as w\nfrom . import numbers\n"
        "def score(candidate, context):\n    from follows.late import x\n    import beside\n    import json, numpy\n"
        "def catalog(): return {'mine': spec(partial(map_candidates, score))}\n",
        "parts": "words = 1\n",
        "numbers": "import follows.deep.leaf\n",
        "deep/__init__": "",
        "deep/leaf": "from ..parts import words\ndef late():\n    from ...above import x\n",
        "late": "x = 1\n",
        "unused": "y = 1\n",
        "not_here": "",
        "__init__": "",
    }
    package("follows", **files)
    write("beside.py", "import beside_too\n")
    write("beside_too.py", "z = 1\n")
    write("elsewhere.py", "z = 1\n")
    found = _fingerprint("follows.scorers:catalog")
    # `import follows.deep.leaf` binds `follows`, and `follows.deep` with it; `from .parts import words` takes no more
    # than the module itself.
    assert set(found.modules) == {
        "beside",
        "beside_too",
        "follows",
        "follows.deep",
        "follows.deep.leaf",
        "follows.late",
        "follows.numbers",
        "follows.parts",
        "follows.scorers",
    }


def test_the_sha256_is_over_module_names_and_texts(package: Callable[..., Path]) -> None:
    """It can be checked by hand: canonical JSON of module to SHA-256 of its text."""
    text = f"{HEAD}{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n"
    package("by_hand", scorers=text)
    found = _fingerprint("by_hand.scorers:catalog")
    assert found.modules == {"by_hand.scorers": _sha256(text)}
    canonical = json.dumps(found.modules, sort_keys=True, separators=(",", ":"))
    assert found.sha256 == _sha256(canonical)
    assert (found.provider, found.revision) == ("mine", "1")


def test_libraries_are_left_out(package: Callable[..., Path], write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed packages have versions: those that the author's module imports, or hands along, do not count."""
    write("site-packages/a_library/__init__.py", "class Setting: pass\ndef helper(): return None\n")
    monkeypatch.syspath_prepend(write("site-packages/x.py", "").parent)
    text = (
        f"{HEAD}import a_library\n{SCORE}"
        "def make(setting): return map_candidates(score)\n"
        "def catalog(): return {'mine': spec(partial(make, a_library.Setting()))}\n"
    )
    package("uses_library", scorers=text)
    assert set(_fingerprint("uses_library.scorers:catalog").modules) == {"uses_library.scorers"}


@pytest.mark.parametrize("mark", ["site-packages", "target"])
def test_a_provider_that_is_itself_installed_counts_with_its_own_package_only(
    write: Write, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    """In a folder that packages are installed into, what lies beside the provider's package is another library."""
    name = f"installed_{mark.replace('-', '_')}"
    write(f"{mark}/{name}/__init__.py", "")
    write(f"{mark}/{name}/settings.py", "class Setting: pass\n")
    write(f"{mark}/{name}/found_by_name.py", "class Setting: pass\n")
    write(
        f"{mark}/{name}/scorers.py",
        f"{HEAD}import numpy_like\nfrom importlib import import_module\nfrom .settings import Setting\n{SCORE}"
        "class Lifted:\n    def __call__(self, *of): return None\n"
        f"late = import_module('{name}.found_by_name')\n"
        "def catalog(): return {'mine': spec(partial(partial(map_candidates, Lifted()), late.Setting()))}\n",
    )
    write(f"{mark}/some_package-1.0.dist-info/METADATA", "")
    folder = write(f"{mark}/numpy_like.py", "x = 1\n").parent
    monkeypatch.syspath_prepend(folder)
    assert set(_fingerprint(f"{name}.scorers:catalog").modules) == {
        f"{name}.found_by_name",
        f"{name}.scorers",
        f"{name}.settings",
    }


def test_a_folder_without_init_in_a_package_that_is_not_loaded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is imported late, from a folder without ``__init__`` in a package that nobody has imported yet, counts."""
    write("late_space/__init__.py", "")
    write("late_space/inner/late.py", "z = 1\n")
    text = (
        f"{HEAD}def score(candidate, context):\n    import late_space.inner.late\n"
        "def catalog(): return {'mine': spec(partial(map_candidates, score))}\n"
    )
    monkeypatch.syspath_prepend(write("late_scorers.py", text).parent)
    found = _fingerprint("late_scorers:catalog")
    assert set(found.modules) == {"late_scorers", "late_space", "late_space.inner.late"}


def test_a_namespace_that_a_library_shares_is_the_authors_own_half(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a namespace package, what is installed is a library to the modules that are being written."""
    write("site-packages/shared_space/installed.py", "x = 1\n")
    write("work/shared_space/helper.py", "y = 1\n")
    text = (
        f"{HEAD}from shared_space.installed import x\nfrom .helper import y\n{SCORE}"
        "def catalog(): return {'mine': spec(partial(map_candidates, score))}\n"
    )
    folder = write("work/shared_space/scorers.py", text).parent.parent
    monkeypatch.syspath_prepend(folder.parent / "site-packages")
    monkeypatch.syspath_prepend(folder)
    found = _fingerprint("shared_space.scorers:catalog")
    assert set(found.modules) == {"shared_space.helper", "shared_space.scorers"}


def test_built_ins_are_covered_by_the_version(fresh_python: Callable[[str], str]) -> None:
    """A provider of Posttrain's own has no fingerprint of its own, and the record says why."""
    for name, spec in RewardCatalog().items():
        found = fingerprint_provider(name, spec)
        assert (found.sha256, found.modules) == (None, {})
        assert found.missing is not None
        assert "whose versions say what they are" in found.missing


def test_a_module_without_source_is_told(
    package: Callable[..., Path], importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled code alone gives no fingerprint, and neither does a function that was typed at a prompt."""
    folder = package(
        "compiled_only",
        scorers=f"{HEAD}{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n",
    )
    compileall.compile_dir(folder, quiet=1, legacy=True)
    for file in folder.glob("*.py"):
        file.unlink()
    found = _fingerprint("compiled_only.scorers:catalog")
    assert found == SourceFingerprint(
        provider="mine", revision="1", sha256=None, missing="no source text is to be had of 'compiled_only.scorers'"
    )
    typed: dict[str, Any] = {"__name__": "typed_at_a_prompt"}
    exec("def score(): return None", typed)  # noqa: S102  # the text is our own
    spec = RewardProviderSpec(factory=typed["score"], revision="1", terms=("task",))
    assert fingerprint_provider("x", spec).missing == "no source text is to be had of 'typed_at_a_prompt'"


def test_a_module_that_is_no_text_any_more_is_told(package: Callable[..., Path]) -> None:
    """A file that was overwritten since it was loaded gives a reason, not an error."""
    folder = package(
        "spoilt", scorers=f"{HEAD}{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n"
    )
    spec = load_catalog("spoilt.scorers:catalog").spec("mine")
    (folder / "scorers.py").write_bytes(b"\xff\xfe\x00")
    assert fingerprint_provider("mine", spec).missing == "no source text is to be had of 'spoilt.scorers'"
    (folder / "scorers.py").write_text("def broken(:\n")
    assert fingerprint_provider("mine", spec).modules == {"spoilt.scorers": _sha256("def broken(:\n")}


def test_a_catalog_file_goes_by_its_name(write: Write, tmp_path: Path) -> None:
    """The name under which a file is loaded holds its place on this machine, so it is not the one that is recorded."""
    text = f"{HEAD}import helper\n{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n"
    found = []
    for folder in ("here", "there/deeper"):
        write(f"{folder}/helper.py", "x = 1\n")
        write(f"{folder}/rewards.py", text.replace("import helper\n", ""))
        file = write(f"{folder}/rewards.py", text.replace("import helper", "def late(): import helper"))
        found.append(_fingerprint(f"{file.name}:catalog", base=file.parent))
    assert set(found[0].modules) == {"helper", "rewards.py"}
    assert found[0] == found[1]


def test_two_files_of_one_name_both_count(write: Write, tmp_path: Path) -> None:
    """A route over two catalog files of one name changes with either."""

    def routed(one: str, other: str) -> str | None:
        specs = {}
        for folder, text in (("one", one), ("other", other)):
            write(
                f"{folder}/rewards.py",
                f"{HEAD}{SCORE}# {text}\ndef catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n",
            )
            specs[folder] = load_catalog("rewards.py:catalog", base=tmp_path / folder).spec("mine")
        spec = RewardProviderSpec(factory=partial(dict[str, Any], specs), revision="1", terms=("t",))  # type: ignore[arg-type]  # never called
        return fingerprint_provider("x", spec).sha256

    different = {routed("a", "b"), routed("a", "c"), routed("c", "b")}
    assert len(different) == 3
    assert routed("b", "a") == routed("a", "b")


def test_a_zip_file_has_source_too(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package inside a zip file counts like one in a folder."""
    text = f"{HEAD}from .part import x\n{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n"
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", "")
        archive.writestr("zipped/scorers.py", text)
        archive.writestr("zipped/part.py", "x = 1\n")
    monkeypatch.syspath_prepend(tmp_path / "all.zip")
    found = _fingerprint("zipped.scorers:catalog")
    assert found.modules == {"zipped.part": _sha256("x = 1\n"), "zipped.scorers": _sha256(text)}


_FRESH = """
import json, sys
sys.path.insert(0, sys.argv[1])
from posttrain.rewards import load_catalog
from posttrain.rewards.catalog.fingerprint import fingerprint_provider
import msgspec
catalog = load_catalog("portable.scorers:catalog")
sys.stdout.buffer.write(msgspec.json.encode(fingerprint_provider("mine", catalog.spec("mine"))))
"""


def test_place_hash_seed_line_ends_and_compiled_files_play_no_part(
    package: Callable[..., Path], tmp_path: Path
) -> None:
    """Fresh processes with other hash seeds, in other folders, with and without compiled files, agree to the byte."""
    many = "\n".join(f"from .part{at} import x{at}" for at in range(12))
    folder = package(
        "portable",
        scorers=f"{HEAD}{many}\n{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n",
        **{f"part{at}": f"x{at} = {at}\n" for at in range(12)},
    )
    moved = tmp_path / "moved" / "portable"
    shutil.copytree(folder, moved)
    for file in moved.glob("*.py"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    seen = set()
    for seed, root, no_pyc in ("0", folder.parent, "1"), ("1", folder.parent, ""), ("7", moved.parent, ""):
        done = subprocess.run(
            [sys.executable, "-c", _FRESH, str(root)],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": no_pyc},
            cwd=tmp_path,
        )
        seen.add(done.stdout)
    (found,) = seen
    assert len(json.loads(found)["modules"]) == 13


def _changed(package: Callable[..., Path], name: str, before: dict[str, str], after: dict[str, str]) -> bool:
    folder = package(name, **before)
    spec = load_catalog(f"{name}.scorers:catalog").spec("mine")
    first = fingerprint_provider("mine", spec)
    for module, text in after.items():
        (folder / f"{module}.py").write_text(text)
    return fingerprint_provider("mine", spec).sha256 != first.sha256


@pytest.mark.parametrize(
    ("module", "changed"), [("scorers", True), ("part", True), ("unused", False), ("__init__", False)]
)
def test_an_edit_shows_exactly_where_the_source_counts(
    package: Callable[..., Path], module: str, changed: bool
) -> None:
    """Any edit of a module that counts, a comment too, is another fingerprint; one elsewhere in the package is not."""
    text = f"{HEAD}from .part import x\n{SCORE}def catalog(): return {{'mine': spec(partial(map_candidates, score))}}\n"
    files = {"scorers": text, "part": "x = 1\n", "unused": "", "__init__": ""}
    assert _changed(package, f"edit_{module.strip('_')}", files, {module: f"{files[module]}# why\n"}) == changed


def _print(sha256: str | None, revision: str = "3", provider: str = "rubric", **modules: str) -> SourceFingerprint:
    return SourceFingerprint(provider=provider, revision=revision, sha256=sha256, modules=modules)


def test_a_changed_source_under_the_same_revision_is_one_line_of_warning() -> None:
    """It names provider, revision, both fingerprints and the modules that differ."""
    line = changed_without_revision(
        _print("a" * 64, same="1", edited="2", gone="3"), _print("b" * 64, same="1", edited="4", new="5")
    )
    assert line == (
        "the source of provider 'rubric' changed, but its revision is still '3': recorded aaaaaaaaaaaa, now "
        "bbbbbbbbbbbb (edited, gone, new); give it a new revision if it may score differently"
    )


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        (_print("a"), _print("a")),
        (_print("a"), _print("b", revision="4")),
        (_print("a"), _print("b", provider="other")),
        (_print(None), _print("b")),
        (_print("a"), _print(None)),
    ],
    ids=["same", "new revision", "another provider", "none recorded", "none now"],
)
def test_there_is_no_warning_where_nothing_changed_or_nobody_knows(
    recorded: SourceFingerprint, now: SourceFingerprint
) -> None:
    """The same source, a new revision, another provider, and a source that can't be seen are no ground for one."""
    assert changed_without_revision(recorded, now) is None


@pytest.mark.parametrize("folder", ["site-packages", "own"])
def test_nothing_of_an_object_is_run(write: Write, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """A proxy that fails whenever it is looked at stays untouched, be it the author's own or a library's."""
    name = f"touchy_{folder.replace('-', '_')}"
    write(
        f"{folder}/{name}.py",
        """
        def fail(*_): raise RuntimeError("looked at")
        class Touchy:
            __slots__ = ("inner",)
            __class__ = property(fail)
            __getattr__ = __getattribute__ = __call__ = __iter__ = __bool__ = __eq__ = __hash__ = __repr__ = fail
        """,
    )
    monkeypatch.syspath_prepend(write(f"{folder}/x.py", "").parent)
    text = (
        f"{HEAD}import {name}\n{SCORE}def make(*_): return map_candidates(score)\n"
        f"def catalog(): return {{'mine': spec(partial(make, {name}.Touchy(), [{name}.Touchy()]))}}\n"
    )
    write(f"{folder}_user/uses_{name}.py", text)
    monkeypatch.syspath_prepend(write(f"{folder}_user/z.py", "").parent)
    found = _fingerprint(f"uses_{name}:catalog")
    assert set(found.modules) == {f"uses_{name}", *({name} if folder == "own" else ())}
