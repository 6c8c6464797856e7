# SPDX-License-Identifier: Apache-2.0
"""The exchanges recorded from the public server, sent again: where we mean to be the same, and where not.

docs/design/021-reference-service.md lists the differences with their reasons.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.driving import Answer, Served, body_of, image_line, npy, start

TRANSCRIPTS = Path("../shared/data/reward_service/transcripts.jsonl")

# The scorers that the recorded requests name; ours, since only shapes are compared.
NAMED = """
def image_reward(array, info):
    if (info["prompt"] or "").startswith("fail"):
        raise ValueError("asked to fail")
    return {"image_reward": 0.5, "colourfulness": 3.25}

hpsv2 = image_reward

def dance_grpo(array, info):
    return {"vq_reward": 0.5, "mq_reward": 0.25, "ta_reward": 0.125, "overall_reward": 0.875}
"""

# What the public server takes and we refuse, or answers otherwise: part of the case to our status.
DIFFERENT: dict[str, int] = {
    "npy_float32": 422,
    "npy_bool": 422,
    "npy_int64": 422,
    "nan_pixels": 422,
    "float_neg1_1": 422,
    "fps_key_fps": 422,
    "no_video_infos": 422,
    "batch2_1prompt": 422,
}


def recorded(repository: Path) -> list[dict[str, Any]]:
    """Every exchange, in the order in which they were made."""
    file = repository / TRANSCRIPTS
    if not file.is_file():
        pytest.skip("the recorded exchanges are not here")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose scorers have the names of the recording."""
    folder = tmp_path_factory.mktemp("peer")
    (folder / "named.py").write_text(NAMED)
    flags = ["--image-scorer", "image_reward=named:image_reward", "--image-scorer", "hpsv2=named:hpsv2"]
    served = start(folder, *flags, "--video-scorer", "dance_grpo=named:dance_grpo", "--drain", "0")
    yield served
    assert served.end() == 0


def sent_again(served: Served, request: dict[str, Any], body: bytes) -> Answer:
    """The same request, to the byte, but for the body where it holds a uuid of the recording."""
    head = [request["line"], f"Host: {served.address[0]}:{served.address[1]}"]
    kept = {k: v for k, v in request["headers"].items() if k.lower() not in {"host", "content-length", "connection"}}
    head += [f"{name}: {value}" for name, value in kept.items()]
    head += [f"Content-Length: {len(body)}"] * (bool(body) or "content-length" in request["headers"])
    with socket.create_connection(served.address, 60) as connection:
        connection.sendall("\r\n".join([*head, "Connection: close", "", ""]).encode() + body)
        answer = connection.makefile("rb").read()
    raw_head, _, text = answer.partition(b"\r\n\r\n")
    status, *lines = raw_head.decode().split("\r\n")
    headers = {line.split(": ")[0].lower(): line.split(": ")[1] for line in lines}
    return Answer(int(status.split()[1]), headers, text.decode())


def body_in(request: dict[str, Any]) -> bytes:
    """The recorded body."""
    (name,) = [key for key in request if "body" in key] or [""]
    return base64.b64decode(request.get(name) or "")


def path_of(exchange: dict[str, Any]) -> str:
    """Where it went."""
    return str(exchange["request"]["line"].split()[1])


def text_of(exchange: dict[str, Any]) -> str:
    """What was answered."""
    response = exchange["response"]
    return str(response.get("body", response.get("body_text", "")))


def test_plain_requests_are_answered_the_same(repository: Path, peer: Served) -> None:
    """Ping, other methods and paths, forms that lack something, uuids that nobody knows: status, type and bytes."""
    count = 0
    for exchange in recorded(repository):
        response = exchange["response"]
        if path_of(exchange) == "/api/reward/push" or exchange["case"].startswith("push"):
            continue
        if response["status"] == 200 and path_of(exchange) != "/api/reward/ping":
            continue
        if response["status"] == 500:
            continue
        answer = sent_again(peer, exchange["request"], body_in(exchange["request"]))
        assert answer.status == response["status"], exchange["case"]
        assert answer.text == text_of(exchange), exchange["case"]
        for header in ("content-type", "allow", "server"):
            assert answer.headers.get(header) == response["headers"].get(header), exchange["case"]
        location = answer.headers.get("location", "")
        assert location.endswith(re.sub("^http://[^/]*", "", response["headers"].get("location", "")))
        count += 1
    assert count >= 19


