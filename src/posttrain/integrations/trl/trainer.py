# SPDX-License-Identifier: Apache-2.0
"""`StageGRPOTrainer`: TRL's GRPO with the reward stage in the place of its rewards, advantages and masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Never, TypeAlias

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.execution.ranks import RankExchange, compute_on_ranks, over_ranks, torch_exchange
from posttrain.integrations.trl.completions import Render, finish_verdict, table_column
from posttrain.integrations.trl.installed import check_trl
from posttrain.integrations.trl.rollout import Columns, Sample, trajectories_of
from posttrain.integrations.trl.settings import check_settings
from posttrain.integrations.trl.table import fill_table
from posttrain.rewards import RewardOutcome, RewardReport, RewardWorker
from posttrain.schema import Trajectory, is_length_truncated

check_trl()

import torch  # noqa: E402  # only after the check, which says what to install
from trl.trainer.grpo_config import GRPOConfig  # noqa: E402  # as above
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: E402  # as above

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["OnOutcome", "Scored", "StageGRPOTrainer"]

_LARGEST = torch.finfo(torch.float32).max

# What TRL makes of rewards; the report says the same under our names, exactly.
_REPLACED = ("reward", "reward_std", "frac_reward_zero_std", "rewards/final/mean", "rewards/final/std")


class Scored(NamedTuple):
    """What the stage made of one sampled batch, the same on every rank but for `own`."""

    outcome: RewardOutcome
    batch: list[Trajectory]
    """Of all ranks, in rank order: this rank's own objects, and copies of the others'."""
    own: list[Trajectory]
    """This rank's, in the order of its rows."""
    mode: str
    """``train`` or ``eval``."""


OnOutcome: TypeAlias = Callable[[Scored], None]


def final(**_: object) -> Never:
    """Stands where TRL wants a reward function; the stage answers in its place."""
    raise RewardContractError("TRL asked for rewards past the stage")


class StageGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, trained on what the reward stage computed.

    Every rank hands over what it sampled; complete groups are formed over all ranks, evaluated once, and annotated.
    The loss then sees the stage's advantages; groups that were dropped, and (with `mask_truncated`) completions that
    were cut at the token budget, are masked out of it, and the token counts that normalise it agree. When anything
    fails, every rank raises the same error and no step is made.

    Args:
        model: see `GRPOTrainer`.
        args: TRL's config. Settings that would contradict the stage are refused by name.
        worker: scores training batches; its `group_size` is `num_generations`. It stays the caller's to close.
        validation_worker: scores evaluation batches, in the namespace ``val``; needed with an `eval_dataset`.
        reference_column: column that holds the reference; None: the dataset has none. The prompt is in ``prompt``.
        row_id_column: column that holds the stable id of a row; None: rows have none.
        mask_truncated: leave completions with the verdict ``"length"`` out of the loss; their reward is unchanged.
        render: makes text of completions that are not one assistant message.
        ranks_timeout_s: seconds that a rank waits for the others to come to the stage, and to leave it. It covers the
            longest difference in sampling and scoring.
        on_outcome: called on every rank after a batch was scored, before it is trained on.
        **trainer: everything else that `GRPOTrainer` takes, datasets and tokenizer first of all.

    Raises:
        RewardConfigError: naming every setting that does not fit.

    Example:
        ::

            with RewardWorker(reward="arithmetic", group_size=8) as worker:
                trainer = StageGRPOTrainer(
                    model,
                    GRPOConfig("out", num_generations=8),
                    worker=worker,
                    reference_column="answer",
                    train_dataset=rows,
                    processing_class=tokenizer,
                )
                trainer.train()
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with its own meaning
        self,
        model: str | PreTrainedModel,
        args: GRPOConfig,
        *,
        worker: RewardWorker,
        validation_worker: RewardWorker | None = None,
        reference_column: str | None = None,
        row_id_column: str | None = None,
        mask_truncated: bool = False,
        render: Render | None = None,
        ranks_timeout_s: float = 600.0,
        on_outcome: OnOutcome | None = None,
        **trainer: Any,
    ) -> None:
        if not isinstance(args, GRPOConfig) or not isinstance(worker, RewardWorker):
            raise RewardConfigError(
                f"expected a GRPOConfig as args and a RewardWorker as worker, got {type(args).__name__} and "
                f"{type(worker).__name__}"
            )
        self._columns = Columns(reference=reference_column, row_id=row_id_column, render=render)
        evaluated = trainer.get("eval_dataset")
        check_settings(
            args,
            worker,
            validation_worker,
            self._columns,
            evaluates=evaluated is not None,
            dataset_columns=getattr(trainer.get("train_dataset"), "column_names", None),
            extra=trainer,
        )
        super().__init__(model, [final], args, **trainer)
        if len(self.reward_funcs) > 1:
            raise RewardConfigError(
                f"environment_factory: {', '.join(self.reward_func_names[1:])} has a get_reward of its own, past the "
                "stage; leave it out and score the completions with a provider of the worker's catalog"
            )
        self.exchange: RankExchange = torch_exchange(timeout_s=ranks_timeout_s)
        """Where this trainer's ranks meet."""
        self._workers = {"train": over_ranks(worker, self.exchange)}
        if validation_worker is not None:
            self._workers["eval"] = over_ranks(validation_worker, self.exchange)
        self._has_stop_strings = "stop_strings" in (args.generation_kwargs or {})
        self._mask_truncated = mask_truncated
        self._on_outcome = on_outcome
        self._reports: dict[str, RewardReport] = {}
        self._batches = 0
        self._tool_masks: Sequence[Sequence[int]] | None = None
        self._verdicts: Sequence[str | None] | None = None
        self._scored: Scored | None = None

    def _generate(self, prompts: list[Any]) -> Any:
        sampled = super()._generate(prompts)
        self._tool_masks = sampled[2]
        # Not from the rows, which TRL writes it into: rows may have such a column of their own, or be one object.
        self._verdicts = None if self.rollout_func is None else sampled[5].get("finish_reason")
        return sampled

    def _calculate_rewards(
        self, inputs: Sequence[dict[str, Any]], prompts: Sequence[Any], completions: Any, completion_ids_list: Any
    ) -> torch.Tensor:
        """Score the batch of all ranks; TRL only looks at the shape of what comes back."""
        del prompts
        mode = self._mode()
        if mode not in self._workers:
            raise RewardConfigError(
                'evaluation needs a validation_worker: pass a RewardWorker(..., namespace="val") to the trainer'
            )
        worker = self._workers[mode]
        self._batches += 1
        with self._for_all("gather"):
            self._check_verdicts(len(completions))
            samples = [
                self._sample(index, row, completion, ids)
                for index, (row, completion, ids) in enumerate(
                    zip(inputs, completions, completion_ids_list, strict=True)
                )
            ]
            own = trajectories_of(
                samples,
                first=self.accelerator.process_index * len(samples),
                batch=f"{mode}/{self._batches}",
                group_size=worker.stage.group_size,
                columns=self._columns,
                policy_version=self.state.global_step,
            )
        outcome, batch = compute_on_ranks(worker, self.exchange, own)
        _check_range(outcome)
        self._scored = Scored(outcome, batch, own, mode)
        report = self._reports.get(mode)
        self._reports[mode] = outcome.report if report is None else report.merge(outcome.report)
        self._publish(self._scored)
        finals = _by_id(outcome, "final")
        return torch.tensor(
            [[finals.get(each.trajectory_id, float("nan"))] for each in batch],
            dtype=torch.float32,
            device=self.accelerator.device,
        )

    def _publish(self, scored: Scored) -> None:
        with self._for_all("on_outcome"):
            if self._on_outcome is not None:
                self._on_outcome(scored)
        # A rank without a callback comes too: one that has one waits for all.
        self.exchange.swap("on_outcome", None)

    @contextmanager
    def _for_all(self, step: str) -> Iterator[None]:
        """What fails in here fails on every rank: the others would wait for this one."""
        try:
            yield
        except Exception as error:
            self.exchange.fail(step, error)
            raise  # not reached: every rank raises in the line above
        except BaseException as error:
            self.exchange.leave(error)
            raise

    def _check_verdicts(self, count: int) -> None:
        given = self._verdicts
        if given is not None and (not isinstance(given, (list, tuple)) or len(given) != count):
            raise RewardContractError(
                f"rollout_func returned {describe(given)} as finish_reason, expected a list with one for each of "
                f"{count} completions"
            )

    def _mode(self) -> str:
        # As TRL tells them apart.
        return "train" if getattr(self.model, "training", True) else "eval"

    def _sample(self, index: int, row: dict[str, Any], completion: Any, token_ids: Sequence[int]) -> Sample:
        if self._verdicts is not None:
            verdict = self._verdicts[index]
        else:
            verdict = finish_verdict(
                token_ids,
                eos_token_ids=self.eos_token_ids,
                pad_token_id=self._tokenizer.pad_token_id,
                max_completion_length=self.max_completion_length,
                has_stop_strings=self._has_stop_strings,
            )
        masks = self._tool_masks
        count = len(token_ids) if masks is None else int(sum(masks[index]))
        return Sample(row=row, completion=completion, token_count=count, finish_reason=verdict)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._scored = None
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        scored = self._scored
        if scored is None:
            raise RewardContractError("TRL made a batch without asking the stage: this TRL works in another way")
        device = output["advantages"].device
        output["advantages"] = torch.tensor(
            [each.advantage or 0.0 for each in scored.own], dtype=torch.float32, device=device
        )
        if not all(map(self._is_kept, scored.batch)):
            self._mask(output, [self._is_kept(each) for each in scored.own])
        self._relabel(scored)
        return output

    def _is_kept(self, each: Trajectory) -> bool:
        """Whether a completion takes part in the loss."""
        return each.advantage is not None and not (self._mask_truncated and is_length_truncated(each.policy_info))

    def _mask(self, output: dict[str, Any], kept: list[bool]) -> None:
        """Take completions out of the loss, and out of the count of tokens that it is divided by."""
        tokens = output["completion_mask"]
        keep = torch.tensor(kept, dtype=tokens.dtype, device=tokens.device).unsqueeze(1)
        # Not through the completion mask: that is the attention mask too, and log-probs of the same tokens would no
        # longer agree with those that were computed before (old policy, reference), which may overflow the ratio.
        output["tool_mask"] = output.get("tool_mask", torch.ones_like(tokens)) * keep
        output["num_items_in_batch"] = self.accelerator.gather((tokens * output["tool_mask"]).sum()).sum()

    def _relabel(self, scored: Scored) -> None:
        """Put the stage's numbers where TRL logs its own."""
        for name in _REPLACED:
            self._metrics[scored.mode].pop(name, None)
        columns = {}
        for term in ("final", *scored.outcome.terms):
            values = _by_id(scored.outcome, term)
            columns[table_column(term)] = [values.get(each.trajectory_id) for each in scored.batch]
        fill_table(self._logs, [each.advantage for each in scored.batch], columns)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log with the stage's metrics, merged exactly over all batches since the last time."""
        report = self._reports.pop(self._mode(), None)
        if report is not None:
            logs.update(report.metrics())
        super().log(logs, start_time)


def _by_id(outcome: RewardOutcome, term: str) -> dict[str, float]:
    """Trajectory to its value; those of dropped groups have none."""
    return {
        trajectory_id: value
        for group in outcome.groups
        if group.dropped_because is None
        for trajectory_id, value in zip(
            group.trajectory_ids, group.final if term == "final" else group.terms[term], strict=True
        )
    }


def _check_range(outcome: RewardOutcome) -> None:
    """Refuse advantages that would be infinite in the loss, which computes in float32. The same on every rank."""
    faults = [
        f"{trajectory_id}: {advantage!r}"
        for group in outcome.groups
        for trajectory_id, advantage in zip(group.trajectory_ids, group.advantages or (), strict=False)
        if abs(advantage) > _LARGEST
    ]
    if faults:
        raise RewardContractError(f"advantages beyond the range of float32, which the loss uses:\n{listing(faults)}")
