# SPDX-License-Identifier: Apache-2.0
"""One row of a rollout file: which of its columns are decoded, and the candidates that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, Raw

from posttrain.errors import RewardConfigError, describe
from posttrain.rollouts.columns import RolloutColumns, column_flag, missing_column
from posttrain.rollouts.grouping import Grouping

__all__ = ["Candidate", "RolloutRow", "RowReader", "names_of"]

INPUTS = ("prompt", "reference")

Candidate: TypeAlias = tuple[str | None, str | None, dict[str, Any]]
"""Trajectory id (None: to be minted), completion (None: missing) and `policy_info`."""

_GROUP_KEYS = ("group_id", *INPUTS)


class RolloutRow(Protocol):
    """The columns that are read; UNSET where the row has no such column.

    Prompt, reference and the columns that rows are grouped by are left as JSON text: the rows of a group mostly
    repeat them byte by byte, so that each is decoded once per group.
    """

    group_id: Any
    trajectory_id: Any
    prompt: Raw
    completion: Any
    completions: Any
    reference: Raw
    finish_reason: Any
    completion_token_count: Any


@final
class RowReader:
    """Knows the columns of one file.

    Args:
        columns: their names.
        grouping: how rows become groups.
        needs: which of prompt and reference every row has to have.

    Raises:
        RewardConfigError: `needs` names anything else, or the rows are grouped by a column that differs by candidate.
    """

    def __init__(self, columns: RolloutColumns, grouping: Grouping, needs: Iterable[str]) -> None:
        self._columns = columns
        self._needs = tuple(needs)
        if unknown := [name for name in self._needs if name not in INPUTS]:
            raise RewardConfigError(
                f"needs: {describe(unknown[0])} is no input of a rollout; those are prompt, reference"
            )
        roles = {role: getattr(columns, role) for role in RolloutRow.__annotations__}
        if not grouping.is_by_group_id:
            del roles["group_id"]
        by_name = {name: role for role, name in roles.items()}
        if own := [name for name in grouping.columns if by_name.get(name, "prompt") not in _GROUP_KEYS]:
            raise RewardConfigError(f"--group-by {own[0]}: that column belongs to a candidate, not to a group")
        self.key_fields = tuple(by_name.get(name, f"key_{at}") for at, name in enumerate(grouping.columns))
        """The attributes of a row that hold the columns it is grouped by, as JSON text."""
        keys = {
            field: name for field, name in zip(self.key_fields, grouping.columns, strict=True) if field not in roles
        }
        rename = roles | keys
        self.type = cast(
            "type[RolloutRow]",
            msgspec.defstruct(
                "RolloutRow",
                [(field, Raw if field in INPUTS or field in keys else Any, UNSET) for field in rename],
                rename=rename,
                gc=False,
            ),
        )
        """What a row is decoded to; columns that are not read are skipped without being built."""
        self.column_names: Sequence[str] = tuple(rename.values())
        """Every column that is read."""

    def candidates(self, row: RolloutRow, line: bytes, *, completion_known: bool) -> list[Candidate] | str:
        """The candidates of a row, one or a whole group; or every fault of the row in words.

        Args:
            row: the row.
            line: its text, from which an error names the columns that it has.
            completion_known: whether an earlier row had a completion. Then a row without one holds a candidate whose
                completion is missing; until then the column's name may be wrong, and that is a fault.
        """
        faults = [
            missing_column(getattr(self._columns, role), names_of(line), f"set {column_flag(role)}")
            for role in self._needs
            if getattr(row, role) is UNSET
        ]
        whole = row.completions is not UNSET and row.completions is not None
        if not whole and not completion_known and row.completion is UNSET and row.completions is UNSET:
            fix = f"set {column_flag('completion')} or {column_flag('completions')}"
            faults.append(missing_column(self._columns.completion, names_of(line), fix))
        found = self._whole_group(row, faults) if whole else self._single(row, faults)
        return "; ".join(faults) if faults else found

    def _single(self, row: RolloutRow, faults: list[str]) -> list[Candidate]:
        trajectory_id, completion = row.trajectory_id, row.completion
        finish_reason, count = row.finish_reason, row.completion_token_count
        if completion is UNSET:
            completion = None
        elif completion is not None and type(completion) is not str:
            faults.append(self._wrong("completion", completion))
        if trajectory_id is UNSET:
            trajectory_id = None
        elif trajectory_id is not None and (type(trajectory_id) is not str or not trajectory_id):
            faults.append(self._wrong("trajectory_id", trajectory_id))
        policy_info: dict[str, Any] = {}
        if finish_reason is not UNSET:
            policy_info["finish_reason"] = finish_reason
            if finish_reason is not None and type(finish_reason) is not str:
                faults.append(self._wrong("finish_reason", finish_reason))
        if count is not UNSET:
            policy_info["completion_token_count"] = count
            if count is not None and (type(count) is not int or count < 0):
                faults.append(self._wrong("completion_token_count", count))
        return [(trajectory_id, completion, policy_info)]

    def _whole_group(self, row: RolloutRow, faults: list[str]) -> list[Candidate]:
        completions = row.completions
        if row.completion is not UNSET and row.completion is not None:
            name, other = self._columns.completion, self._columns.completions
            faults.append(f"has both {name!r} and {other!r}, so that it is open which counts; keep one")
        if type(completions) is not list or not completions:
            faults.append(self._wrong("completions", completions))
            return []
        size = len(completions)
        self._check_items("completion", self._columns.completions, completions, faults)
        trajectory_ids = self._items(row, "trajectory_id", size, faults)
        finish_reasons = self._items(row, "finish_reason", size, faults)
        counts = self._items(row, "completion_token_count", size, faults)
        found: list[Candidate] = []
        for at, completion in enumerate(completions):
            policy_info = {}
            if finish_reasons is not None:
                policy_info["finish_reason"] = finish_reasons[at]
            if counts is not None:
                policy_info["completion_token_count"] = counts[at]
            found.append((trajectory_ids[at] if trajectory_ids else None, completion, policy_info))
        return found

    def _items(self, row: RolloutRow, role: str, size: int, faults: list[str]) -> list[Any] | None:
        """The list beside the completions; None where there is none or it is at fault."""
        items = getattr(row, role)
        if items is UNSET or (items is None and role == "trajectory_id"):
            return None
        if items is None:
            # Said of the whole row: the rollout recorded none, for any of them.
            return [None] * size
        name = getattr(self._columns, role)
        if type(items) is not list or len(items) != size:
            got = f"a list of {len(items)}" if type(items) is list else describe(items)
            faults.append(f"column {name!r}: expected a list of {size}, one item for each completion, got {got}")
            return None
        self._check_items(role, name, items, faults)
        return items

    def _check_items(self, role: str, name: str, items: list[Any], faults: list[str]) -> None:
        for at, item in enumerate(items):
            if not _is_item(role, item):
                faults.append(f"column {name!r}[{at}]: expected {_EXPECTED[role]}, got {describe(item)}")

    def _wrong(self, role: str, value: object) -> str:
        name = getattr(self._columns, role)
        fix = "; ids are minted where the column is left out" if role == "trajectory_id" else ""
        if role == "completion" and type(value) is list:
            fix = f"; a row with the texts of a whole group has them in the column of {column_flag('completions')}"
        return f"column {name!r}: expected {_EXPECTED[role]}, got {describe(value)}{fix}"


_EXPECTED = {
    "trajectory_id": "a string that is not empty, or null",
    "completion": "a text or null",
    "completions": "a list of texts, at least one",
    "finish_reason": "a string or null",
    "completion_token_count": "an int of at least 0, or null",
}


def _is_item(role: str, item: object) -> bool:
    if item is None:
        return True
    if role == "completion_token_count":
        return type(item) is int and item >= 0
    return type(item) is str and (role != "trajectory_id" or bool(item))


def names_of(line: bytes) -> list[str]:
    """The columns of a row that could be decoded."""
    # Names of columns that are not read were not checked yet: they may be no UTF-8.
    return list(msgspec.json.decode(line.decode(errors="replace"), type=dict[str, Raw]))