def test_recorded_uploads_are_taken_and_scored(repository: Path, peer: Served) -> None:
    """Each enqueue of the recording has a uuid for an answer, and results have the keys of the recorded ones."""
    exchanges = recorded(repository)
    results = [json.loads(text_of(each)) for each in exchanges if '"input_info"' in text_of(each)]
    shapes = {each["type"]: each for each in results if each["scores"] and len(each["input_info"]["shape"]) > 3}
    taken = 0
    for exchange in exchanges:
        if path_of(exchange) != "/api/reward/enqueue" or exchange["response"]["status"] != 200:
            continue
        body = body_in(exchange["request"])
        answer = sent_again(peer, exchange["request"], body)
        assert set(json.loads(answer.text)) == set(json.loads(text_of(exchange))) == {"uuid"}
        assert answer.status == 200
        (reward,) = json.loads(body.partition(b"\n")[0])["reward_fn"]
        ours, theirs = peer.result(answer.json["uuid"], reward), shapes[reward]
        assert list(ours) == list(theirs)
        assert set(ours["input_info"]) >= {"shape", "dtype", "min", "max"}
        assert {type(ours[key]) for key in ("duration", "decoded_duration")} == {str}
        assert set(ours["scores"]) == set(theirs["scores"])
        assert all(isinstance(series, list) and len(series) == 1 for series in ours["scores"].values())
        assert ours["input_info"]["dtype"] == "torch.uint8"
        assert re.fullmatch(r"\d+\.\d{3}", ours["input_info"]["max"])
        taken += 1
    assert taken >= 3


def test_a_failed_scorer_answers_as_theirs_does(repository: Path, peer: Served) -> None:
    """Status 200, the same keys in the same order, scores null and an error."""
    (theirs,) = [json.loads(text_of(each)) for each in recorded(repository) if each["case"] == "handler:error"]
    line = image_line("image_reward", prompts=["fail"])
    ours = peer.scored(line, npy(*theirs["input_info"]["shape"], fill=0), "image_reward")
    assert list(ours) == list(theirs)
    assert list(ours["input_info"]) == list(theirs["input_info"])
    assert (ours["scores"], theirs["scores"]) == (None, None)
    assert "asked to fail" in ours["error"]


def video(**more: Any) -> dict[str, Any]:
    """The line of the recorded videos."""
    infos = [{"video_fps": 16.0}]
    line = {"media_type": "video", "prompts": ["a fox"], "reward_fn": {"dance_grpo": 1.0}, "video_infos": infos}
    return {key: value for key, value in {**line, **more}.items() if value is not None}


IMAGE, CLIP = (1, 16, 24, 3), (1, 3, 5, 16, 24)


@pytest.mark.parametrize(
    ("case", "line", "array"),
    [
        ("npy_float32", image_line("image_reward"), npy(*IMAGE, descr="<f4", size=4)),
        ("npy_bool", image_line("image_reward"), npy(*IMAGE, descr="|b1")),
        ("npy_int64", image_line("image_reward"), npy(*IMAGE, descr="<i8", size=8)),
        ("nan_pixels", image_line("image_reward"), npy(*IMAGE, descr="<f4", fill=b"\0\0\xc0\x7f" * 1152)),
        ("float_neg1_1", video(), npy(*CLIP, descr="<f4", size=4)),
        ("fps_key_fps", video(video_infos=[{"fps": 16.0}]), npy(*CLIP)),
        ("no_video_infos", video(video_infos=None), npy(*CLIP)),
        ("batch2_1prompt", video(video_infos=[{"video_fps": 16.0}] * 2), npy(2, *CLIP[1:])),
    ],
)
def test_what_the_public_server_scored_wrongly_is_refused(
    repository: Path, peer: Served, case: str, line: Any, array: bytes
) -> None:
    """The recording has a wrong number, a -1.0 or a permanent 500 for each; here enqueue says what is wrong."""
    names = {word for each in recorded(repository) for word in each["case"].split()}
    assert case in names
    assert peer.enqueue(line, array).status == DIFFERENT[case]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no line feed",
        body_of(b"no json", npy(*IMAGE)),
        body_of(image_line("image_reward"), b"no array"),
        body_of(image_line("nobody"), npy(*IMAGE)),
        body_of(image_line("image_reward"), npy(fill=1)),
        body_of(image_line("image_reward", reward_fn={"image_reward": 0}), npy(*IMAGE)),
    ],
)
def test_what_the_public_server_loses_is_refused(peer: Served, body: bytes) -> None:
    """It answers 200 to each of these and is pending for ever; the array without axes stops it altogether."""
    answer = peer.ask("POST", "/api/reward/enqueue", body)
    assert answer.status in {400, 422}
    assert answer.json["detail"]
    assert peer.scored(image_line("image_reward"), npy(*IMAGE), "image_reward")["scores"]


def test_push_is_not_offered(repository: Path, peer: Served) -> None:
    """Anybody could write anybody's scores with it: it is as if there were no such path."""
    pushes = [each for each in recorded(repository) if path_of(each) == "/api/reward/push"]
    assert pushes
    for each in pushes:
        answer = sent_again(peer, each["request"], body_in(each["request"]))
        assert (answer.status, answer.text) == (404, '{"detail":"Not Found"}')
