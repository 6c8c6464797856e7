# SPDX-License-Identifier: Apache-2.0
"""Texts that have the shape of a well-known token: whatever they are, they don't belong in a record or on a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["mask_tokens", "token_in"]

_CUT: Final = 12
"""Characters after its beginning from which on a token is masked: an error may show the first part of one alone."""


class _Shape(NamedTuple):
    what: str
    hints: tuple[str, ...]
    """Texts of which one is in each token of this shape. Most texts have none, and then no pattern is compiled."""
    start: str
    tail: str = ""
    """What the token goes on with, one character; empty: `start` is the whole token."""
    least: int = 0
    """How many of those make a token."""
    has: str = ""
    """What there has to be besides, as a look-ahead from the end of `start`."""

    def pattern(self, least: int | None = None) -> str:
        """The pattern of a token, by default of a whole one."""
        if not self.tail:
            return self.start
        return rf"(?<![A-Za-z0-9]){self.start}{self.has}{self.tail}{{{self.least if least is None else least},}}"


_SHAPES: Final = (
    _Shape("a key that begins with sk-", ("sk-",), "sk-", r"[\w-]", 20, r"(?=[\w-]{0,200}\d)"),
    _Shape("a Stripe key", ("k_live_",), "[rs]k_live_", "[A-Za-z0-9]", 16),
    _Shape("a Hugging Face token", ("hf_",), "hf_", "[A-Za-z0-9]", 20),
    _Shape("a GitHub token", ("gh", "github_pat_"), r"(?:gh[pousr]_|github_pat_)", r"\w", 20),
    _Shape("a GitLab token", ("glpat-",), "glpat-", r"[\w-]", 20),
    _Shape("an NVIDIA key", ("nvapi-",), "nvapi-", r"[\w-]", 20),
    _Shape("a Google key", ("AIza",), "AIza", r"[\w-]", 30),
    _Shape("a Google token", ("ya29.",), r"ya29\.", r"[\w-]", 20),
    _Shape("a Groq key", ("gsk_",), "gsk_", "[A-Za-z0-9]", 20),
    _Shape("an xAI key", ("xai-",), "xai-", "[A-Za-z0-9]", 20),
    _Shape("a Replicate token", ("r8_",), "r8_", "[A-Za-z0-9]", 20),
    _Shape("a Slack token", ("xox",), "xox[abeoprs]-", r"[\w-]", 10),
    _Shape("an npm token", ("npm_",), "npm_", "[A-Za-z0-9]", 30),
    _Shape("a PyPI token", ("pypi-",), "pypi-", r"[\w-]", 40),
    _Shape("an AWS key id", ("AKIA", "ASIA"), "(?:AKIA|ASIA)", "[A-Z0-9]", 16),
    _Shape("a JSON web token", ("eyJ",), r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.", r"[\w-]", 5),
    _Shape("a bearer token", ("earer ",), "[Bb]earer +", r"[\w.~+/=-]", 16, r"(?=\S{0,400}\d)"),
    _Shape("basic credentials", ("asic ",), "[Bb]asic +", "[A-Za-z0-9+/=]", 16, r"(?=\S{0,400}[\d=])"),
    _Shape(
        "a private key",
        ("PRIVATE KEY-----",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z0-9 ]*PRIVATE KEY-----|[\s\S]*)",
    ),
    _Shape("a URL with a password", ("://",), r"(?<=://)[^\s/:@]*:(?![{$<*])[^\s/@]+(?=@)"),
)


def token_in(text: str) -> str | None:
    """What kind of token is in `text`, in words; None: none that is known."""
    return next((shape.what for shape in _hinted(text) if re.search(shape.pattern(), text)), None)


def mask_tokens(text: str) -> str:
    """`text` with what kind of token it is in the place of each; long beginnings of one count too."""
    for shape in _hinted(text):
        text = re.sub(shape.pattern(min(shape.least, _CUT)), f"[{shape.what}]", text)
    return text


def _hinted(text: str) -> Iterator[_Shape]:
    return (shape for shape in _SHAPES if any(hint in text for hint in shape.hints))
