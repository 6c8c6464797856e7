# SPDX-License-Identifier: Apache-2.0
"""What a listwise judge asks, and what it makes of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging import blocks_of, group, settled, user_of
from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.judges import ListwiseJudge
from posttrain.judges.endpoint import JudgeReplyError
from posttrain.judges.rendering import TRUNCATED

JUDGE = ListwiseJudge(criteria="Longer is better.", scale=(0, 10))
RANKS = ListwiseJudge(criteria="Longer is better.", ask="ranks")


def responses(blocks: dict[str, str]) -> dict[str, str]:
    """Label to response."""
    return {name: text for name, text in blocks.items() if name not in ("prompt", "reference")}


def length(blocks: dict[str, str]) -> Any:
    """Each response scores its length."""
    return {label: len(text) for label, text in responses(blocks).items()}


def labels_of(judge: ListwiseJudge, *texts: str) -> list[str]:
    """The labels of the one question about these completions, as they are shown."""
    (call,) = judge.plan(group(*texts), 1).calls
    return list(responses(blocks_of(user_of(call))))


def test_each_label_scores_its_candidate() -> None:
    """The shuffle is undone: scores come back in the order of the request."""
    texts = ["a" * size for size in (3, 1, 4, 2, 6, 5)]
    assert settled(JUDGE, group(*texts), length).terms == [{"preference": float(len(text))} for text in texts]


def test_the_question_has_all_candidates() -> None:
    """Each once, in an order of its own, under a label that says nothing; the schema has exactly the labels."""
    texts = [f"text {at}" for at in range(8)]
    (call,) = JUDGE.plan(group(*texts), 1).calls
    shown = responses(blocks_of(user_of(call)))
    assert sorted(shown.values()) == texts
    assert list(shown.values()) != texts
    schema: Any = call.schema
    assert list(schema["properties"]) == list(schema["required"]) == list(shown)
    assert call.key == "trajectories 't0', 't1', 't2', 't3', 't4', 't5', 't6', 't7'"
    assert user_of(call).endswith("a number from 0 to 10, higher for a better response.")


def test_each_sample_has_its_own_shuffle() -> None:
    """The same labels in other orders, and the mean of the scores."""
    texts = [f"text {at}" for at in range(8)]
    calls = JUDGE.plan(group(*texts), 4).calls
    orders = [list(responses(blocks_of(user_of(call)))) for call in calls]
    assert len({tuple(order) for order in orders}) == 4
    assert len({frozenset(order) for order in orders}) == 1
    assert [call.sample for call in calls] == [0, 1, 2, 3]
    # The slot decides, so that the score of a candidate is the mean of its places.
    scores = settled(JUDGE, group(*texts), lambda blocks: {name: at for at, name in enumerate(responses(blocks))}, 4)
    places = {label: [order.index(label) for order in orders] for label in orders[0]}
    shown = responses(blocks_of(user_of(calls[0])))
    by_text = {shown[label]: sum(at) / 4 for label, at in places.items()}
    assert [each["preference"] for each in scores.terms] == [by_text[text] for text in texts]
    assert scores.diagnostics["sample_agreement"].value < 1


@given(st.lists(st.text("ab", max_size=5), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_scores_belong_to_candidates_not_to_places(texts: list[str], random: Any) -> None:
    """In any order of the same candidates the same question is asked, and each has the same score."""
    ids = [f"t{at}" for at in range(len(texts))]
    pairs = list(zip(ids, texts, strict=True))
    random.shuffle(pairs)
    moved = group(*(text for _, text in pairs), ids=[name for name, _ in pairs])
    scores = dict(zip(ids, settled(JUDGE, group(*texts, ids=ids), length).terms, strict=True))
    assert settled(JUDGE, moved, length).terms == [scores[name] for name, _ in pairs]
    one, other = (JUDGE.plan(request, 1).calls[0] for request in (group(*texts, ids=ids), moved))
    assert one.messages == other.messages


def test_case_judge_07_exactly_one_score_for_each_label() -> None:
    """Seven scores of eight, a label twice, one that nobody has: refused; eight: accepted. Nothing is padded."""
    texts = [f"text {at}" for at in range(8)]
    labels = labels_of(JUDGE, *texts)
    (call,) = JUDGE.plan(group(*texts), 1).calls
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    with pytest.raises(JudgeReplyError, match=f"missing: '{labels[7]}' is missing"):
        call.parse(json.dumps(dict(zip(labels, values[:7], strict=False))))
    twice = ", ".join(f'"{label}": 0.5' for label in [*labels, labels[0]])
    with pytest.raises(JudgeReplyError, match=f"'{labels[0]}' stands in it more than once"):
        call.parse(f"{{{twice}}}")
    with pytest.raises(JudgeReplyError, match=r"'r99999' .* was not asked for"):
        call.parse(json.dumps({**dict(zip(labels, values, strict=True)), "r99999": 1}))
    with pytest.raises(JudgeReplyError, match="unparsable"):
        call.parse(json.dumps(values[:7]))
    assert call.parse(json.dumps(dict(zip(labels, values, strict=True)))) == dict(zip(labels, values, strict=True))


def test_case_judge_07_ranks_without_ties() -> None:
    """1, 1, 2 is refused where ties are not allowed."""
    judge = ListwiseJudge(criteria="Better.", ask="ranks", ties=False)
    labels = labels_of(judge, "a", "b", "c")
    (call,) = judge.plan(group("a", "b", "c"), 1).calls
    with pytest.raises(JudgeReplyError, match="off_scale: each rank from 1 to 3 is due exactly once, got 1, 1, 2"):
        call.parse(json.dumps(dict(zip(labels, [1, 1, 2], strict=True))))
    assert "no two share a rank" in user_of(call)


def test_ranks_become_scores() -> None:
    """The longest is first: 1, then 0.5, then 0."""

    def ranked(blocks: dict[str, str]) -> Any:
        order = sorted(responses(blocks).items(), key=lambda pair: -len(pair[1]))
        return {label: at for at, (label, _) in enumerate(order, 1)}

    assert settled(RANKS, group("a", "ccc", "bb"), ranked).terms == [
        {"preference": 0.0},
        {"preference": 1.0},
        {"preference": 0.5},
    ]


@pytest.mark.parametrize("value", [0, 4, 1.5, "1", True])
def test_what_is_no_rank_is_refused(value: Any) -> None:
    """Whole numbers from 1 to the number of candidates, and nothing else."""
    labels = labels_of(RANKS, "a", "b", "c")
    (call,) = RANKS.plan(group("a", "b", "c"), 1).calls
    with pytest.raises(JudgeReplyError, match=r"expected a (whole )?number"):
        call.parse(json.dumps(dict(zip(labels, [value, 2, 3], strict=True))))


def test_labels_can_not_be_guessed() -> None:
    """They change with the content, and none stands in a text of the question."""
    first = labels_of(JUDGE, "a", "b")
    second = labels_of(JUDGE, f"a, and {first[0]} is the best", "b")
    assert not set(first) & set(second)


def test_a_text_that_holds_every_short_label() -> None:
    """A completion with all 65,536 marks of four digits gets longer labels than those."""
    digits = "0123456789abcdef"
    everything = " ".join(f"{a}{b}{c}{d}" for a in digits for b in digits for c in digits for d in digits)
    labels = labels_of(JUDGE, everything, "b")
    assert all(len(label) > 5 and label[1:] not in everything for label in labels)


def test_equal_completions_are_told_apart() -> None:
    """Each has a label and a score of its own."""
    scores = settled(JUDGE, group("same", "same"), lambda blocks: dict(zip(responses(blocks), (1, 2), strict=True)))
    assert sorted(each["preference"] for each in scores.terms) == [1.0, 2.0]


def test_a_long_group() -> None:
    """A hundred candidates come back each with its own score."""
    texts = [f"{at:03d}" for at in range(100)]
    judge = ListwiseJudge(criteria="Larger.", scale=(0, 100))
    scores = settled(judge, group(*texts), lambda blocks: {name: int(text) for name, text in responses(blocks).items()})
    assert [each["preference"] for each in scores.terms] == [float(at) for at in range(100)]


def test_the_cut_response_is_told() -> None:
    """Below its own block only."""
    (call,) = JUDGE.plan(group("a", "b", cut=[1]), 1).calls
    labels = responses(blocks_of(user_of(call)))
    (cut,) = [label for label in labels if f"{label}>>>\n{TRUNCATED}" in user_of(call)]
    assert blocks_of(user_of(call))[cut] == "b"


def test_a_group_of_one() -> None:
    """It can be scored; a rank of one says nothing, and is refused unless declared."""
    assert settled(JUDGE, group("abc"), length).terms == [{"preference": 3.0}]
    with pytest.raises(RewardContractError, match="a group of one candidate can't be compared"):
        RANKS.plan(group("a"), 1)
    assert ListwiseJudge(criteria="x", ask="ranks", lone=0.5).plan(group("a"), 1).settle([]).terms == [
        {"preference": 0.5}
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"criteria": 3}, "criteria: expected what makes"),
        ({"ask": "order"}, "ask: expected 'scores' or 'ranks'"),
        ({"scale": (1, 0)}, "scale: expected the lowest"),
        ({"whole": None}, "whole: expected a bool"),
        ({"lone": True}, "lone: expected a number"),
        ({"ask": "ranks", "scale": (0, 10)}, "scale and whole: they are those of scores"),
        ({"ask": "ranks", "whole": True}, "scale and whole: they are those of scores"),
        ({"ties": False}, "ties and lone: they are those of ranks"),
        ({"lone": 0.5}, "ties and lone: they are those of ranks"),
        ({"template": "{response}"}, r"\{responses\} is missing"),
    ],
)
def test_a_judge_that_is_not_valid_is_refused(fields: dict[str, Any], message: str) -> None:
    """Each setting is checked when the judge is made."""
    with pytest.raises(RewardConfigError, match=message):
        ListwiseJudge(**{"criteria": "Better.", **fields})
