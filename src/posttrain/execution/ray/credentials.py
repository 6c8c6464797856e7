# SPDX-License-Identifier: Apache-2.0
"""Whether the credential variables that the selected providers reference are there; their values are not looked at."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from posttrain.errors import RewardConfigError, listing
from posttrain.rewards.stage.prepare import Selection

__all__ = ["check_credentials", "referenced"]

_KEY: Final = "credential"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_credentials(selection: Selection, where: str) -> None:
    """Refuse a machine on which a referenced variable is missing or empty.

    Args:
        selection: the providers; a semantic identity names the variable under the key ``credential``, at any depth.
        where: what to call this machine.

    Raises:
        RewardConfigError: naming every provider and variable.
    """
    faults = [
        f"provider {name!r} needs the variable {variable}"
        for name, spec in zip(selection.names, selection.specs, strict=True)
        for variable in dict.fromkeys(referenced(spec.semantic_identity))
        if not os.environ.get(variable)
    ]
    if faults:
        raise RewardConfigError(
            f"{where} lacks credentials that its providers reference:\n{listing(faults)}\n"
            "Set them in the environment in which Ray was started on that node, or by the actors' runtime_env."
        )


def referenced(identity: Any) -> Iterator[str]:
    """The variables that a semantic identity names."""
    if isinstance(identity, Mapping):
        for key, value in identity.items():
            if key == _KEY and isinstance(value, str):
                if _VARIABLE.fullmatch(value):
                    yield value
            else:
                yield from referenced(value)
    elif isinstance(identity, (list, tuple)):
        for item in identity:
            yield from referenced(item)
