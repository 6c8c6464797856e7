# SPDX-License-Identifier: Apache-2.0
"""Each check has a provider that fails that check, and no other."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import RLConfig, load_config
from posttrain.runs.checks import PreflightReport, preflight
from posttrain.runs.checks.report import CHECKS

Flight = Callable[..., PreflightReport]
Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]


def test_a_sound_provider_passes(flight: Flight, found: Found) -> None:
    """Nothing fails or warns; what is selected is told, and every check is there, in its order."""
    report = flight("sound", "rl.reward_stage.groups_in_flight=3", "rl.validation.enabled=true")
    assert (found(report), report.verdict, report.exit_code) == ({}, "ok", 0)
    assert [check.name for check in report.checks] == list(CHECKS)
    report.raise_if_failed()
    (it,) = report.providers
    assert (it.identity.provider, it.identity.revision, it.used_for) == ("it", "1", ("train", "val"))
    assert (it.needs, it.terms, it.diagnostics) == ((), ("t",), ("calls",))
    # It declares 8, and the config lowers it.
    assert it.groups_in_flight == 3
    assert list(it.source.modules) == ["misdeeds.py"]
    assert set(report.stages) == {"train", "val"}
    assert report.data is None


@pytest.mark.parametrize(
    ("misdeed", "check", "line"),
    [
        ("raises", "catalog", r"catalog factory 'misdeeds\.py:raises' raised ValueError: no such judge"),
        ("exits", "catalog", r"catalog factory 'misdeeds\.py:exits' raised SystemExit: 0"),
        ("no_such_function", "catalog", r"misdeeds\.py has no 'no_such_function'.*"),
        ("factory_raises", "constructs", r"provider 'it': the factory raised ZeroDivisionError: .*"),
        ("factory_exits", "constructs", r"provider 'it': its factory called sys\.exit\('bye'\)"),
        ("makes_junk", "constructs", r"provider 'it': the factory made <object object.*"),
        ("half_a_character", "constructs", r"provider 'it': an identity has to be plain JSON text: .*"),
        ("raises_half_a_character", "catalog", r".* raised ValueError: \\ud800"),
        ("counts", "deterministic", r"provider 'it': semantic_identity\.run\.number is not the same in two .* process"),
        (
            "set_order",
            "deterministic",
            r"provider 'it': semantic_identity\.words\[.* processes with different hash seeds",
        ),
        ("pid_in_revision", "deterministic", r"provider 'it': revision is not the same in processes with .*"),
        ("class_by_turns", "deterministic", r"provider 'it': the provider's class is not the same in two .* process"),
        ("once_only", "deterministic", r"it can be constructed once only, the second time: .*registered already"),
        (
            "socket_in_catalog",
            "no socket",
            r"while the catalog was loaded: socket\.__new__ \(.*misdeeds\.py:\d+, in .*",
        ),
        (
            "socket_in_factory",
            "no socket",
            r"while provider 'it' was constructed: socket\.connect to 127\.0\.0\.1:9 .*",
        ),
        ("looks_up", "no socket", r"while provider 'it' was constructed: socket\.getaddrinfo of localhost .*"),
        ("socket_in_c", "no socket", r"while provider 'it' was constructed: a socket is still open"),
        ("on_the_gpu", "no GPU", r"while provider 'it' was constructed: torch\.cuda is initialized"),
        ("process_that_stays", "no process", r"while provider 'it' was constructed: sleep is still running"),
        ("process_that_ends", "?no process", r"while provider 'it' was constructed: subprocess\.Popen true \(.*"),
        ("slow", "?light", r"import and construction took [1-9]\.\d\d s and pulled in \d+ modules.*"),
    ],
)
def test_a_misdeed_fails_its_own_check(flight: Flight, found: Found, misdeed: str, check: str, line: str) -> None:
    """A provider that breaks one rule fails the check of that rule alone, by name, with the step and the line."""
    report = flight(misdeed)
    assert list(found(report)) == [check]
    lines = found(report)[check]
    assert any(re.fullmatch(line, each) for each in lines), lines
    # A difference is told once, by where it shows first.
    assert check != "deterministic" or len(lines) == 2
    assert report.verdict == ("warning" if check[0] == "?" else "failed")
    assert report.exit_code == (0 if check[0] == "?" else 2)


def test_the_hosts_name_is_no_network(flight: Flight, found: Found) -> None:
    """Asking the machine for its own name is not taken for a socket."""
    assert found(flight("hostname")) == {}


def test_a_heavy_package_is_a_warning(
    flight: Flight, found: Found, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is known to be heavy is named with the seconds, however quick it is here."""
    monkeypatch.setenv("PYTHONPATH", str(written("libs/jax/__init__.py", "").parent.parent), prepend=os.pathsep)
    monkeypatch.syspath_prepend(Path("libs").resolve())
    report = flight("pulls_in_jax")
    monkeypatch.delitem(sys.modules, "jax")
    (line,) = found(report)["?light"]
    assert list(found(report)) == ["?light"]
    assert re.fullmatch(r"import and construction took \d\.\d\d s and pulled in jax: .*", line)


