# SPDX-License-Identifier: Apache-2.0
"""Every error that Posttrain raises on purpose.

    RewardError
    ├── RewardContractError      the provider, the data or the caller broke the contract
    ├── RewardUnavailableError   an outside service or a worker could not answer
    └── RewardConfigError        bad config, import failure, unknown name, collision

Authors raise a plain exception or `RewardContractError("message")`; one boundary (`posttrain.rewards.stage.boundary`)
adds who and where. No error ever becomes a number.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "RewardConfigError",
    "RewardContractError",
    "RewardError",
    "RewardUnavailableError",
    "describe",
    "listing",
    "text_of",
]

_SHOWN = 80
_LISTED = 20


class RewardError(Exception):
    """Base of the tree: a message and, once the boundary has seen it, whom it is about."""

    provider: str | None = None
    """Name of the provider in its catalog."""
    group_id: str | None = None
    """The group that failed."""
    trajectory_id: str | None = None
    """The candidate that failed, when exactly one did."""
    cause_type: str | None = None
    """Qualified type name of the exception behind this one; survives pickling, unlike `__cause__`."""
    cause_text: str | None = None
    """Text of the exception behind this one."""
    request: Any = None
    """The frozen request that failed, so that a run can record it and `posttrain score --replay` can repeat it."""

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        group_id: str | None = None,
        trajectory_id: str | None = None,
    ) -> None:
        super().__init__(message)
        if provider is not None:
            self.provider = provider
        if group_id is not None:
            self.group_id = group_id
        if trajectory_id is not None:
            self.trajectory_id = trajectory_id

    @property
    def message(self) -> str:
        """The text without the names in front of it."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        where = [
            f"{label} {name!r}"
            for label, name in (
                ("provider", self.provider),
                ("group", self.group_id),
                ("trajectory", self.trajectory_id),
            )
            if name is not None
        ]
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def because_of(self, cause: BaseException) -> None:
        """Keep the cause's type and text as plain strings, which pickle where the cause itself may not."""
        kind = type(cause)
        self.cause_type = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        self.cause_text = text_of(cause)


class RewardContractError(RewardError):
    """The provider, the data or the caller broke the contract: somebody's code or rows must change."""


class RewardUnavailableError(RewardError):
    """An outside service or a worker could not answer (timeout, 5xx, killed): trying again later may work."""


class RewardConfigError(RewardError):
    """The run is set up wrongly (bad value, import failure, unknown name, collision): nothing was scored."""


def describe(value: object) -> str:
    """`value` with its type, for an error message: short, on one line, and safe for any object."""
    if value is None:
        return "None"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if kind is int and value.bit_length() > 256:  # type: ignore[attr-defined]  # narrowed by `is`, not isinstance
        return f"an int of {value.bit_length()} bits"  # type: ignore[attr-defined]  # as above
    text = " ".join(_safe_repr(value).split())
    if len(text) > _SHOWN:
        text = f"{text[: _SHOWN - 3]}..."
    return f"{text} ({name})"


def listing(lines: list[str], *, limit: int = _LISTED) -> str:
    """Indented lines, one offender each; past `limit` the rest is counted, not shown."""
    shown = [f"  {line}" for line in lines[:limit]]
    if len(lines) > limit:
        shown.append(f"  ... and {len(lines) - limit} more")
    return "\n".join(shown)


def _safe_repr(value: object) -> str:
    # A repr written by a user may raise; the error that is being built must not be lost to it.
    try:
        return repr(value[: _SHOWN * 2] if type(value) in {str, bytes} else value)  # type: ignore[index]  # str or bytes
    except Exception as error:  # noqa: BLE001  # any failure of a foreign repr is described instead
        return f"<unprintable: {type(error).__name__}>"


def text_of(error: BaseException) -> str:
    """The text of an exception, also of one whose own `__str__` raises."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001  # any failure of a foreign str is described instead
        return f"<unprintable: {type(second).__name__}>"
