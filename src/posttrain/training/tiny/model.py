# SPDX-License-Identifier: Apache-2.0
"""A causal language model of some hundred thousand parameters, with random weights that a seed fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

__all__ = ["tiny_llama"]


def tiny_llama(
    tokenizer: PreTrainedTokenizerBase, *, seed: int, hidden_size: int = 64, layers: int = 2
) -> LlamaForCausalLM:
    """A Llama for the tokenizer's vocabulary, float32 on the CPU.

    Args:
        tokenizer: gives the vocabulary and the special tokens.
        seed: fixes the weights; the process's own random state is left as it was.
        hidden_size: width, a multiple of 4 (its number of heads).
        layers: depth, at least 1.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=4 * hidden_size,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    # A generation ends where the tokenizer says so.
    if model.generation_config is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
        model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model
