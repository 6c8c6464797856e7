# SPDX-License-Identifier: Apache-2.0
"""Let a catalog be imported from the working directory, as `python -m` would."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["importable_from_here"]


def importable_from_here() -> None:
    """Put the working directory behind everything else on the import path, so that it can hide no installed module."""
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
