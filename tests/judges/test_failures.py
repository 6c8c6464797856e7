# SPDX-License-Identifier: Apache-2.0
"""What goes wrong behind a judge is an error by name, whatever the failure policy, and never a number."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from judging import answering, batch, config_of
from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.frozen import Json
from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
from posttrain.rewards import RewardWorker
from posttrain.testing import FakeJudgeServer, JudgeReply, JudgeRequest

JUDGE = RubricJudge(items=[RubricItem("score", "It is good.", scale=(0, 10))])


def worker_of(config: JudgeConfig, judge: Any = JUDGE, size: int = 2, **settings: Any) -> RewardWorker:
    """A stage whose one provider is the judge."""
    return RewardWorker(catalog={"judge": judge.spec(config)}, reward="judge", group_size=size, **settings)


def by_completion(request: JudgeRequest) -> str | JudgeReply:
    """Fails for good where the response says so."""
    text = request.text
    if "unavailable" in text:
        return JudgeReply.error(503)
    return "no verdict" if "unparsable" in text else '{"score": 5}'


@pytest.mark.parametrize("bad", ["unavailable", "unparsable"])
def test_an_exhausted_judge_drops_its_group_where_that_is_declared(bad: str) -> None:
    """The other groups are scored; the dropped one has neither score nor advantage, and is counted."""
    trajectories = batch({"a": ["x", "y"], "b": [bad, "y"], "c": ["x", "z"]})
    trajectories[2].reward = {"step": 0.25}
    with (
        FakeJudgeServer(by_completion) as server,
        worker_of(config_of(server), on_unavailable="drop_group", max_dropped_fraction=0.5) as worker,
    ):
        report = worker.score(trajectories)
    assert [each.reward.get("score") for each in trajectories] == [5.0, 5.0, None, None, 5.0, 5.0]
    assert trajectories[2].reward == {"step": 0.25}
    assert [each.advantage for each in trajectories] == [0.0, 0.0, None, None, 0.0, 0.0]
    assert report.metrics()["train/group/dropped_count"] == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, RewardConfigError) for status in (401, 403, 404)),
        *((status, RewardContractError) for status in (400, 422)),
    ],
)
def test_a_final_status_fails_the_batch_whatever_the_policy(status: int, kind: type[RewardError]) -> None:
    """A bad key or a bad request is not hidden by dropping groups, and not asked again."""
    trajectories = batch({"a": ["x", "y"]})
    with (
        FakeJudgeServer(JudgeReply.error(status, "go away")) as server,
        worker_of(config_of(server), on_unavailable="drop_group", max_dropped_fraction=1.0) as worker,
        pytest.raises(kind, match=f"(?s){status}.*go away"),
    ):
        worker.score(trajectories)
    assert len(server.requests) <= 2
    assert all((each.reward, each.advantage) == ({}, None) for each in trajectories)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ('{"score": 11}', "off_scale"),
        ('{"score": true}', "unparsable"),
        ('{"score": "7"}', "unparsable"),
        ('{"score": NaN}', "unparsable"),
        ('{"score": 1e999}', "off_scale"),
        ('{"score": 7, "score": 8}', "unparsable"),
        ('{"score": [7]}', "unparsable"),
        ('{"Score": 7}', "missing"),
        ('{"verdict": {"score": 7}}', "missing"),
        ('{"score": 7} or rather {"score": 11}', "off_scale"),
        ("7", "unparsable"),
        ("[7]", "unparsable"),
        ("", "empty"),
        (JudgeReply(body=b"<html>busy</html>"), "malformed"),
        (JudgeReply(body=b'{"choices": []}'), "malformed"),
        (JudgeReply(content='{"score": 7}', finish_reason="length"), "truncated"),
        (JudgeReply(content='{"score": 7}', finish_reason="content_filter"), "filtered"),
        (JudgeReply(drop="mid body"), ""),
        (JudgeReply.error(500), "500"),
    ],
)
def test_no_such_reply_is_a_number(reply: Any, reason: str) -> None:
    """Every kind of bad reply, twice: the batch fails by name and is as it was."""
    trajectories = batch({"g": ["x", "y"]})
    with (
        FakeJudgeServer(reply) as server,
        worker_of(config_of(server)) as worker,
        pytest.raises(RewardUnavailableError, match=f"(?s)provider 'judge', group 'g'.*{reason}"),
    ):
        worker.score(trajectories)
    assert all((each.reward, each.advantage) == ({}, None) for each in trajectories)


def test_a_failed_sample_is_never_left_out() -> None:
    """Two good samples of three make no score."""
    replies = iter(['{"score": 5}', '{"score": 5}'])
    with (
        FakeJudgeServer(lambda _: next(replies, "no verdict")) as server,
        worker_of(config_of(server, samples=3), size=1) as worker,
        pytest.raises(RewardUnavailableError, match="no JSON object"),
    ):
        worker.score(batch({"g": ["x"]}))


def test_a_failed_pair_fails_the_group() -> None:
    """A tournament with a hole in it is not aggregated."""

    def verdict(shown: dict[str, str]) -> Json:
        return {"winner": "first" if {"b", "c"} != set(shown.values()) - {"What is 6 x 7?"} else "both"}

    judge = PairwiseJudge(criteria="Better.", aggregation="win_rate")
    with (
        FakeJudgeServer(answering(verdict)) as server,
        worker_of(config_of(server), judge, 3) as worker,
        pytest.raises(RewardUnavailableError, match=r"(?s)pair 'g/[12]', 'g/[12]'.*off_scale: 'winner'.*got 'both'"),
    ):
        worker.score(batch({"g": ["a", "b", "c"]}))


def test_a_bad_row_is_a_contract_error() -> None:
    """It names group and field, nothing is asked about it, and no policy drops it."""
    judge = RubricJudge(fold="quality", row_rubric="rubric")
    trajectories = batch({"g": ["x", "y"]}, reference={"rubric": [{"id": "a", "text": "A", "scale": [1, 1]}]})
    with (
        FakeJudgeServer() as server,
        worker_of(config_of(server), judge, on_unavailable="drop_group", max_dropped_fraction=1.0) as worker,
        pytest.raises(RewardContractError, match=r"(?s)provider 'judge', group 'g'.*reference\.rubric\[0\]\.scale"),
    ):
        worker.score(trajectories)
    assert server.requests == []


@pytest.mark.parametrize("judge", [PairwiseJudge(criteria="Better."), ListwiseJudge(criteria="Better.", ask="ranks")])
def test_a_group_of_one_is_not_compared(judge: Any) -> None:
    """It is refused by name, without a question."""
    with (
        FakeJudgeServer() as server,
        worker_of(config_of(server), judge, 1) as worker,
        pytest.raises(RewardContractError, match=r"group 'g'.*a group of one candidate can't be compared"),
    ):
        worker.score(batch({"g": ["x"]}))
    assert server.requests == []


def test_a_candidate_with_half_a_surrogate_pair_is_judged() -> None:
    """Text that UTF-8 can't carry is shown as a JSON string; the request goes out."""
    with FakeJudgeServer('{"score": 5}') as server, worker_of(config_of(server), size=1) as worker:
        trajectories = batch({"g": ["a\ud800b"]})
        worker.score(trajectories)
    assert '"a\\ud800b"' in server.requests[0].text
    assert trajectories[0].reward["score"] == 5.0


