# SPDX-License-Identifier: Apache-2.0
"""A catalog is the built-ins and what was added, read-only: entries add names, override none and are all checked."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import ProviderIdentity
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.scorers import BUILT_IN


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _spec(**fields: Any) -> RewardProviderSpec:
    made: dict[str, Any] = {"factory": functools.partial(map_candidates, _score), "revision": "1", "terms": ("task",)}
    return RewardProviderSpec(**{**made, **fields})


MINE = _spec()


def _faults(entries: Any, **where: Any) -> list[str]:
    with pytest.raises(RewardConfigError, match=r"^catalog .* is not valid:\n") as caught:
        RewardCatalog(entries, **where)
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


@pytest.mark.parametrize("entries", [{"mine": MINE}, MappingProxyType({"mine": MINE})], ids=["dict", "read-only"])
def test_entries_join_the_built_ins(entries: Mapping[str, RewardProviderSpec]) -> None:
    """All names are there, the built-ins with their own specs."""
    catalog = RewardCatalog(entries, path="my_rewards:catalog")
    assert list(catalog) == [*BUILT_IN, "mine"]
    assert len(catalog) == 7
    assert catalog["mine"] is MINE
    assert catalog.spec("gsm8k") is catalog["gsm8k"] is BUILT_IN["gsm8k"]
    assert "other" not in catalog
    assert repr(catalog).startswith("RewardCatalog(path='my_rewards:catalog', providers=['arithmetic', ")


def test_a_catalog_without_entries_has_the_built_ins() -> None:
    """They need no path."""
    assert dict(RewardCatalog()) == dict(RewardCatalog({})) == dict(BUILT_IN)
    assert RewardCatalog().path is None


def test_a_catalog_does_not_change() -> None:
    """It has no way to set an entry, and the mapping that it was made of is copied."""
    entries = {"mine": MINE}
    catalog: Any = RewardCatalog(entries)
    entries["more"] = MINE
    del entries["mine"]
    assert list(catalog)[len(BUILT_IN) :] == ["mine"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        catalog["mine"] = MINE
    assert set(BUILT_IN).isdisjoint(entries)


@pytest.mark.parametrize("entries", [[("mine", MINE)], MINE, "mine", 5, dict], ids=lambda it: type(it).__name__)
def test_a_catalog_is_made_of_a_mapping(entries: Any) -> None:
    """Anything else is shown with its type."""
    with pytest.raises(
        RewardConfigError, match=r"^a catalog is a mapping from provider name to RewardProviderSpec, got "
    ):
        RewardCatalog(entries)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_built_in_can_not_be_overridden(name: str) -> None:
    """Not even by its own spec: a name means one thing in every run."""
    fault = f"{name!r} is a built-in provider and can't be overridden: choose another name"
    assert _faults({name: MINE}) == _faults({name: BUILT_IN[name]}) == [fault]


class _Older:
    """A provider of the older pointwise contract."""

    scope = "trajectory"
    mode = "sync"


class _Provider:
    """A provider where its spec should be."""

    def evaluate(self, request: Any) -> Any:
        raise NotImplementedError


def test_every_bad_entry_is_named_and_no_good_one() -> None:
    """Names that are not valid, reserved or taken and values that are no specs are listed with the catalog's path."""
    faults = _faults(
        {
            "good": MINE,
            "bad name": MINE,
            "final": MINE,
            "constant": MINE,
            "raw": 0.5,
            "function": _score,
            5: None,
        },
        path="my_rewards:catalog",
    )
    syntax = "expected letters, digits and any of _ . - after a first letter or digit"
    make_one = "make one with RewardProviderSpec(factory=..., revision=..., terms=...)"
    assert faults[:4] == [
        f"provider name 'bad name' (str): {syntax}",
        "provider name 'final' is reserved for the framework: choose another",
        "'constant' is a built-in provider and can't be overridden: choose another name",
        f"'raw': expected a RewardProviderSpec, got 0.5 (float); {make_one}",
    ]
    assert faults[4].startswith("'function': expected a RewardProviderSpec, got <function _score at ")
    assert faults[5:] == [
        f"provider name 5 (int): {syntax}",
        f"5: expected a RewardProviderSpec, got None; {make_one}",
    ]


def test_the_refusal_names_the_catalog() -> None:
    """By its path, or as an object of this process."""
    with pytest.raises(RewardConfigError, match=r"^catalog my_rewards:catalog is not valid"):
        RewardCatalog({"raw": 0.5}, path="my_rewards:catalog")  # type: ignore[dict-item]  # the mistake under test
    with pytest.raises(RewardConfigError, match=r"^catalog passed as an object is not valid"):
        RewardCatalog({"raw": 0.5})  # type: ignore[dict-item]  # the mistake under test


@pytest.mark.parametrize("entry", [_Older(), _Older, _Provider(), _Provider, map_candidates(_score)], ids=repr)
def test_a_bare_provider_is_shown_the_way_over(entry: Any) -> None:
    """An object of the older contract, or a provider without its spec, is pointed to the page that moves it over."""
    (fault,) = _faults({"mine": entry})
    assert fault.startswith("'mine': expected a RewardProviderSpec, got ")
    assert fault.endswith("; providers of the older pointwise contract are moved over as docs/migrating.md shows")


KNOWN = "Known names: arithmetic, constant, countdown, exact_match, gsm8k, mine, nonempty"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exact-match", f"no provider is named 'exact-match'; did you mean 'exact_match'? {KNOWN}"),
        ("gsm8K", f"no provider is named 'gsm8K'; did you mean 'gsm8k'? {KNOWN}"),
        ("Mine", f"no provider is named 'Mine'; did you mean 'mine'? {KNOWN}"),
        ("zzz", f"no provider is named 'zzz'. {KNOWN}"),
        ("", f"no provider is named ''. {KNOWN}"),
        (None, f"no provider is named None. {KNOWN}"),
        (["mine"], f"no provider is named ['mine'] (list); did you mean 'mine'? {KNOWN}"),
    ],
    ids=repr,
)
def test_an_unknown_name_is_answered_with_the_nearest(name: Any, message: str) -> None:
    """And with all names, sorted."""
    with pytest.raises(RewardConfigError, match="no provider is named") as caught:
        RewardCatalog({"mine": MINE}).spec(name)
    assert caught.value.message == message


def test_an_identity_is_made_of_path_name_revision_and_semantics() -> None:
    """The hash is that of the canonical text of the semantic identity, `null` where none is declared."""
    judge = _spec(revision="3", semantic_identity={"timeout": 30, "model": "m"})
    catalog = RewardCatalog({"mine": MINE, "judge": judge}, path="my_rewards:catalog")
    null = hashlib.sha256(b"null").hexdigest()
    assert catalog.identity("mine") == ProviderIdentity("my_rewards:catalog", "mine", "1", null)
    digest = hashlib.sha256(b'{"model":"m","timeout":30}').hexdigest()
    assert catalog.identity("judge") == ProviderIdentity("my_rewards:catalog", "judge", "3", digest)
    with pytest.raises(RewardConfigError, match="no provider is named 'jury'"):
        catalog.identity("jury")


def test_an_identity_that_has_no_text_is_refused() -> None:
    """A lone surrogate in a prompt is found when the identity is asked for, before anything is recorded."""
    catalog = RewardCatalog({"mine": _spec(semantic_identity="\ud800")})
    with pytest.raises(RewardConfigError, match="an identity has to be plain JSON text"):
        catalog.identity("mine")
