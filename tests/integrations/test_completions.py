# SPDX-License-Identifier: Apache-2.0
"""Texts and verdicts of what was sampled, and the TRL that this works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.integrations.trl.completions import completion_text, finish_verdict, table_column
from posttrain.integrations.trl.installed import check_trl
from posttrain.integrations.trl.rollout import Columns, Sample, trajectories_of

USER, SAID = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("completion", "text"), [("a", "a"), ("", ""), ([SAID], "a"), (({**SAID, "tool_calls": []},), "a")]
)
def test_what_is_a_text_by_itself(completion: Any, text: str) -> None:
    """A string, and one assistant message."""
    assert completion_text(completion) == text


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ([], r"has 0 messages \(\)"),
        ([USER], r"has 1 messages \(user\)"),
        ([SAID, USER], r"has 2 messages \(assistant, user\)"),
        ([{**SAID, "tool_calls": [{"name": "f"}]}], "without tool calls"),
        ([{"role": "assistant"}], "content is None, expected a string"),
        ([{"role": "assistant", "content": [{"type": "text"}]}], r"content is \[.*\(list\), expected a string"),
        (None, "the completion is None, expected a string or a list of messages"),
        ([1], r"the completion is \[1\]"),
    ],
)
def test_what_is_none_is_refused(completion: Any, text: str) -> None:
    """Nothing is guessed: a renderer is asked for."""
    with pytest.raises(RewardContractError, match=text):
        completion_text(completion)


def test_a_renderer_has_to_give_a_string() -> None:
    """What it gives is checked."""
    assert completion_text([SAID, USER], lambda messages: "/".join(each["content"] for each in messages)) == "a/q"
    with pytest.raises(RewardContractError, match="render gave None"):
        completion_text([SAID], lambda _: None)  # type: ignore[arg-type, return-value]  # the mistake under test


@pytest.mark.parametrize(
    ("ids", "stops", "verdict"),
    [
        ([5, 1], False, "stop"),
        ([5, 6, 7, 1], False, "stop"),
        ([5, 6, 7, 8], False, "length"),
        ([5, 6, 7, 0], False, "length"),
        ([5, 6, 7, 0], True, "stop"),
        ([5, 6], False, None),
        ([], False, None),
    ],
)
def test_the_verdict_is_read_off_the_tokens(ids: list[int], stops: bool, verdict: str | None) -> None:
    """End token: stop. A full budget without one: length. Shorter without one: not known."""
    found = finish_verdict(ids, eos_token_ids=[1, 2], pad_token_id=0, max_completion_length=4, has_stop_strings=stops)
    assert found == verdict


def test_without_a_budget_no_completion_is_known_to_be_cut() -> None:
    """`max_completion_length=None` leaves the end to the model's context."""
    assert finish_verdict([5] * 99, eos_token_ids=[1], pad_token_id=0, max_completion_length=None) is None


def test_terms_do_not_hide_trls_columns() -> None:
    """A term named like a column of TRL's table gets a name of its own there."""
    assert [table_column(term) for term in ("task", "prompt")] == ["task", "reward/prompt"]


def _sampled(cells: list[dict[str, Any]], first: int = 0, **columns: Any) -> list[Any]:
    samples = [Sample(row=row, completion=row.get("said", "a"), token_count=1, finish_reason=None) for row in cells]
    given = Columns(**{"reference": "answer", "row_id": "id", **columns})
    return trajectories_of(samples, first=first, batch="train/1", group_size=2, columns=given, policy_version=3)


def test_groups_are_occurrences_of_rows() -> None:
    """The same row twice in a batch makes two groups with one row id; a rank may begin in mid-group."""
    row: dict[str, Any] = {"prompt": "p", "answer": 1, "id": "r"}
    groups = [each.group_id for each in _sampled([row] * 3, first=1)]
    assert groups[0] != groups[1] == groups[2]
    made = _sampled([row] * 4)
    assert [each.group_id for each in made][:1] == groups[:1]
    assert [each.trajectory_id[-1] for each in made] == ["0", "1", "0", "1"]
    assert {each.obs.row_id for each in made} == {"r"}
    assert {each.policy_info["policy_version"] for each in made} == {3}


@pytest.mark.parametrize("change", [{"prompt": "q"}, {"answer": 1.0}, {"answer": True}, {"id": "s"}])
def test_rows_that_differ_are_never_one_group(change: dict[str, Any]) -> None:
    """If a sampler puts other rows side by side, their ids differ and binding refuses the incomplete groups."""
    row: dict[str, Any] = {"prompt": "p", "answer": 1, "id": "r"}
    one, other = _sampled([row, {**row, **change}])
    assert one.group_id != other.group_id


def test_every_row_without_a_text_is_named() -> None:
    """All offenders at once, good ones absent."""
    row: dict[str, Any] = {"prompt": "p", "answer": 1, "id": "r"}
    with pytest.raises(RewardContractError, match=r"(?s)without a text to score:\n.*/0': .*/1': ") as caught:
        _sampled([{**row, "said": None}, {**row, "said": [USER]}, row])
    assert "train/1/1-" not in str(caught.value)


def test_a_renderer_that_fails_is_named_with_its_row() -> None:
    """An exception of the user's function is a contract error, its type and text kept."""
    row: dict[str, Any] = {"prompt": "p", "answer": 1, "id": "r", "said": [USER]}
    with pytest.raises(RewardContractError, match=r"trajectory 'train/1/0-.*/0': raised ZeroDivisionError") as caught:
        _sampled([row], render=lambda _: str(1 / 0))
    assert caught.value.cause_type == "ZeroDivisionError"
    with pytest.raises(RewardContractError, match=r"trajectory 'train/1/0-.*has 1 messages") as refused:
        _sampled([row])
    assert (refused.value.cause_type, refused.value.__cause__) == (None, None)


def test_cells_are_checked() -> None:
    """A missing column and an id of another type are named."""
    with pytest.raises(RewardConfigError, match="the dataset has no column answer, id; it has prompt"):
        _sampled([{"prompt": "p"}])
    with pytest.raises(RewardContractError, match=r"id: expected a string or an int, got 1\.5"):
        _sampled([{"prompt": "p", "answer": 1, "id": 1.5}])


@pytest.mark.parametrize("version", ["1.16.0", "1.16.3", "1.16.0.dev0"])
def test_the_trl_that_was_looked_at_is_accepted(version: str) -> None:
    """One minor release: private methods are overridden."""
    check_trl(version)


@pytest.mark.parametrize("version", ["1.15.9", "1.17.0", "2.0.0", "0.29", "unknown"])
def test_another_trl_is_refused(version: str) -> None:
    """With what is there and what to install."""
    with pytest.raises(RewardConfigError, match=rf'TRL {version} is installed.*pip install "trl>=1.16,<1.17"'):
        check_trl(version)


def test_the_package_loads_no_trainer(fresh_python: Callable[[str], str]) -> None:
    """Importing the package, and the plain reward function, brings no torch and no TRL."""
    program = "import sys, posttrain.integrations.trl; print({'torch', 'trl', 'numpy'} & set(sys.modules))"
    assert fresh_python(program) == "set()\n"
