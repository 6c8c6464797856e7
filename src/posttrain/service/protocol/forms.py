# SPDX-License-Identifier: Apache-2.0
"""The small forms of ping and pull, urlencoded or multipart, read with the standard library."""

from __future__ import annotations

from email.errors import MessageError
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any, Final
from urllib.parse import parse_qsl

from posttrain.service.protocol.refusal import Refusal

__all__ = ["LARGEST_FORM", "form_fields", "missing_fields"]

LARGEST_FORM: Final = 1 << 16
"""Bytes that a form may take."""

_MOST_FIELDS: Final = 100


def form_fields(content_type: str, body: bytes) -> dict[str, str]:
    """Field to value, empty values left out as if they were not there; of a field that stands twice the last counts.

    A body of any other kind has no fields.

    Raises:
        Refusal: 400, a multipart body that can't be read, or too many fields.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        try:
            pairs = parse_qsl(body.decode("latin-1"), errors="replace", max_num_fields=_MOST_FIELDS)
        except ValueError as error:
            raise Refusal(400, f"more than {_MOST_FIELDS} form fields") from error
        return dict(pairs)
    return _multipart(content_type, body) if kind == "multipart/form-data" else {}


def missing_fields(*names: str) -> dict[str, Any]:
    """What is answered, with status 422, when fields are missing."""
    return {
        "detail": [{"type": "missing", "loc": ["body", name], "msg": "Field required", "input": None} for name in names]
    }


def _multipart(content_type: str, body: bytes) -> dict[str, str]:
    try:
        head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1")
        message = BytesParser(policy=HTTP).parsebytes(head + body)
        boundary = message.get_boundary()
        if not boundary:
            raise Refusal(400, "Missing boundary in multipart.")
        if message.defects or not message.is_multipart():
            raise Refusal(400, "Invalid multipart data.")
        fields = {}
        for part in message.iter_parts():
            name = part.get_param("name", header="content-disposition")
            value = part.get_payload(decode=True)
            if isinstance(name, str) and isinstance(value, bytes) and value:
                fields[name] = value.decode("utf-8", "replace")
    except (MessageError, ValueError, LookupError) as error:
        raise Refusal(400, "Invalid multipart data.") from error
    return fields
