# SPDX-License-Identifier: Apache-2.0
"""What a pairwise judge asks, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import blocks_of, group, settled, user_of
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.judges import PairwiseJudge
from posttrain.judges.endpoint import JudgeReplyError
from posttrain.judges.rendering import TRUNCATED

LONGER = PairwiseJudge(criteria="The longer one is better.")


def longer(blocks: dict[str, str]) -> Any:
    """The longer response wins."""
    first, second = len(blocks["first"]), len(blocks["second"])
    return {"winner": "first" if first > second else "second" if second > first else "tie"}


def always_first(blocks: dict[str, str]) -> Any:
    """The slot decides."""
    return {"winner": "first"}


def win_rates(**settings: Any) -> PairwiseJudge:
    """A judge whose scores are easy to work out."""
    return PairwiseJudge(criteria="Better.", aggregation="win_rate", **settings)


def test_both_orders_are_shown() -> None:
    """Each pair stands in two questions, the one order and the other."""
    calls = LONGER.plan(group("a", "bb", "ccc"), 1).calls
    shown = [tuple(blocks_of(user_of(call))[name] for name in ("first", "second")) for call in calls]
    pairs = [("a", "bb"), ("a", "ccc"), ("bb", "ccc")]
    assert shown == [order for pair in pairs for order in (pair, pair[::-1])]
    assert calls[0].key == "pair 't0', 't1'"


def test_case_judge_06_a_verdict_that_flips_is_a_tie() -> None:
    """A judge that favours a slot says nothing: 0.5 each, and every pair is counted."""
    scores = settled(win_rates(), group("A", "B"), always_first)
    assert scores.terms == [{"preference": 0.5}, {"preference": 0.5}]
    assert scores.diagnostics["order_inconsistency"].value == 1.0


@pytest.mark.parametrize("texts", [("A", "B"), ("B", "A")])
def test_case_judge_06_a_steady_verdict_goes_to_the_candidate(texts: tuple[str, str]) -> None:
    """A wins 1 to 0 wherever it stands."""
    scores = settled(
        win_rates(), group(*texts), lambda blocks: {"winner": "first" if blocks["first"] == "A" else "second"}
    )
    assert scores.terms == [{"preference": float(text == "A")} for text in texts]
    assert scores.diagnostics["order_inconsistency"].value == 0.0


def test_a_tie_in_one_order_is_half_a_tie() -> None:
    """A won and a tied verdict are three quarters of a win, and the orders differ."""
    scores = settled(
        win_rates(), group("A", "B"), lambda blocks: {"winner": "first" if blocks["first"] == "A" else "tie"}
    )
    assert scores.terms == [{"preference": 0.75}, {"preference": 0.25}]
    assert scores.diagnostics["order_inconsistency"].value == 1.0


def test_samples_are_averaged() -> None:
    """Two samples of one pair, won and tied: 0.75; their distance of one half leaves an agreement of one half."""
    verdicts = iter(["first", "second", "tie", "tie"])
    scores = settled(win_rates(), group("A", "B"), lambda _: {"winner": next(verdicts)}, samples=2)
    assert scores.terms == [{"preference": 0.75}, {"preference": 0.25}]
    assert scores.diagnostics["sample_agreement"].value == 0.5
    assert scores.diagnostics["order_inconsistency"].value == 0.0


@given(st.lists(st.text("ab", max_size=5), min_size=2, max_size=6), st.randoms(use_true_random=False), st.booleans())
def test_scores_belong_to_candidates_not_to_places(texts: list[str], random: Any, few: bool) -> None:
    """In any order of the same candidates each has the same score, to the last bit, and the same is asked."""
    judge = PairwiseJudge(criteria="Longer.", opponents=2 if few else None)
    ids = [f"t{at}" for at in range(len(texts))]
    pairs = list(zip(ids, texts, strict=True))
    before = settled(judge, group(*texts, ids=ids), longer).terms
    questions = {user_of(call) for call in judge.plan(group(*texts, ids=ids), 1).calls}
    scores = dict(zip(ids, before, strict=True))
    random.shuffle(pairs)
    moved = group(*(text for _, text in pairs), ids=[name for name, _ in pairs])
    assert settled(judge, moved, longer).terms == [scores[name] for name, _ in pairs]
    assert {user_of(call) for call in judge.plan(moved, 1).calls} == questions


def test_the_longest_scores_highest() -> None:
    """Scores follow the verdicts, wherever the candidates stand."""
    scores = [term["preference"] for term in settled(LONGER, group("ccc", "a", "dddd", "bb"), longer).terms]
    assert sorted(range(4), key=scores.__getitem__) == [1, 3, 0, 2]
    assert sum(scores) / 4 == pytest.approx(0.5, abs=1e-9)


def test_a_tournament_costs_its_budget() -> None:
    """Of 10 candidates, 4 opponents each: 20 pairs, two calls each, of the 45 of a round robin."""
    texts = [f"text {at}" for at in range(10)]
    judge = PairwiseJudge(criteria="Better.", opponents=4)
    assert len(judge.plan(group(*texts), 1).calls) == 40
    assert len(LONGER.plan(group(*texts), 1).calls) == 90


def test_the_pairs_come_from_the_content() -> None:
    """Ids of another run draw the same pairs, so that recorded answers are found again."""
    texts = [f"text {at}" for at in range(10)]
    judge = PairwiseJudge(criteria="Better.", opponents=2)
    one = judge.plan(group(*texts), 1).calls
    other = judge.plan(group(*texts, ids=[f"x{9 - at}" for at in range(10)]), 1).calls
    assert [call.messages for call in one] == [call.messages for call in other]


def test_a_group_of_one() -> None:
    """It can't be compared: refused, unless its score is declared; then nothing is asked."""
    with pytest.raises(RewardContractError, match="a group of one candidate can't be compared"):
        LONGER.plan(group("a"), 1)
    plan = PairwiseJudge(criteria="Better.", lone=0.25).plan(group("a"), 1)
    assert plan.calls == ()
    assert plan.settle([]).terms == [{"preference": 0.25}]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ('{"winner": "A"}', "off_scale: 'winner': expected one of first, second, tie, got 'A'"),
        ('{"winner": "FIRST"}', "off_scale"),
        ('{"winner": 1}', "unparsable: 'winner': expected text"),
        ('{"winner": null}', "missing: 'winner' is null"),
        ('{"winner": "first", "why": "x"}', "missing: 'why'"),
        ("first", "unparsable: the reply holds no JSON object"),
    ],
)
def test_a_verdict_that_was_not_offered_is_refused(reply: str, message: str) -> None:
    """Nothing is guessed from it."""
    call = LONGER.plan(group("a", "b"), 1).calls[0]
    with pytest.raises(JudgeReplyError, match=message):
        call.parse(reply)


