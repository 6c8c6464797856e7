# SPDX-License-Identifier: Apache-2.0
"""Identities: one text for each JSON value, one hash for each text, and a readable answer to what changed."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError
from posttrain.frozen import freeze, strict_equal
from posttrain.rewards.catalog.identity import ProviderIdentity, StageIdentity, canonical_json, identity_sha256
from posttrain.rewards.stage.worker import RewardWorker
from strategies import changed_in_one_place, json_values, shuffled

# Lone surrogates are the one thing that JSON values may hold and UTF-8 may not.
encodable = json_values.filter(lambda value: not any(0xD800 <= ord(each) < 0xE000 for each in _texts(value)))


def _texts(value: Any) -> str:
    """Every character of a value's strings and keys."""
    return json.dumps(freeze(value), ensure_ascii=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e16, "1e+16"),
        ("1", '"1"'),
        ("ü€\U0001f600", '"ü€\U0001f600"'),
        ('"\n\\/', '"\\"\\n\\\\/"'),
        ([], "[]"),
        ({}, "{}"),
        ({"b": [1, 2.5, None], "a": {"z": "x", "A": False}}, '{"a":{"A":false,"z":"x"},"b":[1,2.5,null]}'),
        ({"é": 1, "z": 2, "Z": 3, "10": 4, "9": 5}, '{"10":4,"9":5,"Z":3,"z":2,"é":1}'),
    ],
    ids=repr,
)
def test_each_value_has_one_text_and_one_hash(value: Any, text: str) -> None:
    """Sorted keys, no spaces, no escapes but the needed; the hash is that of the text's UTF-8."""
    assert canonical_json(freeze(value)) == text
    assert identity_sha256(freeze(value)) == hashlib.sha256(text.encode("utf-8")).hexdigest()


def test_no_identity_hashes_as_null() -> None:
    """The hash of None is that of the four bytes of `null`."""
    assert identity_sha256(None) == hashlib.sha256(b"null").hexdigest()
    assert identity_sha256(None).startswith("74234e98afe7498f")


def test_one_in_three_types_is_three_identities() -> None:
    """1, 1.0 and true differ, alone and inside."""
    for wrap in (lambda value: value, lambda value: [value], lambda value: {"retries": value}):
        hashes = {identity_sha256(freeze(wrap(value))) for value in (1, 1.0, True, "1")}
        assert len(hashes) == 4


@given(st.data(), encodable)
def test_texts_are_equal_exactly_when_values_are(data: st.DataObject, value: Any) -> None:
    """Key order and the kind of sequence change nothing; any other change in one place does."""
    text = canonical_json(freeze(value))
    assert canonical_json(freeze(data.draw(shuffled(value)))) == text
    other = data.draw(
        changed_in_one_place(value).filter(lambda it: not any(0xD800 <= ord(c) < 0xE000 for c in _texts(it)))
    )
    assert (canonical_json(freeze(other)) == text) == strict_equal(value, other)


@given(encodable)
def test_a_text_reads_back_as_its_value(value: Any) -> None:
    """Nothing is lost in the text."""
    assert strict_equal(json.loads(canonical_json(freeze(value))), value)


@pytest.mark.parametrize(
    "value",
    [
        "\ud800",
        {"prompt": "a\udfffb"},
        {"\ud83d": 1},
        ["\ud83d", "\ude00"],
        math.nan,
        [math.inf],
        {1, 2},
        b"x",
        {1: 2, "a": 3},
    ],
    ids=ascii,
)
def test_what_has_no_text_is_refused(value: Any) -> None:
    """A lone surrogate has no UTF-8, NaN no JSON: such an identity is refused rather than escaped."""
    with pytest.raises(RewardConfigError, match="an identity has to be plain JSON text: "):
        canonical_json(value)
    with pytest.raises(RewardConfigError, match="an identity has to be plain JSON text: "):
        identity_sha256(value)


JUDGE = ProviderIdentity("my_rewards:catalog", "judge", "3", "ab" * 32)
LENGTH = ProviderIdentity(None, "length", "1", "cd" * 32)
STAGE = StageIdentity(
    providers=(JUDGE, LENGTH),
    needs={"judge": ("prompt", "reference"), "length": ()},
    terms={"judge": ("helpful", "safe"), "length": ("length",)},
    weights={"helpful": 1.0, "safe": 0.5, "length": -0.1},
    estimator="group_norm",
    group_size=8,
    on_unavailable="fail",
    max_dropped_fraction=0.1,
)

replace = msgspec.structs.replace


def _provider(**changes: Any) -> StageIdentity:
    return replace(STAGE, providers=(replace(JUDGE, **changes), LENGTH))


# Field to a changed identity and the lines that say so, as recorded (STAGE) and now (changed).
CHANGES: dict[str, tuple[StageIdentity, list[str]]] = {
    "providers.catalog": (
        _provider(catalog="rewards.py@sha256:00:catalog"),
        ['providers[0].catalog: recorded "my_rewards:catalog", now "rewards.py@sha256:00:catalog"'],
    ),
    "providers.provider": (_provider(provider="jury"), ['providers[0].provider: recorded "judge", now "jury"']),
    "providers.revision": (_provider(revision="4"), ['providers[0].revision: recorded "3", now "4"']),
    "providers.sha256": (
        _provider(sha256="ef" * 32),
        [f'providers[0].sha256: recorded "{"ab" * 32}", now "{"ef" * 32}"'],
    ),
    "needs": (
        replace(STAGE, needs={"judge": ("prompt", "prompt"), "length": ("reference",)}),
        ['needs.judge[1]: recorded "reference", now "prompt"', 'needs.length: recorded [], now ["reference"]'],
    ),
    "terms": (
        replace(STAGE, terms={"judge": ("safe", "helpful"), "size": ("length",)}),
        [
            'terms.judge[0]: recorded "helpful", now "safe"',
            'terms.judge[1]: recorded "safe", now "helpful"',
            'terms.length: recorded ["length"], now null',
            'terms.size: recorded null, now ["length"]',
        ],
    ),
    "weights": (
        replace(STAGE, weights={**STAGE.weights, "length": 0.0}),
        ["weights.length: recorded -0.1, now 0.0"],
    ),
    "estimator": (
        replace(STAGE, estimator="leave_one_out"),
        ['estimator: recorded "group_norm", now "leave_one_out"'],
    ),
    "group_size": (replace(STAGE, group_size=16), ["group_size: recorded 8, now 16"]),
    "on_unavailable": (
        replace(STAGE, on_unavailable="drop_group"),
        ['on_unavailable: recorded "fail", now "drop_group"'],
    ),
    "max_dropped_fraction": (
        replace(STAGE, max_dropped_fraction=0.25),
        ["max_dropped_fraction: recorded 0.1, now 0.25"],
    ),
}


