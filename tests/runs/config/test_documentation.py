# SPDX-License-Identifier: Apache-2.0
"""docs/config.md is true: its examples are run, its keys and defaults are those of the model."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import load_config
from posttrain.runs.config.keys import LEAVES, SECTIONS, dotted
from posttrain.runs.config.model import RLConfig


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    """The page."""
    return (repository / "docs" / "config.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def test_every_key_has_a_row(page: str) -> None:
    """Each key once, in the order of the model, and no other."""
    rows = re.findall(r"^\| `(rl\.[a-z_.]+)` \|", page, re.MULTILINE)
    assert sorted(rows) == sorted(dotted(key) for key in LEAVES)
    assert all(f"### `{dotted(key)}`\n" in page for key in SECTIONS if key)


def test_every_default_is_the_one_that_holds(page: str) -> None:
    """Where the table has a default in one word, a config without the key holds it."""
    config: Any = load_config(None, ["rl.reward=gsm8k", "rl.group_size=8"])
    checked = set()
    for key, default in re.findall(r"^\| `(rl\.[a-z_.]+)` \|.*\| ([a-z0-9_.-]+) \|$", page, re.MULTILINE):
        held = config
        for step in key.split(".")[1:]:
            held = getattr(held, step)
        said = {"false": False, "true": True, "none": None}.get(default, default)
        assert str(held) == str(said), key
        checked.add(key)
    fields = {
        f"rl.{section}.{name}": field.default
        for section in ("data", "reward_stage", "validation", "policy", "grpo", "opd", "nft", "run")
        for name, field in type(getattr(config, section)).model_fields.items()
    }
    # Defaults that are a value have to be in the table as such.
    plain = {key for key, default in fields.items() if isinstance(default, (str, int, float))}
    assert plain <= checked


def test_the_file_and_the_overrides_are_one_config(page: str, written: Callable[..., Path]) -> None:
    """The two examples at the top of the page describe the same run."""
    (text,) = blocks(page, "toml")
    line = blocks(page, "sh")[1].replace("\\\n", " ")
    overrides = shlex.split(line)[2:]
    assert len(overrides) == 8
    assert load_config(written("run.toml", text)) == load_config(None, overrides)


def test_the_overrides_that_are_shown_are_read(page: str) -> None:
    """One a line, as a shell would hand them over."""
    lines = blocks(page, "sh")[2].splitlines()
    overrides = [shlex.split(line, comments=True)[0] for line in lines]
    assert len(overrides) == 4
    config = load_config(None, [*overrides, "rl.group_size=8"])
    assert config.reward == ("gsm8k", "brevity")
    assert dict(config.reward_stage.weights) == {"gsm8k": 1.0, "length": -0.1}
    assert (config.validation.enabled, config.validation.interval) == (True, 50)


def test_the_words_that_stay_text(page: str) -> None:
    """Every word that the page calls a text is one."""
    (listed,) = re.findall(r"otherwise the text that it looks like: (.*?)\.\n", page, re.DOTALL)
    words = re.findall(r"`([^`]+)`", listed)
    assert len(words) > 10
    for word in words:
        config = load_config(None, ["rl.reward=gsm8k", "rl.group_size=8", f"rl.data.split={word}"])
        assert config.data.split == word


def test_the_faults_that_are_shown_are_those_that_come(
    page: str, command: Callable[..., Any], written: Callable[..., Path]
) -> None:
    """The message at the end of the page, word by word."""
    (shown,) = blocks(page, "text")
    written("run.toml", '[rl]\nreward = "gsm8k"\n\ngrup_size = 8\n')
    done = command("config", "--config", "run.toml", "rl.data.seed=08")
    assert done.returncode == 2
    assert done.stderr == shown


def test_the_model_has_no_other_sections() -> None:
    """What the page calls a section is what the model has."""
    inner = {("reward_stage", "processes"), ("reward_stage", "ray"), ("nft", "reward")}
    sections = {("data",), ("reward_stage",), ("validation",), ("policy",), ("grpo",), ("opd",), ("nft",), ("run",)}
    assert {key[1:] for key in SECTIONS if len(key) > 1} == sections | inner
    assert SECTIONS[("rl",)] == tuple(RLConfig.model_fields)
