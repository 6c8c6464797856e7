# SPDX-License-Identifier: Apache-2.0
"""What a child prints: forwarded line by line, bounded, with the credentials that it inherited masked."""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Mapping
from time import monotonic
from typing import Final, final

__all__ = ["LOGGER", "Printed"]

LOGGER: Final = logging.getLogger("posttrain.execution.processes")

_LONGEST_LINE: Final = 2000
_KEPT: Final = 12
_A_SECOND: Final = 200
_NAMED_SECRET: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE)?$|CREDENTIAL|AUTH|BEARER|COOKIE|DSN", re.IGNORECASE
)
_SHORTEST_SECRET: Final = 8


@final
class Printed:
    """Takes a child's standard output and error as bytes.

    Args:
        name: of the child, in front of each line that is forwarded.
        environment: the one that the child inherits; values of variables that are named like credentials are masked.
    """

    def __init__(self, name: str, environment: Mapping[str, str] = os.environ) -> None:
        self._name = name
        self._rest = b""
        self._cut = False
        self._last: deque[str] = deque(maxlen=_KEPT)
        self._window = monotonic()
        self._forwarded = self._left_out = 0
        found = {
            value: name
            for name, value in environment.items()
            if len(value) >= _SHORTEST_SECRET and _NAMED_SECRET.search(name)
        }
        self._names = found
        # A secret that holds another is masked first.
        longest_first = sorted(found, key=len, reverse=True)
        self._secrets = re.compile("|".join(map(re.escape, longest_first))) if found else None

    @property
    def last_lines(self) -> list[str]:
        """The last few lines, oldest first."""
        rest = "" if self._cut else self._clean(self._rest, is_whole=False)
        return [*self._last, *([rest] if rest.strip() else [])]

    def take(self, data: bytes) -> None:
        """Take bytes in; whole lines are logged."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if self._cut:
                self._cut = False  # the end of a line whose beginning is out already
            elif line.strip():
                self._forward(self._clean(line))
        if len(self._rest) > _LONGEST_LINE:
            if not self._cut:
                self._forward(self._clean(self._rest, is_whole=False) + " ...")
            self._rest, self._cut = b"", True

    def _clean(self, line: bytes, *, is_whole: bool = True) -> str:
        text = line.decode("utf-8", "replace").rstrip()
        if self._secrets is not None:
            text = self._secrets.sub(lambda found: f"<{self._names[found[0]]}>", text)
            if not is_whole:
                # Its end may be the first half of a secret, which nobody would know for one.
                text = text[: -max(map(len, self._names))]
        return "".join(each if each.isprintable() or each == "\t" else "\ufffd" for each in text[:_LONGEST_LINE])

    def _forward(self, text: str) -> None:
        self._last.append(text)
        now = monotonic()
        if now - self._window >= 1:
            self.flush()
            self._window, self._forwarded = now, 0
        if self._forwarded < _A_SECOND:
            self._forwarded += 1
            LOGGER.warning("%s: %s", self._name, text)
        else:
            self._left_out += 1

    def flush(self) -> None:
        """Tell how many lines were left out, if any."""
        if self._left_out:
            LOGGER.warning("%s: %d more lines in that second are left out", self._name, self._left_out)
            self._left_out = 0
