# SPDX-License-Identifier: Apache-2.0
"""A spec refuses every field that is not valid, all at once, before anything of the provider runs."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from posttrain.errors import RewardConfigError
from posttrain.frozen import strict_equal
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.provider import RewardProvider
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import CANONICAL_INPUTS, ProviderExecution, RewardProviderSpec
from strategies import canonical_text, json_values


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


_factory = functools.partial(map_candidates, _score)


def _needs_an_argument(url: str, *, token: str, retries: int = 3) -> RewardProvider:
    return _factory()


def _spec(**fields: Any) -> RewardProviderSpec:
    return RewardProviderSpec(**{"factory": _factory, "revision": "1", "terms": ("task",), **fields})


def _faults(**fields: Any) -> list[str]:
    with pytest.raises(RewardConfigError, match=r"^RewardProviderSpec is not valid:\n") as caught:
        _spec(**fields)
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


def test_a_spec_keeps_what_it_was_given() -> None:
    """Names become tuples in their order, the identity is frozen, and what is left out has its default."""
    spec = _spec(
        terms=["task", "style"], needs=["reference"], diagnostics=["calls"], semantic_identity={"model": ["m"]}
    )
    assert (spec.terms, spec.needs, spec.diagnostics) == (("task", "style"), ("reference",), ("calls",))
    assert spec.factory is _factory
    assert canonical_text(spec.semantic_identity) == '{"model": ["m"]}'
    bare = _spec()
    assert (bare.needs, bare.diagnostics, bare.semantic_identity) == ((), (), None)
    assert bare.execution == ProviderExecution(groups_in_flight=1, repeatable=False, rank_local=False)


def test_a_spec_and_its_traits_do_not_change() -> None:
    """Fields can't be written to, and the identity is detached from the caller's object and frozen."""
    identity: dict[str, Any] = {"model": {"name": "m"}}
    spec = _spec(semantic_identity=identity)
    identity["model"]["name"] = "another"
    assert canonical_text(spec.semantic_identity) == '{"model": {"name": "m"}}'
    with pytest.raises(TypeError, match="frozen"):
        spec.semantic_identity["model"] = 1  # type: ignore[index]  # the mistake under test
    with pytest.raises(dataclasses.FrozenInstanceError, match="revision"):
        spec.revision = "2"  # type: ignore[misc]  # the mistake under test
    with pytest.raises(dataclasses.FrozenInstanceError, match="repeatable"):
        spec.execution.repeatable = True  # type: ignore[misc]  # the mistake under test


@given(json_values)
def test_any_json_value_is_an_identity(value: Any) -> None:
    """The identity is kept type for type."""
    assert canonical_text(_spec(semantic_identity=value).semantic_identity) == canonical_text(value)


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("factory", None, "factory: expected a function without arguments, got None"),
        ("factory", "my_rewards:make", "factory: expected a function without arguments, got 'my_rewards:make' (str)"),
        ("revision", "", "revision: expected a string that is not empty, got '' (str)"),
        ("revision", " \t", r"revision: expected a string that is not empty, got ' \t' (str)"),
        ("revision", 3, "revision: expected a string that is not empty, got 3 (int)"),
        ("revision", None, "revision: expected a string that is not empty, got None"),
        ("terms", "task", "terms: expected a tuple of names, got the string 'task'; write (\"task\",)"),
        ("diagnostics", "calls", "diagnostics: expected a tuple of names, got the string 'calls'; write (\"calls\",)"),
        ("needs", "prompt", "needs: expected a tuple of names, got the string 'prompt'; write (\"prompt\",)"),
        ("terms", (), "terms: at least one is needed"),
        ("terms", 5, "terms: expected a tuple of names, got 5 (int)"),
        ("diagnostics", None, "diagnostics: expected a tuple of names, got None"),
        ("needs", None, "needs: expected a tuple of names, got None"),
        ("terms", ("task", "task"), "terms: term name 'task' stands twice"),
        ("terms", ("task", "final"), "terms: term name 'final' is reserved for the framework: choose another"),
        (
            "diagnostics",
            ("sample_count",),
            "diagnostics: diagnostic name 'sample_count' is reserved for the framework: choose another",
        ),
        (
            "terms",
            ("a/b",),
            "terms: term name 'a/b' (str): expected letters, digits and any of _ . - after a first letter or digit",
        ),
        ("needs", ("answer",), "needs: 'answer' (str) is no canonical input; those are prompt, reference"),
        ("needs", ("completion",), "needs: 'completion' (str) is no canonical input; those are prompt, reference"),
        ("needs", (None,), "needs: None is no canonical input; those are prompt, reference"),
        ("needs", ("prompt", "prompt"), "needs: a name stands twice in ('prompt', 'prompt')"),
        ("semantic_identity", {"t": math.inf}, "semantic_identity.t: expected a finite number, got inf"),
        ("semantic_identity", {1: 2}, "semantic_identity: expected string keys, got the key 1 (int)"),
        ("execution", None, "execution: expected ProviderExecution, got None"),
        ("execution", {"repeatable": True}, "execution: expected ProviderExecution, got {'repeatable': True} (dict)"),
    ],
)
def test_a_bad_field_is_refused_by_name(field: str, value: Any, fault: str) -> None:
    """The only fault that is listed is the bad field's, with what was expected and what came."""
    assert _faults(**{field: value}) == [fault]


