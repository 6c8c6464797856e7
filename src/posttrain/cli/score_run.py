# SPDX-License-Identifier: Apache-2.0
"""The run that `posttrain score` is told of by a config: the flags that were given are laid over it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from posttrain.cli.score_options import ScoreOptions
from posttrain.errors import RewardConfigError
from posttrain.rollouts.columns import RolloutColumns, column_flag

if TYPE_CHECKING:
    from posttrain.runs.config import RLConfig

__all__ = ["described_run", "rollouts_of"]

_FLAGS: Final[Mapping[str, tuple[str, str]]] = {
    "reward": ("--reward", "rl.reward"),
    "catalog": ("--catalog", "rl.reward_catalog"),
    "group_size": ("--group-size", "rl.group_size"),
    "estimator": ("--estimator", "rl.reward_stage.estimator"),
    "on_unavailable": ("--on-unavailable", "rl.reward_stage.on_unavailable"),
    "max_dropped_fraction": ("--max-dropped-fraction", "rl.reward_stage.max_dropped_fraction"),
    "groups_in_flight": ("--groups-in-flight", "rl.reward_stage.groups_in_flight"),
    "backend": ("--backend", "rl.reward_stage.backend"),
    "workers": ("--workers", "rl.reward_stage.processes.workers"),
    **{
        f"{each.name}_column": (
            column_flag(each.name),
            f"rl.data.{'response' if each.name == 'reference' else each.name}_column",
        )
        for each in fields(RolloutColumns)
    },
}
"""Field of the options to its flag and the key that it sets."""

_OF_VALIDATION: Final = {"reward": "rl.validation.reward", "group_size": "rl.validation.n_generation"}
"""What these flags set too where rollouts are scored as held-out ones."""


def described_run(options: ScoreOptions) -> RLConfig | None:
    """The config under the flags that were given; None when neither a file nor an override was.

    Raises:
        RewardConfigError: see `posttrain.runs.load_config`.
    """
    overrides = _overrides(options)
    if options.config is None and not overrides:
        return None
    from posttrain.runs.config import given, resolve_config

    flags = {key: given(value, flag) for key, value, flag in _given_flags(options)}
    return resolve_config(options.config, overrides, flags).config


def rollouts_of(options: ScoreOptions, run: RLConfig) -> Path:
    """The file of rollouts: the argument, or what the config names.

    Raises:
        RewardConfigError: there is none, or the config names no file.
    """
    if options.rollouts is not None and not _is_override(options.rollouts):
        return Path(options.rollouts)
    if run.data.path is None:
        raise RewardConfigError(
            "ROLLOUTS missing, and rl.data.path is not set; for example: "
            "posttrain score rollouts.jsonl --config run.toml"
        )
    if run.data.source != "jsonl":
        raise RewardConfigError(
            f"rl.data.path is {run.data.path!r}, which is read as rows of a Hugging Face source, not as saved "
            "rollouts: name their file, as in posttrain score rollouts.jsonl --config run.toml"
        )
    return Path(run.data.path)


def _overrides(options: ScoreOptions) -> list[str]:
    first = options.rollouts
    return [*([first] if first is not None and _is_override(first) else []), *(options.overrides or ())]


def _is_override(argument: str) -> bool:
    """Whether the first argument sets a key; a file of such a name is written ./rl.x=y."""
    return re.match(r"rl\.[^/=]*=", argument) is not None


def _given_flags(options: ScoreOptions) -> Iterator[tuple[str, Any, str]]:
    """Key, value and flag of what the user gave."""
    for field in sorted(options.given & _FLAGS.keys()):
        flag, key = _FLAGS[field]
        yield key, getattr(options, field), flag
        if options.namespace == "val" and field in _OF_VALIDATION:
            yield _OF_VALIDATION[field], getattr(options, field), flag
    for term, weight in options.weights().items():
        yield f"rl.reward_stage.weights.{term}", weight, "--weight"
