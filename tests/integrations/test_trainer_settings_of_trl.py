# SPDX-License-Identifier: Apache-2.0
"""The stage under other settings of TRL: batches that are split, used again or sampled elsewhere, and its table."""

from __future__ import annotations

from collections import defaultdict, deque
from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch

from integrations.spy import QUIET, SpyTrainer, config, dataset, rows, worker_telling
from integrations.tiny import tiny_tokenizer
from integrations.train_program import spread
from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.integrations.trl.table import fill_table
from posttrain.rewards import RewardGroupRequest

pytestmark = QUIET


def _drops_one(request: RewardGroupRequest) -> list[float]:
    if request.group_id.split("/")[2].startswith("1-"):
        raise RewardUnavailableError("503")
    return spread(request)


@pytest.mark.parametrize("loss_type", ["dapo", "grpo"])
def test_a_batch_that_is_split_and_used_twice_keeps_its_numbers(tmp_path: Path, loss_type: str) -> None:
    """Shuffled into four parts of two and used in two passes, each row has its trajectory's advantage and mask."""
    args = config(
        tmp_path,
        per_device_train_batch_size=2,
        steps_per_generation=4,
        gradient_accumulation_steps=2,
        num_iterations=2,
        max_steps=8,
        loss_type=loss_type,
    )
    settings = {"on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
    with worker_telling(_drops_one, **settings) as worker:
        spy = SpyTrainer(args, worker, ends={0, 3, 5})
        spy.train()
    # 8 steps of 2 parts of 2 rows are 32 rows: two sampled batches of 8 rows, each used twice.
    assert len(spy.scored) == 2
    assert len(spy.rows) == 32
    for number, scored in enumerate(spy.scored):
        seen = spy.rows[16 * number : 16 * (number + 1)]
        expected = sorted(
            (0.0, 0)
            if each.advantage is None
            else (round(each.advantage, 5), each.policy_info["completion_token_count"])
            for each in scored.own
        )
        for once in (seen[:8], seen[8:]):
            assert sorted((round(row.advantage, 5), row.in_loss) for row in once) == expected
        assert {row.num_items for row in seen} == {float(sum(count for _, count in expected))}
    model: Any = spy.model
    assert all(bool(torch.isfinite(each).all()) for each in model.parameters())
    assert {entry["step"] for entry in spy.state.log_history if "train/group/count" in entry} == {1, 5}


def _rollouts(verdicts: Any) -> Any:
    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        ids = [[5 + place, 6, 7] for place, _ in enumerate(prompts)]
        return {
            "prompt_ids": [[8, 9]] * len(prompts),
            "completion_ids": ids,
            "logprobs": [[0.0] * 3] * len(prompts),
            **({} if verdicts is None else {"finish_reason": verdicts}),
        }

    return rollout


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["length", None, "stop", "abort"] * 2, ["length", None, "stop", "abort"] * 2),
        # Three tokens of six without an end: nothing is known.
        (None, [None] * 8),
    ],
)
def test_a_rollouts_own_verdict_is_taken_as_it_is(tmp_path: Path, given: Any, kept: list[Any]) -> None:
    """Each candidate has its own, None included; a column of the dataset is none."""
    data = dataset([{**row, "finish_reason": "a column"} for row in rows(2)])
    with worker_telling(spread) as worker:
        spy = SpyTrainer(config(tmp_path), worker, rollout_func=_rollouts(given), train_dataset=data)
        spy.train()
    assert [each.policy_info["finish_reason"] for each in spy.scored[0].own] == kept


@pytest.mark.parametrize("given", ["length", ["length"] * 3])
def test_verdicts_that_do_not_fit_the_completions_are_refused(tmp_path: Path, given: Any) -> None:
    """One for each completion, in a list."""
    with worker_telling(spread) as worker:
        spy = SpyTrainer(config(tmp_path), worker, rollout_func=_rollouts(given))
        with pytest.raises(RewardContractError, match="as finish_reason, expected a list with one for each of 8"):
            spy.train()


def test_the_table_of_completions_holds_other_terms_and_dropped_groups(tmp_path: Path) -> None:
    """Evaluation with terms of its own and a dropped group leave whole columns, with NaN where there is no number."""
    validation = worker_telling(spread, namespace="val", spec={"terms": ("other",)})
    settings = {"on_unavailable": "drop_group", "max_dropped_fraction": 0.5}
    with worker_telling(_drops_one, **settings) as worker, validation:
        args = config(tmp_path, log_completions=True, per_device_eval_batch_size=4)
        spy = SpyTrainer(args, worker, validation_worker=validation, eval_dataset=rows(1))
        spy.train()
        spy.evaluate()
    logs: Any = spy._logs
    columns = {"advantage": list(logs["advantages"]), **{name: list(each) for name, each in logs["rewards"].items()}}
    assert {len(each) for each in columns.values()} == {8}
    first, second = spy.scored
    # The table holds as many rows as one sampled batch: the last four of training, then those of the evaluation.
    assert columns["final"][4:] == [each.reward["final"] for each in second.batch]
    assert columns["other"][4:] == columns["final"][4:]
    assert list(map(isnan, columns["task"])) == [True] * 8
    assert [each.advantage for each in first.batch[4:]] == [None] * 4
    assert list(map(isnan, columns["advantage"])) == [True] * 4 + [False] * 4


def test_the_table_keeps_its_height() -> None:
    """A column that is new is filled in front, one that has no value in a batch behind."""
    logs: dict[str, Any] = {"advantages": deque([9.0, 9.0, 9.0]), "rewards": defaultdict(deque)}
    logs["rewards"]["final"].extend([1.0, 9.0, 9.0])
    logs["rewards"]["old"].extend([2.0])
    fill_table(logs, [3.0, None], {"final": [4.0, None], "new": [5.0, 6.0]})
    shown = {name: [repr(value) for value in column] for name, column in logs["rewards"].items()}
    assert shown == {
        "final": ["1.0", "4.0", "nan"],
        "old": ["2.0", "nan", "nan"],
        "new": ["nan", "5.0", "6.0"],
    }
    assert [repr(value) for value in logs["advantages"]] == ["9.0", "3.0", "nan"]


def test_several_datasets_for_evaluation_are_refused(tmp_path: Path) -> None:
    """All of them would be logged as `val/...`."""
    evaluated = {"easy": rows(1), "hard": rows(1)}
    with pytest.raises(RewardConfigError, match=r"eval_dataset has 2 datasets \(easy, hard\)"):
        SpyTrainer(config(tmp_path), worker_telling(spread), eval_dataset=evaluated)


class _Environment:
    def reset(self, **_: Any) -> None:
        """Nothing to say."""

    def get_reward(self) -> float:
        """Past the stage."""
        return 1.0


def test_an_environments_own_reward_is_refused(tmp_path: Path) -> None:
    """It would be added to TRL's rewards, which the stage replaces."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = "{{ messages | tojson }}"
    settings = {"environment_factory": _Environment, "processing_class": tokenizer}
    with pytest.raises(RewardConfigError, match="environment_factory: _Environment has a get_reward of its own"):
        SpyTrainer(config(tmp_path), worker_telling(spread), **settings)
