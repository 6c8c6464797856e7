# SPDX-License-Identifier: Apache-2.0
"""Small bodies: read within a bound, and answers whose JSON is finished."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from posttrain.service.protocol.refusal import Refusal

__all__ = ["json_response", "read_bounded", "refuse_long"]

_SLOWEST_S: Final = 30.0


def json_response(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A finished JSON text as an answer."""
    return Response(body, status, headers, media_type="application/json")


async def read_bounded(request: Request, most: int) -> bytes:
    """The whole body of a small request.

    Raises:
        Refusal: 413 as soon as it is longer than `most`; 408 when it comes too slowly; 400 when the client goes away.
    """
    refuse_long(request, most)
    body = bytearray()
    try:
        async with asyncio.timeout(_SLOWEST_S):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    break
    except TimeoutError as error:
        raise Refusal(408, f"the body did not come within {_SLOWEST_S:g} s") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the connection ended within the body") from error
    if len(body) > most:
        raise Refusal(413, f"the body is longer than {most} bytes")
    return bytes(body)


def refuse_long(request: Request, most: int) -> None:
    """Refuse a body that announces more bytes than `most`, before any of it is read.

    Raises:
        Refusal: 413.
    """
    length = request.headers.get("content-length", "")
    # The server checks the header's form itself.
    if length.isdecimal() and int(length) > most:
        raise Refusal(413, f"the body of {length} bytes is longer than {most} bytes")
