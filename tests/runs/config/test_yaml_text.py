# SPDX-License-Identifier: Apache-2.0
"""YAML to nodes: the right line for each value, words by our own rule, and nothing that stands for something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from posttrain.runs.config.node import Node
from posttrain.runs.config.yaml_text import read_yaml

HERE = Path("/here")


def read(text: str) -> Node:
    """The tree of a document without faults."""
    faults: list[str] = []
    node = read_yaml(text, "run.yaml", HERE, faults)
    assert faults == []
    assert node is not None
    return node


def faults_of(text: str) -> list[str]:
    """The faults of a document."""
    faults: list[str] = []
    read_yaml(text, "run.yaml", HERE, faults)
    return faults


def lines_of(node: Node, path: str = "") -> dict[str, int]:
    """Dotted path to the line that its node names."""
    label, _, line = node.where.rpartition(":")
    assert label == "run.yaml"
    found = {path: int(line)}
    children: Any = node.value.items() if isinstance(node.value, dict) else ()
    if isinstance(node.value, list):
        children = enumerate(node.value)
    for step, child in children:
        found |= lines_of(child, f"{path}.{step}".lstrip("."))
    return found


def test_lines_of_nested_keys_lists_and_long_texts() -> None:
    """Each key has its own line, each item of a list too; a text over several lines stands where its key is."""
    text = """# a comment
rl:
  group_size: 8   # another

  data: {path: a,
         split: b}
  text: |
    folded
    lines
  words: plain words
    go on here
  reward:
    - gsm8k
    - brevity
  last:
    1
"""
    lines = lines_of(read(text))
    assert lines == {
        "": 2,
        "rl": 2,
        "rl.group_size": 3,
        "rl.data": 5,
        "rl.data.path": 5,
        "rl.data.split": 6,
        "rl.text": 7,
        "rl.words": 10,
        "rl.reward": 12,
        "rl.reward.0": 13,
        "rl.reward.1": 14,
        "rl.last": 15,
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_counted_as_an_editor_does(end: str) -> None:
    """Line ends of Windows count once, and the line separators of Unicode, at which YAML breaks lines, not at all."""
    text = end.join(["a: 'x\u2028y'", "# \x85 \u2029", "b: 1", ""])
    assert lines_of(read(text)) == {"": 1, "a": 1, "b": 3}


def test_words_are_read_by_our_rule() -> None:
    """What YAML 1.1 takes for a switch, a date, an octal or a sexagesimal number stays text, as key too."""
    text = """
on: no
1: 08
date: 2024-01-01
time: 12:30
octal: 010
big: 1_000
power: 1e3
quoted: "8"
single: '8'
tagged: !!str 8
block: |-
  8
empty:
tilde: ~
yes_: Yes
truth: True
catalog: my_rewards:catalog
"""
    assert read(text).plain() == {
        "on": "no",
        "1": "08",
        "date": "2024-01-01",
        "time": "12:30",
        "octal": "010",
        "big": "1_000",
        "power": 1000.0,
        "quoted": "8",
        "single": "8",
        "tagged": "8",
        "block": "8",
        "empty": None,
        "tilde": None,
        "yes_": "Yes",
        "truth": True,
        "catalog": "my_rewards:catalog",
    }


def test_an_empty_file_is_an_empty_tree() -> None:
    """Nothing, and comments alone, set no key."""
    assert read("").plain() == {}
    assert read("# nothing yet\n").plain() == {}


def test_every_key_that_stands_twice_is_named() -> None:
    """At each depth, with both lines; the same key in two sections is fine."""
    text = "rl:\n  a: 1\n  b: {c: 1, c: 2}\n  a: 2\n  'a': 3\nx: {a: 1}\nrl: 5\n"
    assert faults_of(text) == [
        "run.yaml:3: rl.b.c stands twice, first at run.yaml:3: keep one",
        "run.yaml:4: rl.a stands twice, first at run.yaml:2: keep one",
        "run.yaml:5: rl.a stands twice, first at run.yaml:2: keep one",
        "run.yaml:7: rl stands twice, first at run.yaml:1: keep one",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: &x [1]\nb: *x\n", "run.yaml:2: no valid YAML: aliases are not followed: write the value out"),
        ("a: &x [*x]\n", "run.yaml:1: no valid YAML: aliases are not followed: write the value out"),
        ("b: 1\na: !!float 8\n", "run.yaml:2: a has the tag tag:yaml.org,2002:float: write the value as it is"),
        ("a: !!python/object:os.system x\n", "run.yaml:1: a has the tag tag:yaml.org,2002:python/object:os.system"),
        ("a: !!set {b, c}\n", "run.yaml:1: a has the tag tag:yaml.org,2002:set"),
        ("!x {a: 1}\n", "run.yaml:1: the file has the tag !x"),
        ("!x a: 1\n", "run.yaml:1: a key is plain text, not a list, a mapping or something with a tag"),
        ("? [a]\n: 1\n", "run.yaml:1: a key is plain text"),
        ("a: 1\n---\nb: 1\n", "run.yaml:2: no valid YAML: expected a single document in the stream, but found another"),
        ("a: [1\nb: 2\n", "run.yaml:2: no valid YAML: while parsing a flow sequence"),
        ("a: 1\n\tb: 2\n", "run.yaml:2: no valid YAML: while scanning"),
        ("a: b: c\n", "run.yaml:1: no valid YAML: mapping values are not allowed here"),
        ("a: 1\nb: \x07\n", "run.yaml:2: no valid YAML: the character 0x0007 is not allowed"),
        ("a: " + "[" * 5000, "run.yaml: nested too deep"),
        ("a: " + "[" * 150 + "]" * 150, "run.yaml: nested too deep"),
    ],
)
def test_what_can_not_stand_in_a_config(text: str, fault: str) -> None:
    """One fault, with its line, and no traceback of the parser."""
    (got,) = faults_of(text)
    assert got.startswith(fault)
