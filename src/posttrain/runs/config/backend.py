# SPDX-License-Identifier: Apache-2.0
"""The evaluator that a config's backend names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from posttrain.errors import RewardConfigError
from posttrain.rewards import GroupEvaluator, InProcessEvaluator

if TYPE_CHECKING:
    from posttrain.runs.config.model import RLConfig

__all__ = ["evaluator_of"]


def evaluator_of(config: RLConfig) -> GroupEvaluator:
    """A new evaluator of ``rl.reward_stage.backend`` with the settings of its section; nothing is started yet."""
    stage = config.reward_stage
    if stage.backend == "processes":
        from posttrain.execution import ProcessEvaluator

        return ProcessEvaluator(
            workers=stage.processes.workers,
            group_timeout_s=stage.processes.group_timeout_s,
            memory_limit_mib=stage.processes.memory_limit_mib,
            start_timeout_s=stage.processes.start_timeout_s,
            catalog_folder=config.reward_catalog_folder,
        )
    if stage.backend == "ray":
        from posttrain.execution import RayEvaluator

        settings = stage.ray.model_dump(exclude={"resources", "runtime_env"})
        environment = None if stage.ray.runtime_env is None else _runtime_env(stage.ray.runtime_env)
        return RayEvaluator(**settings, resources=stage.ray.resources, runtime_env=environment)
    return InProcessEvaluator()


def _runtime_env(file: str) -> dict[str, Any]:
    """What the file holds; no error quotes it, since it may hold secrets."""
    import yaml

    where = f"rl.reward_stage.ray.runtime_env: {file}"
    try:
        content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise RewardConfigError(f"{where} can't be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError):
        raise RewardConfigError(f"{where} is no YAML in UTF-8") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise RewardConfigError(f"{where}: expected a mapping such as env_vars: {{NAME: value}}")
    return content
