# SPDX-License-Identifier: Apache-2.0
"""The application: routes, what they say of themselves in OpenAPI, and the layer around them."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.responses import PlainTextResponse

from posttrain import __version__
from posttrain.service.groups.models import FAILURES, GroupIn, GroupOut
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.settings import ServiceSettings
from posttrain.service.web.auth import BearerToken
from posttrain.service.web.described import ENQUEUE_BODY, ENQUEUED, HEALTH, PING, PULLED, UNAUTHORIZED, form
from posttrain.service.web.edge import OPEN_PATHS, Edge
from posttrain.service.web.routes import Desk, refused
from posttrain.service.web.running import Running

__all__ = ["application"]


def application(settings: ServiceSettings, running: Running, token: BearerToken | None) -> Edge:
    """The service as an ASGI application; whoever serves it starts and stops `running`."""
    app = FastAPI(
        title="Posttrain reward service",
        version=__version__,
        description="Image and video rewards by the enqueue and pull protocol, and groups by POST /v1/score.",
        # The pages load scripts from elsewhere; the schema itself is there.
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(Refusal, refused)
    desk, groups = Desk(settings, running), running.groups
    protocol: dict[str, Any] = {"methods": ["POST"], "tags": ["reward protocol"]}
    for path, endpoint, body, responses in (
        ("/api/reward/ping", desk.ping, form("info_data"), PING),
        ("/api/reward/enqueue", desk.enqueue, ENQUEUE_BODY, ENQUEUED),
        ("/api/reward/pull", desk.pull, form("uuid", optional=("type",)), PULLED),
    ):
        app.add_api_route(path, endpoint, responses=responses, openapi_extra={"requestBody": body}, **protocol)
    app.add_api_route(
        "/v1/score",
        groups.score,
        methods=["POST"],
        tags=["groups"],
        response_model=GroupOut,
        responses=FAILURES,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/GroupIn"}}},
            }
        },
    )
    watching: dict[str, Any] = {"methods": ["GET"], "tags": ["watching"]}
    app.add_api_route("/healthz", desk.health, responses=HEALTH, **watching)
    app.add_api_route("/metrics", desk.metrics, response_class=PlainTextResponse, **watching)
    _describe(app, token)
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    return Edge(app, token=token, metrics=running.metrics, paths=paths)


def _describe(app: FastAPI, token: BearerToken | None) -> None:
    """Add to OpenAPI what FastAPI can't see: the body that is read by hand, and the token."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        schema = plain()
        components = schema.setdefault("components", {})
        own = GroupIn.model_json_schema(ref_template="#/components/schemas/{model}")
        inner = own.pop("$defs", {})
        components.setdefault("schemas", {}).update({**inner, "GroupIn": own})
        if token is not None:
            components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"bearer": []}]
            for path, methods in schema["paths"].items():
                for operation in methods.values():
                    if path in OPEN_PATHS:
                        operation["security"] = []
                    else:
                        operation["responses"]["401"] = UNAUTHORIZED
        return schema

    app.openapi = described  # type: ignore[method-assign]  # the documented way to extend the schema
