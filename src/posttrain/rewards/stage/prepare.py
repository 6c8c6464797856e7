# SPDX-License-Identifier: Apache-2.0
"""Choose providers from a catalog and construct them: every collision and mismatch is found here, before any batch."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, final

import msgspec

from posttrain.errors import RewardConfigError, describe, listing, text_of
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import ProviderIdentity
from posttrain.rewards.contract.provider import RewardProvider
from posttrain.rewards.contract.spec import RewardProviderSpec

__all__ = ["PreparedProvider", "Selection", "construct", "select"]


@final
class Selection(msgspec.Struct, frozen=True):
    """The providers that a worker runs, in the order in which they were asked for."""

    catalog: RewardCatalog
    names: tuple[str, ...]

    @property
    def specs(self) -> tuple[RewardProviderSpec, ...]:
        """One spec per name."""
        return tuple(self.catalog.spec(name) for name in self.names)

    @property
    def identities(self) -> tuple[ProviderIdentity, ...]:
        """One identity per name."""
        return tuple(self.catalog.identity(name) for name in self.names)


@final
class PreparedProvider(msgspec.Struct, frozen=True):
    """A constructed provider with its name and its spec."""

    name: str
    spec: RewardProviderSpec
    provider: RewardProvider


def select(catalog: RewardCatalog, names: str | Sequence[str]) -> Selection:
    """The providers of these names, checked against each other.

    Raises:
        RewardConfigError: no name, an unknown one, one that stands twice, or a term that two of them declare.
    """
    if not isinstance(names, Sequence):
        raise RewardConfigError(f"reward: expected the name of a provider or a list of names, got {describe(names)}")
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if not chosen:
        raise RewardConfigError("reward: expected the name of a provider or several, got none")
    if strangers := [describe(name) for name in chosen if not isinstance(name, str)]:
        raise RewardConfigError(f"reward: expected the names of providers, got {', '.join(strangers)}")
    faults = [f"provider {name!r} is selected twice" for name in sorted({n for n in chosen if chosen.count(n) > 1})]
    owner: dict[str, str] = {}
    faults += [
        f"term {term!r} is declared by both {owner[term]!r} and {name!r}: rename it in one of them"
        for name in dict.fromkeys(chosen)
        for term in catalog.spec(name).terms
        if owner.setdefault(term, name) != name
    ]
    if faults:
        raise RewardConfigError(f"the selected providers collide:\n{listing(faults)}")
    return Selection(catalog, chosen)


def construct(name: str, spec: RewardProviderSpec) -> PreparedProvider:
    """Call the spec's factory and check what it made, without calling any of its methods.

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
    return PreparedProvider(name, spec, provider)


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
