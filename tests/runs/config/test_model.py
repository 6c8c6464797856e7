# SPDX-License-Identifier: Apache-2.0
"""`RLConfig`: what each key accepts, what it means for the stage, and that it is said in the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from posttrain.errors import RewardConfigError
from posttrain.rewards.stage.estimators import ESTIMATORS
from posttrain.rollouts.columns import RolloutColumns
from posttrain.runs import RLConfig, load_config
from posttrain.runs.config.keys import LEAVES, dotted
from posttrain.runs.config.model import EstimatorName
from runs.config.trained_keys import NOT_TAKEN, OPEN_KEYS, TAKEN_TOO

NEEDED = ("rl.reward=gsm8k", "rl.group_size=8")


def config_of(*overrides: str) -> RLConfig:
    """A config with the keys that it needs and these."""
    return load_config(None, [*NEEDED, *overrides])


def test_the_defaults() -> None:
    """What holds where nobody says anything."""
    config = config_of()
    # What trainers need besides is looked at in `test_training_sections` and beside the trainers.
    of_trainers = {"policy": True, "grpo": True, "opd": True, "nft": True, "run": True}
    sampled = {"path", "source", "name", "revision", "split", "temperature", "seed", "batch_size"}
    left_out: Any = {**of_trainers, "validation": sampled}
    assert json.loads(config.model_dump_json(exclude=left_out)) == {
        "reward": ["gsm8k"],
        "reward_catalog": None,
        "reward_catalog_folder": None,
        "group_size": 8,
        "mask_truncated": False,
        "accept_identity": None,
        "data": {
            "path": None,
            "source": None,
            "name": None,
            "revision": None,
            "split": "train",
            "prompt_column": "prompt",
            "response_column": "reference",
            "row_id_column": None,
            "items_fn": None,
            "seed": 0,
            "shuffle": True,
            "spool_dir": None,
            "group_id_column": "group_id",
            "trajectory_id_column": "trajectory_id",
            "completion_column": "completion",
            "completions_column": "completions",
            "finish_reason_column": "finish_reason",
            "completion_token_count_column": "completion_token_count",
        },
        "reward_stage": {
            "weights": {},
            "estimator": "group_norm",
            "on_unavailable": "fail",
            "max_dropped_fraction": 0.1,
            "groups_in_flight": None,
            "backend": "in_process",
            "processes": {
                "workers": 4,
                "group_timeout_s": 300.0,
                "memory_limit_mib": None,
                "start_timeout_s": 60.0,
            },
            "ray": {
                "address": None,
                "namespace": None,
                "min_actors": 1,
                "max_actors": None,
                "num_cpus": 1.0,
                "resources": {},
                "runtime_env": None,
                "group_timeout_s": 300.0,
                "start_timeout_s": 120.0,
                "redispatches": 2,
                "idle_s": 60.0,
            },
        },
        "validation": {"enabled": False, "reward": None, "n_generation": 1, "interval": None},
    }


# Key to values that it takes, as they are typed, and the value that is held.
TAKEN: dict[str, list[tuple[str, Any]]] = {
    "rl.reward": [("gsm8k", ("gsm8k",)), ("[gsm8k,brevity]", ("gsm8k", "brevity")), ("[a.b-c_1]", ("a.b-c_1",))],
    "rl.reward_catalog": [("a:b", "a:b"), ("a.b.c", "a.b.c"), ("x/y.py:c", "x/y.py:c"), ("/x.py:c.d", "/x.py:c.d")],
    "rl.group_size": [("1", 1), ("1000000", 1000000)],
    "rl.mask_truncated": [("true", True), ("false", False)],
    "rl.accept_identity": [("ab" * 32, "ab" * 32), (f"'{'0' * 64}'", "0" * 64)],
    "rl.data.path": [("x", "x"), ("a b.jsonl", "a b.jsonl"), ("openai/gsm8k", "openai/gsm8k"), ("'8'", "8")],
    "rl.data.source": [("jsonl", "jsonl"), ("hf", "hf"), ("function", "function")],
    "rl.data.name": [("main", "main")],
    "rl.data.revision": [("v1.0", "v1.0")],
    "rl.data.split": [("train[:10%]", "train[:10%]"), ("no", "no")],
    "rl.data.shuffle": [("false", False)],
    "rl.data.spool_dir": [("/scratch", "/scratch")],
    "rl.data.items_fn": [("my.rows:fix", "my.rows:fix"), ("my.rows.fix", "my.rows.fix")],
    "rl.data.seed": [("0", 0), ("4294967295", 4294967295)],
    "rl.reward_stage.estimator": [(name, name) for name in ESTIMATORS],
    "rl.reward_stage.on_unavailable": [("fail", "fail"), ("drop_group", "drop_group")],
    "rl.reward_stage.max_dropped_fraction": [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-3", 0.001)],
    "rl.reward_stage.groups_in_flight": [("1", 1)],
    "rl.reward_stage.backend": [("in_process", "in_process"), ("processes", "processes"), ("ray", "ray")],
    "rl.reward_stage.processes.workers": [("1", 1)],
    "rl.reward_stage.processes.group_timeout_s": [("0.5", 0.5), ("30", 30.0)],
    "rl.reward_stage.processes.memory_limit_mib": [("2048", 2048)],
    "rl.reward_stage.processes.start_timeout_s": [("10", 10.0)],
    "rl.reward_stage.ray.address": [("auto", "auto"), ("10.0.0.1:6379", "10.0.0.1:6379")],
    "rl.reward_stage.ray.namespace": [("rewards", "rewards")],
    "rl.reward_stage.ray.min_actors": [("1", 1)],
    "rl.reward_stage.ray.max_actors": [("1000", 1000)],
    "rl.reward_stage.ray.num_cpus": [("0", 0.0), ("0.25", 0.25), ("2", 2.0)],
    "rl.reward_stage.ray.runtime_env": [("conf/env.yaml", "conf/env.yaml")],
    "rl.reward_stage.ray.group_timeout_s": [("0.5", 0.5)],
    "rl.reward_stage.ray.start_timeout_s": [("10", 10.0)],
    "rl.reward_stage.ray.redispatches": [("0", 0), ("5", 5)],
    "rl.reward_stage.ray.idle_s": [("600", 600.0)],
    "rl.validation.enabled": [("true", True)],
    "rl.validation.reward": [("gsm8k", ("gsm8k",)), ("[a, b]", ("a", "b"))],
    "rl.validation.n_generation": [("4", 4)],
    "rl.validation.interval": [("50", 50)],
    "rl.run.name": [("a.b-c_1", "a.b-c_1"), ("'2024'", "2024"), ("2024-01-01", "2024-01-01")],
    "rl.run.directory": [("/data/runs", "/data/runs"), ("a b", "a b")],
    **TAKEN_TOO,
}
# Key to values that it does not take, and what is said of each.
REFUSED: dict[str, list[tuple[str, str]]] = {
    "rl.reward": [("8", "put it in quotes"), ("a b", "expected letters"), ("[a, '']", "expected letters")],
    "rl.reward_catalog": [
        ("my_rewards", "expected package.module:factory, package.module.factory or file.py:factory"),
        ("my_rewards.py", "name the function, for example my_rewards.py:catalog"),
        ("~/x.py:c", "~ is not expanded"),
        (":", "expected package.module:factory"),
    ],
    "rl.group_size": [
        *(("0", "got 0 (int)"), ("-1", "got -1 (int)"), ("8.0", "write 8"), ("1e3", "write 1000")),
        *(("true", "got True (bool)"), ("'8'", "write 8 without quotes"), ("[8]", "got [8] (list)")),
        *(("08", "without leading zeros"), ("0x8", "write it as a decimal number"), ("+8", "write 8")),
        *(("1_000", "write 1000"), ("eight", "got 'eight' (str)"), ("1.5", "got 1.5 (float)")),
    ],
    "rl.mask_truncated": [("1", "write true"), ("off", "write false"), ("'true'", "write true"), ("x", "got 'x'")],
    "rl.accept_identity": [("AB" * 32, "in lower case"), ("ab", "64 hexadecimal digits"), ("8", "put it in quotes")],
    "rl.data.path": [
        *(("8", "put it in quotes"), ("''", "got an empty one"), ("~/x.jsonl", "~ is not expanded")),
        *(("${HOME}/x", "nothing is interpolated"), ("a\0b", "a path holds no NUL"), ("a\udc80", "surrogate")),
    ],
    "rl.data.source": [("json", "did you mean jsonl?"), ("parquet", "expected one of jsonl, hf"), ("8", "got 8")],
    "rl.data.name": [("''", "got an empty one")],
    "rl.data.revision": [("1", "put it in quotes")],
    "rl.data.split": [("true", "put it in quotes"), ("''", "got an empty one")],
    "rl.data.shuffle": [("0", "write false")],
    "rl.data.spool_dir": [("~/x", "~ is not expanded")],
    "rl.data.items_fn": [("fix", "expected package.module:function"), ("a-b:c", "got 'a-b:c'"), ("x.py:", "got")],
    "rl.data.seed": [("4294967296", "from 0 to 4294967295"), ("-1", "got -1"), ("false", "got False (bool)")],
    "rl.reward_stage.estimator": [("group_nrm", "did you mean group_norm?"), ("grpo", "expected one of group_norm")],
    "rl.reward_stage.on_unavailable": [("drop", "did you mean drop_group?"), ("zero", "expected one of fail")],
    "rl.reward_stage.max_dropped_fraction": [
        *(("1.01", "from 0 to 1"), ("-0.1", "got -0.1"), ("1e999", "got inf (float)"), ("true", "got True (bool)")),
        *(("'0.1'", "write 0.1 without quotes"), (".5", "write 0.5"), ("10%", "got '10%' (str)"), ("nan", "got 'nan'")),
    ],
    "rl.reward_stage.groups_in_flight": [("0", "at least 1")],
    "rl.reward_stage.backend": [("threads", "expected one of in_process")],
    "rl.reward_stage.processes.workers": [("0", "at least 1"), ("2.0", "write 2")],
    "rl.reward_stage.processes.group_timeout_s": [("0", "a number of seconds above 0"), ("1e999", "got inf")],
    "rl.reward_stage.processes.memory_limit_mib": [("0", "at least 1"), ("1.5", "got 1.5")],
    "rl.reward_stage.processes.start_timeout_s": [("-1", "above 0"), ("'5'", "write 5 without quotes")],
    "rl.reward_stage.ray.address": [("''", "got an empty one")],
    "rl.reward_stage.ray.namespace": [("8", "put it in quotes")],
    "rl.reward_stage.ray.min_actors": [("0", "at least 1")],
    "rl.reward_stage.ray.max_actors": [("0", "at least 1")],
    "rl.reward_stage.ray.num_cpus": [("-1", "at least 0"), ("1e999", "got inf")],
    "rl.reward_stage.ray.resources.gpu": [("0", "above 0"), ("true", "got True"), ("'1'", "write 1 without quotes")],
    "rl.reward_stage.ray.runtime_env": [("~/env.yaml", "~ is not expanded")],
    "rl.reward_stage.ray.group_timeout_s": [("0", "above 0")],
    "rl.reward_stage.ray.start_timeout_s": [("0", "above 0")],
    "rl.reward_stage.ray.redispatches": [("-1", "at least 0"), ("1.0", "write 1")],
    "rl.reward_stage.ray.idle_s": [("0", "above 0")],
    "rl.reward_stage.weights.a": [("1e999", "got inf"), ("true", "got True"), ("'1'", "write 1 without quotes")],
    "rl.reward_stage.weights.final": [("1", "term name 'final' is reserved")],
    "rl.validation.enabled": [("yes", "write true"), ("0", "write false")],
    "rl.validation.reward": [("[]", "an empty list")],
    "rl.validation.n_generation": [("0", "at least 1")],
    "rl.validation.interval": [("0", "at least 1")],
    "rl.run.name": [("..", "it names a folder"), ("a/b", "it names a folder"), ("2024", "put it in quotes")],
    "rl.run.directory": [("~/runs", "~ is not expanded")],
    **NOT_TAKEN,
}


def held(config: Any, key: str) -> Any:
    """What a config holds at a dotted key."""
    for step in key.split(".")[1:]:
        config = getattr(config, step)
    return config


@pytest.mark.parametrize(("key", "text", "value"), [(key, *each) for key, every in TAKEN.items() for each in every])
def test_what_a_key_takes(key: str, text: str, value: Any) -> None:
    """Each kind of value arrives as itself, in its own type."""
    got = held(load_config(None, [*NEEDED, f"{key}={text}"]), key)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("key", "text", "told"), [(key, *each) for key, every in REFUSED.items() for each in every])
def test_what_a_key_does_not_take(key: str, text: str, told: str) -> None:
    """Nothing is converted: one fault, which names the key and says what was expected or how to write it."""
    with pytest.raises(RewardConfigError, match="is not valid:\n  ") as caught:
        load_config(None, [*NEEDED, f"{key}={text}"])
    _, fault = str(caught.value).splitlines()
    assert fault.startswith(f"  {key}")
    assert told in fault


def test_every_key_is_tried() -> None:
    """No key without a value that it takes, and none without one that it does not; columns are texts like any."""
    keys = {dotted(key) for key in LEAVES if not key[-1].endswith("_column")}
    # A folder is set by the catalog; weights and resources are tried name by name.
    others = {"rl.reward_stage.weights", "rl.reward_stage.ray.resources", "rl.reward_catalog_folder", *OPEN_KEYS}
    # Adapters have a scale only where there are adapters.
    assert keys - set(TAKEN) == others | {"rl.policy.lora_alpha"}
    assert keys - set(REFUSED) == others


def test_a_config_is_frozen_and_strict() -> None:
    """Nothing changes afterwards, nothing is converted, no key is made up, when it is made in Python too."""
    config = config_of("rl.reward_stage.weights.a=1")
    with pytest.raises(ValidationError, match="frozen"):
        config.group_size = 4
    with pytest.raises(TypeError, match="frozen"):
        config.reward_stage.weights["a"] = 2.0  # type: ignore[index]  # the mistake under test
    for wrong in ({"group_size": "8"}, {"group_size": True}, {"group_sze": 8}, {"data": {"seed": 1.0}}):
        with pytest.raises(ValidationError, match="1 validation error"):
            RLConfig.model_validate({"reward": "gsm8k", "group_size": 8, **wrong})


def test_a_config_can_be_sent_to_another_process(pickled: Callable[..., Any]) -> None:
    """Pickled and read again it is equal."""
    config = config_of("rl.reward_stage.weights.a=1", "rl.data.path=x.jsonl")
    assert pickled(config) == config


@pytest.mark.parametrize(
    ("path", "source"),
    [
        *(("a.jsonl", "jsonl"), ("a.jsonl.gz", "jsonl"), ("/x/a.jsonl.zst", "jsonl")),
        *(("openai/gsm8k", "hf"), ("a.json", "hf"), ("a.parquet", "hf"), ("jsonl", "hf")),
    ],
)
def test_the_source_is_what_the_path_is(path: str, source: str) -> None:
    """The name alone decides, so that the same config means the same on every machine; what is said wins."""
    assert config_of(f"rl.data.path={path}").data.source == source
    other = "hf" if source == "jsonl" else "jsonl"
    assert config_of(f"rl.data.path={path}", f"rl.data.source={other}").data.source == other


def test_rows_are_rewritten_for_hugging_face_sources_only() -> None:
    """With a JSONL file `items_fn` is refused, whether the source is said or found."""
    fix = "rl.data.items_fn=my:fix"
    assert config_of("rl.data.path=openai/gsm8k", fix).data.items_fn == "my:fix"
    assert config_of("rl.data.path=a.jsonl", "rl.data.source=hf", fix).data.items_fn == "my:fix"
    for overrides in (["rl.data.path=a.jsonl"], ["rl.data.path=a", "rl.data.source=jsonl"]):
        with pytest.raises(RewardConfigError, match=r"rl\.data\.items_fn .*a JSONL file is prepared offline"):
            config_of(*overrides, fix)


def test_prompt_and_reference_are_two_columns() -> None:
    """Also where one of them has its default."""
    for override in ("rl.data.prompt_column=reference", "rl.data.response_column=prompt"):
        with pytest.raises(RewardConfigError, match=r"rl\.data\.response_column .*are both column"):
            config_of(override)


def test_validation_may_be_set_while_it_is_off() -> None:
    """So that one switch turns it on."""
    config = config_of("rl.validation.reward=exact_match", "rl.validation.n_generation=4")
    assert not config.validation.enabled
    assert (config.rewards("train"), config.rewards("val")) == (("gsm8k",), ("exact_match",))
    assert config_of().rewards("val") == ("gsm8k",)


def test_columns_of_saved_rollouts() -> None:
    """The keys of `rl.data` are the columns of the reader; `response_column` is its reference."""
    assert config_of().rollout_columns() == RolloutColumns()
    config = config_of("rl.data.response_column=answer", "rl.data.completion_column=text", "rl.data.prompt_column=q")
    assert config.rollout_columns() == RolloutColumns(reference="answer", completion="text", prompt="q")


def test_columns_that_only_saved_rollouts_need_apart_are_checked_there() -> None:
    """Training data may well have the reference in a column named completion; saved rollouts may not."""
    config = config_of("rl.data.response_column=completion")
    with pytest.raises(RewardConfigError, match=r"rl\.data\.completion_column and rl\.data\.response_column are both"):
        config.rollout_columns()


CATALOG = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    return RewardProviderResult({"chars": float(len(candidate.completion))})

def catalog():
    return {"length": RewardProviderSpec(factory=partial(map_candidates, score), revision="1", terms=("chars",))}
"""


