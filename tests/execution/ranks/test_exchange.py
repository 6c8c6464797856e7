# SPDX-License-Identifier: Apache-2.0
"""Ranks meet at steps: all get every payload, or all raise the same error inside the bound."""

from __future__ import annotations

import pickle
import re
import threading
import time
from typing import Any

import pytest
from hypothesis import given

from execution.ranks.rank_threads import exchanges, on_ranks
from posttrain.errors import (
    RewardConfigError,
    RewardContractError,
    RewardError,
    RewardUnavailableError,
)
from posttrain.execution.ranks import MemoryStore, RankExchange
from posttrain.execution.ranks.plain import from_bytes, to_bytes
from posttrain.frozen import strict_equal, thaw
from strategies import json_values


def _texts(ends: list[Any]) -> set[str]:
    assert all(isinstance(end, RewardError) for end in ends), ends
    return {f"{type(end).__name__}: {end}" for end in ends}


def test_every_rank_gets_every_payload_in_rank_order() -> None:
    """Payloads come out in rank order on each rank, also over several steps."""

    def work(exchange: RankExchange) -> list[list[Any]]:
        return [exchange.swap("a", exchange.rank), exchange.swap("b", [exchange.rank, "x"])]

    assert on_ranks(exchanges(3), work) == [[[0, 1, 2], [[0, "x"], [1, "x"], [2, "x"]]]] * 3


def test_one_rank_needs_no_store() -> None:
    """Alone, a rank gets its own payload back, and its failure is raised as it is."""
    alone = RankExchange()
    assert alone.swap("a", {"x": 1.5}) == [{"x": 1.5}]
    error = RewardContractError("mine")
    with pytest.raises(RewardContractError, match=r"^mine$") as caught:
        alone.fail("b", error)
    assert caught.value is error
    assert alone.swap("c", None) == [None]


def test_a_payload_of_many_parts_arrives_whole() -> None:
    """More bytes than one key of torch's TCP store takes arrive in order."""
    text = "".join(map(str, range(1_600_000)))
    assert len(text) > 10_000_000
    ends = on_ranks(exchanges(2), lambda exchange: exchange.swap("a", text if exchange.rank else "short"))
    assert ends == [["short", text]] * 2


def test_the_store_stays_small() -> None:
    """Records of steps that everybody has left are removed."""
    store = MemoryStore()
    places = [RankExchange(store, rank=rank, world_size=2, timeout_s=20) for rank in range(2)]
    on_ranks(places, lambda exchange: [exchange.swap("a", "x" * 100) for _ in range(200)])
    assert len(store) < 12


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (RewardContractError("bad rows", provider="p", group_id="g"), RewardContractError, "bad rows"),
        (RewardUnavailableError("503", provider="p"), RewardUnavailableError, "503"),
        (RewardConfigError("no key"), RewardConfigError, "no key"),
        (ZeroDivisionError("division by zero"), RewardContractError, "raised ZeroDivisionError: division by zero"),
    ],
)
def test_one_failing_rank_is_named_on_all(error: Exception, kind: type[RewardError], text: str) -> None:
    """All raise the same error: the kind, the text and the names of the original, and the number of the rank."""

    def work(exchange: RankExchange) -> Any:
        return exchange.fail("a", error) if exchange.rank == 2 else exchange.swap("a", 0)

    ends = on_ranks(exchanges(4), work)
    assert len(_texts(ends)) == 1
    assert {type(end) for end in ends} == {kind}
    assert f"rank 2: {text}" in str(ends[0])
    assert [end.provider for end in ends] == [getattr(error, "provider", None)] * 4
    assert [end.group_id for end in ends] == [getattr(error, "group_id", None)] * 4
    assert ends[2].__cause__ is error
    if isinstance(error, ZeroDivisionError):
        assert {(end.cause_type, end.cause_text) for end in ends} == {("ZeroDivisionError", "division by zero")}


def test_an_authors_own_kind_of_error_and_notes_arrive() -> None:
    """A subclass that can't be made from a message alone becomes the tree's own class; notes travel."""

    class OddError(RewardUnavailableError):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a}+{b}")

    error = OddError(1, 2)
    error.add_note("seen twice")
    error.because_of(TimeoutError("5 s"))
    ends = on_ranks(exchanges(2), lambda it: it.fail("a", error) if it.rank else it.swap("a", 0))
    assert _texts(ends) == {"RewardUnavailableError: rank 1: 1+2"}
    assert [(end.cause_type, end.cause_text, end.__notes__) for end in ends] == [
        ("TimeoutError", "5 s", ["seen twice"])
    ] * 2


