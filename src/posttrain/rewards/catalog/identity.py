# SPDX-License-Identifier: Apache-2.0
"""Identities that stop a resume under other reward semantics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.frozen import FrozenJson

__all__ = ["ProviderIdentity", "StageIdentity", "canonical_json", "identity_sha256"]


def canonical_json(value: FrozenJson) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no escapes but the needed; 1, 1.0 and true differ.

    Raises:
        RewardConfigError: the value holds something that has no such text, such as a lone surrogate.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise RewardConfigError(f"an identity has to be plain JSON text: {error}") from error
    return text


def identity_sha256(value: FrozenJson) -> str:
    """SHA-256, in hexadecimal, over the UTF-8 of the canonical JSON text."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@final
class ProviderIdentity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run records of one selected provider, and what a resume must find again."""

    catalog: str | None
    """Normalised path of the catalog; None: built-ins only, or a catalog passed as an object."""
    provider: str
    """Name in the catalog."""
    revision: str
    """Declared revision."""
    sha256: str
    """SHA-256 of the semantic identity."""


@final
class StageIdentity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what the stage writes, beyond the batch itself."""

    providers: tuple[ProviderIdentity, ...]
    needs: dict[str, tuple[str, ...]]
    """Provider to the canonical inputs that it declares."""
    terms: dict[str, tuple[str, ...]]
    """Provider to its terms."""
    weights: dict[str, float]
    """Term to weight; every term is there."""
    estimator: str
    group_size: int
    on_unavailable: str
    max_dropped_fraction: float

    @property
    def sha256(self) -> str:
        """SHA-256 of the whole, by the same rule as a provider's."""
        return identity_sha256(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON, for a record: what reading it from a file would give."""
        plain: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(self)))
        return plain

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> StageIdentity:
        """Read a record back.

        Raises:
            RewardConfigError: it is not one, or holds a field that this version does not know and could not compare.
        """
        try:
            return msgspec.convert(record, cls)
        except msgspec.ValidationError as error:
            raise RewardConfigError(f"not a recorded stage identity: {error}") from error

    def differences(self, recorded: StageIdentity) -> list[str]:
        """One line for each field in which `recorded` is another; empty when the two are the same."""
        return _differences("", recorded.to_json(), self.to_json())


def _differences(path: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        return [line for key in keys for line in _differences(f"{path}.{key}", old.get(key), new.get(key))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for index, (one, other) in enumerate(zip(old, new, strict=True))
            for line in _differences(f"{path}[{index}]", one, other)
        ]
    if type(old) is type(new) and old == new:
        return []
    return [f"{path.lstrip('.')}: recorded {json.dumps(old)}, now {json.dumps(new)}"]
