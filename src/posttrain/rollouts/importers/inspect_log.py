# SPDX-License-Identifier: Apache-2.0
"""inspect_ai's logs, ``.eval`` and ``.json``: a sample's epochs are the candidates of a group."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar, final
from zipfile import ZipInfo

import msgspec
from msgspec import Raw

from posttrain.errors import RewardConfigError, RewardContractError, describe
from posttrain.jsonl.lines import MAX_ROW_BYTES, RowFault, RowLine
from posttrain.rollouts.grouping import BY_GROUP_ID
from posttrain.rollouts.importers.eval_zip import DamagedMember, listed_members, read_member
from posttrain.rollouts.importers.peer import Found, Peer, Reading, decoded
from posttrain.rollouts.position import Position

__all__ = ["INSPECT"]

T = TypeVar("T")
S = TypeVar("S")

_MEMBER: Final = re.compile(r"samples/(.*)_epoch_([0-9]+)\.json", re.DOTALL)

_VERDICTS: Final = frozenset({"stop", "tool_calls", "content_filter"})
"""Stop reasons that are given on. Of the others, ``max_tokens`` and ``model_length`` are inspect_ai's own words for
what the engine said, whatever that was, and ``unknown`` says that nobody knows: see `docs/design/016`."""


class _Choice(msgspec.Struct):
    stop_reason: str = "unknown"


class _Output(msgspec.Struct):
    choices: list[_Choice] = []
    completion: str = ""
    error: str | None = None


class _Sample(msgspec.Struct):
    """What is read of a sample; its events, the bulk of it, are skipped."""

    id: int | str
    epoch: int
    input: Any
    target: Any
    choices: Any = None
    output: _Output = msgspec.field(default_factory=_Output)
    metadata: Any = None
    error: Any = None


class _Log(msgspec.Struct):
    samples: list[Raw] | None = None


class _LooseLog(msgspec.Struct):
    samples: list[Any] | None = None


class _Key(msgspec.Struct):
    id: int | str
    epoch: int


@final
class InspectLog:
    """An open log; its samples come by id, in the order of the ids' first samples, and by epoch.

    The place behind a sample is the number of samples before it. An archive is read sample by sample; a ``.json`` log
    is in memory as a whole.

    Raises:
        RewardConfigError: the file can't be read as a log.
    """

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path = path
        self._reading = reading
        try:
            self._file = path.open("rb")
            self._bytes = path.stat().st_size
        except OSError as error:
            raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
        self._taken = self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    @property
    def consumed(self) -> int:
        """The file's bytes by the share of its samples that were read."""
        return self._bytes * self._taken // max(1, self._count)

    def rows(self, decode: Callable[[bytes], T], start: Position, distinct: Sequence[str]) -> Iterator[RowLine[T]]:
        """See `OpenRows`.

        Raises:
            RewardConfigError: the file is no log, or a ``.json`` log that is too large.
        """
        del distinct  # inspect_ai writes from a typed record
        samples = self._archived() if self._file.peek(2)[:2] == b"PK" else self._whole()
        self._count = len(samples)
        if start.offset > self._count:
            raise RewardContractError(
                f"{self._path} has {self._count} samples, and the earlier run had come to sample {start.offset}: the "
                "file has changed since; start over with --restart"
            )
        return decoded(self._found(samples, start), decode)

    def _archived(self) -> Sequence[tuple[str, ZipInfo | Raw]]:
        found = [
            (match[1], int(match[2]), each)
            for each in listed_members(self._path)
            if (match := _MEMBER.fullmatch(each.filename))
        ]
        return [(member.filename, member) for member in _by_sample(found)]

    def _whole(self) -> Sequence[tuple[str, ZipInfo | Raw]]:
        if self._bytes > MAX_ROW_BYTES:
            raise RewardConfigError(
                f"{self._path} is larger than {MAX_ROW_BYTES:,} bytes, and a .json log is read as a whole: convert it "
                "with inspect log convert --to eval"
            )
        try:
            texts = _samples_of(self._file.read())
            keyed = [(str(each.id), each.epoch, text) for text in texts for each in [_decoded(bytes(text), _Key)]]
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise RewardConfigError(f"{self._path} is no log of inspect_ai: {error}") from error
        return [("samples", text) for text in _by_sample(keyed)]

    def _found(self, samples: Sequence[tuple[str, ZipInfo | Raw]], start: Position) -> Iterator[Found]:
        for at in range(start.offset, len(samples)):
            self._taken = at + 1
            name, where = samples[at]
            try:
                data = read_member(self._file, where) if isinstance(where, ZipInfo) else bytes(where)
                row = _row(_decoded(data, _Sample), self._reading)
            except DamagedMember as fault:
                row = RowFault(f"{name} {fault}")
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                row = RowFault(f"{name} is no sample of inspect_ai: {error}")
            yield at + 1, row, at + 1


def _by_sample(found: list[tuple[str, int, S]]) -> list[S]:
    first: dict[str, int] = {}
    for name, _, _ in found:
        first.setdefault(name, len(first))
    return [each for _, _, each in sorted(found, key=lambda one: (first[one[0]], one[1]))]


def _decoded(data: bytes, kind: type[S]) -> S:
    """One record; a log may hold NaN and Infinity, which are no JSON, in fields that are not read here.

    Raises:
        ValueError: the data is no JSON at all.
        msgspec.ValidationError: it is another record.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return msgspec.convert(json.loads(data), type=kind)


def _samples_of(log: bytes) -> list[Raw]:
    """The samples of a ``.json`` log, each as JSON text; raises as `_decoded` does."""
    try:
        return msgspec.json.decode(log, type=_Log).samples or []
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        samples = msgspec.convert(json.loads(log), type=_LooseLog).samples or []
        return [Raw(json.dumps(each).encode()) for each in samples]


def _row(sample: _Sample, reading: Reading) -> dict[str, Any] | RowFault:
    output, name = sample.output, f"sample {sample.id!r}, epoch {sample.epoch}"
    if sample.error is not None or output.error is not None:
        field, error = ("error", sample.error) if sample.error is not None else ("output.error", output.error)
        return RowFault(
            f"{name}, field '{field}': it failed, so that what it left is no completion: {describe(error)}; evaluate "
            "it again (inspect eval-retry)"
        )
    if len(output.choices) != 1:
        return RowFault(
            f"{name}, field 'output.choices': expected one, got {len(output.choices)}; candidates are epochs here"
        )
    reason = output.choices[0].stop_reason
    row: dict[str, Any] = {
        "id": str(sample.id),
        "epoch": sample.epoch,
        "id/epoch": f"{sample.id}/{sample.epoch}",
        "input": sample.input,
        "target": sample.target,
        "choices": sample.choices,
        "metadata": sample.metadata,
        "output.completion": output.completion,
        "output.stop_reason": reason if reason in _VERDICTS else None,
    }
    if missing := reading.missing(row):
        return RowFault(f"{name}: {missing}")
    return {field: row[field] for field in reading.fields if field in row}


INSPECT: Final = Peer(
    name="inspect",
    title="inspect_ai's log",
    fields={
        "group_id": "id",
        "trajectory_id": "id/epoch",
        "prompt": "input",
        "completion": "output.completion",
        "reference": "target",
        "finish_reason": "output.stop_reason",
    },
    grouping=BY_GROUP_ID,
    open=InspectLog,
)
