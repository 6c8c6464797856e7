# SPDX-License-Identifier: Apache-2.0
"""Metrics to Weights & Biases, for users who have it installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, final

from posttrain.errors import RewardContractError
from posttrain.runs.sinks.files import make_folder
from posttrain.runs.sinks.installed import installed
from posttrain.runs.sinks.sink import check_step, checked_metrics

__all__ = ["WandbSink"]


@final
class WandbSink:
    """Logs to a run of W&B. The step is a metric of its own (``step``), so that a late value is not thrown away.

    Args:
        run: what ``wandb.init`` returned. Closing the sink leaves it open: whoever began it ends it.
    """

    def __init__(self, run: Any) -> None:
        self._run: Any = run
        self._is_own = False
        # W&B's own step only ever grows, and drops what comes later for an earlier one.
        run.define_metric("step")
        run.define_metric("*", step_metric="step")

    @classmethod
    def begin(
        cls, *, project: str, name: str, folder: Path, config: Mapping[str, Any] | None = None, **settings: Any
    ) -> WandbSink:
        """Begin a run that ends with the sink.

        Args:
            project: the project.
            name: name of the run.
            folder: where W&B keeps its files.
            config: what to show as the run's config.
            settings: everything else that ``wandb.init`` takes, for example ``mode="offline"`` or ``id`` and
                ``resume`` to go on with an earlier run.

        Raises:
            RewardConfigError: W&B is not installed.
        """
        wandb = installed("wandb", purpose="The W&B sink", install="wandb")
        make_folder(folder)
        sink = cls(wandb.init(project=project, name=name, dir=str(folder), config=dict(config or {}), **settings))
        sink._is_own = True
        return sink

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a step; W&B sends them in the background.

        Raises:
            RewardContractError: the step or a metric is not one, or the sink is closed.
        """
        step, values = check_step(step), checked_metrics(metrics)
        if self._run is None:
            raise RewardContractError("this W&B sink is closed")
        self._run.log({"step": step, **values})

    def close(self) -> None:
        """End the run if the sink began it. Closing twice is fine."""
        run, self._run = self._run, None
        if run is not None and self._is_own:
            run.finish()
