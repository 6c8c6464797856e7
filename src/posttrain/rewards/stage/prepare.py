# SPDX-License-Identifier: Apache-2.0
"""Choose providers from a catalog and construct them: every collision and mismatch is found here, before any batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import msgspec

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import ProviderIdentity
from posttrain.rewards.contract.construct import construct_provider
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

    @property
    def rank_local(self) -> bool:
        """Whether its providers are given latents, each rank its own, in place of text: all of them are, or none."""
        return any(spec.execution.rank_local for spec in self.specs)


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
    unknown = [name for name in dict.fromkeys(chosen) if name not in catalog]
    if len(unknown) > 1:
        raise RewardConfigError("\n".join(catalog.unknown(name) for name in unknown))
    owner: dict[str, str] = {}
    faults += [
        f"term {term!r} is declared by both {owner[term]!r} and {name!r}: rename it in one of them"
        for name in dict.fromkeys(chosen)
        for term in catalog.spec(name).terms
        if owner.setdefault(term, name) != name
    ]
    faults += _mixture_faults(catalog, chosen)
    if faults:
        raise RewardConfigError(f"the selected providers collide:\n{listing(faults)}")
    return Selection(catalog, chosen)


def _mixture_faults(catalog: RewardCatalog, chosen: Sequence[str]) -> list[str]:
    local = [name for name in dict.fromkeys(chosen) if catalog.spec(name).execution.rank_local]
    others = [name for name in dict.fromkeys(chosen) if name not in local]
    if not local or not others:
        return []
    texts = ", ".join(map(repr, others))
    rule = "each worker runs one kind, since a batch is bound either to latents or to completions"
    return [f"{', '.join(map(repr, local))} scores latents (rank_local), {texts} completions: {rule}"]


def construct(name: str, spec: RewardProviderSpec) -> PreparedProvider:
    """Call the spec's factory and check what it made, without calling any of its methods.

    Raises:
        RewardConfigError: see `construct_provider`.
    """
    return PreparedProvider(name, spec, construct_provider(name, spec))
