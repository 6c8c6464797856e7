# SPDX-License-Identifier: Apache-2.0
"""A DiffusionNFT run on one rank, from the config to the last checkpoint. See docs/nft.md."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.data import Env, EnvState
from posttrain.errors import RewardConfigError, listing
from posttrain.execution.ranks import RankEvaluator
from posttrain.media import attach_decoder
from posttrain.rewards import InProcessEvaluator, RewardWorker
from posttrain.runs import RLConfig, RunDirectory, preflight
from posttrain.runs.checks.rows import opened_rows
from posttrain.runs.directory import Provenance
from posttrain.training.nft.catalog import with_catalog
from posttrain.training.nft.checkpoints import load_checkpoint, prune_checkpoints, save_checkpoint
from posttrain.training.nft.job import Job, joined
from posttrain.training.nft.models import load_model
from posttrain.training.nft.policy import DiffusionPolicy
from posttrain.training.nft.settings import check_config, layout_of
from posttrain.training.nft.telemetry import forget_after, publish
from posttrain.training.nft.trainer import BatchResult, Trainer

__all__ = ["CHECKED", "RunEnd", "check", "train"]

CHECKED: Final = "POSTTRAIN_NFT_CHECKED"
"""Set by a launcher of ours, which has made the preflight before it started the ranks."""


@final
class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended well."""

    path: Path
    steps: int
    first: float | None
    """Mean reward of the first batch of this process; None: there was none to do."""
    last: float | None
    """Mean reward of the last batch."""


def check(config: RLConfig, *, ranks: int | None = None) -> RLConfig:
    """Everything that can be known before a rank or a model is there; gives the config with its catalog.

    Args:
        config: the run.
        ranks: how many there will be; None: not known yet.

    Raises:
        RewardError: the config does not fit such a run, or preflight failed.
    """
    check_config(config)
    config = with_catalog(config)
    if ranks is not None:
        layout_of(config, rank=0, world_size=ranks)
    preflight(config).raise_if_failed()
    return config


def train(config: RLConfig, *, resume: bool = False, told: Callable[[BatchResult], None] | None = None) -> RunEnd:
    """Run on this rank of a job that a launcher started.

    Args:
        config: the run, the same on every rank.
        resume: go on with the run of that name, from its last checkpoint.
        told: called after every batch, on every rank.

    Raises:
        RewardError: any rank failed, hung or died: the same error on every rank.
    """
    check_config(config)
    config = with_catalog(config)
    with joined(config) as job, ExitStack() as stack:
        with job.together("set-up"):
            layout = layout_of(config, rank=job.exchange.rank, world_size=job.exchange.world_size)
            if job.is_first and CHECKED not in os.environ:
                preflight(config).raise_if_failed()
            inner = InProcessEvaluator()
            worker = config.worker(evaluator=RankEvaluator(job.exchange, inner))
            _check_rank_local(worker)
        with job.together("model"):
            policy = DiffusionPolicy(load_model(config, job.device), config.nft)
            attach_decoder(inner.providers, policy.model.decoder)
            rows = opened_rows(config.data)
            env = Env(rows, needs=_needs(worker), seed=config.data.seed, shuffle=config.data.shuffle)
            stack.enter_context(worker)
        job.same_everywhere("rows", env.rows.fingerprint)
        job.same_everywhere("settings", _digest(config))
        job.settle(config.nft.ranks_timeout_s)
        run = stack.enter_context(_directory(config, job, worker, env, resume=resume))
        recorder = _Recorder(config, job, worker, policy, run)
        place = recorder.resumed(env)
        trainer = Trainer(job, layout, policy, worker)
        batches = env.batches(layout.groups, layout.group_size, start=place)
        means: list[float] = []
        for step in range(recorder.step + 1, config.nft.steps + 1):
            with job.together("prompts"):
                prompts = next(batches)
            result = trainer.batch(step, prompts)
            recorder.record(result, prompts.end)
            means.append(result.outcome.report.final.mean)
            if told is not None:
                told(result)
        recorder.export()
        first, last = (means[0], means[-1]) if means else (None, None)
        return RunEnd(path=recorder.path, steps=config.nft.steps, first=first, last=last)