def test_a_factory_with_arguments_is_refused() -> None:
    """The arguments that it requires are named, those with a default are not, and the way out is."""
    (fault,) = _faults(factory=_needs_an_argument)
    assert fault.startswith("factory: takes no argument, but <function _needs_an_argument")
    assert fault.endswith(" requires url, token: bind them with functools.partial")
    assert _spec(factory=functools.partial(_needs_an_argument, "u", token="t")).revision == "1"  # noqa: S106  # no secret


class _Provider:
    """A class is a factory of itself."""

    def evaluate(self, request: Any) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("factory", [_factory, _Provider, lambda *args, **kwargs: None, lambda retries=3: None, dict])
def test_anything_callable_without_arguments_is_a_factory(factory: Any) -> None:
    """Partials, classes, built-in types and functions whose arguments are optional are taken, and not called."""
    assert _spec(factory=factory).factory is factory


def test_every_bad_field_is_named_at_once() -> None:
    """One error holds all faults, and good fields are absent from it."""
    faults = _faults(
        factory=3,
        revision="",
        terms=("good", "bad name", "good"),
        needs=("prompt", "answer"),
        diagnostics="calls",
        semantic_identity={"fine": 1, "timeout": math.nan, "tags": {"a"}},
        execution=1,
    )
    assert [fault.partition(":")[0] for fault in faults] == [
        "factory",
        "revision",
        "terms",
        "terms",
        "diagnostics",
        "needs",
        "execution",
        "semantic_identity.timeout",
        "semantic_identity.tags",
    ]
    assert "fine" not in "".join(faults)
    assert "'prompt'" not in "".join(faults)


@pytest.mark.parametrize(
    "legacy", [{"scope": "trajectory"}, {"mode": "sync"}, {"scope": "trajectory", "mode": "sync"}, {"evaluate": print}]
)
def test_the_older_pointwise_contract_is_refused_with_its_recipe(legacy: dict[str, Any]) -> None:
    """Whoever still declares a scope, a mode or an evaluate function is told how to move and where to read on."""
    with pytest.raises(
        RewardConfigError, match=r"functools\.partial\(map_candidates, scorer\).*docs/migrating\.md"
    ) as caught:
        _spec(**legacy)
    assert caught.value.message.startswith(
        f"RewardProviderSpec takes no {', '.join(sorted(legacy))}: this is the older"
    )


def test_an_older_spec_that_lacks_the_newer_fields_gets_the_recipe() -> None:
    """A spec of the older contract that names no factory and no revision is told how to move, too."""
    with pytest.raises(RewardConfigError, match=r"docs/migrating\.md"):
        RewardProviderSpec(scope="trajectory", mode="sync", evaluate=print, terms=("task",))  # type: ignore[call-arg]  # on purpose


def test_an_unknown_field_is_refused_without_the_recipe() -> None:
    """A misspelt field is named beside those that there are; it is no sign of the older contract."""
    fields = "factory, revision, terms, needs, diagnostics, semantic_identity, execution"
    with pytest.raises(RewardConfigError, match=f"^RewardProviderSpec takes no term, need; its fields are {fields}$"):
        _spec(term="task", need=())


