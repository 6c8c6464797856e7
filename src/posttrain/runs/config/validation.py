# SPDX-License-Identifier: Apache-2.0
"""The section ``rl.validation``: held-out rows, what is sampled of them, and who scores it."""

from __future__ import annotations

from typing import Annotated, final

from pydantic import Field, ValidationInfo, field_validator

from posttrain.runs.config.grpo import NotNegative
from posttrain.runs.config.kinds import Count, PathText, ProviderNames, Seed, Switch, Text, one_of
from posttrain.runs.config.section import Section
from posttrain.runs.config.sources import Source, source_of

__all__ = ["ValidationConfig"]


@final
class ValidationConfig(Section):
    """``rl.validation``: held-out validation, by providers of the same catalog. Keys may be set while it is off."""

    enabled: Switch = False
    """Whether a run validates."""
    reward: ProviderNames | None = None
    """Provider to validate with, or several. Default: those of ``rl.reward``."""
    n_generation: Count = 1
    """Completions per held-out prompt, at least 1: the group size of validation."""
    interval: Count | None = None
    """Training steps between two validations, at least 1. Default: one validation, at the end."""
    path: PathText | None = None
    """Held-out rows, as ``rl.data.path`` names training rows; the columns are those of ``rl.data``."""
    source: Annotated[Source | None, Field(validate_default=True), one_of(Source)] = None
    """Who reads them: see ``rl.data.source``."""
    name: Text | None = None
    """Configuration of a Hugging Face data set. Default: the only one that it has."""
    revision: Text | None = None
    """Version of a data set on the Hugging Face hub. Default: its main one."""
    split: Text = "test"
    """Split of a Hugging Face source."""
    temperature: NotNegative | None = None
    """Of sampling for validation; 0 is greedy. Default: 0 where `n_generation` is 1, else 1."""
    seed: Seed = 0
    """Of sampling for validation: the same at each validation of a run."""
    batch_size: Count = 256
    """Completions that a process samples at a time for validation."""

    @field_validator("source")
    @classmethod
    def _by_path(cls, source: Source | None, info: ValidationInfo) -> Source | None:
        return source_of(info.data.get("path"), source)

    @field_validator("temperature")
    @classmethod
    def _of_several(cls, temperature: float | None, info: ValidationInfo) -> float | None:
        several = info.data.get("n_generation", 1) > 1
        if temperature == 0 and several:
            raise ValueError(
                "0 is greedy, and n_generation greedy completions of a prompt are the same one: set it above 0, or "
                "rl.validation.n_generation to 1"
            )
        return temperature

    @property
    def sampling_temperature(self) -> float:
        """The temperature that holds."""
        if self.temperature is not None:
            return self.temperature
        return 1.0 if self.n_generation > 1 else 0.0
