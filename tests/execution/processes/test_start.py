# SPDX-License-Identifier: Apache-2.0
"""How workers start: from the catalog's path, under the same identity, within a bound, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from execution.processes import rewards
from execution.processes.conftest import CATALOG
from posttrain.execution import ProcessEvaluator
from posttrain.rewards import (
    ProviderExecution,
    RewardCatalog,
    RewardConfigError,
    RewardProviderSpec,
    RewardUnavailableError,
    RewardWorker,
    load_catalog,
)

Workers = Callable[..., RewardWorker]


@pytest.fixture(autouse=True)
def _life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIFE", str(tmp_path / "life"))


def test_a_catalog_that_differs_in_the_worker_is_refused_with_both_identities(
    worker_of: Workers, batch_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that reads its environment comes out otherwise later: nothing is scored, and both hashes are told."""
    monkeypatch.setenv("MOOD", "calm")
    worker = worker_of("moody")
    calm = worker.identity[0].sha256[:12]
    monkeypatch.setenv("MOOD", "wild")
    wild = load_catalog(CATALOG).identity("moody").sha256[:12]
    with pytest.raises(RewardConfigError, match=f"(?s)another one in the worker.*identity {calm}.*identity {wild}"):
        worker.score(batch_of({"g": [1.0, 0.0]}))
    assert "closed" in repr(worker.stage.evaluator)


def test_a_catalog_passed_as_an_object_is_refused_with_the_way_out(no_child_left: None) -> None:
    """A worker has no path to find it by."""
    with pytest.raises(RewardConfigError, match=r"'obey': a catalog that was passed as an object.*pass its path"):
        RewardWorker(catalog=rewards.catalog(), reward="obey", group_size=2, evaluator=ProcessEvaluator(workers=1))


def test_a_catalog_in_the_script_is_refused() -> None:
    """A worker does not run the driver's script again."""
    catalog = RewardCatalog(rewards.catalog(), path="__main__:catalog")
    with pytest.raises(RewardConfigError, match=r"in the script itself.*put it into a module"):
        RewardWorker(catalog=catalog, reward="obey", group_size=2, evaluator=ProcessEvaluator(workers=1))


def test_a_rank_local_provider_is_refused() -> None:
    """Latents don't leave their rank."""
    spec = RewardProviderSpec(
        factory=rewards.Rich, revision="1", terms=("x",), execution=ProviderExecution(rank_local=True)
    )
    catalog = RewardCatalog({"media": spec}, path="anything:catalog")
    with pytest.raises(RewardConfigError, match="'media' scores latents, which never leave their rank"):
        RewardWorker(catalog=catalog, reward="media", group_size=2, evaluator=ProcessEvaluator(workers=1))


def test_a_catalog_file_is_found_again_in_its_folder(tmp_path: Path, batch_of: Any) -> None:
    """The recorded path is relative; the worker resolves it against the same folder and finds the same content."""
    (tmp_path / "mine.py").write_text("from execution.processes.rewards import catalog\n")
    catalog = load_catalog("mine.py:catalog", base=tmp_path)
    evaluator = ProcessEvaluator(workers=1, catalog_folder=tmp_path)
    batch = batch_of({"g": [1.0, 0.0]})
    with RewardWorker(catalog=catalog, reward="obey", group_size=2, evaluator=evaluator) as worker:
        worker.score(batch)
        worker.close()
        (tmp_path / "mine.py").write_text("from execution.processes.rewards import catalog  # edited\n")
        with pytest.raises(RewardConfigError, match="catalog is another one in the worker"):
            worker.score(batch)


def test_a_factory_at_fault_is_refused_when_the_worker_is_made(tmp_path: Path) -> None:
    """As in process, before any batch."""
    (tmp_path / "mine.py").write_text(
        "from posttrain.rewards import RewardProviderSpec\n"
        "def catalog():\n"
        "    return {'bad': RewardProviderSpec(factory=lambda: None, revision='1', terms=('x',))}\n"
    )
    catalog = load_catalog("mine.py:catalog", base=tmp_path)
    with pytest.raises(RewardConfigError, match="provider 'bad'"):
        RewardWorker(
            catalog=catalog, reward="bad", group_size=2, evaluator=ProcessEvaluator(workers=1, catalog_folder=tmp_path)
        )


