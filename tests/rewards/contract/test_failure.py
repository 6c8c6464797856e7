# SPDX-License-Identifier: Apache-2.0
"""One place turns an author's exception into one of the tree: it keeps the cause, adds names and never fails itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards.contract.failure import classified

NAMES = {"provider": "rubric", "group_id": "g", "trajectory_id": "t"}
TREE = [RewardError, RewardContractError, RewardUnavailableError, RewardConfigError]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no digits in 'abc'"), "raised ValueError: no digits in 'abc'"),
        (KeyError("target"), "raised KeyError: 'target'"),
        (AssertionError(), "raised AssertionError: "),
        (TimeoutError("read timed out"), "raised TimeoutError: read timed out"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "raised ExceptionGroup: two (2 sub-exceptions)"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_plain_exception_becomes_a_contract_error(error: Exception, text: str) -> None:
    """Its type and text lead the message, and the hint says what to raise when an outside service failed."""
    failure = classified(error, **NAMES)
    assert type(failure) is RewardContractError
    assert str(failure) == (
        f"provider 'rubric', group 'g', trajectory 't': {text}\n"
        "If an outside service or a worker failed, raise RewardUnavailableError, so that a failure policy can apply."
    )
    assert failure.cause_type == type(error).__qualname__
    assert failure.cause_text == str(error)


def test_the_place_where_a_plain_exception_was_raised_is_given() -> None:
    """Function, line and file of the innermost call: two candidates' errors of one text are told apart by it."""

    def parse(text: str) -> int:
        raise ValueError(f"no digits in {text!r}")

    def score() -> int:
        return parse("abc")

    with pytest.raises(ValueError, match="no digits") as caught:
        score()
    line = parse.__code__.co_firstlineno + 1
    text = f"raised ValueError: no digits in 'abc' (in parse, line {line} of {__file__})"
    assert classified(caught.value).message.startswith(f"{text}\nIf an outside service")
    assert classified(ValueError("v")).message.startswith("raised ValueError: v\n")


@pytest.mark.parametrize("kind", TREE)
def test_an_error_of_the_tree_keeps_its_kind_and_gains_names(kind: type[RewardError]) -> None:
    """The author's own error object goes on, message untouched."""
    error = kind("the reference has no target")
    failure = classified(error, **NAMES)
    assert failure is error
    assert (failure.provider, failure.group_id, failure.trajectory_id) == ("rubric", "g", "t")
    assert failure.message == "the reference has no target"


def test_a_name_that_the_error_carries_is_kept() -> None:
    """What an inner boundary found out stays when an outer one, which can't know it, adds the names that it knows."""
    error = RewardContractError("m", trajectory_id="inner")
    assert classified(error, provider="rubric", group_id="g") is error
    assert (error.provider, error.group_id, error.trajectory_id) == ("rubric", "g", "inner")
    named = RewardContractError("m", provider="p", group_id="g")
    assert classified(named, trajectory_id="t") is named
    assert (named.provider, named.group_id, named.trajectory_id) == ("p", "g", "t")


def test_an_error_with_another_candidate_s_name_is_made_again() -> None:
    """The name at hand is right, one that the object carries may be of an earlier call; that object is left alone."""
    error = RewardContractError("m", trajectory_id="another")
    failure = classified(error, **NAMES)
    assert failure is not error
    assert (failure.provider, failure.group_id, failure.trajectory_id) == ("rubric", "g", "t")
    assert failure.message == "m"
    assert (error.provider, error.group_id, error.trajectory_id) == (None, None, "another")


def test_names_that_are_not_known_stay_open() -> None:
    """A boundary that knows only the candidate leaves the rest to the next one outwards."""
    first = classified(ValueError("v"), trajectory_id="t")
    assert (first.provider, first.group_id, first.trajectory_id) == (None, None, "t")
    assert classified(first, provider="rubric", group_id="g") is first
    assert (first.provider, first.group_id, first.trajectory_id) == ("rubric", "g", "t")


def test_the_cause_of_a_raised_error_is_kept_as_text(pickled: Callable[..., Any]) -> None:
    """An error raised from another carries the type and text of that one, so that pickling loses neither."""
    error = RewardUnavailableError("the judge did not answer")
    error.__cause__ = ConnectionResetError("peer left")
    back = pickled(classified(error, **NAMES))
    assert (back.cause_type, back.cause_text) == ("ConnectionResetError", "peer left")
    assert str(back) == "provider 'rubric', group 'g', trajectory 't': the judge did not answer"


def test_a_cause_that_was_recorded_is_not_replaced() -> None:
    """The innermost cause was written down first and stays."""
    error = RewardUnavailableError("m")
    error.because_of(ConnectionResetError("peer left"))
    error.__cause__ = ValueError("something on the way")
    assert classified(error).cause_type == "ConnectionResetError"


def test_an_error_without_a_cause_has_none() -> None:
    """Nothing is invented for an error that the author raised by itself."""
    failure = classified(RewardContractError("m"), **NAMES)
    assert (failure.cause_type, failure.cause_text) == (None, None)


@pytest.mark.parametrize("kind", TREE)
@pytest.mark.parametrize("second", [{"group_id": "g2"}, {"provider": "other"}], ids=["group", "provider"])
def test_one_error_object_raised_for_two_groups_gives_two_errors(
    kind: type[RewardError], second: dict[str, str]
) -> None:
    """A module-level exception object names each group that it failed, and the first report is not rewritten."""
    shared = kind("the service is down")
    first = classified(shared, **NAMES)
    again = classified(shared, **{**NAMES, **second})
    assert again is not first
    assert type(again) is kind
    assert again.message == "the service is down"
    assert (again.provider, again.group_id) == (second.get("provider", "rubric"), second.get("group_id", "g"))
    assert (first.provider, first.group_id, first.trajectory_id) == ("rubric", "g", "t")


def test_one_error_object_raised_for_two_candidates_gives_two_errors() -> None:
    """The second candidate of a group is named by its own id."""
    shared = RewardContractError("the reference has no target")
    first = classified(shared, trajectory_id="t0")
    second = classified(shared, trajectory_id="t1")
    assert (first.trajectory_id, second.trajectory_id) == ("t0", "t1")


class _Unprintable(Exception):  # noqa: N818  # a name that says what it does
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_exception_without_text_is_classified_too() -> None:
    """An exception whose text can't be had still becomes a contract error that names its type."""
    failure = classified(_Unprintable(), **NAMES)
    assert type(failure) is RewardContractError
    assert failure.message.startswith("raised _Unprintable: <unprintable: RuntimeError>")
    assert failure.trajectory_id == "t"


class _StatusError(RewardUnavailableError):
    """An author's own subclass, made from other arguments than a message."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status}: {reason}")


def test_a_subclass_of_an_author_keeps_its_kind() -> None:
    """An error of the author's own class goes on as it is."""
    error = _StatusError(503, "busy")
    assert classified(error, **NAMES) is error
    assert str(error) == "provider 'rubric', group 'g', trajectory 't': HTTP 503: busy"


def test_a_subclass_of_an_author_can_be_raised_for_two_groups() -> None:
    """One object of an author's own class, raised for two groups, is still unavailable in both."""
    shared = _StatusError(503, "busy")
    classified(shared, group_id="g1")
    again = classified(shared, group_id="g2")
    assert isinstance(again, RewardUnavailableError)
    assert (again.group_id, again.message) == ("g2", "HTTP 503: busy")
