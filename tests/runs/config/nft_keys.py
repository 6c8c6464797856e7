# SPDX-License-Identifier: Apache-2.0
"""What the keys of ``rl.nft`` take and do not take, for `trained_keys`."""

from __future__ import annotations

from typing import Any

__all__ = ["NFT_NOT_TAKEN", "NFT_TAKEN"]

_COUNTS = ("steps", "rounds", "updates", "times_per_sample", "sampling_steps", "save_steps", "keep_checkpoints")
_POSITIVE = ("learning_rate", "max_grad_norm", "beta", "advantage_clip", "flow_shift", "reward.fps")
_NOT_NEGATIVE = ("weight_decay", "kl_weight", "eta_rate")
_SHARES = ("eta_max", "reward.range_tolerance")
_SWITCHES = ("self_normalised", "reward.send_prompts")
_SECONDS = (
    "ranks_timeout_s",
    *("reward.connect_timeout_s", "reward.enqueue_timeout_s", "reward.pull_timeout_s", "reward.evaluation_timeout_s"),
    *("reward.poll_interval_s", "reward.poll_interval_max_s"),
)
_BYTES = ("reward.max_response_bytes", "reward.max_sample_bytes")
_TEXTS = ("provider_revision", "enqueue_url", "pull_url", "reward", "score_key", "credential")

NFT_TAKEN: dict[str, list[tuple[str, Any]]] = {
    "rl.nft.media": [("image", "image"), ("video", "video")],
    **{f"rl.nft.{name}": [("1", 1), ("64", 64)] for name in (*_COUNTS, *_BYTES)},
    **{f"rl.nft.{name}": [("0.5", 0.5), ("2", 2.0)] for name in (*_POSITIVE, *_SECONDS)},
    **{f"rl.nft.{name}": [("0", 0.0), ("0.5", 0.5)] for name in _NOT_NEGATIVE},
    **{f"rl.nft.{name}": [("0", 0.0), ("1", 1.0)] for name in _SHARES},
    **{f"rl.nft.{name}": [("true", True), ("false", False)] for name in _SWITCHES},
    **{f"rl.nft.{name}": [("16", 16), ("704", 704)] for name in ("height", "width")},
    "rl.nft.frames": [("1", 1), ("121", 121)],
    "rl.nft.seed": [("4294967295", 4294967295)],
    **{f"rl.nft.reward.{name}": [("a+b:c", "a+b:c")] for name in _TEXTS},
    "rl.nft.reward.spool_dir": [("/local/spool", "/local/spool")],
    "rl.nft.reward.score_clip": [("[-5.0, 5]", (-5.0, 5.0))],
    "rl.nft.reward.score_scale": [("-0.2", -0.2)],
}

NFT_NOT_TAKEN: dict[str, list[tuple[str, str]]] = {
    "rl.nft.media": [("sound", "expected one of image, video")],
    **{f"rl.nft.{name}": [("0", "at least 1"), ("1.5", "got 1.5")] for name in (*_COUNTS, *_BYTES)},
    **{f"rl.nft.{name}": [("0", "above 0")] for name in (*_POSITIVE, *_SECONDS)},
    **{f"rl.nft.{name}": [("-1", "at least 0")] for name in _NOT_NEGATIVE},
    **{f"rl.nft.{name}": [("1.5", "from 0 to 1")] for name in _SHARES},
    **{f"rl.nft.{name}": [("1", "write true")] for name in _SWITCHES},
    **{
        f"rl.nft.{name}": [("8", "at least 16"), ("100", "expected a multiple of 16 pixels, got 100: write 96 or 112")]
        for name in ("height", "width")
    },
    "rl.nft.frames": [("0", "at least 1"), ("16", "4 k + 1 frames, got 16: write 13 or 17")],
    "rl.nft.seed": [("-1", "from 0 to 4294967295")],
    **{f"rl.nft.reward.{name}": [("8", "put it in quotes")] for name in _TEXTS},
    "rl.nft.reward.spool_dir": [("~/spool", "~ is not expanded")],
    "rl.nft.reward.score_clip": [("5", "the lowest and the highest number in brackets")],
    "rl.nft.reward.score_scale": [("a", "a finite number")],
}
