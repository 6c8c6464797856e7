# SPDX-License-Identifier: Apache-2.0
"""Settings of TRL that would say something else than the stage does: each is refused by name, with the mend."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.integrations.trl.rollout import Columns
from posttrain.rewards import RewardWorker

__all__ = ["check_settings"]

_BUDGETS = ("max_new_tokens", "max_tokens", "max_length")

# What TRL would divide by, and the estimators that this does not contradict. "group" is its default.
_SCALES: Mapping[str, Collection[str]] = {
    "group": ("group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"),
    "none": ("group_mean",),
}


def check_settings(
    args: Any,
    worker: RewardWorker,
    validation_worker: RewardWorker | None,
    columns: Columns,
    *,
    evaluates: bool,
    dataset_columns: Collection[str] | None,
    extra: Mapping[str, Any],
) -> None:
    """Refuse what can't be honoured, all at once.

    Args:
        args: TRL's `GRPOConfig`.
        worker: scores training batches.
        validation_worker: scores evaluation batches.
        columns: which columns hold what.
        evaluates: whether there is an evaluation dataset.
        dataset_columns: of the training dataset; None: not known.
        extra: the other arguments of the trainer.

    Raises:
        RewardConfigError: naming every setting.
    """
    faults = [
        *_config_faults(args, worker),
        *_worker_faults("worker", worker, "train", args.num_generations, "num_generations"),
        *_column_faults(worker, columns, dataset_columns),
        *(
            f"{name}: the worker's catalog is where rewards come from; leave it out"
            for name in ("reward_funcs", "reward_processing_classes")
            if name in extra
        ),
    ]
    evaluated = extra.get("eval_dataset")
    if isinstance(evaluated, Mapping) and len(evaluated) > 1:
        faults.append(
            f"eval_dataset has {len(evaluated)} datasets ({', '.join(map(str, evaluated))}), whose metrics would "
            "all be logged under the same names; pass one, and evaluate the others by a trainer of their own"
        )
    if validation_worker is not None:
        size = args.num_generations_eval or args.num_generations
        faults += _worker_faults("validation_worker", validation_worker, "val", size, "num_generations_eval")
        faults += _column_faults(validation_worker, columns, None)
    elif evaluates:
        faults.append(
            'eval_dataset is given without validation_worker: pass a RewardWorker(..., namespace="val") that scores it'
        )
    if faults:
        raise RewardConfigError(f"settings of the trainer that do not fit the stage:\n{listing(faults)}")


def _config_faults(args: Any, worker: RewardWorker) -> Iterator[str]:
    estimator = worker.stage.estimator.name
    if estimator not in _SCALES.get(args.scale_rewards, ()):
        yield (
            f"scale_rewards={args.scale_rewards!r}: the stage computes the advantages, with estimator={estimator!r}; "
            "leave scale_rewards at its default and choose the worker's estimator"
        )
    if args.mask_truncated_completions:
        yield (
            "mask_truncated_completions=True: the mask follows the finish verdict that the reward sees; leave it out "
            "and pass mask_truncated=True to the trainer"
        )
    if args.reward_weights is not None:
        yield "reward_weights: the stage combines the terms; leave it out and set the worker's weights"
    if args.multi_objective_aggregation != "sum_then_normalize":
        yield (
            f"multi_objective_aggregation={args.multi_objective_aggregation!r}: the stage combines the terms before it "
            "computes advantages; leave it out"
        )
    budgets = [name for name in _BUDGETS if name in (args.generation_kwargs or {})]
    if budgets:
        yield (
            f"generation_kwargs has {', '.join(budgets)}: the verdict 'length' is read off max_completion_length; "
            "set that instead"
        )
    if args.remove_unused_columns:
        yield "remove_unused_columns=True: it drops the columns that rewards read; leave it out"


def _worker_faults(name: str, worker: RewardWorker, namespace: str, group_size: int, setting: str) -> Iterator[str]:
    stage = worker.stage
    if stage.namespace != namespace:
        yield f"{name}: expected namespace={namespace!r}, got {stage.namespace!r}"
    if stage.group_size != group_size:
        yield f"{name}: its group_size is {stage.group_size}, but {setting} is {group_size}: set them alike"
    if stage.selection.rank_local:
        yield f"{name}: {', '.join(stage.selection.names)} scores latents, not completions"


def _column_faults(worker: RewardWorker, columns: Columns, known: Collection[str] | None) -> Iterator[str]:
    needy = [name for name, needs in worker.stage_identity.needs.items() if "reference" in needs]
    if needy and columns.reference is None:
        yield f"reference_column: {', '.join(needy)} needs the reference; say which column of the dataset holds it"
    if known is None:
        return
    for setting, column in (("reference_column", columns.reference), ("row_id_column", columns.row_id)):
        if column is not None and column not in known:
            yield f"{setting}: the dataset has no column {describe(column)}; it has {', '.join(sorted(known))}"
