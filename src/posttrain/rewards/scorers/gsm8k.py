# SPDX-License-Identifier: Apache-2.0
r"""`gsm8k`: 1.0 when the completion's answer is the reference's, both as exact rational numbers.

Reference: the data set's answer text (``… #### 1,234``), or a bare number. The answer is what follows the last
``####``; without one there is no answer. It is a number as `numbers_in_text` reads it, alone or with words behind it
(``#### 18 dollars``), on the marker's own line. Where that line is blank, the next one that isn't holds the answer, and
nothing but the number: ``1. First,`` begins a list.

A match that is in doubt is not paid. So these are no answer: words before the number, a sign that stands apart (it may
be a bullet), brackets around it (to an accountant a loss), and anything on the line that speaks of a further number
(``18 or 19``, ``12 34``, ``10+x``, ``5½``). Units of area and volume (``m²``, ``ft^3``) speak of none.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from posttrain.errors import RewardContractError, describe
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec
from posttrain.rewards.scorers.numbers_in_text import Exact, folded, is_doubtful, is_notation, number_at, number_of

__all__ = ["SPEC", "score_candidate"]

_MARKER: Final = "####"
_POWER_OF_LENGTH: Final = re.compile(r"(?<![^\W\d_])(?:[cdkm]?m|ft|in|yd|mi)(?:\^?[23]|[²³])")


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 when the number behind the completion's last marker equals the reference's, else 0.0.

    Raises:
        RewardContractError: the reference has no readable number.
    """
    expected = _expected(context.reference)
    return RewardProviderResult(terms={"gsm8k": float(_answer(candidate.completion) == expected)})


def _expected(reference: object) -> Exact:
    marked = isinstance(reference, str) and _MARKER in reference
    expected = _answer(str(reference)) if marked else number_of(reference)
    if expected is None:
        shown = reference.rpartition(_MARKER)[2] if isinstance(reference, str) else reference
        raise RewardContractError(
            f"gsm8k expects a reference that ends in {_MARKER} and a number, or is a bare number, "
            f"got {describe(shown)}: map the column that holds the answer with rl.data.response_column"
        )
    return expected


def _answer(text: str) -> Exact | None:
    _, marker, tail = text.rpartition(_MARKER)
    if not marker:
        return None
    line, _, below = tail.partition("\n")
    must_be_alone = not line.strip()
    if must_be_alone:
        line = below.lstrip().partition("\n")[0]
    line = folded(line.strip())
    found = number_at(line)
    if found is None:
        return None
    value, end = found
    rest = _POWER_OF_LENGTH.sub("", line[end:])
    if is_doubtful(rest) or (must_be_alone and not is_notation(rest)):
        return None
    return value


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("gsm8k",),
    needs=("reference",),
    execution=ProviderExecution(repeatable=True),
)
