# SPDX-License-Identifier: Apache-2.0
"""Prompts as what a model is conditioned on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import torch

__all__ = ["TextEncoder", "hashed_text", "umt5_text"]

TextEncoder: TypeAlias = "Callable[[str], torch.Tensor]"
"""A prompt to its embedding, [1, L, D] float32."""

_WORDS: Final = 16
_TOKENS: Final = 512


def hashed_text(prompt: str, dim: int) -> torch.Tensor:
    """An embedding without a model: a fixed normal vector for each of the first 16 words, zeros behind the last.

    The same word has the same vector everywhere: it is drawn from a generator that is seeded with the word's SHA-256.

    Returns:
        [1, 16, dim], float32.
    """
    import torch

    embedded = torch.zeros(1, _WORDS, dim)
    for place, word in enumerate(prompt.casefold().split()[:_WORDS]):
        seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "little")
        generator = torch.Generator().manual_seed(seed)
        embedded[0, place] = torch.randn(dim, generator=generator)
    return embedded


def umt5_text(tokenizer: Any, encoder: Any) -> TextEncoder:
    """Wan's own: UMT5's last hidden states over 512 tokens, zeros behind the prompt's end.

    Args:
        tokenizer: of the checkpoint.
        encoder: `UMT5EncoderModel` of the checkpoint, on its device.
    """
    import torch

    def encode(prompt: str) -> torch.Tensor:
        tokens = tokenizer([prompt], padding="max_length", max_length=_TOKENS, truncation=True, return_tensors="pt").to(
            encoder.device
        )
        with torch.no_grad():
            states: torch.Tensor = encoder(tokens.input_ids, tokens.attention_mask).last_hidden_state
        embedded: torch.Tensor = (states * tokens.attention_mask.unsqueeze(-1)).float()
        return embedded

    return encode
