# SPDX-License-Identifier: Apache-2.0
"""What crosses between processes comes out as it went in, to the bit."""

from __future__ import annotations

from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.execution.wire import (
    Outcome,
    WireError,
    decode_error,
    decode_groups,
    decode_outcomes,
    encode_error,
    encode_groups,
    encode_outcomes,
)
from posttrain.frozen import MAX_DEPTH, freeze, strict_equal
from posttrain.rewards import GroupScores, RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.request import LatentCandidate
from posttrain.rewards.metrics.contribution import MetricContribution, merge_all
from posttrain.rewards.stage.bind import BoundGroup

counts = st.one_of(st.none(), st.integers(0, 4096), st.just(2**80))
contexts = st.builds(
    RewardContext, strategies.json_values.map(freeze), st.one_of(st.none(), strategies.json_values.map(freeze))
)


@st.composite
def groups(draw: st.DrawFn) -> BoundGroup:
    """One to four candidates, one to three providers with inputs of their own."""
    name = draw(strategies.text)
    candidates = tuple(
        RewardCandidate(draw(strategies.text), draw(strategies.text), draw(counts), draw(st.none() | strategies.text))
        for _ in range(draw(st.integers(1, 4)))
    )
    requests = [RewardGroupRequest(name, candidates, draw(contexts)) for _ in range(draw(st.integers(1, 3)))]
    return BoundGroup(name, tuple(requests), tuple(each.trajectory_id for each in candidates))


def _group(prompt: Any = None, completion: str = "x", providers: int = 1) -> BoundGroup:
    candidates = (RewardCandidate("t0", completion), RewardCandidate("t1", "y"))
    context = RewardContext(freeze(prompt))
    requests = tuple(RewardGroupRequest("g", candidates, context) for _ in range(providers))
    return BoundGroup("g", requests, ("t0", "t1"))


@given(st.lists(groups(), max_size=3))
def test_groups(batch: list[BoundGroup]) -> None:
    """Texts with half surrogates, integers of any size, both zeros, the order of keys and the types of numbers."""
    again = decode_groups(bytes(encode_groups(batch)))
    assert again == batch
    assert ascii(again) == ascii(batch)
    for group, other in zip(batch, again, strict=True):
        for one, two in zip(group.requests, other.requests, strict=True):
            assert strict_equal(one.context.prompt, two.context.prompt)
            assert strict_equal(one.context.reference, two.context.reference)


@pytest.mark.parametrize(
    "value",
    [2**63 - 1, 2**63, -(2**63) - 1, 2**64, 2**14_000 - 1, -0.0, 5e-324, "\ud83d\ude00", "\udfff", {"\ud800": 1}],
)
def test_values_at_the_edges_of_the_format(value: Any) -> None:
    """What MessagePack can't hold goes another way; two half surrogates do not become one character."""
    (again,) = decode_groups(encode_groups([_group({"of": [value, 1, 1.0, True]})]))
    assert strict_equal(again.requests[0].context.prompt, freeze({"of": [value, 1, 1.0, True]}))
    if isinstance(value, str):
        (again,) = decode_groups(encode_groups([_group(None, value)]))
        assert again.requests[0].candidates[0].completion == value


@pytest.mark.parametrize("leaf", [1, 2**70])
def test_the_deepest_value_that_can_be_frozen(leaf: int) -> None:
    """Depth is no limit of either form."""
    value: Any = leaf
    for level in range(MAX_DEPTH):
        value = [value] if level % 2 else {"in": value}
    (again,) = decode_groups(encode_groups([_group(value)]))
    assert strict_equal(again.requests[0].context.prompt, freeze(value))


def test_each_provider_gets_inputs_of_its_own_frozen() -> None:
    """As binding makes them: no provider can reach another's copy, and none can change its own."""
    (again,) = decode_groups(encode_groups([_group({"a": [1]}, providers=2)]))
    one, two = (request.context.prompt for request in again.requests)
    assert one == two
    assert one is not two
    assert isinstance(one, dict)
    with pytest.raises(TypeError, match="this mapping is frozen"):
        one["a"] = 2
    assert again.requests[0].candidates is again.requests[1].candidates


def test_what_can_not_be_sent_is_refused() -> None:
    """A latent stays where it is; requests that don't share their candidates are none that binding makes."""
    latents = (LatentCandidate("t0", object()),)
    with pytest.raises(WireError, match="group 'g': only text completions can be sent"):
        encode_groups([BoundGroup("g", (RewardGroupRequest("g", latents, RewardContext()),), ("t0",))])
    one, two = _group(), _group(completion="z")
    with pytest.raises(WireError, match="group 'g': its requests don't share their candidates"):
        encode_groups([BoundGroup("g", (one.requests[0], two.requests[0]), ("t0", "t1"))])


@st.composite
def contributions(draw: st.DrawFn) -> MetricContribution:
    """Every kind, merged of several, so that exact sums have several parts."""
    values = draw(st.lists(strategies.wide_floats, min_size=1, max_size=5))
    kind = draw(st.sampled_from(["mean", "total", "minimum", "maximum"]))
    return merge_all([getattr(MetricContribution, kind)(value) for value in values])


