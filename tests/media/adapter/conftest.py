# SPDX-License-Identifier: Apache-2.0
"""An adapter that is ready to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.media import VideoReward

Make = Callable[..., Any]


@pytest.fixture
def video(video_config: Make, reading_scorer: Make, given_decoder: Any) -> Make:
    """`video(fps=8)` is an adapter with its decoder and its reading scorer, which it gives too."""

    def make(scorer: Any = None, **changes: Any) -> tuple[VideoReward, Any]:
        scorer = reading_scorer() if scorer is None else scorer
        adapter = VideoReward(video_config(**changes), scorer=scorer)
        adapter.attach(given_decoder)
        return adapter, scorer

    return make