def test_the_worker_of_training_and_that_of_validation(
    written: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One catalog; each has its providers, its group size and its weights."""
    written("conf/mine/rewards.py", CATALOG)
    monkeypatch.chdir(tmp_path)
    path = written(
        "conf/run.toml",
        """
[rl]
reward = ["gsm8k", "length"]
reward_catalog = "mine/rewards.py:catalog"
group_size = 8
validation = { reward = "length", n_generation = 4 }
reward_stage = { estimator = "group_mean", weights = { gsm8k = 2, chars = 0.5 }, max_dropped_fraction = 0.2 }
""",
    )
    config = load_config(path, ["rl.reward_stage.on_unavailable=drop_group"])
    train, val = config.worker().stage_identity, config.worker(namespace="val").stage_identity
    assert (train.group_size, val.group_size) == (8, 4)
    assert train.weights == {"gsm8k": 2.0, "chars": 0.5}
    assert val.weights == {"chars": 0.5}
    for identity in (train, val):
        assert (identity.estimator, identity.on_unavailable) == ("group_mean", "drop_group")
        assert identity.max_dropped_fraction == 0.2
        # Relative to the config, wherever the command runs, so that the identity is the same.
        assert str(identity.providers[-1].catalog).startswith("mine/rewards.py@sha256:")
    again = load_config(written("elsewhere.toml", config.to_toml()))
    assert again.worker().stage_identity == train


def test_a_weight_that_no_provider_declares_is_refused_in_validation_too() -> None:
    """Only training's other terms are left out there; a slip is not."""
    config = config_of("rl.reward_stage.weights.gsm9k=1", "rl.validation.reward=exact_match")
    for namespace in ("train", "val"):
        with pytest.raises(RewardConfigError, match="weights for unknown terms 'gsm9k'"):
            config.worker(namespace=namespace)


def test_the_estimators_are_those_of_the_stage() -> None:
    """The type that the editor shows names all of them."""
    assert set(get_args(EstimatorName)) == set(ESTIMATORS)
