# SPDX-License-Identifier: Apache-2.0
"""A command's options as one frozen dataclass: each field says its flag, its help and its default, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, get_type_hints

import typer

from posttrain.cli.exits import told_to_the_shell

__all__ = ["command_of", "flag"]

OptionsT = TypeVar("OptionsT")


def flag(name: str, text: str, **more: Any) -> Any:
    """The metadata of one option."""
    return typer.Option(name, help=text, **more)


def command_of(options: type[OptionsT], run: Callable[[OptionsT], None]) -> Callable[..., None]:
    """A function that typer can call: one parameter a field of the dataclass `options`, which `run` gets whole.

    What `run` raises is told to the shell.
    """
    hints = get_type_hints(options, include_extras=True)
    names = [field.name for field in fields(options)]  # type: ignore[arg-type]  # every caller gives a dataclass
    defaults = inspect.signature(options).parameters

    def call(**values: Any) -> None:
        with told_to_the_shell():
            run(options(**values))

    call.__doc__ = run.__doc__
    call.__annotations__ = {name: hints[name] for name in names}
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # what inspect and typer look at
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=hints[name]
            )
            for name in names
        ]
    )
    return call
