# SPDX-License-Identifier: Apache-2.0
"""verifiers' saved results: the ``results.jsonl`` of ``vf-eval --save-results``."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from posttrain.errors import describe
from posttrain.jsonl.lines import RowFault
from posttrain.rollouts.grouping import BY_GROUP_ID
from posttrain.rollouts.importers.jsonl import JsonlDump
from posttrain.rollouts.importers.messages import Unrendered, completion_text
from posttrain.rollouts.importers.peer import Peer, Reading

__all__ = ["VERIFIERS"]

_NULL: Final = b"null"


def _convert(row: dict[str, Any], fields: dict[str, Raw], reading: Reading) -> dict[str, Any] | RowFault:
    if (error := fields.get("error")) is not None and bytes(error) != _NULL:
        got = describe(msgspec.json.decode(error))
        return RowFault(
            f"field 'error': the rollout failed, so that what it left is no completion: {got}; leave the rows of its "
            "example out, or run it again"
        )
    completion, group_id = reading.roles["completion"], reading.roles.get("group_id")
    try:
        text = completion_text(msgspec.json.decode(row[completion]), completion, reading.render)
    except Unrendered as fault:
        return RowFault(str(fault))
    row[completion] = text
    if group_id in row:
        example_id = msgspec.json.decode(row[group_id])
        # An int in verifiers, and an id is a string here.
        row[group_id] = str(example_id) if type(example_id) is int else example_id
    return row


VERIFIERS: Final = Peer(
    name="verifiers",
    title="verifiers' saved results",
    fields={"group_id": "example_id", "prompt": "prompt", "completion": "completion", "reference": "answer"},
    grouping=BY_GROUP_ID,
    open=lambda path, reading: JsonlDump(path, reading, _convert),
)
