# SPDX-License-Identifier: Apache-2.0
"""A random Llama of 20,000 parameters and a character tokenizer made in process, for trainers in tests."""

from __future__ import annotations

from typing import Any

__all__ = ["LETTERS", "tiny_model", "tiny_tokenizer"]

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789+-=?:., "


def tiny_tokenizer() -> Any:
    """One token a character; a chat template that puts each message on a line."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<eos>", "<unk>"]
    vocabulary = {token: number for number, token in enumerate([*special, *LETTERS])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106  # no password
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    core.decoder = decoders.Fuse()
    make: Any = PreTrainedTokenizerFast
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "eos", "unk")}
    tokenizer = make(tokenizer_object=core, **names)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }} {% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    return tokenizer


def tiny_model(tokenizer: Any, *, seed: int = 0) -> Any:
    """A random model over that tokenizer's vocabulary."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=128,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
