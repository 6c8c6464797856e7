# SPDX-License-Identifier: Apache-2.0
"""`nonempty`: 1.0 when the completion shows something, 0.0 when a reader would see a blank page.

These show nothing, however many of them there are:

- whitespace, no-break and ideographic spaces included;
- default-ignorable code points (Unicode, DerivedCoreProperties): zero-width spaces and joiners, the byte order mark,
  soft hyphens, bidi marks, variation selectors, tags, Hangul fillers;
- control characters, NUL included: they act on a terminal, they are not read;
- lone surrogates: halves of a character, which no encoding can carry;
- U+2800, the braille pattern without a dot: a symbol to Unicode, a blank to the eye.

Everything else shows something: a full stop, a combining mark alone, an emoji, the box of an unknown character.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.contract.result import RewardProviderResult
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec

__all__ = ["SPEC", "score_candidate"]

_DEFAULT_IGNORABLE: Final = (
    (0x00AD, 0x00AD),  # soft hyphen
    (0x034F, 0x034F),  # combining grapheme joiner
    (0x061C, 0x061C),  # Arabic letter mark
    (0x115F, 0x1160),  # Hangul choseong and jungseong fillers
    (0x17B4, 0x17B5),  # Khmer inherent vowels
    (0x180B, 0x180F),  # Mongolian variation selectors and vowel separator
    (0x200B, 0x200F),  # zero-width space and joiners, left-to-right and right-to-left marks
    (0x202A, 0x202E),  # bidi embeddings and overrides
    (0x2060, 0x206F),  # word joiner, invisible operators, bidi isolates, deprecated format characters
    (0x3164, 0x3164),  # Hangul filler
    (0xFE00, 0xFE0F),  # variation selectors 1 to 16
    (0xFEFF, 0xFEFF),  # zero-width no-break space, the byte order mark
    (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
    (0xFFF0, 0xFFF8),  # reserved for format characters
    (0x1BCA0, 0x1BCA3),  # shorthand format controls
    (0x1D173, 0x1D17A),  # musical beams, ties, slurs and phrases
    (0xE0000, 0xE0FFF),  # tags, variation selectors 17 to 256, and the rest of their block
)
_ALSO_INVISIBLE: Final = (
    (0x0000, 0x001F),  # C0 controls
    (0x007F, 0x009F),  # delete and C1 controls
    (0x2800, 0x2800),  # braille pattern blank
    (0xD800, 0xDFFF),  # surrogates
)
_RANGES: Final = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in (*_DEFAULT_IGNORABLE, *_ALSO_INVISIBLE))
_VISIBLE: Final = re.compile(rf"[^\s{_RANGES}]")


def score_candidate(candidate: RewardCandidate, context: RewardContext) -> RewardProviderResult:
    """1.0 for a completion with at least one visible character, else 0.0; no input is read."""
    del context
    return RewardProviderResult(terms={"nonempty": float(_VISIBLE.search(candidate.completion) is not None)})


SPEC: Final = RewardProviderSpec(
    factory=partial(map_candidates, score_candidate),
    revision="1",
    terms=("nonempty",),
    execution=ProviderExecution(repeatable=True),
)
