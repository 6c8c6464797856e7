# SPDX-License-Identifier: Apache-2.0
"""Open and close the providers that have a life of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from posttrain.rewards.contract.failure import classified
from posttrain.rewards.contract.provider import ManagedRewardProvider, RewardProvider

__all__ = ["opened"]


def opened(providers: Mapping[str, RewardProvider], *, what: str = "the provider") -> ExitStack:
    """Open those of the providers that are managed; closing the stack closes them, the last opened first.

    Args:
        providers: name to provider.
        what: what an error's note calls one of them; by default the error carries the name as its provider.

    Raises:
        RewardError: one failed to open; those before it are closed again. Closing raises it too when one fails to.
    """
    begun: list[Callable[[], None]] = []
    with ExitStack() as stack:
        stack.callback(_close_all, begun)
        for name, provider in providers.items():
            if isinstance(provider, ManagedRewardProvider):
                named, label = (name, what) if what == "the provider" else (None, f"{what} {name!r}")
                _call(provider.open, named, f"while {label} was opened")
                begun.append(_closing(provider, named, f"while {label} was closed"))
        return stack.pop_all()


def _closing(provider: ManagedRewardProvider, name: str | None, note: str) -> Callable[[], None]:
    return lambda: _call(provider.close, name, note)


def _close_all(begun: list[Callable[[], None]]) -> None:
    """The last first, every one even when another fails; of several failures each has the one before as its context."""
    try:
        if begun:
            begun.pop()()
    finally:
        if begun:
            _close_all(begun)


def _call(method: Callable[[], None], name: str | None, note: str) -> None:
    try:
        method()
    except Exception as error:
        failure = classified(error, provider=name)
        failure.add_note(note)
        if failure is error:
            raise
        raise failure from error
