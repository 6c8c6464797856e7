# SPDX-License-Identifier: Apache-2.0
"""A decoder attests its range, and reaches the providers that wait for one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media import MediaDecoder, VideoReward, attach_decoder
from posttrain.rewards import InProcessEvaluator, RewardWorker
from posttrain.rewards.contract.pointwise import map_candidates


class _ByProperty:
    @property
    def output_range(self) -> str:
        """Attested by a property."""
        return "neg_one_to_one"

    def decode(self, latent: Any) -> Any:
        """The latent."""
        return latent


def _decode(latent: Any) -> Any:
    return latent


@pytest.fixture
def adapter(video_config: Callable[..., Any], reading_scorer: Callable[..., Any]) -> VideoReward:
    """One that waits for its decoder."""
    return VideoReward(video_config(), scorer=reading_scorer())


@pytest.mark.parametrize(
    "attested", [None, "zero_to_one", "NEG_ONE_TO_ONE", "", True, ("neg_one_to_one",), b"neg_one_to_one"]
)
def test_another_range_or_none_is_refused(adapter: VideoReward, attested: Any) -> None:
    """The attestation is the exact word: a decoder of [0, 1] would score as grey, and nothing else would tell."""
    with pytest.raises(RewardConfigError, match="has to attest output_range='neg_one_to_one', got"):
        adapter.attach(SimpleNamespace(decode=_decode, output_range=attested))


def test_a_decoder_that_says_nothing_is_refused(adapter: VideoReward) -> None:
    """Nothing is assumed of a model's own decoder."""
    silent: Any = SimpleNamespace(decode=_decode)
    with pytest.raises(RewardConfigError, match="the decoder a SimpleNamespace has to attest"):
        adapter.attach(silent)


@pytest.mark.parametrize("what", [None, _ByProperty, SimpleNamespace(output_range="neg_one_to_one"), _decode])
def test_what_is_no_decoder_is_refused(adapter: VideoReward, what: Any) -> None:
    """A class, a function, or something that can't decode."""
    with pytest.raises(RewardConfigError, match="expected a decoder with decode"):
        adapter.attach(what)


def test_an_attestation_by_property_counts(adapter: VideoReward) -> None:
    """However the attribute is made."""
    decoder = _ByProperty()
    assert isinstance(decoder, MediaDecoder)
    adapter.attach(decoder)
    assert repr(adapter) == "VideoReward('r1', a _ByProperty)"


def test_every_provider_that_waits_is_given_it(video_config: Callable[..., Any], reading_scorer: Any) -> None:
    """Of several the named one alone, or without a name all; others are left alone."""
    first, second = (VideoReward(video_config(), term=name, scorer=reading_scorer()) for name in ("a", "b"))
    providers = {"first": first, "rule": map_candidates(lambda candidate, context: None), "second": second}  # type: ignore[arg-type,return-value]  # never called
    attach_decoder(providers, _ByProperty(), name="second")
    assert ["no decoder" in repr(each) for each in (first, second)] == [True, False]
    attach_decoder(providers, _ByProperty())
    assert "no decoder" not in repr(first)


def test_a_name_that_takes_no_decoder_is_refused(adapter: VideoReward) -> None:
    """A misspelt name, a provider of texts, or a worker that does not exist yet."""
    providers: Any = {"video": adapter, "rule": object()}
    for name in ("vidio", "rule"):
        with pytest.raises(RewardConfigError, match=f"no provider named '{name}' takes a decoder; .* 'video', 'rule'"):
            attach_decoder(providers, _ByProperty(), name=name)
    with pytest.raises(RewardConfigError, match="no provider takes a decoder; the worker's are not constructed yet"):
        attach_decoder(InProcessEvaluator().providers, _ByProperty())


def test_a_worker_of_a_catalog_is_given_its_decoder(video_config: Callable[..., Any]) -> None:
    """The entry's way: make the evaluator, make the worker, attach."""
    evaluator = InProcessEvaluator()
    RewardWorker(catalog={"video": VideoReward.spec(video_config())}, reward="video", group_size=1, evaluator=evaluator)
    attach_decoder(evaluator.providers, _ByProperty())
    assert "a _ByProperty" in repr(evaluator.providers["video"])
