# SPDX-License-Identifier: Apache-2.0
"""Standard output for people, where the texts of rollouts come out as they are."""

from __future__ import annotations

from typing import final

from rich.console import Console

__all__ = ["plain_console"]


def plain_console() -> Console:
    """A console that reads nothing into a text: no markup, no emoji codes, no colours for what looks like a number."""
    return _Console(markup=False, emoji=False, highlight=False)


@final
class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command decide how to end, as with any other failure."""
        raise BrokenPipeError
