# SPDX-License-Identifier: Apache-2.0
"""Judges at work through the stage, against a real server: scores, diagnostics, samples, recorded answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from judging import answering, asked, batch, config_of
from posttrain.errors import RewardUnavailableError
from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
from posttrain.judges.provider import JudgeProvider
from posttrain.rewards import RewardReport, RewardWorker
from posttrain.schema import Trajectory
from posttrain.testing import FakeJudgeServer, JudgeReply

RUBRIC = RubricJudge(items=[RubricItem("length", "It is long.", scale=(0, 10))])
PAIRWISE = PairwiseJudge(criteria="Longer.", aggregation="win_rate")
LISTWISE = ListwiseJudge(criteria="Longer.", scale=(0, 10))


def verdict(shown: dict[str, str]) -> Any:
    """A judge that likes long responses, whatever it is asked."""
    if "response" in shown:
        return {"length": len(shown["response"])}
    if "first" in shown:
        first, second = len(shown["first"]), len(shown["second"])
        return {"winner": "first" if first > second else "second" if second > first else "tie"}
    return {label: len(text) for label, text in shown.items() if label not in ("prompt", "reference")}


@pytest.fixture
def server() -> Iterator[FakeJudgeServer]:
    """That judge."""
    with FakeJudgeServer(answering(verdict)) as running:
        yield running


def scored(judge: Any, config: JudgeConfig, trajectories: list[Trajectory], size: int) -> RewardReport:
    """Run the stage."""
    with RewardWorker(catalog={"judge": judge.spec(config)}, reward="judge", group_size=size) as worker:
        return worker.score(trajectories)


def diagnostic(report: RewardReport, name: str) -> float:
    """One diagnostic of the judge."""
    return report.metrics()[f"train/reward_provider/judge/{name}"]


def test_a_rubric_judge(server: FakeJudgeServer) -> None:
    """Each candidate has its own rating, one call each."""
    trajectories = batch({"g": ["x", "xxx"], "h": ["xxxx", ""]})
    report = scored(RUBRIC, config_of(server), trajectories, 2)
    assert [each.reward["length"] for each in trajectories] == [1.0, 3.0, 4.0, 0.0]
    assert (diagnostic(report, "calls"), diagnostic(report, "sample_count")) == (4, 4)


def test_a_pairwise_judge(server: FakeJudgeServer) -> None:
    """Win rates of three: 0, 1/2, 1; three pairs in two orders."""
    trajectories = batch({"g": ["xx", "x", "xxx"]})
    report = scored(PAIRWISE, config_of(server), trajectories, 3)
    assert [each.reward["preference"] for each in trajectories] == [0.5, 0.0, 1.0]
    assert (diagnostic(report, "calls"), diagnostic(report, "order_inconsistency")) == (6, 0.0)


def test_a_listwise_judge(server: FakeJudgeServer) -> None:
    """One call for the group."""
    trajectories = batch({"g": ["xx", "x", "xxx"]})
    report = scored(LISTWISE, config_of(server), trajectories, 3)
    assert [each.reward["preference"] for each in trajectories] == [2.0, 1.0, 3.0]
    assert diagnostic(report, "calls") == 1


def test_what_it_took_is_reported(server: FakeJudgeServer) -> None:
    """Two groups of two: four answers, one after a 429 and one after a reply that could not be used.

    A sound reply has 10 and 5 tokens, and so has the one that could not be used: 5 x 10 and 5 x 5. At 2 and 4 a million
    that is (50 x 2 + 25 x 4) / 10^6.
    """
    server.script(JudgeReply.error(429), "no verdict")
    config = config_of(server, max_retries=3, prompt_price_per_million=2.0, completion_price_per_million=4.0)
    trajectories = batch({"g": ["a", "b"], "h": ["c", "d"]})
    trajectories[3].policy_info = {"finish_reason": "length"}
    report = scored(RUBRIC, config, trajectories, 2)
    totals = {name: diagnostic(report, name) for name in ("calls", "retries", "parse_failures", "cached")}
    assert totals == {"calls": 6, "retries": 2, "parse_failures": 1, "cached": 0}
    assert (diagnostic(report, "prompt_tokens"), diagnostic(report, "completion_tokens")) == (50, 25)
    assert diagnostic(report, "cost") == pytest.approx(200e-6)
    assert diagnostic(report, "truncated_candidates") == 1
    assert 0 < diagnostic(report, "latency_mean") <= diagnostic(report, "latency_max")


def test_a_request_is_what_was_configured(server: FakeJudgeServer) -> None:
    """Model, sampling and schema go out; each sample is a question of its own."""
    config = config_of(server, model="judge-7b", temperature=0.5, seed=11, samples=2, max_tokens=64)
    scored(RUBRIC, config, batch({"g": ["xx"]}), 1)
    bodies = [request.body for request in server.requests]
    assert sorted(body["seed"] for body in bodies) == [11, 12]
    assert {(body["model"], body["temperature"], body["max_tokens"]) for body in bodies} == {("judge-7b", 0.5, 64)}
    schema = bodies[0]["response_format"]["json_schema"]
    assert schema["name"] == "ratings"
    assert schema["schema"]["required"] == ["length"]


def test_samples_are_averaged(server: FakeJudgeServer) -> None:
    """1 and 4 of [0, 10]: the mean is 2.5, and the agreement 1 - 3/10."""
    server.script('{"length": 1}', '{"length": 4}')
    trajectories = batch({"g": ["xx"]})
    report = scored(RUBRIC, config_of(server, samples=2), trajectories, 1)
    assert trajectories[0].reward["length"] == 2.5
    assert diagnostic(report, "sample_agreement") == pytest.approx(0.7)


@pytest.mark.parametrize("judge", [RUBRIC, PAIRWISE, LISTWISE], ids=lambda judge: type(judge).__name__)
def test_recorded_answers_are_not_asked_again(server: FakeJudgeServer, judge: Any, tmp_path: Path) -> None:
    """A second run has the same scores without a call, under other ids and in another order of the candidates."""
    config = config_of(server, cache=str(tmp_path / "answers.sqlite"))
    first = batch({"g": ["xx", "x", "xxx"]})
    scored(judge, config, first, 3)
    sent = len(server.requests)
    second = batch({"other": ["xxx", "xx", "x"]})
    report = scored(judge, config, second, 3)
    assert len(server.requests) == sent
    assert [each.reward for each in second] == [first[at].reward for at in (2, 0, 1)]
    assert (diagnostic(report, "calls"), diagnostic(report, "cached")) == (0, sent)


def test_another_judge_does_not_use_them(server: FakeJudgeServer, tmp_path: Path) -> None:
    """Answers are recorded under the judge's content: a weight that no request shows is content too."""
    config = config_of(server, cache=str(tmp_path / "answers.sqlite"))
    for weight in (1.0, 2.0):
        judge = RubricJudge(items=[RubricItem("length", "Long.", weight=weight, scale=(0, 10))], fold="q")
        scored(judge, config, batch({"g": ["xx"]}), 1)
    assert len(server.requests) == 2
    assert server.requests[0].raw == server.requests[1].raw


