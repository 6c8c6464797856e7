# SPDX-License-Identifier: Apache-2.0
"""What the endpoints of the reward protocol take and answer, as OpenAPI has it: their bodies are made by hand."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

__all__ = ["ENQUEUED", "ENQUEUE_BODY", "HEALTH", "PING", "PULLED", "UNAUTHORIZED", "form"]

Responses: TypeAlias = dict[int | str, dict[str, Any]]

_TEXT: Final = {"type": "string"}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **optional}}


def _answer(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusals(**why: str) -> Responses:
    return {code.removeprefix("_"): _answer(text, _object({"detail": _TEXT})) for code, text in why.items()}


def form(*required: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """A body of form fields, each a text."""
    schema = _object(dict.fromkeys(required, _TEXT), **dict.fromkeys(optional, _TEXT))
    kinds = ("application/x-www-form-urlencoded", "multipart/form-data")
    return {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}


ENQUEUE_BODY: Final = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}

UNAUTHORIZED: Final = _answer("The bearer token is missing, or another one.", _object({"detail": _TEXT}))

_FORM_REFUSALS: Final[Responses] = {
    **_refusals(_408="The form came too slowly.", _413="The form is too long."),
    "422": _answer("A field is missing or empty.", _object({"detail": {"type": "array", "items": {"type": "object"}}})),
}

PING: Final[Responses] = {
    200: _answer("The service is there.", _object({"message": _TEXT})),
    **_refusals(_400="The form can't be read."),
    **_FORM_REFUSALS,
}

ENQUEUED: Final[Responses] = {
    200: _answer("The array is accepted; pull its results with the uuid.", _object({"uuid": _TEXT}, replica_id=_TEXT)),
    **_refusals(
        _400="The body is not one line of JSON, a line feed, and a whole .npy file.",
        _408="The upload took too long.",
        _413="The upload is too long.",
        _422="The request asks for something that can't be scored; every fault is named.",
        _429="The queue or the spool is full; see Retry-After.",
        _503="The service is shutting down, or its store does not answer; see Retry-After.",
        _507="The disk is full, or fails.",
    ),
}

_NUMBERS: Final = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}

PULLED: Final[Responses] = {
    200: _answer(
        "The result: scores by series, one number a sample in the order of the batch, or null scores and an error.",
        _object(
            {
                "scores": {"anyOf": [_NUMBERS, {"type": "null"}]},
                "input_info": {"type": "object"},
                "duration": _TEXT,
                "decoded_duration": _TEXT,
                "type": _TEXT,
            },
            error=_TEXT,
        ),
    ),
    "202": _answer(
        "There is no result yet, where the service says so by this form.",
        _object({"uuid": _TEXT, "status": {"const": "pending"}}),
    ),
    "400": _answer(
        "The message `Not found scores for <uuid>`: there is no result yet, or nobody knows the uuid or the type; or a "
        "detail: the form can't be read.",
        {"anyOf": [_object({"message": _TEXT}), _object({"detail": _TEXT})]},
    ),
    **_FORM_REFUSALS,
    **_refusals(_503="The store does not answer; see Retry-After."),
}

_STATUS: Final = _object({"status": _TEXT})

HEALTH: Final[Responses] = {
    200: _answer("The service takes work.", _object({"status": _TEXT, "version": _TEXT})),
    503: _answer("It is shutting down, or its store does not answer.", _STATUS),
}
