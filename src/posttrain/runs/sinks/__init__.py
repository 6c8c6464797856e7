# SPDX-License-Identifier: Apache-2.0
"""Where the metrics of a run go: JSONL always, TensorBoard, W&B and MLflow where they are installed."""

from posttrain.runs.sinks.fan_out import FanOut
from posttrain.runs.sinks.jsonl import MetricsLine, MetricsLog, metric_lines
from posttrain.runs.sinks.mlflow import MlflowSink
from posttrain.runs.sinks.sink import MetricSink
from posttrain.runs.sinks.tensorboard import TensorBoardSink
from posttrain.runs.sinks.wandb import WandbSink

__all__ = [
    "FanOut",
    "MetricSink",
    "MetricsLine",
    "MetricsLog",
    "MlflowSink",
    "TensorBoardSink",
    "WandbSink",
    "metric_lines",
]
