# SPDX-License-Identifier: Apache-2.0
"""The records of a rollout, and the one comparison that decides whether a completion was cut."""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.rewards.contract.request import RewardCandidate
from posttrain.schema import Observation, Trajectory, is_length_truncated, is_length_verdict
from strategies import json_values, text


def test_only_the_exact_verdict_length_is_truncation() -> None:
    """Of stop, length, nothing, tool_calls and LENGTH only the second counts as cut, on both sides of the boundary."""
    verdicts: list[str | None] = ["stop", "length", None, "tool_calls", "LENGTH"]
    # The third completion used up its whole budget of 512 tokens; without a verdict that still means "unknown".
    recorded: list[dict[str, Any]] = [{"finish_reason": verdict, "completion_token_count": 512} for verdict in verdicts]
    expected = [False, True, False, False, False]
    assert [is_length_verdict(verdict) for verdict in verdicts] == expected
    assert [is_length_truncated(policy_info) for policy_info in recorded] == expected
    candidates = [RewardCandidate(f"t{index}", "x", 512, verdict) for index, verdict in enumerate(verdicts)]
    assert [candidate.is_length_truncated for candidate in candidates] == expected


def test_a_verdict_that_was_never_recorded_is_not_truncation() -> None:
    """A rollout without the key reads as unknown, never as truncated."""
    assert is_length_truncated({}) is False


@pytest.mark.parametrize(
    "verdict",
    ["Length", " length", "length ", "length\n", "max_tokens", "", b"length", ["length"], np.array(["length"])],
    ids=repr,
)
def test_look_alikes_of_the_verdict_are_not_truncation(verdict: object) -> None:
    """Neither another case, nor blanks, nor another type that holds the word counts."""
    assert is_length_verdict(verdict) is False


@given(json_values | text | st.just("length") | st.binary(max_size=8) | st.floats())
def test_the_boundary_and_the_truncation_mask_agree(verdict: object) -> None:
    """Both comparators give the same bool for any value, and it is true for one string only."""
    expected = type(verdict) is str and verdict == "length"
    assert is_length_verdict(verdict) is expected
    assert is_length_truncated({"finish_reason": verdict}) is expected
    assert is_length_truncated(MappingProxyType({"finish_reason": verdict})) is expected


def test_an_engine_s_own_string_enum_is_read_as_its_text() -> None:
    """A subclass of str that says length is truncation, and no other member of it is."""

    class Verdict(enum.StrEnum):
        LENGTH = "length"
        STOP = "stop"

    assert [is_length_verdict(verdict) for verdict in Verdict] == [True, False]
    assert is_length_verdict(np.str_("length")) is True


def test_records_check_and_freeze_nothing_when_made() -> None:
    """Wrong types, disagreeing ids and the caller's own mutable objects are kept: the boundary judges them later."""
    prompt, representations = [{"role": "user"}], {"tokens": {1, 2}}
    observation = Observation(id=7, prompt=prompt, representations=representations)  # type: ignore[arg-type]  # on purpose
    trajectory = Trajectory(trajectory_id="", group_id="another", obs=observation, reward={"step": float("nan")})
    assert observation.prompt is prompt
    assert observation.representations is representations
    assert trajectory.obs is observation
    assert trajectory.completion is None
    assert trajectory.advantage is None
    trajectory.advantage = 0.5
    prompt.append({"role": "assistant"})
    assert trajectory.obs.prompt == [{"role": "user"}, {"role": "assistant"}]


def test_records_share_no_default() -> None:
    """Two records made without mappings do not share one."""
    one, other = (Trajectory(trajectory_id=name, group_id="g", obs=Observation(id="g", prompt="p")) for name in "ab")
    one.reward["task"] = 1.0
    one.policy_info["finish_reason"] = "stop"
    one.obs.representations["image"] = 1
    assert other.reward == {}
    assert other.policy_info == {}
    assert other.obs.representations == {}


@pytest.mark.parametrize("record", [Observation, Trajectory])
def test_records_are_made_by_keyword_only(record: type) -> None:
    """Positions are refused, so that a field added later can't shift the others."""
    with pytest.raises(TypeError, match="positional argument"):
        record("a", "b", "c")


def test_a_misspelt_field_is_refused() -> None:
    """A record has no room for attributes that it does not declare."""
    trajectory = Trajectory(trajectory_id="t", group_id="g", obs=Observation(id="g", prompt="p"))
    with pytest.raises(AttributeError, match="advantages"):
        trajectory.advantages = 1.0  # type: ignore[attr-defined]  # the mistake under test