def test_one_failing_call_ends_the_others() -> None:
    """When one candidate fails for good, calls that wait are not sent any more, and the worker closes."""
    with FakeJudgeServer(by_completion) as server:
        with (
            worker_of(config_of(server, concurrency=1, max_retries=0), size=50) as worker,
            pytest.raises(RewardUnavailableError, match="503"),
        ):
            worker.score(batch({"g": ["unavailable", *(f"x{at}" for at in range(49))]}))
        assert len(server.requests) < 50


def test_two_batches_in_two_threads() -> None:
    """Two workers of one process judge at the same time, each its own groups."""

    def longer(shown: dict[str, str]) -> Json:
        return {"score": len(shown["response"])}

    batches = [batch({f"g{at}": ["x" * (at + 1), "y" * 5] for at in range(4)}) for _ in range(2)]
    with FakeJudgeServer(answering(longer)) as server:

        def work(trajectories: Any) -> None:
            with worker_of(config_of(server)) as worker:
                worker.score(trajectories)

        threads = [threading.Thread(target=work, args=(each,)) for each in batches]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for trajectories in batches:
        assert [each.reward["score"] for each in trajectories] == [1.0, 5.0, 2.0, 5.0, 3.0, 5.0, 4.0, 5.0]


def test_the_key_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in the text of a refusal that echoes it, nor in a repr."""
    monkeypatch.setenv("JUDGE_KEY", "sk-very-secret-value")

    def echo(request: JudgeRequest) -> JudgeReply:
        return JudgeReply.error(401, f"bad key {request.headers['authorization']}")

    with FakeJudgeServer(echo) as server:
        spec = JUDGE.spec(config_of(server, credential="JUDGE_KEY"))
        provider = spec.factory()
        with (
            worker_of(config_of(server, credential="JUDGE_KEY")) as worker,
            pytest.raises(RewardConfigError, match="JUDGE_KEY") as raised,
        ):
            worker.score(batch({"g": ["x", "y"]}))
    seen = [repr(provider), repr(spec), repr(worker), json.dumps(spec.semantic_identity)]
    seen += [str(raised.value), str(raised.value.cause_text), repr(raised.value.__dict__)]
    assert not any("very-secret" in text for text in seen)
