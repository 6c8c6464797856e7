# SPDX-License-Identifier: Apache-2.0
"""Who may read a page: nobody who may not read every file that its texts come from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from posttrain.errors import RewardConfigError

__all__ = ["mode_of"]

_OPEN: Final = 0o644
_OWN: Final = 0o600


def mode_of(files: Iterable[Path]) -> int:
    """Permissions of a page that is made of these files.

    Raises:
        RewardConfigError: one of them is gone.
    """
    mode = _OPEN
    for file in files:
        try:
            mode &= file.stat().st_mode | _OWN
        except OSError as error:
            raise RewardConfigError(f"can't read {file}: {error.strerror or error}") from error
    return mode