@pytest.mark.parametrize(
    ("kinds", "kind"),
    [
        ((RewardUnavailableError, RewardContractError, RewardConfigError), RewardConfigError),
        ((RewardUnavailableError, RewardContractError, RewardUnavailableError), RewardContractError),
        ((RewardUnavailableError, RewardUnavailableError), RewardUnavailableError),
    ],
)
def test_several_failures_are_all_listed(kinds: tuple[type[RewardError], ...], kind: type[RewardError]) -> None:
    """Each failing rank has its line; what a person must mend decides the kind."""
    errors = [made(f"fault {number}", provider=f"p{number}") for number, made in enumerate(kinds)]

    def work(exchange: RankExchange) -> Any:
        if exchange.rank < len(errors):
            exchange.fail("a", errors[exchange.rank])
        return exchange.swap("a", 0)

    ends = on_ranks(exchanges(4), work)
    lines = "\n".join(f"  rank {number}: provider 'p{number}': fault {number}" for number in range(len(kinds)))
    assert _texts(ends) == {f"{kind.__name__}: {len(kinds)} of 4 ranks failed:\n{lines}"}


def test_what_fails_alike_everywhere_blames_no_rank() -> None:
    """The same failure on every rank reads as in one process."""
    ends = on_ranks(exchanges(3), lambda it: it.fail("a", RewardContractError("bad", provider="p")))
    assert _texts(ends) == {"RewardContractError: provider 'p': bad"}


def test_ranks_go_on_after_a_failure() -> None:
    """A converged failure leaves the exchange in step: the next batch can be tried."""

    def work(exchange: RankExchange) -> Any:
        with pytest.raises(RewardContractError, match=r"^rank 1: bad$"):
            exchange.fail("a", RewardContractError("bad")) if exchange.rank == 1 else exchange.swap("a", 0)
        return exchange.swap("a", exchange.rank)

    assert on_ranks(exchanges(3), work) == [[0, 1, 2]] * 3


def test_ranks_that_do_not_come_are_named_inside_the_bound() -> None:
    """The others end after the bound with one error that names who is missing, and the exchange says so afterwards."""
    places = exchanges(4, timeout_s=0.5)
    start = time.monotonic()
    ends = on_ranks([places[0], places[3]], lambda it: it.swap("evaluate", 0))
    assert time.monotonic() - start < 10
    assert _texts(ends) == {
        "RewardUnavailableError: ranks 1, 2 did not come to the step 'evaluate' within 0.5 s: hung or dead"
    }
    with pytest.raises(RewardUnavailableError, match=r"broke before: ranks 1, 2 did not come.*Start them again"):
        places[0].swap("evaluate", 0)


def test_a_late_rank_learns_the_same_verdict() -> None:
    """A rank that wakes after the others gave up raises their error at once instead of waiting for them."""
    places = exchanges(3, timeout_s=0.3)
    ends = on_ranks(places[:2], lambda it: it.swap("evaluate", 0))
    late = RankExchange(places[2]._store, rank=2, world_size=3, timeout_s=500)
    assert _texts([*ends, *on_ranks([late], lambda it: it.swap("evaluate", 0))]) == {
        "RewardUnavailableError: rank 2 did not come to the step 'evaluate' within 0.3 s: hung or dead"
    }


def test_ranks_with_other_bounds_follow_the_first_to_give_up() -> None:
    """Whoever runs out of time first decides for all, so that nobody goes on alone."""
    store = MemoryStore()
    bounds = (0.3, 300.0)
    places = [RankExchange(store, rank=rank, world_size=3, timeout_s=bound) for rank, bound in enumerate(bounds)]
    start = time.monotonic()
    ends = on_ranks(places, lambda it: it.swap("a", 0))
    assert time.monotonic() - start < 10
    assert [type(end) for end in ends] == [RewardUnavailableError] * 2


def test_a_rank_that_slept_finds_what_it_had_not_read_yet() -> None:
    """Records of a step stay until everybody has come to the next one, also when the others have given up there."""
    store = MemoryStore()
    places = [RankExchange(store, rank=rank, world_size=2, timeout_s=0.3) for rank in range(2)]
    on_ranks(places, lambda it: it.swap("first", f"of {it.rank}"))
    with pytest.raises(RewardUnavailableError, match="rank 1 did not come to the step 'second'"):
        places[0].swap("second", 0)
    # Rank 1 slept in the middle of the first step, and reads on where it was.
    late = RankExchange(store, rank=1, world_size=2, timeout_s=0.3)
    assert late.swap("first", "of 1") == ["of 0", "of 1"]
    with pytest.raises(RewardUnavailableError, match="rank 1 did not come to the step 'second'"):
        late.swap("second", 0)


