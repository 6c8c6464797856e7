# SPDX-License-Identifier: Apache-2.0
"""Every hypothesis strategy of the suite, with the independent oracle that goes with JSON values."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.metrics.contribution import MetricContribution
from posttrain.rewards.metrics.moments import Moments
from posttrain.rewards.metrics.report import ProviderReport, RewardReport

__all__ = [
    "NO_SCORES",
    "canonical_text",
    "changed_in_one_place",
    "config_texts",
    "config_trees",
    "contributions",
    "finite_floats",
    "group_results",
    "json_scalars",
    "json_values",
    "plain",
    "provider_results",
    "reports",
    "scores",
    "shuffled",
    "text",
    "weights",
    "wide_floats",
]

# Some of the values that compilers, encoders and sloppy comparisons mix up.
_LOOK_ALIKES: tuple[Any, ...] = (0, 0.0, -0.0, False, 1, 1.0, True, "1", "", "0", None, "null", (), {}, 2**53, 2.0**53)

text = st.text(st.characters(exclude_categories=()), max_size=6)
"""Short text, lone surrogates included."""

finite_floats = st.floats(allow_nan=False, allow_infinity=False)
"""Every finite float: subnormals, both zeros and the largest ones included."""

wide_floats = st.one_of(
    finite_floats,
    st.sampled_from([1e308, -1e308, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, -0.1, 1.0, 2.0**53, -0.0]),
)
"""Finite floats that crowd near the edges, so that sums overflow on the way and cancel."""

weights = st.one_of(st.integers(1, 10**6).map(float), st.floats(1e-6, 1e6))
"""Weights of a mean that keep every product well inside the range of a float."""

json_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**30, 10**40),
    finite_floats,
    text,
    st.sampled_from([value for value in _LOOK_ALIKES if not isinstance(value, (tuple, dict))]),
)
"""Scalars of JSON."""


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    mappings = st.dictionaries(text, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        mappings,
        mappings.map(MappingProxyType),
        mappings.map(OrderedDict),
    )


json_values = st.recursive(json_scalars, _containers, max_leaves=12)
"""Any JSON value, in every container that `freeze` accepts."""


def plain(value: Any) -> Any:
    """The same value in fresh lists and dicts, written apart from `thaw` so that it can check it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def canonical_text(value: Any) -> str:
    """JSON text with sorted keys: two values are the same exactly when their texts are, `1`, `1.0` and `true` apart."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, allow_nan=False)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*path, index))


def _replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: _replaced(item, rest, new) if key == step else item for key, item in value.items()}
    return [_replaced(item, rest, new) if index == step else item for index, item in enumerate(value)]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


@st.composite
def changed_in_one_place(draw: st.DrawFn, value: Any) -> Any:
    """`value` with one place changed, or by chance the same: an item dropped, added or replaced by a look-alike."""
    whole = plain(value)
    path = draw(st.sampled_from(list(_places(whole))))
    old = _at(whole, path)
    options: list[st.SearchStrategy[Any]] = [st.sampled_from(_LOOK_ALIKES), json_scalars, st.just(old)]
    if isinstance(old, list):
        options += [st.just(old[1:]), st.just(old[::-1]), json_scalars.map(lambda item: [*old, item])]
    if isinstance(old, dict):
        options += [
            st.just(dict(list(old.items())[1:])),
            st.tuples(text, json_scalars).map(lambda pair: {**old, pair[0]: pair[1]}),
        ]
    if isinstance(old, (int, float)) and abs(old) < 2**53:
        options += [st.just(float(old)), st.just(int(old)), st.just(-old), st.just(str(old)), st.just(bool(old))]
    return _replaced(whole, path, draw(st.one_of(options)))


@st.composite
def shuffled(draw: st.DrawFn, value: Any) -> Any:
    """The same JSON value with the keys of every mapping in another order and sequences of the other type."""
    if isinstance(value, Mapping):
        keys = draw(st.permutations(list(value)))
        return {key: draw(shuffled(value[key])) for key in keys}
    if isinstance(value, (list, tuple)):
        items = [draw(shuffled(item)) for item in value]
        return tuple(items) if draw(st.booleans()) else items
    return value


NO_SCORES: tuple[Any, ...] = (
    None,
    True,
    False,
    math.nan,
    math.inf,
    -math.inf,
    "0.5",
    "",
    b"1",
    1j,
    10**400,
    [0.5],
    (0.5,),
    {"task": 0.5},
    Decimal(1),
    np.float64("nan"),
    np.float32("inf"),
    np.True_,
    np.str_("0.5"),
    np.array([0.25]),
    np.array([]),
    np.array(True),
    np.array(math.nan),
    np.ma.masked,
    np.timedelta64(5, "ns"),
)
"""Values that are not one real finite number, though some library or language takes each of them for one."""

scores = st.one_of(
    finite_floats,
    st.integers(-(10**6), 10**6),
    finite_floats.map(np.float64),
    st.sampled_from([np.float32(0.1), np.float16(0.5), np.int64(-7), np.uint8(255), np.array(0.25), Fraction(1, 4)]),
)
"""Values that are one real finite number, as a Python or numpy scalar or a 0-d array."""

contributions = st.builds(
    lambda make, value: make(value),
    st.sampled_from([MetricContribution.mean, MetricContribution.total, MetricContribution.maximum]),
    st.integers(-9, 9).map(float),
)
"""Diagnostics as the constructors make them."""


@st.composite
def provider_results(draw: st.DrawFn, terms: tuple[str, ...], diagnostics: tuple[str, ...]) -> Any:
    """What a provider may say of one candidate: by chance exactly what is declared, else more, less or something else.

    One kind of contribution for each diagnostic is not enforced either.
    """
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([None, 0.5, {"task": 0.5}, (), RewardProviderResult]))
    names = st.sampled_from([*terms, "extra", 1, None])
    value = st.one_of(scores, scores, scores, st.sampled_from(NO_SCORES))
    exact = {term: draw(value) for term in terms}
    rows: st.SearchStrategy[Any] = st.one_of(
        st.just(exact),
        st.just(exact),
        st.just(dict(reversed(exact.items()))),
        st.dictionaries(names, value, max_size=3),
        st.sampled_from([None, (), 0.5, "task"]),
    )
    extra = st.one_of(contributions, contributions, st.sampled_from([None, 0.5, MetricContribution("mean", (1.0,))]))
    notes: st.SearchStrategy[Any] = st.one_of(
        st.just({}),
        st.just({}),
        st.dictionaries(st.sampled_from([*diagnostics, "extra"]), extra, max_size=2),
        st.sampled_from([None, (), 0.5, np.array([1.0, 2.0])]),
    )
    return RewardProviderResult(draw(rows), draw(notes))


@st.composite
def group_results(
    draw: st.DrawFn, ids: tuple[str, ...], terms: tuple[str, ...], diagnostics: tuple[str, ...]
) -> RewardGroupResult:
    """What a provider may return for the group ``g`` of these candidates: by chance exactly right, mostly not quite."""
    shown: list[Any] = list(ids)
    if draw(st.integers(0, 3)) == 0:
        strange = st.lists(st.sampled_from([*ids, "stranger", None, 1, np.str_(ids[0])]), max_size=len(ids) + 1)
        shown = draw(st.one_of(st.permutations(ids), strange))
    anything = provider_results(terms, diagnostics)
    value = draw(st.sampled_from([finite_floats, scores]))
    right = st.builds(RewardProviderResult, st.fixed_dictionaries(dict.fromkeys(terms, value)))
    results = [draw(right) for _ in shown]
    match draw(st.sampled_from(["right", "one value", "one with diagnostics", "one of anything", "all of anything"])):
        case "one value" if results:
            at, wrong = draw(st.integers(0, len(results) - 1)), draw(st.sampled_from([math.nan, math.inf, *NO_SCORES]))
            results[at] = RewardProviderResult({**results[at].terms, draw(st.sampled_from(terms)): wrong})
        case "one with diagnostics" if results:
            at, name = draw(st.integers(0, len(results) - 1)), draw(st.sampled_from([*diagnostics, "extra"]))
            results[at] = RewardProviderResult(results[at].terms, {name: draw(contributions)})
        case "one of anything" if results:
            results[draw(st.integers(0, len(results) - 1))] = draw(anything)
        case "all of anything":
            results = [draw(anything) for _ in shown]
    return RewardGroupResult("g", tuple(map(RewardCandidateResult, shown, results)))


_DIAGNOSTICS: dict[str, st.SearchStrategy[MetricContribution]] = {
    "best": wide_floats.map(MetricContribution.maximum),
    "calls": st.floats(-1e6, 1e6).map(MetricContribution.total),
    "length": st.builds(MetricContribution.mean, st.floats(-1e6, 1e6), weights),
    "worst": wide_floats.map(MetricContribution.minimum),
}


@st.composite
def reports(draw: st.DrawFn) -> RewardReport:
    """A report of the namespace ``train``, of any number of groups and providers, none included."""
    counts = st.integers(0, 1000)
    means = wide_floats.map(MetricContribution.mean)
    provider = st.builds(
        ProviderReport,
        sample_count=counts,
        diagnostics=st.fixed_dictionaries({}, optional=_DIAGNOSTICS),
        seconds=st.floats(0, 1e3),
        slowest_seconds=st.sampled_from([0.0, 0.5, 2.0]),
        slowest_group=st.sampled_from([None, "g0", "g1", "g2"]),
    )
    candidates = draw(counts)
    return RewardReport(
        namespace="train",
        group_count=draw(counts),
        zero_spread_count=draw(counts),
        dropped=draw(st.dictionaries(st.sampled_from(["judge: TimeoutError", "rules: X"]), st.integers(1, 9))),
        candidate_count=candidates,
        latent_count=draw(st.integers(0, candidates)),
        truncated_count=draw(counts),
        unknown_finish_count=draw(counts),
        final=Moments.of(draw(st.lists(wide_floats, max_size=6))),
        terms=draw(st.dictionaries(st.sampled_from(["task", "style"]), means)),
        providers=draw(st.dictionaries(st.sampled_from(["judge", "rules"]), provider)),
    )


config_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda value: "${" not in value)
"""Texts that a config may hold: any but the empty one, half a surrogate pair, and what looks like interpolation."""

_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,5}", fullmatch=True).filter(
    lambda name: name not in {"final", "sample_count"}
)
_paths = config_texts.filter(lambda value: not value.startswith("~") and "\0" not in value)
_provider_names = st.one_of(_names, st.lists(_names, min_size=1, max_size=3, unique=True))
_ROLLOUT_COLUMNS = ("group_id", "trajectory_id", "completion", "completions", "finish_reason", "completion_token_count")


@st.composite
def _config_data(draw: st.DrawFn) -> dict[str, Any]:
    optional: dict[str, st.SearchStrategy[Any]] = {
        "path": st.one_of(_paths, st.sampled_from(["a.jsonl", "b.jsonl.gz", "openai/gsm8k"])),
        "source": st.sampled_from(["jsonl", "hf"]),
        "seed": st.integers(0, 2**32 - 1),
        **dict.fromkeys(("split", "row_id_column", "prompt_column", "response_column"), config_texts),
        **{f"{role}_column": config_texts for role in _ROLLOUT_COLUMNS},
    }
    data: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=optional))
    if data.get("prompt_column", "prompt") == data.get("response_column", "reference"):
        data |= {"prompt_column": "prompt", "response_column": "reference"}
    if data.get("source") == "hf" and draw(st.booleans()):
        data["items_fn"] = draw(st.sampled_from(["my_rows:fix", "my.rows.fix", "my_rows:Fix.all"]))
    return data


@st.composite
def config_trees(draw: st.DrawFn) -> dict[str, Any]:
    """The keys below ``rl`` of any valid config, nested: mostly some of them, sometimes all."""
    section: Any = st.fixed_dictionaries
    counts = st.integers(1, 10**6)
    stage = {
        "weights": st.dictionaries(_names, st.one_of(finite_floats, st.integers(-(10**9), 10**9)), max_size=3),
        "estimator": st.sampled_from(["group_norm", "group_mean", "leave_one_out", "group_mean_batch_std"]),
        "on_unavailable": st.sampled_from(["fail", "drop_group"]),
        "max_dropped_fraction": st.one_of(st.floats(0, 1), st.sampled_from([0, 1])),
        "groups_in_flight": counts,
        "backend": st.sampled_from(["in_process", "processes"]),
        "processes": section(
            {}, optional={"workers": counts, "group_timeout_s": st.floats(1e-3, 1e6), "memory_limit_mib": counts}
        ),
    }
    validation = {"enabled": st.booleans(), "reward": _provider_names, "n_generation": counts, "interval": counts}
    optional = {
        "reward_catalog": st.sampled_from(["my_rewards:catalog", "my.rewards.catalog", "rewards/my.py:catalog"]),
        "mask_truncated": st.booleans(),
        "accept_identity": st.text("0123456789abcdef", min_size=64, max_size=64),
        "data": _config_data(),
        "reward_stage": section({}, optional=stage),
        "validation": section({}, optional=validation),
        "run": section({}, optional={"name": _names, "directory": _paths}),
    }
    tree: dict[str, Any] = draw(section({"reward": _provider_names, "group_size": counts}, optional=optional))
    return tree
