# SPDX-License-Identifier: Apache-2.0
"""What a route declares: an identity composed of its entries', and a refusal of what can't take part."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.frozen import thaw
from posttrain.rewards.catalog.identity import identity_sha256
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.route import route
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec


def _score(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    return RewardProviderResult({"task": 1.0})


def _key(context: RewardContext) -> str:
    return "maths"


def _other_key(context: RewardContext) -> str:
    return "code"


def _entry(**fields: Any) -> RewardProviderSpec:
    made: dict[str, Any] = {"factory": functools.partial(map_candidates, _score), "revision": "1", "terms": ("task",)}
    return RewardProviderSpec(**{**made, **fields})


MATHS = _entry(needs=("reference",), semantic_identity={"tolerance": 1e-9})
CODE = _entry(revision="7", terms=("passed",), needs=("prompt", "reference"))


def test_the_identity_holds_all_that_the_entries_declare() -> None:
    """Revision, needs, term and semantics of each entry, and the key's qualified name."""
    spec = route(_key, {"maths": MATHS, "code": CODE})
    assert thaw(spec.semantic_identity) == {
        "route": {
            "code": {"revision": "7", "needs": ["prompt", "reference"], "terms": ["passed"], "semantic_identity": None},
            "maths": {
                "revision": "1",
                "needs": ["reference"],
                "terms": ["task"],
                "semantic_identity": {"tolerance": 1e-9},
            },
        },
        "key": f"{__name__}:_key",
    }
    assert spec.revision == "code=7,maths=1"


@pytest.mark.parametrize(
    "change",
    [
        {"revision": "2"},
        {"needs": ()},
        {"terms": ("points",)},
        {"semantic_identity": None},
        {"semantic_identity": {"tolerance": 1e-6}},
        {"semantic_identity": {"tolerance": 1e-9, "unit": "metre"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["maths", "code"])
def test_a_change_of_any_entry_changes_the_identity(name: str, change: dict[str, Any]) -> None:
    """A resume is refused when any entry, also one that this run did not reach, scores by other rules."""
    entries = {"maths": MATHS, "code": dataclasses.replace(MATHS, revision="7")}
    before = identity_sha256(route(_key, entries).semantic_identity)
    entries[name] = dataclasses.replace(entries[name], **change)
    assert identity_sha256(route(_key, entries).semantic_identity) != before


def test_names_and_key_are_part_of_the_identity() -> None:
    """An entry under another name, one more entry or another key make another reward."""
    made = [
        route(_key, {"maths": MATHS, "code": CODE}),
        route(_key, {"maths": CODE, "code": MATHS}),
        route(_key, {"maths": MATHS, "coding": CODE}),
        route(_key, {"maths": MATHS, "code": CODE, "more": CODE}),
        route(_key, {"maths": MATHS}),
        route(_other_key, {"maths": MATHS, "code": CODE}),
    ]
    assert len({identity_sha256(spec.semantic_identity) for spec in made}) == len(made)


def test_the_order_of_entries_does_not_matter() -> None:
    """A mapping in another order makes the same spec, but for the factory."""
    one, other = route(_key, {"maths": MATHS, "code": CODE}), route(_key, {"code": CODE, "maths": MATHS})
    assert dataclasses.replace(one, factory=other.factory) == other


def test_a_revision_may_be_given() -> None:
    """A change of the key's own code is declared like any other; an empty revision is refused as in any spec."""
    assert route(_key, {"maths": MATHS}, revision="3").revision == "3"
    with pytest.raises(RewardConfigError, match="revision: expected a string that is not empty, got ''"):
        route(_key, {"maths": MATHS}, revision="")


def test_a_route_runs_no_harder_than_its_entries() -> None:
    """It has as many groups in flight as the most careful entry allows, and is repeatable when all entries are."""
    quick = _entry(execution=ProviderExecution(groups_in_flight=8, repeatable=True))
    careful = _entry(execution=ProviderExecution(groups_in_flight=3, repeatable=True))
    assert route(_key, {"a": quick, "b": careful}).execution == careful.execution
    assert route(_key, {"a": quick, "b": MATHS}).execution == ProviderExecution()


def _faults(key: Any, entries: Any, **fields: Any) -> list[str]:
    with pytest.raises(RewardConfigError, match=r"^route is not valid:\n") as caught:
        route(key, entries, **fields)
    return [line.strip() for line in caught.value.message.splitlines()[1:]]


@pytest.mark.parametrize(
    ("entries", "shown"), [({}, r"{} (dict)"), (None, "None"), ([MATHS], "[RewardProviderSpec("), ("maths", "'maths'")]
)
def test_entries_are_a_mapping_that_is_not_empty(entries: Any, shown: str) -> None:
    """A route to nowhere is refused."""
    (fault,) = _faults(_key, entries)
    assert fault.startswith(f"expected a mapping from name to RewardProviderSpec that is not empty, got {shown}")


def test_every_entry_that_can_not_take_part_is_named() -> None:
    """Bad names, other types, several terms, a colliding diagnostic and a rank-local entry are listed at once."""
    faults = _faults(
        "maths",
        {
            "good": MATHS,
            "bad name": MATHS,
            "final": MATHS,
            "two": _entry(terms=("task", "style")),
            "loud": _entry(diagnostics=("score", "calls")),
            "partial": _entry(execution=ProviderExecution(rank_local=True)),
            "raw": 3,
        },
    )
    assert faults == [
        "key: expected a function of the context, got 'maths' (str)",
        "entry name 'bad name' (str): expected letters, digits and any of _ . - after a first letter or digit",
        "entry name 'final' is reserved for the framework: choose another",
        "'two': expected exactly one term, got task, style",
        "'loud': its diagnostic 'score' would collide with the route's own",
        "'partial': a rank-local provider sees parts of groups and can't be routed",
        "'raw': expected a RewardProviderSpec, got 3 (int)",
    ]


def test_diagnostics_that_would_meet_under_one_name_are_refused() -> None:
    """Entry `a` with diagnostic `b.score` and entry `a.b` would both report `a.b.score`."""
    with pytest.raises(RewardConfigError, match=r"diagnostic name 'a\.b\.score' stands twice"):
        route(_key, {"a": _entry(diagnostics=("b.score",)), "a.b": MATHS})


@pytest.mark.parametrize("term", ["final", "a/b", "", 5], ids=repr)
def test_a_shared_term_has_a_valid_name(term: Any) -> None:
    """It is refused like any other term."""
    with pytest.raises(RewardConfigError, match="terms: term name "):
        route(_key, {"maths": MATHS}, term=term)


def test_a_route_may_hold_another_route() -> None:
    """A route is a spec like any other, so mixes nest, and their identities with them."""
    inner = route(_key, {"maths": MATHS})
    outer = route(_other_key, {"inner": inner, "code": CODE})
    changed = route(_other_key, {"inner": route(_key, {"maths": _entry(revision="9")}), "code": CODE})
    assert outer.needs == ("prompt", "reference")
    assert outer.diagnostics == ("code.score", "inner.score", "inner.maths.score")
    assert identity_sha256(outer.semantic_identity) != identity_sha256(changed.semantic_identity)


def test_a_route_of_importable_parts_survives_pickling(pickled: Callable[..., Any]) -> None:
    """It can be sent to a worker like any other spec."""
    spec = route(_key, {"maths": MATHS, "code": CODE})
    back = pickled(spec)
    assert dataclasses.replace(back, factory=spec.factory) == spec
    request = RewardGroupRequest("g", (RewardCandidate("t", ""),), RewardContext())
    assert back.factory().evaluate(request) == spec.factory().evaluate(request)
