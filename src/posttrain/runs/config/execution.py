# SPDX-License-Identifier: Apache-2.0
"""The sections of the backends under ``rl.reward_stage``: where groups are evaluated, one section for each backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, final

from pydantic import AfterValidator, Field

from posttrain.frozen import freeze
from posttrain.runs.config.kinds import Count, Expected, PathText, Seconds, Text
from posttrain.runs.config.section import Section

__all__ = ["Backend", "ProcessesConfig", "RayConfig"]


def _frozen(amounts: Mapping[str, float]) -> Any:
    return freeze(dict(amounts))


Amounts: TypeAlias = Annotated[
    Mapping[Text, Annotated[float, Field(gt=0, allow_inf_nan=False)]],
    AfterValidator(_frozen),
    Expected("a number above 0", "real"),
]
Cores: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False), Expected("a number of at least 0", "real")]
Times: TypeAlias = Annotated[int, Field(ge=0), Expected("a whole number of at least 0", "whole")]

Backend: TypeAlias = Literal["in_process", "processes", "ray"]


@final
class ProcessesConfig(Section):
    """``rl.reward_stage.processes``: worker processes on this machine. Keys may be set while another backend is on."""

    workers: Count = 4
    """Worker processes, at least 1; each evaluates one group at a time."""
    group_timeout_s: Seconds = 300.0
    """Wall-clock seconds for one group by all selected providers; a worker that takes longer is killed."""
    memory_limit_mib: Count | None = None
    """Resident memory of a worker and what it started, above which it is killed. Default: no bound."""
    start_timeout_s: Seconds = 60.0
    """Seconds for a worker to start and open its providers."""


@final
class RayConfig(Section):
    """``rl.reward_stage.ray``: reward actors on a Ray cluster. Keys may be set while another backend is on."""

    address: Text | None = None
    """Of a running cluster; ``auto``: this machine's; ``local``: one that is started and stopped with the run.
    Default: ``RAY_ADDRESS``, else a local one."""
    namespace: Text | None = None
    """Ray namespace of the actors. Default: Ray's own anonymous one."""
    min_actors: Count = 1
    """Actors that are there from the start, at least 1."""
    max_actors: Count | None = None
    """Most actors when there is a backlog, at least `min_actors`. Default: the pool does not grow."""
    num_cpus: Cores = 1.0
    """Cores that Ray sets aside for each actor, at least 0; a share will do for providers that wait."""
    resources: Amounts = Field(default={}, validate_default=True)
    """Custom resource to the amount that each actor takes."""
    runtime_env: PathText | None = None
    """YAML file with Ray's runtime environment of the actors, as ``ray job submit --runtime-env`` takes it. A file of
    its own, so that no secret in it gets into the recorded config. Default: that of the cluster."""
    group_timeout_s: Seconds = 300.0
    """Seconds for one group by all selected providers; also how long an actor may give no sign of life."""
    start_timeout_s: Seconds = 120.0
    """Seconds until an actor has to be placed and ready."""
    redispatches: Times = 2
    """How often a group whose actor was lost is given to another; for repeatable providers only."""
    idle_s: Seconds = 60.0
    """Seconds without work after which actors above `min_actors` are let go."""
