# SPDX-License-Identifier: Apache-2.0
"""Reward actors on a Ray cluster. Ray itself is imported when an evaluator is prepared."""

from posttrain.execution.ray.evaluator import RayEvaluator

__all__ = ["RayEvaluator"]
