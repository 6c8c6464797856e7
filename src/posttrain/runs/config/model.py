# SPDX-License-Identifier: Apache-2.0
"""`RLConfig`: every key of a run, with its meaning, its range and its default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from posttrain.errors import RewardConfigError, listing
from posttrain.rewards import GroupEvaluator, RewardCatalog, RewardWorker, load_catalog
from posttrain.rewards.metrics.report import Namespace
from posttrain.rewards.stage.stage import OnUnavailable
from posttrain.rollouts.columns import RolloutColumns
from posttrain.runs.config.kinds import (
    CatalogPath,
    Count,
    FunctionPath,
    PathText,
    ProviderNames,
    RunName,
    Seed,
    Sha256,
    Share,
    Switch,
    Text,
    Weights,
    one_of,
)
from posttrain.runs.config.write import to_toml

__all__ = ["DataConfig", "RLConfig", "RewardStageConfig", "RunConfig", "ValidationConfig", "names_file"]

Source: TypeAlias = Literal["jsonl", "hf"]
EstimatorName: TypeAlias = Literal["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"]
Backend: TypeAlias = Literal["in_process"]

_DEFAULT: Final = RolloutColumns()


class _Section(BaseModel):
    """Strict: nothing is converted, no key is made up, nothing changes afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


@final
class DataConfig(_Section):
    """``rl.data``: the rows of a run, and which column holds what."""

    path: PathText | None = None
    """A file of rows, relative to the working directory, or the name of a data set on the Hugging Face hub."""
    source: Annotated[Source | None, Field(validate_default=True), one_of(Source)] = None
    """Who reads it: the local JSONL loader, or ``datasets``. Default: jsonl where the path ends in .jsonl or
    .ndjson, also with .gz or .zst, hf otherwise."""
    name: Text | None = None
    """Configuration of a Hugging Face data set. Default: the only one that it has."""
    revision: Text | None = None
    """Version of a data set on the Hugging Face hub: a tag, a branch or a commit. Default: its main one."""
    split: Text = "train"
    """Split of a Hugging Face source, as ``datasets`` writes it: ``train[:10%]`` too."""
    prompt_column: Text = _DEFAULT.prompt
    """Column of the canonical prompt."""
    response_column: Annotated[Text, Field(validate_default=True)] = _DEFAULT.reference
    """Column of the opaque reference."""
    row_id_column: Text | None = None
    """Column of the rows' stable ids. Default: none, a row is known by a digest of its prompt and reference."""
    items_fn: FunctionPath | None = None
    """``package.module:function`` that rewrites the rows of a Hugging Face source and keeps their keys."""
    seed: Seed = 0
    """Of the order of the rows, 0 to 2**32 - 1."""
    shuffle: Switch = True
    """Whether each epoch has an order of its own; otherwise it is that of the source."""
    spool_dir: PathText | None = None
    """Folder for the temporary copy of a compressed JSONL file. Default: the platform's temporary folder."""
    group_id_column: Text = _DEFAULT.group_id
    """In saved rollouts: what the rows of one group share."""
    trajectory_id_column: Text = _DEFAULT.trajectory_id
    """In saved rollouts: identity of a candidate."""
    completion_column: Text = _DEFAULT.completion
    """In saved rollouts: text of the row's one candidate."""
    completions_column: Text = _DEFAULT.completions
    """In saved rollouts: list of texts, the row is a whole group."""
    finish_reason_column: Text = _DEFAULT.finish_reason
    """In saved rollouts: the engine's verbatim verdict."""
    completion_token_count_column: Text = _DEFAULT.completion_token_count
    """In saved rollouts: number of tokens."""

    @field_validator("source")
    @classmethod
    def _by_path(cls, source: Source | None, info: ValidationInfo) -> Source | None:
        path = info.data.get("path")
        if source is not None or path is None:
            return source
        # Only here, where a path is given, does the config need the data floor.
        from posttrain.data.sources import source_kind

        return "jsonl" if source_kind(path) == "jsonl" else "hf"

    @field_validator("response_column")
    @classmethod
    def _apart(cls, column: str, info: ValidationInfo) -> str:
        if column == info.data.get("prompt_column"):
            raise ValueError(f"the prompt and the reference are both column {column!r}: give each a column of its own")
        return column

    @field_validator("items_fn")
    @classmethod
    def _only_for_hf(cls, function: str | None, info: ValidationInfo) -> str | None:
        if function is not None and info.data.get("source") == "jsonl":
            raise ValueError(
                "only rows of a Hugging Face source are rewritten; a JSONL file is prepared offline: write the rows "
                "as they should be and leave this key out, or set rl.data.source=hf"
            )
        return function


@final
class RewardStageConfig(_Section):
    """``rl.reward_stage``: how terms become rewards and advantages, and what happens when a service is down."""

    weights: Weights = Field(default={}, validate_default=True)
    """Term to its finite weight in ``final``; 1 where none is given, 0 keeps a term out, a negative one punishes."""
    estimator: Annotated[EstimatorName, one_of(EstimatorName)] = "group_norm"
    """Of the advantage."""
    on_unavailable: Annotated[OnUnavailable, one_of(OnUnavailable)] = "fail"
    """When an outside service can't answer: fail the batch, or leave out whole groups."""
    max_dropped_fraction: Share = 0.1
    """Share of dropped groups in [0, 1] above which the batch fails all the same."""
    groups_in_flight: Count | None = None
    """Upper bound on what the providers declare, at least 1. Default: what they declare."""
    backend: Annotated[Backend, one_of(Backend)] = "in_process"
    """Where groups are evaluated."""


