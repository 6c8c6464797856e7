# SPDX-License-Identifier: Apache-2.0
"""What the two adapters share: the group contract around one sample at a time."""

from __future__ import annotations

import importlib.util
from typing import Any, ClassVar, Final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.media.adapter.decoder import MediaDecoder, check_decoder
from posttrain.media.adapter.evaluation import DIAGNOSTICS, Evaluation
from posttrain.media.client import RewardServiceClient
from posttrain.media.config import ServiceConfig
from posttrain.media.sample import SampleScorer
from posttrain.media.spool import check_spool
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import LatentCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["MediaReward", "spec_of"]

_ROOM: Final = 64 << 10
"""Bytes that the line and the header may take beside the array."""


class MediaReward:
    """A managed, rank-local provider. Use `VideoReward` or `ImageReward`.

    It maps each candidate through one singular scorer, in order: one request each, no batching, no comparison. Made by
    a catalog without a decoder, which the rank's entry attaches (`attach_decoder`).
    """

    config_type: ClassVar[type[ServiceConfig]]

    def __init__(self, config: ServiceConfig, *, term: str, scorer: SampleScorer | None = None) -> None:
        if type(config) is not self.config_type:
            raise RewardConfigError(
                f"{type(self).__name__} takes a {self.config_type.__name__}, got {describe(config)}"
            )
        self._config = config
        self._term = term
        self._scorer: SampleScorer = RewardServiceClient(config) if scorer is None else scorer
        self._decoder: MediaDecoder | None = None
        self._orphans_told = 0

    def __repr__(self) -> str:
        decoder = "no decoder" if self._decoder is None else f"a {type(self._decoder).__qualname__}"
        return f"{type(self).__name__}({self._config.provider_revision!r}, {decoder})"

    def attach(self, decoder: MediaDecoder) -> None:
        """Use the model's decoder of this rank; call it before the first batch.

        Raises:
            RewardConfigError: it does not attest ``output_range="neg_one_to_one"``.
        """
        self._decoder = check_decoder(decoder)

    def check_machine(self) -> None:
        """Look for all that an evaluation needs here: curl, the token, the spool folder and its space, torch.

        Raises:
            RewardConfigError: naming everything that is missing. No network call; nothing is kept.
        """
        missing = []
        for check in (self._scorer.check_machine, self._check_spool, _check_installed):
            try:
                check()
            except RewardConfigError as error:
                missing.append(error)
        if len(missing) == 1:
            raise missing[0]
        if missing:
            raise RewardConfigError(f"this machine lacks:\n{listing([each.message for each in missing])}")

    def open(self) -> None:
        """Check the machine; the decoder may still come later."""
        self.check_machine()

    def close(self) -> None:
        """Nothing is held between two evaluations."""

    def evaluate(self, request: RewardGroupRequest[Any]) -> RewardGroupResult:
        """One request to the service for each candidate, in their order.

        Raises:
            RewardContractError: there is no decoder, or a candidate is no `LatentCandidate`.
        """
        decoder = self._decoder
        if decoder is None:
            raise RewardContractError(
                "no decoder is attached: call attach_decoder(evaluator.providers, decoder) on this rank before the "
                "first batch"
            )

        def score(candidate: Any, context: RewardContext) -> RewardProviderResult:
            return self._scored(candidate, context, decoder)

        return map_candidates(score).evaluate(request)

    def _scored(self, candidate: object, context: RewardContext, decoder: MediaDecoder) -> RewardProviderResult:
        if not isinstance(candidate, LatentCandidate):
            raise RewardContractError(
                f"expected a LatentCandidate, got a {type(candidate).__qualname__}: the provider has to be rank-local; "
                f"build its spec with {type(self).__name__}.spec(config)"
            )
        prompt = _text_prompt(context) if self._config.send_prompts else None
        evaluation = Evaluation(config=self._config, decoder=decoder, scorer=self._scorer)
        reward = evaluation.reward(candidate.latent, prompt)
        # A sample that was given up has no result to report it in, so the next one that is scored does.
        orphans = self._scorer.orphans
        evaluation.diagnostics["orphans"] = MetricContribution.total(orphans - self._orphans_told)
        self._orphans_told = orphans
        return RewardProviderResult(terms={self._term: reward}, diagnostics=evaluation.diagnostics)

    def _check_spool(self) -> None:
        check_spool(self._config.spool_dir, self._config.max_sample_bytes + _ROOM)


def spec_of(config: ServiceConfig, term: str, adapter: str, factory: Any) -> RewardProviderSpec:
    """The whole spec of a media provider: terms, needs, diagnostics, identity, and the trait `rank_local`."""
    return RewardProviderSpec(
        factory=factory,
        revision=config.provider_revision,
        terms=(term,),
        needs=("prompt",) if config.send_prompts else (),
        diagnostics=DIAGNOSTICS,
        semantic_identity={"adapter": adapter, **config.semantic_identity()},
        execution=ProviderExecution(rank_local=True),
    )


def _text_prompt(context: RewardContext) -> str:
    if type(context.prompt) is str:
        return context.prompt
    raise RewardContractError(
        f"send_prompts sends the prompt as text, got {describe(context.prompt)}: the service knows no conversation, so "
        "map the prompt column to a text, or unset send_prompts"
    )


def _check_installed() -> None:
    missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise RewardConfigError(f'{" and ".join(missing)} is not installed: pip install "posttrain[media]"')
