# SPDX-License-Identifier: Apache-2.0
"""The adapters keep the group contract around one request per candidate, whose bytes are those of its own latent."""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.media import (
    ImageReward,
    LatentCandidate,
    ServiceScore,
    VideoReward,
    VideoRewardConfig,
    attach_decoder,
)
from posttrain.rewards import (
    InProcessEvaluator,
    RewardCandidate,
    RewardContext,
    RewardGroupRequest,
    RewardProviderSpec,
    RewardWorker,
)
from posttrain.schema import Observation, Trajectory

Make = Callable[..., Any]


def _grey(value: float, *, frames: int = 2) -> torch.Tensor:
    return torch.full((1, 3, frames, 4, 6), value)


def _request(*latents: Any, prompt: Any = None) -> RewardGroupRequest[LatentCandidate]:
    candidates = tuple(LatentCandidate(f"t{index}", latent) for index, latent in enumerate(latents))
    return RewardGroupRequest("g", candidates, RewardContext(prompt=prompt))


def test_one_request_per_candidate_in_their_order(video: Make) -> None:
    """Grey 0, 0.5 and -1 are bytes 128, 191 and 0: three samples, three scores, each with its own id."""
    adapter, scorer = video()
    result = adapter.evaluate(_request(_grey(0.0), _grey(0.5), _grey(-1.0)))
    assert result.group_id == "g"
    assert [(item.trajectory_id, dict(item.result.terms)) for item in result.items] == [
        ("t0", {"video": 128.0}),
        ("t1", {"video": 191.0}),
        ("t2", {"video": 0.0}),
    ]
    assert [sample.shape for sample in scorer.samples] == [(1, 3, 2, 4, 6)] * 3
    assert {(each.media_type, each.nbytes) for each in scorer.samples} == {("video", 12 + 128 + 144)}
    assert scorer.lines == [b'{"line": 1}\n'] * 3


def test_an_image_is_sent_with_its_channels_last(image_config: Make, reading_scorer: Make, given_decoder: Any) -> None:
    """[1,3,1,H,W] in [-1, 1] becomes [1,H,W,3] of uint8."""
    scorer = reading_scorer(lambda array: float(array[0, 0, 0, 0]))
    adapter = ImageReward(image_config(), scorer=scorer)
    adapter.attach(given_decoder)
    pixels = torch.tensor([1.0, 0.0, -1.0]).reshape(1, 3, 1, 1, 1).expand(1, 3, 1, 2, 5)
    (item,) = adapter.evaluate(_request(pixels)).items
    assert dict(item.result.terms) == {"image": 255.0}
    (array,) = scorer.arrays
    assert (array.dtype, array.shape, array[0, 1, 4].tolist()) == (np.uint8, (1, 2, 5, 3), [255, 128, 0])
    assert scorer.samples[0].media_type == "image"


@given(order=st.permutations([0.0, 0.25, 0.5, 0.75, 1.0]))
def test_scores_follow_the_candidates(order: list[float]) -> None:
    """In any order of the group every id has the score of its own pixels."""
    adapter = VideoReward(_LOCAL, scorer=_FirstByte())
    adapter.attach(_AsItIs())
    result = adapter.evaluate(_request(*[_grey(value) for value in order]))
    # Round half to even of (x + 1) * 127.5.
    expected = {0.0: 128.0, 0.25: 159.0, 0.5: 191.0, 0.75: 223.0, 1.0: 255.0}
    assert [item.result.terms["video"] for item in result.items] == [expected[value] for value in order]
    assert [item.trajectory_id for item in result.items] == [f"t{index}" for index in range(5)]


def test_the_whole_stage_runs_on_latents(video_config: Make, reading_scorer: Make, given_decoder: Any) -> None:
    """From a catalog's spec, with a decoder attached by the entry: rewards, advantages and diagnostics."""
    config = video_config(score_clip=(0, 200), score_scale=0.5)
    scorer = reading_scorer()
    declared = VideoReward.spec(config, term="look")
    factory = partial(VideoReward, config, term="look", scorer=scorer)
    spec = RewardProviderSpec(
        **{field.name: getattr(declared, field.name) for field in dataclasses.fields(declared)} | {"factory": factory}
    )
    evaluator = InProcessEvaluator()
    batch = [
        Trajectory(trajectory_id=f"t{i}", group_id="g", obs=Observation(id="g", prompt="p"), latent=_grey(value))
        for i, value in enumerate((0.0, 1.0))
    ]
    with RewardWorker(catalog={"media": spec}, reward="media", group_size=2, evaluator=evaluator) as worker:
        attach_decoder(evaluator.providers, given_decoder)
        report = worker.score(batch)
    assert scorer.checked == 1
    # Bytes 128 and 255, clamped to 200, halved: 64 and 100; mean 82, sample deviation 18 * sqrt(2).
    assert [each.reward for each in batch] == [{"look": 64.0, "final": 64.0}, {"look": 100.0, "final": 100.0}]
    assert batch[1].advantage == pytest.approx(18 / (18 * 2**0.5 + 1e-4))
    metrics = report.metrics()
    prefix = "train/reward_provider/media/"
    found = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
    assert found.pop("decode_seconds") >= 0
    assert found.pop("transform_seconds") > 0
    assert found == {
        "enqueue_seconds": 0.25,
        "wait_seconds": 0.5,
        "polls": 3.0,
        "pull_retries": 1.0,
        "spool_bytes": 284.0,
        "raw_score": 191.5,
        "score_clipped": 0.5,
        "orphans": 0.0,
        "sample_count": 2.0,
    }


