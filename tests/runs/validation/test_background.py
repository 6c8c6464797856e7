# SPDX-License-Identifier: Apache-2.0
"""Training goes on while a validation is scored: its result waits, its failure is not lost, and it can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardContractError, RewardUnavailableError
from posttrain.rewards import InProcessEvaluator
from posttrain.rewards.stage.bind import BoundGroup
from posttrain.rewards.stage.evaluator import GroupEvaluation
from posttrain.rewards.stage.prepare import Selection
from posttrain.runs import RLConfig
from posttrain.runs.offline import Progress
from posttrain.runs.validation import HeldOutValidation, pending_validations, validation_folder
from posttrain.schema import Trajectory

Make = Callable[..., HeldOutValidation]
Rollouts = Callable[..., list[Trajectory]]

# Far more than anything here takes; a test that waits so long has failed.
PATIENCE = 30.0


class Gated:
    """Evaluates in this process, each time after the gate was opened, and remembers in which thread."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.begun = threading.Event()
        self.threads: list[str] = []
        self.opened = self.closed = 0
        self._inner = InProcessEvaluator()

    @property
    def groups_in_flight(self) -> int:
        """See `GroupEvaluator`."""
        return self._inner.groups_in_flight

    def prepare(self, selection: Selection, groups_in_flight: int | None) -> None:
        """See `GroupEvaluator`."""
        self._inner.prepare(selection, groups_in_flight)

    def open(self) -> None:
        """Count the call."""
        self.opened += 1

    def close(self) -> None:
        """Count the call."""
        self.closed += 1

    def evaluate(self, groups: Sequence[BoundGroup], *, collect_unavailable: bool) -> list[GroupEvaluation]:
        """Wait for the gate, then evaluate."""
        self.threads.append(threading.current_thread().name)
        self.begun.set()
        assert self.gate.acquire(timeout=PATIENCE)
        return self._inner.evaluate(groups, collect_unavailable=collect_unavailable)


@pytest.fixture
def gated() -> Gated:
    """An evaluator that waits for the test."""
    return Gated()


@pytest.fixture
def waiting(config: Callable[..., RLConfig], gated: Gated) -> Make:
    """A validation whose groups are evaluated when the test lets them."""

    def make(*overrides: str) -> HeldOutValidation:
        return HeldOutValidation(config(*overrides), evaluator=gated)

    return make


def let_go_once_stopped(validation: HeldOutValidation, gated: Gated) -> None:
    """Let the group that is under way go on when, and only when, the validation was told to stop."""

    def wait() -> None:
        assert validation._background._stopping.wait(PATIENCE)
        gated.gate.release()

    threading.Thread(target=wait).start()


def test_training_goes_on_meanwhile(
    waiting: Make, gated: Gated, rollouts: Rollouts, config: Callable[..., RLConfig], tmp_path: Path
) -> None:
    """While the validation waits for its judge, a training batch is scored in the main thread, by its own provider."""
    with waiting() as validation:
        running = validation.begin(rollouts("1 0"), 10, tmp_path / "v").start()
        assert gated.begun.wait(PATIENCE)
        assert not running.has_ended
        assert repr(running) == "RunningValidation(step=10, not ended)"
        with pytest.raises(TimeoutError, match=r"the validation of step 10 has not ended after 0\.01 s; it goes on"):
            running.result(timeout=0.01)
        with config("rl.group_size=2").worker() as training:
            report = training.score(rollouts("1 1", "0 0"))
        assert report.metrics()["train/reward/final/mean"] == 0.5
        gated.gate.release()
        assert running.result(PATIENCE).metrics["val/reward/final/mean"] == 0.5
        assert running.has_ended
        assert (running.step, running.folder) == (10, tmp_path / "v")
    assert gated.threads == ["posttrain-validation_0"]
    assert gated.closed == 1


def test_several_run_one_after_the_other(waiting: Make, gated: Gated, rollouts: Rollouts, tmp_path: Path) -> None:
    """A second one waits for the first, in the one thread; closing waits for both."""
    with waiting() as validation:
        one = validation.begin(rollouts("1 0"), 1, tmp_path / "1").start()
        two = validation.begin(rollouts("1 1"), 2, tmp_path / "2").start()
        assert gated.begun.wait(PATIENCE)
        assert len(gated.threads) == 1
        gated.gate.release(2)
    assert one.result(0).metrics["val/reward/final/mean"] == 0.5
    assert two.result(0).metrics["val/reward/final/mean"] == 1.0
    assert gated.threads == ["posttrain-validation_0"] * 2


def test_one_in_the_foreground_waits_its_turn(waiting: Make, gated: Gated, rollouts: Rollouts, tmp_path: Path) -> None:
    """The providers are asked by one validation at a time, also when another is completed in the main thread."""
    with waiting() as validation:
        running = validation.begin(rollouts("1 0"), 1, tmp_path / "1").start()
        assert gated.begun.wait(PATIENCE)
        other = validation.begin(rollouts("1 1"), 2, tmp_path / "2")
        done = threading.Thread(target=other.complete, name="foreground")
        done.start()
        done.join(0.05)
        assert gated.threads == ["posttrain-validation_0"]
        gated.gate.release(2)
        done.join(PATIENCE)
        assert gated.threads == ["posttrain-validation_0", "foreground"]
        assert running.result(PATIENCE).step == 1


