# SPDX-License-Identifier: Apache-2.0
"""TRL's way to a judge: an async reward function, which `GRPOTrainer` runs in the event loop that it keeps.

TRL brings no client, no limit and no retries: the function has its own semaphore and one AsyncOpenAI. The trainer is
made as in `trl_path`; `_calculate_rewards` is a private method of TRL 1.16, which has no public one for this alone.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from peers.judge_clients import body_of
from peers.trl_path import tiny_model, tiny_tokenizer
from peers.workload import Group


def trl_judge(groups: Sequence[Group], size: int, concurrency: int) -> Callable[[str], None]:
    """A function that scores all groups once, by an endpoint at the URL that it is given."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    trl: Any = importlib.import_module("trl")
    openai: Any = importlib.import_module("openai")
    datasets: Any = importlib.import_module("datasets")
    clients: dict[str, Any] = {}
    tokenizer = tiny_tokenizer(list(groups))
    prompts = [group.prompt for group in groups for _ in group.completions]
    completions = [text for group in groups for text in group.completions]
    url = ""

    async def judge(completions: list[str], **_: object) -> list[float]:
        client = clients.setdefault(url, openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0))
        turns = asyncio.Semaphore(concurrency)

        async def one(text: str) -> float:
            async with turns:
                response = await client.chat.completions.create(**body_of(text))
                return 1.0 if response.choices[0].message.content else 0.0

        return list(await asyncio.gather(*map(one, completions)))

    trainer = trl.GRPOTrainer(
        model=tiny_model(tokenizer),
        reward_funcs=judge,
        args=trl.GRPOConfig(
            output_dir=tempfile.mkdtemp(prefix="posttrain-bench-"),
            per_device_train_batch_size=len(completions),
            num_generations=size,
            report_to=[],
            use_cpu=True,
            bf16=False,
        ),
        train_dataset=datasets.Dataset.from_list([{"prompt": "x"}] * len(completions)),
        processing_class=tokenizer,
    )
    inputs = [{"prompt": prompt} for prompt in prompts]

    def run(at: str) -> None:
        nonlocal url
        url = at
        trainer._calculate_rewards(inputs, prompts, completions, [[0]] * len(completions))  # noqa: SLF001  # see above

    return run
