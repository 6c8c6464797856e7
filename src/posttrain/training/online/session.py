# SPDX-License-Identifier: Apache-2.0
"""One process's part of a run, after everything that can be checked without a model was checked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import msgspec

from posttrain.data import Env
from posttrain.errors import RewardConfigError, text_of
from posttrain.report import build_report, open_scores, write_report
from posttrain.rewards import RewardWorker
from posttrain.runs.checks.rows import opened_rows
from posttrain.runs.config import RLConfig
from posttrain.runs.directory import RecordedRun, RunDirectory
from posttrain.runs.offline.failure import keeping_failed_request
from posttrain.runs.validation import HeldOutValidation
from posttrain.training.online.callback import RunCallback
from posttrain.training.online.checkpoints import CHECKPOINTS
from posttrain.training.online.held_out import HeldOut
from posttrain.training.online.opening import Opened, open_run, run_path
from posttrain.training.online.prompts import Prompts, token_counter
from posttrain.training.online.recorder import Recorder
from posttrain.training.online.run import Meeting, Outcome, Variant
from posttrain.training.online.starting import keep_start
from posttrain.training.online.watch import Watch
from posttrain.training.policy import Policy, load_policy

if TYPE_CHECKING:
    from trl.trainer.grpo_config import GRPOConfig

    from posttrain.training.online.trainer import RunTrainer

__all__ = ["Session"]

_AFTER = "val/reward/final/mean"


@final
class Session:
    """Made and used once, see `run_online`."""

    def __init__(  # each is another part of the run
        self,
        config: RLConfig,
        args: GRPOConfig,
        variant: Variant,
        watch: Watch,
        meeting: Meeting,
        stack: ExitStack,
    ) -> None:
        self._config = config
        self._args = args
        self._variant = variant
        self._watch = watch
        self._meeting = meeting
        self._stack = stack
        self._first = meeting.exchange.rank == 0

    def run(self, *, resume: bool) -> Outcome:
        """Train, and report."""
        self._stack.enter_context(_quiet())
        config = self._config
        worker = self._stack.enter_context(config.worker())
        needs = sorted({need for spec in worker.stage.selection.specs for need in spec.needs})
        env = Env(opened_rows(config.data), needs=needs, seed=config.data.seed, shuffle=config.data.shuffle)
        path, is_there = self._place()
        # A policy that can't be loaded leaves no folder behind; a run that can't be gone on with loads no policy.
        policy = None if is_there else self._policy(env, is_resumed=False)
        run, opened = self._opened(worker, env, path, resume=resume)
        for line in opened.warnings:
            self._watch.warned(line)
        if opened.processes not in {None, self._meeting.exchange.world_size}:
            self._watch.warned(
                f"the checkpoint is of {opened.processes} processes, and there are {self._meeting.exchange.world_size}:"
                " their random states can't go on, so that other completions are drawn"
            )
        if opened.step < config.grpo.steps:
            policy = policy or self._policy(env, is_resumed=opened.checkpoint is not None)
            self._train(worker, env, run, opened, policy)
        elif run is not None:
            run.close()
        return self._ended(path)

    def _place(self) -> tuple[Path, bool]:
        """The run's folder, and whether there is something already."""

        def look() -> list[Any]:
            path = run_path(self._config, self._variant.kind)
            return [str(path), os.path.lexists(path)]

        path, is_there = self._meeting.agreed("place", look)
        return Path(path), is_there

    def _policy(self, env: Env, *, is_resumed: bool) -> Policy:
        settings = self._config.policy
        return load_policy(
            settings,
            lambda: warm_rows(env),
            is_resumed=is_resumed,
            watch=lambda step: self._watch.warmed(step, settings.warm_start_steps),
        )

    def _opened(
        self, worker: RewardWorker, env: Env, path: Path, *, resume: bool
    ) -> tuple[RunDirectory | None, Opened]:
        held: list[RunDirectory] = []

        def open_it() -> Opened:
            run, opened = open_run(
                self._config,
                worker,
                env.rows,
                path=path,
                resume=resume,
                fixed=self._variant.fixed,
            )
            held.append(run)
            self._stack.callback(run.close)
            return opened

        opened = msgspec.convert(self._meeting.agreed("run", open_it), Opened)
        return (held[0] if held else None), opened

    def _train(self, worker: RewardWorker, env: Env, run: RunDirectory | None, opened: Opened, policy: Policy) -> None:
        config, path = self._config, Path(opened.path)
        prompts = Prompts(
            env,
            groups_per_batch=config.grpo.prompts_per_step,
            group_size=config.group_size,
            first=opened.batches,
            start=opened.data,
            longest=config.grpo.max_prompt_length,
            count=token_counter(policy.tokenizer),
        )
        recorder = None
        if run is not None:
            begins_at = None if opened.checkpoint is None else opened.step + 1
            recorder = Recorder(run, config.run, prompts=prompts, identity=worker.stage_identity, begins_at=begins_at)
            self._stack.callback(recorder.close)
        held_out = self._held_out(worker, path)
        callback = RunCallback(config, recorder=recorder, held_out=held_out, prompts=prompts, watch=self._watch)
        self._args.output_dir = str(path / CHECKPOINTS)
        if config.grpo.beta and policy.adapters is None and not policy.is_fetched:
            keep_start(policy, path, self._meeting)
        trainer = self._trainer(worker, policy, prompts, callback)
        callback.trainer = trainer
        trainer.go_on_from(opened.batches)
        self._meeting.exchange = trainer.exchange
        selection, catalog = worker.stage.selection, config.catalog_path
        failed = path / f"failed-request-{self._meeting.exchange.rank}.json"
        with keeping_failed_request(selection, catalog, failed):
            trainer.train(resume_from_checkpoint=opened.checkpoint)

    def _trainer(self, worker: RewardWorker, policy: Policy, prompts: Prompts, callback: RunCallback) -> RunTrainer:
        from transformers import set_seed
        from transformers.trainer_callback import PrinterCallback

        config = self._config
        options: Mapping[str, Any] = self._variant.options(policy)
        # New adapters are drawn before the trainer sets its own seed.
        set_seed(config.policy.seed)
        try:
            trainer = self._variant.trainer()(
                policy.model,
                self._args,
                worker=worker,
                reference_column="reference",
                row_id_column="row_id",
                mask_truncated=config.mask_truncated,
                ranks_timeout_s=config.grpo.ranks_timeout_s,
                on_outcome=callback.scored,
                train_dataset=prompts.table(config.grpo.steps // config.grpo.num_iterations),
                processing_class=policy.tokenizer,
                callbacks=[callback],
                peft_config=policy.adapters,
                **options,
            )
        except (ValueError, NotImplementedError, ImportError) as error:
            raise RewardConfigError(f"TRL refuses this run: {text_of(error)}") from error
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _held_out(self, worker: RewardWorker, path: Path) -> HeldOut | None:
        config = self._config
        if not config.validation.enabled:
            return None
        catalog = worker.stage.selection.catalog
        needs = sorted({need for name in config.rewards("val") for need in catalog.spec(name).needs})
        validation = None
        if self._first:
            validation = self._stack.enter_context(HeldOutValidation(config, catalog=catalog))
        return HeldOut(config, needs=needs, validation=validation, run=path)

    def _ended(self, path: Path) -> Outcome:
        """The report, which the first process writes, and what the run came to."""

        def report() -> dict[str, Any]:
            out = path / "report.html"
            write_report(build_report(open_scores(path)), out)
            found = RecordedRun(path).metrics()
            means = {step: metrics[_AFTER] for step, metrics in found.items() if _AFTER in metrics}
            return {"before": means.get(0), "after": means[max(means)] if means else None, "steps": max(found)}

        ended = self._meeting.agreed("report", report)
        return Outcome(
            path=path,
            steps=ended["steps"],
            before=ended["before"],
            after=ended["after"],
            report=path / "report.html" if self._first else None,
        )


def warm_rows(env: Env) -> Sequence[Mapping[str, Any]]:
    """All training rows in the order of the source, as a warm start takes them."""
    return [{"prompt": row.prompt, "reference": row.reference} for row in env.probe(len(env))]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' own progress bars and remarks out of the command's output."""
    from transformers.utils import logging

    library: Any = logging
    verbosity = library.get_verbosity()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # TRL still uses names that transformers is about to change, which nobody who trains can mend.
            warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|trl)\.")
            yield
    finally:
        library.set_verbosity(verbosity)
