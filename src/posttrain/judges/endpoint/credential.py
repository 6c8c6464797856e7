# SPDX-License-Identifier: Apache-2.0
"""The key of an endpoint, in an object that shows it to nobody."""

from __future__ import annotations

import os
import re
from typing import Final, Never, final

from posttrain.errors import RewardConfigError

__all__ = ["Credential", "read_credential"]

_HIDDEN: Final = "[credential]"
_PART: Final = 8
"""Characters of a key that give it away when a text repeats no more than its beginning or its end."""
_LEAST: Final = 5
"""The same of a short key; one that has no more than these is looked for as a whole alone."""


@final
class Credential:
    """A key and the name of its variable. Its repr hides it, and it can't be pickled or copied."""

    __slots__ = ("_secrets", "_value", "variable")

    def __init__(self, variable: str | None, value: str | None) -> None:
        self.variable = variable
        self._value = value
        self._secrets = [] if value is None else _patterns(value)

    def __repr__(self) -> str:
        return f"Credential({self.variable!r}, value hidden)"

    def __reduce__(self) -> Never:
        raise TypeError("a key is not copied or sent to another process: open the judge there")

    def headers(self) -> dict[str, str]:
        """What a request carries for it."""
        return {} if self._value is None else {"Authorization": f"Bearer {self._value}"}

    def masked(self, text: str) -> str:
        """`text` without the key, also where it is escaped, or no more than its beginning or its end is repeated.

        A text is masked before it is cut: of a key that the cut goes through too little may be left to be known.
        """
        for pattern in self._secrets:
            text = pattern.sub(_HIDDEN, text)
        return text


def _patterns(value: str) -> list[re.Pattern[str]]:
    found = [re.compile(_spelled(value), re.IGNORECASE)]
    if len(value) > _LEAST:
        part = min(_PART, max(_LEAST, len(value) // 2))
        found.append(re.compile(rf"{_spelled(value[:part])}[^\s\"'<>]*", re.IGNORECASE))
        found.append(re.compile(rf"[^\s\"'<>]*{_spelled(value[-part:])}", re.IGNORECASE))
    return found


def _spelled(value: str) -> str:
    """A pattern of `value` in any notation: as it is, in JSON or a repr once or more, in a URL."""
    made = []
    for char in value:
        code = f"{ord(char):02x}"
        made.append(char if char.isalnum() else rf"(?:\\*{re.escape(char)}|\\+u00{code}|%{code})")
    return "".join(made)


def read_credential(variable: str | None) -> Credential:
    """The key that is in the variable now; without one where `variable` is None.

    Raises:
        RewardConfigError: the variable is not set, is empty, or holds what no header can carry; its value is not shown.
    """
    if variable is None:
        return Credential(None, None)
    value = os.environ.get(variable, "").strip()
    if not value:
        state = "is empty" if variable in os.environ else "is not set"
        raise RewardConfigError(f"the judge's key: environment variable {variable} {state}; export it where this runs")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise RewardConfigError(
            f"the judge's key: environment variable {variable} holds spaces or characters that no key has (not shown)"
        )
    return Credential(variable, value)
