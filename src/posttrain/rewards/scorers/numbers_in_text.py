# SPDX-License-Identifier: Apache-2.0
r"""Numbers as people write them, read exactly. `arithmetic` and `gsm8k` find the place; the reading is here.

    number   = {mark} [sign] {mark} body                at most 8 marks on each side of the sign
    mark     = "$", "€", "£", "¥" or "₹", also escaped, a space may follow | "*" | "_" | "\boxed{"
    sign     = "-" | "+"
    body     = whole "/" whole | "\frac{" whole "}{" whole "}" | decimal
    decimal  = (whole | whole "." digits | "." digits) [("e" | "E") [sign] digits]
    whole    = digits | groups of three digits split by commas; the first has one to three and starts with no 0

Digits are ASCII. Each integer has at most 640 of them and the exponent is at most 400 either way; beyond that it is no
number, so that nothing here takes long. `folded` brings typographic spellings into this form.

The text behind a number may deny it: `12,34`, `3.14.15`, `0x10`, `5²` and `10+x` begin like numbers and are none.
`is_doubtful` tells.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final, TypeAlias

__all__ = ["BODY_AHEAD", "MARKS", "Exact", "folded", "is_doubtful", "is_notation", "number_at", "number_of"]

Exact: TypeAlias = int | Fraction
"""An int when the value is whole, a Fraction otherwise."""

_MOST_DIGITS: Final = 640
"""Of one integer. No setting of the interpreter forbids the conversion of so many."""
_BEYOND: Final[int] = 10**_MOST_DIGITS
_LARGEST_EXPONENT: Final = 400

MARKS: Final = r"(?:\\?[$€£¥₹][^\S\n]?|[*_]|\\boxed\{){0,8}+"
"""Pattern of what may decorate a number."""
BODY_AHEAD: Final = r"(?=[0-9]|(?<!\.)\.[0-9]|\\[dt]?frac\{)"
"""Pattern of a place where the body of a number begins, or something that looks like one."""

_WHOLE: Final = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})++|[0-9]++)"
_NUMBER: Final = re.compile(
    rf"""
    {MARKS} (?P<sign>[-+]?) {MARKS} {BODY_AHEAD}
    (?: (?P<over>{_WHOLE}) / (?P<under>{_WHOLE})
      | \\[dt]?frac\{{ (?P<top>{_WHOLE}) \}}\{{ (?P<bottom>{_WHOLE}) \}}
      | (?!\\) (?P<whole>{_WHOLE})? (?:\.(?P<decimals>[0-9]++))? (?:[eE](?P<exponent>[-+]?[0-9]++))?
    )
    """,
    re.VERBOSE,
)

_MINUS_SIGNS: Final = "−﹣－–‐‑"
"""Minus signs, hyphens and the en dash, as they are typed for a minus. An em dash is punctuation."""
_OPERATION: Final = re.compile(r"[+=±×÷]|\^(?!\{?\\circ)|(?<![^\W\d_])-")
"""A sign of arithmetic; a hyphen inside a word is none, nor is LaTeX's ``^\\circ``, which is a degree sign."""
_NOTATION: Final = " \t\r\n\u00a0.%$€£¥₹*_\\}"


def folded(text: str) -> str:
    r"""`text` with an ASCII minus for each typographic one, and plain commas for LaTeX's ``{,}`` and ``,\!``."""
    if not text.isascii():
        for glyph in _MINUS_SIGNS:
            text = text.replace(glyph, "-")
    return text.replace("{,}", ",").replace(r",\!", ",")


def number_at(text: str, position: int = 0) -> tuple[Exact, int] | None:
    """The number that begins at `position` of a folded text, with the offset where it ends; None when none does."""
    match = _NUMBER.match(text, position)
    if match is None:
        return None
    groups: tuple[str, ...] = match.groups("")
    sign, over, under, top, bottom, whole, decimals, exponent = groups
    over, under = over or top, under or bottom
    value = _ratio(over, under) if over else _decimal(whole, decimals, exponent)
    if value is None:
        return None
    return -value if sign == "-" else value, match.end()


def _decimal(whole: str, decimals: str, exponent: str) -> Exact | None:
    digits = whole.replace(",", "") + decimals
    if len(digits) > _MOST_DIGITS or len(exponent) > _MOST_DIGITS:
        return None
    power = int(exponent or "0")
    if abs(power) > _LARGEST_EXPONENT:
        return None
    power -= len(decimals)
    scale: int = 10 ** abs(power)
    return _reduced(int(digits), scale) if power < 0 else int(digits) * scale


def _ratio(over: str, under: str) -> Exact | None:
    over, under = over.replace(",", ""), under.replace(",", "")
    if len(over) > _MOST_DIGITS or len(under) > _MOST_DIGITS or not under.strip("0"):
        return None
    return _reduced(int(over), int(under))


def _reduced(over: int, under: int) -> Exact:
    whole, left = divmod(over, under)
    return Fraction(over, under) if left else whole


def is_doubtful(rest: str) -> bool:
    """Whether the text behind a number makes it a part of something else: another number, an expression, a fraction.

    Numbers of every script count here, and so do superscripts and signs such as ``½``.
    """
    return bool(rest) and (any(map(str.isnumeric, rest)) or _OPERATION.search(rest) is not None)


def is_notation(rest: str) -> bool:
    """Whether nothing but notation stands behind a number: per cent and currency signs, bold marks, a period."""
    return not rest.strip(_NOTATION)


def number_of(reference: object) -> Exact | None:
    """The value of a reference that is a number, or a text that holds one number and nothing else; else None.

    A float means its shortest decimal form, as it was written in the data: 0.1 is exactly one tenth.
    """
    if isinstance(reference, bool):
        return None
    if isinstance(reference, int):
        return reference if abs(reference) < _BEYOND else None
    if isinstance(reference, float):
        text = repr(float(reference))
    elif isinstance(reference, str):
        text = folded(reference).strip()
    else:
        return None
    found = number_at(text)
    if found is None or not is_notation(text[found[1] :]):
        return None
    return found[0]
