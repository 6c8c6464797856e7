# SPDX-License-Identifier: Apache-2.0
"""What a machine lacks is named all at once, before anything is scored; a missing library is one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media import ImageReward, VideoReward
from posttrain.rewards.contract.construct import construct_provider
from posttrain.rewards.contract.provider import CheckedRewardProvider, ManagedRewardProvider

Make = Callable[..., Any]


def test_a_machine_that_has_everything_passes(
    video_config: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With curl, the token, the folder and its space nothing is raised and nothing is left."""
    monkeypatch.setenv("SOME_TOKEN", "tok-TEST-111")
    adapter = VideoReward(video_config(credential="SOME_TOKEN"))
    assert isinstance(adapter, ManagedRewardProvider)
    assert isinstance(adapter, CheckedRewardProvider)
    adapter.check_machine()
    adapter.open()
    adapter.close()
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_missing_is_named(
    image_config: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No curl on the PATH, no token, no folder: one error with all three."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SOME_TOKEN", raising=False)
    adapter = ImageReward(image_config(credential="SOME_TOKEN", spool_dir=str(tmp_path / "nowhere")))
    with pytest.raises(RewardConfigError, match="this machine lacks") as caught:
        adapter.open()
    for part in ("curl", "SOME_TOKEN", repr(str(tmp_path / "nowhere"))):
        assert part in caught.value.message


def test_a_folder_without_room_for_one_sample_is_named(video_config: Make, tmp_path: Path) -> None:
    """Preflight asks for room for the largest sample that the config lets through."""
    found = os.statvfs(tmp_path)
    adapter = VideoReward(video_config(max_sample_bytes=min(found.f_bavail * found.f_frsize * 2, 1 << 40)))
    with pytest.raises(RewardConfigError, match="bytes free, one sample needs"):
        adapter.check_machine()


def test_a_catalog_makes_it_without_a_look_at_the_machine(video_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Construction needs no program, no token and no folder: it is light, and preflight names what is missing."""
    monkeypatch.setenv("PATH", "")
    spec = VideoReward.spec(video_config(credential="NOT_SET_ANYWHERE", spool_dir="/nowhere"))
    assert repr(construct_provider("video", spec)) == "VideoReward('r1', no decoder)"


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_a_missing_library_is_one_line(
    video_config: Make, reading_scorer: Make, given_decoder: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where the extra is not installed, the check of the machine and an evaluation say what to install."""
    from posttrain.media.adapter.evaluation import require_torch

    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RewardConfigError, match=rf'needs {name}: pip install "posttrain\[media\]"'):
        require_torch()
    with pytest.raises(RewardConfigError, match=rf'{name} is not installed: pip install "posttrain\[media\]"'):
        VideoReward(video_config(), scorer=reading_scorer()).check_machine()
