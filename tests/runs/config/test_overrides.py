# SPDX-License-Identifier: Apache-2.0
"""`rl.key=value`: how a value is read, and what is none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from posttrain.runs import load_config
from posttrain.runs.config.overrides import read_override
from strategies import config_texts

SEED = (
    "rl.data.path=/path/x.jsonl rl.data.prompt_column=messages rl.data.response_column=reward_input rl.reward=rubric "
    "rl.reward_catalog=my_rewards:catalog rl.group_size=8 rl.validation.reward=gsm8k rl.validation.n_generation=4"
)


def value_of(text: str) -> Any:
    """The value of the override ``rl.x=<text>``."""
    key, node = read_override(f"rl.x={text}")
    assert key == "rl.x"
    return node.plain()


def test_the_line_of_the_specification() -> None:
    """The overrides that the specification writes are read as it means them."""
    config = load_config(None, SEED.split())
    assert config.data.path == "/path/x.jsonl"
    assert config.data.source == "jsonl"
    assert (config.data.prompt_column, config.data.response_column) == ("messages", "reward_input")
    assert config.reward == ("rubric",)
    assert config.reward_catalog == "my_rewards:catalog"
    assert config.group_size == 8
    assert (config.validation.reward, config.validation.n_generation) == (("gsm8k",), 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("null", None),
        ("gsm8k", "gsm8k"),
        ("my_rewards:catalog", "my_rewards:catalog"),
        ("08", "08"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("no", "no"),
        ("a=b", "a=b"),
        ("a: b # c", "a: b # c"),
        ("train[:10%]", "train[:10%]"),
        ("- a", "- a"),
        ("*a", "*a"),
        ("&a b", "&a b"),
        ("!!str 8", "!!str 8"),
        ("| a", "| a"),
        ("%a", "%a"),
        ("it's", "it's"),
        ("two\nlines", "two\nlines"),
        ("  8 ", 8),
        ('"8"', "8"),
        ("'8'", "8"),
        ("'it''s'", "it's"),
        (r'"a\n\u00e9"', "a\né"),
        ('""', ""),
        ("[gsm8k,brevity]", ["gsm8k", "brevity"]),
        ("[gsm8k, 'a, b', 3]", ["gsm8k", "a, b", 3]),
        ('["gsm8k", "brevity"]', ["gsm8k", "brevity"]),
        ("[no, 08, 12:30, 1e3]", ["no", "08", "12:30", 1000.0]),
        ("[]", []),
        ("{task: 1, length: -0.1}", {"task": 1, "length": -0.1}),
        ('{"task":1}', {"task": 1}),
        ("{a: {b: [1]}}", {"a": {"b": [1]}}),
        ("{1: 2}", {"1": 2}),
        ("{!!str 8: !!str 8}", {"8": "8"}),
        ("{}", {}),
    ],
)
def test_how_a_value_is_read(text: str, value: Any) -> None:
    """Words are read whole; brackets, braces and quotes as flow form, the words in them by the same rule."""
    got = value_of(text)
    # JSON text tells 1, 1.0 and true apart.
    assert json.dumps(got) == json.dumps(value)


@given(config_texts)
def test_a_plain_text_needs_no_quotes(text: str) -> None:
    """A text that begins with no bracket, brace or quote, and is no word of its own, arrives as it is."""
    if text.strip() and text.strip()[0] not in "[{\"'":
        got = value_of(text)
        assert got == text.strip() or not isinstance(got, str)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gsm8k", "override gsm8k: expected KEY=VALUE, for example rl.group_size=8"),
        ("run.toml", "a file is no override"),
        ("=8", "override =8: expected KEY=VALUE"),
        ("rl.x=", "override rl.x=: no value; write rl.x=null for the default"),
        ("rl.x=  ", "no value"),
        ("rl.x=[a, b", "put the whole value in quotes if it is meant as text"),
        ("rl.x=[a] b", "put the whole value in quotes"),
        ("rl.x=[a] # b", "something stands behind its end"),
        ("rl.x='tis", "put the whole value in quotes"),
        ('rl.x="a": b', "something stands behind its end"),
        ("rl.x={a: 1, a: 2}", "the value.a stands twice"),
        ("rl.x={[1]: 2}", "a key is plain text, not a list"),
        ("rl.x=[&a b, *a]", "aliases are not followed: write the value out"),
        ("rl.x=[!!int 8]", "has the tag tag:yaml.org,2002:int: write the value as it is"),
        ("rl.x=['\x01']", "the character 0x0001 is not allowed"),
        ("rl.x=" + "[" * 5000 + "]" * 5000, "nested too deep"),
        ("rl.x=" + "[" * 150 + "]" * 150, "nested too deep"),
    ],
)
def test_what_is_no_override(text: str, message: str) -> None:
    """The message begins with the override and says what is wrong with it."""
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        read_override(text)
    assert str(caught.value).startswith("override ")


def test_a_long_override_is_shown_on_one_short_line() -> None:
    """Control characters are spelled out and the rest is cut, so that a place fits into an error and a comment."""
    _, node = read_override("rl.x=a\nb\x1b[0m" + "c" * 200)
    assert node.where.startswith(r"override rl.x=a\nb\x1b[0mccc")
    assert node.where.endswith("ccc...")
    assert len(node.where) <= 100


def test_paths_of_an_override_start_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is typed in a shell is relative to where the shell stands."""
    monkeypatch.chdir(tmp_path)
    assert read_override("rl.x=1")[1].folder == tmp_path