def test_a_failure_is_raised_where_the_result_is_asked_for(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """With provider, group and the validation that it was in; asking again raises it again; closing is quiet then."""
    with held_out() as validation:
        running = validation.begin(rollouts("1 bad"), 10, tmp_path / "v").start()
        with pytest.raises(RewardContractError, match="provider 'rubric', group 'g0', trajectory 'g0/1'"):
            running.result(PATIENCE)
        with pytest.raises(RewardContractError, match="trajectory 'g0/1'") as caught:
            running.result(PATIENCE)
        assert f"in the validation of step 10, {tmp_path / 'v'}" in caught.value.__notes__


def test_a_failure_that_nobody_asked_for_is_raised_at_the_end(
    held_out: Make, rollouts: Rollouts, tmp_path: Path
) -> None:
    """Closing raises the first, and tells of the others; nothing is lost in the thread."""
    validation = held_out()
    for step, texts in ((1, "1 bad"), (2, "1 1"), (3, "down 1")):
        validation.begin(rollouts(texts), step, tmp_path / str(step)).start()
    with pytest.raises(RewardContractError, match="trajectory 'g0/1'") as caught:
        validation.close()
    notes = "\n".join(caught.value.__notes__)
    assert f"in the validation of step 1, {tmp_path / '1'}" in notes
    assert "RewardUnavailableError: provider 'rubric', group 'g0'" in notes
    assert f"in the validation of step 3, {tmp_path / '3'}" in notes
    # What was told once is not told again.
    validation.close()


def test_an_error_of_training_stops_it(
    waiting: Make, gated: Gated, rollouts: Rollouts, judges: Any, tmp_path: Path
) -> None:
    """Leaving by an exception does not wait for the rest: what runs ends after its groups, and all stand pending."""

    def train(validation: HeldOutValidation) -> None:
        begin = validation.begin
        started.append(begin(rollouts("1 0", "1 1", "0 0"), 1, validation_folder(tmp_path, 1)).start())
        started.append(begin(rollouts("1 0"), 2, validation_folder(tmp_path, 2)).start())
        assert gated.begun.wait(PATIENCE)
        let_go_once_stopped(validation, gated)
        raise ZeroDivisionError("training failed")

    started: list[Any] = []
    with pytest.raises(ZeroDivisionError, match="training failed") as caught, waiting() as validation:
        train(validation)
    assert getattr(caught.value, "__notes__", []) == []
    for running in started:
        with pytest.raises(CancelledError, match="was stopped: it stands pending in"):
            running.result(0)
    assert len(pending_validations(tmp_path)) == 2
    assert judges.calls == ["g0"]
    assert gated.closed == 1


def test_a_stopped_one_is_resumed(
    waiting: Make, held_out: Make, gated: Gated, rollouts: Rollouts, judges: Any, tmp_path: Path
) -> None:
    """What it had scored before it was stopped is not asked for again."""
    with pytest.raises(KeyboardInterrupt, match="enough"), waiting() as validation:  # noqa: PT012  # the block is left by it
        validation.begin(rollouts("1 0", "1 1", "0 0"), 1, tmp_path / "v").start()
        assert gated.begun.wait(PATIENCE)
        let_go_once_stopped(validation, gated)
        raise KeyboardInterrupt("enough")
    with held_out() as later:
        result = later.resume(tmp_path / "v").start().result(PATIENCE)
    assert judges.calls == ["g0", "g1", "g2"]
    assert result.resumed_groups == 1


def test_a_failure_is_told_beside_the_error_that_ends_training(
    held_out: Make, rollouts: Rollouts, tmp_path: Path
) -> None:
    """The error of training goes out; what had failed before is noted on it."""
    with pytest.raises(ZeroDivisionError, match="training failed") as caught, held_out() as validation:  # noqa: PT012  # as above
        running = validation.begin(rollouts("down 1"), 4, tmp_path / "v").start()
        while not running.has_ended:
            threading.Event().wait(0.001)
        raise ZeroDivisionError("training failed")
    (note,) = caught.value.__notes__
    assert note.startswith("RewardUnavailableError: provider 'rubric', group 'g0': 503 from the judge")
    assert f"in the validation of step 4, {tmp_path / 'v'}" in note


def test_progress_is_told_in_the_thread(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """A watcher hears of each stretch."""
    seen: list[Progress] = []
    with held_out() as validation:
        validation.begin(rollouts("1 0", "1 1"), 1, tmp_path / "v").start(seen.append)
    assert [each.groups for each in seen] == [1, 2]


def test_it_can_be_used_again_after_closing(held_out: Make, rollouts: Rollouts, tmp_path: Path) -> None:
    """A validation that was closed starts another thread when it is needed."""
    validation = held_out()
    validation.close()
    with validation:
        one = validation.begin(rollouts("1 0"), 1, tmp_path / "1").start()
    with validation:
        two = validation.begin(rollouts("1 1"), 2, tmp_path / "2").start()
    assert [each.result(0).step for each in (one, two)] == [1, 2]


def test_a_pending_one_of_a_crashed_run_is_found_and_completed(
    held_out: Make, rollouts: Rollouts, tmp_path: Path
) -> None:
    """A later process lists what is pending, resumes it beside its training, and has all results."""
    first = held_out()
    for step in (10, 20):
        first.begin(rollouts("1 0"), step, validation_folder(tmp_path, step))
    with held_out() as later:
        running = [later.resume(folder).start() for folder in pending_validations(tmp_path)]
        assert [each.result(PATIENCE).step for each in running] == [10, 20]
    assert pending_validations(tmp_path) == []


def test_a_provider_that_fails_to_close_is_told(
    config: Callable[..., RLConfig], rollouts: Rollouts, tmp_path: Path
) -> None:
    """The end of a validation is the end of its providers; a failure there is raised too."""

    class Stuck(Gated):
        def close(self) -> None:
            """Fail."""
            raise RewardUnavailableError("the connection hangs", provider="rubric")

    validation = HeldOutValidation(config(), evaluator=Stuck())
    with pytest.raises(RewardUnavailableError, match="provider 'rubric': the connection hangs"):
        validation.close()
