# SPDX-License-Identifier: Apache-2.0
"""Providers with a life of their own are opened once, when first needed, and closed once, the last opened first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.rewards import RewardGroupRequest, RewardGroupResult, RewardProviderSpec, RewardWorker
from posttrain.schema import Trajectory

Batch = Callable[..., list[Trajectory]]
Spec = Callable[..., RewardProviderSpec]
ReadOff = Callable[..., RewardGroupResult]
State = Callable[..., list[tuple[int, str, str]]]
Failures = dict[str, BaseException]


class _Managed:
    """Logs its life; what `failures` holds under ``open a`` or ``close a`` is raised there."""

    def __init__(self, name: str, log: list[str], failures: Failures, read_off: ReadOff) -> None:
        self._name, self._log, self._failures, self._read_off = name, log, failures, read_off

    def _note(self, what: str) -> None:
        self._log.append(f"{what} {self._name}")
        if (failure := self._failures.get(f"{what} {self._name}")) is not None:
            raise failure

    def open(self) -> None:
        self._note("open")

    def close(self) -> None:
        self._note("close")

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        self._note("evaluate")
        return self._read_off(request, self._name)


@pytest.fixture
def log() -> list[str]:
    """What happened, in order."""
    return []


@pytest.fixture
def failures() -> Failures:
    """What is to fail; a test may change it on the way."""
    return {}


@pytest.fixture
def worker(spec_of: Spec, read_off: ReadOff, log: list[str], failures: Failures) -> RewardWorker:
    """Three managed providers, ``a``, ``b`` and ``c``, and between them one that is not."""
    catalog = {
        name: spec_of(name, factory=partial(_Managed, name, log, failures, read_off)) for name in ("a", "b", "c")
    }
    catalog["plain"] = spec_of("plain")
    return RewardWorker(catalog=catalog, reward=("a", "plain", "b", "c"), group_size=2)


@pytest.fixture
def batch(batch_of: Batch) -> list[Trajectory]:
    """One group of two."""
    return batch_of({"g": [{"a": 1.0, "plain": 1.0, "b": 1.0, "c": 1.0}] * 2})


OPENED = ["open a", "open b", "open c"]
SCORED = ["evaluate a", "evaluate b", "evaluate c"]
CLOSED = ["close c", "close b", "close a"]


def test_nothing_is_opened_before_it_is_needed(worker: RewardWorker, batch: list[Trajectory], log: list[str]) -> None:
    """Construction and a batch that is refused open nothing; the first batch that is scored opens everything."""
    with pytest.raises(RewardContractError, match="expected 2"):
        worker.score(batch[:1])
    assert log == []
    worker.score(batch)
    assert log == OPENED + SCORED


def test_providers_are_opened_and_closed_once(worker: RewardWorker, batch: list[Trajectory], log: list[str]) -> None:
    """However many batches are scored, each is opened once; closing is in reverse, and closing twice is one."""
    worker.score(batch)
    worker.score(batch)
    worker.close()
    worker.close()
    assert log == OPENED + SCORED + SCORED + CLOSED


def test_a_worker_that_was_never_used_closes_nothing(worker: RewardWorker, log: list[str]) -> None:
    """Closing what was not opened is no error and no call."""
    worker.close()
    assert log == []


def test_a_worker_opens_on_entry_and_closes_on_exit(
    worker: RewardWorker, batch: list[Trajectory], log: list[str]
) -> None:
    """As a context manager the worker is open from the first line to the last."""
    with worker as entered:
        assert entered is worker
        assert log == OPENED
        worker.score(batch)
    assert log == OPENED + SCORED + CLOSED


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_a_worker_closes_when_its_body_fails(worker: RewardWorker, log: list[str], kind: type[BaseException]) -> None:
    """The way out does not matter."""
    with pytest.raises(kind, match="odd"), worker:
        raise kind("odd")
    assert log == OPENED + CLOSED


def test_a_closed_worker_opens_again(worker: RewardWorker, batch: list[Trajectory], log: list[str]) -> None:
    """Scoring after closing starts a second life, which is closed in its turn."""
    with worker:
        pass
    worker.score(batch)
    worker.close()
    assert log == OPENED + CLOSED + OPENED + SCORED + CLOSED


def test_a_failed_batch_leaves_providers_open(
    worker: RewardWorker, batch: list[Trajectory], log: list[str], failures: Failures
) -> None:
    """A failure of a batch is none of the provider's life: the next batch goes on with what is open."""
    failures["evaluate b"] = ValueError("odd")
    with pytest.raises(RewardContractError, match="odd"):
        worker.score(batch)
    failures.clear()
    worker.score(batch)
    assert log == [*OPENED, "evaluate a", "evaluate b", *SCORED]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("no socket"), RewardContractError),
        (RewardUnavailableError("no answer"), RewardUnavailableError),
        (RewardConfigError("bad key"), RewardConfigError),
    ],
)
def test_half_opened_providers_are_closed_again(
    worker: RewardWorker,
    batch: list[Trajectory],
    state_of: State,
    log: list[str],
    failures: Failures,
    error: Exception,
    kind: type[Exception],
) -> None:
    """When one fails to open, those before it are closed, nothing is scored, and the error says which and when."""
    failures["open c"] = error
    before = state_of(batch)
    with pytest.raises(kind, match=r"^provider 'c': .*(no socket|no answer|bad key)") as caught:
        worker.score(batch)
    assert caught.value.__notes__ == ["while the provider was opened"]
    assert log == [*OPENED, "close b", "close a"]
    assert state_of(batch) == before
    worker.close()
    assert log == [*OPENED, "close b", "close a"]