@pytest.mark.parametrize(
    ("opening", "kind", "words"),
    [
        ("hangs", RewardConfigError, r"not ready within 1.5 s \(start_timeout_s\).*checked this machine"),
        ("dies", RewardConfigError, "ended with exit code 7.*checked this machine"),
        ("is unavailable", RewardUnavailableError, "provider 'living': the judge is down"),
    ],
)
def test_a_start_that_fails_says_how_far_it_came(
    worker_of: Workers, batch_of: Any, monkeypatch: pytest.MonkeyPatch, opening: str, kind: Any, words: str
) -> None:
    """Opening fails at once, within its bound, and leaves no process; it can be tried again."""
    worker = worker_of("living", pool={"start_timeout_s": 1.5})
    monkeypatch.setenv("OPENING", opening)
    began = time.monotonic()
    with pytest.raises(kind, match=words):
        worker.score(batch_of({"g": [1.0, 0.0]}))
    assert time.monotonic() - began < 30
    monkeypatch.setenv("OPENING", "works")
    worker.score(batch_of({"g": [1.0, 0.0]}))


def test_replacements_that_keep_failing_end_the_batch(
    worker_of: Workers, batch_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When no worker comes up any more, the batch fails by name instead of starting workers for ever."""
    worker = worker_of(("living", "obey"), pool={"workers": 1}, on_unavailable="drop_group")
    worker.stage.open()
    monkeypatch.setenv("OPENING", "dies")
    with pytest.raises(RewardConfigError, match="ended with exit code 7") as caught:
        worker.score(batch_of({"g0": ["kill", 1.0], "g1": [1.0, 0.0]}))
    assert "3 workers in a row were lost before they evaluated anything" in caught.value.__notes__


def test_the_machine_is_checked_before_anything_is_opened(
    worker_of: Workers, batch_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each worker asks its providers what the machine lacks."""
    worker = worker_of("checked")
    monkeypatch.delenv("TOKEN_OF_THE_JUDGE", raising=False)
    with pytest.raises(RewardConfigError, match="provider 'checked': the variable TOKEN_OF_THE_JUDGE is not set"):
        worker.score(batch_of({"g": [1.0, 0.0]}))
    assert not (tmp_path / "life").exists()
    monkeypatch.setenv("TOKEN_OF_THE_JUDGE", "t0ken-value")
    worker.score(batch_of({"g": [1.0, 0.0]}))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"workers": 0}, "workers: expected an int of at least 1, got 0"),
        ({"workers": True}, "workers: expected an int of at least 1, got True"),
        ({"group_timeout_s": 0}, "group_timeout_s: expected a number of seconds above 0, got 0"),
        ({"group_timeout_s": float("nan")}, "group_timeout_s: expected a number"),
        ({"start_timeout_s": "1"}, "start_timeout_s: expected a number"),
        ({"memory_limit_mib": 0.5}, "memory_limit_mib: expected an int of at least 1 or None"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], words: str) -> None:
    """Each is named with what came."""
    with pytest.raises(RewardConfigError, match=words):
        ProcessEvaluator(**settings)


def test_the_config_can_lower_the_number_of_workers(worker_of: Workers, batch_of: Any) -> None:
    """`groups_in_flight` bounds them, and never raises their number."""
    worker = worker_of("pid", pool={"workers": 3}, groups_in_flight=2)
    assert worker.stage.evaluator.groups_in_flight == 2
    worker.stage.open()
    assert isinstance(worker.stage.evaluator, ProcessEvaluator)
    assert len(worker.stage.evaluator.pids) == 2
    assert worker_of("pid", pool={"workers": 3}, groups_in_flight=9).stage.evaluator.groups_in_flight == 3
    with pytest.raises(RewardConfigError, match="groups_in_flight: expected an int of at least 1, got 0"):
        worker_of("pid", groups_in_flight=0)
