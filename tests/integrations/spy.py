# SPDX-License-Identifier: Apache-2.0
"""A trainer that reads what reaches the loss, and the small parts that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from trl.trainer.grpo_config import GRPOConfig

from execution.ranks.rank_threads import told
from integrations.tiny import tiny_model, tiny_tokenizer
from posttrain.integrations.trl import StageGRPOTrainer
from posttrain.integrations.trl.trainer import Scored
from posttrain.rewards import RewardGroupRequest, RewardWorker

__all__ = ["QUIET", "LossRow", "SpyTrainer", "config", "dataset", "rows", "scored_rows", "worker_telling"]

# What the libraries below say about themselves is no fault of the tests.
QUIET = [
    pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("DeprecationWarning", "FutureWarning", "UserWarning")
]


def dataset(cells: list[dict[str, Any]]) -> Any:
    """A dataset of these rows."""
    return import_module("datasets").Dataset.from_list(cells)


def rows(count: int) -> Any:
    """Prompts with a reference and an id."""
    return dataset([{"prompt": f"{n}+{n}=", "answer": {"n": 2 * n}, "id": f"row {n}"} for n in range(count)])


def config(folder: Path, **fields: Any) -> GRPOConfig:
    """Two groups of four in one step on the CPU."""
    given = {
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 1,
        "logging_steps": 1,
        "learning_rate": 0.1,
        "beta": 0.0,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "bf16": False,
        **fields,
    }
    return GRPOConfig(str(folder), **given)


def worker_telling(tell: Callable[[RewardGroupRequest], Any], **settings: Any) -> RewardWorker:
    """A worker whose one provider scores each group by a function; `spec` holds fields of the provider's spec."""
    catalog = told(tell, **settings.pop("spec", {}))
    return RewardWorker(catalog=catalog, **{"reward": "told", "group_size": 4, **settings})


class LossRow(NamedTuple):
    """One row as `compute_loss` is given it."""

    token_ids: tuple[int, ...]
    advantage: float
    tokens: int
    """Tokens of the completion."""
    in_loss: int
    """Those of them that the loss looks at."""
    num_items: float


class SpyTrainer(StageGRPOTrainer):
    """Notes each row inside `compute_loss`, each scored batch, and each logged metric.

    With `ends`, sampling is scripted: the completions at these places end with the end token, others are cut.
    """

    def __init__(
        self, args: GRPOConfig, worker: RewardWorker, *, ends: Collection[int] | None = None, **settings: Any
    ) -> None:
        self.rows: list[LossRow] = []
        self.scored: list[Scored] = []
        self.logged: dict[str, float] = {}
        self._ends = ends
        tokenizer = tiny_tokenizer()
        given = {
            "reference_column": "answer",
            "row_id_column": "id",
            "on_outcome": self.scored.append,
            "train_dataset": rows(2),
            "processing_class": tokenizer,
            **settings,
        }
        super().__init__(tiny_model(tokenizer), args, worker=worker, **given)

    def parts(self) -> dict[str, Any]:
        """What a plain trainer needs to sample the same."""
        tokenizer = tiny_tokenizer()
        return {"model": tiny_model(tokenizer), "train_dataset": rows(2), "processing_class": tokenizer}

    def _generate_single_turn(self, prompt_ids: Any, *rest: Any, **named: Any) -> Any:
        if self._ends is None:
            sample: Any = super()._generate_single_turn
            return sample(prompt_ids, *rest, **named)
        eos, budget = self.eos_token_ids[0], int(self.max_completion_length or 0)
        made = []
        for place in range(len(prompt_ids)):
            letters = [5 + (place + n) % 20 for n in range(budget)]
            made.append([*letters[: 1 + place % 3], eos] if place in self._ends else letters)
        return made, None

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **named: Any) -> Any:
        """Note the rows, then go on."""
        tokens = inputs["completion_mask"]
        mask = tokens * inputs["tool_mask"] if "tool_mask" in inputs else tokens
        for index in range(len(tokens)):
            ids = inputs["completion_ids"][index][tokens[index].bool()]
            self.rows.append(
                LossRow(
                    tuple(ids.tolist()),
                    inputs["advantages"][index].item(),
                    int(tokens[index].sum()),
                    int(mask[index].sum()),
                    float(inputs["num_items_in_batch"]),
                )
            )
        return super().compute_loss(model, inputs, *rest, **named)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note what is logged first for each name."""
        super().log(logs, start_time)
        self.logged = {**logs, **self.logged}


def scored_rows(spy: SpyTrainer) -> dict[str, LossRow]:
    """Trajectory of the one scored batch to its row in the loss, told apart by the tokens."""
    (scored,) = spy.scored
    tokenizer = tiny_tokenizer()
    by_text: dict[str, list[LossRow]] = {}
    for row in spy.rows:
        by_text.setdefault(tokenizer.decode(row.token_ids, skip_special_tokens=True), []).append(row)
    found = {}
    for each in scored.own:
        options = by_text[str(each.completion)]
        assert len(options) == 1 or len({row.advantage for row in options}) == 1, "two rows look alike"
        found[each.trajectory_id] = options[0]
    return found
