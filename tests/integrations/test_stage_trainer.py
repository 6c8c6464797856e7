# SPDX-License-Identifier: Apache-2.0
"""What the stage computed is what the loss sees: read inside `compute_loss`, against the stage's own outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from integrations.spy import QUIET, SpyTrainer, config, dataset, rows, scored_rows, worker_telling
from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.integrations.trl import StageGRPOTrainer
from posttrain.integrations.trl.trainer import Scored
from posttrain.rewards import RewardGroupRequest, RewardWorker

pytestmark = QUIET


def _spread(request: RewardGroupRequest) -> list[float]:
    """A reward that depends on the completion's letters and is not the same for all."""
    return [sum(map(ord, each.completion)) % 97 / 7 + place for place, each in enumerate(request.candidates)]


def _float32(value: float) -> float:
    return float(torch.tensor(value, dtype=torch.float32))


@pytest.mark.parametrize("estimator", ["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"])
def test_the_loss_sees_the_stages_advantages(tmp_path: Path, estimator: str) -> None:
    """For every estimator each row of the loss has the advantage of its trajectory, in float32, and its whole mask."""
    with worker_telling(_spread, estimator=estimator) as worker:
        spy = SpyTrainer(config(tmp_path), worker)
        spy.train()
    (scored,) = spy.scored
    expected = {each.trajectory_id: each.advantage for each in scored.own}
    assert len({round(value or 0.0, 6) for value in expected.values()}) > 4
    seen = scored_rows(spy)
    assert sorted(seen) == sorted(expected)
    for trajectory_id, row in seen.items():
        assert row.advantage == _float32(expected[trajectory_id] or 0.0)
        assert row.in_loss == row.tokens
    assert {row.num_items for row in seen.values()} == {sum(row.tokens for row in seen.values())}


