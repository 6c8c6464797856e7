# SPDX-License-Identifier: Apache-2.0
"""The seam between the client and the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias, final, runtime_checkable

from posttrain.media.transport.secret import Secret

__all__ = ["Answer", "FileBody", "NoAnswer", "Post", "Reply", "Transport"]


@final
@dataclass(frozen=True, slots=True)
class FileBody:
    """The body of a request, streamed from a file that may have no name any more."""

    fd: int
    """Readable descriptor of a regular file; stays the caller's; its offset is moved to 0."""
    nbytes: int
    """Length of the file, in bytes; all of it is sent."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One POST request."""

    url: str
    """http or https, without credentials."""
    body: FileBody | bytes
    """Streamed from a file, or a few bytes."""
    content_type: str
    """Of the body."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers; none of them secret."""
    token: Secret | None = None
    """Goes out as `Authorization: Bearer`."""
    connect_timeout_s: float
    """Bound on the connection, TLS included, in seconds."""
    timeout_s: float
    """Bound on the whole request, in seconds; above 0."""
    max_response_bytes: int
    """An answer with a longer body is not read to its end."""


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer, whatever its status."""

    status: int
    """HTTP status, 200 to 599."""
    body: bytes
    """All of the body."""
    location: str = ""
    """Target of a redirect; it was not followed."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswer:
    """There is no complete answer."""

    why: str
    """What happened, in words and without secrets."""
    sent: bool
    """Whether the server may have seen some of the request. False: certainly nothing of it left this machine."""
    status: int | None = None
    """Status of an answer that began and broke off; None: none began."""
    oversized: bool = False
    """Whether the answer was given up because it is too long: asking again will not help."""


Reply: TypeAlias = Answer | NoAnswer


@runtime_checkable
class Transport(Protocol):
    """Sends one request. Safe to share between threads."""

    def check_machine(self) -> None:
        """Raise `RewardConfigError` naming what this machine lacks; no network, nothing kept."""
        ...

    def post(self, request: Post) -> Reply:
        """Send `request` once, never again by itself, and follow no redirect.

        Returns within `timeout_s` and a short grace, by whatever means. An interrupt ends the request and passes on.

        Raises:
            RewardConfigError: what only a person can mend on this side: a missing program, a URL that is none, a
                certificate that is not trusted. Nothing of the request was sent.
        """
        ...
