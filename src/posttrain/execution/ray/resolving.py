# SPDX-License-Identifier: Apache-2.0
"""From a selection to an order, and in the actor from the order back to providers: the same ones, or a refusal."""

from __future__ import annotations

import posttrain
from posttrain.errors import RewardConfigError, listing
from posttrain.execution.ray.credentials import check_credentials
from posttrain.execution.ray.messages import Order
from posttrain.rewards.catalog.identity import canonical_json
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.provider import CheckedRewardProvider
from posttrain.rewards.stage.prepare import PreparedProvider, Selection, construct, select

__all__ = ["check_selection", "identities", "order_of", "resolve"]


def check_selection(selection: Selection) -> None:
    """Refuse a selection that no actor could resolve.

    Raises:
        RewardConfigError: the catalog was passed as an object, or is a file; or a provider is rank-local.
    """
    path = selection.catalog.path
    faults = [
        f"provider {name!r} is rank-local: it reads latents that stay on their rank; use the ranks of the trainer"
        for name, spec in zip(selection.names, selection.specs, strict=True)
        if spec.execution.rank_local
    ]
    if path is None and any(name not in load_catalog() for name in selection.names):
        faults.append(
            "the catalog was passed as an object: actors resolve it themselves, so give its path, "
            "package.module:factory"
        )
    if path is not None and ".py@sha256:" in path:
        faults.append(
            f"the catalog is a file ({path.partition('@')[0]}): other machines may lack it; put it into a package that "
            "is installed on every node, and give package.module:factory"
        )
    if faults:
        raise RewardConfigError(f"Ray can't run this selection:\n{listing(faults)}")


def identities(selection: Selection) -> tuple[str, ...]:
    """Canonical text of what each provider is: its recorded identity, and what it declares."""
    texts = []
    for name, spec in zip(selection.names, selection.specs, strict=True):
        identity = selection.catalog.identity(name)
        execution = spec.execution
        texts.append(
            canonical_json(
                {
                    "catalog": identity.catalog,
                    "provider": name,
                    "revision": identity.revision,
                    "sha256": identity.sha256,
                    "needs": spec.needs,
                    "terms": spec.terms,
                    "diagnostics": spec.diagnostics,
                    "execution": (execution.groups_in_flight, execution.repeatable, execution.rank_local),
                }
            )
        )
    return tuple(texts)


def order_of(selection: Selection, groups_in_flight: int | None) -> Order:
    """What every actor of a pool is told."""
    path = selection.catalog.path
    return Order(posttrain.__version__, path, selection.names, identities(selection), groups_in_flight)


def resolve(order: Order, where: str) -> tuple[tuple[PreparedProvider, ...], list[int]]:
    """The providers of the order, checked and constructed but not opened, and how many groups each may have in flight.

    Args:
        order: the driver's.
        where: what to call this actor in an error.

    Raises:
        RewardConfigError: another version of posttrain, another identity, a missing credential, a machine that lacks
            something, or a catalog or factory that fails here.
    """
    if order.version != posttrain.__version__:
        raise RewardConfigError(
            f"{where} has posttrain {posttrain.__version__}, the driver {order.version}: install the same on every node"
        )
    try:
        selection = select(load_catalog(order.catalog), order.names)
    except RewardConfigError as error:
        error.add_note(f"in {where}")
        raise
    pairs = list(zip(order.names, order.identities, identities(selection), strict=True))
    if others := [
        f"{name!r}: the driver has {theirs}, here is {ours}" for name, theirs, ours in pairs if theirs != ours
    ]:
        raise RewardConfigError(
            f"{where} resolves other providers than the driver; nothing was scored:\n{listing(others)}\n"
            "Install the same version of the catalog's package on every node."
        )
    check_credentials(selection, where)
    try:
        prepared = tuple(construct(name, spec) for name, spec in zip(selection.names, selection.specs, strict=True))
        for each in prepared:
            _check_machine(each)
    except RewardConfigError as error:
        error.add_note(f"in {where}")
        raise
    declared = [each.spec.execution.groups_in_flight for each in prepared]
    return prepared, [min(limit, order.groups_in_flight or limit) for limit in declared]


def _check_machine(prepared: PreparedProvider) -> None:
    if not isinstance(prepared.provider, CheckedRewardProvider):
        return
    try:
        prepared.provider.check_machine()
    except RewardConfigError as error:
        error.provider = error.provider or prepared.name
        raise
    except Exception as error:
        failure = RewardConfigError(f"check_machine raised {type(error).__name__}: {error}", provider=prepared.name)
        failure.because_of(error)
        raise failure from error
