# SPDX-License-Identifier: Apache-2.0
"""One sink that is several: the run's own file first, then everything else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Self, final

from posttrain.errors import RewardError, RewardUnavailableError, listing, text_of
from posttrain.runs.sinks.sink import MetricSink, check_step, checked_metrics

__all__ = ["FanOut"]


@final
class FanOut:
    """Hands each step's metrics to `first`, and when they are safe there, to every other sink.

    A sink that fails does not keep the ones after it from being written, and its failure is raised at the end: a curve
    that silently stops is found too late.

    Args:
        first: the run's own metrics, `RunDirectory.metrics`.
        others: TensorBoard and the like.
    """

    def __init__(self, first: MetricSink, *others: MetricSink) -> None:
        self._first = first
        self._others = others

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a step everywhere.

        Raises:
            RewardContractError: the step or a metric is not one; nothing is recorded anywhere.
            RewardUnavailableError: another sink than the first failed, or several did; each is named. The first and
                those that did not fail have the metrics.
            RewardError: what the first sink raised, and no other was tried; or what another one raised of this kind.
        """
        step, values = check_step(step), checked_metrics(metrics)
        self._first.write(step, values)
        _everywhere([(sink, partial(sink.write, step, values)) for sink in self._others], f"at step {step}")

    def close(self) -> None:
        """Close every sink, the first one last.

        Raises:
            RewardUnavailableError: a sink could not be closed; all the others are.
        """
        with ExitStack() as last:
            last.callback(self._first.close)
            _everywhere([(sink, sink.close) for sink in self._others], "when it was closed")


def _everywhere(calls: list[tuple[MetricSink, Callable[[], None]]], when: str) -> None:
    failures: list[RewardError] = []
    try:
        # A stack makes all its calls, whatever they raise; it begins with the last.
        with ExitStack() as each:
            for sink, call in reversed(calls):
                each.callback(_told, sink, call, when, failures)
    except RewardError as error:
        if len(failures) < 2:
            raise
        lines = [failure.message for failure in failures]
        raise RewardUnavailableError(f"{len(failures)} metric sinks failed:\n{listing(lines)}") from error


def _told(sink: MetricSink, call: Callable[[], None], when: str, failures: list[RewardError]) -> None:
    try:
        call()
    except RewardError as error:
        failures.append(error)
        raise
    except Exception as error:
        failure = RewardUnavailableError(
            f"the metric sink {type(sink).__name__} failed {when}: {type(error).__name__}: {text_of(error)}"
        )
        failure.because_of(error)
        failures.append(failure)
        raise failure from error
