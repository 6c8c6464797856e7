# SPDX-License-Identifier: Apache-2.0
"""The policy as it was at the start, for the KL term of a run whose policy has no name to be loaded again by."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from posttrain.rollouts.atomic import sync_folder
from posttrain.training.policy import Policy

if TYPE_CHECKING:
    from posttrain.training.online.run import Meeting

__all__ = ["START", "keep_start"]

START: Final = "start"
"""Folder of it in the run's."""


def keep_start(policy: Policy, run: Path, meeting: Meeting) -> None:
    """Save the policy into the run's folder once, and let the trainer load its reference from there.

    A run that is resumed finds the folder and keeps it: the reference is the policy of the first start.
    """
    folder = run / START

    def save() -> None:
        if folder.exists():
            return
        half = run / f".{START}.new"
        if half.exists():
            shutil.rmtree(half)
        policy.model.save_pretrained(half)
        half.rename(folder)
        sync_folder(run)

    meeting.agreed("start", save)
    # TRL loads the reference by the name that the model's config has.
    policy.model.config._name_or_path = str(folder)  # noqa: SLF001  # the library's own place for it
