# SPDX-License-Identifier: Apache-2.0
"""Enqueue and pull against a real server, through the real curl too."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.driving import Served, body_of, image_line, npy, video_line

NOT_FOUND = "Not found scores for "


def curl(*arguments: str | Path) -> tuple[int, str]:
    """Run the real curl; gives the status and the body."""
    done = subprocess.run(
        ["curl", "-sS", "--noproxy", "*", "-m", "60", "-w", "\n%{http_code}", *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    body, _, status = done.stdout.rpartition("\n")
    return int(status), body


def test_an_image_goes_through_curl(shared: Served, tmp_path: Path) -> None:
    """Streamed as the client does it: accepted with a uuid, pending in the legacy form, then scored."""
    file = tmp_path / "body"
    file.write_bytes(body_of(image_line("brightness", "contrast", input_info={"client": "kept?"}), npy(1, 16, 24, 3)))
    status, text = curl("-X", "POST", "-T", file, "-H", "Expect: 100-continue", f"{shared.url}/api/reward/enqueue")
    assert status == 200
    accepted = json.loads(text)
    assert re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", accepted["uuid"])
    assert accepted["replica_id"] == "rep-7"
    uuid = accepted["uuid"]
    result = shared.result(uuid, "brightness")
    seconds = [result.pop("duration"), result.pop("decoded_duration")]
    assert all(re.fullmatch(r"\d+\.\d\d", text) for text in seconds)
    assert result == {
        "scores": {"brightness": [0.2]},
        "input_info": {
            "client": "kept?",
            "shape": [1, 16, 24, 3],
            "dtype": "torch.uint8",
            "min": "51.000",
            "max": "51.000",
        },
        "type": "brightness",
    }
    assert shared.result(uuid, "contrast")["scores"] == {"contrast": [0.0]}
    status, text = curl("-F", f"uuid={uuid}", "-F", "type=contrast", f"{shared.url}/api/reward/pull")
    assert (status, json.loads(text)["scores"]) == (200, {"contrast": [0.0]})
    status, text = curl("-d", f"uuid={uuid.upper()}", "-d", "type=contrast", f"{shared.url}/api/reward/pull")
    assert (status, json.loads(text)) == (400, {"message": f"{NOT_FOUND}{uuid.upper()}"})


def test_a_video_is_scored_with_its_rate(shared: Served) -> None:
    """Its info is echoed, the scorer sees the rate; a chunked body without a length is fine."""
    line = video_line("motion", "temporal_smoothness", "fps", fps=12.5)
    frames = b"".join(bytes([0, 51, 102]) for _ in range(3))
    array = npy(1, 3, 3, 1, 1, fill=frames)
    answer = shared.ask("POST", "/api/reward/enqueue", iter([body_of(line, array)]))
    uuid = answer.json["uuid"]
    motion = shared.result(uuid, "motion")
    assert motion["scores"] == {"motion": [pytest.approx(0.2, rel=1e-15)]}
    assert motion["input_info"] == {
        "shape": [1, 3, 3, 1, 1],
        "dtype": "torch.uint8",
        "min": "0.000",
        "max": "102.000",
        "video_infos": [{"video_fps": 12.5}],
    }
    assert shared.result(uuid, "temporal_smoothness")["scores"] == {"temporal_smoothness": [1.0]}
    assert shared.result(uuid, "fps")["scores"] == {"fps": [12.5]}


def test_a_batch_keeps_its_order(shared: Served) -> None:
    """Each sample has its own prompt; a function that returns a dict names its series."""
    # In Fortran order the first axis, the batch, runs fastest.
    array = npy(3, 1, 1, 3, fill=bytes([0, 51, 255] * 3), order=True)
    line = image_line("brightness", "told", prompts=["a", "", "four"])
    uuid = shared.enqueue(line, array).json["uuid"]
    assert shared.result(uuid, "brightness")["scores"] == {"brightness": [0.0, 0.2, 1.0]}
    assert shared.result(uuid, "told")["scores"] == {
        "length": [1.0, 0.0, 4.0],
        "index": [0.0, 1.0, 2.0],
        "samples": [3.0, 3.0, 3.0],
    }


def test_the_same_body_twice_is_two_pieces_of_work(shared: Served) -> None:
    """There is no idempotency in the protocol, and none is made up."""
    one, two = (shared.enqueue(image_line(), npy(1, 1, 1, 3)).json["uuid"] for _ in range(2))
    assert one != two
    assert shared.result(one, "brightness") == shared.result(two, "brightness")


@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("nan", "series 'moody' of sample 0: expected a finite number, got nan"),
        ("inf", "expected a finite number, got inf"),
        ("none", "expected a number, got None"),
        ("text", "expected a number, got '0.5'"),
        ("true", "expected a number, got True"),
        ("big", "is too large for a float"),
        ("empty", "it returned no series"),
        ("raise", r"it raised ValueError: no such mood, \[value of SCORER_API_KEY\] \(sample 0\)"),
        ("hang", "the scorer's process did not answer within 2 s while it scored"),
        ("die", "the scorer's process was killed by SIGKILL while it scored"),
        ("segfault", "the scorer's process was killed by SIGSEGV while it scored"),
        ("exit", "the scorer's process ended with exit code 0 while it scored"),
    ],
)
def test_a_failure_is_an_error_and_no_number(shared: Served, mood: str, error: str) -> None:
    """Status 200 with no scores and the reason; it stays so; other scorers of the request are not touched."""
    line = image_line("moody", "brightness", prompts=[mood])
    uuid = shared.enqueue(line, npy(1, 2, 2, 3)).json["uuid"]
    assert shared.result(uuid, "brightness")["scores"] == {"brightness": [0.2]}
    result = shared.result(uuid, "moody")
    assert result["scores"] is None
    assert re.search(error, result["error"])
    assert result["type"] == "moody"
    assert result["input_info"]["shape"] == [1, 2, 2, 3]
    assert shared.result(uuid, "moody") == result
    assert shared.scored(image_line("moody", prompts=["calm"]), npy(1, 2, 2, 3), "moody")["scores"] == {"moody": [0.25]}


@pytest.mark.parametrize(
    ("line", "array", "status", "text"),
    [
        (image_line("ocr"), npy(1, 2, 2, 3), 422, "no reward is named 'ocr'; known: brightness"),
        (image_line(), npy(1, 2, 2, 4), 422, "shape is [1, 2, 2, 4]: expected [B, H, W, 3]"),
        (image_line(), npy(1, 2, 2, 3, descr="<f4", size=4), 422, "data type is '<f4' (str): expected uint8"),
        (image_line(), npy(1, 2, 2, 3)[:-1], 400, "the array is cut off: 139 of 140 bytes"),
        (image_line(), b"PK\x03\x04 a zip", 400, "a zip file"),
        (video_line(video_infos=[{"fps": 16}]), npy(1, 3, 2, 2, 2), 422, "the key is video_fps, not fps"),
        (b"nonsense", npy(1, 2, 2, 3), 400, "the first line is not JSON"),
    ],
)
def test_what_can_not_be_scored_is_refused_at_once(
    shared: Served, line: Any, array: bytes, status: int, text: str
) -> None:
    """The public server would answer 200 and then be pending for ever."""
    answer = shared.enqueue(line, array)
    assert answer.status == status
    assert text in answer.json["detail"]


def test_a_body_that_is_too_long_is_refused_while_it_comes(shared: Served, tmp_path: Path) -> None:
    """413 by its length, by its header, and 400 by its bytes; curl gets the answer although it is still sending."""
    file = tmp_path / "large"
    with file.open("wb") as out:
        out.write(body_of(image_line(), npy(1, 2000, 5000, 3, fill=b"")))
        out.truncate(64 << 20)
    enqueue = f"{shared.url}/api/reward/enqueue"
    status, text = curl("-X", "POST", "-T", file, enqueue)
    assert (status, "longer than 4194304 bytes" in text) == (413, True)
    status, text = curl("-X", "POST", "-T", file, "-H", "Transfer-Encoding: chunked", "-H", "Expect:", enqueue)
    assert (status, "longer than 4194304 bytes" in text) == (413, True)
    file.write_bytes(body_of(image_line(), npy(1, 1, 1, 3)) + bytes(8 << 20))
    status, text = curl("-X", "POST", "-T", file, "-H", "Transfer-Encoding: chunked", "-H", "Expect:", enqueue)
    assert (status, "bytes behind the array" in text) == (400, True)


def test_a_connection_that_ends_within_the_body_leaves_nothing(shared: Served, workplace: Path) -> None:
    """No work, no file; the service goes on."""
    body = body_of(image_line(), npy(1, 500, 500, 3))
    with socket.create_connection(shared.address, 30) as connection:
        head = f"POST /api/reward/enqueue HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:300_000])
    assert shared.scored(image_line(), npy(1, 1, 1, 3), "brightness")["scores"] == {"brightness": [0.2]}
    for _ in range(200):
        if not list((workplace / "spool").glob("*/*.npy")):
            break
        shared.ask("GET", "/healthz")
    assert list((workplace / "spool").glob("*/*.npy")) == []


@pytest.mark.parametrize("pull_type", ["nope", "contrast", "Brightness", ""])
def test_another_type_is_not_found(shared: Served, pull_type: str) -> None:
    """A name that was not asked for, or in other letters, is as if it were unknown."""
    uuid = shared.enqueue(image_line(), npy(1, 1, 1, 3)).json["uuid"]
    shared.result(uuid, "brightness")
    answer = shared.form("/api/reward/pull", {"uuid": uuid, "type": pull_type})
    assert (answer.status, answer.json) == (400, {"message": f"{NOT_FOUND}{uuid}"})
