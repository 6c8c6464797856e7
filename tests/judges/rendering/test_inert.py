# SPDX-License-Identifier: Apache-2.0
"""Texts that others wrote can't leave their place."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import blocks_of
from posttrain.frozen import freeze
from posttrain.judges.rendering import Shown, blocks, digest, mark_of, shown_text

any_text = st.text(st.characters(exclude_categories=()), max_size=60)

# Pieces that an attacker would put together, with plain text between them.
hostile = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "<<<response ",
                "response>>>",
                "\n",
                "== END ==",
                "== END",
                "= =",
                "{response}",
                '"',
                "\\",
                "\\u003d",
                "\ud800",
                "```",
            ]
        ),
        st.text(max_size=4),
    ),
    max_size=12,
).map("".join)

MARKERS = ("== CANDIDATE ==", "== END ==", "```", "end\\n", "003d=", "Verdict: ")


@given(st.one_of(any_text, hostile), st.one_of(any_text, hostile), st.sampled_from(["fenced", "json"]))
def test_what_is_shown_can_be_read_back(prompt: str, response: str, shown: Shown) -> None:
    """Each block holds exactly its text, raw or as a JSON string, whatever the texts hold."""
    texts = {"prompt": prompt, "response": response}
    for name, block in blocks(texts, MARKERS, shown).items():
        (body,) = re.findall(rf"\A<<<{name} ([0-9a-f]+)\n(.*)\n\1 {name}>>>\Z", block, re.DOTALL)
        assert texts[name] in (body[1], *([] if body[1] == texts[name] else [json.loads(body[1])]))


@given(st.one_of(any_text, hostile), st.one_of(any_text, hostile))
def test_a_mark_stands_on_its_own_two_lines_only(prompt: str, response: str) -> None:
    """No text closes a block, its own or another: each mark occurs exactly twice in the message."""
    made = blocks({"prompt": prompt, "response": response}, MARKERS, "fenced")
    message = "\n\n".join(made.values())
    for name, block in made.items():
        mark = block.split("\n", 1)[0].removeprefix(f"<<<{name} ")
        assert message.count(mark) == 2
        assert message.count(f"<<<{name} {mark}\n") == message.count(f"\n{mark} {name}>>>") == 1


@given(st.one_of(any_text, hostile), st.sampled_from(["fenced", "json"]))
def test_no_line_of_the_template_stands_in_a_block(text: str, shown: Shown) -> None:
    """A text that repeats one is shown with the repetition broken, and can be carried by UTF-8."""
    (block,) = blocks({"response": text}, MARKERS, shown).values()
    assert not any(marker in block for marker in MARKERS)
    block.encode()


def test_every_marker_can_be_kept_out() -> None:
    """Text made of nothing but markers, and markers that an escape brings about, come out broken and readable."""
    for text in ("".join(MARKERS), "====", "003d" * 3 + "=", "== END ==" * 50):
        (block,) = blocks({"response": text}, MARKERS, "fenced").values()
        assert not any(marker in block for marker in MARKERS)
        assert blocks_of(block) == {"response": text}


def test_plain_text_is_shown_raw() -> None:
    """What holds no marker stands as it is, quotation marks and line ends too."""
    (block,) = blocks({"response": 'a "b"\n\\n'}, MARKERS, "fenced").values()
    assert block.split("\n", 1)[1].rsplit("\n", 1)[0] == 'a "b"\n\\n'


def test_a_text_that_holds_its_mark_gets_another() -> None:
    """The mark is made again until no text of the request holds it."""
    first = mark_of("response", "x", absent=())
    second = mark_of("response", "x", absent=(f"..{first}..",))
    third = mark_of("response", "x", absent=(first, second))
    assert len({first, second, third}) == 3
    assert first == mark_of("response", "x", absent=("", "other"))


def test_a_text_that_holds_every_short_mark_gets_a_longer_one() -> None:
    """Of one hexadecimal digit a text can hold all; the mark then grows, and the search ends."""
    mark = mark_of("label", absent=("0123456789abcdef",), length=1)
    assert len(mark) == 2
    assert mark not in "0123456789abcdef"


def test_the_mark_of_a_prompt_does_not_depend_on_the_response() -> None:
    """Requests of one group share their beginning, and with it a server's prefix cache."""
    one = blocks({"prompt": "P", "response": "a"}, MARKERS, "fenced")
    other = blocks({"prompt": "P", "response": "b"}, MARKERS, "fenced")
    assert one["prompt"] == other["prompt"]
    assert one["response"] != other["response"]


@pytest.mark.parametrize(("one", "other"), [(("ab", "c"), ("a", "bc")), (("a",), ("a", "")), (("\ud800",), ("?",))])
def test_a_digest_tells_borders_apart(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """The same letters cut in another way, and text that UTF-8 can't carry, have digests of their own."""
    assert digest(*one) != digest(*other)
    assert digest(*one) == digest(*one)


def test_other_json_is_shown_with_sorted_keys() -> None:
    """A conversation is JSON, whatever order its keys came in; text is itself."""
    assert shown_text("as it is") == "as it is"
    assert shown_text(freeze([{"role": "user", "content": "é"}])) == '[{"content": "é", "role": "user"}]'
