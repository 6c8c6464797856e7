# SPDX-License-Identifier: Apache-2.0
"""The reward actors of one evaluator: asked for, ready, let go, lost and replaced. Between a least and a most."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from secrets import token_hex
from time import monotonic
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError, text_of
from posttrain.execution import wire
from posttrain.execution.ray.actor import RewardActor
from posttrain.execution.ray.cluster import Cluster, import_ray
from posttrain.execution.ray.member import Member, call
from posttrain.execution.ray.messages import Order, Ready
from posttrain.execution.ray.settings import RaySettings

__all__ = ["Pool"]

_LOG: Final = logging.getLogger(__name__)
_CONTROLS: Final = 2
"""Threads of an actor that answer questions beside its work."""
_DEAD_STARTS: Final = 3
"""Actors in a row that may die while they start."""
MERCY_S: Final = 5.0
"""Seconds that a silent actor is left alone after its groups were given away; then it is killed."""


@final
class Pool:
    """Touched by the dispatcher's thread alone.

    Args:
        cluster: where the actors run.
        settings: of the pool.
        order: what each actor is told.
        post: hands a call to the dispatcher's thread.
    """

    def __init__(
        self, cluster: Cluster, settings: RaySettings, order: Order, post: Callable[[Callable[[], None]], None]
    ) -> None:
        self.members: list[Member] = []
        self.wanted = settings.min_actors
        """Actors that the pool tries to have."""
        self.failure: RewardError | None = None
        """Why no actor can be started; ends every batch."""
        self.start_s = 0.5
        """Seconds that the last start took."""
        self._cluster = cluster
        self._settings = settings
        self._order = msgspec.msgpack.encode(order)
        self._post = post
        self._count = 0
        self._ready: list[Member] | None = None
        """What `ready` gives, until a member changes."""
        self._dead_starts = 0
        self._token = token_hex(4)
        self._remote: Any = import_ray().remote(concurrency_groups={"control": _CONTROLS})(RewardActor)

    def ready(self) -> list[Member]:
        """Those that take groups."""
        if self._ready is None:
            self._ready = [each for each in self.members if each.state == "ready"]
        return self._ready

    def starting(self) -> list[Member]:
        """Those that were asked for."""
        return [each for each in self.members if each.state == "starting"]

    def fill(self) -> None:
        """Ask for as many actors as are missing."""
        missing = self.wanted - len(self.ready()) - len(self.starting())
        for _ in range(0 if self.failure is not None else missing):
            self._start()

    def forgive(self) -> None:
        """Whoever waited has been told of the failure; the next call may try again."""
        self.failure, self._dead_starts = None, 0

    def tend(self, now: float, *, busy: bool) -> None:
        """Give up starts that take too long, kill the silent, let the idle go."""
        for member in self.starting():
            if now - member.started > self._settings.start_timeout_s:
                self._not_started(member)
        for member in [each for each in self.members if each.kill_at is not None]:
            if now >= (member.kill_at or now) or (member.state == "lost" and not busy):
                self.kill(member)
        surplus = len(self.ready()) - self._settings.min_actors
        for member in sorted(self.ready(), key=lambda each: each.idle_since)[: max(0, surplus)]:
            if not member.out and now - member.idle_since >= self._settings.idle_s:
                self.wanted = max(self._settings.min_actors, self.wanted - 1)
                self._let_go(member)

    def next_due(self, now: float) -> float | None:
        """Seconds until `tend` has something to do; None: nothing is due."""
        due = [each.started + self._settings.start_timeout_s for each in self.starting()]
        due += [each.kill_at for each in self.members if each.kill_at is not None]
        if len(self.ready()) > self._settings.min_actors:
            due += [each.idle_since + self._settings.idle_s for each in self.ready() if not each.out]
        return max(0.01, min(due) - now) if due else None

    def retire(self, member: Member, *, mercy: bool) -> None:
        """It takes no more groups. With `mercy` it lives a little longer, so that a late answer can be counted."""
        member.state, self._ready = "lost", None
        if mercy:
            member.kill_at = monotonic() + MERCY_S
        else:
            self.kill(member)

    def kill(self, member: Member) -> None:
        """End the actor's process, whatever it does."""
        self._ready = None
        if member in self.members:
            self.members.remove(member)
        if self._cluster.is_up():
            import_ray().kill(member.actor, no_restart=True)

    def close_all(self, closed: Callable[[Member, Any, BaseException | None], None]) -> list[Member]:
        """Ask every ready actor to close its providers; `closed` takes each answer. The others are killed."""
        asked = self.ready()
        for member in [each for each in self.members if each.state != "ready"]:
            self.kill(member)
        self._ready = None
        for member in asked:
            member.state = "leaving"
            call(member.actor.close.remote(), self._post, partial(closed, member))
        return asked

    def _start(self) -> None:
        self._count += 1
        settings = self._settings
        options: dict[str, Any] = {
            "name": f"posttrain-reward-{self._token}-{self._count}",
            "num_cpus": settings.num_cpus,
            "resources": dict(settings.resources),
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        if settings.runtime_env:
            options["runtime_env"] = dict(settings.runtime_env)
        if settings.namespace is not None:
            options["namespace"] = settings.namespace
        member = Member(self._count, self._remote.options(**options).remote(), monotonic())
        self.members.append(member)
        call(
            member.actor.start.remote(self._order), self._post, lambda value, error: self._started(member, value, error)
        )

    def _started(self, member: Member, value: Any, error: BaseException | None) -> None:
        if member not in self.members:
            return  # given up already
        if error is not None:
            self.kill(member)
            self._died_at_start(member, error)
            return
        ready = msgspec.msgpack.decode(value, type=Ready)
        if ready.error is not None:
            self.kill(member)
            self.failure = wire.decode_error(ready.error)
            return
        now = monotonic()
        member.is_ready(ready, now)
        self._ready = None
        self.start_s, self._dead_starts = now - member.started, 0

    def _died_at_start(self, member: Member, error: BaseException) -> None:
        import ray

        text = self._masked(text_of(error))
        if isinstance(error, ray.exceptions.RuntimeEnvSetupError):
            self.failure = RewardConfigError(f"the actors' runtime_env can't be set up: {text}")
            return
        if isinstance(error, ray.exceptions.RayTaskError):
            self.failure = RewardConfigError(
                f"{member} could not start: {text}\nIs posttrain installed on every node, in the same version?"
            )
            return
        self._dead_starts += 1
        _LOG.warning("%s died while it started: %s", member, text)
        if self._dead_starts >= _DEAD_STARTS:
            self.failure = RewardUnavailableError(
                f"{self._dead_starts} reward actors in a row died while they started; the last: {text}"
            )
            self.failure.because_of(error)

    def _not_started(self, member: Member) -> None:
        self.kill(member)
        if len(self.ready()) >= self._settings.min_actors:
            # Growing is an offer that the cluster may decline.
            self.wanted = max(self._settings.min_actors, len(self.ready()))
            _LOG.warning("the pool stays at %d actors: the cluster has no room for more", len(self.ready()))
            return
        settings = self._settings
        asked = [f"{name} {amount:g}" for name, amount in {"CPU": settings.num_cpus, **settings.resources}.items()]
        self.failure = RewardUnavailableError(
            f"{len(self.ready())} of {settings.min_actors} reward actors were ready after "
            f"{settings.start_timeout_s:g} s (start_timeout_s). Each asks for {', '.join(asked)}; the cluster has "
            f"{self._cluster.resources()}. Lower min_actors or what each asks for, or add nodes."
        )

    def _let_go(self, member: Member) -> None:
        def closed(value: Any, error: BaseException | None) -> None:
            problem = wire.decode_error(value) if value is not None else error
            if problem is not None:
                _LOG.warning("%s was let go, but: %s", member, problem)
            self.kill(member)

        member.state, self._ready = "leaving", None
        member.kill_at = monotonic() + MERCY_S
        call(member.actor.close.remote(), self._post, closed)

    def _masked(self, text: str) -> str:
        """Without the values of the runtime environment's variables, which Ray may quote."""
        for name, value in self._variables():
            text = text.replace(value, f"[value of {name}]")
        return text

    def _variables(self) -> Iterator[tuple[str, str]]:
        variables = self._settings.runtime_env.get("env_vars", {})
        for name, value in variables.items() if isinstance(variables, dict) else ():
            if isinstance(value, str) and len(value) >= 4:
                yield str(name), value
