# SPDX-License-Identifier: Apache-2.0
"""The frozen teacher that ``rl.opd`` describes, and the fingerprint of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posttrain.errors import RewardConfigError, RewardError
from posttrain.runs.config.opd import OPDConfig
from posttrain.runs.config.policy import PolicyConfig
from posttrain.training.policy import Policy, load_policy

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["load_teacher", "weights_sha256"]


def load_teacher(
    settings: OPDConfig,
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    *,
    watch: Callable[[int], None] | None = None,
) -> Policy:
    """The teacher, frozen, in its dtype on the CPU.

    Args:
        settings: ``rl.opd``, with a teacher.
        rows: gives training rows with ``prompt`` and ``reference``, for a warm start.
        watch: told the number of each step of the warm start.

    Raises:
        RewardError: what `load_policy` raises of it; its text begins with ``rl.opd.teacher``.
    """
    import torch

    described = PolicyConfig(
        model=settings.teacher,
        revision=settings.teacher_revision,
        seed=settings.teacher_seed,
        warm_start_steps=settings.teacher_warm_start_steps,
    )
    try:
        teacher = load_policy(described, rows, watch=watch)
    except RewardError as error:
        raise type(error)(f"rl.opd.teacher, which is loaded as a policy is: {error}") from error
    frozen: Any = teacher.model
    frozen.requires_grad_(requires_grad=False).eval().to(getattr(torch, settings.teacher_dtype))
    return teacher


def weights_sha256(model: PreTrainedModel) -> str:
    """SHA-256 over name, dtype, shape and bytes of every weight, in the order of the names.

    Raises:
        RewardConfigError: a weight is not there in full, as under sharding.
    """
    import torch

    digest = hashlib.sha256()
    for name, weight in sorted(model.state_dict().items()):
        if weight.is_meta:
            raise RewardConfigError(f"rl.opd.teacher: the weight {name} is not loaded")
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        flat = weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(memoryview(flat.numpy()))
    return digest.hexdigest()
