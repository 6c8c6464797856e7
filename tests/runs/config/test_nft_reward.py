# SPDX-License-Identifier: Apache-2.0
"""``rl.nft.reward`` repeats the fields of the media configs, and may not drift away from them."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from posttrain.media import ImageRewardConfig, VideoRewardConfig
from posttrain.runs.config.nft import NFTRewardConfig


@pytest.mark.parametrize("kind", [ImageRewardConfig, VideoRewardConfig])
def test_every_field_is_a_key_with_the_same_default(kind: type[ImageRewardConfig] | type[VideoRewardConfig]) -> None:
    """Each field can be set; a default that the key repeats is the field's, and None leaves it to the kind."""
    keys = NFTRewardConfig.model_fields
    assert {each.name for each in fields(kind)} <= keys.keys()
    drifted = {
        each.name: (keys[each.name].default, each.default)
        for each in fields(kind)
        if keys[each.name].default is not None and each.default is not MISSING
        if keys[each.name].default != each.default
    }
    assert drifted == {}
