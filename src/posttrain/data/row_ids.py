# SPDX-License-Identifier: Apache-2.0
"""The stable id of a row: what its id column says, or a digest of what it holds."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable
from typing import Any, final

from posttrain.errors import describe
from posttrain.jsonl.faults import Faults

__all__ = ["SeenIds", "content_id", "id_fault", "id_text", "note_repeated"]

_DIGITS = 32
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_BUCKETS = 256


def id_text(value: Any) -> str | None:
    """The id that a value of the id column stands for; None where it can't be one."""
    if type(value) is int:
        return str(value)
    return value if type(value) is str and value else None


def id_fault(column: str, value: Any) -> str:
    """The words for a value that can't be an id."""
    return f"{column!r}: expected a row's id, a text that is not empty or an int, got {describe(value)}"


def content_id(prompt: Any, reference: Any) -> str:
    """128 bits, in hexadecimal, of the SHA-256 of the canonical JSON text of ``[prompt, reference]``.

    The text is that of `json.dumps` with sorted keys, no spaces and no escapes but the needed; a missing reference is
    null. So the id depends on nothing but the two values: not on the row's place, its file or its other columns.

    Raises:
        ValueError: a value is no JSON, or holds a lone surrogate, which has no UTF-8.
    """
    text = _canonical([prompt, reference])
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@final
class SeenIds:
    """Finds out whether ids stand twice among millions, in 8 bytes an id.

    It keeps the interpreter's own 64-bit hash of each, spread over buckets by its low bits, so that the look for equal
    ones needs a set of one bucket at a time only. Equal hashes are a suspicion, to be confirmed by `note_repeated`.
    """

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, row_id: str) -> None:
        """Remember an id."""
        digest = hash(row_id)
        self._buckets[digest & (_BUCKETS - 1)].append(digest)

    def suspects(self) -> set[int]:
        """The hashes that came more than once."""
        found: set[int] = set()
        for bucket in self._buckets:
            once: set[int] = set()
            if len(set(bucket)) < len(bucket):
                for digest in bucket:
                    (found if digest in once else once).add(digest)
        return found


def note_repeated(suspects: set[int], ids: Iterable[tuple[int, str, str]], column: str, faults: Faults) -> None:
    """Note every row whose id an earlier row has already.

    Args:
        suspects: the hashes to look for.
        ids: where a row stands, what it is called and its id, for all rows in order.
        column: the id column's name.
        faults: where to note them.
    """
    first: dict[str, str] = {}
    for at, place, row_id in ids:
        if hash(row_id) not in suspects:
            continue
        if row_id in first:
            faults.add(at, place, f"{column!r}: {first[row_id]} has the id {row_id!r} already; each row has its own")
        else:
            first[row_id] = place
