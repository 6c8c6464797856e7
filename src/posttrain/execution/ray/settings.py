# SPDX-License-Identifier: Apache-2.0
"""What a pool of reward actors is asked to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, final

from posttrain.errors import RewardConfigError, describe, listing

__all__ = ["RaySettings"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """Size, place and patience of the pool; `RayEvaluator` says what each field means."""

    address: str | None
    min_actors: int
    max_actors: int | None
    num_cpus: float
    resources: Mapping[str, float]
    runtime_env: Mapping[str, Any] = field(repr=False)  # its variables may be secret
    start_timeout_s: float
    group_timeout_s: float
    redispatches: int
    idle_s: float
    namespace: str | None

    def __post_init__(self) -> None:
        """Refuse values of the wrong type or range, all at once."""
        faults = [*self._text_faults(), *self._count_faults(), *self._number_faults()]
        for name, value in (("resources", self.resources), ("runtime_env", self.runtime_env)):
            if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
                # What was given is not shown: it may hold secrets.
                faults.append(f"{name}: expected a mapping with names as keys, got {type(value).__qualname__}")
        if isinstance(self.resources, Mapping):
            faults += [
                f"resources[{name!r}]: expected a positive number, got {describe(amount)}"
                for name, amount in self.resources.items()
                if not _is_positive(amount)
            ]
        if faults:
            raise RewardConfigError(f"the settings of the Ray backend are not valid:\n{listing(faults)}")

    @property
    def most(self) -> int:
        """The upper bound of the pool."""
        return self.min_actors if self.max_actors is None else self.max_actors

    def _text_faults(self) -> list[str]:
        faults = [
            f"{name}: expected a string that is not empty, or None, got {describe(value)}"
            for name, value in (("address", self.address), ("namespace", self.namespace))
            if value is not None and (not isinstance(value, str) or not value.strip())
        ]
        if isinstance(self.address, str) and self.address.startswith("ray://"):
            faults.append(
                f"address: {self.address!r} is a Ray Client address; run the driver inside the cluster "
                "(ray job submit) and give the cluster's own address, or auto"
            )
        return faults

    def _count_faults(self) -> list[str]:
        faults = []
        for name, value, least in (
            ("min_actors", self.min_actors, 1),
            ("max_actors", self.most, 1),
            ("redispatches", self.redispatches, 0),
        ):
            if type(value) is not int or value < least:
                faults.append(f"{name}: expected an int of at least {least}, got {describe(value)}")
        if not faults and self.most < self.min_actors:
            faults.append(f"max_actors: expected at least min_actors = {self.min_actors}, got {self.most}")
        return faults

    def _number_faults(self) -> list[str]:
        faults = [
            f"{name}: expected a positive number of seconds, got {describe(value)}"
            for name, value in (
                ("start_timeout_s", self.start_timeout_s),
                ("group_timeout_s", self.group_timeout_s),
                ("idle_s", self.idle_s),
            )
            if not _is_positive(value)
        ]
        if self.num_cpus != 0 and not _is_positive(self.num_cpus):
            faults.append(f"num_cpus: expected a number of at least 0, got {describe(self.num_cpus)}")
        return faults


def _is_positive(value: object) -> bool:
    return type(value) in {int, float} and isfinite(value) and value > 0  # type: ignore[arg-type, operator]  # checked
