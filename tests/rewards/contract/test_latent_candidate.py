# SPDX-License-Identifier: Apache-2.0
"""A latent stays the rollout's own object on its rank: whatever would copy, send or record it is refused by name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from posttrain.errors import RewardContractError
from posttrain.frozen import freeze
from posttrain.rewards.contract.request import LatentCandidate, RewardContext, RewardGroupRequest


class _Untouchable:
    """A latent that fails whatever looks inside it."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("the latent was compared")

    def __hash__(self) -> int:
        raise AssertionError("the latent was hashed")

    def __repr__(self) -> str:
        raise AssertionError("the latent was printed")

    def __bool__(self) -> bool:
        raise AssertionError("the latent was tested for truth")


def _request(candidate: LatentCandidate) -> RewardGroupRequest[LatentCandidate]:
    return RewardGroupRequest("g", (candidate,), RewardContext())


def test_it_holds_the_very_object() -> None:
    """The latent is handed over as it is, also an array, whose comparison gives no bool."""
    latent = np.zeros(3)
    candidate = LatentCandidate("t", latent)
    assert (candidate.trajectory_id, candidate.latent is latent) == ("t", True)
    assert _request(candidate).candidates[0] is candidate


def test_its_text_is_its_identity_alone() -> None:
    """Neither it nor a request that holds it shows anything of the latent."""
    candidate = LatentCandidate("t", _Untouchable())
    assert repr(candidate) == "LatentCandidate('t')"
    assert "LatentCandidate('t')" in repr(_request(candidate))


def test_two_are_equal_when_they_are_one() -> None:
    """Equality is identity, and never looks at the latent."""
    latent = _Untouchable()
    candidate, twin = LatentCandidate("t", latent), LatentCandidate("t", latent)
    assert candidate == candidate  # noqa: PLR0124  # the very object is what is compared
    assert candidate != twin
    assert _request(candidate) == _request(candidate)
    assert _request(candidate) != _request(twin)


@pytest.mark.parametrize("field", ["trajectory_id", "latent", "note"])
def test_no_field_can_be_written_or_deleted(field: str) -> None:
    """It is immutable, and takes no new attribute."""
    candidate: Any = LatentCandidate("t", None)
    with pytest.raises(AttributeError, match=f"immutable type: 'LatentCandidate' .can't set '{field}'"):
        setattr(candidate, field, 1)
    with pytest.raises(AttributeError, match=f"immutable type: 'LatentCandidate' .can't delete '{field}'"):
        delattr(candidate, field)


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (hash, "not hashed: key by its trajectory_id"),
        (lambda each: {each}, "not hashed"),
        (copy.copy, "not copied: its latent stays the rollout's own"),
        (copy.deepcopy, "not copied"),
        (lambda each: copy.deepcopy(_request(each)), "not copied"),
        (pickle.dumps, "not pickled: a latent stays on its rank"),
        (lambda each: pickle.dumps(_request(each)), "not pickled"),
        *[(lambda each, protocol=number: pickle.dumps(each, protocol), "not pickled") for number in range(6)],
    ],
)
def test_what_would_take_the_latent_elsewhere_is_refused(use: Callable[[Any], Any], why: str) -> None:
    """Hashing, copying and pickling name the candidate and the reason, alone and inside of a request."""
    with pytest.raises(TypeError, match=rf"LatentCandidate\('t-1'\) is {why}"):
        use(LatentCandidate("t-1", _Untouchable()))


def test_it_is_not_written_as_data() -> None:
    """No encoder of ours takes it for a record, and it does not pass for a JSON value."""
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        with pytest.raises(TypeError, match="LatentCandidate"):
            encode(_request(LatentCandidate("t", 1.0)))
    with pytest.raises(RewardContractError, match="LatentCandidate"):
        freeze(LatentCandidate("t", 1.0), "prompt")
