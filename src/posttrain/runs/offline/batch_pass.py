# SPDX-License-Identifier: Apache-2.0
"""The second pass over scored rows, for an estimator that needs the spread of the whole batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import msgspec

from posttrain.rewards.stage.estimators import Estimator
from posttrain.runs.offline.record import ScoredRow

__all__ = ["annotated_rows"]

_decode = msgspec.json.Decoder(ScoredRow).decode
_encode = msgspec.json.Encoder().encode


def annotated_rows(lines: Iterable[bytes], estimator: Estimator, batch_scale: float) -> Iterator[bytes]:
    """The same rows with their advantages, a group at a time.

    Args:
        lines: scored rows without advantages; the rows of a group stand together.
        estimator: the estimator.
        batch_scale: what it needs to know of the whole batch.
    """
    for _, rows in groupby(map(_decode, lines), key=attrgetter("group_id")):
        members = list(rows)
        if members[0].dropped_because is None:
            finals = [row.reward["final"] for row in members]
            for row, advantage in zip(members, estimator.advantages(finals, batch_scale), strict=True):
                row.advantage = advantage
        yield b"".join(_encode(row) + b"\n" for row in members)
