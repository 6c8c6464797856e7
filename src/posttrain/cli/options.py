# SPDX-License-Identifier: Apache-2.0
"""A command's options as one frozen dataclass: each field says its flag, its help and its default, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar, get_type_hints

import typer

from posttrain.cli.exits import told_to_the_shell

__all__ = ["command_of", "flag"]

OptionsT = TypeVar("OptionsT")

_CONTEXT: Final = "context"
_GIVEN: Final = "given"
_NOT_GIVEN: Final = frozenset({"DEFAULT", "DEFAULT_MAP"})


def flag(name: str, text: str, **more: Any) -> Any:
    """The metadata of one option."""
    return typer.Option(name, help=text, **more)


def command_of(options: type[OptionsT], run: Callable[[OptionsT], None]) -> Callable[..., None]:
    """A function that typer can call: one parameter a field of the dataclass `options`, which `run` gets whole.

    A field `given` is no parameter: it gets the names of those that the user gave, defaults not counted. What `run`
    raises is told to the shell.
    """
    hints = get_type_hints(options, include_extras=True)
    every = [field.name for field in fields(options)]  # type: ignore[arg-type]  # every caller gives a dataclass
    names = [name for name in every if name != _GIVEN]
    defaults = inspect.signature(options).parameters

    def call(**values: Any) -> None:
        context: typer.Context = values.pop(_CONTEXT)
        if _GIVEN in every:
            sources = {name: context.get_parameter_source(name) for name in names}
            values[_GIVEN] = frozenset(name for name, it in sources.items() if it and it.name not in _NOT_GIVEN)
        with told_to_the_shell():
            run(options(**values))

    call.__doc__ = run.__doc__
    call.__annotations__ = {_CONTEXT: typer.Context, **{name: hints[name] for name in names}}
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect and typer look at
        [
            inspect.Parameter(_CONTEXT, inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
            *(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=hints[name]
                )
                for name in names
            ),
        ]
    )
    return call
