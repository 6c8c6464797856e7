# SPDX-License-Identifier: Apache-2.0
"""`POST /v1/score`: one group, scored by a provider of the served catalog in a killable process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, final

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError, listing
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.stage.bind import BoundGroup, bind
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.prepare import Selection, select
from posttrain.schema import Observation, Trajectory
from posttrain.service.groups.models import CandidateOut, FailureOut, FailureText, GroupIn, GroupOut
from posttrain.service.groups.pool import ProviderPool
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.protocol.strict_json import NotStrictJsonError, strict_json
from posttrain.service.settings import ServiceSettings
from posttrain.service.web.bodies import json_response, read_bounded
from posttrain.service.web.metrics import ServiceMetrics

__all__ = ["GroupDesk"]

_RETRY_S: Final = "1"
_STATUS: Final = (
    (RewardConfigError, 400, "config"),
    (RewardUnavailableError, 503, "unavailable"),
    (RewardContractError, 422, "contract"),
)


_log = logging.getLogger("posttrain.service.groups")


@final
class GroupDesk:
    """Takes groups.

    Args:
        settings: how to serve.
        catalog: whose providers are offered; rank-local ones are not.
        metrics: told what happens.
        masked: makes a text fit to be sent: without the secrets that this process knows.
    """

    def __init__(
        self, settings: ServiceSettings, catalog: RewardCatalog, metrics: ServiceMetrics, masked: Callable[[str], str]
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._metrics = metrics
        self._masked = masked
        self._pools: dict[str, ProviderPool] = {}
        self._taken = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False

    async def score(self, request: Request) -> Response:
        """Score one complete group. There are scores for every candidate, or an error and none."""
        if self._stopping:
            return self._failed(503, FailureText(kind="unavailable", message="the service is shutting down"))
        if self._taken >= self._settings.max_groups:
            text = f"{self._taken} groups are waiting: try again later"
            return self._failed(429, FailureText(kind="busy", message=text))
        self._taken += 1
        self._idle.clear()
        try:
            return await self._answer(request)
        finally:
            self._taken -= 1
            if self._taken == 0:
                self._idle.set()

    def refuse(self) -> None:
        """Take no more groups."""
        self._stopping = True

    async def wait_until_idle(self) -> None:
        """Return when no group is in hand."""
        await self._idle.wait()

    async def stop(self) -> None:
        """Kill every worker; groups in hand fail as unavailable."""
        self._stopping = True
        names, pools = list(self._pools), self._pools.values()
        for name, failure in zip(names, await asyncio.gather(*map(_closed, pools)), strict=True):
            if failure is not None:
                # Its scores were given before that, and every other provider is let go of all the same.
                _log.warning("provider %s failed to close: %s", name, self._masked(failure.message))

    async def _answer(self, request: Request) -> Response:
        try:
            group = _group(await read_bounded(request, self._settings.max_group_bytes))
        except Refusal as error:
            return self._failed(error.status, FailureText(kind="request", message=error.detail))
        started, outcome = monotonic(), "ok"
        try:
            return json_response((await self._scored(group)).model_dump_json().encode())
        except RewardError as error:
            status, kind = next((status, kind) for tree, status, kind in _STATUS if isinstance(error, tree))
            outcome = kind
            return self._failed(status, self._told(error, kind, group))
        finally:
            if group.provider in self._catalog:
                self._metrics.group(group.provider, outcome, monotonic() - started)

    async def _scored(self, group: GroupIn) -> GroupOut:
        selection = self._selection(group.provider)
        (bound,) = bind(_trajectories(group), selection, len(group.candidates))
        scores = await self._evaluated(selection, bound)
        identity = self._catalog.identity(group.provider)
        return GroupOut(
            provider=group.provider,
            revision=identity.revision,
            identity_sha256=identity.sha256,
            group_id=group.group_id,
            items=[
                CandidateOut(trajectory_id=each, terms={term: values[at] for term, values in scores.terms.items()})
                for at, each in enumerate(scores.trajectory_ids)
            ],
            diagnostics={name: each.value for name, each in scores.diagnostics.items()},
            seconds=scores.seconds,
        )

    def _selection(self, name: str) -> Selection:
        spec = self._catalog.spec(name)
        if spec.execution.rank_local:
            raise RewardConfigError(
                "it is rank-local: it scores latents where they were made, and is not offered here", provider=name
            )
        return select(self._catalog, name)

    async def _evaluated(self, selection: Selection, bound: BoundGroup) -> GroupScores:
        (name,) = selection.names
        if name not in self._pools:
            settings = self._settings
            self._pools[name] = ProviderPool(
                selection,
                workers=settings.group_workers,
                group_timeout_s=settings.group_timeout_s,
                start_timeout_s=settings.start_timeout_s,
                memory_limit_mib=settings.memory_limit_mib,
            )
        return await self._pools[name].evaluate(bound)

    def _told(self, error: RewardError, kind: Any, group: GroupIn) -> FailureText:
        text = "\n".join([error.message, *getattr(error, "__notes__", ())])
        return FailureText(
            kind=kind,
            message=self._masked(text),
            provider=error.provider or group.provider,
            group_id=error.group_id or group.group_id,
            trajectory_id=error.trajectory_id,
        )

    def _failed(self, status: int, text: FailureText) -> Response:
        headers = {"Retry-After": _RETRY_S} if status in {429, 503} else None
        return JSONResponse(FailureOut(error=text).model_dump(), status, headers)


async def _closed(pool: ProviderPool) -> RewardError | None:
    try:
        await pool.close()
    except RewardError as error:
        return error
    return None


def _group(body: bytes) -> GroupIn:
    try:
        fields = strict_json(body)
    except NotStrictJsonError as error:
        raise Refusal(400, f"the body is {error}") from error
    try:
        return GroupIn.model_validate(fields)
    except ValidationError as error:
        # Without the values: they may be long, and the caller has them.
        lines = [f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()]
        raise Refusal(400, f"the body is no group:\n{listing(lines)}") from error


def _trajectories(group: GroupIn) -> list[Trajectory]:
    observation = Observation(id=group.group_id, prompt=group.prompt, reference=group.reference)
    return [
        Trajectory(
            trajectory_id=each.trajectory_id,
            group_id=group.group_id,
            obs=observation,
            completion=each.completion,
            policy_info={
                "completion_token_count": each.completion_token_count,
                "finish_reason": each.finish_reason,
            },
        )
        for each in group.candidates
    ]
