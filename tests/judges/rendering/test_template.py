# SPDX-License-Identifier: Apache-2.0
"""Templates are parsed once, and what is filled in is never read again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError
from posttrain.judges.rendering import Template


def test_a_template_is_filled() -> None:
    """Each placeholder gives way to its text; other braces are plain, and doubled ones are a name in braces."""
    template = Template('{prompt}: {"score": 1} {response} {{prompt}} {}', required=("response",), optional=("prompt",))
    assert template.names == ("prompt", "response")
    assert template.fill({"prompt": "P", "response": "R"}) == 'P: {"score": 1} R {prompt} {}'


@given(st.text(), st.text())
def test_what_is_filled_in_stays_text(prompt: str, response: str) -> None:
    """Whatever the texts hold, placeholders among it, comes out as it went in."""
    template = Template("a{prompt}b{response}c", required=("response",), optional=("prompt",))
    assert template.fill({"prompt": prompt, "response": response}) == f"a{prompt}b{response}c"


@pytest.mark.parametrize(
    "text", ["my answer is {reference}", "{unclosed", "{response}", "{{prompt}}", "{0}", "{a!r:>9}"]
)
def test_placeholders_in_a_completion_stay_text(text: str) -> None:
    """No substitution and no formatting error comes of what a candidate writes."""
    template = Template("{prompt}|{response}", required=("response",), optional=("prompt", "reference"))
    assert template.fill({"prompt": "P", "response": text, "reference": "SECRET"}) == f"P|{text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{response} {answer}",
            r"\{answer\} is no placeholder of it; those are \{response\}, \{prompt\}; write \{\{answer\}\}",
        ),
        ("{prompt}", r"\{response\} is missing"),
        ("{{response}}", r"\{response\} is missing"),
        ("{response}{response}", r"\{response\} stands in it 2 times"),
    ],
)
def test_a_template_that_is_not_valid_is_refused(text: str, message: str) -> None:
    """Unknown, missing and repeated placeholders are named when the template is made."""
    with pytest.raises(RewardConfigError, match=message):
        Template(text, required=("response",), optional=("prompt",))


def test_every_fault_is_named_at_once() -> None:
    """Two unknown names and a missing one make three lines."""
    with pytest.raises(RewardConfigError, match=r"(?s)\{a\}.*\{b\}.*\{response\} is missing"):
        Template("{a}{b}", required=("response",))


def test_a_template_is_text() -> None:
    """Anything else is refused."""
    with pytest.raises(RewardConfigError, match="is text, got 3"):
        Template(3, required=())  # type: ignore[arg-type]  # on purpose


def test_markers_are_the_lines_of_the_template() -> None:
    """Lines of three characters or more, once each; not those that a JSON escape may hold, such as ``beef``."""
    template = Template("== A ==\n{response}\n  == B ==\n== A ==\n##\nbeef\n\\u00", required=("response",))
    assert template.markers == ("== A ==", "== B ==")
