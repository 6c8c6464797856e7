# SPDX-License-Identifier: Apache-2.0
"""The options of `posttrain score`, each with the key of a run's config that it stands for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.options import flag
from posttrain.errors import RewardConfigError
from posttrain.rollouts.columns import RolloutColumns

__all__ = ["ScoreOptions"]


_Backend = Literal["in_process", "processes"]
_Estimator = Literal["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """What the user asked for."""

    rollouts: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLLOUTS",
            help="JSONL, a row per candidate or per group, .gz and .zst too; or another tool's dump. (rl.data.path)",
        ),
    ] = None
    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", f"{CONFIG_HELP} Flags win over it.", metavar="FILE")] = None
    reward: Annotated[list[str] | None, flag("--reward", "Provider to score with; again for several. (rl.reward)")] = (
        None
    )
    catalog: Annotated[
        str | None,
        flag("--catalog", "Your providers, package.module:factory or file.py:factory. (rl.reward_catalog)"),
    ] = None
    group_size: Annotated[int | None, flag("--group-size", "Candidates per group. (rl.group_size)", min=1)] = None
    weight: Annotated[
        list[str] | None,
        flag(
            "--weight",
            "Weight of a term in the final reward, 1 where none is given; again for several. (rl.reward_stage.weights)",
            metavar="TERM=NUMBER",
        ),
    ] = None
    estimator: Annotated[_Estimator, flag("--estimator", "Of the advantage. (rl.reward_stage.estimator)")] = (
        "group_norm"
    )
    namespace: Annotated[Literal["train", "val"], flag("--namespace", "Of the metrics.")] = "train"
    on_unavailable: Annotated[
        Literal["fail", "drop_group"],
        flag(
            "--on-unavailable",
            "What to do when an outside service can't answer. (rl.reward_stage.on_unavailable)",
        ),
    ] = "fail"
    max_dropped_fraction: Annotated[
        float,
        flag(
            "--max-dropped-fraction",
            "Share of dropped groups that is still accepted. (rl.reward_stage.max_dropped_fraction)",
            min=0.0,
            max=1.0,
        ),
    ] = 0.1
    groups_in_flight: Annotated[
        int | None,
        flag(
            "--groups-in-flight",
            "Lower than the providers declare. (rl.reward_stage.groups_in_flight)",
            min=1,
        ),
    ] = None
    backend: Annotated[_Backend, flag("--backend", "Where groups are evaluated. (rl.reward_stage.backend)")] = (
        "in_process"
    )
    workers: Annotated[
        int | None,
        flag("--workers", "Processes of the processes backend. (rl.reward_stage.processes.workers)", min=1),
    ] = None
    group_by: Annotated[
        str | None,
        flag(
            "--group-by",
            "For files without group ids: rows with equal columns, or every N rows, are a group.",
            metavar="COL,...|consecutive:N",
        ),
    ] = None
    peer: Annotated[
        Literal["trl", "verl", "verifiers", "inspect"] | None,
        flag("--from", "The tool that wrote ROLLOUTS; seen by their content where that leaves no doubt."),
    ] = None
    render: Annotated[
        Literal["last"] | None,
        flag("--render", "With --from, where a completion is several messages: the content of the last."),
    ] = None
    group_id_column: Annotated[
        str, flag("--group-id-column", "What the rows of a group share. (rl.data.group_id_column)")
    ] = "group_id"
    trajectory_id_column: Annotated[
        str, flag("--trajectory-id-column", "Identity of a candidate. (rl.data.trajectory_id_column)")
    ] = "trajectory_id"
    prompt_column: Annotated[str, flag("--prompt-column", "Any JSON. (rl.data.prompt_column)")] = "prompt"
    completion_column: Annotated[
        str, flag("--completion-column", "Text of one candidate. (rl.data.completion_column)")
    ] = "completion"
    completions_column: Annotated[
        str, flag("--completions-column", "A list: the row is a group. (rl.data.completions_column)")
    ] = "completions"
    reference_column: Annotated[str, flag("--reference-column", "Any JSON. (rl.data.response_column)")] = "reference"
    finish_reason_column: Annotated[
        str, flag("--finish-reason-column", "The engine's verdict. (rl.data.finish_reason_column)")
    ] = "finish_reason"
    completion_token_count_column: Annotated[
        str, flag("--completion-token-count-column", "Tokens. (rl.data.completion_token_count_column)")
    ] = "completion_token_count"  # noqa: S105  # tokens of a text, no secret
    out: Annotated[
        Path | None, flag("--out", "Scored rows, a JSON line a candidate; NAME.identity.json beside it.")
    ] = None
    metrics: Annotated[Path | None, flag("--metrics", "Metrics as JSON; metrics.json beside --out by default.")] = None
    resume: Annotated[bool, flag("--resume", "Go on with an interrupted run, under the same identity only.")] = False
    restart: Annotated[bool, flag("--restart", "Throw an interrupted run away.")] = False
    explain: Annotated[
        str | None,
        flag(
            "--explain",
            "Show one candidate with what the provider saw and returned.",
            metavar="TRAJECTORY_ID",
        ),
    ] = None
    replay: Annotated[Path | None, flag("--replay", "Run a kept failing request again.", metavar="FILE")] = None
    given: frozenset[str] = frozenset()
    """Names of the fields that the user gave: these alone win over a config."""

    def columns(self) -> RolloutColumns:
        """The columns of the rollouts."""
        return RolloutColumns(
            group_id=self.group_id_column,
            trajectory_id=self.trajectory_id_column,
            prompt=self.prompt_column,
            completion=self.completion_column,
            completions=self.completions_column,
            reference=self.reference_column,
            finish_reason=self.finish_reason_column,
            completion_token_count=self.completion_token_count_column,
        )

    def weights(self) -> dict[str, float]:
        """The ``TERM=NUMBER`` texts as weights.

        Raises:
            RewardConfigError: naming every text that is none, and every term that stands twice.
        """
        weights: dict[str, float] = {}
        faults = []
        for text in self.weight or []:
            term, _, number = text.partition("=")
            value = _number(number)
            if not term or value is None:
                faults.append(f"--weight {text}: expected TERM=NUMBER, for example length=-0.1")
            elif term in weights:
                faults.append(f"--weight {text}: the term stands twice")
            else:
                weights[term] = value
        if faults:
            raise RewardConfigError("\n".join(faults))
        return weights

    def required(self) -> tuple[Path, list[str], int]:
        """Rollouts, rewards and group size.

        Raises:
            RewardConfigError: naming every one that is missing.
        """
        if self.rollouts is None or not self.reward or self.group_size is None:
            given = {"ROLLOUTS": self.rollouts, "--reward": self.reward, "--group-size": self.group_size}
            missing = ", ".join(name for name, value in given.items() if not value)
            raise RewardConfigError(
                f"{missing} missing; for example: posttrain score rollouts.jsonl --reward gsm8k --group-size 4"
            )
        return Path(self.rollouts), self.reward, self.group_size


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
