# SPDX-License-Identifier: Apache-2.0
"""verl's rollout dumps: one JSONL file a step, in ``trainer.rollout_data_dir`` or ``trainer.validation_data_dir``."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw

from posttrain.rollouts.grouping import by_columns
from posttrain.rollouts.importers.jsonl import JsonlDump
from posttrain.rollouts.importers.peer import Peer, Reading

__all__ = ["VERL"]


def _convert(row: dict[str, Any], _fields: dict[str, Raw], _reading: Reading) -> dict[str, Any]:
    return row


VERL: Final = Peer(
    name="verl",
    title="verl's rollout dump",
    fields={"prompt": "input", "completion": "output", "reference": "gts"},
    grouping=by_columns(("step", "input")),
    open=lambda path, reading: JsonlDump(path, reading, _convert),
)
