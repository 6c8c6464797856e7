# SPDX-License-Identifier: Apache-2.0
"""`StageReward`: floats for an unchanged trainer, or an error; never anything in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execution.ranks.rank_threads import told, worker_for
from integrations.spy import QUIET, config, rows, worker_telling
from integrations.tiny import tiny_model, tiny_tokenizer
from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.execution import ProcessEvaluator
from posttrain.execution.ranks import RankExchange
from posttrain.integrations.trl import StageReward
from posttrain.rewards import ProviderExecution, RewardCatalog, RewardGroupRequest, RewardWorker, load_catalog

pytestmark = QUIET


def _lengths(request: RewardGroupRequest) -> list[float]:
    return [float(len(each.completion)) for each in request.candidates]


def _reward(tell: Callable[[RewardGroupRequest], Any] = _lengths, **settings: Any) -> StageReward:
    worker = worker_telling(tell, **{"group_size": 2, **settings})
    return StageReward(worker, group_column="id", reference_column="answer")


def _call(reward: StageReward, completions: list[Any], ids: list[Any], **named: Any) -> list[float | None]:
    count = len(completions)
    return reward(
        prompts=["p"] * count,
        completions=completions,
        completion_ids=[[1, 2]] * count,
        id=ids,
        answer=[{"n": str(each)} for each in ids],
        trainer_state=None,
        **named,
    )


def test_finals_come_back_in_the_order_of_the_completions() -> None:
    """Groups are formed by the column alone, so their rows may interleave and share a prompt's text."""
    seen: list[Any] = []

    def tell(request: RewardGroupRequest) -> list[float]:
        seen.append((request.group_id, [each.completion for each in request.candidates], request.context.reference))
        return _lengths(request)

    assert _call(_reward(tell), ["a", "bb", "ccc", "dddd"], [7, "x", 7, "x"]) == [1.0, 2.0, 3.0, 4.0]
    assert seen == [("7", ["a", "ccc"], {"n": "7"}), ("x", ["bb", "dddd"], {"n": "x"})]


def test_terms_and_metrics_are_logged_under_our_names() -> None:
    """`log_metric` gets the report, `log_extra` a column for each term."""
    metrics: dict[str, float] = {}
    extra: dict[str, list[Any]] = {}
    _call(_reward(), ["a", "bb"], [1, 1], log_metric=metrics.__setitem__, log_extra=extra.__setitem__)
    assert metrics["train/reward/final/mean"] == 1.5
    assert metrics["train/reward_provider/told/sample_count"] == 2.0
    assert extra == {"task": [1.0, 2.0]}


def test_a_group_that_is_not_whole_is_refused_by_name() -> None:
    """With the reason that it may straddle processes."""
    with pytest.raises(RewardContractError, match=r"group 'x'.*has 1 candidates .*expected 2") as caught:
        _call(_reward(), ["a", "b", "c"], [1, 1, "x"])
    assert "StageGRPOTrainer gathers them" in caught.value.__notes__[0]


@pytest.mark.parametrize("kind", [RewardUnavailableError, ValueError])
def test_a_failure_raises(kind: type[Exception]) -> None:
    """No failure is a None, a NaN or a number."""

    def tell(request: RewardGroupRequest) -> list[float]:
        raise kind("no")

    with pytest.raises((RewardUnavailableError, RewardContractError), match="provider 'told', group '1'"):
        _call(_reward(tell), ["a", "b"], [1, 1])


def test_rewards_beyond_float32_are_refused() -> None:
    """TRL squares in float32: an infinite spread would make all advantages zero."""
    reward = _reward(lambda request: [1e20, -1e20])
    with pytest.raises(RewardContractError, match=r"(?s)beyond 1e\+18: TRL squares.*1/.*/0: 1e\+20.*/1: -1e\+20"):
        _call(reward, ["a", "b"], [1, 1])
    assert _call(_reward(lambda request: [1e18, -1e18]), ["a", "b"], [1, 1]) == [1e18, -1e18]


@pytest.mark.parametrize("value", [None, "", 1.0, True])
def test_an_id_that_is_none_is_refused(value: Any) -> None:
    """A group needs a string or an int to be known by."""
    with pytest.raises(RewardContractError, match=r"\[1\] id: expected an id"):
        _call(_reward(), ["a", "b"], [1, value])


def test_a_missing_column_is_refused() -> None:
    """With the columns that are there."""
    with pytest.raises(RewardConfigError, match="the dataset has no column answer; it has id"):
        _reward()(prompts=["p"], completions=["a"], completion_ids=[[1]], id=[1])


