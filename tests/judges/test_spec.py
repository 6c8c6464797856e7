# SPDX-License-Identifier: Apache-2.0
"""A judge builds the whole provider spec, and its identity changes with everything that decides a score."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
from posttrain.judges.diagnostics import COMMON
from posttrain.judges.provider import JudgeProvider
from posttrain.judges.specs import content_sha256
from posttrain.rewards.catalog.identity import identity_sha256

CONFIG = JudgeConfig(model="m", revision="7", base_url="http://localhost:1/v1", credential="NOT_SET_ANYWHERE")
RUBRIC = RubricJudge(items=[RubricItem("a", "A")], fold="quality")
PAIRWISE = PairwiseJudge(criteria="Better.")
LISTWISE = ListwiseJudge(criteria="Better.")
JUDGES: list[Any] = [RUBRIC, PAIRWISE, LISTWISE]

ITEM = RubricItem("b", "B")

# One other value for each setting of each judge; each has to change the content.
OTHER: dict[str, dict[str, Any]] = {
    "RubricJudge": {
        "items": [ITEM],
        "fold": "other",
        "row_rubric": "rubric",
        "instructions": "Be strict.",
        "template": "{response}",
        "show_reference": True,
        "show_truncation": False,
        "explain": True,
        "shown": "json",
    },
    "PairwiseJudge": {
        "criteria": "Longer.",
        "term": "other",
        "aggregation": "win_rate",
        "prior": 2.0,
        "opponents": 2,
        "ties": False,
        "lone": 0.5,
        "instructions": "Be strict.",
        "template": "{first}{second}",
        "show_reference": True,
        "show_truncation": False,
        "explain": True,
        "shown": "json",
    },
    "ListwiseJudge": {
        "criteria": "Longer.",
        "term": "other",
        "ask": "ranks",
        "scale": (0, 10),
        "whole": True,
        "instructions": "Be strict.",
        "template": "{responses}",
        "show_reference": True,
        "show_truncation": False,
        "explain": True,
        "shown": "json",
    },
}


# Settings of ranks, which scores have none of.
RANKS = ListwiseJudge(criteria="Better.", ask="ranks")
OTHER_RANKS: dict[str, Any] = {"ties": False, "lone": 0.5}


def test_every_setting_of_ranks_is_content() -> None:
    """Each field, changed alone, changes the hash."""
    hashes = {content_sha256(dataclasses.replace(RANKS, **{field: value})) for field, value in OTHER_RANKS.items()}
    assert len(hashes - {content_sha256(RANKS)}) == len(OTHER_RANKS)


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: type(judge).__name__)
def test_every_setting_of_a_judge_is_content(judge: Any) -> None:
    """Each field, changed alone, changes the hash; a new field without a row here fails."""
    name = type(judge).__name__
    fields = {each.name for each in dataclasses.fields(judge) if each.init}
    assert set(OTHER[name]) | (set(OTHER_RANKS) if judge is LISTWISE else set()) == fields
    hashes = {content_sha256(dataclasses.replace(judge, **{field: value})) for field, value in OTHER[name].items()}
    assert len(hashes - {content_sha256(judge)}) == len(OTHER[name])


@pytest.mark.parametrize(
    "fields", [{"text": "Other"}, {"weight": 2.0}, {"scale": (0, 2)}, {"whole": True}, {"id": "c"}]
)
def test_every_field_of_an_item_is_content(fields: dict[str, Any]) -> None:
    """Also the weight, which the model never sees."""
    other = RubricJudge(items=[dataclasses.replace(RUBRIC.items[0], **fields)], fold="quality")
    assert content_sha256(other) != content_sha256(RUBRIC)


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: type(judge).__name__)
def test_a_spec_is_made_without_key_or_network(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same spec each time, with the config's revision; the provider is light and has all that a provider may."""
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    spec = judge.spec(CONFIG)
    assert spec.revision == "7"
    assert identity_sha256(spec.semantic_identity) == identity_sha256(judge.spec(CONFIG).semantic_identity)
    provider: Any = spec.factory()
    assert isinstance(provider, JudgeProvider)
    for method in ("open", "close", "check_machine", "probe", "calls_at_once", "cautions"):
        assert callable(getattr(provider, method))
    with pytest.raises(RewardConfigError, match="NOT_SET_ANYWHERE"):
        provider.check_machine()
    with pytest.raises(RewardConfigError, match="NOT_SET_ANYWHERE"):
        provider.open()