@final
class ValidationConfig(_Section):
    """``rl.validation``: held-out validation, by providers of the same catalog. Keys may be set while it is off."""

    enabled: Switch = False
    """Whether a run validates."""
    reward: ProviderNames | None = None
    """Provider to validate with, or several. Default: those of ``rl.reward``."""
    n_generation: Count = 1
    """Completions per held-out prompt, at least 1: the group size of validation."""
    interval: Count | None = None
    """Training steps between two validations, at least 1. Default: one validation, at the end."""


@final
class RunConfig(_Section):
    """``rl.run``: where a run is recorded."""

    name: RunName | None = None
    """Name of the run's folder. Default: the command makes one."""
    directory: PathText = "runs"
    """Folder of all runs, relative to the working directory."""


@final
class RLConfig(_Section):
    """The config of a run, checked: the keys under ``rl``. `posttrain.runs.load_config` makes one."""

    reward: ProviderNames
    """Provider to train with, or several that score together."""
    reward_catalog: CatalogPath | None = None
    """``package.module:factory``, ``package.module.factory`` or ``file.py:factory``. Default: the built-ins alone."""
    reward_catalog_folder: PathText | None = None
    """Folder that a catalog file is relative to. Default: that of the config file which names the catalog, the working
    directory where an override does; none where the catalog is no file. A resolved config has it absolute. It is
    not used for a catalog that an override or a flag puts in the place of the file's."""
    group_size: Count
    """Candidates per group in training, at least 1."""
    mask_truncated: Switch = False
    """Whether the loss leaves out completions that the engine cut at their token budget."""
    accept_identity: Sha256 | None = None
    """SHA-256 of the identity that a resume may go on from although the present one is another."""
    data: DataConfig = DataConfig()
    reward_stage: RewardStageConfig = RewardStageConfig()
    validation: ValidationConfig = ValidationConfig()
    run: RunConfig = RunConfig()

    def to_toml(self) -> str:
        """The config as TOML, keys in the order of their declaration: what `load_config` reads as an equal config."""
        return to_toml(self)

    def rollout_columns(self) -> RolloutColumns:
        """Which column of saved rollouts holds what.

        Raises:
            RewardConfigError: two keys name the same column.
        """
        data = self.data
        roles = [each.name for each in fields(RolloutColumns)]
        keys = {role: f"{'response' if role == 'reference' else role}_column" for role in roles}
        columns = {role: getattr(data, key) for role, key in keys.items()}
        holders: dict[str, list[str]] = {}
        for role, column in columns.items():
            holders.setdefault(column, []).append(f"rl.data.{keys[role]}")
        shared = [f"{' and '.join(each)} are both {column!r}" for column, each in holders.items() if len(each) > 1]
        if shared:
            raise RewardConfigError(f"saved rollouts have a column for each of these:\n{listing(shared)}")
        return RolloutColumns(**columns)

    def catalog(self) -> RewardCatalog:
        """The catalog of training and of validation alike.

        Raises:
            RewardConfigError: see `posttrain.rewards.load_catalog`.
        """
        folder = self.reward_catalog_folder
        return load_catalog(self.reward_catalog, base=None if folder is None else Path(folder))

    @property
    def catalog_path(self) -> str | None:
        """The catalog's path, a file's made absolute: it means the same in any working directory."""
        path, folder = self.reward_catalog, self.reward_catalog_folder
        if path is None or folder is None or not names_file(path):
            return path
        return str(Path(folder) / path)

    def rewards(self, namespace: Namespace = "train") -> tuple[str, ...]:
        """The providers of training, or those of validation."""
        return (self.validation.reward or self.reward) if namespace == "val" else self.reward

    def worker(self, *, namespace: Namespace = "train", evaluator: GroupEvaluator | None = None) -> RewardWorker:
        """The worker of training, or that of held-out validation: its own providers, its own group size.

        Args:
            namespace: ``train``, or ``val``: there the providers are those of ``rl.validation.reward``, a group has
                ``rl.validation.n_generation`` candidates, and weights of terms that only training has are left out.
            evaluator: where groups are evaluated; None: in this process.

        Raises:
            RewardConfigError: the catalog, a name, a weight or a factory is at fault.
        """
        catalog, rewards, stage = self.catalog(), self.rewards(namespace), self.reward_stage
        weights = dict(stage.weights)
        if namespace == "val":
            terms = {term for name in rewards for term in catalog.spec(name).terms}
            others = {term for name in self.reward for term in catalog.spec(name).terms} - terms
            # What nobody declares stays, to be refused as a slip.
            weights = {term: weight for term, weight in weights.items() if term not in others}
        return RewardWorker(
            catalog=catalog,
            reward=rewards,
            group_size=self.validation.n_generation if namespace == "val" else self.group_size,
            weights=weights,
            namespace=namespace,
            estimator=stage.estimator,
            on_unavailable=stage.on_unavailable,
            max_dropped_fraction=stage.max_dropped_fraction,
            groups_in_flight=stage.groups_in_flight,
            evaluator=evaluator,
        )


def names_file(catalog: str) -> bool:
    """Whether a catalog's path names a Python file, not a module."""
    return catalog.rpartition(":" if ":" in catalog else ".")[0].endswith(".py")
