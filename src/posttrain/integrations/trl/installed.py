# SPDX-License-Identifier: Apache-2.0
"""Which TRL this works with. Its trainer is overridden in private places, so the range is narrow and checked."""

from __future__ import annotations

import re
from importlib import metadata

from posttrain.errors import RewardConfigError

__all__ = ["OLDEST", "TOO_NEW", "check_trl"]

OLDEST = (1, 16)
"""The first release whose trainer has the seams that are overridden, as they are."""
TOO_NEW = (1, 17)
"""The first release that nobody has looked at."""


def check_trl(version: str | None = None) -> None:
    """Refuse a TRL that is missing or outside the range.

    Args:
        version: what to check; None: the installed one.

    Raises:
        RewardConfigError: saying what is there and what to install.
    """
    wanted = f"trl>={OLDEST[0]}.{OLDEST[1]},<{TOO_NEW[0]}.{TOO_NEW[1]}"
    try:
        found = metadata.version("trl") if version is None else version
    except metadata.PackageNotFoundError as error:
        raise RewardConfigError('TRL is not installed: pip install "posttrain[train]"') from error
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not OLDEST <= (int(numbers[1]), int(numbers[2])) < TOO_NEW:
        raise RewardConfigError(
            f"TRL {found} is installed; StageGRPOTrainer replaces parts of TRL's trainer that have been checked in "
            f'{wanted} only: pip install "{wanted}"'
        )
