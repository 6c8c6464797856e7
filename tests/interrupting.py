# SPDX-License-Identifier: Apache-2.0
"""Interrupt work before any line that a package of ours runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

__all__ = ["interrupt_at"]


def interrupt_at(package: ModuleType, work: Callable[[], object], line: int) -> bool:
    """Do the work with a KeyboardInterrupt before the n-th line that `package` runs; whether it came."""
    folder = str(Path(str(package.__file__)).parent)
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(folder):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(old)
    return False