def test_the_spec_is_complete(video_config: Make, image_config: Make) -> None:
    """Revision, term, needs and the rank-local trait come from the config; the factory is picklable and light."""
    spec = VideoReward.spec(video_config(provider_revision="sha256:1"))
    assert (spec.revision, spec.terms, spec.needs) == ("sha256:1", ("video",), ())
    assert (spec.execution.rank_local, spec.execution.repeatable, spec.execution.groups_in_flight) == (True, False, 1)
    prompted = ImageReward.spec(image_config(send_prompts=True), term="ocr")
    assert (prompted.terms, prompted.needs) == (("ocr",), ("prompt",))
    made = pickle.loads(pickle.dumps(spec.factory))()  # noqa: S301  # we wrote the bytes ourselves
    assert repr(made) == "VideoReward('sha256:1', no decoder)"


def test_the_spool_file_is_private_and_gone(video: Make, tmp_path: Path) -> None:
    """While the sample is scored its file is 0600 and has no name; afterwards nothing is open, nothing lies there."""
    adapter, scorer = video()
    adapter.evaluate(_request(_grey(0.0)))
    (status,) = scorer.status
    assert (status.st_mode & 0o777, status.st_nlink, status.st_size) == (0o600, 0, 284)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(scorer.samples[0].fd)


def test_without_a_decoder_nothing_is_scored(video_config: Make, reading_scorer: Make) -> None:
    """`evaluate` is a contract error that says how to attach one; `open` is not, since preflight has no model."""
    scorer = reading_scorer()
    adapter = VideoReward(video_config(), scorer=scorer)
    adapter.open()
    with pytest.raises(RewardContractError, match=r"no decoder is attached: call attach_decoder"):
        adapter.evaluate(_request(_grey(0.0)))
    adapter.close()
    assert scorer.samples == []


def test_a_text_candidate_is_refused(video: Make) -> None:
    """Built without the trait, the adapter would be given texts: the error says which spec to build."""
    adapter, _ = video()
    request = RewardGroupRequest("g", (RewardCandidate("t", "text"),), RewardContext())
    with pytest.raises(
        RewardContractError, match=r"expected a LatentCandidate, got a RewardCandidate.*VideoReward.spec"
    ):
        adapter.evaluate(request)


def test_the_config_is_of_the_adapters_own_kind(video_config: Make, image_config: Make) -> None:
    """A video adapter takes no config of images, whose layout it would not send."""
    wrong: Any = VideoReward
    with pytest.raises(RewardConfigError, match="VideoReward takes a VideoRewardConfig, got ImageRewardConfig"):
        wrong(image_config())
    wrong = ImageReward
    with pytest.raises(RewardConfigError, match="ImageReward takes a ImageRewardConfig, got VideoRewardConfig"):
        wrong(video_config())


def test_decoding_makes_no_graph(video: Make) -> None:
    """The decoder runs without gradients, and the caller's setting is what it was."""
    adapter, _ = video()
    weight = torch.ones((), requires_grad=True)
    seen: list[bool] = []

    def decode() -> torch.Tensor:
        pixels = _grey(0.5) * weight
        seen.append(pixels.requires_grad or torch.is_grad_enabled())
        return pixels

    assert torch.is_grad_enabled()
    adapter.evaluate(_request(decode))
    assert seen == [False]
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("pixels", "fault"),
    [
        ((_grey(0.0),), r"got tuple of 1: return the pixels themselves"),
        (_grey(0.0)[0], r"got a tensor \[3,2,4,6\] of float32 on cpu"),
        (_grey(0.0).to(torch.uint8), r"got a tensor \[1,3,2,4,6\] of uint8 on cpu"),
        (_grey(float("nan")), r"NaN: 144, infinite: 0, out of range: 0"),
        (_grey(1.01), r"within 0.001, got .* out of range: 144\); its finite pixels lie in \[1.00999999, 1.00999999\]"),
    ],
)
def test_pixels_that_break_the_contract_are_never_sent(video: Make, pixels: Any, fault: str, tmp_path: Path) -> None:
    """The candidate is named, the good one beside it was scored, and the service never saw the bad one."""
    adapter, scorer = video()
    with pytest.raises(RewardContractError, match=fault) as caught:
        adapter.evaluate(_request(_grey(0.0), lambda: pixels))
    assert caught.value.trajectory_id == "t1"
    assert len(scorer.samples) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_decoder_that_raises_is_named(video: Make) -> None:
    """Its exception is the cause of a contract error that names the candidate."""
    adapter, _ = video()
    with pytest.raises(RewardContractError, match="raised ZeroDivisionError") as caught:
        adapter.evaluate(_request(lambda: 1 / 0))
    assert caught.value.trajectory_id == "t0"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, True, 1, "0.5"])
