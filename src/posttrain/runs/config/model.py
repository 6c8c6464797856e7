# SPDX-License-Identifier: Apache-2.0
"""`RLConfig`: every key of a run, with its meaning, its range and its default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, final

from pydantic import Field, ValidationInfo, field_validator

from posttrain.errors import RewardConfigError, listing
from posttrain.rewards import GroupEvaluator, RewardCatalog, RewardWorker, load_catalog
from posttrain.rewards.metrics.report import Namespace
from posttrain.rewards.stage.stage import OnUnavailable
from posttrain.rollouts.columns import RolloutColumns
from posttrain.runs.config.backend import evaluator_of
from posttrain.runs.config.execution import Backend, ProcessesConfig, RayConfig
from posttrain.runs.config.grpo import GRPOConfigSection
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
from posttrain.runs.config.nft import NFTConfig
from posttrain.runs.config.opd import OPDConfig
from posttrain.runs.config.policy import PolicyConfig
from posttrain.runs.config.section import Section
from posttrain.runs.config.sources import Source, source_of
from posttrain.runs.config.validation import ValidationConfig
from posttrain.runs.config.write import to_toml

__all__ = ["DataConfig", "RLConfig", "RewardStageConfig", "RunConfig", "ValidationConfig", "names_file"]

EstimatorName: TypeAlias = Literal["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"]

_DEFAULT: Final = RolloutColumns()


class DataConfig(Section):
    """``rl.data``: the rows of a run, and which column holds what."""

    path: PathText | None = None
    """A file of rows, relative to the working directory, the name of a data set on the Hugging Face hub, or a function
    that makes the rows."""
    source: Annotated[Source | None, Field(validate_default=True), one_of(Source)] = None
    """Who reads it: the local JSONL loader, ``datasets``, or ``function``: ``package.module:function`` makes them.
    Default: jsonl where the path ends in .jsonl or .ndjson, also with .gz or .zst, hf otherwise."""
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
        return source_of(info.data.get("path"), source)

    @field_validator("response_column")
    @classmethod
    def _apart(cls, column: str, info: ValidationInfo) -> str:
        if column == info.data.get("prompt_column"):
            raise ValueError(f"the prompt and the reference are both column {column!r}: give each a column of its own")
        return column

    @field_validator("items_fn")
    @classmethod
    def _only_for_hf(cls, function: str | None, info: ValidationInfo) -> str | None:
        if function is not None and info.data.get("source") == "function":
            raise ValueError(
                "only rows of a Hugging Face source are rewritten; let the function that makes the rows make them as "
                "they should be, and leave this key out"
            )
        if function is not None and info.data.get("source") == "jsonl":
            raise ValueError(
                "only rows of a Hugging Face source are rewritten; a JSONL file is prepared offline: write the rows "
                "as they should be and leave this key out, or set rl.data.source=hf"
            )
        return function


@final
class RewardStageConfig(Section):
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
    """Where groups are evaluated: in the caller's own process, in worker processes that can be killed, or on Ray."""
    processes: ProcessesConfig = ProcessesConfig()
    ray: RayConfig = RayConfig()


@final
class RunConfig(Section):
    """``rl.run``: where a run is recorded."""

    name: RunName | None = None
    """Name of the run's folder. Default: the command makes one."""
    directory: PathText = "runs"
    """Folder of all runs, relative to the working directory."""
    tensorboard: Switch = False
    """Whether a trainer writes its metrics as TensorBoard events too, into the run's folder."""
    wandb_project: Text | None = None
    """Project of Weights & Biases that a trainer writes its metrics to. Default: none."""
    mlflow_experiment: Text | None = None
    """Experiment of MLflow that a trainer writes its metrics to. Default: none."""


@final
class RLConfig(Section):
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
    policy: PolicyConfig = PolicyConfig()
    grpo: GRPOConfigSection = GRPOConfigSection()
    opd: OPDConfig = OPDConfig()
    nft: NFTConfig = NFTConfig()
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
            evaluator: where groups are evaluated; None: what ``rl.reward_stage.backend`` says.

        Raises:
            RewardConfigError: the catalog, a name, a weight or a factory is at fault, or the backend can't run them.
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
            evaluator=evaluator_of(self) if evaluator is None else evaluator,
        )


def names_file(catalog: str) -> bool:
    """Whether a catalog's path names a Python file, not a module."""
    return catalog.rpartition(":" if ":" in catalog else ".")[0].endswith(".py")