columns = st.tuples(strategies.finite_floats, strategies.finite_floats)
scores = st.builds(
    GroupScores,
    st.just("p"),
    st.just("g"),
    st.just(("t0", "t1")),
    st.dictionaries(st.sampled_from(["a", "b"]), columns, min_size=1),
    st.dictionaries(st.sampled_from(["x", "y"]), contributions()),
    st.floats(0, 1e6),
)


@given(scores)
def test_scores(one: GroupScores) -> None:
    """Terms in their order, exact sums with all their parts, seconds."""
    (again,) = decode_outcomes(encode_outcomes([_group()], [(one,)]), [_group()], ["p"])
    assert again == (one,)
    assert repr(again) == repr((one,))


def _error(kind: type[RewardError], message: str, names: tuple[str | None, ...], cause: str | None) -> RewardError:
    error = kind(message, provider=names[0], group_id=names[1], trajectory_id=names[2])
    if cause is not None:
        error.because_of(TimeoutError(cause))
        error.add_note(f"note {cause}")
    return error


errors = st.builds(
    _error,
    st.sampled_from([RewardContractError, RewardUnavailableError, RewardConfigError, RewardError]),
    strategies.text,
    st.tuples(*[st.none() | strategies.text] * 3),
    st.none() | strategies.text,
)


def _carried(error: BaseException) -> Any:
    assert isinstance(error, RewardError)
    fields = (error.provider, error.group_id, error.trajectory_id, error.cause_type, error.cause_text)
    return type(error), error.args, fields, getattr(error, "__notes__", []), error.request


@given(errors, st.integers(0, 1))
def test_errors(error: RewardError, at: int) -> None:
    """Kind, names, cause and notes arrive; the request is the driver's own object, not a copy that travelled."""
    there, here = _group(providers=2), _group(providers=2)
    error.request = there.requests[at]
    (again,) = decode_outcomes(encode_outcomes([there], [error]), [here], ["p", "q"])
    assert isinstance(again, RewardError)
    assert again.request is here.requests[at]
    assert _carried(again) == _carried(error)
    error.request = None
    assert _carried(decode_error(encode_error(error))) == _carried(error)


def test_an_authors_own_kind_keeps_its_name_as_the_cause() -> None:
    """The class does not travel; what a report counts by does."""

    class BusyError(RewardUnavailableError):
        pass

    (again,) = decode_outcomes(encode_outcomes([_group()], [BusyError("busy")]), [_group()], ["p"])
    assert type(again) is RewardUnavailableError
    assert again.cause_type == "BusyError"


def test_skipped_and_cancelled() -> None:
    """A group that was skipped has no outcome; a cancellation stays one."""
    outcomes: list[Outcome] = [None, CancelledError("stop")]
    batch = [_group(), _group()]
    skipped, cancelled = decode_outcomes(encode_outcomes(batch, outcomes), batch, ["p"])
    assert skipped is None
    assert isinstance(cancelled, CancelledError)
    assert str(cancelled) == "stop"


@pytest.mark.parametrize("data", [b"", b"\x00", b"garbage", b"\x01", b"\x01\xc1", b"\x02{", b"\x02[1]", b"\x02\xff"])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    """With what they should have been."""
    with pytest.raises(WireError, match="a list of groups can't be read"):
        decode_groups(data)
    with pytest.raises(WireError, match="a list of outcomes can't be read"):
        decode_outcomes(data, [], [])
    with pytest.raises(WireError, match="an error can't be read"):
        decode_error(data)


@given(st.binary(max_size=64), st.integers(1, 2))
def test_any_bytes_give_a_record_or_a_wire_error(data: bytes, form: int) -> None:
    """No other exception gets out, whatever comes."""
    for read in (decode_groups, decode_error, lambda sent: decode_outcomes(sent, [_group()], ["p"])):
        try:
            read(bytes((form,)) + data)
        except WireError as error:
            assert "can't be read" in str(error) or "group" in str(error)  # noqa: PT017  # both ends are fine


def test_scores_of_another_shape_are_refused() -> None:
    """A worker that answers for other providers or other candidates is not believed."""
    one = GroupScores("p", "g", ("t0", "t1"), {"a": (1.0, 2.0)})
    sent = encode_outcomes([_group()], [(one,)])
    with pytest.raises(WireError, match="scores of 1 providers, expected 2"):
        decode_outcomes(sent, [_group()], ["p", "q"])
    with pytest.raises(WireError, match="it has 1 for 2 groups"):
        decode_outcomes(sent, [_group(), _group()], ["p"])
    short = encode_outcomes([_group()], [(GroupScores("p", "g", ("t0",), {"a": (1.0,)}),)])
    with pytest.raises(WireError, match="one value for each of 2 candidates"):
        decode_outcomes(short, [_group()], ["p"])
