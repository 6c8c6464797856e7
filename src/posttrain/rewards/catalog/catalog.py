# SPDX-License-Identifier: Apache-2.0
"""The providers that a run can choose from: the built-ins and what the operator's catalog adds."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.rewards.catalog.identity import ProviderIdentity, identity_sha256
from posttrain.rewards.contract.names import name_fault
from posttrain.rewards.contract.spec import RewardProviderSpec
from posttrain.rewards.scorers import BUILT_IN

__all__ = ["RewardCatalog"]


@final
class RewardCatalog(Mapping[str, RewardProviderSpec]):
    """Name to provider spec, read-only: the built-ins plus custom entries, which add names and override none.

    Args:
        entries: the custom entries.
        path: normalised path of the factory that made them, for the record; None: made in this process.

    Raises:
        RewardConfigError: naming every entry whose name is not valid or taken, or that is no `RewardProviderSpec`.
    """

    __slots__ = ("_specs", "path")

    def __init__(self, entries: Mapping[str, RewardProviderSpec] | None = None, *, path: str | None = None) -> None:
        entries = {} if entries is None else entries
        if not isinstance(entries, Mapping):
            raise RewardConfigError(
                f"a catalog is a mapping from provider name to RewardProviderSpec, got {describe(entries)}"
            )
        faults = [fault for name, spec in entries.items() for fault in _entry_faults(name, spec)]
        if faults:
            raise RewardConfigError(f"catalog {path or 'passed as an object'} is not valid:\n{listing(faults)}")
        self._specs: dict[str, RewardProviderSpec] = {**BUILT_IN, **entries}
        self.path = path

    def __getitem__(self, name: str) -> RewardProviderSpec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __repr__(self) -> str:
        return f"RewardCatalog(path={self.path!r}, providers={list(self._specs)!r})"

    def spec(self, name: str) -> RewardProviderSpec:
        """The spec of that name.

        Raises:
            RewardConfigError: there is none; the nearest names and all names are listed.
        """
        if isinstance(name, str) and name in self._specs:
            return self._specs[name]
        raise RewardConfigError(self.unknown(name))

    def unknown(self, name: object) -> str:
        """An error's words for a name that is not here: the nearest one, and all there are."""
        near = difflib.get_close_matches(str(name), self._specs, n=1)
        guess = f"; did you mean {near[0]!r}?" if near else "."
        shown = repr(name) if isinstance(name, str) else describe(name)
        return f"no provider is named {shown}{guess} Known names: {', '.join(sorted(self._specs))}"

    def identity(self, name: str) -> ProviderIdentity:
        """What a run records of the provider of that name."""
        spec = self.spec(name)
        return ProviderIdentity(self.path, name, spec.revision, identity_sha256(spec.semantic_identity))


def _entry_faults(name: object, spec: object) -> Iterator[str]:
    if (fault := name_fault("provider", name)) is not None:
        yield fault
    elif name in BUILT_IN:
        yield f"{name!r} is a built-in provider and can't be overridden: choose another name"
    if isinstance(spec, RewardProviderSpec):
        return
    hint = "; make one with RewardProviderSpec(factory=..., revision=..., terms=...)"
    if any(hasattr(spec, legacy) for legacy in ("scope", "mode")) or callable(getattr(spec, "evaluate", None)):
        hint = "; providers of the older pointwise contract are moved over as docs/migrating.md shows"
    yield f"{name!r}: expected a RewardProviderSpec, got {describe(spec)}{hint}"
