# SPDX-License-Identifier: Apache-2.0
"""The first rows of the run's data, training and held-out alike, held against what the selected providers need."""

from __future__ import annotations

from collections.abc import Iterable

from posttrain.data import ColumnMapping, Env, RowSource, open_rows
from posttrain.runs.checks.report import ProbedData
from posttrain.runs.config import DataConfig, RLConfig
from posttrain.schema import Observation

__all__ = ["held_out_rows", "opened_rows", "probe_held_out", "probe_rows"]


def opened_rows(data: DataConfig) -> RowSource:
    """The rows that `rl.data` describes; its path is set.

    Raises:
        RewardError: see `posttrain.data.open_rows`.
    """
    return open_rows(
        str(data.path),
        source=data.source,
        columns=_columns(data),
        items_fn=data.items_fn,
        name=data.name,
        split=data.split if data.source == "hf" else None,
        revision=data.revision,
        spool_dir=data.spool_dir,
    )


def held_out_rows(config: RLConfig) -> RowSource:
    """The rows that `rl.validation.path` names, which is set; columns and row map are those of the training rows.

    Raises:
        RewardError: see `posttrain.data.open_rows`.
    """
    data, held_out = config.data, config.validation
    is_hf = held_out.source == "hf"
    return open_rows(
        str(held_out.path),
        source=held_out.source,
        columns=_columns(data),
        items_fn=data.items_fn if is_hf else None,
        name=held_out.name,
        split=held_out.split if is_hf else None,
        revision=held_out.revision,
        spool_dir=data.spool_dir if held_out.source == "jsonl" else None,
    )


def _columns(data: DataConfig) -> ColumnMapping:
    return ColumnMapping(
        prompt_column=data.prompt_column, response_column=data.response_column, row_id_column=data.row_id_column
    )


def probe_held_out(config: RLConfig, needs: Iterable[str], count: int) -> tuple[str, int, int]:
    """Title, number and probed number of the held-out rows.

    Raises:
        RewardError: as for `probe_rows`.
    """
    env = Env(held_out_rows(config), needs=sorted(set(needs)), shuffle=False, name="held-out")
    return env.rows.title, len(env), len(env.probe(count))


def probe_rows(settings: DataConfig, needs: Iterable[str], count: int) -> tuple[ProbedData, list[Observation]]:
    """What the data is, and its first rows as observations.

    Args:
        settings: where the rows come from.
        needs: the canonical inputs that any selected provider declares.
        count: how many of the first rows are looked at.

    Raises:
        RewardError: the data can't be had, or its rows lack what is needed; every row that was looked at is named.
    """
    rows, wanted = opened_rows(settings), sorted(set(needs))
    env = Env(rows, needs=wanted, seed=settings.seed, shuffle=settings.shuffle, name="preflight")
    observations = env.probe(count)
    data = ProbedData(title=rows.title, rows=len(env), probed=len(observations), fingerprint=rows.fingerprint)
    return data, observations
