# SPDX-License-Identifier: Apache-2.0
"""What a catalog says about a provider before anything of it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.frozen import FrozenJson, Json, freeze, strict_equal
from posttrain.rewards.contract.names import name_faults
from posttrain.rewards.contract.provider import RewardProvider

__all__ = ["CANONICAL_INPUTS", "ProviderExecution", "RewardProviderSpec"]

CANONICAL_INPUTS = ("prompt", "reference")
"""The inputs that a provider may declare in `needs`."""

_LEGACY = frozenset({"scope", "mode", "evaluate"})
_LEGACY_RECIPE: Final = (
    "RewardProviderSpec takes no {}: this is the older pointwise contract. Move the logic into a function "
    "(candidate, context) -> RewardProviderResult and use functools.partial(map_candidates, scorer) as the factory; "
    "docs/migrating.md shows it step by step"
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderExecution:
    """How a provider may be run. A config may lower these, never raise them."""

    groups_in_flight: int = 1
    """How many groups may be in `evaluate` at once, at least 1; above 1 the provider is safe to call from threads."""
    repeatable: bool = False
    """Whether a group may be evaluated again after a worker was lost, without harm and with the same result."""
    rank_local: bool = False
    """Whether the provider may be given a part of a group: one trajectory per rank, as in diffusion training."""

    def __post_init__(self) -> None:
        """Refuse traits of the wrong type or range, all at once."""
        faults = []
        if type(self.groups_in_flight) is not int or self.groups_in_flight < 1:
            faults.append(f"groups_in_flight: expected an int of at least 1, got {describe(self.groups_in_flight)}")
        flags: dict[str, object] = {"repeatable": self.repeatable, "rank_local": self.rank_local}
        faults += [f"{name}: expected a bool, got {describe(it)}" for name, it in flags.items() if type(it) is not bool]
        if faults:
            raise RewardConfigError(f"ProviderExecution is not valid:\n{listing(faults)}")


_DEFAULT_EXECUTION: Final = ProviderExecution()


@final
@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class RewardProviderSpec:
    """One entry of a catalog: how to make the provider, what it needs, what it will return, and which version it is.

    Args:
        factory: makes one provider; takes no argument, is deterministic, light, CPU only and free of side effects.
        revision: changes whenever the provider's code changes; not empty.
        terms: names of the terms, at least one; each result has exactly these.
        needs: the canonical inputs that the provider reads, of ``"prompt"`` and ``"reference"``. Only these are
            checked, frozen and handed over.
        diagnostics: names of reporting-only metrics; a result may leave some out.
        semantic_identity: JSON value of everything else that decides a score (model, prompts, timeouts, the *name* of
            a credential, never its value).
        execution: how the provider may be run.

    Raises:
        RewardConfigError: naming every field that is not valid.
    """

    factory: Callable[[], RewardProvider]
    revision: str
    terms: tuple[str, ...]
    needs: tuple[str, ...]
    diagnostics: tuple[str, ...]
    semantic_identity: FrozenJson
    execution: ProviderExecution

    def __new__(cls, *_: object, **fields: object) -> Self:
        """Refuse a spec of the older contract with the recipe, before Python complains of its arguments."""
        if legacy := sorted(_LEGACY.intersection(fields)):
            raise RewardConfigError(_LEGACY_RECIPE.format(", ".join(legacy)))
        if unknown := [name for name in fields if name not in cls.__slots__]:
            raise RewardConfigError(
                f"RewardProviderSpec takes no {', '.join(unknown)}; its fields are {', '.join(cls.__slots__)}"
            )
        return object.__new__(cls)

    def __init__(
        self,
        *,
        factory: Callable[[], RewardProvider],
        revision: str,
        terms: Sequence[str],
        needs: Sequence[str] = (),
        diagnostics: Sequence[str] = (),
        semantic_identity: Json = None,
        execution: ProviderExecution = _DEFAULT_EXECUTION,
    ) -> None:
        faults = [
            *_factory_faults(factory),
            *_revision_faults(revision),
            *_list_faults("terms", terms, "term"),
            *_list_faults("diagnostics", diagnostics, "diagnostic"),
            *_needs_faults(needs),
            *_execution_faults(execution),
        ]
        if isinstance(terms, (list, tuple)) and not terms:
            faults.append("terms: at least one is needed")
        frozen: FrozenJson = None
        try:
            frozen = freeze(semantic_identity, "semantic_identity")
        except RewardContractError as error:
            faults.extend(line.strip() for line in error.message.splitlines()[1:])
        if faults:
            raise RewardConfigError(f"RewardProviderSpec is not valid:\n{listing(faults)}")
        put = object.__setattr__
        put(self, "factory", factory)
        put(self, "revision", revision)
        put(self, "terms", tuple(terms))
        put(self, "needs", tuple(needs))
        put(self, "diagnostics", tuple(diagnostics))
        put(self, "semantic_identity", frozen)
        put(self, "execution", execution)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RewardProviderSpec):
            return NotImplemented
        mine, theirs = self._plain_fields(), other._plain_fields()  # of the same class
        return mine == theirs and strict_equal(self.semantic_identity, other.semantic_identity)

    def __hash__(self) -> int:
        return hash(self._plain_fields())

    def _plain_fields(self) -> tuple[object, ...]:
        return self.factory, self.revision, self.terms, self.needs, self.diagnostics, self.execution

    def __repr__(self) -> str:
        return (
            f"RewardProviderSpec(revision={self.revision!r}, terms={self.terms!r}, needs={self.needs!r}, "
            f"diagnostics={self.diagnostics!r})"
        )


def _revision_faults(revision: object) -> list[str]:
    if isinstance(revision, str) and revision.strip():
        return []
    return [f"revision: expected a string that is not empty, got {describe(revision)}"]


def _execution_faults(execution: object) -> list[str]:
    if isinstance(execution, ProviderExecution):
        return []
    return [f"execution: expected ProviderExecution, got {describe(execution)}"]


def _factory_faults(factory: object) -> list[str]:
    if not callable(factory):
        return [f"factory: expected a function without arguments, got {describe(factory)}"]
    if required := ", ".join(_required_arguments(factory)):
        return [f"factory: takes no argument, but {factory!r} requires {required}: bind them with functools.partial"]
    return []


def _required_arguments(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # Some built-in callables have no signature to look at; calling the factory will tell.
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variadic]


def _list_faults(field: str, names: object, kind: str) -> list[str]:
    if isinstance(names, str):
        return [f'{field}: expected a tuple of names, got the string {names!r}; write ("{names}",)']
    if not isinstance(names, (list, tuple)):
        return [f"{field}: expected a tuple of names, got {describe(names)}"]
    return [f"{field}: {fault}" for fault in name_faults(kind, names)]


def _needs_faults(needs: object) -> list[str]:
    if isinstance(needs, str):
        return [f'needs: expected a tuple of names, got the string {needs!r}; write ("{needs}",)']
    if not isinstance(needs, (list, tuple)):
        return [f"needs: expected a tuple of names, got {describe(needs)}"]
    faults = [
        f"needs: {describe(name)} is no canonical input; those are {', '.join(CANONICAL_INPUTS)}"
        for name in needs
        if not isinstance(name, str) or name not in CANONICAL_INPUTS
    ]
    if len(needs) != len({str(name) for name in needs}):
        faults.append(f"needs: a name stands twice in {needs!r}")
    return faults
