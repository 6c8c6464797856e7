# SPDX-License-Identifier: Apache-2.0
"""Some steps of supervised training, so that a sparse reward is within reach of a model with random weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

__all__ = ["warm_start"]

_NO_LOSS: Final = -100


def warm_start(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[Mapping[str, str]],
    *,
    steps: int,
    seed: int,
    batch_size: int = 64,
    learning_rate: float = 2e-3,
    watch: Callable[[int], None] | None = None,
) -> None:
    """Train on references as completions of their prompts, by AdamW on the cross-entropy of the completion's tokens.

    Args:
        model: is changed in place.
        tokenizer: the model's own.
        rows: with ``prompt`` and ``reference``, both texts.
        steps: how many, 0 for none.
        seed: fixes which rows are drawn.
        batch_size: rows a step, at most all of them.
        learning_rate: of AdamW.
        watch: told the number of each step that is done, from 1.
    """
    import torch

    draws = random.Random(seed)  # noqa: S311  # an order of rows keeps no secret
    encoded = [_encoded(tokenizer, row["prompt"], row["reference"]) for row in rows]
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    model.train()
    for step in range(1, steps + 1):
        batch = _padded(draws.sample(encoded, min(batch_size, len(encoded))), tokenizer.pad_token_id)
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if watch is not None:
            watch(step)


def _encoded(tokenizer: PreTrainedTokenizerBase, prompt: str, completion: str) -> tuple[list[int], list[int]]:
    """Token ids of both with the end of the text, and the labels: those of the completion and of the end."""
    before = list(tokenizer.encode(prompt, add_special_tokens=False))
    after = [*tokenizer.encode(completion, add_special_tokens=False), tokenizer.eos_token_id]
    return before + after, [_NO_LOSS] * len(before) + after


def _padded(rows: list[tuple[list[int], list[int]]], pad_id: int) -> dict[str, Tensor]:
    import torch

    longest = max(len(ids) for ids, _ in rows)
    missing = [longest - len(ids) for ids, _ in rows]
    return {
        "input_ids": torch.tensor([ids + [pad_id] * gap for (ids, _), gap in zip(rows, missing, strict=True)]),
        "attention_mask": torch.tensor(
            [[1] * len(ids) + [0] * gap for (ids, _), gap in zip(rows, missing, strict=True)]
        ),
        "labels": torch.tensor([labels + [_NO_LOSS] * gap for (_, labels), gap in zip(rows, missing, strict=True)]),
    }
