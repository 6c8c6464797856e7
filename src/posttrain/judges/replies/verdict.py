# SPDX-License-Identifier: Apache-2.0
"""Finds the verdict in a judge's reply: the last JSON object in its text.

A reply may reason first, quote a candidate, or stand in a code fence. Whatever object comes last is the verdict, also
one that is broken or has other keys: it is refused then, and never passed over in favour of an earlier one. Broken
JSON counts as one object up to the brace that closes it, so that nothing quoted inside it comes to count.

What stands in a thought, up to ``</think>``, is no answer. What looks like an object but is none, such as
``{score: 3}``, counts for nothing by itself; behind the last object it may be the judge's correction, so that the reply
is refused.

An object that equals one in the texts that the judge was shown, however deep it stands there, may be a quotation. It
counts only when it is the whole reply.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from posttrain.errors import describe
from posttrain.judges.endpoint import JudgeReplyError

__all__ = ["PARSER_VERSION", "last_verdict"]

PARSER_VERSION: Final = 2
"""Part of a judge's content: changes whenever a reply could be read in another way."""

_OPENING: Final = re.compile(r"""\{(?=\s*["'])""")
_LOOSE: Final = re.compile(r"(?<![\w^}\])\\])\{\s*(?:\}|[“”„‘’]|[A-Za-z_][\w-]*\s*:|/[/*]|\Z)")
"""What a model may write for an object that JSON does not know; not an argument in TeX."""
_FLAT: Final = re.compile(
    r'\{\s*(?:"(?:[^"\\]|\\.)*+"\s*:\s*(?:"(?:[^"\\]|\\.)*+"|[^\s"{}\[\],]++)\s*(?:,\s*(?="))?+)++\}', re.DOTALL
)
"""An object with no other inside; looked for at every brace."""
_STEPS: Final = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}]', re.DOTALL)
_FENCE: Final = re.compile(r"\A```[A-Za-z]*\n(.*)\n```\Z", re.DOTALL)
_THOUGHT, _THOUGHT_END = "<think>", "</think>"
_MOST_OBJECTS: Final = 1000


@final
@dataclass(frozen=True, slots=True)
class _Object:
    start: int
    end: int
    value: dict[str, Any] | None
    """None: it is not JSON."""
    fault: str = ""


class _Unreadable(ValueError):  # noqa: N818  # a reason, not an error that anybody sees
    """JSON that some readers take and this one does not."""


def last_verdict(reply: str, shown: Sequence[str] = ()) -> dict[str, Any]:
    """The last JSON object of a reply.

    Args:
        reply: the text of the answer.
        shown: the texts that the judge was shown, from which it may have quoted.

    Raises:
        JudgeReplyError: there is none, it is broken, a key stands in it twice, it may be a quotation, or something like
            another object comes after it.
    """
    reply, least = _answer_of(reply, shown)
    found: _Object | None = None
    number = 0
    for number, each in enumerate(_objects(reply), 1):
        found = each
        if number > _MOST_OBJECTS:
            raise JudgeReplyError("unparsable", f"the reply holds more than {_MOST_OBJECTS} JSON objects")
    if found is None or found.start < least:
        where = "" if found is None else " behind its thought"
        raise JudgeReplyError("unparsable", f"the reply holds no JSON object{where}: {describe(reply[least:])}")
    if found.value is None:
        text = reply[found.start : found.end]
        raise JudgeReplyError("unparsable", f"the last JSON object is broken ({found.fault}): {describe(text)}")
    if (loose := _LOOSE.search(reply, found.end)) is not None:
        text = reply[loose.start() :]
        raise JudgeReplyError("unparsable", f"what follows the last JSON object may be another: {describe(text)}")
    alone = number == 1 and _is_whole(reply, found)
    if not alone and _is_quoted(found.value, shown):
        text = reply[found.start : found.end]
        raise JudgeReplyError(
            "unparsable",
            f"{describe(text)} may be quoted from a text that the judge was shown, and is not the whole reply",
        )
    return found.value


def _answer_of(reply: str, shown: Sequence[str]) -> tuple[str, int]:
    """What is behind the judge's thought, and from where in it a verdict may begin."""
    close = reply.rfind(_THOUGHT_END)
    is_thought = reply.lstrip().startswith(_THOUGHT)
    if close < 0:
        if is_thought:
            raise JudgeReplyError("unparsable", f"the reply is a thought that does not end: {describe(reply)}")
        return reply, 0
    if not any(_THOUGHT_END in text for text in shown):
        return reply[close + len(_THOUGHT_END) :], 0
    # The tag may be quoted. Where the thought ends is not known then, only that it does not end before the first.
    return reply, reply.find(_THOUGHT_END) if is_thought else 0


def _is_quoted(value: dict[str, Any], shown: Sequence[str]) -> bool:
    try:
        return any(each == value for text in shown for each in _quotable(text))
    except RecursionError:
        return True  # too deep to be compared: no verdict of ours is


def _quotable(text: str) -> Iterator[object]:
    """Every outermost object of a text, and every innermost one, those in JSON strings too."""
    yield from (each.value for each in _objects(text))
    for spelled in (text, text.replace('\\"', '"')) if '\\"' in text else (text,):
        for match in _FLAT.finditer(spelled):
            try:
                yield _DECODER.decode(match[0])
            except ValueError:
                continue  # not JSON after all, so it equals no verdict


def _is_whole(reply: str, found: _Object) -> bool:
    rest = reply.strip()
    fenced = _FENCE.match(rest)
    return (fenced[1].strip() if fenced else rest) == reply[found.start : found.end]


def _objects(text: str) -> Iterator[_Object]:
    """Every outermost JSON object of a text, broken ones too, in their order."""
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        start = opening.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
            yield _Object(start, at, value)
        except RecursionError:
            at = _closing(text, start)
            yield _Object(start, at, None, "nested too deep")
        except ValueError as error:
            at = _closing(text, start)
            yield _Object(start, at, None, str(error))


def _closing(text: str, start: int) -> int:
    """Behind the brace that closes the one at `start`, strings passed over; the end of the text when none does."""
    depth = 0
    for match in _STEPS.finditer(text, start):
        step = match[0]
        depth += 1 if step == "{" else -1 if step == "}" else 0
        if depth == 0:
            return match.end()
    return len(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        raise _Unreadable(f"{', '.join(map(repr, twice))} stands in it more than once")
    return made


def _constant(name: str) -> None:
    raise _Unreadable(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)