def test_the_declared_concurrency_is_filled() -> None:
    """Groups of one call each keep as many calls in flight as declared, and no more."""
    with FakeJudgeServer(answering(verdict)) as server:
        server.hold()
        trajectories = batch({f"g{at}": ["x"] for at in range(40)})
        with RewardWorker(
            catalog={"judge": RUBRIC.spec(config_of(server, concurrency=16))}, reward="judge", group_size=1
        ) as worker:
            thread = Thread(target=worker.score, args=(trajectories,))
            thread.start()
            server.wait_for(16)
            server.release()
            thread.join()
        assert server.peak_in_flight == 16
    assert len(server.requests) == 40


@pytest.mark.parametrize(
    ("judge", "value"), [(RUBRIC, r"\(1.0,\)"), (PAIRWISE, "0.5"), (LISTWISE, "{'r[0-9a-f]+': 1.0")]
)
def test_a_probe_asks_one_real_question(server: FakeJudgeServer, judge: Any, value: str, tmp_path: Path) -> None:
    """It says what came back, and asks again although an answer was recorded."""
    config = config_of(server, cache=str(tmp_path / "answers.sqlite"))
    provider: Any = judge.spec(config).factory()
    assert isinstance(provider, JudgeProvider)
    provider.open()
    try:
        for _ in range(2):
            assert re.match(rf"fake at http://127.* answered {value}.* in [0-9.]+ s", provider.probe())
    finally:
        provider.close()
    assert len(server.requests) == 2
    assert asked(server)[0]["prompt"] == "What is 2 + 3?"


def test_a_probe_of_a_row_rubric(server: FakeJudgeServer) -> None:
    """It brings a rubric of its own."""
    server.script('{"right": 1}')
    provider: Any = RubricJudge(fold="q", row_rubric="rubric", show_reference=True).spec(config_of(server)).factory()
    provider.open()
    assert "answered (1.0,)" in provider.probe()
    provider.close()


def test_a_probe_that_finds_no_judge(server: FakeJudgeServer) -> None:
    """What comes back can't be used: the probe says so."""
    server.script("no verdict", "no verdict")
    provider: Any = RUBRIC.spec(config_of(server)).factory()
    provider.open()
    with pytest.raises(RewardUnavailableError, match="unparsable"):
        provider.probe()
    provider.close()