def _fields() -> set[str]:
    own = {field.name for field in msgspec.structs.fields(StageIdentity)} - {"providers"}
    return own | {f"providers.{field.name}" for field in msgspec.structs.fields(ProviderIdentity)}


def test_every_field_of_an_identity_has_its_row() -> None:
    """A field that is added later fails this test until a row shows what a change of it reads like."""
    assert set(CHANGES) == _fields()


@pytest.mark.parametrize(("changed", "lines"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_any_field_is_named_and_changes_the_hash(changed: StageIdentity, lines: list[str]) -> None:
    """Only what differs is listed, with its path, what was recorded and what is now."""
    assert changed.differences(STAGE) == lines
    assert changed.sha256 != STAGE.sha256
    assert len(STAGE.differences(changed)) == len(lines)


def test_the_same_identity_has_no_differences() -> None:
    """Neither with itself nor with one whose mappings are in another order."""
    again = replace(STAGE, weights=dict(reversed(STAGE.weights.items())), needs=dict(reversed(STAGE.needs.items())))
    assert STAGE.differences(STAGE) == again.differences(STAGE) == []
    assert again.sha256 == STAGE.sha256


def test_another_number_of_providers_is_one_difference() -> None:
    """Lists of different length are shown whole: which of them is new can't be told from their places."""
    (line,) = replace(STAGE, providers=(JUDGE,)).differences(STAGE)
    assert line.startswith('providers: recorded [{"catalog": "my_rewards:catalog", "provider": "judge"')
    assert line.count('"length"') == 1


@pytest.mark.parametrize("identity", [STAGE, *(changed for changed, _ in CHANGES.values())], ids=["as is", *CHANGES])
def test_a_record_reads_back_as_the_same_identity(identity: StageIdentity) -> None:
    """What is written as JSON is the same identity when it is read, with the same hash and no differences."""
    record = identity.to_json()
    read = json.loads(json.dumps(record))
    assert read == record
    back = StageIdentity.from_json(read)
    assert back == identity
    assert back.sha256 == identity.sha256
    assert back.differences(identity) == identity.differences(back) == []


def test_the_hash_of_a_stage_is_that_of_its_record() -> None:
    """By the same rule as a provider's: the SHA-256 of the record's canonical text."""
    text = json.dumps(STAGE.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert STAGE.sha256 == hashlib.sha256(text.encode("utf-8")).hexdigest()


def _without(field: str) -> dict[str, Any]:
    return {name: value for name, value in STAGE.to_json().items() if name != field}


@pytest.mark.parametrize(
    "record",
    [
        None,
        [],
        "identity",
        {},
        *(_without(field.name) for field in msgspec.structs.fields(StageIdentity)),
        {**STAGE.to_json(), "group_size": "8"},
        {**STAGE.to_json(), "weights": {"helpful": None}},
        {**STAGE.to_json(), "providers": [{"provider": "judge"}]},
    ],
    ids=lambda record: type(record).__name__,
)
def test_what_is_no_record_is_refused(record: Any) -> None:
    """Fields that are missing or of another type are a config error, never a default."""
    with pytest.raises(RewardConfigError, match=r"^not a recorded stage identity: "):
        StageIdentity.from_json(record)


def test_a_field_that_is_not_known_is_refused() -> None:
    """A record of a later version may differ in just that field: it can't be compared, so it is no match."""
    provider = {**STAGE.to_json()["providers"][1], "fingerprint": "x"}
    for record in ({**STAGE.to_json(), "seed": 1}, {**STAGE.to_json(), "providers": [provider]}):
        with pytest.raises(RewardConfigError, match=r"unknown field `(seed|fingerprint)`"):
            StageIdentity.from_json(record)


def test_a_worker_s_identity_is_what_was_declared() -> None:
    """Built-ins have no catalog path and hash `null`; needs, terms, weights and policy are those of the worker."""
    worker = RewardWorker(
        reward=["exact_match", "nonempty"], group_size=4, weights={"nonempty": 0.5}, estimator="group_mean"
    )
    null = hashlib.sha256(b"null").hexdigest()
    assert worker.identity == (
        ProviderIdentity(None, "exact_match", "1", null),
        ProviderIdentity(None, "nonempty", "1", null),
    )
    assert worker.stage_identity == StageIdentity(
        providers=worker.identity,
        needs={"exact_match": ("reference",), "nonempty": ()},
        terms={"exact_match": ("exact_match",), "nonempty": ("nonempty",)},
        weights={"exact_match": 1.0, "nonempty": 0.5},
        estimator="group_mean",
        group_size=4,
        on_unavailable="fail",
        max_dropped_fraction=0.1,
    )
    assert null in repr(worker)
