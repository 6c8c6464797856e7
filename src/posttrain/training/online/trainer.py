# SPDX-License-Identifier: Apache-2.0
"""`RunTrainer`: `StageGRPOTrainer` with what a run needs besides: other sampling for validation, and going on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch

from posttrain.integrations.trl.completions import finish_verdict
from posttrain.integrations.trl.trainer import StageGRPOTrainer
from posttrain.rewards import StageIdentity

__all__ = ["STAGE_SECONDS", "RunTrainer"]

STAGE_SECONDS = "stage_seconds"
"""Metric: seconds of a step in the reward stage, waiting for other processes included."""


class RunTrainer(StageGRPOTrainer):
    """The trainer of a run. Subclasses change the loss; sampling, scoring and the record stay."""

    def go_on_from(self, batches: int) -> None:
        """Count batches from here, so that group ids go on where an earlier part of the run stopped."""
        self._batches = batches

    @property
    def batches(self) -> int:
        """How many batches have been sampled and scored, those of earlier parts of the run included."""
        return self._batches

    @property
    def stage_identity(self) -> StageIdentity:
        """What training is scored with."""
        return self._workers["train"].stage_identity

    def sample(
        self, prompts: Sequence[Any], *, num_generations: int, temperature: float, seed: int
    ) -> list[tuple[str, int, str | None]]:
        """Completions outside of training: text, number of tokens and finish verdict of each.

        The engine and all settings but these are those of training. The random state of training is left as it was.
        Every process calls it with equally many prompts.

        Args:
            prompts: what to complete.
            num_generations: completions of each, which follow each other.
            temperature: of sampling; 0 takes the likeliest token each time.
            seed: fixes the draws, for each process apart. An engine of its own (vLLM) draws by itself.
        """
        repeated = [prompt for prompt in prompts for _ in range(num_generations)]
        model: Any = self.model
        was_training = model.training
        model.eval()
        try:
            with self._sampling_at(temperature), _own_draws(seed + self.accelerator.process_index):
                prompt_ids, images, fields = self._tokenize_prompts(repeated)
                generate: Any = self._generate_single_turn
                sampled, _ = generate(prompt_ids, images, fields, num_generations)
        finally:
            model.train(was_training)
        decode: Any = self._tokenizer.batch_decode
        texts = decode(sampled, skip_special_tokens=True)
        return [(text, len(ids), self._verdict(ids)) for text, ids in zip(texts, sampled, strict=True)]

    def _verdict(self, ids: Sequence[int]) -> str | None:
        return finish_verdict(
            ids,
            eos_token_ids=self.eos_token_ids,
            pad_token_id=self._tokenizer.pad_token_id,
            max_completion_length=self.max_completion_length,
            has_stop_strings=self._has_stop_strings,
        )

    @contextmanager
    def _sampling_at(self, temperature: float) -> Iterator[None]:
        if self.use_vllm:
            engine, before = self.vllm_generation, self.vllm_generation.temperature
            engine.temperature = temperature
            try:
                yield
            finally:
                engine.temperature = before
            return
        usual = self.generation_config
        other: Any = deepcopy(usual)
        # One candidate token is greedy, and needs no other mode of generation.
        other.update(**({"temperature": temperature} if temperature else {"temperature": 1.0, "top_k": 1}))
        self.generation_config = other
        try:
            yield
        finally:
            self.generation_config = usual

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        started = time.perf_counter()
        found: torch.Tensor = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        self._metrics[self._mode()][STAGE_SECONDS].append(time.perf_counter() - started)
        return found


@contextmanager
def _own_draws(seed: int) -> Iterator[None]:
    """A random state of its own for what is inside."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield
