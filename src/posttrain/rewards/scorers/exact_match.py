# SPDX-License-Identifier: Apache-2.0
"""`exact_match`: 1.0 when the whole completion is an accepted answer, up to case, whitespace and Unicode spelling.

Reference: a string, or a non-empty list of accepted strings. Each side is normalised exactly once:

1. whitespace of any kind is trimmed, and each run of it becomes one space;
2. the text is decomposed (NFD), its case folded, and the result composed (NFC).

Step 2 is the canonical caseless matching of the Unicode standard (section 3.13, D145). Folding without it would part
spellings of one text: it splits some characters (``ǰ`` becomes ``j`` and a caron), and it reads an iota subscript by
its place among other marks. Folding is full: ``ß`` equals ``ss``, ``ﬁ`` equals ``fi``, and the three sigmas are one; it
knows no language, so ``İ`` is an i with a dot above, not an ``i``. What remains is equality: order, count, punctuation
and accents all matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final
from unicodedata import normalize

from posttrain.errors import RewardContractError, describe
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec

__all__ = ["SPEC", "score_candidate"]

_MOST_COMPOSED: Final = 4
"""Code points that NFC can merge into one, at most; nothing else in the normalisation makes a text shorter."""
_LISTED: Final = 20


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 when the completion equals an accepted string after normalisation, else 0.0.

    Raises:
        RewardContractError: the reference is not a string or a non-empty list of strings, or one of them is empty.
    """
    accepted = _accepted(context.reference)
    completion = _collapsed(candidate.completion)
    # A text that is too long to match is not normalised: putting a run of combining marks in order takes quadratic
    # time, and only the reference, which is ours, may decide how much of that is done.
    longest = _MOST_COMPOSED * max(map(len, accepted))
    matches = len(completion) <= longest and _folded(completion) in accepted
    return RewardProviderResult(terms={"exact_match": float(matches)})


def _accepted(reference: object) -> Sequence[str]:
    """The accepted strings, normalised; none of them is empty."""
    if isinstance(reference, str):
        members = {"reference": reference}
    elif isinstance(reference, (list, tuple)) and reference:
        members = {f"reference[{index}]": member for index, member in enumerate(reference)}
    else:
        raise RewardContractError(
            "exact_match expects a reference that is a string or a non-empty list of strings, "
            f"got {describe(reference)}"
        )
    accepted = {path: _folded(_collapsed(text)) for path, text in members.items() if isinstance(text, str)}
    faults = [f"{path} is {describe(members[path])}" for path in members if not accepted.get(path)]
    if faults:
        if len(faults) > _LISTED:
            faults[_LISTED:] = [f"and {len(faults) - _LISTED} more"]
        raise RewardContractError(
            f"exact_match expects accepted answers that are strings and not empty, but {'; '.join(faults)}: "
            'write numbers as text ("42"), and leave out rows that have no answer'
        )
    return tuple(accepted.values())


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _folded(text: str) -> str:
    return normalize("NFC", normalize("NFD", text).casefold())


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("exact_match",),
    needs=("reference",),
    execution=ProviderExecution(repeatable=True),
)
