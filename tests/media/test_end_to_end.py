# SPDX-License-Identifier: Apache-2.0
"""The whole way: `posttrain serve` in one process, the image and the video adapter in two others, the real curl."""

from __future__ import annotations

import json
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest

from posttrain.testing import FakeRewardService
from posttrain.testing.reward_service import answer, never_answer, not_found, pending, scored

pytest.importorskip("torch")

TOKEN = "tok-TEST-111"  # noqa: S105  # what the test looks for

# One rank: a worker over latents that are the pixels themselves, scored as one group. Prints what became of it.
_RANK = """
import json, sys
import torch
from posttrain.errors import RewardError
from posttrain.media import ImageReward, ImageRewardConfig, VideoReward, VideoRewardConfig, attach_decoder
from posttrain.rewards import InProcessEvaluator, RewardWorker
from posttrain.schema import Observation, Trajectory

class Pixels:
    output_range = "neg_one_to_one"
    def decode(self, latent):
        return latent

kind, settings, frames = json.loads(sys.argv[1])
kind = {"image": (ImageReward, ImageRewardConfig), "video": (VideoReward, VideoRewardConfig)}[kind]
if "score_clip" in settings:
    settings["score_clip"] = tuple(settings["score_clip"])
spec = kind[0].spec(kind[1](**settings))
batch = [
    Trajectory(
        trajectory_id=str(number),
        group_id="g",
        obs=Observation(id="g", prompt="a fox"),
        latent=torch.tensor(levels).reshape(1, 1, -1, 1, 1).expand(1, 3, -1, 4, 6).contiguous(),
    )
    for number, levels in enumerate(frames)
]
evaluator = InProcessEvaluator()
with RewardWorker(catalog={"media": spec}, reward="media", group_size=len(batch), evaluator=evaluator) as worker:
    attach_decoder(evaluator.providers, Pixels())
    try:
        report = worker.score(batch)
    except RewardError as error:
        print(json.dumps({"error": type(error).__name__, "text": str(error)}))
    else:
        print(json.dumps({"rewards": [each.reward["final"] for each in batch], "metrics": report.metrics()}))
"""


def _rank(kind: Literal["image", "video"], urls: tuple[str, str], frames: list[list[float]], **more: Any) -> Any:
    """A process that scores one latent for each list of frame levels."""
    settings = {
        "provider_revision": "end-to-end",
        "enqueue_url": urls[0],
        "pull_url": urls[1],
        "poll_interval_s": 0.05,
        "evaluation_timeout_s": 60.0,
        **({"fps": 16.0} if kind == "video" else {}),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-c", _RANK, json.dumps([kind, settings, frames])],
        env={**os.environ, "REWARD_SERVICE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _result(rank: Any) -> dict[str, Any]:
    out, said = rank.communicate(timeout=120)
    assert rank.returncode == 0, said
    assert TOKEN not in out + said
    found: dict[str, Any] = json.loads(out)
    return found


@contextmanager
def _served(form: str) -> Iterator[str]:
    """The URL of a `posttrain serve` with a token of its own."""
    server = subprocess.Popen(
        [sys.executable, "-m", "posttrain", "serve", "--port", "0", "--token-env", "SERVE_TOKEN", "--pending", form],
        env={**os.environ, "SERVE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline() if server.stdout else ""
        found = re.search(r"http://\S+", line)
        assert found, line + (server.stderr.read() if server.stderr and server.poll() is not None else "")
        yield found[0]
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
        assert server.returncode == 0, said
        assert TOKEN not in said
    finally:
        if server.poll() is None:
            server.kill()
            server.communicate()


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@pytest.mark.slow
def test_serve_scores_what_two_ranks_decode() -> None:
    """Levels -1, 0 and 1 are the bytes 0, 128 (127.5, half to even) and 255: brightness and motion follow by hand.

    A third rank asks for a reward that the service does not have: an error that names it, not a number or an outage.
    """
    with _served("legacy_400") as url:
        urls = (f"{url}/api/reward/enqueue", f"{url}/api/reward/pull")
        image = _rank("image", urls, [[-1.0], [0.0], [1.0]], reward="brightness", score_key="brightness")
        video = _rank("video", urls, [[0.0, 0.0], [-1.0, 1.0], [0.0, 1.0]], reward="motion", score_key="motion")
        unknown = _rank("image", urls, [[0.0]], reward="beauty", score_key="beauty")
        bright, moving, refused = _result(image), _result(video), _result(unknown)
    # Brightness: 0/255, 128/255, 255/255. Motion: |128-128|/255, |255-0|/255, |255-128|/255. Then single precision.
    assert bright["rewards"] == [0.0, _single(128 / 255), 1.0]
    assert moving["rewards"] == [0.0, 1.0, _single(127 / 255)]
    for found in (bright, moving):
        assert found["metrics"]["train/reward_provider/media/sample_count"] == 3
        assert found["metrics"]["train/reward_provider/media/polls"] >= 1
    assert refused["error"] == "RewardContractError"
    assert "beauty" in refused["text"]


@pytest.mark.slow
def test_the_other_form_of_pending_is_understood() -> None:
    """Levels -1 and 1 of a service that says 202 while it scores."""
    with _served("202") as url:
        urls = (f"{url}/api/reward/enqueue", f"{url}/api/reward/pull")
        found = _result(_rank("image", urls, [[-1.0], [1.0]], reward="brightness", score_key="brightness"))
    assert found["rewards"] == [0.0, 1.0]


@pytest.mark.slow
def test_bytes_arrive_as_the_transform_made_them() -> None:
    """Against the scripted service: line, then the `.npy` of the uint8 pixels; clip and scale make the reward."""
    steps = [not_found(), pending(), answer(503, "busy"), scored({"overall_reward": [-4.276785373687744]})]
    with FakeRewardService(pull=steps, token=TOKEN) as service:
        urls = (service.enqueue_url, service.pull_url)
        found = _result(_rank("video", urls, [[-1.0, 0.0, 1.0]], score_clip=[-1.0, 1.0], score_scale=2.0))
        (sent,) = service.enqueues
        assert json.loads(sent.line) == {
            "media_type": "video",
            "reward_fn": {"dance_grpo": 1.0},
            "video_infos": [{"video_fps": 16.0}],
        }
        array = sent.head[len(sent.line) + 1 :]
        assert array.startswith(b"\x93NUMPY\x01\x00")
        assert b"'descr': '|u1', 'fortran_order': False, 'shape': (1, 3, 3, 4, 6)" in array
        # Each of 3 channels holds 3 frames of 24 pixels.
        assert array[128:] == (b"\x00" * 24 + b"\x80" * 24 + b"\xff" * 24) * 3
    assert found["rewards"] == [-2.0]
    assert found["metrics"]["train/reward_provider/media/polls"] == 4
    assert found["metrics"]["train/reward_provider/media/pull_retries"] == 1


@pytest.mark.slow
def test_a_service_that_hangs_costs_the_deadline_and_nothing_more() -> None:
    """The whole sequence has one absolute deadline, and the error names the candidate that met it."""
    with FakeRewardService(pull=[never_answer], token=TOKEN) as service:
        urls = (service.enqueue_url, service.pull_url)
        found = _result(_rank("image", urls, [[0.0]], reward="ocr", score_key="ocr", evaluation_timeout_s=3.0))
    assert found["error"] == "RewardUnavailableError"
    assert "evaluation deadline" in found["text"]
    assert "trajectory '0'" in found["text"]
