# SPDX-License-Identifier: Apache-2.0
"""A model out of one GGUF file, as plain float32 weights that can be trained and saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from posttrain.errors import RewardConfigError, text_of

__all__ = ["load_gguf"]


def load_gguf(file: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a GGUF file.

    transformers reads the quantized weights as float32, but marks the model as quantized and then refuses to save it.
    The weights are therefore moved into a model that was never marked.

    Raises:
        RewardConfigError: the file is not there or can't be read, or the reader is not installed.
    """
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    if not file.is_file():
        raise RewardConfigError(f"rl.policy.model: there is no file {file}")
    folder = str(file.parent)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file.name, padding_side="left")
        read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file.name, dtype=torch.float32)
        config = AutoConfig.from_pretrained(folder, gguf_file=file.name)
    except ImportError as error:
        raise RewardConfigError("rl.policy.model: a GGUF file needs its reader: pip install gguf") from error
    except (OSError, ValueError, KeyError) as error:
        first = text_of(error).partition("\n")[0]
        raise RewardConfigError(f"rl.policy.model: {file} can't be read: {first}") from error
    weights = read.state_dict()
    make: Any = AutoModelForCausalLM.from_config
    model = make(config, dtype=torch.float32)
    model.load_state_dict(weights)
    model.tie_weights()
    model.generation_config = read.generation_config
    return model, tokenizer
