# SPDX-License-Identifier: Apache-2.0
"""The application: routes, what they say of themselves in OpenAPI, and the layer around them."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI

from posttrain import __version__
from posttrain.service.groups.models import FAILURES, GroupIn, GroupOut
from posttrain.service.protocol.refusal import Refusal
from posttrain.service.settings import ServiceSettings
from posttrain.service.web.auth import BearerToken
from posttrain.service.web.edge import Edge
from posttrain.service.web.routes import Desk, refused
from posttrain.service.web.running import Running

__all__ = ["application"]

_ENQUEUE_BODY: Final = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


def _form(*required: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": list(required),
        "properties": {name: {"type": "string"} for name in (*required, *optional)},
    }
    return {"required": True, "content": {"application/x-www-form-urlencoded": {"schema": schema}}}


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
    app.add_api_route("/api/reward/ping", desk.ping, openapi_extra={"requestBody": _form("info_data")}, **protocol)
    app.add_api_route("/api/reward/enqueue", desk.enqueue, openapi_extra={"requestBody": _ENQUEUE_BODY}, **protocol)
    app.add_api_route(
        "/api/reward/pull", desk.pull, openapi_extra={"requestBody": _form("uuid", optional=("type",))}, **protocol
    )
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
    app.add_api_route("/healthz", desk.health, methods=["GET"], tags=["watching"])
    app.add_api_route("/metrics", desk.metrics, methods=["GET"], tags=["watching"])
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
        return schema

    app.openapi = described  # type: ignore[method-assign]  # the documented way to extend the schema
