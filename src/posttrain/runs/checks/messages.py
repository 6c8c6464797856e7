# SPDX-License-Identifier: Apache-2.0
"""What preflight and its fresh processes say to each other: a request as JSON, then one JSON line a message."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

import msgspec

from posttrain.runs.checks.construction import Construction

__all__ = ["Answer", "Event", "EventKind", "Fault", "Message", "Request", "Step"]

EventKind: TypeAlias = Literal["socket", "process", "gpu"]


@final
class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a fresh process is to construct."""

    answer_to: int
    """Descriptor that the messages go to; whatever the operator's code prints goes elsewhere."""
    catalog: str | None
    base: str | None
    """Folder that a catalog file is relative to."""
    providers: tuple[str, ...]


@final
class Step(msgspec.Struct, frozen=True, tag="step"):
    """What the process is about to do: where a hang or a kill leaves it."""

    doing: str


@final
class Event(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    """Something that a catalog factory or a provider factory has no business to do. Sent as it happens."""

    kind: EventKind
    what: str
    during: str
    """The step in which it happened."""
    place: str = ""
    """The author's line that did it; empty: it is not known."""
    is_fault: bool = True
    """Whether it fails the check; a program that was run to its end is only worth a warning."""


@final
class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A catalog that can't be had, or a provider that can't be constructed."""

    provider: str | None
    """None: the catalog itself."""
    text: str
    round: int
    """1 or 2: which of the two constructions."""


@final
class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The last message of a process that came through."""

    origin: str | None
    """File of the catalog's module."""
    constructions: tuple[Construction, ...]
    """Those of both rounds that succeeded."""
    faults: tuple[Fault, ...]
    seconds: float
    """Of the first round: import of the catalog, its factory and every provider's."""
    heavy: tuple[str, ...]
    """Heavy packages that it pulled in."""
    packages: tuple[str, ...]
    """The packages with the most modules among all that it pulled in, the largest first."""
    modules: int
    """How many modules it pulled in."""


Message: TypeAlias = Step | Event | Answer
