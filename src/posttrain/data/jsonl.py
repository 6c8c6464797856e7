# SPDX-License-Identifier: Apache-2.0
"""Rows of a local JSONL file: only the mapped columns, at random, in flat memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, final

import msgspec

from posttrain.data.columns import ColumnMapping, missing_column
from posttrain.data.gaps import Gaps
from posttrain.data.jsonl_index import JsonlIndex
from posttrain.data.row import SourceRow
from posttrain.data.row_ids import id_text, note_repeated
from posttrain.data.strict import StrictRows
from posttrain.errors import RewardConfigError, RewardContractError, listing
from posttrain.jsonl.chunks import is_compressed, read_chunks

__all__ = ["MAX_ROW_BYTES", "JsonlRows"]

MAX_ROW_BYTES: Final = 1 << 28
"""Longest row that is read, 256 MiB: a file without line ends must not fill the memory."""


@final
class JsonlRows:
    """The rows of a JSONL file, plain or with the suffix ``.gz`` or ``.zst``.

    Opening it reads the whole file once and checks every row. What stays in memory is the place at which each row
    begins, 8 bytes; a row is read from the disk when it is taken. A compressed file has no such places, so its mapped
    columns are copied to a temporary file, which vanishes with this object.

    Args:
        path: the file.
        columns: its columns.
        spool_dir: folder for the temporary copy of a compressed file; None: the platform's.
        longest: rows of more bytes are a fault.

    Raises:
        RewardConfigError: the file can't be read, has no rows, or a column that was asked for is in none of them.
        RewardContractError: rows are at fault, each named by its number.
    """

    def __init__(
        self,
        path: str | Path,
        columns: ColumnMapping | None = None,
        *,
        spool_dir: str | Path | None = None,
        longest: int = MAX_ROW_BYTES,
    ) -> None:
        self.path = Path(path)
        self.columns = columns or ColumnMapping()
        self._rows = StrictRows(self.columns.roles())
        self._index = JsonlIndex(self.columns, self._rows, longest)
        with ExitStack() as opened:
            try:
                file = opened.enter_context(self.path.open("rb", buffering=0))
            except OSError as error:
                raise RewardConfigError(f"can't read {self.path}: {error.strerror or error}") from error
            before = _state(file)
            if is_compressed(self.path):
                self._file = self._copied(file, spool_dir, opened)
            else:
                self._file = file
                self._index.scan(read_chunks(file, ""), None)
            if _state(file) != before:
                raise self._changed()
            self._state = _state(self._file)
            self._refuse()
            # The file stays open for as long as rows may be taken.
            weakref.finalize(self, opened.pop_all().close)

    @property
    def title(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def column_names(self) -> Sequence[str]:
        """Names of the columns of the first row, and of mapped ones that another row has."""
        index, names = self._index, list(self._index.column_names)
        elsewhere = [name for role, name in self.columns.roles().items() if index.missing[role] < len(index)]
        return [*names, *(name for name in elsewhere if name not in names)]

    @property
    def gaps(self) -> Mapping[str, Gaps]:
        """For ``prompt`` and ``reference``, every row that lacks it."""
        return self._index.gaps

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of the file's content, decompressed."""
        return self._index.fingerprint

    def __len__(self) -> int:
        return len(self._index)

    def place(self, index: int) -> str:
        """``row 7``, counted from 1 as an editor does, blank lines included."""
        return f"row {self._index.number(index)}"

    def take(self, indices: Sequence[int]) -> list[SourceRow]:
        """The rows at these places, each counted from 0.

        Raises:
            IndexError: there is no such row.
            RewardContractError: the file was changed since it was opened, or a row is nested too deep.
        """
        if indices and not 0 <= min(indices) <= max(indices) < len(self):
            raise IndexError(f"{self.title} has the rows 0 to {len(self) - 1}, got {list(indices)}")
        if _state(self._file) != self._state:
            raise self._changed()
        taken = []
        for index in indices:
            try:
                row = self._rows.read(self._bytes(index))
            except msgspec.DecodeError as error:
                raise self._changed() from error
            except RecursionError as error:
                # The check had more of the stack to itself.
                raise RewardContractError(
                    f"{self.title}: {self.place(index)}: is nested too deep to be read"
                ) from error
            taken.append(SourceRow(row.prompt, row.reference, row.row_id))
        return taken

    def _copied(self, file: IO[bytes], folder: str | Path | None, opened: ExitStack) -> IO[bytes]:
        """The mapped columns of a compressed file in a temporary one, which is indexed on the way."""
        try:
            copy: IO[bytes] = opened.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115  # entered
            self._index.scan(read_chunks(file, self.path.suffix), copy.write)
            copy.flush()
        except OSError as error:
            raise RewardConfigError(
                f"can't write the temporary copy of {self.path} to {folder or tempfile.gettempdir()}: "
                f"{error.strerror or error}; set rl.data.spool_dir to a folder with room for it"
            ) from error
        return copy

    def _refuse(self) -> None:
        """Raise what the pass over the file found."""
        index, faults, names = self._index, self._index.faults, self.column_names
        absent = [role for role in self.columns.required() if len(index) and index.missing[role] == len(index)]
        if "row_id" not in absent:
            for at in index.without_id.first:
                text = f"has no column {self.columns.row_id_column!r}, in which each row has an id of its own"
                faults.add(index.number(at), self.place(at), text)
            faults.count(index.without_id.total - len(index.without_id.first))
        if suspects := index.ids.suspects():
            note_repeated(suspects, self._ids(), str(self.columns.row_id_column), faults)
        if absent:
            lines = [missing_column(self.columns, role, names) for role in absent]
            rest = f"\n{faults.error(self.title).message}" if faults.total else ""
            raise RewardConfigError(f"{self.title} lacks a column that was asked for:\n{listing(lines)}{rest}")
        if faults.total:
            raise faults.error(self.title)
        if not len(index):
            raise RewardConfigError(f"{self.path} has no rows")
        index.forget_ids()

    def _ids(self) -> Iterator[tuple[int, str, str]]:
        """The number of each row, what it is called and its id."""
        for index in range(len(self)):
            # Rows that are at fault may stand behind it.
            line, _, _ = self._bytes(index).partition(b"\n")
            if (row_id := id_text(self._rows.read(line).row_id)) is not None:
                yield self._index.number(index), self.place(index), row_id

    def _bytes(self, index: int) -> bytes:
        """What stands between the beginnings of a row and the next."""
        start = self._index.starts[index]
        return os.pread(self._file.fileno(), self._index.starts[index + 1] - start, start)

    def _changed(self) -> RewardContractError:
        return RewardContractError(f"{self.path} was changed while it was in use; start again on a file that stays")


def _state(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns
