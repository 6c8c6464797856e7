# SPDX-License-Identifier: Apache-2.0
"""The kinds of values that keys take: what each accepts, what an error says that it accepts, and how to mend a slip."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, final, get_args

from pydantic import AfterValidator, BeforeValidator, Field

from posttrain.frozen import freeze
from posttrain.rewards.contract.names import name_fault
from posttrain.rewards.metrics.real import as_real
from posttrain.runs.config.scalars import read_word

__all__ = [
    "CatalogPath",
    "Count",
    "Expected",
    "FunctionPath",
    "PathText",
    "ProviderNames",
    "RunName",
    "Seconds",
    "Seed",
    "Sha256",
    "Share",
    "Switch",
    "Text",
    "Weights",
    "function_path",
    "one_of",
    "sound_text",
]

_FIRST: Final = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


@final
@dataclass(frozen=True, slots=True)
class Expected:
    """What a key takes, in the words of an error."""

    words: str
    kind: Literal["text", "whole", "real", "switch", "choice"]
    example: str = ""
    """A value as it is typed in an override; only keys without a default need one."""
    choices: tuple[str, ...] = ()

    def mend(self, value: object) -> str:
        """How to write what was probably meant, as the end of a sentence; empty when nothing is probable."""
        match self.kind:
            case "text":
                is_word = isinstance(value, (bool, int, float, dt.date, dt.time))
                return ": put it in quotes" if is_word else ""
            case "whole":
                return _mended_whole(value)
            case "real":
                return _mended_real(value)
            case "switch":
                return _mended_switch(value)
            case "choice":
                near = difflib.get_close_matches(str(value), self.choices, n=1, cutoff=0.5)
                return f": did you mean {near[0]}?" if near else ""


def _mended_whole(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return f": write {int(value)}"
    if not isinstance(value, str):
        return ""
    if type(read_word(value)) is int:
        return f": write {value} without quotes"
    if re.fullmatch(r"\+?[1-9][0-9_]*", value, re.ASCII):
        return f": write {value.replace('_', '').lstrip('+')}"
    if re.fullmatch(r"[-+]?0[0-9xXoObB][0-9a-fA-F_]*", value, re.ASCII):
        return ": write it as a decimal number, without leading zeros"
    return ""


def _mended_real(value: object) -> str:
    if not isinstance(value, str):
        return ""
    if type(read_word(value)) in {int, float}:
        return f": write {value} without quotes"
    try:
        number = as_real(float(value))
    except ValueError:
        return ""
    return "" if number is None else f": write {number!r}"


def _mended_switch(value: object) -> str:
    word = str(value).lower()
    if word in {"true", "yes", "on", "y", "t", "1"}:
        return ": write true"
    return ": write false" if word in {"false", "no", "off", "n", "f", "0"} else ""


def sound_text(text: str) -> str:
    """A text, once it is one that a file can keep and that nothing in it would have to be put in."""
    if not text:
        raise ValueError("expected a text, got an empty one")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "the text holds half of a surrogate pair, which no file can keep: write the character"
        ) from None
    if (found := re.search(r"\$\{[^}]*\}?", text)) is not None:
        raise ValueError(
            f"{found[0]} would stay as it is, since nothing is interpolated: write the value, "
            "or let the shell put it in"
        )
    return text


def _path(text: str) -> str:
    if text.startswith("~"):
        raise ValueError("~ is not expanded: write the folder out, or let the shell put it in")
    if "\0" in text:
        raise ValueError("a path holds no NUL")
    return text


def _catalog_path(text: str) -> str:
    if text.endswith(".py") or not re.search(r"[^:.][:.][^:.]", text):
        raise ValueError(
            f"expected package.module:factory, package.module.factory or file.py:factory, got {text!r}"
            + (f": name the function, for example {text}:catalog" if text.endswith(".py") else "")
        )
    return text


def function_path(text: str) -> str:
    """The path of a function, once it has the form of one."""
    where, _, attribute = text.rpartition(":" if ":" in text else ".")
    if not all(part.isidentifier() for part in (*where.split("."), *attribute.split("."))):
        raise ValueError(f"expected package.module:function or package.module.function, got {text!r}")
    return text


def _matching(pattern: str, words: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"expected {words}, got {text!r}")
        return text

    return AfterValidator(check)


def _named(kind: str) -> AfterValidator:
    def check(name: str) -> str:
        if (fault := name_fault(kind, name)) is not None:
            raise ValueError(fault)
        return name

    return AfterValidator(check)


def _as_names(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("expected the name of a provider or a list of names, got an empty list")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{', '.join(map(repr, twice))} stands twice: name each provider once")
    return names


def _frozen(weights: Mapping[str, float]) -> Any:
    return freeze(dict(weights))


def one_of(literal: Any) -> Expected:
    """What a key takes whose type is a `Literal`."""
    choices = get_args(literal)
    return Expected(f"one of {', '.join(choices)}", "choice", choices=choices)


Switch: TypeAlias = Annotated[bool, Expected("true or false", "switch")]
Count: TypeAlias = Annotated[int, Field(ge=1), Expected("a whole number of at least 1", "whole", example="8")]
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**32), Expected("a whole number from 0 to 4294967295", "whole")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), Expected("a number from 0 to 1", "real")]
Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False), Expected("a number of seconds above 0", "real")]
Text: TypeAlias = Annotated[str, AfterValidator(sound_text), Expected("a text", "text")]
PathText: TypeAlias = Annotated[Text, AfterValidator(_path)]
CatalogPath: TypeAlias = Annotated[PathText, AfterValidator(_catalog_path)]
FunctionPath: TypeAlias = Annotated[Text, AfterValidator(function_path)]
RunName: TypeAlias = Annotated[
    Text, _matching(_FIRST, "letters, digits and any of _ . - after a first letter or digit: it names a folder")
]
Sha256: TypeAlias = Annotated[
    str,
    _matching(r"[0-9a-f]{64}", "the SHA-256 of an identity, 64 hexadecimal digits in lower case"),
    Expected("a text of 64 hexadecimal digits", "text"),
]
ProviderNames: TypeAlias = Annotated[
    tuple[Annotated[str, _named("provider")], ...],
    BeforeValidator(_as_names),
    AfterValidator(_distinct),
    Expected("the name of a provider or a list of names", "text", example="gsm8k"),
]
Weights: TypeAlias = Annotated[
    Mapping[Annotated[str, _named("term")], Annotated[float, Field(allow_inf_nan=False)]],
    AfterValidator(_frozen),
    Expected("a finite number", "real"),
]
