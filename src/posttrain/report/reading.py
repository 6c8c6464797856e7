# SPDX-License-Identifier: Apache-2.0
"""Scored groups from where they lie: a run's directory, or one scored file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final, final

from posttrain.errors import RewardConfigError, RewardContractError, listing
from posttrain.report.facts import Facts, facts_of_file, facts_of_run
from posttrain.report.group import ScoredGroup
from posttrain.report.rows import NumberedRow, scored_rows
from posttrain.rollouts.digests import DigestSet
from posttrain.runs.records import (
    CONFIG_FILE,
    METRICS_FILE,
    PROVENANCE_FILE,
    SCORED_FOLDER,
    STATE_FILE,
    RecordedCandidate,
)

__all__ = ["Scores", "open_scores"]

_SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_VALIDATED: Final = "scores.jsonl"
_MARKS: Final = (METRICS_FILE, PROVENANCE_FILE, SCORED_FOLDER, STATE_FILE, CONFIG_FILE)


@final
class Scores:
    """What one run or one scored file holds, read as often as it is asked for.

    Of a scored file one group is held, and 12 to 24 bytes for each id, which guard that none is used twice. Of a run
    one step is held, since the groups of a batch may interleave.
    """

    def __init__(self, path: Path, facts: Facts, files: tuple[Path, ...], *, is_run: bool) -> None:
        self.path = path
        self.facts = facts
        """What is recorded beside the scores."""
        self.is_run = is_run
        self.files = files
        """Where the rows are: one file, or one a step."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.path.resolve().name if self.is_run else self.path.name

    def groups(self) -> Iterator[ScoredGroup]:
        """Every group: of a run step by step, of a file in its order.

        Raises:
            RewardConfigError: a file can't be read.
            RewardContractError: rows are at fault, an id is used twice, or a group is scored in part.
        """
        for file in self.files:
            yield from _step_groups(file) if self.is_run else _file_groups(file)


def open_scores(path: Path) -> Scores:
    """The scores of a run's directory, of a validation's, or of a file that `posttrain score` or a run wrote.

    Raises:
        RewardConfigError: there is nothing of the kind, or what lies beside the scores can't be read.
    """
    if (path / _VALIDATED).is_file():
        path = path / _VALIDATED
    if path.is_dir():
        if not any((path / name).exists() for name in _MARKS):
            raise RewardConfigError(f"{path} is no run: it holds none of {', '.join(_MARKS)}")
        return Scores(path, facts_of_run(path), _step_files(path / SCORED_FOLDER), is_run=True)
    if not path.exists():
        raise RewardConfigError(f"{path} is not there: name a run's directory or a scored file")
    return Scores(path, facts_of_file(path), (path,), is_run=False)


def _step_files(folder: Path) -> tuple[Path, ...]:
    by_step: dict[str, Path] = {}
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in names:
        suffix = next((suffix for suffix in _SUFFIXES if path.name.endswith(suffix)), None)
        if suffix is None or not path.name.startswith("step-"):
            continue
        step = path.name.removesuffix(suffix)
        if step in by_step:
            raise RewardConfigError(f"{folder} holds {step} twice, as {by_step[step].name} and {path.name}: remove one")
        by_step[step] = path
    return tuple(by_step.values())


def _file_groups(path: Path) -> Iterator[ScoredGroup]:
    used_groups, used_rows = DigestSet(), DigestSet()
    for key, members in groupby(scored_rows(path), key=_group_mark):
        rows = list(members)
        start = rows[0][0]
        if used_groups.add(repr(key)) and (first := _first(path, _group_mark, key)) < start:
            raise RewardContractError(
                f"{path.name}: group {key[1]!r} began in row {first} and goes on in row {start}: the rows of a group "
                "stand together; sort the file by step and group_id"
            )
        for row in rows:
            mark = _trajectory_mark(row)
            if used_rows.add(repr(mark)) and (first := _first(path, _trajectory_mark, mark)) < row[0]:
                raise _stands_twice(path, mark[1], first, row[0])
        yield _group(path, [row for _, row in rows])


def _group_mark(row: NumberedRow) -> tuple[int, str]:
    return row[1].step, row[1].group_id


def _trajectory_mark(row: NumberedRow) -> tuple[int, str]:
    return row[1].step, row[1].trajectory_id


def _first(path: Path, mark_of: Callable[[NumberedRow], tuple[int, str]], mark: tuple[int, str]) -> int:
    """Number of the first row with that mark: a digest alone is only a suspicion."""
    return next(row[0] for row in scored_rows(path) if mark_of(row) == mark)


def _stands_twice(path: Path, trajectory_id: str, first: int, second: int) -> RewardContractError:
    return RewardContractError(
        f"{path.name}: trajectory {trajectory_id!r} stands in row {first} and again in row {second}; every candidate "
        "has an id of its own"
    )


def _step_groups(path: Path) -> Iterator[ScoredGroup]:
    groups: dict[tuple[int, str], list[RecordedCandidate]] = {}
    seen: dict[tuple[int, str], int] = {}
    for row in scored_rows(path):
        mark = _trajectory_mark(row)
        if (first := seen.setdefault(mark, row[0])) != row[0]:
            raise _stands_twice(path, mark[1], first, row[0])
        groups.setdefault(_group_mark(row), []).append(row[1])
    for rows in groups.values():
        yield _group(path, rows)


def _group(path: Path, rows: Iterable[RecordedCandidate]) -> ScoredGroup:
    candidates = tuple(rows)
    first = candidates[0]
    names = first.reward.keys()
    if others := [each.trajectory_id for each in candidates if each.reward.keys() != names]:
        raise RewardContractError(
            f"{path.name}: its candidates do not have the same terms: {first.trajectory_id!r} has "
            f"{', '.join(names) or 'none'}, and others have not:\n{listing(others)}\nA group is scored whole, or not.",
            group_id=first.group_id,
        )
    return ScoredGroup(step=first.step, group_id=first.group_id, candidates=candidates)
