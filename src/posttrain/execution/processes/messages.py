# SPDX-License-Identifier: Apache-2.0
"""What a driver and its worker say to each other; each message is one frame, its kind stands in the frame's header."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final, final

import msgspec

from posttrain.rewards.catalog.identity import ProviderIdentity
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["GROUP_HEAD", "STEPS", "Kind", "Promise", "Start", "promise_of"]


@final
class Kind(IntEnum):
    """Kinds of messages."""

    START = 1
    """To the worker, first: what to run."""
    GROUP = 2
    """To the worker: one group to evaluate."""
    CLOSE = 3
    """To the worker: close the providers and end."""
    READY = 11
    """From the worker: everything is open."""
    REFUSED = 12
    """From the worker: why it can't start; it ends."""
    ANSWER = 13
    """From the worker: the outcome of one group."""
    CLOSED = 14
    """From the worker: the providers are closed, or the error of one that failed to."""


GROUP_HEAD: Final = struct.Struct("!Q?")
"""In front of a group, and of its outcome: its number, and whether unavailable ones are collected."""

STEPS: Final = (
    "started Python",
    "loaded the catalog",
    "constructed the providers",
    "checked this machine",
    "opened the providers",
)
"""What a worker is at while it starts, as the board tells it."""


@final
class Promise(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the driver counts on of one provider, and what a worker has to find again."""

    identity: ProviderIdentity
    terms: tuple[str, ...]
    needs: tuple[str, ...]
    diagnostics: tuple[str, ...]

    def __str__(self) -> str:
        it = self.identity
        return (
            f"catalog {it.catalog}, revision {it.revision!r}, identity {it.sha256[:12]}, "
            f"terms {', '.join(self.terms)}, "
            f"needs {', '.join(self.needs) or 'nothing'}, diagnostics {', '.join(self.diagnostics) or 'none'}"
        )


def promise_of(identity: ProviderIdentity, spec: RewardProviderSpec) -> Promise:
    """The promise of a provider with this identity and spec."""
    return Promise(identity, spec.terms, spec.needs, spec.diagnostics)


@final
class Start(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a worker is to run."""

    catalog: str | None
    """Path of the catalog, to be resolved by the worker itself; None: the built-ins alone."""
    folder: str | None
    """That a catalog file is relative to."""
    path: tuple[str, ...]
    """The driver's ``sys.path``, so that both find the same modules."""
    promises: tuple[Promise, ...]
    """One for each selected provider, in their order."""
