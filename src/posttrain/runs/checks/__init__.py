# SPDX-License-Identifier: Apache-2.0
"""Preflight: what is checked before a model loads or a rollout begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posttrain.runs.checks.checking import preflight
    from posttrain.runs.checks.report import Check, PreflightReport

__all__ = ["Check", "PreflightReport", "preflight"]


def __getattr__(name: str) -> Any:
    # A fresh process imports this package on its way to `fresh`, and must load no more than a reward actor would.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from posttrain.runs.checks import checking, report

    return getattr(checking if name == "preflight" else report, name)
