# SPDX-License-Identifier: Apache-2.0
"""What a journal records of an unfinished output, and how it tells that the record is sound."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.frozen import FrozenJson, first_difference, freeze, strict_equal

__all__ = ["Checkpoint", "check_header", "read_checkpoint"]

_FORMAT: Final = 1
_ABSENT: Final = object()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The state of an unfinished output at one moment."""

    header: FrozenJson
    """What must not change between the runs that write one output: identities, options, the input's fingerprint."""
    length: int
    """Bytes of the output that count; what lies behind them was written after this moment."""
    sha256: str
    """Digest of those bytes, in hexadecimal."""
    state: FrozenJson
    """Where the writer stood; the caller's own."""

    def encode(self) -> bytes:
        """The journal's file: JSON with a checksum of itself."""
        fields = {
            "format": _FORMAT,
            "header": self.header,
            "length": self.length,
            "sha256": self.sha256,
            "state": self.state,
        }
        return json.dumps({**fields, "checksum": _checksum(fields)}, indent=1).encode() + b"\n"


def read_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint that a journal's file records; None when there is no such file.

    Raises:
        RewardConfigError: the file is damaged, can't be read, or is of another format.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
    record = _sound_record(data)
    if record is None:
        raise RewardConfigError(
            f"{path} is damaged: its checksum does not match, so that nobody knows what it recorded. Put it back as it "
            "was, or start over with --restart"
        )
    if record["format"] != _FORMAT:
        raise RewardConfigError(
            f"{path} is a journal of format {describe(record['format'])}, and this version of Posttrain reads format "
            f"{_FORMAT}: finish the run with the version that began it"
        )
    return Checkpoint(
        header=freeze(record["header"]),
        length=record["length"],
        sha256=record["sha256"],
        state=freeze(record["state"]),
    )


def _sound_record(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or "format" not in record:
        return None
    return record if record.pop("checksum", None) == _checksum(record) else None


def check_header(recorded: FrozenJson, header: FrozenJson, path: Path) -> None:
    """Refuse to go on under another header than the one that is recorded.

    Raises:
        RewardConfigError: naming every field that differs, with both values.
    """
    if strict_equal(recorded, header):
        return
    raise RewardConfigError(
        f"{path} was begun under other settings, so its results and new ones can't stand in one file. Run with the "
        f"recorded settings, or start over with --restart:\n{listing(list(_differences(recorded, header, '')))}"
    )


def _differences(recorded: object, header: object, path: str) -> Iterator[str]:
    """One line for each field that differs, going into mappings but not into lists."""
    if strict_equal(recorded, header):
        return
    if isinstance(recorded, Mapping) and isinstance(header, Mapping):
        for key in [*recorded, *(key for key in header if key not in recorded)]:
            step = f"{path}.{key}" if path else str(key)
            yield from _differences(recorded.get(key, _ABSENT), header.get(key, _ABSENT), step)
        return
    name = path or "header"
    if isinstance(recorded, (list, tuple)) and isinstance(header, (list, tuple)):
        yield f"{first_difference(recorded, header, name)}".replace("the first", "the record").replace(
            "the second", "this run"
        )
        return
    yield f"{name}: recorded {_shown(recorded)}, now {_shown(header)}"


def _shown(value: object) -> str:
    return "nothing" if value is _ABSENT else describe(value)


def _checksum(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
