# SPDX-License-Identifier: Apache-2.0
"""Several sinks as one: the run's own file is written first, and no failure goes unheard or spreads."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.runs.sinks import FanOut, MetricsLog, metric_lines

Sink = Callable[..., Any]


def test_every_sink_gets_the_metrics_the_first_one_first(remembering: Sink) -> None:
    """In the order in which they were given, each the same floats; closing ends with the first."""
    seen: list[Any] = []
    with FanOut(*(remembering(name, seen) for name in "abc")) as sinks:
        sinks.write(3, {"x": 1})
    assert seen == [
        ("a", 3, {"x": 1.0}),
        ("b", 3, {"x": 1.0}),
        ("c", 3, {"x": 1.0}),
        ("b", "closed"),
        ("c", "closed"),
        ("a", "closed"),
    ]


def test_a_failing_sink_is_heard_after_all_are_written(remembering: Sink, tmp_path: Path) -> None:
    """The JSON lines are complete, the sinks behind the failing one have theirs, and the error names sink and step."""
    seen: list[Any] = []
    log = MetricsLog(tmp_path / "m.jsonl")
    sinks = FanOut(log, remembering("b", seen, OSError("quota")), remembering("c", seen))
    with pytest.raises(
        RewardUnavailableError, match=r"^the metric sink Remembering failed at step 3: OSError: quota$"
    ) as caught:
        sinks.write(3, {"x": 1.0})
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.cause_type == "OSError"
    assert [each[0] for each in seen] == ["b", "c"]
    assert [line.metrics for line in metric_lines(tmp_path / "m.jsonl")] == [{"x": 1.0}]
    log.close()


def test_several_failures_are_all_named(remembering: Sink) -> None:
    """One error lists them, in the order of the sinks, and pickles."""
    seen: list[Any] = []
    errors = [OSError("quota"), ValueError("name"), RewardContractError("too wide")]
    sinks = FanOut(remembering("a", seen), *(remembering(str(at), seen, error) for at, error in enumerate(errors)))
    with pytest.raises(RewardUnavailableError, match="3 metric sinks failed") as caught:
        sinks.write(3, {"x": 1.0})
    assert str(pickle.loads(pickle.dumps(caught.value))).splitlines() == [  # noqa: S301  # our own bytes
        "3 metric sinks failed:",
        "  the metric sink Remembering failed at step 3: OSError: quota",
        "  the metric sink Remembering failed at step 3: ValueError: name",
        "  too wide",
    ]
    assert [each[0] for each in seen] == ["a", "0", "1", "2"]


def test_an_error_of_the_tree_stays_what_it_is(remembering: Sink) -> None:
    """A sink that says what kind of failure it is, is believed."""
    sinks = FanOut(remembering("a", []), remembering("b", [], RewardConfigError("no such project")))
    with pytest.raises(RewardConfigError, match=r"^no such project$"):
        sinks.write(3, {"x": 1.0})


def test_the_first_sink_failing_ends_it(remembering: Sink) -> None:
    """When the run's own file can't be written, no other sink gets what it lacks."""
    seen: list[Any] = []
    sinks = FanOut(remembering("a", seen, RewardConfigError("disk full")), remembering("b", seen))
    with pytest.raises(RewardConfigError, match=r"^disk full$"):
        sinks.write(3, {"x": 1.0})
    assert [each[0] for each in seen] == ["a"]


def test_what_is_no_metric_reaches_no_sink(remembering: Sink) -> None:
    """A NaN, or a step that is none, is refused before anything is written anywhere."""
    seen: list[Any] = []
    sinks = FanOut(remembering("a", seen), remembering("b", seen))
    with pytest.raises(RewardContractError, match="'x': expected a finite number"):
        sinks.write(3, {"x": math.inf})
    with pytest.raises(RewardContractError, match="step: expected an int"):
        sinks.write(-3, {"x": 1.0})
    assert seen == []


def test_an_interrupt_passes_untouched(remembering: Sink) -> None:
    """Ctrl-C within a sink is no failure of that sink."""
    sinks = FanOut(remembering("a", []), remembering("b", [], KeyboardInterrupt("now")))
    with pytest.raises(KeyboardInterrupt, match="now"):
        sinks.write(3, {"x": 1.0})


def test_every_sink_is_closed_whatever_the_others_do(remembering: Sink) -> None:
    """A sink that can't be closed is named, and the rest, the first included, are closed all the same."""
    seen: list[Any] = []
    sinks = FanOut(remembering("a", seen), remembering("b", seen, OSError("net")), remembering("c", seen))
    with pytest.raises(RewardUnavailableError, match=r"Remembering failed when it was closed: OSError: net"):
        sinks.close()
    assert [each[0] for each in seen] == ["b", "c", "a"]
