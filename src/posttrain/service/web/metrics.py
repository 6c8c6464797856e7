# SPDX-License-Identifier: Apache-2.0
"""Counters for Prometheus. Labels come from fixed lists: nothing that a client sends becomes one."""

from __future__ import annotations

from functools import partial
from typing import Final, final

__all__ = ["ServiceMetrics"]

_SPACE: Final = "posttrain_service"


@final
class ServiceMetrics:
    """The service's own registry, apart from that of the process."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        counter = partial(Counter, namespace=_SPACE, registry=self._registry)
        histogram = partial(Histogram, namespace=_SPACE, registry=self._registry)
        self._requests = counter("requests", "Requests answered.", ["path", "status"])
        self._received = counter("received_bytes", "Bytes of request bodies.")
        self._queue = Gauge(
            "queue_tasks", "Tasks accepted and not scored yet.", namespace=_SPACE, registry=self._registry
        )
        self._tasks = counter("tasks", "Tasks that ended: ok, error, lost or stopped.", ["scorer", "outcome"])
        self._task_s = histogram("task_seconds", "Seconds from its turn to its result.", ["scorer"])
        self._lost = counter("workers_lost", "Worker processes lost, by cause.", ["scorer", "cause"])
        self._forgotten = counter("results_forgotten", "Results let go before their time.")
        self._groups = counter("groups", "Groups scored or failed.", ["provider", "outcome"])
        self._group_s = histogram("group_seconds", "Seconds that a group took.", ["provider"])

    def answered(self, path: str, status: int, received: int) -> None:
        """A request ended; `path` is one of the routes, or ``other``."""
        self._requests.labels(path, str(status)).inc()
        self._received.inc(received)

    def queued(self, tasks: int) -> None:
        """How many tasks are accepted and not scored."""
        self._queue.set(tasks)

    def scored(self, scorer: str, outcome: str, seconds: float) -> None:
        """A task ended."""
        self._tasks.labels(scorer, outcome).inc()
        self._task_s.labels(scorer).observe(seconds)

    def worker_lost(self, scorer: str, cause: str) -> None:
        """A worker had to be replaced."""
        self._lost.labels(scorer, cause).inc()

    def forgotten(self, results: int) -> None:
        """Results were let go because there were too many."""
        self._forgotten.inc(results)

    def group(self, provider: str, outcome: str, seconds: float) -> None:
        """A group ended; `provider` is one of the catalog."""
        self._groups.labels(provider, outcome).inc()
        self._group_s.labels(provider).observe(seconds)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