def test_opening_is_tried_again(
    worker: RewardWorker, batch: list[Trajectory], log: list[str], failures: Failures
) -> None:
    """After a failed opening the next batch starts over."""
    failures["open b"] = RewardUnavailableError("no answer")
    with pytest.raises(RewardUnavailableError, match=r"^provider 'b': no answer"):
        worker.score(batch)
    del failures["open b"]
    worker.score(batch)
    assert log == ["open a", "open b", "close a", *OPENED, *SCORED]


def test_unavailable_at_opening_drops_no_group(
    spec_of: Spec, read_off: ReadOff, batch_of: Batch, log: list[str]
) -> None:
    """The failure policy is about groups: a provider that can't be opened fails the batch under either."""
    failures: Failures = {"open a": RewardUnavailableError("no answer")}
    catalog = {"a": spec_of("a", factory=partial(_Managed, "a", log, failures, read_off))}
    worker = RewardWorker(
        catalog=catalog, reward="a", group_size=2, on_unavailable="drop_group", max_dropped_fraction=1.0
    )
    with pytest.raises(RewardUnavailableError, match=r"^provider 'a': no answer"):
        worker.score(batch_of({"g": [{"a": 1.0}] * 2}))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_opening_closes_what_was_opened(
    worker: RewardWorker, batch: list[Trajectory], log: list[str], failures: Failures, kind: type[BaseException]
) -> None:
    """An interrupt passes through as it is, and leaves no provider half open."""
    failures["open c"] = kind("stop")
    with pytest.raises(kind, match="stop"):
        worker.score(batch)
    assert log == [*OPENED, "close b", "close a"]


def test_a_failure_to_close_is_raised_and_named(worker: RewardWorker, log: list[str], failures: Failures) -> None:
    """The others are closed all the same, the error says which and when, and the worker counts as closed."""
    failures["close b"] = OSError("still busy")
    with pytest.raises(RewardContractError, match=r"^provider 'b': raised OSError: still busy") as caught, worker:
        pass
    assert caught.value.__notes__ == ["while the provider was closed"]
    assert type(caught.value.__cause__) is OSError
    assert log == OPENED + CLOSED
    worker.close()
    assert log == OPENED + CLOSED


def test_no_failure_to_close_is_lost(worker: RewardWorker, failures: Failures) -> None:
    """When several fail, the last is raised with the one before it as its context."""
    failures.update({"close a": OSError("a is busy"), "close c": RewardUnavailableError("c is gone")})
    with pytest.raises(RewardContractError, match=r"^provider 'a': raised OSError: a is busy") as caught, worker:
        pass
    chain: list[Any] = [caught.value]
    while chain[-1].__context__ is not None:
        chain.append(chain[-1].__context__)
    assert any(str(error) == "provider 'c': c is gone" for error in chain)


def test_a_failure_to_close_keeps_that_of_the_body(worker: RewardWorker, failures: Failures) -> None:
    """What went wrong first stays in sight, as the context of what the closing raises."""
    failures["close a"] = OSError("still busy")
    with pytest.raises(RewardContractError, match="still busy") as caught, worker:
        raise ValueError("odd")
    chain: list[Any] = [caught.value]
    while chain[-1].__context__ is not None:
        chain.append(chain[-1].__context__)
    assert str(chain[-1]) == "odd"
