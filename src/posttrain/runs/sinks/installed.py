# SPDX-License-Identifier: Apache-2.0
"""Modules that not everybody has: found when they are used, or missed with one line that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from posttrain.errors import RewardConfigError

__all__ = ["installed"]


def installed(module: str, *, purpose: str, install: str) -> Any:
    """Import `module`.

    Args:
        module: its dotted name.
        purpose: what it is needed for, as the beginning of a sentence.
        install: what pip has to install.

    Raises:
        RewardConfigError: its package is not installed. One that is there and fails on its own is not hidden.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise RewardConfigError(f"{purpose} needs {package}: pip install {install}") from error
