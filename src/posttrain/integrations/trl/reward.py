# SPDX-License-Identifier: Apache-2.0
"""`StageReward`: the reward stage as a reward function for an unchanged TRL `GRPOTrainer`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, final
from uuid import uuid4

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.execution.ranks import RankEvaluator
from posttrain.integrations.trl.completions import Render, completion_text, table_column
from posttrain.rewards import RewardCatalog, RewardReport, RewardWorker
from posttrain.rewards.stage.evaluator import InProcessEvaluator
from posttrain.schema import Observation, Trajectory

__all__ = ["StageReward"]

# What GRPOConfig's scale_rewards makes of a final reward, in the words of the stage.
_ESTIMATORS: Final[Mapping[str, str]] = {"group": "group_norm", "none": "group_mean"}

_LARGEST: Final = 1e18
"""The squares of a group's differences below it, summed, stay in the range of float32 (3.4e38)."""


@final
class StageReward:
    """Scores with the stage what an unchanged `GRPOTrainer` sampled, and gives it the final rewards.

    TRL goes on to compute the advantages and the masks itself, so what only the stage can do is refused: dropping
    groups, and estimators that TRL does not have. Terms and diagnostics are logged under the stage's names.

    Args:
        worker: scores the completions; its `group_size` is `num_generations`.
        group_column: column with an id that is unique to each row of the dataset: completions with the same one form a
            group. Never the prompt's text, which two rows may share.
        reference_column: column that holds the reference; None: the dataset has none.
        scale_rewards: what `GRPOConfig.scale_rewards` says: ``group`` goes with the estimator ``group_norm``, ``none``
            with ``group_mean``.
        validation_worker: scores what the trainer samples to evaluate, in the namespace ``val``; None: it is refused.
        render: makes text of completions that are not one assistant message.

    Raises:
        RewardConfigError: naming every setting that can't be honoured here.

    Example:
        ::

            worker = RewardWorker(reward="gsm8k", group_size=8)
            reward = StageReward(worker, group_column="id", reference_column="answer")
            GRPOTrainer(model, reward_funcs=[reward], args=GRPOConfig("out", num_generations=8), train_dataset=rows)
    """

    def __init__(  # settings, each with its own meaning
        self,
        worker: RewardWorker,
        *,
        group_column: str,
        reference_column: str | None = None,
        scale_rewards: str = "group",
        validation_worker: RewardWorker | None = None,
        render: Render | None = None,
    ) -> None:
        faults = _faults("worker", worker, "train", scale_rewards, reference_column)
        if validation_worker is not None:
            faults += _faults("validation_worker", validation_worker, "val", scale_rewards, reference_column)
        if not isinstance(group_column, str) or not group_column or group_column == "prompt":
            faults.append(f"group_column: expected a column with an id for each row, got {describe(group_column)}")
        if faults:
            raise RewardConfigError(f"settings that StageReward can't honour:\n{listing(faults)}")
        # TRL names its metrics and the column of its table after this.
        self.__name__ = "final"
        self._workers = {"train": worker} | ({} if validation_worker is None else {"eval": validation_worker})
        self._settings = (group_column, reference_column, scale_rewards, render)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The final reward of each completion, in order: always a float (the None is in TRL's type of such a function).

        Raises:
            RewardError: see `RewardWorker.score`; nothing is ever replaced by a number.
        """
        worker = self._worker(log_metric)
        batch = self._trajectories(prompts, completions, completion_ids, columns)
        try:
            report = worker.score(batch)
        except RewardContractError as error:
            error.add_note(
                "StageReward scores what one process sampled: per_device_train_batch_size x steps_per_generation has "
                "to be a multiple of num_generations, else groups straddle processes; StageGRPOTrainer gathers them."
            )
            raise
        finals: list[float | None] = [each.reward["final"] for each in batch]
        _check_range(batch)
        _log(worker, report, batch, log_metric, log_extra)
        return finals

    def __getstate__(self) -> dict[str, Any]:
        """Everything as plain settings; workers are made again where it arrives."""
        return {
            "settings": self._settings,
            "workers": {mode: _recipe(worker) for mode, worker in self._workers.items()},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the workers again."""
        self.__name__ = "final"
        self._settings = state["settings"]
        self._workers = {mode: RewardWorker(**recipe) for mode, recipe in state["workers"].items()}

    def _worker(self, log_metric: Any) -> RewardWorker:
        """The worker of what is going on. TRL does not say, but hands over a method of its trainer, which knows."""
        model = getattr(getattr(log_metric, "__self__", None), "model", None)
        mode = "train" if getattr(model, "training", True) else "eval"
        if mode not in self._workers:
            raise RewardConfigError(
                "the trainer evaluates, but StageReward has no validation_worker: pass one, "
                'RewardWorker(..., namespace="val")'
            )
        return self._workers[mode]

    def _trajectories(
        self, prompts: Sequence[Any], completions: Sequence[Any], ids: Sequence[Sequence[int]], columns: dict[str, Any]
    ) -> list[Trajectory]:
        group_column, reference_column, _, render = self._settings
        wanted = [group_column] + ([] if reference_column is None else [reference_column])
        if missing := [name for name in wanted if name not in columns]:
            raise RewardConfigError(f"the dataset has no column {', '.join(missing)}; it has {', '.join(columns)}")
        groups = [_group_id(group_column, place, value) for place, value in enumerate(columns[group_column])]
        references = [None] * len(groups) if reference_column is None else columns[reference_column]
        # A column that only a custom rollout can fill; TRL itself keeps no verdict.
        verdicts = columns.get("finish_reason", [None] * len(groups))
        call = uuid4().hex[:8]
        places: dict[str, int] = {}
        batch = []
        for row in zip(groups, prompts, completions, ids, references, verdicts, strict=True):
            group_id, prompt, completion, token_ids, reference, verdict = row
            places[group_id] = place = places.get(group_id, -1) + 1
            trajectory_id = f"{group_id}/{call}/{place}"
            try:
                text = completion_text(completion, render)
            except RewardContractError as error:
                error.group_id, error.trajectory_id = group_id, trajectory_id
                raise
            batch.append(
                Trajectory(
                    trajectory_id=trajectory_id,
                    group_id=group_id,
                    obs=Observation(id=group_id, prompt=prompt, reference=reference, row_id=group_id),
                    completion=text,
                    policy_info={"finish_reason": verdict, "completion_token_count": len(token_ids)},
                )
            )
        return batch


def _group_id(column: str, place: int, value: object) -> str:
    if type(value) not in {str, int} or value == "":
        raise RewardContractError(f"[{place}] {column}: expected an id (a string or an int), got {describe(value)}")
    return str(value)


def _faults(name: str, worker: object, namespace: str, scale_rewards: str, reference: str | None) -> list[str]:
    if not isinstance(worker, RewardWorker):
        return [f"{name}: expected a RewardWorker, got {describe(worker)}"]
    stage = worker.stage
    faults = []
    if stage.on_unavailable == "drop_group":
        faults.append(f'{name}: on_unavailable="drop_group": TRL has no way to leave a group out; use StageGRPOTrainer')
    if scale_rewards not in _ESTIMATORS:
        faults.append(
            f"scale_rewards: {describe(scale_rewards)} is no estimator of the stage; expected group or none, or use "
            "StageGRPOTrainer with the estimator that you mean"
        )
    elif stage.estimator.name != _ESTIMATORS[scale_rewards]:
        faults.append(
            f"{name}: estimator={stage.estimator.name!r}, but TRL computes {_ESTIMATORS[scale_rewards]!r} under "
            f"scale_rewards={scale_rewards!r}; set them alike or use StageGRPOTrainer"
        )
    if stage.namespace != namespace:
        faults.append(f"{name}: expected namespace={namespace!r}, got {stage.namespace!r}")
    if stage.selection.rank_local:
        faults.append(f"{name}: {', '.join(stage.selection.names)} scores latents, not completions")
    if isinstance(stage.evaluator, RankEvaluator):
        faults.append(f"{name}: it evaluates over ranks, but TRL calls it in each process by itself")
    needy = [provider for provider, needs in worker.stage_identity.needs.items() if "reference" in needs]
    if needy and reference is None:
        faults.append(f"reference_column: {', '.join(needy)} needs the reference; say which column holds it")
    return faults


def _check_range(batch: Sequence[Trajectory]) -> None:
    """Refuse rewards for which TRL's arithmetic would end in infinity, and then in advantages of zero."""
    faults = [
        f"{each.trajectory_id}: {each.reward['final']!r}" for each in batch if abs(each.reward["final"]) > _LARGEST
    ]
    if faults:
        raise RewardContractError(
            f"rewards beyond {_LARGEST:g}: TRL squares them in float32, whose range that leaves:\n{listing(faults)}"
        )


def _log(
    worker: RewardWorker, report: RewardReport, batch: Sequence[Trajectory], log_metric: Any, log_extra: Any
) -> None:
    if log_metric is not None:
        for name, value in report.metrics().items():
            log_metric(name, value)
    if log_extra is not None:
        for term in worker.stage.terms:
            log_extra(table_column(term), [each.reward[term] for each in batch])


def _recipe(worker: RewardWorker) -> dict[str, Any]:
    stage = worker.stage
    path = stage.selection.catalog.path
    is_object = path is None and set(stage.selection.catalog) != set(RewardCatalog())
    if is_object or (path is not None and (path.startswith("__main__:") or ".py@sha256:" in path)):
        raise RewardConfigError(
            "a StageReward travels to other processes by its catalog's path: make the RewardWorker with "
            'catalog="package.module:factory" instead of a mapping, a file or a factory in the script itself'
        )
    if not isinstance(stage.evaluator, InProcessEvaluator):
        raise RewardConfigError(
            f"a StageReward whose worker evaluates with {type(stage.evaluator).__name__} does not travel to other "
            "processes: leave evaluator= out"
        )
    return {
        "catalog": path,
        "reward": stage.selection.names,
        "group_size": stage.group_size,
        "weights": dict(stage.combiner.weights),
        "namespace": stage.namespace,
        "estimator": stage.estimator.name,
        # The largest of the providers' bounds bounds each of them as before.
        "groups_in_flight": stage.evaluator.groups_in_flight,
    }
