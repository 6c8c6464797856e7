# SPDX-License-Identifier: Apache-2.0
"""Runs code of the operator's in such a way that it can end nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from posttrain.errors import RewardConfigError, RewardError, text_of

__all__ = ["contained"]


@contextmanager
def contained(who: str, *, provider: str | None = None) -> Iterator[None]:
    """Turn whatever comes out, `sys.exit` included, into an error of the tree; an interrupt passes through.

    Args:
        who: what to call the code in an error.
        provider: the provider that it is of; None: of none.

    Raises:
        RewardConfigError: anything that is not of the tree came out.
    """
    try:
        yield
    except RewardError as error:
        error.provider = error.provider or provider
        raise
    except SystemExit as error:
        raise RewardConfigError(f"{who} called sys.exit({error.code!r})", provider=provider) from error
    except Exception as error:
        raise RewardConfigError(f"{who} raised {type(error).__name__}: {text_of(error)}", provider=provider) from error
