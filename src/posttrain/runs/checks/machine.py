# SPDX-License-Identifier: Apache-2.0
"""What the providers need of this machine, and what they will ask of services: told by themselves, without a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from posttrain.errors import RewardError
from posttrain.rewards.contract.provider import CheckedRewardProvider, RemoteRewardProvider
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.here import Here
from posttrain.runs.checks.report import Check, failed_by, passed, skipped, warned
from posttrain.runs.config import RLConfig

__all__ = ["check_machine", "check_outside"]

_NONE: Final = "there is no provider to ask"


def check_machine(here: Here) -> Check:
    """Whether this machine has what the providers say that they need."""
    if not here.prepared:
        return skipped("machine", _NONE)
    errors, checked = list[RewardError](), list[str]()
    for name, prepared in here.prepared.items():
        if isinstance(prepared.provider, CheckedRewardProvider):
            checked.append(name)
            try:
                with contained("its check of the machine", provider=name):
                    prepared.provider.check_machine()
            except RewardError as error:
                errors.append(error)
    if errors:
        return failed_by("machine", errors)
    return passed("machine", f"{', '.join(checked)} found what is needed" if checked else "no provider needs anything")


def check_outside(here: Here, config: RLConfig) -> Check:
    """How many calls the run may have in flight at each service, and what a person should know of them."""
    if not here.prepared:
        return skipped("outside calls", _NONE)
    calls, cautions, errors = list[str](), list[str](), list[RewardError]()
    for name, prepared in here.prepared.items():
        if isinstance(prepared.provider, RemoteRewardProvider):
            try:
                with contained("what it says of its calls", provider=name):
                    calls += _calls(name, prepared.provider, config)
                    cautions += [f"{name}: {line}" for line in prepared.provider.cautions()]
            except RewardError as error:
                errors.append(error)
    if errors:
        return failed_by("outside calls", errors)
    if cautions:
        return warned("outside calls", [*cautions, *calls])
    return passed("outside calls", *calls or ["no provider says that it makes any"])


def _calls(name: str, provider: RemoteRewardProvider, config: RLConfig) -> Iterator[str]:
    workers, what = _workers(config)
    for address, count in provider.calls_at_once().items():
        product = f" x {workers} {what} = {count * workers}" if what else ""
        yield f"{name}: concurrency {count}{product} calls at once at {address}"


def _workers(config: RLConfig) -> tuple[int, str]:
    """How many processes evaluate, and what they are called; an empty name: this one alone."""
    stage = config.reward_stage
    if stage.backend == "processes":
        return stage.processes.workers, "workers"
    if stage.backend == "ray":
        return stage.ray.max_actors or stage.ray.min_actors, "actors"
    return 1, ""
