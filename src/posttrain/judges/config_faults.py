# SPDX-License-Identifier: Apache-2.0
"""What is not valid in a `JudgeConfig`. A value that may be a key is never shown."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from posttrain.errors import RewardContractError, describe
from posttrain.frozen import freeze
from posttrain.judges.presets import PRESETS

if TYPE_CHECKING:
    from posttrain.judges.config import JudgeConfig

__all__ = ["config_faults"]

_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,127}")
_KEY_LIKE: Final = re.compile(r"(AKIA|ASIA)[A-Z0-9]{16}|(?=[^_]*\d)[A-Z0-9]{20,}")
_STRUCTURED: Final = ("json_schema", "json_object", "none")
_OWN_FIELDS: Final = frozenset(
    {"model", "messages", "temperature", "top_p", "max_tokens", "seed", "response_format"}
    | {"stream", "stream_options", "n"}
)
_SECRET_FIELDS: Final = (
    "apikey",
    "authorization",
    "password",
    "secret",
    "accesstoken",
    "authtoken",
    "apitoken",
    "bearer",
)

# Field to the least value, whether that value itself is allowed, and the largest.
_FLOATS: Final = {
    "temperature": (0.0, True, 100.0),
    "top_p": (0.0, False, 1.0),
    "connect_timeout_s": (0.0, False, 86400.0),
    "read_timeout_s": (0.0, False, 86400.0),
    "total_timeout_s": (0.0, False, 86400.0),
    "backoff_base_s": (0.0, False, 86400.0),
    "backoff_cap_s": (0.0, False, 86400.0),
}
_PRICES: Final = ("prompt_price_per_million", "completion_price_per_million")
_INTS: Final = {"samples": 1, "max_retries": 0, "concurrency": 1, "max_response_bytes": 1024}
_OPTIONAL_INTS: Final = {"max_tokens": 1, "requests_per_minute": 1, "tokens_per_minute": 1, "seed": -(2**62)}
_OPTIONAL_FLOATS: Final = frozenset({"temperature", "top_p"})


def config_faults(config: JudgeConfig) -> list[str]:
    """Every fault of every field, one line each, with the value that came where it can't be a secret."""
    return [*_text_faults(config), *_address_faults(config), *_number_faults(config), *_body_faults(config)]


def _text_faults(config: JudgeConfig) -> Iterator[str]:
    for name in ("model", "revision"):
        value = getattr(config, name)
        if not isinstance(value, str) or not value.strip():
            yield f"{name}: expected a string that is not empty, got {describe(value)}"
    if config.cache is not None and (not isinstance(config.cache, str) or not config.cache.strip()):
        yield f"cache: expected the path of a file, or None, got {describe(config.cache)}"
    if not isinstance(config.structured_output, str) or config.structured_output not in _STRUCTURED:
        yield f"structured_output: expected one of {', '.join(_STRUCTURED)}, got {describe(config.structured_output)}"
    if type(config.proxy_from_environment) is not bool:
        yield f"proxy_from_environment: expected a bool, got {describe(config.proxy_from_environment)}"


def _address_faults(config: JudgeConfig) -> Iterator[str]:
    known = ", ".join(PRESETS)
    if config.preset is not None and (not isinstance(config.preset, str) or config.preset not in PRESETS):
        yield f"preset: expected one of {known}, got {describe(config.preset)}"
    if config.base_url is None and config.preset is None:
        yield f"base_url: set it, or a preset of {known}"
    if config.base_url is not None:
        yield from _url_faults(config.base_url)
    credential = config.credential
    if credential is None:
        return
    if not isinstance(credential, str):
        yield f"credential: expected the NAME of an environment variable, got one of type {type(credential).__name__}"
    elif not _VARIABLE.fullmatch(credential) or _KEY_LIKE.fullmatch(credential):
        yield (
            "credential: expected the NAME of an environment variable, in capitals, for example NVIDIA_API_KEY; what "
            "came is no such name, may be the key itself and is not shown: put the key into a variable, its name here"
        )


def _url_faults(url: object) -> Iterator[str]:
    if not isinstance(url, str):
        yield f"base_url: expected a text such as http://localhost:8000/v1, got {describe(url)}"
        return
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        yield f"base_url: it can't be read: {str(error).replace(url, 'the URL')}"
        return
    # A part that may hold a secret is named, never shown.
    if "@" in parts.netloc:
        yield "base_url: it holds a user name or password, not shown: name the credential's variable in `credential`"
        return
    if "?" in url or "#" in url:
        yield "base_url: it has a query or a fragment, not shown: leave out all from '?' or '#' on"
        return
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        yield f"base_url: expected http:// or https:// and a host, got {describe(url)}"
    elif not url.isascii() or any(each.isspace() or not each.isprintable() for each in url):
        yield f"base_url: expected printable ASCII without spaces, got {describe(url)}"
    elif parts.path.rstrip("/").endswith("/completions"):
        yield f"base_url: leave out /chat/completions, it is added; got {describe(url)}"


def _number_faults(config: JudgeConfig) -> Iterator[str]:
    for name, (least, inclusive, most) in _FLOATS.items():
        value, optional = getattr(config, name), name in _OPTIONAL_FLOATS
        if optional and value is None:
            continue
        if not _is_real(value) or not (least < value <= most or (inclusive and value == least)):
            words = f"at least {least:g}" if inclusive else f"above {least:g}"
            words += f" and at most {most:g}{', or None' if optional else ''}"
            yield f"{name}: expected a number {words}, got {describe(value)}"
    for name in _PRICES:
        value = getattr(config, name)
        if value is not None and (not _is_real(value) or value < 0):
            yield f"{name}: expected a number of at least 0, or None, got {describe(value)}"
    for name, floor in {**_INTS, **_OPTIONAL_INTS}.items():
        value = getattr(config, name)
        optional = name in _OPTIONAL_INTS
        if optional and value is None:
            continue
        if type(value) is not int or not floor <= value < 2**62:
            yield f"{name}: expected an int of at least {floor}{', or None' if optional else ''}, got {describe(value)}"
    prices = [getattr(config, name) for name in _PRICES]
    if prices.count(None) == 1:
        yield f"{_PRICES[0]} and {_PRICES[1]}: set both, or none"


def _is_real(value: object) -> bool:
    return type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]  # one of the two


def _body_faults(config: JudgeConfig) -> Iterator[str]:
    body: object = config.extra_body
    if not isinstance(body, Mapping):
        yield f"extra_body: expected a mapping of JSON values, got {describe(body)}"
        return
    try:
        freeze(body, "extra_body")
    except RewardContractError as error:
        yield from (line.strip() for line in error.message.splitlines()[1:])
        return
    for name in body:
        if name in _OWN_FIELDS:
            yield f"extra_body: {name!r} is set by the judge itself; use the field of JudgeConfig where there is one"
    for name in _names(body):
        plain = name.lower().replace("_", "").replace("-", "")
        if plain.endswith(_SECRET_FIELDS):
            yield f"extra_body: {name!r} looks like a secret, which may not stand here: use `credential`"


def _names(value: object) -> Iterator[str]:
    """Every key of a JSON value, as deep as it goes."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield name
            yield from _names(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _names(item)
