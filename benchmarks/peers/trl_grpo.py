# SPDX-License-Identifier: Apache-2.0
"""TRL's own GRPO on the tiny recipe's policy and rows, with the bare scorer as its reward function."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset  # type: ignore[import-untyped]  # it ships no types
from transformers.trainer_callback import TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer
from typing_extensions import override

from posttrain.rewards.contract.request import RewardCandidate, RewardContext
from posttrain.rewards.scorers.arithmetic import score_candidate
from posttrain.runs.config.policy import PolicyConfig
from posttrain.training.policy import load_policy
from posttrain.training.tiny.addition import training_rows

SECONDS: list[float] = []


def arithmetic(completions: list[str], reference: list[str], **_: Any) -> list[float | None]:
    """The built-in scorer on each completion, one after the other."""
    started = time.perf_counter()
    scores: list[float | None] = []
    for completion, expected in zip(completions, reference, strict=True):
        candidate = RewardCandidate("one", completion)
        scores.append(score_candidate(candidate, RewardContext(None, expected)).terms["arithmetic"])
    SECONDS.append(time.perf_counter() - started)
    return scores


class Told(TrainerCallback):
    """Prints what a step took."""

    @override
    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """One line a step."""
        if logs and "step_time" in logs:
            print(json.dumps({"step_time": logs["step_time"], "function": SECONDS[-1]}))


def main(folder: Path, steps: int) -> None:
    """Train so many steps."""
    policy = load_policy(PolicyConfig(model="tiny", warm_start_steps=180), training_rows)
    args = GRPOConfig(
        str(folder),
        max_steps=steps,
        per_device_train_batch_size=256,
        num_generations=8,
        max_completion_length=4,
        learning_rate=5e-4,
        lr_scheduler_type="constant",
        beta=0.0,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        activation_checkpointing=False,
    )
    trainer = GRPOTrainer(
        policy.model,
        [arithmetic],
        args,
        train_dataset=Dataset.from_list(training_rows()),
        processing_class=policy.tokenizer,
        callbacks=[Told()],
    )
    trainer.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
