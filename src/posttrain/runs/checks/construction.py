# SPDX-License-Identifier: Apache-2.0
"""What one construction of a provider gave, in a form that can be compared between processes."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any, final

import msgspec

from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import canonical_json, identity_sha256
from posttrain.rewards.contract.provider import RewardProvider
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.runs.checks.credentials import Credentials, step_to

__all__ = ["Construction", "construction_of", "differences", "origin_of"]

_SHORT = 16


@final
class Construction(msgspec.Struct, frozen=True, kw_only=True):
    """One construction. It holds digests of the semantic identity and no value of it: nothing secret travels in it."""

    provider: str
    round: int
    """1 or 2 in one process."""
    kind: str
    """Module and name of the provider's class."""
    revision: str
    terms: tuple[str, ...]
    needs: tuple[str, ...]
    diagnostics: tuple[str, ...]
    execution: tuple[int, bool, bool]
    """Groups in flight, repeatable, rank-local."""
    sha256: str
    """SHA-256 of the semantic identity."""
    leaves: dict[str, str]
    """Place in the semantic identity to the digest of what stands there."""
    secrets: tuple[str, ...]
    """A line for each place that holds a resolved secret."""


_COMPARED = ("kind", "revision", "terms", "needs", "diagnostics", "execution")
_WORDS = {"kind": "the provider's class"}


def construction_of(
    name: str, spec: RewardProviderSpec, provider: RewardProvider, credentials: Credentials, *, number: int = 1
) -> Construction:
    """Record a construction.

    Args:
        name: the provider's name in its catalog.
        spec: its spec.
        provider: what the spec's factory made.
        credentials: what may not stand in an identity.
        number: the round.

    Raises:
        RewardConfigError: the semantic identity has no canonical JSON text.
    """
    kind, execution, identity = type(provider), spec.execution, spec.semantic_identity
    return Construction(
        provider=name,
        round=number,
        kind=f"{kind.__module__}:{kind.__qualname__}",
        revision=credentials.masked(spec.revision),
        terms=spec.terms,
        needs=spec.needs,
        diagnostics=spec.diagnostics,
        execution=(execution.groups_in_flight, execution.repeatable, execution.rank_local),
        sha256=identity_sha256(identity),
        leaves={place: _digest(leaf) for place, leaf in _leaves(identity, "semantic_identity", credentials)},
        secrets=(
            *credentials.found_in(spec.revision, "revision"),
            *credentials.found_in(identity, "semantic_identity"),
        ),
    )


def differences(one: Construction, other: Construction) -> list[str]:
    """The fields, and the places in the semantic identity, in which two constructions differ. Never their values."""
    fields = [_WORDS.get(field, field) for field in _COMPARED if getattr(one, field) != getattr(other, field)]
    places = [*one.leaves, *(place for place in other.leaves if place not in one.leaves)]
    differing = [place for place in places if one.leaves.get(place) != other.leaves.get(place)]
    if one.sha256 != other.sha256 and not differing:
        differing = ["semantic_identity"]
    return fields + differing


def _leaves(value: Any, path: str, credentials: Credentials) -> Iterator[tuple[str, Any]]:
    """Every scalar and every empty container, with its place."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}{step_to(credentials.masked(key))}", credentials)
    elif isinstance(value, tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]", credentials)
    else:
        yield path, value


def _digest(leaf: Any) -> str:
    return hashlib.sha256(canonical_json(leaf).encode()).hexdigest()[:_SHORT]


def origin_of(catalog: RewardCatalog) -> str | None:
    """File of the module that a catalog was made by; None: it is no module's, or has no file."""
    module = sys.modules.get((catalog.path or "").rpartition(":")[0])
    return getattr(module, "__file__", None)
