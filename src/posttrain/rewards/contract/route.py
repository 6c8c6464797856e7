# SPDX-License-Identifier: Apache-2.0
"""One provider for a mixed task set: each group goes to the one that its context names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Final, final

from posttrain.errors import RewardConfigError, RewardContractError, describe, listing
from posttrain.frozen import Json
from posttrain.rewards.contract.check import check_result
from posttrain.rewards.contract.construct import construct_provider
from posttrain.rewards.contract.lifecycle import opened
from posttrain.rewards.contract.names import name_faults
from posttrain.rewards.contract.provider import (
    CheckedRewardProvider,
    ProbedRewardProvider,
    RemoteRewardProvider,
    RewardProvider,
)
from posttrain.rewards.contract.request import RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.spec import CANONICAL_INPUTS, ProviderExecution, RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution

__all__ = ["route"]

SCORE: Final = "score"
"""Diagnostic of each route: the mean of its own term, so that every task of a mix has a curve."""


def route(
    key: Callable[[RewardContext], str],
    specs: Mapping[str, RewardProviderSpec],
    *,
    term: str | None = None,
    revision: str | None = None,
) -> RewardProviderSpec:
    """A spec whose provider asks ``key(context)`` for a name, once per group, and lets that entry score the group.

    Every entry has exactly one term; its value is reported under one shared term. Each entry sees only the inputs that
    it declares. Diagnostics keep their names behind the entry's (``gsm8k.calls``), and ``<entry>.score`` is the mean of
    the entry's own term.

    Args:
        key: names the entry for a group; it sees all inputs that any entry needs.
        specs: entry name to spec.
        term: name of the shared term; by default the entries' own where all agree, else ``task``.
        revision: by default the entries' revisions together; give one when `key` itself changes.

    Returns:
        A spec with the union of the needs, and an identity composed of every entry's and the name of `key`.

    Raises:
        RewardConfigError: naming every entry that can't take part.
    """
    faults = _faults(key, specs)
    if faults:
        raise RewardConfigError(f"route is not valid:\n{listing(faults)}")
    names = sorted(specs)
    own_terms = {spec.terms[0] for spec in specs.values()}
    shared = term if term is not None else own_terms.pop() if len(own_terms) == 1 else "task"
    semantics: dict[str, Json] = {
        "route": {name: _semantics(specs[name]) for name in names},
        "key": f"{getattr(key, '__module__', None)}:{getattr(key, '__qualname__', type(key).__qualname__)}",
    }
    return RewardProviderSpec(
        factory=partial(_Routed, key, dict(specs), shared),
        revision=",".join(f"{name}={specs[name].revision}" for name in names) if revision is None else revision,
        terms=(shared,),
        needs=tuple(need for need in CANONICAL_INPUTS if any(need in spec.needs for spec in specs.values())),
        diagnostics=[f"{name}.{diagnostic}" for name in names for diagnostic in (SCORE, *specs[name].diagnostics)],
        semantic_identity=semantics,
        execution=ProviderExecution(
            groups_in_flight=min(spec.execution.groups_in_flight for spec in specs.values()),
            repeatable=all(spec.execution.repeatable for spec in specs.values()),
        ),
    )


def _faults(key: object, specs: object) -> list[str]:
    if not isinstance(specs, Mapping) or not specs:
        return [f"expected a mapping from name to RewardProviderSpec that is not empty, got {describe(specs)}"]
    faults = [] if callable(key) else [f"key: expected a function of the context, got {describe(key)}"]
    faults += name_faults("entry", specs)
    for name, spec in specs.items():
        if not isinstance(spec, RewardProviderSpec):
            faults.append(f"{name!r}: expected a RewardProviderSpec, got {describe(spec)}")
            continue
        if len(spec.terms) != 1:
            faults.append(f"{name!r}: expected exactly one term, got {', '.join(spec.terms)}")
        if SCORE in spec.diagnostics:
            faults.append(f"{name!r}: its diagnostic {SCORE!r} would collide with the route's own")
        if spec.execution.rank_local:
            faults.append(f"{name!r}: a rank-local provider sees parts of groups and can't be routed")
    return faults


def _semantics(spec: RewardProviderSpec) -> Json:
    return {
        "revision": spec.revision,
        "needs": spec.needs,
        "terms": spec.terms,
        "semantic_identity": spec.semantic_identity,
    }


@final
class _Routed:
    """See `route`."""

    def __init__(self, key: Callable[[RewardContext], str], specs: Mapping[str, RewardProviderSpec], term: str) -> None:
        self._key = key
        self._specs = specs
        self._term = term
        self._providers = {name: construct_provider(name, spec) for name, spec in specs.items()}
        self._opened = ExitStack()

    def open(self) -> None:
        """Open every entry that has a life of its own; when one fails, those before it are closed again."""
        self._opened = opened(self._providers, what="the route's entry")

    def close(self) -> None:
        """Close what `open` opened, the last first."""
        self._opened.close()

    def check_machine(self) -> None:
        """Let every entry that can look at the machine do so; what any of them lacks is told at once."""
        lacking = list[str]()
        for name, provider in self._providers.items():
            if isinstance(provider, CheckedRewardProvider):
                try:
                    provider.check_machine()
                except RewardConfigError as error:
                    lacking += [f"the route's entry {name!r}: {line}" for line in error.message.splitlines()]
        if lacking:
            raise RewardConfigError("\n".join(lacking))

    def probe(self) -> str:
        """What the entries' own probes say, a line each; empty where none has one."""
        probed = {name: it for name, it in self._providers.items() if isinstance(it, ProbedRewardProvider)}
        return "\n".join(f"{name}: {provider.probe()}" for name, provider in probed.items())

    def calls_at_once(self) -> Mapping[str, int]:
        """The most that the entries may have in flight, together, at each address."""
        calls = dict[str, int]()
        for provider in self._providers.values():
            if isinstance(provider, RemoteRewardProvider):
                for address, count in provider.calls_at_once().items():
                    calls[address] = calls.get(address, 0) + count
        return calls

    def cautions(self) -> Sequence[str]:
        """What the entries have to say."""
        remote = {name: it for name, it in self._providers.items() if isinstance(it, RemoteRewardProvider)}
        return [f"{name}: {line}" for name, provider in remote.items() for line in provider.cautions()]

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """Let the entry that the group's context names score it."""
        name = self._key(request.context)
        provider, spec = self._find(name)
        masked = RewardContext(
            prompt=request.context.prompt if "prompt" in spec.needs else None,
            reference=request.context.reference if "reference" in spec.needs else None,
        )
        inner = RewardGroupRequest(request.group_id, request.candidates, masked)
        try:
            result = provider.evaluate(inner)
            check_result(spec, inner, result)
        except Exception as error:
            if (note := f"scored by the route's entry {name!r}") not in getattr(error, "__notes__", ()):
                error.add_note(note)
            raise
        items = tuple([self._renamed(name, spec.terms[0], item) for item in result.items])
        return RewardGroupResult(result.group_id, items)

    def _find(self, name: str) -> tuple[RewardProvider, RewardProviderSpec]:
        if not isinstance(name, str) or name not in self._providers:
            raise RewardContractError(
                f"the route's key named {describe(name)}; the entries are {', '.join(sorted(self._providers))}"
            )
        return self._providers[name], self._specs[name]

    def _renamed(self, name: str, own: str, item: RewardCandidateResult) -> RewardCandidateResult:
        value = item.result.terms[own]
        diagnostics = {f"{name}.{diagnostic}": it for diagnostic, it in item.result.diagnostics.items()}
        diagnostics[f"{name}.{SCORE}"] = MetricContribution.mean(value)
        return RewardCandidateResult(item.trajectory_id, RewardProviderResult({self._term: value}, diagnostics))
