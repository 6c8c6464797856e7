# SPDX-License-Identifier: Apache-2.0
"""TOML to nodes: the values of the standard library's reader, each with its right line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.runs.config.node import Node
from posttrain.runs.config.toml_lines import Place, TomlLines
from posttrain.runs.config.toml_text import read_toml

HERE = Path("/here")


def faults_of(text: str) -> list[str]:
    """The faults of a document."""
    faults: list[str] = []
    read_toml(text, "run.toml", HERE, faults)
    return faults


def lines_of(text: str) -> dict[str, int]:
    """Dotted place to its line."""
    return {".".join(map(str, place)): line for place, line in TomlLines(text).lines.items()}


def places(value: Any, place: Place = ()) -> set[Place]:
    """Every place of a value."""
    found = {place} if place else set()
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found.union(*(places(item, (*place, step)) for step, item in steps))


def test_tables_dotted_keys_and_arrays_of_tables() -> None:
    """A table made by several keys or headers stands at the first; items of arrays are told apart by their index."""
    text = """
# a comment = "not a key" [nor.a.table]
title = "x" # trailing = 1
a.b = 1
a . "c.d" = 2

[rl]
group_size = 8
data.path = "p"

[rl.reward_stage.weights] # implied tables stand here too
task = 1.0
"a.b" = 0.5

[[runs]]
name = "one"
[runs.inner]
x = 1
[[runs.parts]]
y = 1
[[runs.parts]]
y = 2
[[runs]]
name = "two"
[[runs.parts]]
y = 3
["quoted \\u0041 key".'lit\\eral']
z = 1
"""
    lines = lines_of(text)
    # Counted by hand; the text begins with an empty line 1.
    assert lines == {
        "title": 3,
        "a": 4,
        "a.b": 4,
        "a.c.d": 5,
        "rl": 7,
        "rl.group_size": 8,
        "rl.data": 9,
        "rl.data.path": 9,
        "rl.reward_stage": 11,
        "rl.reward_stage.weights": 11,
        "rl.reward_stage.weights.task": 12,
        "rl.reward_stage.weights.a.b": 13,
        "runs": 15,
        "runs.0": 15,
        "runs.0.name": 16,
        "runs.0.inner": 17,
        "runs.0.inner.x": 18,
        "runs.0.parts": 19,
        "runs.0.parts.0": 19,
        "runs.0.parts.0.y": 20,
        "runs.0.parts.1": 21,
        "runs.0.parts.1.y": 22,
        "runs.1": 23,
        "runs.1.name": 24,
        "runs.1.parts": 25,
        "runs.1.parts.0": 25,
        "runs.1.parts.0.y": 26,
        "quoted A key": 27,
        "quoted A key.lit\\eral": 27,
        "quoted A key.lit\\eral.z": 28,
    }


def test_arrays_inline_tables_and_strings_over_several_lines() -> None:
    """Lines are not lost over what a string may hold: quotes, hashes, brackets, ends of line."""
    text = '''a = """
