# SPDX-License-Identifier: Apache-2.0
"""What a scripted service can do with one request. A step of one's own is any function that takes an `Exchange`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from posttrain.testing.reward_service.exchange import Exchange

__all__ = [
    "Step",
    "answer",
    "answer_early",
    "close_unanswered",
    "cut_short",
    "drop_mid_upload",
    "endless_body",
    "enqueued",
    "never_answer",
    "not_found",
    "pending",
    "raw",
    "reset",
    "scored",
    "slow_body",
]

Step: TypeAlias = Callable[[Exchange], None]


def answer(status: int, body: Any = b"", *, headers: Mapping[str, str] | None = None) -> Step:
    """Read the request and answer it.

    Args:
        status: HTTP status.
        body: bytes as they are, text as UTF-8, anything else as JSON (NaN as Python writes it).
        headers: further headers.
    """

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.write(_response(status, body, headers))

    return step


def enqueued(uuid: str | None = None, *, replica_id: str | None = None) -> Step:
    """Take an enqueue: 200 with a uuid, by default the next of ``fake-1``, ``fake-2``; with a replica id if given."""
    replica = {} if replica_id is None else {"replica_id": replica_id}
    return lambda exchange: answer(200, {"uuid": uuid or exchange.new_uuid, **replica})(exchange)


def pending(uuid: str | None = None, status: Any = "pending") -> Step:
    """A pull's 202, by default about the uuid that was asked for."""
    return lambda exchange: answer(202, {"uuid": uuid or exchange.asked_for(), "status": status})(exchange)


def not_found(uuid: str | None = None) -> Step:
    """A pull's older pending form, the 400 ``Not found scores for <uuid>``, by default about the uuid asked for."""
    return lambda exchange: answer(400, {"message": f"Not found scores for {uuid or exchange.asked_for()}"})(exchange)


def scored(scores: Any) -> Step:
    """A pull's 200 with the members that the public server sends beside the scores."""
    extra = {"input_info": {"shape": [1]}, "duration": "0.01", "decoded_duration": "0.00", "type": "reward"}
    return answer(200, {"scores": scores, **extra})


def answer_early(status: int, *, after: int, drain: bool = True) -> Step:
    """Answer while the upload still runs.

    Args:
        status: HTTP status.
        after: bytes of the body to read first.
        drain: then read the rest, so that the answer arrives; False: close at once, which resets the connection.
    """

    def step(exchange: Exchange) -> None:
        exchange.read(after)
        exchange.write(_response(status, {"detail": "Content Too Large"}, None))
        if drain:
            exchange.drain()

    return step


def close_unanswered(exchange: Exchange) -> None:
    """Read the whole request, then close the connection without a word."""
    exchange.read()


def never_answer(exchange: Exchange) -> None:
    """Read the whole request, then keep the connection open without a word."""
    exchange.read()
    exchange.hold()


def reset(exchange: Exchange) -> None:
    """Read the whole request, then reset the connection."""
    exchange.read()
    exchange.reset()


def drop_mid_upload(after: int) -> Step:
    """Reset the connection when `after` bytes of the body are there."""

    def step(exchange: Exchange) -> None:
        exchange.read(after)
        exchange.reset()

    return step


def cut_short(status: int, body: Any, *, missing: int = 1) -> Step:
    """Close the connection when all but `missing` bytes of the announced body are sent."""

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.write(_response(status, body, None)[:-missing])

    return step


def slow_body(status: int, body: Any, *, every_s: float) -> Step:
    """Send the body byte by byte."""

    def step(exchange: Exchange) -> None:
        exchange.read()
        head, _, content = _response(status, body, None).partition(b"\r\n\r\n")
        exchange.write(head + b"\r\n\r\n")
        for each in content:
            if exchange.over.wait(every_s):
                return
            exchange.write(bytes([each]))

    return step


def endless_body(status: int, *, announced: int | None = None) -> Step:
    """Send a body that goes on until the client closes.

    Args:
        status: HTTP status.
        announced: the Content-Length; None: none is named.
    """

    def step(exchange: Exchange) -> None:
        exchange.read()
        length = "" if announced is None else f"Content-Length: {announced}\r\n"
        exchange.write(f"HTTP/1.1 {status} Fake\r\n{length}Connection: close\r\n\r\n".encode())
        while not exchange.over.is_set():
            exchange.write(b"x" * 65_536)

    return step


def raw(content: bytes) -> Step:
    """Read the request and send bytes that need not be HTTP."""

    def step(exchange: Exchange) -> None:
        exchange.read()
        exchange.write(content)

    return step


def _response(status: int, body: Any, headers: Mapping[str, str] | None) -> bytes:
    kind = "application/json"
    if isinstance(body, str):
        body, kind = body.encode(), "text/plain; charset=utf-8"
    elif not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":")).encode()
    lines = [f"HTTP/1.1 {status} Fake", f"Content-Length: {len(body)}", f"Content-Type: {kind}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + bytes(body)
