# SPDX-License-Identifier: Apache-2.0
"""`run_online`: one run from its config to its report, in each process of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec

from posttrain.errors import RewardError
from posttrain.runs.checks import preflight
from posttrain.runs.config import RLConfig
from posttrain.training.online.settings import check_settings, place
from posttrain.training.online.watch import SILENT, Watch

if TYPE_CHECKING:
    from posttrain.execution.ranks import RankExchange
    from posttrain.training.online.trainer import RunTrainer
    from posttrain.training.policy import Policy

__all__ = ["Outcome", "Variant", "run_online"]

_FAREWELL_S: Final = 1.0
"""Seconds that a failing process waits before it goes: the others read what failed from a store that it may hold."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a run."""

    path: Path
    """Its folder."""
    steps: int
    """Steps that it has now."""
    before: float | None
    """Mean final reward of the held-out validation before the first step; None: there was none."""
    after: float | None
    """The same of the last validation."""
    report: Path | None
    """The HTML report; None in all processes but the first."""


def _run_trainer() -> type[RunTrainer]:
    from posttrain.training.online.trainer import RunTrainer

    return RunTrainer


def _no_options(_: Policy) -> Mapping[str, Any]:
    return {}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What one kind of training does otherwise than another."""

    kind: str = "grpo"
    """Begins the name of a run that is given none."""
    trainer: Callable[[], type[RunTrainer]] = _run_trainer
    """Gives the trainer's class; called after everything is checked."""
    options: Callable[[Policy], Mapping[str, Any]] = _no_options
    """Gives further arguments of the trainer, out of the policy."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """JSON that a resume may not change; recorded with the run."""


def run_online(
    config: RLConfig, *, resume: bool = False, watch: Watch = SILENT, variant: Variant | None = None
) -> Outcome:
    """Train a policy online: preflight first, then rows, policy, training with held-out validation, report.

    Every process that a launcher such as `torchrun` started calls it. The first one writes the run's folder.

    Args:
        config: the run.
        resume: go on with the run of that name if it is there.
        watch: is told how it goes.
        variant: the kind of training; None: GRPO.

    Raises:
        RewardError: preflight failed, the run can't be gone on with, or the reward stage failed: the same error in
            every process, and the run stands at its last checkpoint.
    """
    variant = variant or Variant()
    check_settings(config)
    first = place()[0] == 0
    report = preflight(config)
    if first:
        watch.checked(report)
    report.raise_if_failed()
    # From here on torch is loaded.
    from posttrain.training.online.arguments import trainer_arguments
    from posttrain.training.online.session import Session

    args = trainer_arguments(config)
    with _one_end(config.grpo.ranks_timeout_s) as meeting, ExitStack() as stack:
        session = Session(config, args, variant, watch if first else SILENT, meeting, stack)
        return session.run(resume=resume)


@final
class Meeting:
    """Where the processes meet at the moment: at first an exchange of the run's own, then the trainer's."""

    def __init__(self, exchange: RankExchange) -> None:
        self.exchange = exchange

    def agreed(self, what: str, make: Callable[[], Any]) -> Any:
        """What the first process makes, as plain JSON, in all of them; a failure there is raised in all."""
        exchange, made = self.exchange, None
        try:
            if exchange.rank == 0:
                made = msgspec.to_builtins(make())
        except Exception as error:
            exchange.fail(what, error)
            raise  # not reached: every process raises in the line above
        return exchange.swap(what, made)[0]


@contextmanager
def _one_end(timeout_s: float) -> Iterator[Meeting]:
    """All processes end together: one that fails alone tells the others, and none takes the store from under them."""
    from posttrain.execution.ranks import torch_exchange

    meeting = Meeting(torch_exchange(timeout_s=timeout_s))
    try:
        yield meeting
    except BaseException as error:
        exchange = meeting.exchange
        if error is not exchange.raised:
            exchange.leave(error)
        if exchange.world_size > 1 and isinstance(error, RewardError):
            time.sleep(_FAREWELL_S)
        raise
