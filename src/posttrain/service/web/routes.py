# SPDX-License-Identifier: Apache-2.0
"""The endpoints of the reward protocol, and what watches the service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, final
from uuid import uuid4

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from posttrain import __version__
from posttrain.service.protocol.answers import compact, not_found, pending
from posttrain.service.protocol.forms import LARGEST_FORM, form_fields, missing_fields
from posttrain.service.protocol.npy import NpyHeader
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.request_line import RequestLine, parse_line
from posttrain.service.store.results import State, StoreUnavailableError
from posttrain.service.web.bodies import json_response, read_bounded, refuse_long
from posttrain.service.work.lanes import Job
from posttrain.service.work.upload import take_in

if TYPE_CHECKING:
    from posttrain.service.settings import ServiceSettings
    from posttrain.service.web.running import Running
    from posttrain.service.work.spool import SpooledFile

__all__ = ["Desk", "refused"]

_RETRY_S: Final = 1
_DEFAULT_REWARD: Final = "dance_grpo"
"""What a pull without `type` asks the public server for."""


async def refused(_: Request, error: Exception) -> Response:
    """The answer to a `Refusal`."""
    if not isinstance(error, Refusal):
        raise error
    headers = None if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    return json_response(compact({"detail": error.detail}), error.status, headers)


@final
class Desk:
    """Takes requests of the reward protocol.

    Args:
        settings: how to serve.
        running: what is behind; there once the service has started.
    """

    def __init__(self, settings: ServiceSettings, running: Running) -> None:
        self._settings = settings
        self._running = running

    async def ping(self, request: Request) -> Response:
        """Say that the service is there. A form with `info_data`, any text."""
        fields = await self._form(request)
        if "info_data" not in fields:
            return json_response(compact(missing_fields("info_data")), 422)
        return JSONResponse({"message": "Ping request received"})

    async def enqueue(self, request: Request) -> Response:
        """Take an array in to be scored: one line of JSON, a line feed, the bytes of a `.npy` file of uint8.

        The line: `media_type` (`image`, array [B, H, W, 3], or `video`, array [B, 3, T, H, W]), `reward_fn` (object,
        name to weight), `video_infos` (videos: list of B objects with `video_fps`), `prompts` (list of B strings),
        `input_info` (object, echoed). The answer holds the `uuid` to pull with.
        """
        self._refuse_now()
        refuse_long(request, self._settings.max_body_bytes)
        taken = _Admission(self._settings, self._running)
        try:
            line, file = await self._upload(request, taken)
            job = Job(str(uuid4()), line, taken.shape, file)
            try:
                await self._running.store.begin(job.uuid, line.rewards)
            except StoreUnavailableError as error:
                raise Refusal(503, f"results can't be kept: {error}", retry_after_s=_RETRY_S) from error
            # Nothing is awaited from here to the queue, so what is accepted is scored, or told that it was not.
            if self._running.lanes.is_stopping:
                raise Refusal(503, "the service is shutting down", retry_after_s=_RETRY_S)  # noqa: TRY301  # undone below
        except BaseException:
            taken.give_back()
            raise
        self._running.lanes.submit(job)
        replica = self._settings.replica_id
        answer = {"uuid": job.uuid} if replica is None else {"uuid": job.uuid, "replica_id": replica}
        return json_response(compact(answer))

    async def pull(self, request: Request) -> Response:
        """Give the result of a `uuid` and a reward (`type`), a form of both. A result can be pulled more than once."""
        fields = await self._form(request)
        if "uuid" not in fields:
            return json_response(compact(missing_fields("uuid")), 422)
        uuid = fields["uuid"]
        try:
            found = await self._running.store.find(uuid, fields.get("type", _DEFAULT_REWARD))
        except StoreUnavailableError as error:
            raise Refusal(503, f"results can't be looked up: {error}", retry_after_s=_RETRY_S) from error
        if isinstance(found, bytes):
            return json_response(found)
        if found is State.PENDING and self._settings.pending == "202":
            return json_response(pending(uuid), 202)
        return json_response(not_found(uuid), 400)

    async def health(self, _: Request) -> Response:
        """Whether the service takes work: 200, else 503."""
        if self._running.draining:
            return JSONResponse({"status": "draining"}, 503)
        try:
            await self._running.store.check()
        except StoreUnavailableError:
            return JSONResponse({"status": "store unavailable"}, 503)
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self, _: Request) -> Response:
        """Counters in the text format of Prometheus."""
        return Response(self._running.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _form(self, request: Request) -> dict[str, str]:
        body = await read_bounded(request, LARGEST_FORM)
        return form_fields(request.headers.get("content-type", ""), body)

    async def _upload(self, request: Request, taken: _Admission) -> tuple[RequestLine, SpooledFile]:
        try:
            async with asyncio.timeout(self._settings.upload_timeout_s):
                return await take_in(
                    request.stream(), most_line_bytes=self._settings.max_line_bytes, accept=taken.accept
                )
        except TimeoutError as error:
            limit = f"{self._settings.upload_timeout_s:g} s"
            raise Refusal(408, f"the upload did not end within {limit}") from error
        except ClientDisconnect as error:
            raise Refusal(400, "the connection ended within the body") from error

    def _refuse_now(self) -> None:
        if self._running.draining:
            raise Refusal(503, "the service is shutting down", retry_after_s=_RETRY_S)
        if self._running.lanes.is_full:
            raise Refusal(429, "the queue is full", retry_after_s=_RETRY_S)


@final
class _Admission:
    """What one enqueue has taken of the queue and of the spool, given back when it fails."""

    def __init__(self, settings: ServiceSettings, running: Running) -> None:
        self.shape: tuple[int, ...] = ()
        self._settings = settings
        self._running = running
        self._tasks = 0
        self._file: SpooledFile | None = None

    def accept(self, line: bytes, header: NpyHeader) -> tuple[RequestLine, SpooledFile]:
        """Check the request and take room for it, before its array is read."""
        settings, running = self._settings, self._running
        request = parse_line(line, header.shape, running.scorers, max_samples=settings.max_samples)
        size = header.total_bytes
        if len(line) + 1 + size > settings.max_body_bytes:
            raise Refusal(413, f"the array of {size} bytes is longer than {settings.max_body_bytes} bytes")
        if not running.lanes.reserve(len(request.rewards)):
            raise Refusal(429, "the queue is full", retry_after_s=_RETRY_S)
        self._tasks = len(request.rewards)
        self.shape = header.shape
        try:
            self._file = running.spool.reserve(size)
        except OSError as error:
            raise Refusal(507, f"the array can't be spooled: {error.strerror or 'the disk failed'}") from error
        if self._file is None:
            raise Refusal(429, "the spool is full", retry_after_s=_RETRY_S)
        return request, self._file

    def give_back(self) -> None:
        """Undo all of it."""
        if self._file is not None:
            self._file.remove()
        if self._tasks:
            self._running.lanes.release(self._tasks)
            self._tasks = 0
