# SPDX-License-Identifier: Apache-2.0
"""The teacher as it is loaded, and the digest of its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from integrations.spy import QUIET
from posttrain.errors import RewardContractError
from posttrain.runs.config.opd import OPDConfig
from posttrain.training.opd.teacher import load_teacher, weights_sha256
from posttrain.training.tiny.addition import training_rows
from posttrain.training.tiny.model import tiny_llama
from posttrain.training.tiny.tokenizer import character_tokenizer

pytestmark = QUIET


def _model(seed: int = 0) -> Any:
    return tiny_llama(character_tokenizer(), seed=seed)


def test_the_digest_is_of_the_weights_alone() -> None:
    """The same weights have the same digest wherever they were made; one bit, or another dtype, gives another."""
    first, second = _model(), _model()
    assert weights_sha256(first) == weights_sha256(second)
    assert weights_sha256(_model(seed=1)) != weights_sha256(first)
    with torch.no_grad():
        weight = second.model.norm.weight
        weight[0] = torch.nextafter(weight[0], torch.tensor(9.0))
    assert weights_sha256(second) != weights_sha256(first)
    assert weights_sha256(_model().to(torch.bfloat16)) != weights_sha256(first)


def test_a_folder_gives_the_teacher_that_was_saved(tmp_path: Path) -> None:
    """Loading it changes nothing; it comes frozen, in evaluation mode and in the dtype that is asked for."""
    model = _model(seed=3)
    model.save_pretrained(tmp_path)
    character_tokenizer().save_pretrained(tmp_path)
    teacher = load_teacher(OPDConfig(teacher=str(tmp_path)), list)
    assert weights_sha256(teacher.model) == weights_sha256(model)
    assert not teacher.model.training
    assert not any(each.requires_grad for each in teacher.model.parameters())
    assert teacher.tokenizer.get_vocab() == character_tokenizer().get_vocab()
    half = load_teacher(OPDConfig(teacher=str(tmp_path), teacher_dtype="bfloat16"), list)
    assert {each.dtype for each in half.model.parameters()} == {torch.bfloat16}


def test_a_warm_start_is_the_same_each_time() -> None:
    """Seed and steps decide the weights, so that a resume finds its teacher again."""
    settings = OPDConfig(teacher="tiny", teacher_seed=5, teacher_warm_start_steps=2)
    told: list[int] = []
    once = weights_sha256(load_teacher(settings, training_rows, watch=told.append).model)
    assert told == [1, 2]
    assert weights_sha256(load_teacher(settings, training_rows).model) == once
    longer = OPDConfig(teacher="tiny", teacher_seed=5, teacher_warm_start_steps=3)
    assert weights_sha256(load_teacher(longer, training_rows).model) != once


def test_rows_that_a_warm_start_can_not_use_are_the_teachers_fault() -> None:
    """The error keeps its kind and says that it is about the teacher."""
    settings = OPDConfig(teacher="tiny", teacher_warm_start_steps=1)
    with pytest.raises(RewardContractError, match=r"rl\.opd\.teacher, which.*row \[0\]: the reference is int"):
        load_teacher(settings, lambda: [{"prompt": "1+1=", "reference": 2}])
