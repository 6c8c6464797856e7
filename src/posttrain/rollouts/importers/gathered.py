# SPDX-License-Identifier: Apache-2.0
"""The lines of a file in another order: those of one group together, groups by their first line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from io import BufferedReader, FileIO
from pathlib import Path
from typing import Self, final

import msgspec
from msgspec import Raw

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.jsonl.chunks import DamagedFile
from posttrain.jsonl.lines import RowFault, read_rows
from posttrain.jsonl.streams import RowStream
from posttrain.rollouts.importers.lenient import fields_of

__all__ = ["GatheredLines"]


@final
class GatheredLines:
    """A plain JSONL file, read twice: once for where each group's lines stand, then group by group.

    The place behind a line is how many come before it, in this order. Memory holds 24 bytes a line and about 200 a
    group. A line that is no JSON object, or lacks one of the fields, is a group by itself.

    Args:
        path: the file.
        group_by: the fields whose equal values make a group.

    Raises:
        RewardConfigError: there is no such file, or it can't be read.
    """

    def __init__(self, path: Path, group_by: Sequence[str]) -> None:
        self._path = path
        self._starts, self._numbers = _gathered(path, group_by)
        try:
            self._file = BufferedReader(FileIO(path))
            self._bytes = path.stat().st_size
        except OSError as error:
            raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
        self._next = 0
        self._is_inside = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    @property
    def consumed(self) -> int:
        """The file's bytes by the share of its lines that were read."""
        return self._bytes * self._next // max(1, len(self._starts))

    def number(self, place: int) -> int:
        """The number that an editor gives to the line before `place`; behind the last line, the next number."""
        return self._numbers[place - 1] if place <= len(self._numbers) else len(self._numbers) + 1

    @property
    def readline(self) -> Callable[[int], bytes]:
        """See `LineStream`."""
        return self._readline

    def skip_to(self, offset: int) -> None:
        """Go to the line that comes behind `offset` others.

        Raises:
            RewardContractError: there are not so many.
        """
        if offset > len(self._starts):
            raise RewardContractError(
                f"{self._path} has {len(self._starts)} rows, and the earlier run had come to row {offset}: the file "
                "has changed since; start over with --restart"
            )
        self._next = offset

    def _readline(self, longest: int) -> bytes:
        if not self._is_inside:
            if self._next == len(self._starts):
                return b""
            self._file.seek(self._starts[self._next])
            self._next += 1
        line = self._file.readline(longest)
        while not self._is_inside and line.isspace():
            # What is noted of a line that can't be kept is where the one before it ends; blank ones may lie between.
            line = self._file.readline(longest)
        if not line:
            raise DamagedFile("the file has become shorter while it was read; read it again")
        self._is_inside = len(line) == longest and not line.endswith(b"\n")
        return line


def _gathered(path: Path, group_by: Sequence[str]) -> tuple[array[int], array[int]]:
    """Where each line begins and its number, in the order of the groups."""
    starts, numbers, groups = array("Q"), array("Q"), array("Q")
    ordinals: dict[bytes, int] = {}
    count = start = 0
    with RowStream(path) as stream:
        for number, fields, end, line in read_rows(stream, fields_of):
            # Blank lines stand between, and none of them comes here.
            begin, start = max(start, end - len(line)) if line else start, end
            key = None if isinstance(fields, RowFault) else _key(fields, group_by)
            ordinal = count if key is None else ordinals.setdefault(key, count)
            count += ordinal == count
            starts.append(begin)
            numbers.append(number)
            groups.append(ordinal)
    order = sorted(range(len(groups)), key=groups.__getitem__)
    return array("Q", (starts[at] for at in order)), array("Q", (numbers[at] for at in order))


def _key(fields: dict[str, Raw], group_by: Sequence[str]) -> bytes | None:
    """Digest of the fields' values, by which strictly equal ones are known; None where one is missing."""
    try:
        values = [msgspec.json.decode(fields[name]) for name in group_by]
    except (KeyError, msgspec.DecodeError):
        return None
    return blake2b(msgspec.json.encode(values, order="deterministic"), digest_size=16).digest()
