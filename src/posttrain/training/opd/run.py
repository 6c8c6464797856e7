# SPDX-License-Identifier: Apache-2.0
"""`run_opd`: on-policy distillation from its config to its report, on the machinery of every online run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from posttrain.errors import RewardConfigError, listing
from posttrain.runs.config import RLConfig
from posttrain.training.online import SILENT, Outcome, Watch, run_online
from posttrain.training.online.run import Variant

if TYPE_CHECKING:
    from posttrain.training.online.trainer import RunTrainer
    from posttrain.training.policy import Policy

__all__ = ["check_opd", "run_opd"]


def run_opd(config: RLConfig, *, resume: bool = False, watch: Watch = SILENT) -> Outcome:
    """Distil ``rl.opd.teacher`` into ``rl.policy`` on the policy's own samples.

    The rest is as in `posttrain.training.online.run_online`. The SHA-256 of the teacher's weights is recorded with the
    run, and a resume with other weights is refused.

    Args:
        config: the run.
        resume: go on with the run of that name if it is there.
        watch: is told how it goes.

    Raises:
        RewardError: see `run_online`, and what `load_teacher` raises.
    """
    check_opd(config)
    teacher = _Teacher(config, watch)
    variant = Variant(kind="opd", trainer=_trainer, options=teacher.options, fixed=_Fixed(teacher))
    return run_online(config, resume=resume, watch=watch, variant=variant)


def check_opd(config: RLConfig) -> None:
    """Refuse settings that distillation has no use for, all at once. Loads nothing.

    Raises:
        RewardConfigError: naming every key.
    """
    faults = []
    if config.opd.teacher is None:
        faults.append("rl.opd.teacher: missing; expected tiny, gguf:FILE, a folder, or the name of a model on the hub")
    if config.grpo.beta:
        faults.append(
            f"rl.grpo.beta={config.grpo.beta}: it holds the policy to its own start, and distillation to the teacher; "
            "leave it out"
        )
    faults += [
        f"rl.grpo.trl.{name}: entropy is part of the divergence; leave it out"
        for name in ("entropy_coef", "use_adaptive_entropy")
        if config.grpo.trl.get(name)
    ]
    if faults:
        raise RewardConfigError(f"this config can't be distilled with:\n{listing(faults)}")


def _trainer() -> type[RunTrainer]:
    from posttrain.training.opd.run_trainer import OPDRunTrainer

    return OPDRunTrainer


@final
@dataclass(slots=False)
class _Teacher:
    """The teacher of one run in one process, loaded when it is first asked for: after preflight."""

    config: RLConfig
    watch: Watch = field(repr=False)

    @cached_property
    def loaded(self) -> Policy:
        from posttrain.training.opd.teacher import load_teacher

        steps = self.config.opd.teacher_warm_start_steps
        return load_teacher(self.config.opd, self._rows, watch=lambda step: self.watch.warmed(step, steps))

    @cached_property
    def identity(self) -> dict[str, str]:
        """What tells it from another teacher, wherever it was loaded from."""
        from posttrain.training.opd.teacher import weights_sha256

        return {"weights_sha256": weights_sha256(self.loaded.model)}

    def options(self, _: Policy) -> Mapping[str, Any]:
        """What the trainer is told of it."""
        opd = self.config.opd
        return {
            "teacher": self.loaded.model,
            "teacher_tokenizer": self.loaded.tokenizer,
            "alpha": opd.alpha,
            "divergence": opd.divergence,
        }

    def _rows(self) -> list[Mapping[str, Any]]:
        from posttrain.data import Env
        from posttrain.runs.checks.rows import opened_rows
        from posttrain.training.online.session import warm_rows

        return list(warm_rows(Env(opened_rows(self.config.data), needs=["reference"])))


@final
class _Fixed(Mapping[str, Any]):
    """What no resume may change. It is read when the run is opened, which is when the teacher can be loaded."""

    def __init__(self, teacher: _Teacher) -> None:
        self._teacher = teacher

    def __getitem__(self, key: str) -> Any:
        if key != "teacher":
            raise KeyError(key)
        return self._teacher.identity

    def __iter__(self) -> Iterator[str]:
        return iter(["teacher"])

    def __len__(self) -> int:
        return 1