def test_group_norm_is_what_trl_computes(tmp_path: Path) -> None:
    """For the same rewards the advantages are TRL's own, to float32's precision, and nothing is masked by either."""
    with worker_telling(_spread) as worker:
        spy = SpyTrainer(config(tmp_path / "ours"), worker)
        spy.train()
    (scored,) = spy.scored
    finals = torch.tensor([each.reward["final"] for each in scored.own], dtype=torch.float32)

    plain: list[torch.Tensor] = []

    class Plain(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            plain.append(output["advantages"])
            return output

    def reward(completions: list[str], **_: Any) -> list[float | None]:
        texts = [each.completion for each in scored.own]
        return [finals[texts.index(completion)].item() for completion in completions]

    Plain(reward_funcs=[reward], args=config(tmp_path / "theirs"), **spy.parts()).train()
    ours = torch.tensor([each.advantage for each in scored.own])
    assert torch.allclose(plain[0], ours, atol=2e-6)


def test_a_dropped_group_leaves_the_loss(tmp_path: Path) -> None:
    """Its rows have no token in the mask, the count of tokens is without them, and no gradient comes from them."""

    def tell(request: RewardGroupRequest) -> list[float]:
        if request.group_id.split("/")[2].startswith("1-"):
            raise RewardUnavailableError("503")
        return _spread(request)

    with worker_telling(tell, on_unavailable="drop_group", max_dropped_fraction=0.5) as worker:
        spy = SpyTrainer(config(tmp_path), worker)
        spy.train()
    (scored,) = spy.scored
    dropped = {each.trajectory_id for each in scored.own if each.advantage is None}
    assert len(dropped) == 4
    seen = scored_rows(spy)
    assert {row.in_loss for name, row in seen.items() if name in dropped} == {0}
    assert all(row.in_loss == row.tokens for name, row in seen.items() if name not in dropped)
    assert {row.num_items for row in seen.values()} == {
        sum(row.tokens for name, row in seen.items() if name not in dropped)
    }
    assert spy.logged["train/group/dropped_count"] == 1.0


@pytest.mark.parametrize("mask_truncated", [True, False])
def test_truncated_completions_leave_the_loss_when_asked(tmp_path: Path, mask_truncated: bool) -> None:
    """The verdict "length" is authored at the budget; with the mask on these rows train nothing, rewards unchanged."""
    with worker_telling(_spread) as worker:
        spy = SpyTrainer(config(tmp_path), worker, mask_truncated=mask_truncated, ends={0, 3, 5})
        spy.train()
    (scored,) = spy.scored
    reasons = [each.policy_info["finish_reason"] for each in scored.own]
    assert [reason == "stop" for reason in reasons] == [place in {0, 3, 5} for place in range(8)]
    assert set(reasons) == {"stop", "length"}
    seen = scored_rows(spy)
    for each in scored.own:
        row = seen[each.trajectory_id]
        cut = each.policy_info["finish_reason"] == "length"
        assert row.in_loss == (0 if cut and mask_truncated else row.tokens)
        assert each.policy_info["completion_token_count"] == row.tokens
        assert each.reward["final"] is not None
    kept = sum(row.in_loss for row in seen.values())
    assert {row.num_items for row in seen.values()} == {kept}
    assert spy.logged["train/completion/truncated_fraction"] == 5 / 8
    assert spy.logged["train/completion/unknown_finish_fraction"] == 0.0


def test_a_masked_row_changes_no_weight(tmp_path: Path) -> None:
    """When every group is without spread or masked, a step leaves the weights as they are."""

    def tell(request: RewardGroupRequest) -> list[float]:
        return [float(each.is_length_truncated) for each in request.candidates]

    with worker_telling(tell) as worker:
        spy = SpyTrainer(config(tmp_path), worker, mask_truncated=True, ends=set())
        model: Any = spy.model
        before = {name: each.clone() for name, each in model.named_parameters()}
        spy.train()
    assert all(torch.equal(before[name], each) for name, each in model.named_parameters())


def test_metrics_have_our_names_and_not_trls(tmp_path: Path) -> None:
    """The report of all batches since the last log is logged; what TRL made of rewards is not."""
    with worker_telling(_spread) as worker:
        spy = SpyTrainer(config(tmp_path, max_steps=2, logging_steps=2), worker)
        spy.train()
    first, second = spy.scored
    merged = first.outcome.report.merge(second.outcome.report).metrics()
    assert {name: value for name, value in spy.logged.items() if name.startswith("train/")} == merged
    assert merged["train/group/count"] == 4.0
    assert not {"reward", "reward_std", "frac_reward_zero_std"} & set(spy.logged)
    assert not [name for name in spy.logged if name.startswith("rewards/")]
    logs: Any = spy._logs
    assert list(logs["advantages"]) == [each.advantage for each in second.batch]
    assert list(logs["rewards"]["task"]) == [each.reward["task"] for each in second.batch]


def test_evaluation_uses_the_validation_worker(tmp_path: Path) -> None:
    """Its own group size and namespace, its own report; training is untouched by it."""
    with worker_telling(_spread) as worker, worker_telling(_spread, namespace="val", group_size=2) as validation:
        settings = config(tmp_path, num_generations_eval=2, per_device_eval_batch_size=4)
        spy = SpyTrainer(settings, worker, validation_worker=validation, eval_dataset=rows(2))
        metrics = spy.evaluate()
    (scored,) = spy.scored
    assert scored.mode == "eval"
    assert [len(group.trajectory_ids) for group in scored.outcome.groups] == [2, 2]
    expected = scored.outcome.report.metrics()
    assert {name: value for name, value in metrics.items() if name.startswith("val/")} == expected


def test_one_assistant_message_is_its_content(tmp_path: Path) -> None:
    """A conversational dataset gives the scorer the message's text, and the conversation as the prompt."""
    seen: list[RewardGroupRequest] = []

    def tell(request: RewardGroupRequest) -> list[float]:
        seen.append(request)
        return _spread(request)

    talks = dataset(
        [{"prompt": [{"role": "user", "content": f"say {n}"}], "answer": {"n": n}, "id": n} for n in range(2)]
    )
    with worker_telling(tell) as worker:
        spy = SpyTrainer(config(tmp_path), worker, train_dataset=talks)
        spy.train()
    assert {type(each.completion) for request in seen for each in request.candidates} == {str}
    prompts: list[Any] = [request.context.prompt for request in seen]
    assert sorted(prompt[0]["content"] for prompt in prompts) == ["say 0", "say 1"]
    assert sorted(each.obs.row_id or "" for each in spy.scored[0].own) == ["0"] * 4 + ["1"] * 4


def test_a_failing_reward_makes_no_step(tmp_path: Path) -> None:
    """The error goes through as it is; weights and step count stay."""

    def tell(request: RewardGroupRequest) -> list[float]:
        raise KeyError("no such thing")

    with worker_telling(tell) as worker:
        spy = SpyTrainer(config(tmp_path), worker)
        with pytest.raises(RewardContractError, match=r"provider 'told', group 'train/1/0-.*KeyError"):
            spy.train()
    assert spy.state.global_step == 0
    assert spy.rows == []


def test_what_happens_after_scoring_is_seen_by_the_callback(tmp_path: Path) -> None:
    """`on_outcome` gets the scored batch; what it raises ends the run."""

    def broken(_: Scored) -> None:
        raise OSError("disk full")

    with worker_telling(_spread) as worker:
        spy = SpyTrainer(config(tmp_path), worker, on_outcome=broken)
        with pytest.raises(OSError, match="disk full"):
            spy.train()


def test_advantages_beyond_float32_are_refused(tmp_path: Path) -> None:
    """What would be infinite in the loss is an error that names the trajectories."""

    def tell(request: RewardGroupRequest) -> list[float]:
        return [1e300 * place for place, _ in enumerate(request.candidates)]

    with worker_telling(tell, estimator="group_mean") as worker:
        spy = SpyTrainer(config(tmp_path), worker)
        with pytest.raises(RewardContractError, match=r"(?s)beyond the range of float32.*train/1/0-.*/0: -1.5e"):
            spy.train()


@pytest.mark.parametrize(
    ("fields", "settings", "text"),
    [
        ({"scale_rewards": "batch"}, {}, "scale_rewards='batch': the stage computes the advantages"),
        ({"scale_rewards": "none"}, {}, "scale_rewards='none'.*estimator='group_norm'"),
        ({"mask_truncated_completions": True}, {}, "mask_truncated_completions=True.*mask_truncated=True"),
        ({"reward_weights": [1.0]}, {}, "reward_weights: the stage combines the terms"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, {}, "multi_objective_aggregation='normalize_then_sum'"),
        (
            {"generation_kwargs": {"max_new_tokens": 3}},
            {},
            "generation_kwargs has max_new_tokens.*max_completion_length",
        ),
        ({"remove_unused_columns": True}, {}, "remove_unused_columns=True"),
        ({"num_generations": 2}, {}, "worker: its group_size is 4, but num_generations is 2"),
        ({}, {"namespace": "val"}, "worker: expected namespace='train', got 'val'"),
        ({}, {"reference_column": None}, "reference_column: told needs the reference"),
        (
            {},
            {"reference_column": "solution"},
            r"reference_column: the dataset has no column 'solution'.*has answer",
        ),
        ({}, {"row_id_column": "nr"}, r"row_id_column: the dataset has no column 'nr'"),
        ({}, {"reward_funcs": [len]}, "reward_funcs: the worker's catalog is where rewards come from"),
        ({}, {"eval_dataset": True}, "eval_dataset is given without validation_worker"),
    ],
)
def test_settings_that_contradict_the_stage_are_refused(
    tmp_path: Path, fields: dict[str, Any], settings: dict[str, Any], text: str
) -> None:
    """Each is named with how to say it to the stage instead."""
    args = config(tmp_path, **fields)
    worker = worker_telling(_spread, **{name: settings.pop(name) for name in ("namespace",) if name in settings})
    if settings.get("eval_dataset"):
        settings["eval_dataset"] = rows(2)
    with pytest.raises(RewardConfigError, match=text):
        SpyTrainer(args, worker, **settings)


def test_args_and_worker_are_needed(tmp_path: Path) -> None:
    """Things of another kind are named."""
    with pytest.raises(RewardConfigError, match="got GRPOConfig and str"):
        StageGRPOTrainer("m", config(tmp_path), worker="gsm8k")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(RewardConfigError, match="got NoneType and RewardWorker"):
        StageGRPOTrainer("m", None, worker=RewardWorker(reward="gsm8k", group_size=2))  # type: ignore[arg-type]  # the mistake under test
    assert issubclass(StageGRPOTrainer, GRPOTrainer)
    assert GRPOConfig is type(config(tmp_path))
