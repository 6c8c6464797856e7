# SPDX-License-Identifier: Apache-2.0
"""What passes between the driver and an actor, beside the groups themselves."""

from __future__ import annotations

from typing import final

import msgspec

__all__ = ["Answer", "Order", "Ready", "Running"]


@final
class Order(msgspec.Struct, frozen=True, array_like=True):
    """What an actor has to become: sent once, before any group."""

    version: str
    """Of posttrain on the driver."""
    catalog: str | None
    """Recorded path of the catalog; None: the built-ins alone."""
    names: tuple[str, ...]
    """The selected providers."""
    identities: tuple[str, ...]
    """Canonical text of each one's identity and declarations, to compare before the first group."""
    groups_in_flight: int | None
    """Upper bound from the config."""


@final
class Ready(msgspec.Struct, frozen=True, array_like=True):
    """An actor's answer to its order."""

    pid: int
    node: str
    """Id of the Ray node."""
    host: str
    """Name of the machine."""
    error: bytes | None
    """Why it can't run: an encoded error of the tree."""


@final
class Running(msgspec.Struct, frozen=True, array_like=True):
    """A group that is in a provider's hands."""

    position: int
    """In its chunk."""
    provider: str
    seconds: float
    """Since when."""


@final
class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What became of one chunk."""

    epoch: int
    """The dispatch that it answers; any other than the current one of its groups counts for nothing."""
    outcomes: bytes
    """Encoded outcomes, one per group of the chunk; a group that was not begun or not finished has none."""
    running: tuple[Running, ...] = ()
    """What was still under way; empty unless the chunk was cut off."""
    begun: tuple[int, ...] = ()
    """Positions of groups without an outcome that a provider has seen all the same."""
    seconds: float = 0.0
    """Wall time of the chunk in the actor."""
