# SPDX-License-Identifier: Apache-2.0
"""`countdown`: 1.0 when the answer is an expression over exactly the given numbers whose value is the target.

Reference: ``{"numbers": [25, 50, 3], "target": 72}``; numbers are whole and not negative, further keys are left alone.
The answer is the text of the last closed ``<answer>`` tag, spelt exactly so. It is read by this grammar, with any
whitespace between tokens::

    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = "-" factor | "(" sum ")" | number
    number  = "0" | one of 1-9 followed by any of 0-9

``×``, ``÷`` and ``−`` are other spellings of ``*``, ``/`` and ``-``. Whatever is not in the grammar scores 0.0: ``=``,
powers, ``//``, decimals, unary plus, digits of other scripts. So does an answer that leaves a number out, uses one
twice, or divides by zero. Arithmetic is exact (rational), and nothing is ever handed to Python's own parser.

The work is bounded by the count of numbers, 100 at most. There is room for two pairs of brackets and a minus around
every number and every operation, 12 tokens a number; an answer with more of them is refused unread, and since each
bracket is a token, nesting is capped too. The digits of an answer are compared as text with the reference's; only those
that match become numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias

from posttrain.errors import RewardContractError, describe
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec

__all__ = ["SPEC", "score_candidate"]

_Exact: TypeAlias = int | Fraction

_OPEN: Final = "<answer>"
_CLOSE: Final = "</answer>"
_MOST_NUMBERS: Final = 100
_TOKENS_PER_NUMBER: Final = 12
_BEYOND: Final = 10**18
"""Numbers of a reference are below this."""

_TOKEN: Final = re.compile(r"[0-9]+|[-+*/()]|\s+|(?P<foreign>.)", re.DOTALL)
_NEGATE: Final = "negate"
_BINDING: Final = {"(": 0, "+": 1, "-": 1, "*": 2, "/": 2, _NEGATE: 3}


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 when the last closed tag holds a valid expression with the target as its value, else 0.0.

    Raises:
        RewardContractError: the reference is malformed; every fault of it is named.
    """
    numbers, target = _task(context.reference)
    tokens = _tokens(_last_answer(candidate.completion), most=_TOKENS_PER_NUMBER * len(numbers))
    used = sorted(token for token in tokens if token.isdigit())
    solved = used == sorted(map(str, numbers)) and _value(tokens) == target
    return RewardProviderResult(terms={"countdown": float(solved)})


def _task(reference: object) -> tuple[Sequence[int], int]:
    """The numbers and the target of a well-formed reference."""
    if not isinstance(reference, Mapping):
        raise RewardContractError(
            f'countdown expects a reference {{"numbers": [...], "target": n}}, got {describe(reference)}'
        )
    numbers: Any = reference.get("numbers")
    target: Any = reference.get("target")
    faults = _number_faults(numbers)
    if type(target) is not int:
        faults.append(f"target: expected a whole number, got {describe(target)}")
    if faults:
        raise RewardContractError(
            f'countdown expects a reference {{"numbers": [...], "target": n}} of whole numbers: {"; ".join(faults)}'
        )
    return numbers, target


def _number_faults(numbers: Any) -> list[str]:
    if not isinstance(numbers, (list, tuple)) or not numbers:
        return [f"numbers: expected a non-empty list, got {describe(numbers)}"]
    if len(numbers) > _MOST_NUMBERS:
        return [f"numbers: expected at most {_MOST_NUMBERS}, got {len(numbers)}"]
    return [
        f"numbers[{index}]: expected a whole number from 0 to {_BEYOND - 1}, got {describe(number)}"
        for index, number in enumerate(numbers)
        if type(number) is not int or not 0 <= number < _BEYOND
    ]


def _last_answer(text: str) -> str:
    """What the last closed tag holds; empty when no tag is closed."""
    start = text.rfind(_OPEN, 0, max(text.rfind(_CLOSE), 0))
    if start < 0:
        return ""
    return text[start + len(_OPEN) : text.index(_CLOSE, start)]


def _tokens(text: str, *, most: int) -> list[str]:
    """The tokens of an expression; none at all when it has a foreign character or more than `most` tokens."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(text.strip().replace("×", "*").replace("÷", "/").replace("−", "-")):
        if match["foreign"] or len(tokens) == most:
            return []
        if not match[0].isspace():
            tokens.append(match[0])
    return tokens


def _value(tokens: list[str]) -> _Exact | None:
    """The value of an expression; None when it is outside the grammar or divides by zero.

    Operator precedence on two explicit stacks, so that no nesting can use up Python's own.
    """
    values: list[_Exact] = []
    waiting = ["("]
    operand_next = True
    for symbol in [*tokens, ")"]:
        if not waiting:
            return None
        if operand_next:
            if symbol.isdigit():
                values.append(int(symbol))
                operand_next = False
            elif symbol in {"(", "-"}:
                waiting.append("(" if symbol == "(" else _NEGATE)
            else:
                return None
        elif symbol == ")":
            if not _settle(values, waiting, binding=1):
                return None
            waiting.pop()
        elif symbol in {"+", "-", "*", "/"}:
            if not _settle(values, waiting, binding=_BINDING[symbol]):
                return None
            waiting.append(symbol)
            operand_next = True
        else:
            return None
    return None if waiting else values[0]


def _settle(values: list[_Exact], waiting: list[str], *, binding: int) -> bool:
    """Apply the waiting operators that bind at least so tightly; False on a division by zero."""
    while _BINDING[waiting[-1]] >= binding:
        operator, right = waiting.pop(), values.pop()
        if operator == _NEGATE:
            values.append(-right)
        elif operator == "+":
            values.append(values.pop() + right)
        elif operator == "-":
            values.append(values.pop() - right)
        elif operator == "*":
            values.append(values.pop() * right)
        elif right:
            values.append(Fraction(values.pop()) / right)
        else:
            return False
    return True


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("countdown",),
    needs=("reference",),
    execution=ProviderExecution(repeatable=True),
)