def test_a_failure_beside_a_missing_rank_is_told() -> None:
    """The failure keeps its kind and its rank, and the missing rank stands beside it."""
    places = exchanges(3, timeout_s=0.3)
    ends = on_ranks(places[:2], lambda it: it.fail("a", RewardConfigError("no key")) if it.rank else it.swap("a", 0))
    assert _texts(ends) == {
        "RewardConfigError: rank 1: no key\nBesides, rank 2 did not come to the step 'a' within 0.3 s: hung or dead"
    }


@pytest.mark.parametrize("waiting", [True, False])
def test_an_interrupted_rank_does_not_keep_the_others(waiting: bool) -> None:
    """The others end at once, naming the rank and what took it away; the interrupt itself goes through."""
    places = exchanges(3, timeout_s=300)

    def work(exchange: RankExchange) -> Any:
        if exchange.rank != 1:
            return exchange.swap("a", 0)
        exchange.leave(KeyboardInterrupt())
        raise KeyboardInterrupt

    if not waiting:
        work_first = on_ranks([places[1]], work)
        ends = [*on_ranks([places[0], places[2]], work), *work_first]
    else:
        ends = on_ranks(places, work)
    interrupts = [end for end in ends if isinstance(end, KeyboardInterrupt)]
    others = [end for end in ends if not isinstance(end, KeyboardInterrupt)]
    assert len(interrupts) == 1
    assert _texts(others) == {"RewardUnavailableError: rank 1: went away because of KeyboardInterrupt"}


def test_ranks_out_of_step_are_refused() -> None:
    """Ranks that make different calls are told which one is where, instead of mixing their payloads."""
    ends = on_ranks(exchanges(2), lambda it: it.swap("gather" if it.rank else "evaluate", 0))
    (text,) = _texts(ends)
    assert text == (
        "RewardContractError: the ranks are out of step: rank 0 at 'evaluate', rank 1 at 'gather'. "
        "Every rank has to make the same calls in the same order."
    )


class _LostStore:
    """A store whose holder is gone."""

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> Any:
            raise ConnectionResetError("reset by peer")

        return call


def test_a_lost_store_is_an_unavailable_error() -> None:
    """When whoever holds the store dies, the rank says so and does not hang."""
    exchange = RankExchange(_LostStore(), rank=1, world_size=2)
    with pytest.raises(RewardUnavailableError, match=r"rank 1 can't reach the store.*reset by peer") as caught:
        exchange.swap("a", 0)
    assert caught.value.cause_type == "ConnectionResetError"
    with pytest.raises(RewardUnavailableError, match="broke before"):
        exchange.swap("a", 0)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rank": 2, "world_size": 2}, "rank 2 (int) of 2 (int)"),
        ({"rank": -1}, "rank -1 (int)"),
        ({"rank": True, "world_size": 2}, "rank True (bool)"),
        ({"world_size": 2}, "2 ranks need a store"),
        ({"timeout_s": 0}, "timeout_s: expected seconds above 0, got 0 (int)"),
        ({"timeout_s": float("nan")}, "timeout_s: expected seconds above 0, got nan (float)"),
        ({"timeout_s": None}, "timeout_s: expected seconds above 0, got None"),
    ],
)
def test_settings_that_do_not_fit_are_refused(fields: dict[str, Any], text: str) -> None:
    """Numbers and bounds are checked when the exchange is made."""
    with pytest.raises(RewardConfigError, match=re.escape(text)):
        RankExchange(**fields)


@given(json_values)
def test_plain_data_travels_exactly(value: Any) -> None:
    """What comes out is strictly equal to what went in: types, bits and structure."""
    assert strict_equal(from_bytes(to_bytes(thaw(value))), value)


@pytest.mark.parametrize("value", [-0.0, 2**70, "\ud800", {"b": 1, "a": True}, 5e-324])
def test_awkward_plain_data_travels_exactly(value: Any) -> None:
    """Negative zero, large ints, lone surrogates, the order of keys and the smallest float arrive as they were."""
    assert repr(from_bytes(to_bytes(value))) == repr(value)


def test_a_record_can_not_run_code() -> None:
    """Bytes that refer to any global are refused."""
    with pytest.raises(pickle.UnpicklingError, match="expected plain data, got a reference to _thread"):
        from_bytes(pickle.dumps(threading.Lock))
    with pytest.raises(pickle.UnpicklingError, match="expected plain data"):
        from_bytes(pickle.dumps(RewardContractError("x")))
