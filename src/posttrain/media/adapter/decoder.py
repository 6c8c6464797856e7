# SPDX-License-Identifier: Apache-2.0
"""The model-owned decoder, and how a rank's entry gives it to the providers that a catalog made without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from posttrain.errors import RewardConfigError, describe
from posttrain.rewards.contract.provider import RewardProvider

__all__ = ["OUTPUT_RANGE", "MediaDecoder", "TakesDecoder", "attach_decoder", "check_decoder"]

OUTPUT_RANGE: Final = "neg_one_to_one"
"""What a decoder has to attest: its pixels lie in [-1, 1]."""


@runtime_checkable
class MediaDecoder(Protocol):
    """Turns a final latent into pixels, on the device where the latent is.

    Example:
        ::

            class WanDecoder:
                output_range = "neg_one_to_one"

                def __init__(self, vae):
                    self.vae = vae

                def decode(self, latent):
                    return self.vae.decode(latent).sample
    """

    @property
    def output_range(self) -> str:
        """The range of the pixels, attested by whoever wrote the decoder: exactly ``"neg_one_to_one"``."""
        ...

    def decode(self, latent: Any) -> Any:
        """One floating tensor: of a video [1,3,T,H,W], of an image [1,3,1,H,W]. Called without gradients."""
        ...


@runtime_checkable
class TakesDecoder(Protocol):
    """A provider that waits for a decoder."""

    def attach(self, decoder: MediaDecoder) -> None:
        """Use this decoder from now on."""
        ...


def check_decoder(decoder: object) -> MediaDecoder:
    """`decoder`, once it is one and attests its range.

    Raises:
        RewardConfigError: it has no `decode`, or attests another range or none: a decoder of [0, 1] would be scored as
            grey, and nothing else would tell.
    """
    if isinstance(decoder, type) or not callable(getattr(decoder, "decode", None)):
        raise RewardConfigError(f"expected a decoder with decode(latent) and output_range, got {_kind(decoder)}")
    attested = getattr(decoder, "output_range", None)
    if type(attested) is not str or attested != OUTPUT_RANGE:
        raise RewardConfigError(
            f"the decoder {_kind(decoder)} has to attest output_range={OUTPUT_RANGE!r}, got {describe(attested)}: map "
            "its pixels to [-1, 1], then say so"
        )
    return decoder  # type: ignore[return-value]  # it has both members, which were just looked at


def attach_decoder(providers: Mapping[str, RewardProvider], decoder: MediaDecoder, *, name: str | None = None) -> None:
    """Give a rank's decoder to the media providers of its worker, before the first batch.

    Args:
        providers: name to constructed provider, as ``InProcessEvaluator.providers`` has them.
        decoder: the model's own decoder on this rank.
        name: which provider takes it; None: every one that takes a decoder.

    Raises:
        RewardConfigError: no provider takes a decoder, the named one does not or is not there, or the decoder does not
            attest its range.

    Example:
        ::

            evaluator = InProcessEvaluator()
            worker = RewardWorker(catalog="my_rewards:catalog", reward="video", group_size=8, evaluator=evaluator)
            attach_decoder(evaluator.providers, WanDecoder(pipeline.vae))
    """
    check_decoder(decoder)
    takers = {each: it for each, it in providers.items() if isinstance(it, TakesDecoder) and name in (None, each)}
    if not takers:
        asked = "no provider" if name is None else f"no provider named {name!r}"
        raise RewardConfigError(
            f"{asked} takes a decoder; the worker's are {', '.join(map(repr, providers)) or 'not constructed yet'}"
        )
    for taker in takers.values():
        taker.attach(decoder)


def _kind(decoder: object) -> str:
    """The type alone: the repr of a model fills pages."""
    return f"the class {decoder.__qualname__}" if isinstance(decoder, type) else f"a {type(decoder).__qualname__}"
