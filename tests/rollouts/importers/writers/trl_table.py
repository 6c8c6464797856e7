# SPDX-License-Identifier: Apache-2.0
"""Writes TRL's completions tables: `python trl_table.py FOLDER`, run where TRL 1.16 is installed.

A real `GRPOTrainer` of a one-layer random model trains for two steps and logs its completions itself. Only generation
is replaced, by TRL's own `rollout_func`, so that the completions are known.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

GENERATIONS = 4
QUESTIONS = {"1+1=": "2", "2+3=": "5", "4+4=": "8", "9-2=": "7"}


def exact(completions: list[Any], answer: list[str], log_extra: Any, **_: object) -> list[float]:
    """1.0 where the text is the answer; the answers are logged beside it."""
    log_extra("answer", list(answer))
    texts = [each if isinstance(each, str) else each[0]["content"] for each in completions]
    return [float(text.strip().casefold() == wanted) for text, wanted in zip(texts, answer, strict=True)]


def answers(prompt: str) -> list[str]:
    """Four completions of a prompt: right, right but for white space, wrong, empty."""
    right = QUESTIONS[prompt]
    return [right, f" {right}\n", f"{right}0", ""]


def write(folder: Path, *, conversational: bool) -> None:
    """Train, and copy the tables to `folder`."""
    trl: Any = importlib.import_module("trl")
    datasets: Any = importlib.import_module("datasets")
    tokenizer = make_tokenizer()

    def rollout(prompts: list[Any], _trainer: Any) -> dict[str, Any]:
        texts = [each[-1]["content"] if conversational else each for each in prompts]
        seen: dict[str, int] = {}
        completions = []
        for text in texts:
            seen[text] = seen.get(text, -1) + 1
            completions.append(answers(text)[seen[text] % GENERATIONS])
        ids = tokenizer([each + tokenizer.eos_token for each in completions])["input_ids"]
        return {
            "prompt_ids": tokenizer(texts)["input_ids"],
            "completion_ids": ids,
            "logprobs": [[0.0] * len(i) for i in ids],
        }

    rows = [
        {"prompt": [{"role": "user", "content": text}] if conversational else text, "answer": answer}
        for text, answer in QUESTIONS.items()
    ]
    with tempfile.TemporaryDirectory() as output:
        trainer = trl.GRPOTrainer(
            model=make_model(tokenizer),
            reward_funcs=exact,
            args=trl.GRPOConfig(
                output_dir=output,
                per_device_train_batch_size=2 * GENERATIONS,
                num_generations=GENERATIONS,
                max_completion_length=32,
                max_steps=2,
                beta=0.0,
                report_to=[],
                use_cpu=True,
                bf16=False,
                log_completions=True,
                logging_steps=1,
                save_strategy="no",
                gradient_checkpointing=False,
                seed=1,
            ),
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            rollout_func=rollout,
        )
        trainer.train()
        for table in sorted(Path(output, "completions").glob("*.parquet")):
            shutil.copy(table, folder / table.name)


def make_tokenizer() -> Any:
    """A tokenizer of bytes, with the plainest chat template."""
    tokenizers: Any = importlib.import_module("tokenizers")
    parts: Any = importlib.import_module("tokenizers.pre_tokenizers")
    transformers: Any = importlib.import_module("transformers")
    vocabulary = {each: at for at, each in enumerate(["<pad>", "<eos>", *sorted(parts.ByteLevel.alphabet())])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = parts.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    made.add_special_tokens({"pad_token": "<pad>", "eos_token": "<eos>"})
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return made


def make_model(tokenizer: Any) -> Any:
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


def main(folder: Path) -> None:
    """Both kinds of table: of texts and of messages."""
    for name, conversational in (("trl-text", False), ("trl-messages", True)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        write(folder / name, conversational=conversational)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
