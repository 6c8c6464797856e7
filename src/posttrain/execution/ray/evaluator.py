# SPDX-License-Identifier: Apache-2.0
"""`RayEvaluator`: groups are evaluated by reward actors on a Ray cluster."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, final

from posttrain.errors import RewardConfigError, RewardError, describe
from posttrain.execution.ray.batch import Batch
from posttrain.execution.ray.cluster import Cluster, import_ray
from posttrain.execution.ray.dispatcher import Dispatcher
from posttrain.execution.ray.messages import Order
from posttrain.execution.ray.resolving import check_selection, order_of
from posttrain.execution.ray.settings import RaySettings
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.prepare import Selection, construct

__all__ = ["RayEvaluator"]

_GROUPS_AHEAD = 64
"""Groups per actor that a caller who feeds in stretches should bring, so that crossings stay few."""


@final
class RayEvaluator:
    """Evaluates on reward actors, each of which resolves the catalog's path and makes its own providers.

    Usable from any thread. Calls that overlap share the actors. An actor that is lost is replaced; its groups are given
    to another only when every selected provider is `repeatable`, otherwise they are unavailable by name.

    Args:
        address: of a running cluster, ``auto`` for the one of this machine, ``local`` for one that is started and
            stopped with the evaluator. Default: the Ray that this process is connected to, else ``RAY_ADDRESS``, else
            a local one. A Ray that was there before is never stopped.
        min_actors: actors that are there from `open` on, at least 1.
        max_actors: most actors when there is a backlog. Default: `min_actors`, the pool does not grow.
        num_cpus: cores that Ray sets aside for each actor; a share will do for providers that wait.
        resources: custom resources of each actor, by name.
        runtime_env: Ray's runtime environment of the actors; the values of its variables are never shown.
        start_timeout_s: seconds until an actor has to be placed and ready.
        group_timeout_s: wall-clock seconds for one group by all selected providers; also how long an actor may give no
            sign of life before it counts as lost.
        redispatches: how often a group that was lost with its actor is given to another, 0 or more; repeatable
            providers only.
        idle_s: seconds without work after which actors above `min_actors` are let go.
        namespace: Ray namespace of the actors. Default: Ray's own anonymous one.

    Raises:
        RewardConfigError: naming every argument that is not valid.

    Example:
        ::

            evaluator = RayEvaluator(address="auto", min_actors=4, max_actors=32)
            with RewardWorker(catalog="my_rewards:catalog", reward="mentions", group_size=8, evaluator=evaluator) as it:
                it.score(trajectories)
    """

    def __init__(  # noqa: PLR0913  # keyword-only settings, each with its own meaning
        self,
        *,
        address: str | None = None,
        min_actors: int = 1,
        max_actors: int | None = None,
        num_cpus: float = 1.0,
        resources: Mapping[str, float] | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        start_timeout_s: float = 120.0,
        group_timeout_s: float = 300.0,
        redispatches: int = 2,
        idle_s: float = 60.0,
        namespace: str | None = None,
    ) -> None:
        self._settings = RaySettings(
            address=address,
            min_actors=min_actors,
            max_actors=max_actors,
            num_cpus=num_cpus,
            resources={} if resources is None else resources,
            runtime_env={} if runtime_env is None else runtime_env,
            start_timeout_s=start_timeout_s,
            group_timeout_s=group_timeout_s,
            redispatches=redispatches,
            idle_s=idle_s,
            namespace=namespace,
        )
        self._lock = threading.Lock()
        self._selection: Selection | None = None
        self._order: Order | None = None
        self._cluster: Cluster | None = None
        self._dispatcher: Dispatcher | None = None
        self._late_before = 0

    @property
    def settings(self) -> RaySettings:
        """What it was made with, checked."""
        return self._settings

    def __repr__(self) -> str:
        state = "closed" if self._dispatcher is None else "open"
        return f"RayEvaluator({state}, {self._settings!r})"

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """See `GroupEvaluator.prepare`. The providers are constructed here too, to find faults before any actor starts.

        Raises:
            RewardConfigError: the catalog has no path or is a file, a provider is rank-local, or a factory fails.
        """
        if groups_in_flight is not None and (type(groups_in_flight) is not int or groups_in_flight < 1):
            raise RewardConfigError(
                f"groups_in_flight: expected an int of at least 1, got {describe(groups_in_flight)}"
            )
        check_selection(selection)
        import_ray(self._settings.address)
        for name, spec in zip(selection.names, selection.specs, strict=True):
            construct(name, spec)
        order = order_of(selection, groups_in_flight)
        with self._lock:
            if self._dispatcher is not None and order != self._order:
                raise RewardConfigError("a RayEvaluator is open for other providers: give each worker its own")
            self._selection, self._order = selection, order

    @property
    def groups_in_flight(self) -> int:
        """See `GroupEvaluator.groups_in_flight`."""
        return _GROUPS_AHEAD * self._settings.most

    @property
    def late_answers(self) -> int:
        """Answers of actors that came after their groups had been given to another; they changed nothing."""
        return self._late_before + (0 if self._dispatcher is None else self._dispatcher.late_answers)

    @property
    def actors(self) -> int:
        """Actors that take groups right now."""
        return 0 if self._dispatcher is None else self._dispatcher.actors

    def open(self) -> None:
        """See `GroupEvaluator.open`: connects, and returns when `min_actors` actors have compared identities.

        Raises:
            RewardConfigError: an actor resolves other providers, or its machine lacks what they need.
            RewardUnavailableError: no cluster, or no room for the actors within `start_timeout_s`.
        """
        with self._lock:
            self._opened()

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """See `GroupEvaluator.evaluate`."""
        if not groups:
            return []
        with self._lock:
            dispatcher = self._opened()
        batch = Batch(groups, collect_unavailable=collect_unavailable, redispatches=self._settings.redispatches)
        dispatcher.submit(batch)
        try:
            batch.done.wait()
        except BaseException:
            # An interrupt does not wait for groups that are under way; nothing new is given out.
            dispatcher.cancel(batch)
            raise
        return batch.result()

    def close(self) -> None:
        """See `GroupEvaluator.close`: closes the providers, ends the actors, and a local Ray that was started."""
        with self._lock:
            failures = self._closed()
        # Raised only where no other error is on its way out, which matters more.
        if failures and sys.exc_info()[0] is None:
            for other in failures[1:]:
                failures[0].add_note(f"and: {other}")
            raise failures[0]

    def _opened(self) -> Dispatcher:
        if self._selection is None or self._order is None:
            raise RewardConfigError("a RayEvaluator is prepared by its worker: pass it as RewardWorker(evaluator=...)")
        gone = self._cluster is not None and not self._cluster.is_up()
        if self._dispatcher is not None and (gone or self._dispatcher.is_over):
            self._closed()
        if self._dispatcher is not None:
            return self._dispatcher
        cluster = Cluster(self._settings.address, self._settings.namespace)
        try:
            dispatcher = Dispatcher(cluster, self._settings, self._selection, self._order)
            try:
                dispatcher.open()
            except BaseException:
                dispatcher.close()
                raise
        except BaseException:
            cluster.leave()
            raise
        self._cluster, self._dispatcher = cluster, dispatcher
        return dispatcher

    def _closed(self) -> list[RewardError]:
        dispatcher, self._dispatcher = self._dispatcher, None
        cluster, self._cluster = self._cluster, None
        failures = []
        if dispatcher is not None:
            failures = dispatcher.close()
            self._late_before += dispatcher.late_answers
        if cluster is not None:
            cluster.leave()
        return failures
