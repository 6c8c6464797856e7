# SPDX-License-Identifier: Apache-2.0
"""Metrics to MLflow, for users who have it (or mlflow-skinny) installed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self, final

from posttrain.errors import RewardContractError, listing
from posttrain.runs.sinks.installed import installed
from posttrain.runs.sinks.sink import check_step, checked_metrics

__all__ = ["MlflowSink"]

_MOST: Final = 1000
"""Metrics that MLflow takes in one request."""
_FOREIGN: Final = re.compile(r"[^\w./: -]")
"""What MLflow refuses in a metric's name."""


@final
class MlflowSink:
    """Logs to a run of MLflow through its client, so that no global state of MLflow is touched.

    Characters that MLflow refuses in a name become ``_``: ``val/pass@4`` is ``val/pass_4`` there.

    Args:
        run_id: the run. Closing the sink leaves it open: whoever began it ends it.
        tracking_uri: the tracking server or store; None: what MLflow is set to.
        clock: gives the time of a value, in Unix seconds.

    Raises:
        RewardConfigError: MLflow is not installed.
    """

    def __init__(self, run_id: str, *, tracking_uri: str | None = None, clock: Callable[[], float] = time.time) -> None:
        self._client: Any = _client(tracking_uri)
        self._metric = _module("mlflow.entities").Metric
        self._clock = clock
        self._is_own = False
        self.run_id = run_id
        """The run, to open it in MLflow or to go on with it."""

    @classmethod
    def begin(
        cls,
        *,
        experiment: str,
        name: str,
        tracking_uri: str | None = None,
        tags: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> MlflowSink:
        """Begin a run that ends with the sink; the experiment is made when it is not there.

        Raises:
            RewardConfigError: MLflow is not installed.
        """
        client = _client(tracking_uri)
        found = client.get_experiment_by_name(experiment)
        experiment_id = client.create_experiment(experiment) if found is None else found.experiment_id
        run = client.create_run(experiment_id, run_name=name, tags=dict(tags or {}))
        sink = cls(run.info.run_id, tracking_uri=tracking_uri, clock=clock)
        sink._is_own = True
        return sink

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a step; the server has them when the call returns.

        Raises:
            RewardContractError: the step or a metric is not one, two metrics have one name in MLflow, or the sink is
                closed.
        """
        step, values = check_step(step), _renamed(checked_metrics(metrics))
        if self._client is None:
            raise RewardContractError("this MLflow sink is closed")
        now = int(self._clock() * 1000)
        entries = [self._metric(name, value, now, step) for name, value in values.items()]
        for start in range(0, len(entries), _MOST):
            self._client.log_batch(self.run_id, metrics=entries[start : start + _MOST])

    def close(self) -> None:
        """End the run if the sink began it. Closing twice is fine."""
        client, self._client = self._client, None
        if client is not None and self._is_own:
            client.set_terminated(self.run_id)


def _renamed(values: dict[str, float]) -> dict[str, float]:
    names: dict[str, list[str]] = {}
    for key in values:
        names.setdefault(_FOREIGN.sub("_", key), []).append(key)
    if shared := [f"{name!r}: {', '.join(map(repr, keys))}" for name, keys in names.items() if len(keys) > 1]:
        raise RewardContractError(f"these metrics have one name in MLflow, rename all but one:\n{listing(shared)}")
    return {name: values[key] for name, (key,) in names.items()}


def _client(tracking_uri: str | None) -> Any:
    return _module("mlflow.tracking").MlflowClient(tracking_uri=tracking_uri)


def _module(name: str) -> Any:
    return installed(name, purpose="The MLflow sink", install="mlflow-skinny")
