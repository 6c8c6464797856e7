# SPDX-License-Identifier: Apache-2.0
"""What each answer to a pull means: every row of the protocol's tables, and what lies between them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardError
from posttrain.media.wire import Pending, Pulled, Quoter, Scored, Unanswered, read_pulled

UUID = "u-1"


def _read(status: int, body: Any, score_key: str = "overall_reward", location: str = "") -> Pulled:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_pulled(
        status, content, uuid=UUID, score_key=score_key, what="pull", quoted=Quoter(["tok-9"]), location=location
    )


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (202, {"uuid": UUID, "status": "pending"}),
        (202, {"status": "pending", "uuid": UUID, "position": 3}),
        (400, {"message": "Not found scores for u-1"}),
        (400, b'{ "message" : "Not found scores for \\u0075-1" }'),
    ],
)
def test_the_two_pending_shapes_are_waited_for(status: int, body: Any) -> None:
    """A 202 with our uuid and status "pending", and the legacy 400 whose parsed message is exact, mean: not yet."""
    assert isinstance(_read(status, body), Pending)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (202, {"uuid": "u-9", "status": "pending"}),
        (202, {"uuid": UUID, "status": "Pending"}),
        (202, {"uuid": UUID, "status": "running"}),
        (202, {"uuid": UUID, "state": "pending"}),
        (202, {"uuid": "U-1", "status": "pending"}),
        (202, {"uuid": " u-1", "status": "pending"}),
        (202, {"status": "pending"}),
        (202, {"uuid": UUID}),
        (202, {"uuid": UUID, "status": True}),
        (202, [UUID, "pending"]),
        (202, b""),
        (202, b"pending"),
        (202, b'{"uuid":"u-9","uuid":"u-1","status":"pending"}'),
        (400, {"message": "Not found scores for u-2"}),
        (400, {"message": "not found scores for u-1"}),
        (400, {"message": "not found scores for u-1 yet"}),
        (400, {"message": "Not found scores for u-1 "}),
        (400, {"message": "Not found scores for u-1."}),
        (400, {"message": ["Not found scores for u-1"]}),
        (400, {"detail": "Not found scores for u-1"}),
        (400, "Not found scores for u-1"),
        (400, b"Not found scores for u-1"),
        (400, b'{"message":"bad","message":"Not found scores for u-1"}'),
        (400, {"message": "bad type"}),
        (400, {"detail": "Invalid multipart data."}),
        (400, {"detail": "Missing boundary in multipart."}),
        (400, b"Invalid HTTP request received."),
        (400, b""),
    ],
)
def test_everything_near_a_pending_shape_is_final(status: int, body: Any) -> None:
    """A foreign uuid, another word, another member or another case ends the wait at once."""
    with pytest.raises(RewardContractError, match="pull"):
        _read(status, body)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Internal Server Error"),
        (500, {"message": "Error pulling scores Expecting value: line 1 column 1 (char 0)"}),
        (500, {"scores": [0.5]}),
        (502, b"<html>"),
        (503, b""),
        (504, b""),
        (599, b""),
        (408, b""),
        (429, {"detail": "slow down"}),
    ],
)
def test_a_failure_that_may_pass_is_asked_again(status: int, body: Any) -> None:
    """Every 5xx, and the statuses by which a server says "later", say so and quote what came; none is a score."""
    found = _read(status, body)
    assert isinstance(found, Unanswered)
    assert found.said.startswith(f"{status} ")


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (301, RewardConfigError, "redirect 301"),
        (307, RewardConfigError, "redirect 307"),
        (401, RewardConfigError, "wants a credential"),
        (403, RewardConfigError, "may not use this service"),
        (404, RewardConfigError, "nothing is served there"),
        (405, RewardConfigError, "takes no POST"),
        (407, RewardConfigError, "a proxy wants"),
        (409, RewardContractError, "this is final"),
        (413, RewardContractError, "larger than the service takes"),
        (422, RewardContractError, "this is final"),
        (201, RewardContractError, "this is final"),
        (204, RewardContractError, "this is final"),
    ],
)
def test_every_other_status_is_final(status: int, kind: type[RewardError], message: str) -> None:
    """What only a person can mend is never asked again and never unavailable; the error quotes the service, masked."""
    with pytest.raises(kind, match=message) as caught:
        _read(status, {"detail": [{"msg": "Field required", "seen": "tok-9"}]}, location="http://x/?k=tok-9")
    assert "tok-9" not in str(caught.value)
    assert "Field required" in str(caught.value) or status < 400


def test_a_redirect_names_its_target() -> None:
    """A trailing slash gives 307 with the URL to set."""
    with pytest.raises(RewardConfigError, match='redirect 307 to "http://h/api/reward/pull"'):
        _read(307, b"", location="http://h/api/reward/pull")


@pytest.mark.parametrize(
    ("body", "score_key", "value"),
    [
        ({"scores": [0.5]}, "overall_reward", 0.5),
        ({"scores": [1]}, "overall_reward", 1.0),
        ({"scores": {"overall_reward": [0.5]}}, "overall_reward", 0.5),
        ({"scores": {"overall_reward": [-0.0]}}, "overall_reward", 0.0),
        (
            {
                "scores": {"vq_reward": [0.25], "mq_reward": [0.5], "overall_reward": [9]},
                "input_info": {"shape": [1, 3, 5, 16, 24], "dtype": "torch.uint8", "min": "0.000", "max": "255.000"},
                "duration": "2.00",
                "decoded_duration": "N/A",
                "type": "dance_grpo",
            },
            "vq_reward+mq_reward",
            0.75,
        ),
        ({"scores": {"ocr_reward": [1.0], "prediction": ["Good"], "nested": {"a": 1}}}, "ocr_reward", 1.0),
        ({"scores": [0.5], "error": None, "uuid": UUID}, "overall_reward", 0.5),
    ],
)
def test_one_finite_score_is_taken(body: Any, score_key: str, value: float) -> None:
    """One positional score, the named series, or the sum of those named; what stands beside them is ignored."""
    found = _read(200, body, score_key)
    assert found == Scored(value)
    assert isinstance(found, Scored)
    assert type(found.value) is float


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"scores": None, "type": "ocr", "error": "rig: asked to fail"}, 'scoring failed: "rig: asked to fail"'),
        ({"scores": [0.5], "error": "half done"}, 'scoring failed: "half done"'),
        ({"scores": [0.5], "error": {"code": 3}}, "scoring failed: .*code"),
        ({"scores": None}, "holds no scores"),
        ({"input_info": {}}, "holds no scores"),
        ({"scores": []}, "expected exactly one score for the one sample sent, got 0"),
        ({"scores": [0.1, 0.2]}, "expected exactly one score for the one sample sent, got 2"),
        ({"scores": 0.5}, "expected a list of one number or named series"),
        ({"scores": "0.5"}, "expected a list of one number or named series"),
        ({"scores": [True]}, "expected a finite number"),
        ({"scores": [None]}, "expected a finite number"),
        ({"scores": ["0.5"]}, "expected a finite number"),
        ({"scores": ["NaN"]}, "expected a finite number"),
        ({"scores": [[0.5]]}, "expected a finite number"),
        (b'{"scores":[NaN]}', "NaN is no JSON number"),
        (b'{"scores":[1e999]}', "expected a finite number"),
        (b'{"scores":[1' + b"0" * 400 + b"]}", "expected a finite number"),
        ({"scores": [0.5], "uuid": "u-2"}, "it is not our score"),
        ({"scores": {"vq_reward": [0.1]}}, "no series 'overall_reward' in the answer, which has .*vq_reward"),
        ({"scores": {}}, "no series 'overall_reward'"),
        ({"scores": {"overall_reward": 0.1}}, r"scores\['overall_reward'\]: expected a list of one number"),
        ({"scores": {"overall_reward": {"a": 1}}}, "expected a list of one number"),
        ({"scores": {"overall_reward": []}}, "got 0"),
        ({"scores": {"overall_reward": [0.1, 0.2]}}, "got 2"),
        ({"scores": {"overall_reward": [None]}}, "expected a finite number"),
        ([], "expected a JSON object"),
        ([0.5], "expected a JSON object"),
        (0.5, "expected a JSON object"),
        (None, "expected a JSON object"),
        (b"", "the body is empty"),
        (b"<html>ok</html>", "is no JSON"),
    ],
)
def test_anything_but_one_finite_score_is_an_error(body: Any, message: str) -> None:
    """No bare number, no list of another length, no word for a number, no default: each is final and says why."""
    with pytest.raises(RewardContractError, match=message):
        _read(200, body)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([0.5], "a sum needs named series"),
        ({"a": [1.0]}, "no series 'b'"),
        ({"a": [1e308], "b": [1e308]}, "beyond the range"),
        ({"a": [1.0], "b": ["x"]}, r"scores\['b'\]: expected a finite number"),
    ],
)
def test_a_sum_needs_each_of_its_series(scores: Any, message: str) -> None:
    """One missing, malformed or overflowing part of a sum makes the whole an error, never a smaller sum."""
    with pytest.raises(RewardContractError, match=message):
        _read(200, {"scores": scores}, "a+b")
