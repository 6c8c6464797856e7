# SPDX-License-Identifier: Apache-2.0
"""A credential that shows itself only to who asks for it by name."""

from __future__ import annotations

from typing import NoReturn, final

from posttrain.errors import RewardConfigError

__all__ = ["Secret"]


@final
class Secret:
    """Holds a bearer token. Its repr and text show nothing, and it can't be pickled or copied.

    Args:
        value: the token: printable ASCII without spaces, as a header can carry it.
        name: what it is called in errors, for example the variable it came from.

    Raises:
        RewardConfigError: the value is empty or could not go into a header; the value itself is not shown.
    """

    __slots__ = ("_value", "name")

    def __init__(self, value: str, name: str) -> None:
        if not value:
            raise RewardConfigError(f"{name} is empty: set it to the service's token")
        if not all("!" <= each <= "~" for each in value):
            raise RewardConfigError(
                f"{name} holds a line break, a space or another character that no token has: set it to the bare token "
                "(a file read with its last line break is the usual cause)"
            )
        self._value = value
        self.name = name

    def __repr__(self) -> str:
        return f"Secret(name={self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not pickled or copied: read the variable again where it is needed")

    def reveal(self) -> str:
        """The token itself."""
        return self._value
