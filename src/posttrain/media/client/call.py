# SPDX-License-Identifier: Apache-2.0
"""What the calls of one sample have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from posttrain.media.client.clock import Clock
from posttrain.media.config import ServiceConfig
from posttrain.media.transport import FileBody, Post, Reply, Secret, Transport
from posttrain.media.wire import Quoter

__all__ = ["Call"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The service, the credential and the deadline of one sample."""

    config: ServiceConfig
    transport: Transport
    clock: Clock
    token: Secret | None
    quoted: Quoter
    """Quotes the service without the token."""
    deadline: float
    """Absolute, on the clock's `monotonic`."""

    def left(self) -> float:
        """Seconds until the deadline; 0 or less: it is over."""
        return self.deadline - self.clock.monotonic()

    def post(
        self, url: str, body: FileBody | bytes, content_type: str, bound_s: float, headers: dict[str, str]
    ) -> Reply:
        """Send one request, bounded by `bound_s` and by the deadline."""
        return self.transport.post(
            Post(
                url=url,
                body=body,
                content_type=content_type,
                headers=tuple(headers.items()),
                token=self.token,
                connect_timeout_s=self.config.connect_timeout_s,
                timeout_s=max(0.001, min(bound_s, self.left())),
                max_response_bytes=self.config.max_response_bytes,
            )
        )
