# SPDX-License-Identifier: Apache-2.0
"""A config written back and read again is the same config, whatever it holds and wherever its values came from."""

from __future__ import annotations

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from posttrain.runs import RLConfig, load_config
from posttrain.runs.config import resolve_config
from posttrain.runs.config.write import toml_string
from strategies import config_texts, config_trees


def reread(text: str) -> RLConfig:
    """The config of a TOML text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_bytes(text.encode())
        return load_config(path)


def flow(value: Any) -> str:
    """Any value as an override may have it, every text in quotes with its characters spelled out."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{flow(key)}: {flow(item)}' for key, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, str):
        return (
            '"' + "".join(each if each.isascii() and each.isalnum() else f"\\U{ord(each):08x}" for each in value) + '"'
        )
    return json.dumps(value)


@st.composite
def overrides(draw: st.DrawFn, tree: dict[str, Any], prefix: str = "rl") -> list[str]:
    """Overrides that make a tree: each section key by key, or as a whole."""
    texts = []
    for key, value in tree.items():
        path = f"{prefix}.{key}"
        if isinstance(value, dict) and value and draw(st.booleans()):
            texts += draw(overrides(value, path))
        else:
            texts.append(f"{path}={flow(value)}")
    return texts


@given(config_trees())
def test_any_config_survives_writing(tree: dict[str, Any]) -> None:
    """TOML text of a config, read again, gives an equal config and the same text."""
    config = RLConfig.model_validate(tree)
    text = config.to_toml()
    again = reread(text)
    # A catalog file gets the folder of the file that names it.
    folder = again.reward_catalog_folder
    assert again == config.model_copy(update={"reward_catalog_folder": folder})
    assert reread(again.to_toml()) == again
    if folder is None:
        assert again.to_toml() == text


@given(st.data())
def test_any_overrides_survive_writing(data: st.DataObject) -> None:
    """Any overrides give the config of their tree; printed with its origins, it is read as an equal config."""
    tree = data.draw(config_trees())
    resolved = resolve_config(None, data.draw(overrides(tree)))
    assert resolved.config.model_copy(update={"reward_catalog_folder": None}) == RLConfig.model_validate(tree)
    assert reread(resolved.to_toml()) == resolved.config


@given(config_trees(), st.data())
def test_overrides_over_a_file_are_the_two_laid_over_each_other(tree: dict[str, Any], data: st.DataObject) -> None:
    """Each key has the override's value where there is one, and the file's otherwise."""
    other = data.draw(config_trees())
    # Either of these would be checked against a key of the other tree.
    for each in (tree, other):
        for key in ("items_fn", "prompt_column", "response_column", "path", "source"):
            each.get("data", {}).pop(key, None)
        each.pop("reward_catalog", None)
    texts = data.draw(overrides(other))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        path.write_bytes(RLConfig.model_validate(tree).to_toml().encode())
        got = load_config(path, texts)
    merged = {**tree, **other}
    for section in ("data", "reward_stage", "validation", "run"):
        if section in tree and section in other:
            merged[section] = {**tree[section], **other[section]}
    inner = [each.get("reward_stage", {}).get("processes") for each in (tree, other)]
    if inner[0] is not None and inner[1] is not None:
        merged["reward_stage"] = {**merged["reward_stage"], "processes": {**inner[0], **inner[1]}}
    # Weights that an override gives one by one join the file's; given as a whole they replace them.
    if any(text.startswith("rl.reward_stage.weights.") for text in texts):
        both = [each.get("reward_stage", {}).get("weights", {}) for each in (tree, other)]
        merged["reward_stage"]["weights"] = {**both[0], **both[1]}
    assert got == RLConfig.model_validate(merged)


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_a_toml_string(text: str) -> None:
    """Quotes, backslashes, ends of line and what does not print come back as they were."""
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}
    assert "\n" not in toml_string(text)


@given(config_texts)
def test_a_comment_can_not_break_the_text(text: str) -> None:
    """Whatever stands in an override, its origin is a comment of one line."""
    resolved = resolve_config(
        None, ["rl.reward=gsm8k", "rl.group_size=8", f"rl.data.split={flow(text)}", "rl.run.name=a"]
    )
    assert reread(resolved.to_toml()) == resolved.config


def test_the_order_is_that_of_the_keys() -> None:
    """The same text, in whichever order the values were given."""
    values = ["rl.run.name=a", "rl.group_size=8", "rl.data.seed=1", "rl.reward=[b, a]", "rl.validation.enabled=true"]
    text = load_config(None, values).to_toml()
    assert load_config(None, values[::-1]).to_toml() == text
    # What is kept for trainers stands between the two last sections.
    head, tail = text.split("\n[rl.policy]\n")[0], text.split("\n[rl.run]\n")[1]
    assert (
        f"{head}\n[rl.run]\n{tail}"
        == """[rl]
reward = ["b", "a"]
group_size = 8
mask_truncated = false

[rl.data]
split = "train"
prompt_column = "prompt"
response_column = "reference"
seed = 1
shuffle = true
group_id_column = "group_id"
trajectory_id_column = "trajectory_id"
completion_column = "completion"
completions_column = "completions"
finish_reason_column = "finish_reason"
completion_token_count_column = "completion_token_count"

[rl.reward_stage]
estimator = "group_norm"
on_unavailable = "fail"
max_dropped_fraction = 0.1
backend = "in_process"

[rl.reward_stage.processes]
workers = 4
group_timeout_s = 300.0
start_timeout_s = 60.0

[rl.reward_stage.ray]
min_actors = 1
num_cpus = 1.0
group_timeout_s = 300.0
start_timeout_s = 120.0
redispatches = 2
idle_s = 60.0

[rl.validation]
enabled = true
n_generation = 1
split = "test"
seed = 0
batch_size = 256

[rl.run]
name = "a"
directory = "runs"
tensorboard = false
"""
    )


def test_the_origin_of_each_value_stands_behind_it() -> None:
    """A key without a value is told of in a comment; a term with a dot is quoted."""
    text = resolve_config(
        None, ["rl.reward=gsm8k", "rl.group_size=8", "rl.reward_stage.weights.a.b=1", "rl.data.path=x.jsonl"]
    ).to_toml()
    lines = text.splitlines()
    assert 'reward = "gsm8k"  # override rl.reward=gsm8k' in lines
    assert "mask_truncated = false  # default" in lines
    assert "# accept_identity is not set" in lines
    assert 'source = "jsonl"  # default for this path' in lines
    at = lines.index("[rl.reward_stage.weights]")
    assert lines[at + 1] == '"a.b" = 1.0  # override rl.reward_stage.weights.a.b=1'
