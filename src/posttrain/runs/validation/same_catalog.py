# SPDX-License-Identifier: Apache-2.0
"""Training and validation run by one catalog: under one name there is one implementation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.rewards import ProviderIdentity, RewardCatalog

__all__ = ["check_same_catalog", "check_same_providers"]

_DECLARED: Final = ("terms", "needs", "diagnostics", "execution")


def check_same_catalog(resolved: RewardCatalog, given: object) -> None:
    """Refuse a catalog that is not the one which the config's path resolves to.

    Args:
        resolved: what the path resolves to.
        given: what training runs with.

    Raises:
        RewardConfigError: it is no `RewardCatalog`, or differs in its path, a name, or what a name stands for; each
            difference is told.
    """
    if not isinstance(given, RewardCatalog):
        raise RewardConfigError(
            f"catalog: expected the run's RewardCatalog, got {describe(given)}: validation selects names of the run's "
            "catalog, and a mapping could put a second implementation under one of them; name the catalog by its path, "
            "in rl.reward_catalog"
        )
    lines = list(_catalog_differences(resolved, given))
    if lines:
        raise RewardConfigError(
            "the catalog that was given is not that of the run, which rl.reward_catalog resolves to:\n"
            f"{listing(lines)}\n"
            "Training and validation resolve the same catalog; a provider for validation is another name in it."
        )


def _catalog_differences(resolved: RewardCatalog, given: RewardCatalog) -> Iterator[str]:
    if given.path != resolved.path:
        yield f"path: {_path(given.path)}, the run's is {_path(resolved.path)}"
    for name in sorted({*resolved, *given}):
        if name not in resolved:
            yield f"{name!r} is not in the run's"
        elif name not in given:
            yield f"{name!r} is in the run's only"
        else:
            its, own = given.spec(name), resolved.spec(name)
            yield from _identity_differences(given.identity(name), resolved.identity(name))
            for field in _DECLARED:
                if getattr(its, field) != getattr(own, field):
                    yield f"{name!r}, {field}: {getattr(its, field)!r}, the run's is {getattr(own, field)!r}"


def _identity_differences(its: ProviderIdentity, own: ProviderIdentity) -> Iterator[str]:
    for field in ("revision", "sha256"):
        if getattr(its, field) != getattr(own, field):
            yield f"{own.provider!r}, {field}: {getattr(its, field)!r}, the run's is {getattr(own, field)!r}"


def check_same_providers(catalog: RewardCatalog, recorded: Iterable[ProviderIdentity]) -> None:
    """Refuse a catalog in which a provider of a recorded run is another one now.

    Args:
        catalog: the catalog as it is now.
        recorded: what the run is made with.

    Raises:
        RewardConfigError: naming every field of every provider that differs.
    """
    lines = []
    for each in recorded:
        if each.catalog != catalog.path:
            lines.append(f"{each.provider!r}, catalog: {_path(catalog.path)}, the run's is {_path(each.catalog)}")
        if each.provider in catalog:
            lines += _identity_differences(catalog.identity(each.provider), each)
        else:
            lines.append(f"{each.provider!r} is in the run's catalog only")
    if lines:
        raise RewardConfigError(
            f"the catalog is not the one that the run is recorded with:\n{listing(lines)}\n"
            "A run is validated by its own catalog; score the rollouts outside of it with --out."
        )


def _path(path: str | None) -> str:
    return "none: built-ins, or passed as an object" if path is None else repr(path)