def test_messages_need_a_renderer() -> None:
    """One assistant message is its content; anything else is named with its row."""
    message = {"role": "assistant", "content": "abc"}
    assert _call(_reward(), [[message], [message]], [1, 1]) == [3.0, 3.0]
    with pytest.raises(RewardContractError, match=r"group '1', trajectory '1/.*/1': the completion has 2 messages"):
        _call(_reward(), [[message], [message, message]], [1, 1])
    worker = worker_telling(_lengths, group_size=2)
    rendered = StageReward(worker, group_column="id", reference_column="answer", render=lambda each: "x" * len(each))
    assert _call(rendered, [[message], [message, message]], [1, 1]) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"on_unavailable": "drop_group"}, 'on_unavailable="drop_group": TRL has no way to leave a group out'),
        ({"estimator": "leave_one_out"}, "estimator='leave_one_out', but TRL computes 'group_norm'"),
        ({"estimator": "group_mean"}, "estimator='group_mean', but TRL computes 'group_norm'"),
        ({"namespace": "val"}, "expected namespace='train', got 'val'"),
    ],
)
def test_what_trl_can_not_do_is_refused(settings: dict[str, Any], text: str) -> None:
    """Each is named at construction."""
    with pytest.raises(RewardConfigError, match=text):
        _reward(**settings)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"scale_rewards": "batch"}, "scale_rewards: 'batch' .* is no estimator of the stage"),
        ({"group_column": "prompt"}, "group_column: expected a column with an id for each row, got 'prompt'"),
        ({"reference_column": None}, "reference_column: told needs the reference"),
        ({"validation_worker": "x"}, "validation_worker: expected a RewardWorker, got 'x'"),
        ({"worker": worker_for(RankExchange(), _lengths)}, "it evaluates over ranks"),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields: dict[str, Any], text: str) -> None:
    """All at once, each by name."""
    given = {"worker": worker_telling(_lengths), "group_column": "id", "reference_column": "answer", **fields}
    with pytest.raises(RewardConfigError, match=text):
        StageReward(**given)


def test_it_travels_by_the_catalogs_path(pickled: Callable[..., Any]) -> None:
    """An asynchronous trainer pickles it: settings go, workers are made again; a mapping can't travel."""
    worker = RewardWorker(reward="constant", group_size=2, estimator="group_mean", weights={"constant": 0.5})
    there = pickled(StageReward(worker, group_column="id", scale_rewards="none"))
    assert there.__name__ == "final"
    assert there(prompts=["p"] * 2, completions=["a", "b"], completion_ids=[[1]] * 2, id=[1, 1]) == [0.5, 0.5]
    with pytest.raises(RewardConfigError, match="travels to other processes by its catalog's path"):
        pickled(_reward())


def test_what_can_not_be_made_again_elsewhere_does_not_travel(tmp_path: Path, pickled: Callable[..., Any]) -> None:
    """A catalog in a file, and an evaluator with settings of its own, are refused before anything is sent."""
    (tmp_path / "mine.py").write_text("def catalog():\n    return {}\n")
    catalog = load_catalog("mine.py:catalog", base=tmp_path)
    in_file = RewardWorker(catalog=catalog, reward="constant", group_size=2)
    with pytest.raises(RewardConfigError, match="instead of a mapping, a file"):
        pickled(StageReward(in_file, group_column="id"))
    killable = RewardWorker(reward="constant", group_size=2, evaluator=ProcessEvaluator(workers=1))
    with pytest.raises(RewardConfigError, match="evaluates with ProcessEvaluator does not travel"):
        pickled(StageReward(killable, group_column="id"))


def test_the_bound_on_groups_in_flight_travels() -> None:
    """A service that must not be asked more at once is not asked more by the copy."""
    wide = told(_lengths, execution=ProviderExecution(groups_in_flight=8))
    catalog = RewardCatalog(wide, path="my_rewards:catalog")
    worker = RewardWorker(catalog=catalog, reward="told", group_size=2, groups_in_flight=3)
    state = StageReward(worker, group_column="id", reference_column="answer").__getstate__()
    assert state["workers"]["train"]["groups_in_flight"] == 3


def test_an_unchanged_trainer_trains_and_evaluates_on_it(tmp_path: Path) -> None:
    """TRL's own advantages come of our finals; evaluation goes to the validation worker."""
    from trl.trainer.grpo_trainer import GRPOTrainer

    tokenizer = tiny_tokenizer()
    validation = worker_telling(_lengths, namespace="val", group_size=2)
    reward = StageReward(
        worker_telling(_lengths), group_column="id", reference_column="answer", validation_worker=validation
    )
    trainer = GRPOTrainer(
        tiny_model(tokenizer),
        reward_funcs=[reward],
        args=config(tmp_path, num_generations_eval=2, per_device_eval_batch_size=4),
        train_dataset=rows(2),
        eval_dataset=rows(2),
        processing_class=tokenizer,
    )
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["train/group/count"] == 2.0
    assert logged["rewards/final/mean"] == pytest.approx(logged["train/reward/final/mean"])
    assert trainer.evaluate()["eval_val/group/count"] == 2.0
