# SPDX-License-Identifier: Apache-2.0
"""Who reads the rows of a path, for training and held-out rows alike."""

from __future__ import annotations

from typing import Literal, TypeAlias

from posttrain.runs.config.kinds import function_path

__all__ = ["Source", "source_of"]

Source: TypeAlias = Literal["jsonl", "hf", "function"]


def source_of(path: str | None, source: Source | None) -> Source | None:
    """The source that was asked for, or that of the path."""
    if path is None:
        return source
    if source == "function":
        function_path(path)
    if source is not None:
        return source
    # Only here, where a path is given, does the config need the data floor.
    from posttrain.data.sources import source_kind

    return "jsonl" if source_kind(path) == "jsonl" else "hf"
