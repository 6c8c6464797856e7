# SPDX-License-Identifier: Apache-2.0
"""Policies: made here the same each time, read from a folder, refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.runs.config.policy import PolicyConfig
from posttrain.training.policy import load_policy
from posttrain.training.tiny.addition import training_rows

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning", "UserWarning")
]


def weights(model: Any) -> dict[str, Any]:
    """Every weight by its name."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: Any, other: Any) -> bool:
    """Whether all weights are equal to the bit."""
    import torch

    first, second = weights(one), weights(other)
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_a_tiny_policy_is_fixed_by_its_seed() -> None:
    """Warm start included; another seed or another number of steps is another policy."""
    settings = PolicyConfig(model="tiny", warm_start_steps=2, seed=1)
    first = load_policy(settings, training_rows).model
    assert same(first, load_policy(settings, training_rows).model)
    assert not same(first, load_policy(settings.model_copy(update={"seed": 2}), training_rows).model)
    assert not same(first, load_policy(settings.model_copy(update={"warm_start_steps": 3}), training_rows).model)
    # What a checkpoint replaces is not trained first, unless only adapters are in it.
    resumed = load_policy(settings, training_rows, is_resumed=True).model
    assert same(resumed, load_policy(PolicyConfig(model="tiny", seed=1), training_rows).model)
    adapted = load_policy(settings.model_copy(update={"lora_rank": 2}), training_rows, is_resumed=True)
    assert same(adapted.model, first)
    assert (adapted.adapters.r, adapted.adapters.lora_alpha) == (2, 4)


def test_a_policy_is_read_from_a_folder(tmp_path: Path) -> None:
    """In float32, with its tokenizer; only one that is used as it is has a name to be loaded again by."""
    made = load_policy(PolicyConfig(model="tiny"), training_rows)
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    found = load_policy(PolicyConfig(model=str(tmp_path)), training_rows)
    assert same(made.model, found.model)
    assert found.tokenizer("12+3=")["input_ids"] == made.tokenizer("12+3=")["input_ids"]
    assert (made.is_fetched, found.is_fetched) == (False, True)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("gguf:nothing.gguf", "rl.policy.model: there is no file nothing.gguf"),
        ("./nothing", r"rl.policy.model: ./nothing can't be loaded: .*expected tiny, gguf:FILE, a folder"),
    ],
)
def test_a_model_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, told: str) -> None:
    """The key, what is missing, and what may stand there."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RewardConfigError, match=told):
        load_policy(PolicyConfig(model=model), training_rows)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    """It is named, with what its reader says."""
    (tmp_path / "a.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(RewardConfigError, match=r"rl\.policy\.model: .*a\.gguf can't be read|needs its reader"):
        load_policy(PolicyConfig(model=f"gguf:{tmp_path / 'a.gguf'}"), training_rows)


def test_a_warm_start_needs_texts() -> None:
    """Messages and references that are no text can't be put behind each other."""
    rows: list[dict[str, Any]] = [{"prompt": "1+1=", "reference": "2"}, {"prompt": "1+2=", "reference": {"n": 3}}]
    with pytest.raises(RewardContractError, match=r"row \[1\]: the reference is dict, and a warm start needs texts"):
        load_policy(PolicyConfig(model="tiny", warm_start_steps=1), lambda: rows)
