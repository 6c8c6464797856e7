# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the run's folder, each whole or not there: ``checkpoints/step-00000010.pt``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from posttrain.data import EnvState
from posttrain.errors import RewardConfigError
from posttrain.rollouts.atomic import sync_folder
from posttrain.training.nft.policy import DiffusionPolicy

__all__ = ["load_checkpoint", "prune_checkpoints", "save_checkpoint"]

_FOLDER: Final = "checkpoints"
_FORMAT: Final = 1


def _file(run: Path, step: int) -> Path:
    return run / _FOLDER / f"step-{step:08d}.pt"


def save_checkpoint(run: Path, step: int, policy: DiffusionPolicy, data: EnvState) -> Path:
    """Write the trained, old and reference weights, the optimizer and the place in the data.

    Raises:
        RewardConfigError: the file system refuses.
    """
    import torch

    target = _file(run, step)
    temporary = target.with_suffix(".tmp")
    content = {
        "format": _FORMAT,
        "step": step,
        "weights": policy.weights.state(),
        "optimizer": policy.optimizer.state_dict(),
        "data": data.to_json(),
    }
    try:
        target.parent.mkdir(exist_ok=True)
        with temporary.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise RewardConfigError(f"can't write {target}: {error.strerror or error}") from error
    return target


def load_checkpoint(run: Path, step: int, policy: DiffusionPolicy) -> EnvState:
    """Load what `save_checkpoint` wrote of that step; gives the place in the data.

    Raises:
        RewardConfigError: there is none, it is damaged, or it is of another model.
    """
    import torch

    file = _file(run, step)
    try:
        content: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise RewardConfigError(
            f"there is no {file} on this rank's machine: ranks on several machines need a folder that they share"
        ) from error
    except Exception as error:  # torch and pickle raise many kinds for a damaged file
        raise RewardConfigError(f"{file} can't be read as a checkpoint: {type(error).__name__}") from error
    if content.get("format") != _FORMAT or content.get("step") != step:
        raise RewardConfigError(f"{file} is no checkpoint of step {step} of this version")
    try:
        policy.weights.load(content["weights"])
        policy.optimizer.load_state_dict(content["optimizer"])
    except (KeyError, RuntimeError, ValueError) as error:
        raise RewardConfigError(
            f"{file} is of another model, or of other settings of rl.policy and rl.nft.kl_weight: {error}"
        ) from error
    return EnvState.from_json(content["data"])


def prune_checkpoints(run: Path, keep: int) -> None:
    """Remove all but the latest `keep`, and what a kill has left half written."""
    folder = run / _FOLDER
    for old in [*sorted(folder.glob("step-*.pt"))[:-keep], *folder.glob("*.tmp")]:
        old.unlink()