def test_terms_needs_and_diagnostics() -> None:
    """They are those of the judge, and of what the config asks for."""
    rubric = RubricJudge(items=[RubricItem("a", "A"), RubricItem("b", "B")], show_reference=True).spec(CONFIG)
    assert (rubric.terms, rubric.needs) == (("a", "b"), ("prompt", "reference"))
    assert rubric.diagnostics == COMMON
    config = dataclasses.replace(CONFIG, samples=2, prompt_price_per_million=1.0, completion_price_per_million=2.0)
    pairwise = PAIRWISE.spec(config)
    assert (pairwise.terms, pairwise.needs) == (("preference",), ("prompt",))
    assert pairwise.diagnostics == (*COMMON, "order_inconsistency", "cost", "sample_agreement")


def test_the_identity_has_judge_and_endpoint() -> None:
    """Kind, content, endpoint and failure policy; the key's name, and no cache."""
    identity: Any = RUBRIC.spec(dataclasses.replace(CONFIG, cache="answers.sqlite")).semantic_identity
    assert identity["judge"] == "RubricJudge"
    assert identity["content_sha256"] == content_sha256(RUBRIC)
    assert identity["endpoint"]["credential"] == "NOT_SET_ANYWHERE"
    assert "cache" not in identity["endpoint"]
    assert identity == RUBRIC.spec(CONFIG).semantic_identity


@pytest.mark.parametrize(
    ("judge", "concurrency", "samples", "groups"),
    [(RUBRIC, 64, 1, 65), (RUBRIC, 64, 4, 17), (PAIRWISE, 64, 1, 33), (LISTWISE, 64, 1, 65), (RUBRIC, 10_000, 1, 512)],
)
def test_enough_groups_are_in_flight(judge: Any, concurrency: int, samples: int, groups: int) -> None:
    """Even groups of the smallest size fill the concurrency, with one to spare, up to 512."""
    config = dataclasses.replace(CONFIG, concurrency=concurrency, samples=samples)
    assert judge.spec(config).execution.groups_in_flight == groups


def test_only_recorded_answers_are_repeatable() -> None:
    """Without a cache a group that is judged again may get another score."""
    assert not RUBRIC.spec(CONFIG).execution.repeatable
    assert RUBRIC.spec(dataclasses.replace(CONFIG, cache="answers.sqlite")).execution.repeatable


def test_a_spec_needs_a_config() -> None:
    """Anything else is refused."""
    with pytest.raises(RewardConfigError, match=r"spec takes a JudgeConfig, got {'model': 'm'}"):
        RUBRIC.spec({"model": "m"})  # type: ignore[arg-type]  # on purpose


def test_the_package_loads_only_what_is_used(fresh_python: Callable[[str], str]) -> None:
    """Importing it loads nothing at all; making specs and providers loads no HTTP client and no array library."""
    program = """
import sys
import posttrain.judges
assert not any(name.startswith("posttrain.judges.") for name in sys.modules)
from posttrain.judges import JudgeConfig, ListwiseJudge, PairwiseJudge, RubricItem, RubricJudge
config = JudgeConfig(model="m", revision="1", base_url="http://localhost:1/v1")
for judge in (RubricJudge(items=[RubricItem("a", "A")]), PairwiseJudge(criteria="x"), ListwiseJudge(criteria="x")):
    judge.spec(config).factory()
print(sorted({"aiohttp", "httpx", "openai", "numpy", "torch", "transformers"} & set(sys.modules)))
"""
    assert fresh_python(program).strip() == "[]"


def test_an_unknown_name_is_no_attribute() -> None:
    """The lazy package refuses what it does not have as any module does."""
    import posttrain.judges as package

    with pytest.raises(AttributeError, match="has no attribute 'NoSuchJudge'"):
        _ = package.NoSuchJudge
