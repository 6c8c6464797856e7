# SPDX-License-Identifier: Apache-2.0
"""The answer to an enqueue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from posttrain.media.wire import Enqueued, read_enqueued


@pytest.mark.parametrize(
    ("answer", "ticket"),
    [
        ({"uuid": "5db04701-3c50-42a7-956c-c1a8c60afa60"}, ("5db04701-3c50-42a7-956c-c1a8c60afa60", None)),
        ({"uuid": "u1", "replica_id": "rep-7"}, ("u1", "rep-7")),
        ({"uuid": "u2", "replica_id": None, "more": 1}, ("u2", None)),
        ({"uuid": " u ", "replica_id": ""}, (" u ", None)),
    ],
)
def test_a_ticket_is_read_as_it_stands(answer: dict[str, Any], ticket: tuple[str, str | None]) -> None:
    """The uuid is kept to the letter; a replica id is optional; other members are ignored."""
    assert read_enqueued(json.dumps(answer).encode()) == Enqueued(*ticket)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "it is no JSON (the body is empty)"),
        (b"<html>", "it is no JSON"),
        (b'"u1"', "it is no JSON object"),
        (b"{}", "its uuid is missing, empty or no text"),
        (b'{"uuid":null}', "its uuid is missing"),
        (b'{"uuid":""}', "its uuid is missing"),
        (b'{"uuid":"  "}', "its uuid is missing"),
        (b'{"uuid":17}', "its uuid is missing"),
        (b'{"uuid":["u1"]}', "its uuid is missing"),
        (b'{"uuid":"u1","uuid":"u2"}', "a key stands twice"),
        (b'{"uuid":"\\ud800"}', "can't be sent back"),
        (b'{"uuid":"' + b"u" * 513 + b'"}', "more than 512 characters"),
        (b'{"uuid":"u1","replica_id":7}', "its replica_id can't be a header"),
        (b'{"uuid":"u1","replica_id":false}', "its replica_id can't be a header"),
        (b'{"uuid":"u1","replica_id":"a\\r\\nX: y"}', "its replica_id can't be a header"),
        (b'{"uuid":"u1","replica_id":"a b"}', "its replica_id can't be a header"),
    ],
)
def test_an_answer_without_a_usable_ticket_says_why(body: bytes, message: str) -> None:
    """What can't be pulled with later is described, so that the client can call the enqueue ambiguous."""
    found = read_enqueued(body)
    assert isinstance(found, str)
    assert message in found
