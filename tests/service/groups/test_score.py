# SPDX-License-Identifier: Apache-2.0
"""`POST /v1/score`: a group in, terms out, or a typed error; every failure is really caused."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from posttrain.rewards import RewardWorker
from posttrain.schema import Observation, Trajectory
from service.driving import Answer, Served

ServeIt = Callable[..., Served]
REFERENCE = {"answer": [1, 1.0, "é"]}


def group(*completions: str, **more: Any) -> dict[str, Any]:
    """A group of these completions."""
    candidates = [{"trajectory_id": f"t{at}", "completion": text} for at, text in enumerate(completions)]
    return {"provider": "lengths", "group_id": "g-1", "reference": REFERENCE, "candidates": candidates, **more}


def error_of(answer: Answer, status: int, kind: str) -> Any:
    """The error of an answer, of this status and kind; there is nothing else in it."""
    assert answer.status == status, answer
    assert set(answer.json) == {"error"}
    assert answer.json["error"]["kind"] == kind
    return answer.json["error"]


def test_a_group_is_scored(shared: Served) -> None:
    """Terms by identity in the order of the request, diagnostics over the group, and what made the scores."""
    answer = shared.group(group("one", "", "one two three"))
    assert answer.status == 200
    scores = answer.json
    assert 0 <= scores.pop("seconds") < 60
    # SHA-256 of the text {"a":1}.
    digest = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert scores == {
        "provider": "lengths",
        "revision": "7",
        "identity_sha256": digest,
        "group_id": "g-1",
        "items": [
            {"trajectory_id": "t0", "terms": {"length": 3.0, "same": 1.0}},
            {"trajectory_id": "t1", "terms": {"length": 0.0, "same": 1.0}},
            {"trajectory_id": "t2", "terms": {"length": 13.0, "same": 1.0}},
        ],
        # 1, 0 and 3 words.
        "diagnostics": {"words": 4 / 3},
    }


def test_curl_can_do_it(shared: Served, tmp_path: Path) -> None:
    """Any trainer in any language."""
    file = tmp_path / "group.json"
    file.write_text(json.dumps(group("ab")))
    command = ["curl", "-sS", "--noproxy", "*", "--json", f"@{file}", f"{shared.url}/v1/score"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["items"] == [{"trajectory_id": "t0", "terms": {"length": 2.0, "same": 1.0}}]


@pytest.mark.parametrize("other", [{"answer": [1, 1, "é"]}, {"answer": [True, 1.0, "é"]}, {"answer": [1.0, 1.0, "é"]}])
def test_the_reference_arrives_as_it_was_sent(shared: Served, other: Any) -> None:
    """1, 1.0 and true are three values, as they are everywhere else."""
    (item,) = shared.group(group("a", reference=other)).json["items"]
    assert item["terms"]["same"] == 0.0
    (item,) = shared.group(group("a")).json["items"]
    assert item["terms"]["same"] == 1.0


def test_the_result_is_that_of_the_stage(shared: Served) -> None:
    """A built-in provider gives the same terms here and in a worker."""
    completions = ["It is #### 18", "#### 17", "18", ""]
    trajectories = [
        Trajectory(
            trajectory_id=f"t{at}",
            group_id="g-1",
            obs=Observation(id="g-1", prompt="?", reference="#### 18"),
            completion=text,
        )
        for at, text in enumerate(completions)
    ]
    with RewardWorker(reward="gsm8k", group_size=4) as worker:
        worker.score(trajectories)
    answer = shared.group(group(*completions, provider="gsm8k", reference="#### 18"))
    assert [item["terms"] for item in answer.json["items"]] == [
        {"gsm8k": each.reward["gsm8k"]} for each in trajectories
    ]


@pytest.mark.parametrize(
    ("completions", "status", "kind", "text", "trajectory"),
    [
        (("ok", "raise"), 422, "contract", "raised KeyError: 'raise'", "t1"),
        (("ok", "nan", "ok"), 422, "contract", "length", "t1"),
        (("down", "ok"), 503, "unavailable", "503 from the judge", "t0"),
        (("ok", "key"), 400, "config", "the judge refused the key [value of JUDGE_API_KEY]", "t1"),
        (("ok", "hang"), 503, "unavailable", "2 s", "t1"),
        (("die", "ok"), 503, "unavailable", "SIGKILL", "t0"),
    ],
)
def test_a_failure_is_typed_and_named(
    shared: Served, completions: tuple[str, ...], status: int, kind: str, text: str, trajectory: str
) -> None:
    """Who, what, and no number for anybody in the group; the next group is scored."""
    error = error_of(shared.group(group(*completions)), status, kind)
    assert (error["provider"], error["group_id"], error["trajectory_id"]) == ("lengths", "g-1", trajectory)
    assert text in error["message"]
    assert shared.group(group("ok")).status == 200


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"reference": None}, "reference"),
        ({"candidates": [{"trajectory_id": "t", "completion": ""}] * 2}, "'t'"),
    ],
)
def test_a_group_that_breaks_the_contract_is_refused(shared: Served, change: dict[str, Any], text: str) -> None:
    """A needed input that is missing, an identity that stands twice: before any code of the provider runs."""
    error = error_of(shared.group(group("a") | change), 422, "contract")
    assert text in error["message"]
    assert error["provider"] == "lengths"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lenghts", "no provider is named 'lenghts'; did you mean 'lengths'?"),
        ("local", "it is rank-local"),
    ],
)
def test_a_provider_that_is_not_offered(shared: Served, name: str, text: str) -> None:
    """Status 400, of the kind config."""
    error = error_of(shared.group(group("a", provider=name)), 400, "config")
    assert text in error["message"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"[]", "the body is no group:\n  body: "),
        (json.dumps(group("a")).encode() + b"x", "the body is not JSON"),
        (json.dumps(group("a", reference=float("nan"))).encode(), "NaN is no JSON number"),
        (b'{"provider": "a", "provider": "b"}', "the key 'provider' stands twice"),
        (b'{"provider": "\xff"}', "not UTF-8"),
        (json.dumps(group()).encode(), "candidates: "),
        (json.dumps(group("a", group_id="")).encode(), "group_id: "),
        (json.dumps(group("a", group_id=7)).encode(), "group_id: "),
        (json.dumps(group("a", group_id="\ud800")).encode(), "group_id: "),
        (json.dumps(group("a", refrence=1)).encode(), "refrence: "),
        (
            json.dumps(group("a", candidates=[{"trajectory_id": "t", "completion": None}])).encode(),
            "candidates.0.completion: ",
        ),
        (
            json.dumps(
                group("a", candidates=[{"trajectory_id": "t", "completion": "", "completion_token_count": -1}])
            ).encode(),
            "candidates.0.completion_token_count: ",
        ),
        (
            json.dumps(
                group("a", candidates=[{"trajectory_id": "t", "completion": "", "completion_token_count": True}])
            ).encode(),
            "candidates.0.completion_token_count: ",
        ),
    ],
)
def test_a_body_that_is_no_group_is_refused(shared: Served, body: bytes, text: str) -> None:
    """Status 400, of the kind request, with the place and without the values."""
    error = error_of(shared.group(body), 400, "request")
    assert text in error["message"]


def test_a_body_that_is_too_long_is_refused(shared: Served) -> None:
    """Status 413, however its length is told."""
    body = json.dumps(group("x" * (1 << 20))).encode()
    assert "longer than 1048576 bytes" in error_of(shared.group(body), 413, "request")["message"]
    chunked = shared.ask("POST", "/v1/score", iter([body[:9], body[9:]]), Content_Type="application/json")
    assert "longer than 1048576 bytes" in error_of(chunked, 413, "request")["message"]


def test_a_factory_can_not_harm_the_service(serve_it: ServeIt) -> None:
    """It is called in a worker alone: one that dies is told; one that hangs, or fails to close, holds up no end."""
    served = serve_it("--catalog", "my_rewards:catalog", "--start-timeout", "300", "--drain", "0")
    error = error_of(served.group(group("a", provider="dying", reference=None)), 400, "config")
    assert "was killed by SIGKILL, after it had loaded the catalog" in error["message"]
    scores = served.group(group("a", provider="unclosed", reference=None))
    assert scores.json["items"] == [{"trajectory_id": "t0", "terms": {"one": 1.0}}]
    others = served.children()
    answers: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: answers.append(served.group(group("a", provider="stuck", reference=None)))
    )
    waiting.start()
    while served.children() <= others:
        sleep(0.01)
    assert served.end() == 0
    waiting.join(60)
    assert "closed" in error_of(answers[0], 503, "unavailable")["message"]
    assert "provider unclosed failed to close: raised ValueError: it can't be closed" in served.log
    assert "Traceback" not in served.log


def test_too_many_groups_are_refused(serve_it: ServeIt) -> None:
    """Status 429 with Retry-After; what was taken is scored; one that waits too long for a worker is told so."""
    flags = ("--catalog", "my_rewards:catalog", "--max-groups", "2", "--group-timeout", "2", "--drain", "0")
    served = serve_it(*flags)
    slow = group("1.5", provider="slow", reference=None)
    assert served.group(group("0", provider="slow", reference=None)).status == 200
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(served.group(slow))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = sorted(answer.status for answer in answers)
    assert statuses == [200, 200, *[429] * 6]
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.headers["retry-after"] == "1"
    assert "2 groups are waiting" in error_of(refused, 429, "busy")["message"]