def _digest(config: RLConfig) -> str:
    """Of what decides the weights, beside the stage, which is compared with every batch."""
    deciding = {
        "group_size": config.group_size,
        "policy": config.policy.model_dump(),
        "nft": config.nft.model_dump(exclude={"reward": {"spool_dir"}}),
        "data": [config.data.seed, config.data.shuffle],
    }
    return hashlib.sha256(msgspec.json.encode(deciding)).hexdigest()


def _needs(worker: RewardWorker) -> list[str]:
    return sorted({"prompt", *(need for spec in worker.stage.selection.specs for need in spec.needs)})


def _check_rank_local(worker: RewardWorker) -> None:
    pairs = zip(worker.stage.selection.names, worker.stage.selection.specs, strict=True)
    others = [f"{name!r} scores completions" for name, spec in pairs if not spec.execution.rank_local]
    if others:
        raise RewardConfigError(
            f"posttrain nft has latents to score, with ImageReward or VideoReward:\n{listing(others)}\nSet "
            "rl.nft.reward, or name another provider of rl.reward_catalog"
        )


@contextmanager
def _directory(
    config: RLConfig, job: Job, worker: RewardWorker, env: Env, *, resume: bool
) -> Iterator[RunDirectory | None]:
    """The run's folder, opened by rank 0 alone."""
    run: RunDirectory | None = None
    with job.together("run folder"):
        if job.is_first:
            data = {"rows": len(env), "fingerprint": env.rows.fingerprint}
            made = Provenance.of(worker.stage, data=data)
            text, name = config.to_toml(), config.run.name
            if resume and name is None:
                raise RewardConfigError("--resume needs the name of the run: rl.run.name=NAME")
            if resume:
                run = RunDirectory.resume(
                    Path(config.run.directory) / str(name),
                    config_text=text,
                    provenance=made,
                    accept_identity=config.accept_identity,
                )
            else:
                name = name or time.strftime("nft-%Y%m%d-%H%M%S", time.gmtime())
                run = RunDirectory.create(config.run.directory, name, config_text=text, provenance=made)
    if run is None:
        yield None
        return
    with run:
        yield run


@final
class _Recorder:
    """Writes on rank 0 what all ranks have computed; the others wait to hear that it went well."""

    def __init__(
        self, config: RLConfig, job: Job, worker: RewardWorker, policy: DiffusionPolicy, run: RunDirectory | None
    ) -> None:
        self._settings = config.nft
        self._job = job
        self._worker = worker
        self._policy = policy
        self._run = run
        self.path = Path(job.from_first("run folder", None if run is None else str(run.path.resolve())))
        self.step = 0
        """The last batch that is recorded."""

    def resumed(self, env: Env) -> EnvState:
        """Go back to the last checkpoint, if there is one; gives the place in the data."""
        place = env.start
        with self._job.together("rewind"):
            if self._run is not None:
                state = self._run.load_state(self._worker.stage_identity)
                self.step = 0 if state is None else state.step
                self._run.rewind(self.step)
                forget_after(self._run.path, self.step)
        self.step = self._job.from_first("step", self.step)
        with self._job.together("checkpoint"):
            if self.step:
                place = load_checkpoint(self.path, self.step, self._policy)
        self._job.same_everywhere("weights", self._policy.weights.sha256())
        return place

    def record(self, result: BatchResult, place: EnvState) -> None:
        """Record a batch, and make a checkpoint when one is due."""
        settings, run, self.step = self._settings, self._run, result.step
        is_due = result.step == settings.steps or (
            settings.save_steps is not None and result.step % settings.save_steps == 0
        )
        if is_due:
            self._job.same_everywhere("weights", self._policy.weights.sha256())
        with self._job.together("record"):
            if run is None:
                return
            run.record_step(result.step, result.trajectories, result.outcome)
            publish(run.path, result.step, result.outcome, result.makers, result.optimality)
            run.metrics.write(result.step, result.metrics)
            if is_due:
                # In this order a kill in between leaves the state before with its own checkpoint beside it.
                save_checkpoint(run.path, result.step, self._policy, place)
                run.save_state(result.step, self._worker.stage_identity, result.outcome.report)
                prune_checkpoints(run.path, settings.keep_checkpoints)

    def export(self) -> None:
        """Write what was trained in the layout of diffusers, for whoever samples with it."""
        with self._job.together("export"):
            if self._run is not None:
                transformer = self._policy.model.transformer
                target = self._run.path / "policy"
                if getattr(transformer, "peft_config", None):
                    transformer.save_lora_adapter(target)
                else:
                    transformer.save_pretrained(target)
