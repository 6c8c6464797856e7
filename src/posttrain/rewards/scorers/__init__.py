# SPDX-License-Identifier: Apache-2.0
"""The built-in rule scorers, one file each. They read the completion and the reference, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.scorers import arithmetic, constant, countdown, exact_match, gsm8k, nonempty

__all__ = ["BUILT_IN"]

BUILT_IN: Final[Mapping[str, RewardProviderSpec]] = MappingProxyType(
    {
        "arithmetic": arithmetic.SPEC,
        "constant": constant.SPEC,
        "countdown": countdown.SPEC,
        "exact_match": exact_match.SPEC,
        "gsm8k": gsm8k.SPEC,
        "nonempty": nonempty.SPEC,
    }
)
"""Name to spec, sorted by name. A custom catalog adds to these and can't replace one."""
