# SPDX-License-Identifier: Apache-2.0
"""What ranks do together: all of it, or all raise the same error. Ranks are threads here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from execution.ranks.rank_threads import exchanges, on_ranks
from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.execution.ranks import RankExchange
from posttrain.training.nft.job import Job, is_rank


def _job(exchange: RankExchange) -> Job:
    return Job(exchange=exchange, device=torch.device("cpu"), reduces_on=torch.device("cpu"))


def test_all_go_on_when_all_could() -> None:
    """Nothing is raised, and rank 0's value is everybody's."""

    def work(exchange: RankExchange) -> Any:
        job = _job(exchange)
        with job.together("load"):
            mine = exchange.rank
        job.same_everywhere("weights", "abc")
        return mine, job.is_first, job.from_first("name", f"of {mine}")

    assert on_ranks(exchanges(3), work) == [(0, True, "of 0"), (1, False, "of 0"), (2, False, "of 0")]


def test_one_that_could_not_ends_all() -> None:
    """The others raise its error with its rank, and what it was keeps its kind."""

    def work(exchange: RankExchange) -> None:
        with _job(exchange).together("load"):
            if exchange.rank == 1:
                raise RewardConfigError("no such checkpoint")

    ends = on_ranks(exchanges(3), work)
    assert [(type(end), str(end)) for end in ends] == [(RewardConfigError, "rank 1: no such checkpoint")] * 3


def test_a_foreign_exception_is_a_broken_contract() -> None:
    """A rank that runs out of memory tells so; nobody waits for it."""

    def work(exchange: RankExchange) -> None:
        with _job(exchange).together("sample"):
            if exchange.rank == 0:
                raise MemoryError("20 GiB")

    ends = on_ranks(exchanges(2), work)
    assert all(isinstance(end, RewardContractError) for end in ends)
    assert len({str(end) for end in ends}) == 1
    assert "rank 0" in str(ends[1])
    assert "20 GiB" in str(ends[1])


def test_one_that_is_told_to_stop_stops_all() -> None:
    """After the step that it was in, by name."""

    def work(exchange: RankExchange) -> None:
        job = _job(exchange)
        job.is_told_to_stop = exchange.rank == 1
        with job.together("update"):
            pass

    ends = on_ranks(exchanges(2), work)
    text = "rank 1: told to stop (SIGTERM), after the step 'update'"
    assert [(type(end), str(end)) for end in ends] == [(RewardUnavailableError, text)] * 2


def test_values_that_differ_are_refused_everywhere() -> None:
    """The ranks that are not as rank 0 are named."""

    def work(exchange: RankExchange) -> None:
        _job(exchange).same_everywhere("weights", "abd" if exchange.rank == 2 else "abc")

    ends = on_ranks(exchanges(3), work)
    text = "weights: rank 2 has others than rank 0; they have to be equal"
    assert [(type(end), str(end)) for end in ends] == [(RewardContractError, text)] * 3


@pytest.mark.parametrize("missing", ["RANK", "MASTER_ADDR", None])
def test_what_a_launcher_sets_makes_a_rank(missing: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the variables of torchrun, not some of them."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    if missing is not None:
        monkeypatch.delenv(missing)
    assert is_rank() is (missing is None)
