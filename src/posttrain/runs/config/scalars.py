# SPDX-License-Identifier: Apache-2.0
"""What an unquoted word means, in a YAML file and in an override alike.

Numbers as JSON writes them; true, false and null; everything else is the text that it looks like. So what YAML 1.1,
YAML 1.2 and TOML read in different ways is never a number by surprise: ``no`` and ``on``, ``08`` and ``0o17``,
``1_000``, ``12:30``, ``2024-01-01``. Where a number or a switch is expected, such a text is refused with the spelling
to use. See docs/design/010-config.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

__all__ = ["Scalar", "read_word"]

Scalar: TypeAlias = str | int | float | bool | None

_WORDS: Final[Mapping[str, bool | None]] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def read_word(text: str) -> Scalar:
    """The value of a word without quotes.

    A number with a fraction or an exponent is a float, any other an int. One with more digits than Python reads stays
    text.
    """
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    if number[1] or number[2]:
        return float(text)
    try:
        return int(text)
    except ValueError:
        return text
