# SPDX-License-Identifier: Apache-2.0
"""Resolved secrets: found where they must not be, and kept out of everything that is shown.

A secret is the value of an environment variable whose name says so, or a text that has the shape of a well-known token
(`posttrain.runs.checks.token_shapes`). docs/design/014-preflight.md says what can't be known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, final
from urllib.parse import quote

from posttrain.runs.checks.token_shapes import mask_tokens, token_in

__all__ = ["Credentials", "encodable", "step_to"]

_WORDS: Final = frozenset({
    "APIKEY", "AUTH", "AUTHORIZATION", "BEARER", "COOKIE", "CREDENTIAL", "CREDENTIALS", "DSN", "KEY", "KEYS", "PASS",
    "PASSPHRASE", "PASSWD", "PASSWORD", "PAT", "SECRET", "SECRETS", "TOKEN",
})  # fmt: skip
"""Words of a variable's name that say that its value is a credential."""

_ENDINGS: Final = ("APIKEY", "PASSWD", "PASSWORD", "SECRET", "TOKEN")

_REFERENCES: Final = frozenset({
    "ARN", "BACKEND", "COUNT", "DIR", "ENABLED", "ENV", "EXPIRY", "FILE", "HELPER", "HOST", "ID", "LENGTH", "LIMIT",
    "METHOD", "MODE", "NAME", "PATH", "PORT", "PROMPT", "PROVIDER", "REF", "REGION", "SIZE", "SOCK", "TTL", "TYPE",
    "URI", "URL", "USER", "USERNAME", "VAULT",
})  # fmt: skip
"""Last words of a name that say that its value leads to a credential, or tells something of one, and is none."""

_PLACEHOLDERS: Final = frozenset({
    "changeme", "default", "development", "disabled", "enabled", "placeholder", "production",
})  # fmt: skip
_VARIABLE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_SHORTEST: Final = 6
"""Characters of a value that can be told from an ordinary word."""
_ANYWHERE: Final = 8
"""Characters from which on a value is looked for inside words too."""


@final
class Credentials:
    """The secrets that are known here.

    Args:
        environments: environments to take them from. Code that is imported may add variables, or take some away, so
            the one before and the one after both count.
    """

    def __init__(self, *environments: Mapping[str, str]) -> None:
        owners: dict[str, str] = {}
        for environment in environments:
            for name, value in environment.items():
                for each in _secrets_in(name, value):
                    owners.setdefault(each, name)
        # A secret that holds another is masked first.
        self._owners = dict(sorted(owners.items(), key=lambda each: -len(each[0])))

    def found_in(self, value: Any, path: str) -> Iterator[str]:
        """A line for each place of a JSON value that holds a secret; the secret is not in it.

        Args:
            value: the value.
            path: what to call it, for example ``semantic_identity``.
        """
        if isinstance(value, str):
            if (what := self._what(value)) is not None:
                yield f"{path} holds {what}"
        elif isinstance(value, Mapping):
            for key, item in value.items():
                inner = f"{path}{step_to(self.masked(key))}"
                if (what := self._what(key)) is not None:
                    yield f"{inner}: the key holds {what}"
                yield from self.found_in(item, inner)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                yield from self.found_in(item, f"{path}[{index}]")

    def masked(self, text: str) -> str:
        """`text` with every secret in it replaced; of a longer one the first half alone counts too.

        What comes out can be encoded: a lone surrogate is spelled out.
        """
        # Whole ones first: two that begin alike would each take the other's first half for its own.
        for secret, name in self._owners.items():
            text = _without(text, secret, f"[value of {name}]")
        text = _without_halves(text, self._owners)
        return encodable(mask_tokens(text))

    def masked_json(self, value: Any) -> Any:
        """A JSON value with every text in it masked."""
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {self.masked(key): self.masked_json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.masked_json(item) for item in value]
        return value

    def _what(self, text: str) -> str | None:
        for secret, name in self._owners.items():
            if secret in text and (len(secret) >= _ANYWHERE or _as_word(secret).search(text)):
                return f"the value of {name}"
        return token_in(text)


def encodable(text: str) -> str:
    """`text` with lone surrogates spelled out, which no JSON and no stream can hold."""
    return text.encode(errors="backslashreplace").decode()


def step_to(key: str) -> str:
    """The step of a path into a mapping."""
    if key.isidentifier():
        return f".{key}"
    return f"[{key if len(key) <= 60 else f'{key[:57]}...'!r}]"


def _secrets_in(name: str, value: str) -> Iterator[str]:
    """What counts of a variable's value: itself, its spelling in a URL, and each line of a text of several."""
    if not _is_credential(name) or _is_reference(value):
        return
    for part in dict.fromkeys((value.strip(), *map(str.strip, value.split("\n")))):
        if len(part) >= _SHORTEST:
            yield part
            yield quote(part, safe="", errors="surrogateescape")


def _is_credential(name: str) -> bool:
    words = re.split(r"[^A-Z0-9]+", name.upper())
    return words[-1] not in _REFERENCES and (not _WORDS.isdisjoint(words) or words[-1].endswith(_ENDINGS))


def _is_reference(value: str) -> bool:
    """Whether a value leads to a credential and is none: the name of another variable, a file, a placeholder."""
    text = value.strip()
    if text.lower() in _PLACEHOLDERS or text.isdecimal() or _VARIABLE.fullmatch(text):
        return True
    return "/" in text and "\n" not in text and "\0" not in text and os.path.exists(text)  # noqa: PTH110  # any text


def _as_word(secret: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)")


def _without(text: str, secret: str, mask: str) -> str:
    """`text` without `secret`."""
    if len(secret) < _ANYWHERE:
        return _as_word(secret).sub(lambda _: mask, text) if secret in text else text
    return text.replace(secret, mask)


def _without_halves(text: str, owners: Mapping[str, str]) -> str:
    """`text` without the first half, or more, of a secret that an error may have cut it down to."""
    found = [match for secret in owners if len(secret) >= _ANYWHERE for match in _beginnings(text, secret)]
    parts, at = [], 0
    # Of several that begin at one place the longest counts.
    for start, end, secret in sorted(found, key=lambda match: (match[0], -match[1])):
        if start >= at:
            parts += [text[at:start], f"[value of {owners[secret]}]"]
            at = end
    return "".join([*parts, text[at:]])


def _beginnings(text: str, secret: str) -> Iterator[tuple[int, int, str]]:
    """Where at least the first half of a secret stands, how far it reaches, and the secret."""
    head = secret if len(secret) < 2 * _ANYWHERE else secret[: max(_ANYWHERE, len(secret) // 2)]
    start = text.find(head)
    while start >= 0:
        end = start + len(head)
        while end - start < len(secret) and end < len(text) and text[end] == secret[end - start]:
            end += 1
        yield start, end, secret
        start = text.find(head, start + 1)
