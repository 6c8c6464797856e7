# SPDX-License-Identifier: Apache-2.0
"""Which tool wrote a file, where its beginning leaves no doubt."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.rollouts.importers.lenient import fields_of

__all__ = ["detected_peer"]

_HEAD: Final = 1 << 16
_INSPECT_JSON: Final = re.compile(
    rb'\s*\{\s*"version"\s*:\s*[0-9]+\s*,\s*"status"\s*:\s*"[a-z]+"\s*,\s*"eval"\s*:\s*\{'
)
_SIGNATURES: Final = {
    "verl": frozenset({"input", "output", "gts", "score", "step"}),
    "verifiers": frozenset({"example_id", "prompt", "completion", "reward", "is_completed", "stop_condition"}),
}
_OURS: Final = frozenset({"group_id", "completions", "trajectory_id"})


def detected_peer(path: Path) -> str | None:
    """The value of ``--from`` for a file: one of ``trl``, ``verl``, ``verifiers``, ``inspect``; None: read it as JSONL.

    TRL's is any Parquet file, inspect_ai's an archive named ``.eval`` or a JSON document that begins as its logs do,
    and the others' a JSONL file whose first row has all fields that mark the tool's dump and none of our own ids.

    Raises:
        RewardConfigError: the file can't be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            line = head.partition(b"\n")[0]
            if line == head:
                line = head + file.readline(1 << 24)
    except OSError as error:
        raise RewardConfigError(f"can't read {path}: {error.strerror}") from error
    if head.startswith(b"PAR1"):
        return "trl"
    if head.startswith(b"PK") and path.suffix.lower() == ".eval":
        return "inspect"
    if _INSPECT_JSON.match(head):
        return "inspect"
    return _peer_of_row(line)


def _peer_of_row(line: bytes) -> str | None:
    try:
        names = fields_of(line).keys()
    except (msgspec.DecodeError, RecursionError):
        return None
    found = [peer for peer, marks in _SIGNATURES.items() if marks <= names and not _OURS & names]
    return found[0] if len(found) == 1 else None
