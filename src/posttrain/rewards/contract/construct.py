# SPDX-License-Identifier: Apache-2.0
"""Call a spec's factory and hold what it made to the contract, without calling any of its methods."""

from __future__ import annotations

import inspect
from typing import Any

from posttrain.errors import RewardConfigError, describe, listing, text_of
from posttrain.rewards.contract.provider import RewardProvider
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["construct_provider"]


def construct_provider(name: str, spec: RewardProviderSpec) -> RewardProvider:
    """One provider of the spec.

    Raises:
        RewardConfigError: the factory raised, or what it made has no synchronous ``evaluate(request)``, has only one of
            ``open`` and ``close``, or is of the older pointwise contract.
    """
    try:
        provider: Any = spec.factory()
    except Exception as error:
        failure = RewardConfigError(f"the factory raised {type(error).__name__}: {text_of(error)}", provider=name)
        failure.because_of(error)
        raise failure from error
    if faults := _provider_faults(provider):
        raise RewardConfigError(f"the factory made {describe(provider)}:\n{listing(faults)}", provider=name)
    made: RewardProvider = provider
    return made


def _provider_faults(provider: Any) -> list[str]:
    if inspect.iscoroutine(provider):
        provider.close()
        return ["it is a coroutine: write the factory as a plain function"]
    if isinstance(provider, type):
        return ["it is a class: the factory has to return an instance"]
    if any(isinstance(getattr(provider, legacy, None), str) for legacy in ("scope", "mode")):
        return [
            "it has a scope or mode, as in the older pointwise contract: docs/migrating.md shows how to move it over"
        ]
    evaluate = getattr(provider, "evaluate", None)
    if not callable(evaluate):
        hint = "; lift a function of one candidate with map_candidates" if callable(provider) else ""
        return [f"it has no evaluate(request) method{hint}"]
    faults = []
    if inspect.iscoroutinefunction(evaluate):
        faults.append("its evaluate is async: evaluate is a synchronous barrier, and may be concurrent inside")
    elif not _takes_one(evaluate):
        faults.append(f"its evaluate takes {inspect.signature(evaluate)}, expected (request)")
    managed = [method for method in ("open", "close") if callable(getattr(provider, method, None))]
    if len(managed) == 1:
        faults.append(f"it has {managed[0]}() alone: a managed provider has both open() and close()")
    # Called without await, an async one would do nothing, and say nothing.
    waiting = [method for method in managed if inspect.iscoroutinefunction(getattr(provider, method))]
    faults += [f"its {method} is async: write it as a plain function" for method in waiting]
    return faults


def _takes_one(function: Any) -> bool:
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        return False
    except ValueError:
        return True  # no signature to look at: the first call will tell
    return True
