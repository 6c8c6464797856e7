# SPDX-License-Identifier: Apache-2.0
"""Failures that were seen in the wild, with their own inputs, against a real server and the real curl."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from posttrain.errors import RewardContractError, RewardError
from posttrain.media.client import RewardServiceClient
from posttrain.media.sample import ServiceScore
from posttrain.testing.reward_service import FakeRewardService, Step, answer, close_unanswered, enqueued, scored
from reward_service_faults import config_for, spooled


def _scored(service: FakeRewardService, **settings: Any) -> tuple[RewardServiceClient, ServiceScore | RewardError]:
    client = RewardServiceClient(config_for(service, **settings))
    with spooled(client.enqueue_line(None), b"array") as sample:
        try:
            return client, client.score(sample, deadline=time.monotonic() + 60)
        except RewardError as error:
            return client, error


def test_service_01_an_accepted_job_is_not_queued_again() -> None:
    """Case service-01: the job is taken, then the connection closes. One enqueue, an ambiguous error, no pull."""
    with FakeRewardService([close_unanswered, enqueued("u2")]) as service:
        client, found = _scored(service)
        assert isinstance(found, RewardContractError)
        assert "ambiguous enqueue, remote work may be orphaned" in str(found)
        assert len(service.enqueues) == 1
        assert service.enqueues[0].sha256
        assert service.pulls == []
        assert client.orphans == 1


# The case writes a reply as {"status": HTTP status, "message" or "uuid" and "state": ...}. `status` being taken there,
# `state` stands for the body's `status` member, which is what the protocol names (docs/design/020).
_PULLS = [
    {"status": 400, "message": "Not found scores for u-1"},
    {"status": 202, "uuid": "u-1", "state": "pending"},
    {"status": 200, "scores": {"overall_reward": [0.5]}},
]
_TERMINAL = [
    {"status": 400, "message": "Not found scores for u-2"},
    {"status": 400, "message": "bad type"},
    {"status": 202, "uuid": "u-9", "state": "pending"},
    {"status": 400, "message": "not found scores for u-1 yet"},
]


def _steps(replies: Sequence[dict[str, Any]]) -> list[Step]:
    names = {"state": "status"}
    return [
        answer(reply["status"], {names.get(key, key): value for key, value in reply.items() if key != "status"})
        for reply in replies
    ]


def test_service_02_two_pending_forms_then_the_score() -> None:
    """Case service-02, the main sequence: the legacy 400 and the 202 are waited for, then 0.5 is taken."""
    with FakeRewardService([enqueued("u-1")], _steps(_PULLS)) as service:
        _, found = _scored(service)
        assert isinstance(found, ServiceScore)
        assert (found.value, found.polls, found.pull_retries) == (0.5, 3, 0)
        assert [pull.form for pull in service.pulls] == [{"uuid": "u-1", "type": "dance_grpo"}] * 3


@pytest.mark.parametrize("reply", _TERMINAL)
def test_service_02_other_400_and_202_end_at_once(reply: dict[str, Any]) -> None:
    """Case service-02, each terminal reply: one call, then an error."""
    with FakeRewardService([enqueued("u-1")], _steps([reply])) as service:
        _, found = _scored(service)
        assert isinstance(found, RewardContractError)
        assert len(service.pulls) == 1


def test_service_02_the_word_state_is_not_the_word_status() -> None:
    """Taken literally, a 202 without `status` does not carry what the protocol asks for, and is final."""
    with FakeRewardService([enqueued("u-1")], [answer(202, {"uuid": "u-1", "state": "pending"})]) as service:
        _, found = _scored(service)
        assert isinstance(found, RewardContractError)
        assert 'a 202 must carry our uuid "u-1" and status "pending"' in str(found)


def test_service_04_an_error_with_status_200_is_an_error() -> None:
    """Case service-04: scores null with an error text is final, quotes the text and is not polled again."""
    body = {"error": "prompts (1) must match batch (4)", "scores": None, "type": "image_reward"}
    with FakeRewardService(pull=[answer(200, body)]) as service:
        client, found = _scored(service)
        assert isinstance(found, RewardContractError)
        assert "prompts (1) must match batch (4)" in str(found)
        assert len(service.pulls) == 1
        assert client.orphans == 0


def test_service_04_a_prompt_goes_with_each_item_or_with_none() -> None:
    """Case service-04: a config that sends prompts is given one, another must not be, before anything is sent."""
    with FakeRewardService() as service:
        with_prompts = RewardServiceClient(config_for(service, send_prompts=True))
        assert b'"prompts": ["a fox"]' in with_prompts.enqueue_line("a fox")
        with pytest.raises(RewardContractError, match="expected a prompt, since send_prompts is set"):
            with_prompts.enqueue_line(None)
        with pytest.raises(RewardContractError, match="expected no prompt"):
            RewardServiceClient(config_for(service)).enqueue_line("a fox")
        assert service.requests == []


@pytest.mark.parametrize("reply", [{"uuid": "u1", "replica_id": "rep-7"}, {"uuid": "u2"}])
def test_service_05_the_replica_is_named_with_every_pull(reply: dict[str, str]) -> None:
    """Case service-05: every pull of u1 carries the header of rep-7; u2 is pulled too, without the header."""
    with FakeRewardService([answer(200, reply)], _steps([{"status": 500}, {"status": 503}, _PULLS[2]])) as service:
        _, found = _scored(service)
        assert isinstance(found, ServiceScore)
        assert found.value == 0.5
        headers = [pull.headers.get("x-lepton-replica-target") for pull in service.pulls]
        assert headers == [reply.get("replica_id")] * 3
        assert {pull.form["uuid"] for pull in service.pulls} == {reply["uuid"]}


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({"overall_reward": [-4.276785373687744]}, -2.0),
        ({"overall_reward": ["NaN"]}, "expected a finite number"),
        ({"overall_reward": [0.1, 0.2]}, "expected exactly one score for the one sample sent, got 2"),
        ({"overall_reward": []}, "expected exactly one score for the one sample sent, got 0"),
        ({"overall_reward": 0.1}, "expected a list of one number"),
        ({"vq_reward": [0.1]}, "no series 'overall_reward'"),
    ],
)
def test_service_08_exactly_one_finite_score(scores: Any, expected: float | str) -> None:
    """Case service-08: -4.2767... is clamped to -1, then scaled by 2; each of the other replies is an error."""
    with FakeRewardService(pull=[scored(scores)]) as service:
        config = config_for(service, score_clip=(-1.0, 1.0), score_scale=2.0)
        _, found = _scored(service, score_clip=(-1.0, 1.0), score_scale=2.0)
        if isinstance(expected, float):
            assert isinstance(found, ServiceScore)
            assert found.value == -4.276785373687744
            assert config.score(found.value) == expected
        else:
            assert isinstance(found, RewardContractError)
            assert expected in str(found)
