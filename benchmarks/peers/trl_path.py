# SPDX-License-Identifier: Apache-2.0
"""TRL's reward path: from texts to advantages and logged metrics, without generation and decoding.

TRL has no public call for its reward stage alone, so a `GRPOTrainer` with a one-layer random model is given ready
token ids by a `rollout_func`, and the time from the start of its reward calculation to the end of its scoring step is
taken. These are private methods of TRL 1.16.
"""

from __future__ import annotations

import importlib
import os
import random
import tempfile
from time import perf_counter
from typing import Any

from peers.workload import Group, Lap, Rule, Timed


def time_trl(groups: list[Group], size: int, rule: Rule) -> Timed:
    """One lap is one scoring step of the trainer over all groups."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    importlib.import_module("torch").set_num_threads(1)
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    tokenizer = tiny_tokenizer(groups)
    prompts = [group.prompt for group in groups for _ in group.completions]
    completions = [text for group in groups for text in group.completions]
    prompt_ids, completion_ids = tokenizer(prompts)["input_ids"], tokenizer(completions)["input_ids"]
    ready = {
        "prompt_ids": prompt_ids,
        "completion_ids": completion_ids,
        "logprobs": [[0.0] * len(ids) for ids in completion_ids],
    }

    def reward(completions: list[str], reference: list[str], **_: object) -> list[float]:
        return [rule(completion, wanted) for completion, wanted in zip(completions, reference, strict=True)]

    trainer = trl.GRPOTrainer(
        model=tiny_model(tokenizer),
        reward_funcs=reward,
        args=trl.GRPOConfig(
            output_dir=tempfile.mkdtemp(prefix="posttrain-bench-"),
            per_device_train_batch_size=len(completions),
            num_generations=size,
            max_completion_length=1 << 14,
            beta=0.0,
            report_to=[],
            use_cpu=True,
            bf16=False,
            log_completions=True,
            logging_steps=1,
            gradient_checkpointing=False,
        ),
        train_dataset=datasets.Dataset.from_list([{"prompt": "x", "reference": "y"}] * len(completions)),
        processing_class=tokenizer,
        rollout_func=lambda _prompts, _trainer: ready,
    )
    trainer.model.train()
    started: list[float] = []
    calculate = trainer._calculate_rewards  # noqa: SLF001  # TRL has no public call, see above

    def watched(*args: Any, **kwargs: Any) -> Any:
        started.append(perf_counter())
        return calculate(*args, **kwargs)

    trainer._calculate_rewards = watched  # noqa: SLF001  # as above
    rows = [{"prompt": group.prompt, "reference": group.reference} for group in groups for _ in group.completions]

    def run() -> Lap:
        trainer._generate_and_score_completions([dict(row) for row in rows])  # noqa: SLF001  # as above
        return perf_counter() - started.pop()

    return run


def tiny_tokenizer(groups: list[Group]) -> Any:
    """A byte-level BPE tokenizer trained on some of the texts."""
    tokenizers: Any = importlib.import_module("tokenizers")
    parts: Any = importlib.import_module("tokenizers.pre_tokenizers")
    transformers: Any = importlib.import_module("transformers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = parts.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=8000,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=parts.ByteLevel.alphabet(),
        show_progress=False,
    )
    sample = random.Random(3).sample(groups, min(32, len(groups)))
    tokenizer.train_from_iterator((group.completions[0] for group in sample), trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def tiny_model(tokenizer: Any) -> Any:
    """One layer of random weights."""
    transformers: Any = importlib.import_module("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
