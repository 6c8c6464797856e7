# SPDX-License-Identifier: Apache-2.0
"""A fresh process is as light as an actor, and its constructions can be compared."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from posttrain.rewards import RewardProviderSpec, load_catalog
from posttrain.rewards.catalog.identity import identity_sha256
from posttrain.runs.checks.construction import Construction, construction_of, differences, origin_of
from posttrain.runs.checks.credentials import Credentials
from posttrain.runs.checks.processes import HASH_SEEDS, run_fresh
from posttrain.testing import ScriptedProvider


def test_it_loads_no_more_than_the_core(fresh_python: Callable[[str], str]) -> None:
    """The module of a fresh process imports neither the config nor the data nor a screen."""
    program = "import sys, json, posttrain.runs.checks.fresh\nprint(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(fresh_python(program)))
    unwanted = {"pydantic", "yaml", "rich", "typer", "numpy", "posttrain.data", "posttrain.runs.config", "subprocess"}
    assert not loaded & unwanted


def test_two_processes_with_two_hash_seeds(tmp_path: Path, written: Callable[..., Path]) -> None:
    """Each process constructs everything twice, under its own hash seed, and tells what it took."""
    written(
        "seeds.py",
        """
import os
from functools import partial
from posttrain.rewards import RewardProviderSpec, map_candidates

def catalog():
    make = partial(map_candidates, print)
    seed = os.environ["PYTHONHASHSEED"]
    return {"it": RewardProviderSpec(factory=make, revision=seed, terms=("a", "b"), semantic_identity={"n": [1, {}]})}
""",
    )
    fresh = run_fresh("seeds.py:catalog", str(tmp_path), ["it", "gsm8k"], deadline_s=60)
    assert len(set(HASH_SEEDS)) == len(fresh) == 2
    for each, seed in zip(fresh, HASH_SEEDS, strict=True):
        assert each.answer is not None
        assert (each.events, each.answer.faults) == ([], ())
        assert [(it.provider, it.round) for it in each.answer.constructions] == [
            ("it", 1), ("gsm8k", 1), ("it", 2), ("gsm8k", 2),
        ]  # fmt: skip
        it = each.answer.constructions[0]
        assert (it.revision, it.terms, it.kind) == (
            seed,
            ("a", "b"),
            "posttrain.rewards.contract.pointwise:_MappedCandidates",
        )
        assert it.sha256 == identity_sha256({"n": (1, {})})
        assert set(it.leaves) == {"semantic_identity.n[0]", "semantic_identity.n[1]"}


def _made(**fields: object) -> Construction:
    provider = ScriptedProvider({})
    parts: dict[str, object] = {"factory": ScriptedProvider, "revision": "1", "terms": ("t",), **fields}
    return construction_of("it", RewardProviderSpec(**parts), provider, Credentials({}))  # type: ignore[arg-type]  # as given


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, []),
        ({"revision": "2"}, ["revision"]),
        ({"terms": ("u",)}, ["terms"]),
        ({"needs": ("prompt",)}, ["needs"]),
        ({"diagnostics": ("d",)}, ["diagnostics"]),
        ({"semantic_identity": {"a": [1, 2], "b": "x"}}, ["semantic_identity", "semantic_identity.a[0]"]),
    ],
)
def test_differences_of_constructions(fields: dict[str, object], wanted: list[str]) -> None:
    """Each field that differs is named, and of the identity each place."""
    assert differences(_made(), _made(**fields))[: len(wanted)] == wanted
    assert bool(differences(_made(), _made(**fields))) == bool(wanted)


def test_places_of_an_identity_that_differ() -> None:
    """1, 1.0 and true differ, the order of keys does not, and no value is told."""
    one = _made(semantic_identity={"a": [1, "same"], "b": {"c": None}, "d": "hidden"})
    other = _made(semantic_identity={"d": "HIDDEN", "b": {"c": None}, "a": [1.0, "same"]})
    assert sorted(differences(one, other)) == ["semantic_identity.a[0]", "semantic_identity.d"]
    assert "hidden" not in msgspec.json.encode(one).decode()


def test_the_class_of_the_provider_counts() -> None:
    """Another class is another construction, whatever the spec says."""
    one = _made()
    assert differences(one, msgspec.structs.replace(one, kind="a:B")) == ["the provider's class"]


def test_the_origin_of_a_catalog(tmp_path: Path, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's catalog has its file for origin; the built-ins, and a file that is named as such, have none."""
    path = written("with_origin.py", "def catalog():\n    return {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert origin_of(load_catalog("with_origin:catalog")) == str(path)
    monkeypatch.delitem(sys.modules, "with_origin")
    assert origin_of(load_catalog("with_origin.py:catalog", base=tmp_path)) is None
    assert origin_of(load_catalog()) is None
