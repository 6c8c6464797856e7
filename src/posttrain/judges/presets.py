# SPDX-License-Identifier: Apache-2.0
"""Well-known endpoints: a base URL and the name of the variable that holds the key. Data, not code."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["PRESETS", "Preset"]


class Preset(NamedTuple):
    """Where an endpoint usually is; each part may be replaced in `JudgeConfig`."""

    base_url: str
    credential: str | None
    """Name of the environment variable; None: a server of one's own, which asks for none."""


PRESETS: Final[dict[str, Preset]] = {
    "nvidia_inference_hub": Preset("https://inference-api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "nvidia_nim": Preset("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "vllm": Preset("http://localhost:8000/v1", None),
    "sglang": Preset("http://localhost:30000/v1", None),
    "openai": Preset("https://api.openai.com/v1", "OPENAI_API_KEY"),
}
