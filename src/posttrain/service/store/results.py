# SPDX-License-Identifier: Apache-2.0
"""Where results wait to be pulled."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeAlias

__all__ = ["Found", "ResultStore", "State", "StoreUnavailableError"]


class State(Enum):
    """What is known of a result that has no body."""

    PENDING = "pending"
    """Accepted, not scored yet."""
    UNKNOWN = "unknown"
    """Never accepted, or forgotten."""


Found: TypeAlias = bytes | State
"""The body of a finished result, or why there is none."""


class StoreUnavailableError(Exception):
    """The store does not answer; the message names it, never its password."""


class ResultStore(Protocol):
    """Keeps results by uuid and reward, for a time. A result that is finished never changes."""

    async def open(self) -> None:
        """Connect.

        Raises:
            StoreUnavailableError: it does not answer.
        """
        ...

    async def begin(self, uuid: str, rewards: Sequence[str]) -> None:
        """Note that these are accepted: from now on they are pending.

        Raises:
            StoreUnavailableError: nothing was noted for certain; the request has to be refused.
        """
        ...

    async def finish(self, uuid: str, reward: str, body: bytes) -> None:
        """Keep a result. It is kept here and tried again where the store does not answer: it is not lost."""
        ...

    async def find(self, uuid: str, reward: str) -> Found:
        """The result, or why there is none.

        Raises:
            StoreUnavailableError: it does not answer.
        """
        ...

    async def wait_until_read(self, within_s: float) -> None:
        """Before an end that takes results along: return when every one that is younger than this was pulled once.

        Returns at once where results outlive the process.
        """
        ...

    async def check(self) -> None:
        """Do nothing.

        Raises:
            StoreUnavailableError: it does not answer.
        """
        ...

    async def close(self) -> None:
        """Let go of it."""
        ...
