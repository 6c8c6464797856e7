# SPDX-License-Identifier: Apache-2.0
"""Trajectories of one rank's share of a sampled batch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, describe, listing
from posttrain.integrations.trl.completions import Render, completion_text
from posttrain.rewards.contract.failure import classified
from posttrain.schema import Observation, Trajectory

__all__ = ["Columns", "Sample", "trajectories_of"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of the dataset hold what, and how messages become text."""

    reference: str | None = None
    row_id: str | None = None
    render: Render | None = None

    def cells(self, row: Mapping[str, Any]) -> tuple[Any, Any, str | None]:
        """Prompt, reference and row id of a row.

        Raises:
            RewardConfigError: a column is not there.
            RewardContractError: the row id is neither text nor a whole number.
        """
        wanted = ["prompt", *(name for name in (self.reference, self.row_id) if name is not None)]
        if missing := [name for name in wanted if name not in row]:
            raise RewardConfigError(f"the dataset has no column {', '.join(missing)}; it has {', '.join(row)}")
        reference = None if self.reference is None else row[self.reference]
        row_id = None if self.row_id is None else row[self.row_id]
        if type(row_id) not in {str, int, type(None)}:
            raise RewardContractError(f"{self.row_id}: expected a string or an int, got {describe(row_id)}")
        return row["prompt"], reference, None if row_id is None else str(row_id)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completion as the trainer has it."""

    row: Mapping[str, Any]
    completion: Any
    """Text or messages."""
    token_count: int
    finish_reason: str | None


def trajectories_of(
    samples: Sequence[Sample], *, first: int, batch: str, group_size: int, columns: Columns, policy_version: int
) -> list[Trajectory]:
    """This rank's trajectories, in order.

    A group is an occurrence of a row in the batch. TRL's sampler puts the occurrences of a row side by side, counted
    over all ranks; the id that is minted from that count also carries a fingerprint of the row, so that rows that do
    not belong together can never pass for a group.

    Args:
        samples: what this rank sampled.
        first: place of the first of them in the whole batch.
        batch: name of the batch, the same on every rank and new for each.
        group_size: candidates per group.
        columns: see `Columns`.
        policy_version: optimizer steps that the sampling weights have had.

    Raises:
        RewardError: naming every row that has no text, or a missing column.
    """
    made = []
    faults: list[RewardError] = []
    for place, sample in enumerate(samples, first):
        prompt, reference, row_id = columns.cells(sample.row)
        group_id = f"{batch}/{place // group_size}-{_fingerprint([prompt, reference, row_id])}"
        trajectory_id = f"{group_id}/{place % group_size}"
        try:
            text = _text(sample.completion, columns.render)
        except RewardError as error:
            faults.append(classified(error, group_id=group_id, trajectory_id=trajectory_id))
            continue
        info: dict[str, Any] = {
            "finish_reason": sample.finish_reason,
            "completion_token_count": sample.token_count,
            "policy_version": policy_version,
        }
        made.append(
            Trajectory(
                trajectory_id=trajectory_id,
                group_id=group_id,
                obs=Observation(id=group_id, prompt=prompt, reference=reference, row_id=row_id),
                completion=text,
                policy_info=info,
            )
        )
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise RewardContractError(f"completions without a text to score:\n{listing([str(each) for each in faults])}")
    return made


def _text(completion: Any, render: Render | None) -> str:
    try:
        return completion_text(completion, render)
    except RewardError:
        raise
    except Exception as error:
        # The renderer is the user's, and may raise anything.
        raise classified(error) from error


def _fingerprint(cells: list[Any]) -> str:
    try:
        text = json.dumps(cells, sort_keys=True, default=_kind)
    except (TypeError, ValueError):
        # Keys that can't be sorted, or a value that contains itself: binding refuses it where it is declared.
        text = _kind(cells)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _kind(value: object) -> str:
    # Objects that are no JSON (images) are decoded anew for each candidate, so only their type is compared.
    return type(value).__qualname__
