# SPDX-License-Identifier: Apache-2.0
r"""`arithmetic`: 1.0 when the answer is the reference's number.

Reference: a finite number, or a text that holds one number and nothing else (``"1,234"``, ``"-3/4"``, ``"2e-5"``).
The answer is the first number behind the last ``=``, ``####`` or ``answer is`` (in any case); 0.0 when there is none.
A text without such a mark answers with its last number. `numbers_in_text` has the grammar of numbers; in running text

- a digit in a word (``x2``, ``v1.5``), an exponent, an index or a root is no number, and is passed over;
- a number reaches to the next whitespace, and over an operator to a further number. When something numeric follows
  inside (``12,34``, ``10:30``, ``5^2``, ``3 + 4``, ``5 × 10^3``, ``1 1/2``), it is no number, and neither is one behind
  an operator (``x-5``, ``x - 5``, ``±5``): the answer can't be read and scores 0.0, it isn't looked for elsewhere;
- a sign right behind the mark may stand apart: ``= - 5`` is -5.

Whole values compare exactly. Where either is not whole, they may differ by 1e-9 of the reference.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial
from typing import Final

from posttrain.errors import RewardContractError, describe
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec
from posttrain.rewards.scorers.numbers_in_text import (
    BODY_AHEAD,
    MARKS,
    Exact,
    folded,
    is_doubtful,
    number_at,
    number_of,
)

__all__ = ["SPEC", "score_candidate"]

_PHRASE: Final = "answer is"
_TOLERANCE: Final = 10**9
"""Values that are not whole may differ by one part in so many."""

_DIGIT: Final = re.compile("[0-9]")
_LEADING_SIGN: Final = re.compile(r"\s*([-+])\s+")
_NUMERAL: Final = re.compile(
    rf"""
    (?=[-+±∓*/×÷·$€£¥₹_\\.0-9])  # what can begin one; rules out most places at once
    (?P<operator>
        (?<=[\w)\]}}]) [-+*/×÷·]
      | [-+/×÷·] (?:[^\S\n]++|(?=[-+]))
      | (?:[±∓]|\\pm|\\mp) [^\S\n]*+
    )?
    (?P<number>
      (?<![\w^√]) (?<!\w[.,]) (?<![_^]\{{) (?<!sqrt[{{(]) (?<!\}}\{{)  # in no word, exponent, index, root, fraction
      {MARKS} [-+]? {MARKS} {BODY_AHEAD}
      \S*+
      (?: (?: [^\S\n]++ (?:[-+±*/×÷·^x]|\\times|\\cdot|\\div) [^\S\n]*+ (?=[0-9.$(\\])  # an expression
            | [^\S\n]++ (?=[¼-¾⅐-⅞]|[0-9]++/[0-9])                                     # a mixed number
            | [\u00a0\u2009\u202f] (?=[0-9]) )                                         # a space that groups digits
          \S*+ )*+
    )
    """,
    re.VERBOSE,
)


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 when the completion's answer equals the reference, else 0.0.

    Raises:
        RewardContractError: the reference is not a finite number or a text of one.
    """
    expected = number_of(context.reference)
    if expected is None:
        raise RewardContractError(
            'arithmetic expects a reference that is a finite number or a text of one (42, -1.5, "1,234", "3/4"), '
            f"got {describe(context.reference)}: map the column that holds the bare answer with rl.data.response_column"
        )
    answer = _answer(candidate.completion)
    return RewardProviderResult(terms={"arithmetic": float(answer is not None and _agree(answer, expected))})


def _agree(answer: Exact, expected: Exact) -> bool:
    if isinstance(answer, int) and isinstance(expected, int):
        return answer == expected
    reference = Fraction(expected)
    return abs(answer - reference) * _TOLERANCE <= abs(reference)


def _answer(text: str) -> Exact | None:
    end = _end_of_last_mark(text)
    if end is None:
        return _read(_last_numeral(folded(text)))
    text = folded(text[end:])
    if sign := _LEADING_SIGN.match(text):
        text = sign[1] + text[sign.end() :]
    return _read(_NUMERAL.search(text))


def _end_of_last_mark(text: str) -> int | None:
    # lower() makes no character longer but this one, so the offsets hold for `text`.
    lowered = text.replace("İ", "I").lower()
    ends = [start + len(mark) for mark in ("=", "####") if (start := lowered.rfind(mark)) >= 0]
    start = lowered.rfind(_PHRASE)
    while start >= 0:
        end = start + len(_PHRASE)
        if not lowered[end : end + 1].isalpha():  # "the answer isn't 5" has no mark
            ends.append(end)
            break
        start = lowered.rfind(_PHRASE, 0, start)
    return max(ends, default=None)


def _last_numeral(text: str) -> re.Match[str] | None:
    for line in reversed(text.split("\n")):
        if _DIGIT.search(line):
            last = max(_NUMERAL.finditer(line), key=lambda numeral: numeral.start(), default=None)
            if last is not None:
                return last
    return None


def _read(numeral: re.Match[str] | None) -> Exact | None:
    if numeral is None or numeral["operator"] is not None:
        return None
    found = number_at(numeral["number"])
    if found is None or is_doubtful(numeral["number"][found[1] :]):
        return None
    return found[0]


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("arithmetic",),
    needs=("reference",),
    execution=ProviderExecution(repeatable=True),
)
