# SPDX-License-Identifier: Apache-2.0
"""The bearer token: taken out of the environment, compared in constant time, never shown."""

from __future__ import annotations

import hmac
from collections.abc import MutableMapping
from typing import final

from posttrain.errors import RewardConfigError

__all__ = ["BearerToken", "taken_from"]


@final
class BearerToken:
    """The token that a request has to bring."""

    __slots__ = ("_token",)

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    def __repr__(self) -> str:
        return "BearerToken(...)"

    def matches(self, authorization: str | None) -> bool:
        """Whether a header's value is ``Bearer <token>``; how long this takes tells nothing of the token."""
        scheme, _, given = (authorization or "").partition(" ")
        # Headers reach us as latin-1.
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token)
        return scheme.lower() == "bearer" and same


def taken_from(environment: MutableMapping[str, str], name: str) -> str:
    """The value of a variable, which is removed, so that no process that is started later inherits it.

    Raises:
        RewardConfigError: it is not set, empty, or could not be sent in a header.
    """
    value = environment.pop(name, "").strip()
    if not value:
        raise RewardConfigError(f"the environment variable {name!r} is not set, or empty")
    if not (value.isascii() and value.isprintable()):
        raise RewardConfigError(f"the value of the environment variable {name!r} holds characters no header can carry")
    return value
