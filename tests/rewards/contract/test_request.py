# SPDX-License-Identifier: Apache-2.0
"""The request is immutable, pickles, and is generic over the kind of candidate."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, assert_type

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.frozen import freeze
from posttrain.rewards.contract.request import RewardCandidate, RewardContext, RewardGroupRequest
from strategies import canonical_text, json_values

utf8 = st.text(max_size=20)
candidates = st.builds(
    RewardCandidate, utf8, utf8, st.none() | st.integers(0, 10**6), st.none() | st.sampled_from(["stop", "length"])
)
contexts = st.tuples(json_values.map(freeze), json_values.map(freeze)).map(lambda inputs: RewardContext(*inputs))
requests = st.tuples(utf8, st.lists(candidates, min_size=1, max_size=4).map(tuple), contexts).map(
    lambda parts: RewardGroupRequest(*parts)
)


@dataclass(frozen=True)
class _Latent:
    """Another kind of candidate: it is scored from something other than text."""

    trajectory_id: str
    latent: object


def _request() -> RewardGroupRequest:
    return RewardGroupRequest(
        group_id="g",
        candidates=(RewardCandidate("t0", ""), RewardCandidate("t1", "text", 3, "length")),
        context=RewardContext(prompt="p", reference=freeze({"ids": [1, 2]})),
    )


def test_a_candidate_knows_only_what_the_rollout_recorded() -> None:
    """Without a count or a verdict both are None, and no verdict is not a truncation."""
    candidate = RewardCandidate("t", "")
    assert (candidate.completion, candidate.completion_token_count, candidate.finish_reason) == ("", None, None)
    assert candidate.is_length_truncated is False
    assert RewardCandidate("t", "", finish_reason="length").is_length_truncated is True


def test_a_context_holds_nothing_that_was_not_declared() -> None:
    """Inputs that no `needs` declares are None."""
    assert (RewardContext().prompt, RewardContext().reference) == (None, None)
    assert RewardContext(reference="r").prompt is None


def _parts() -> list[tuple[Any, str]]:
    request = _request()
    owners = (request, request.context, request.candidates[1])
    return [(owner, field) for owner in owners for field in owner.__struct_fields__]


@pytest.mark.parametrize(
    ("owner", "field"), _parts(), ids=lambda part: part if isinstance(part, str) else type(part).__name__
)
def test_no_field_can_be_written_or_deleted(owner: Any, field: str) -> None:
    """Every field of the request, its context and its candidates refuses assignment and deletion."""
    before = getattr(owner, field)
    with pytest.raises(AttributeError, match="immutable"):
        setattr(owner, field, None)
    with pytest.raises(AttributeError, match="immutable"):
        delattr(owner, field)
    if sys.version_info < (3, 12):  # later versions let this back door stand open; no code of ours goes through it
        with pytest.raises(TypeError, match="can't apply this __setattr__"):
            object.__setattr__(owner, field, None)
    assert getattr(owner, field) is before


def test_nothing_can_be_added_to_a_request() -> None:
    """A request, its context and its candidates take no attribute that they don't declare."""
    request = _request()
    for owner in (request, request.context, request.candidates[0]):
        with pytest.raises(AttributeError, match=r"immutable|no attribute"):
            owner.note = "x"  # type: ignore[union-attr]  # the mistake under test


def test_containers_of_a_request_cannot_be_changed() -> None:
    """The candidates are a tuple and the structured inputs are frozen."""
    request: Any = _request()
    with pytest.raises(TypeError, match="item assignment"):
        request.candidates[0] = None
    with pytest.raises(TypeError, match="frozen"):
        request.context.reference["ids"] = ()
    with pytest.raises(TypeError, match="item assignment"):
        request.context.reference["ids"][0] = 9


@given(requests, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_a_request_survives_pickling(pickled: Callable[..., Any], request_: RewardGroupRequest, protocol: int) -> None:
    """In another process the request is the same, its inputs type for type and still frozen."""
    back = pickled(request_, protocol)
    assert type(back) is RewardGroupRequest
    assert (back.group_id, back.candidates) == (request_.group_id, request_.candidates)
    for before, after in (
        (request_.context.prompt, back.context.prompt),
        (request_.context.reference, back.context.reference),
    ):
        assert canonical_text(after) == canonical_text(before)
        if isinstance(after, dict):
            with pytest.raises(TypeError, match="frozen"):
                after.clear()


def test_a_request_can_be_deep_copied() -> None:
    """A deep copy is an equal request."""
    assert copy.deepcopy(_request()) == _request()


def test_a_request_is_written_as_json() -> None:
    """A failing request can be recorded field by field as it is."""
    assert msgspec.json.decode(msgspec.json.encode(_request())) == {
        "group_id": "g",
        "candidates": [
            {"trajectory_id": "t0", "completion": "", "completion_token_count": None, "finish_reason": None},
            {"trajectory_id": "t1", "completion": "text", "completion_token_count": 3, "finish_reason": "length"},
        ],
        "context": {"prompt": "p", "reference": {"ids": [1, 2]}},
    }


def test_a_request_carries_another_kind_of_candidate() -> None:
    """A type checker knows the kind of the candidates; without one it is the text candidate."""
    latents = RewardGroupRequest(group_id="g", candidates=(_Latent("t", object()),), context=RewardContext())
    assert_type(latents, RewardGroupRequest[_Latent])
    assert_type(latents.candidates, tuple[_Latent, ...])
    subscripted = RewardGroupRequest[_Latent]("g", (_Latent("t", None),), RewardContext())
    assert_type(subscripted.candidates[0].latent, object)
    bare: RewardGroupRequest = _request()
    assert_type(bare.candidates, tuple[RewardCandidate, ...])
    assert latents.candidates[0].trajectory_id == subscripted.candidates[0].trajectory_id == "t"
    assert type(subscripted) is RewardGroupRequest


def test_a_type_checker_keeps_the_kinds_apart() -> None:
    """A request of latents does not pass for one of texts, but passes where any candidate will do."""
    latents = RewardGroupRequest(group_id="g", candidates=(_Latent("t", None),), context=RewardContext())
    # An unused ignore is an error of the type checker, so this line proves that it refuses the assignment.
    texts: RewardGroupRequest[RewardCandidate] = latents  # type: ignore[assignment]  # the mistake under test
    anything: RewardGroupRequest[object] = latents
    assert anything is latents
    assert len(texts.candidates) == 1


def test_latents_pass_through_a_request_untouched() -> None:
    """A candidate that is not text is neither copied nor inspected."""
    latent = object()
    request = RewardGroupRequest(group_id="g", candidates=(_Latent("t", latent),), context=RewardContext())
    assert request.candidates[0].latent is latent
