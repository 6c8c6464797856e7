# SPDX-License-Identifier: Apache-2.0
"""The model, the tokenizer and the tasks that are made in the process."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from posttrain.training.tiny.addition import HELD_OUT, held_out_rows, training_rows
from posttrain.training.tiny.model import tiny_llama
from posttrain.training.tiny.tokenizer import ALPHABET, character_tokenizer
from posttrain.training.tiny.warm_start import warm_start

TOKENIZER = character_tokenizer()


@given(st.text(alphabet=ALPHABET))
def test_texts_survive_their_tokens(text: str) -> None:
    """One token a character, and the same text back, spaces and line ends included."""
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert len(ids) == len(text)
    assert TOKENIZER.decode(ids) == text


def test_a_stranger_is_the_unknown_token() -> None:
    """A character outside of the alphabet has no token of its own; padding, end and unknown are three tokens."""
    assert TOKENIZER.encode("1é", add_special_tokens=False) == [1, TOKENIZER.unk_token_id]
    special = {TOKENIZER.pad_token_id, TOKENIZER.eos_token_id, TOKENIZER.unk_token_id}
    assert special == {len(ALPHABET), len(ALPHABET) + 1, len(ALPHABET) + 2}


def test_chat_is_rendered() -> None:
    """Messages become lines, and the assistant's turn is opened on demand."""
    chat = [{"role": "user", "content": "1+1="}]
    assert TOKENIZER.apply_chat_template(chat, tokenize=False) == "user: 1+1=\n"
    opened = TOKENIZER.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert opened == "user: 1+1=\nassistant: "


def test_every_sum_stands_once() -> None:
    """900 training rows and 100 held-out ones are all the sums of a number below 100 and a digit, and all are right."""
    training, held_out = training_rows(), held_out_rows()
    assert (len(training), len(held_out)) == (900, HELD_OUT)
    prompts = {row["prompt"] for row in [*training, *held_out]}
    assert prompts == {f"{left}+{right}=" for left in range(100) for right in range(10)}
    for row in [*training, *held_out]:
        left, _, right = row["prompt"].removesuffix("=").partition("+")
        assert row["reference"] == str(int(left) + int(right))
    assert training == training_rows()


def _weights(seed: int) -> dict[str, Tensor]:
    return tiny_llama(TOKENIZER, seed=seed, hidden_size=16, layers=1).state_dict()


def test_a_seed_fixes_the_weights_and_nothing_else() -> None:
    """Equal seeds make equal models, others others; the process's own random numbers go on as they would have."""
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, again, other = _weights(1), _weights(1), _weights(2)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_warm_start_is_deterministic_and_learns() -> None:
    """The same rows and seed give the same weights, told step by step; the loss on what was shown falls far."""
    rows = training_rows()[:8]

    def trained() -> tuple[float, list[int], dict[str, Tensor]]:
        model = tiny_llama(TOKENIZER, seed=3, hidden_size=32, layers=1)
        steps: list[int] = []
        warm_start(model, TOKENIZER, rows, steps=60, seed=5, batch_size=64, learning_rate=1e-2, watch=steps.append)
        row = rows[0]
        text = row["prompt"] + row["reference"]
        ids = torch.tensor([[*TOKENIZER.encode(text, add_special_tokens=False), TOKENIZER.eos_token_id]])
        labels = ids.clone()
        labels[:, : len(row["prompt"])] = -100
        with torch.no_grad():
            return float(model(input_ids=ids, labels=labels).loss), steps, model.state_dict()

    loss, steps, weights = trained()
    again, _, same = trained()
    assert steps == list(range(1, 61))
    # A model that knows nothing is at ln(97), about 4.6.
    assert loss == again
    assert loss < 0.5
    assert all(torch.equal(weights[name], same[name]) for name in weights)


def test_no_step_changes_nothing() -> None:
    """Zero steps leave the model as it was."""
    model = tiny_llama(TOKENIZER, seed=1, hidden_size=16, layers=1)
    warm_start(model, TOKENIZER, training_rows(), steps=0, seed=0)
    expected = _weights(1)
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("field", ["pad_token_id", "eos_token_id"])
def test_generation_ends_as_the_tokenizer_says(field: str) -> None:
    """The model's own settings name the tokenizer's padding and end."""
    model = tiny_llama(TOKENIZER, seed=0, hidden_size=16, layers=1)
    assert getattr(model.generation_config, field) == getattr(TOKENIZER, field)