SOUND = """
from functools import partial
from posttrain.rewards import RewardProviderSpec, map_candidates

def catalog():
    return {"it": RewardProviderSpec(factory=partial(map_candidates, print), revision="1", terms=("t",))}
"""


def _config(catalog: str, *more: str) -> RLConfig:
    return load_config(None, ["rl.reward=it", "rl.group_size=2", f"rl.reward_catalog={catalog}", *more])


def test_a_module_that_only_this_process_finds(
    tmp_path: Path, found: Found, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that this process put on its own path is on no actor's: the fresh process fails, nothing else does."""
    written("elsewhere/only_here.py", SOUND)
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    report = preflight(_config("only_here:catalog"))
    assert list(found(report)) == ["fresh process"]
    first, last = found(report)["fresh process"]
    assert "catalog module 'only_here' can't be found" in first
    assert "put its folder on PYTHONPATH" in last


def test_another_module_of_the_same_name(
    tmp_path: Path, found: Found, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh process that imports another file than this one has not checked what this one will run."""
    written("here/same_name.py", SOUND)
    written("there/same_name.py", SOUND)
    monkeypatch.syspath_prepend(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "there"), prepend=os.pathsep)
    report = preflight(_config("same_name:catalog"))
    monkeypatch.delitem(sys.modules, "same_name")
    assert list(found(report)) == ["fresh process"]
    assert f"{tmp_path / 'there' / 'same_name.py'}, this process from" in found(report)["fresh process"][0]


def test_a_catalog_in_the_working_directory(
    tmp_path: Path, found: Found, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh process finds a module where the run was started, behind all that is installed."""
    written("in_this_folder.py", f"import colorsys\n{SOUND}")
    written("colorsys.py", "raise RuntimeError('the local file was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    report = preflight(_config("in_this_folder:catalog"))
    monkeypatch.delitem(sys.modules, "in_this_folder")
    assert found(report) == {}


@pytest.mark.parametrize(
    ("misdeed", "overrides", "check", "line"),
    [
        ("sound", ["rl.reward=its"], "catalog", "no provider is named 'its'; did you mean 'it'?"),
        ("sound", ["rl.reward=[its, them]"], "catalog", "no provider is named 'them'"),
        ("two_of_one_term", ["rl.reward=[it, that]"], "catalog", "term 't' is declared by both 'it' and 'that'"),
        ("sound", ["rl.reward_stage.weights.x=2"], "stage", "weights for unknown terms 'x'"),
        ("sound", ["rl.validation.enabled=true", "rl.validation.reward=gsm"], "catalog", "no provider is named 'gsm'"),
    ],
)
def test_a_selection_that_does_not_fit(
    flight: Flight, found: Found, misdeed: str, overrides: list[str], check: str, line: str
) -> None:
    """An unknown name, a term of two providers and a weight of nobody's are told by one check each."""
    report = flight(misdeed, *overrides)
    assert list(found(report)) == [check]
    assert any(line in each for each in found(report)[check])
    assert report.exit_code == 2


def test_every_failing_check_is_reported(flight: Flight, found: Found, written: Callable[..., Path]) -> None:
    """One fault hides no other: of the stage, of an identity and of the data, each is told."""
    written("rows.jsonl", [{"prompt": "p"}])
    report = flight("counts", "rl.reward=[it, gsm8k]", "rl.reward_stage.weights.x=2", "rl.data.path=rows.jsonl")
    assert list(found(report)) == ["stage", "deterministic", "data"]
    # Of 2 (config) and 3 (data) the more basic one is told to the shell.
    assert report.exit_code == 2


def test_validation_is_of_the_same_catalog(flight: Flight) -> None:
    """The provider of the validation is constructed too when it is enabled, and only then."""
    settings = ["rl.validation.reward=that", "rl.validation.n_generation=4"]
    off = flight("two", *settings)
    assert [each.identity.provider for each in off.providers] == ["it"]
    on = flight("two", *settings, "rl.validation.enabled=true")
    assert {each.identity.provider: each.used_for for each in on.providers} == {"it": ("train",), "that": ("val",)}
    assert len({each.identity.catalog for each in on.providers}) == 1


def test_a_source_that_changed(flight: Flight, found: Found) -> None:
    """Against a recorded run, a source that changed under the same revision is a warning that names both."""
    first = flight("sound").providers[0].source
    assert found(flight("sound", recorded=[first])) == {}
    others: Any = {"sha256": "0" * 64, "modules": {"misdeeds.py": "0" * 64}}
    recorded = type(first)(provider="it", revision="1", **others)
    report = flight("sound", recorded=[recorded])
    assert list(found(report)) == ["?source"]
    (line,) = found(report)["?source"]
    assert "source of provider 'it' changed, but its revision is still '1'" in line
    assert report.exit_code == 0
    # Under another revision it may have changed.
    assert found(flight("sound", recorded=[type(first)(provider="it", revision="0", **others)])) == {}
