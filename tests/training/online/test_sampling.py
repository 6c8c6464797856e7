# SPDX-License-Identifier: Apache-2.0
"""Sampling for validation: at its own temperature, from its own draws, with authored verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.data import Env, FunctionRows
from posttrain.rewards import RewardWorker
from posttrain.runs import load_config
from posttrain.runs.config.policy import PolicyConfig
from posttrain.training.online.arguments import trainer_arguments
from posttrain.training.online.prompts import Prompts, token_counter
from posttrain.training.policy import load_policy
from posttrain.training.tiny.addition import held_out_rows, training_rows

PROMPTS = [row["prompt"] for row in held_out_rows()[:6]]


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trainer of a policy that was warm-started a little."""
    from posttrain.training.online.trainer import RunTrainer

    given = ["rl.reward=arithmetic", "rl.group_size=2", "rl.grpo.prompts_per_step=1", "rl.policy.device=cpu"]
    args = trainer_arguments(load_config(None, [*given, "rl.grpo.max_completion_length=4"]))
    args.output_dir = str(tmp_path_factory.mktemp("out"))
    policy = load_policy(PolicyConfig(model="tiny", warm_start_steps=10), training_rows)
    prompts = Prompts(Env(FunctionRows(training_rows)), groups_per_batch=1, group_size=2)
    return RunTrainer(
        policy.model,
        args,
        worker=RewardWorker(reward="arithmetic", group_size=2),
        reference_column="reference",
        train_dataset=prompts.table(1),
        processing_class=policy.tokenizer,
    )


def test_the_same_seed_draws_the_same(trainer: Any) -> None:
    """Another seed draws otherwise; what training would draw next is untouched, and so are its settings."""
    import torch

    before, usual = torch.get_rng_state(), trainer.generation_config
    first = trainer.sample(PROMPTS, num_generations=8, temperature=1.0, seed=5)
    assert trainer.sample(PROMPTS, num_generations=8, temperature=1.0, seed=5) == first
    assert trainer.sample(PROMPTS, num_generations=8, temperature=1.0, seed=6) != first
    assert torch.equal(torch.get_rng_state(), before)
    assert trainer.generation_config is usual
    assert trainer.model.training
    assert len(first) == 48
    assert len({text for text, _, _ in first[:8]}) > 1


def test_temperature_0_takes_the_likeliest_token(trainer: Any) -> None:
    """Token by token the largest logit, until the end token or the budget; whatever the seed is."""
    import torch

    found = trainer.sample(PROMPTS, num_generations=1, temperature=0.0, seed=1)
    assert found == trainer.sample(PROMPTS, num_generations=1, temperature=0.0, seed=2)
    tokenizer, model = trainer.processing_class, trainer.model
    for prompt, (text, count, verdict) in zip(PROMPTS, found, strict=True):
        ids = tokenizer(prompt)["input_ids"]
        made: list[int] = []
        while len(made) < 4 and (not made or made[-1] != tokenizer.eos_token_id):
            with torch.no_grad():
                logits = model(torch.tensor([ids + made])).logits[0, -1]
            made.append(int(logits.argmax()))
        ended = made[-1] == tokenizer.eos_token_id
        assert text == tokenizer.decode(made, skip_special_tokens=True)
        assert (count, verdict) == (len(made), "stop" if ended else "length")


def test_tokens_of_a_prompt_are_counted_as_the_trainer_makes_them(trainer: Any) -> None:
    """A text by itself, messages through the template."""
    count = token_counter(trainer.processing_class)
    assert count("12+3=") == 5
    messages = [{"role": "user", "content": "12+3="}]
    rendered = trainer.processing_class.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert count(messages) == len(rendered)