def test_ties_may_be_forbidden() -> None:
    """The judge is not offered a tie, and one is refused."""
    call = PairwiseJudge(criteria="Better.", ties=False).plan(group("a", "b"), 1).calls[0]
    schema: Any = call.schema
    assert schema["properties"]["winner"]["enum"] == ("first", "second")
    assert "'first' or 'second'." in user_of(call)
    with pytest.raises(JudgeReplyError, match="expected one of first, second, got 'tie'"):
        call.parse('{"winner": "tie"}')


def test_the_cut_response_is_told() -> None:
    """Below its own block, in both orders."""
    for call in LONGER.plan(group("a", "b", cut=[1]), 1).calls:
        (before,) = [name for name in ("first", "second") if f"{name}>>>\n{TRUNCATED}" in user_of(call)]
        assert blocks_of(user_of(call))[before] == "b"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"criteria": ""}, "criteria: expected what makes"),
        ({"term": "final"}, "term: term name 'final' is reserved"),
        ({"aggregation": "elo"}, "aggregation: expected 'bradley_terry' or 'win_rate', got 'elo'"),
        ({"prior": 0}, "prior: expected a number from 0.1 to 1000"),
        ({"prior": 2.0, "aggregation": "win_rate"}, "prior: it is that of bradley_terry"),
        ({"opponents": 1}, "opponents: expected an int of at least 2"),
        ({"lone": 2.0}, "lone: expected a number from 0 to 1"),
        ({"ties": "no"}, "ties: expected a bool"),
        ({"template": "{first}"}, r"\{second\} is missing"),
    ],
)
def test_a_judge_that_is_not_valid_is_refused(fields: dict[str, Any], message: str) -> None:
    """Each setting is checked when the judge is made."""
    with pytest.raises(RewardConfigError, match=message):
        PairwiseJudge(**{"criteria": "Better.", **fields})