@pytest.mark.parametrize(
    ("field", "names"),
    [
        pytest.param("terms", ["task"], id="terms"),
        pytest.param("needs", ["prompt"], id="needs"),
        pytest.param("diagnostics", ["calls"], id="diagnostics"),
    ],
)
def test_names_from_an_iterator_are_refused_or_kept(field: str, names: list[str]) -> None:
    """A one-pass iterable never ends as an empty tuple in silence."""
    try:
        kept = getattr(_spec(**{field: iter(names)}), field)
    except RewardConfigError:
        return
    assert kept == tuple(names)


@pytest.mark.parametrize("field", ["terms", "needs", "diagnostics"])
def test_names_without_an_order_are_refused(field: str) -> None:
    """The order of names is part of what every machine must agree on, so a set is no list of names."""
    with pytest.raises(RewardConfigError, match=f"{field}: expected a tuple of names"):
        _spec(**{field: {"prompt", "reference"}})


@pytest.mark.parametrize("names", [{"terms": np.array(["a", "b"])}, {"needs": (np.eye(2),)}], ids=["terms", "needs"])
def test_arrays_among_the_names_are_refused_like_anything_else(names: dict[str, Any]) -> None:
    """An array of names, or as a name, is no crash of another kind."""
    with pytest.raises(RewardConfigError, match="is not valid"):
        _spec(**names)


@pytest.mark.parametrize("other", [1.0, True])
def test_specs_that_differ_in_the_type_of_an_identity_are_not_equal(other: Any) -> None:
    """Two specs are equal only if their identities are the same value, type for type."""
    assert not strict_equal(1, other)
    assert _spec(semantic_identity=1) != _spec(semantic_identity=other)


def test_equal_specs_are_equal() -> None:
    """Specs made of the same parts are equal, and differ when any field does."""
    assert _spec() == _spec()
    assert _spec() != _spec(revision="2")
    assert _spec() != _spec(needs=("prompt",))


def test_a_spec_can_be_derived_from_another() -> None:
    """dataclasses.replace changes one field, and what it makes is checked like any other spec."""
    spec = _spec(needs=CANONICAL_INPUTS, semantic_identity={"a": 1})
    assert dataclasses.replace(spec, revision="2") == _spec(
        revision="2", needs=CANONICAL_INPUTS, semantic_identity={"a": 1}
    )
    with pytest.raises(RewardConfigError, match="terms: at least one is needed"):
        dataclasses.replace(spec, terms=())


def test_a_spec_survives_pickling_and_copying(pickled: Callable[..., Any]) -> None:
    """A spec whose factory can be imported is sent to a worker as it is."""
    spec = _spec(factory=_Provider, semantic_identity={"a": [1.0]}, execution=ProviderExecution(groups_in_flight=4))
    assert pickled(spec) == spec
    assert copy.deepcopy(spec) == spec


def test_a_spec_prints_without_its_identity() -> None:
    """A repr is short and shows neither the factory nor the identity, which may hold whole prompts."""
    shown = repr(_spec(semantic_identity={"prompt": "long text"}))
    assert shown == "RewardProviderSpec(revision='1', terms=('task',), needs=(), diagnostics=())"


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "2", None], ids=repr)
def test_groups_in_flight_is_a_positive_int(count: Any) -> None:
    """Anything but an int of at least 1 is refused, bool included."""
    with pytest.raises(RewardConfigError, match="groups_in_flight: expected an int of at least 1, got "):
        ProviderExecution(groups_in_flight=count)


def test_every_bad_trait_is_named_at_once() -> None:
    """All three traits are checked before anything is raised."""
    with pytest.raises(RewardConfigError, match="ProviderExecution is not valid") as caught:
        ProviderExecution(groups_in_flight=0, repeatable=1, rank_local="yes")  # type: ignore[arg-type]  # on purpose
    assert caught.value.message.splitlines()[1:] == [
        "  groups_in_flight: expected an int of at least 1, got 0 (int)",
        "  repeatable: expected a bool, got 1 (int)",
        "  rank_local: expected a bool, got 'yes' (str)",
    ]