x = 1 \\
"quoted" \\""" # [no.table]
"""
b = \'\'\'
[c]
y = "\'\'\'
c = [
  1, # one ] "
  "two]",
  { k = "}", l = [3, 4] },

  """
five
""",
]
d = { e.f = 1, "g" = { h = \'}\' } }
i = """""" # empty
j = \'\'\'a\'\'\'\'\'
k = """b"""""
l = 1979-05-27 07:32:00
m = ""
n = \'\'
o = []
p = {}
q = 1'''
    assert set(TomlLines(text).lines) == places(tomllib.loads(text))
    lines = lines_of(text)
    assert [lines[key] for key in "abcdijklmnopq"] == [1, 5, 8, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]
    assert [lines[f"c.{index}"] for index in range(4)] == [9, 10, 11, 13]
    assert (lines["c.2.k"], lines["c.2.l"], lines["c.2.l.1"]) == (11, 11, 11)
    assert (lines["d.e"], lines["d.e.f"], lines["d.g.h"]) == (17, 17, 17)


_WORDS = ("1", "-0.5", "true", "1_000", "2024-01-01", "0x1F")
_TEXTS = ('""', '"a"', '"\\" # ]"', "'}'", "''", "'\\'")
_LONG = ('"""a"""', '"""\n= [x]\n"""', '"""\\"""\n"x" """""', '"""\n\n"""')
_RAW = ("'''a'''", "'''\n\\\n'''", "''''a''''", "'''\n[b]\n'''")


class _Writer:
    """Writes a valid document and notes the line of each key as it goes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.text = ""
        self.known: dict[Place, int] = {}

    def one_of(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def note(self, place: Place) -> None:
        for end in range(1, len(place) + 1):
            self.known.setdefault(place[:end], self.text.count("\n") + 1)

    def key(self, name: str) -> str:
        return self.one_of(name, f'"{name}"', f"'{name}'")

    def filler(self) -> None:
        for _ in range(self.draw(st.integers(0, 2))):
            self.text += self.one_of("", "# a = 1", '  # """ [x]', "\t") + "\n"

    def value(self, place: Place, depth: int = 0) -> None:
        match self.one_of("word", "text", "long", "raw", *(("list", "table") if depth < 2 else ())):
            case "word":
                self.text += self.one_of(*_WORDS)
            case "text":
                self.text += self.one_of(*_TEXTS)
            case "long":
                self.text += self.one_of(*_LONG)
            case "raw":
                self.text += self.one_of(*_RAW)
            case "list":
                self.items(place, depth)
            case _:
                self.inline_table(place, depth)

    def items(self, place: Place, depth: int) -> None:
        self.text += "["
        for index in range(self.draw(st.integers(0, 3))):
            self.text += self.one_of("", "\n", "\n# , ]\n  ", " ")
            self.note((*place, index))
            self.value((*place, index), depth + 1)
            self.text += self.one_of(",", " ,", "\n,", ",\n")
        self.text += self.one_of("]", "\n]", "# x\n]")

    def inline_table(self, place: Place, depth: int) -> None:
        self.text += "{"
        for index in range(self.draw(st.integers(0, 3))):
            self.text += ", " if index else " "
            self.note((*place, f"i{index}"))
            self.text += self.key(f"i{index}") + self.one_of("=", " = ")
            self.value((*place, f"i{index}"), depth + 1)
        self.text += " }"

    def assignments(self, table: Place) -> None:
        for index in range(self.draw(st.integers(0, 3))):
            self.filler()
            place: Place = (*table, f"k{index}")
            left = self.key(f"k{index}")
            if self.draw(st.booleans()):
                place = (*place, "x")
                left += self.one_of(".", " . ") + self.key("x")
            self.note(place)
            self.text += f"{left} = "
            self.value(place)
            self.text += self.one_of("", "  # b = 2") + "\n"


@st.composite
def documents(draw: st.DrawFn) -> _Writer:
    """A valid document, with the line of each of its keys as the one who writes it knows them."""
    writer = _Writer(draw)
    writer.assignments(())
    counts = {"u": 0, "v": 0}
    for index, name in enumerate(draw(st.lists(st.sampled_from(["t", "u", "v"]), max_size=4))):
        writer.filler()
        if name == "t":
            place: Place = (f"t{index}", "sub")
            header = f"[{writer.key(f't{index}')}.{writer.key('sub')}]  # [x]"
        else:
            place = (name, counts[name])
            counts[name] += 1
            header = f"[[ {writer.key(name)} ]]"
        writer.note(place)
        writer.text += f"{header}\n"
        writer.assignments(place)
    writer.text += draw(st.sampled_from(["", "# the end"]))
    return writer


@given(documents())
def test_any_document_has_the_lines_that_its_writer_knows(document: _Writer) -> None:
    """Every place of the value has its line, and no other place has one."""
    assert places(tomllib.loads(document.text)) == set(document.known)
    assert TomlLines(document.text).lines == document.known


@given(st.text(st.sampled_from("ab.=[]{}\"'\\#,\n 1"), max_size=40))
def test_any_text_is_read_as_the_standard_library_reads_it(text: str) -> None:
    """Valid or not: the walk ends, and whatever the reader accepts has a line for each place."""
    lines = TomlLines(text)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(lines.lines) == places(value)
    assert lines.repeated == []


def test_windows_line_ends_count_once() -> None:
    """A file that was written on Windows has the same lines."""
    faults: list[str] = []
    node = read_toml("a = 1\r\n\r\nb = 2\r\n", "run.toml", HERE, faults)
    assert faults == []
    assert node is not None
    assert node.value["b"].where == "run.toml:3"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("a = 1\nb = 2\na = 3\n", ["run.toml:3: a stands twice, first at run.toml:1: keep one"]),
        ("[rl]\nx.y = 1\n\nx.'y' = 2\n", ["run.toml:4: rl.x.y stands twice, first at run.toml:2: keep one"]),
        ("[a]\n[b]\n[a]\n", ["run.toml:3: a stands twice, first at run.toml:1: keep one"]),
        ("a = 1\n[a]\n", ["run.toml:2: a stands twice, first at run.toml:1: keep one"]),
        ("[[a]]\nx = 1\nx = 2\n", ["run.toml:3: a[0].x stands twice, first at run.toml:2: keep one"]),
        ("a = { b = 1,\tb = 2 }\n", ["run.toml:1: a.b stands twice, first at run.toml:1: keep one"]),
        (
            'a = 1\nb = """\n"""\na = 2\nb = """\n\n"""\n',
            [
                "run.toml:4: a stands twice, first at run.toml:1: keep one",
                "run.toml:5: b stands twice, first at run.toml:2: keep one",
            ],
        ),
    ],
)
def test_every_key_that_stands_twice_is_named(text: str, faults: list[str]) -> None:
    """With both lines, a table as well as a key, all of them at once."""
    assert faults_of(text) == faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a = 1\nb = \n", r"run\.toml:2: no valid TOML: Invalid value, in column 5"),
        ("a = no\n", r"run\.toml:1: no valid TOML: Invalid value, in column 5"),
        ("a = 08\n", r"run\.toml:1: no valid TOML: .*"),
        ('a = "x\n', r"run\.toml:1: no valid TOML: Illegal character.*"),
        ("a = [1", r"run\.toml: no valid TOML: Unclosed array \(at end of document\)"),
        ("a.b = 1\n[a.b.c]\n", r"run\.toml:2: no valid TOML: Cannot.*"),
        ("a = " + "9" * 5000 + "\n", r"run\.toml: no valid TOML: Exceeds the limit.*"),
        ("a = " + "[" * 5000 + "]" * 5000, r"run\.toml: nested too deep"),
        ("a = " + "[" * 150 + "]" * 150, r"run\.toml: nested too deep"),
    ],
)
def test_what_is_no_toml_is_said_with_its_line(text: str, fault: str) -> None:
    """One fault, in the reader's own words, and no traceback of it."""
    (got,) = faults_of(text)
    assert re.fullmatch(fault, got), got


def test_a_repetition_hides_no_other_fault() -> None:
    """Where the reader stumbles over something else, that is told too."""
    first, second = faults_of("a = 1\na = 2\nb = \n")[:1], faults_of("b = \n")
    assert first == ["run.toml:2: a stands twice, first at run.toml:1: keep one"]
    assert second == ["run.toml:1: no valid TOML: Invalid value, in column 5"]


def test_every_node_knows_its_place() -> None:
    """Dates too come as they are, to be refused with their key and their line."""
    faults: list[str] = []
    node = read_toml("[rl]\na = [1, 2024-01-01]\n", "run.toml", HERE, faults)
    assert isinstance(node, Node)
    assert node.where == "run.toml"
    item = node.deepest(("rl", "a", 1, "deeper"))
    assert (item.where, str(item.value), item.folder) == ("run.toml:2", "2024-01-01", HERE)