def test_a_score_that_is_no_finite_float_is_an_error(video: Make, value: Any) -> None:
    """Whatever a client returns in place of a finite float, it never becomes a reward."""
    adapter, _ = video(_Answering(value), score_clip=(-1, 1))
    with pytest.raises(RewardContractError, match="the service's score has to be one finite float"):
        adapter.evaluate(_request(_grey(0.0)))


@pytest.mark.parametrize("kind", [RewardUnavailableError, RewardConfigError])
def test_a_failure_that_ends_the_group_keeps_its_kind(video: Make, kind: type[Exception], tmp_path: Path) -> None:
    """An unavailable service, or one that refuses the credential, ends the group at the first candidate."""
    failing = _Answering(kind("no"))
    adapter, _ = video(failing)
    with pytest.raises(kind, match="no"):
        adapter.evaluate(_request(_grey(0.0), _grey(0.0)))
    assert failing.calls == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_passes_through_and_leaves_nothing(video: Make, kind: type[BaseException], tmp_path: Path) -> None:
    """While the service is asked, or in the decode."""
    adapter, _ = video(_Answering(kind("stop")))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for latent in (_grey(0.0), _raising(kind("stop"))):
        with pytest.raises(kind, match="stop"):
            adapter.evaluate(_request(latent))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert list(tmp_path.iterdir()) == []


def test_a_text_prompt_is_sent_with_each_sample(video: Make) -> None:
    """With `send_prompts` the group's prompt goes with every sample; without it the scorer is given none."""
    adapter, scorer = video(send_prompts=True)
    adapter.evaluate(_request(_grey(0.0), _grey(0.5), prompt="a red cube"))
    assert scorer.prompts == ["a red cube", "a red cube"]
    adapter, scorer = video()
    adapter.evaluate(_request(_grey(0.0), prompt="a red cube"))
    assert scorer.prompts == [None]


@pytest.mark.parametrize("prompt", [None, ({"role": "user", "content": "a red cube"},), 5])
def test_a_prompt_that_is_no_text_is_refused(video: Make, prompt: Any) -> None:
    """A conversation is not flattened by a guess; nothing is decoded for it."""
    adapter, scorer = video(send_prompts=True)
    with pytest.raises(RewardContractError, match="send_prompts sends the prompt as text, got"):
        adapter.evaluate(_request(_raising(AssertionError("decoded")), prompt=prompt))
    assert scorer.samples == []


def test_samples_that_were_given_up_are_told_with_the_next_score(video: Make) -> None:
    """Three orphans since the last score are in the next one's diagnostics, and not again in the one after."""
    adapter, scorer = video()
    scorer.orphans = 3
    results = [adapter.evaluate(_request(_grey(0.0))).items[0].result for _ in range(2)]
    assert [each.diagnostics["orphans"].value for each in results] == [3.0, 0.0]


class _Answering:
    """Answers with what is not a score, or raises."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.calls = 0
        self.orphans = 0

    def check_machine(self) -> None:
        """Nothing is missing."""

    def enqueue_line(self, prompt: str | None) -> bytes:
        """Any line."""
        return b"{}\n"

    def score(self, sample: object, *, deadline: float) -> ServiceScore:
        """The value, or the error."""
        self.calls += 1
        if isinstance(self._value, BaseException):
            raise self._value
        return ServiceScore(value=self._value, enqueue_seconds=0.0, wait_seconds=0.0, polls=1)


class _FirstByte(_Answering):
    def __init__(self) -> None:
        _Answering.__init__(self, None)

    def score(self, sample: Any, *, deadline: float) -> ServiceScore:
        """The last byte of the file."""
        with Path(f"/dev/fd/{sample.fd}").open("rb") as file:
            value = float(file.read()[-1])
        return ServiceScore(value=value, enqueue_seconds=0.0, wait_seconds=0.0, polls=1)


class _AsItIs:
    output_range = "neg_one_to_one"

    def decode(self, latent: Any) -> Any:
        """The latent."""
        return latent


_LOCAL = VideoRewardConfig(
    provider_revision="r1", enqueue_url="http://h/e", pull_url="http://h/p", fps=16, credential=None
)


def _raising(error: BaseException) -> Callable[[], torch.Tensor]:
    def decode() -> torch.Tensor:
        raise error

    return decode
