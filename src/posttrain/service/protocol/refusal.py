# SPDX-License-Identifier: Apache-2.0
"""A request that is refused: the status, what is wrong, and when to come back."""

from __future__ import annotations

from typing import final

__all__ = ["Refusal"]


@final
class Refusal(Exception):  # noqa: N818  # it says what happens to the request
    """Answered with `status` and ``{"detail": detail}``.

    Args:
        status: HTTP status.
        detail: what is wrong and how to mend it; never holds a secret.
        retry_after_s: for 429 and 503: seconds after which it is worth trying again.
    """

    def __init__(self, status: int, detail: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after_s = retry_after_s
