# SPDX-License-Identifier: Apache-2.0
"""How many groups go into the next chunk: few crossings when groups are cheap, short waits when they are not."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, final

from posttrain.rewards.stage.bind import BoundGroup

__all__ = ["CHUNK_BYTES", "Pace", "weight_of"]

CHUNK_BYTES: Final = 4 * 2**20
"""Bytes of completions and inputs in one chunk, about; a single group may be larger."""

_TARGET_S: Final = 0.25
"""Seconds that a chunk should keep an actor busy: 100 times what a crossing costs, yet a short wait at the end."""
_TARGET_S_PER_ACTOR: Final = 0.004
"""The same for each actor of a large pool: what the driver spends on a chunk must not fill its own second."""
_FIRST: Final = 4
"""Groups of a chunk while nothing is known."""
_MOST: Final = 4096

_completion: Callable[[Any], str] = attrgetter("completion")


def weight_of(group: BoundGroup) -> int:
    """Bytes of a group, about: characters of its completions, and of inputs that are plain texts."""
    weight = sum(map(len, map(_completion, group.requests[0].candidates)))
    for request in group.requests:
        for value in (request.context.prompt, request.context.reference):
            weight += len(value) if isinstance(value, str) else 64
    return weight


@final
class Pace:
    """What the chunks so far say of the next: a moving average of the seconds per group."""

    def __init__(self) -> None:
        self.seconds: float | None = None
        """Per group and actor; None: nothing is known yet."""

    def learn(self, groups: int, seconds: float) -> None:
        """Take in an answered chunk."""
        each = seconds / max(groups, 1)
        self.seconds = each if self.seconds is None else 0.5 * self.seconds + 0.5 * each

    def chunk(self, left: int, actors: int) -> int:
        """Groups of the next chunk.

        Args:
            left: groups that wait.
            actors: that share them.
        """
        share = -(-left // max(actors, 1))
        if self.seconds is None:
            return min(_FIRST, share)
        target = max(_TARGET_S, _TARGET_S_PER_ACTOR * actors)
        if share * self.seconds <= target:
            return min(share, _MOST)
        # Shrinking towards the end, so that the last chunks end at about the same time.
        fitting = max(1, int(target / self.seconds))
        return max(1, min(fitting, -(-share // 2), _MOST))

    def backlog(self, left: int, actors: int) -> float | None:
        """Seconds until `actors` are through with `left` groups; None: nothing is known."""
        return None if self.seconds is None else left * self.seconds / max(actors, 1)
