# SPDX-License-Identifier: Apache-2.0
"""What counts as a metric and as a step, in every sink."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.runs.sinks import FanOut, MetricSink, MetricsLog
from posttrain.runs.sinks.sink import LAST_STEP, check_step, checked_metrics
from strategies import NO_SCORES, finite_floats, scores


@given(st.dictionaries(st.text("ab/_.@-1", min_size=1).filter(lambda it: it not in {"step", "time"}), scores))
def test_finite_numbers_become_floats(metrics: dict[str, Any]) -> None:
    """Python and numpy numbers come out as the Python floats that `float` makes of them."""
    checked = checked_metrics(metrics)
    assert list(checked) == list(metrics)
    assert all(type(value) is float for value in checked.values())
    assert [repr(value) for value in checked.values()] == [repr(float(value)) for value in metrics.values()]


@pytest.mark.parametrize("value", NO_SCORES, ids=repr)
def test_what_is_no_finite_number_is_refused(value: Any) -> None:
    """NaN, infinity, None, bool, texts and arrays are refused under their key."""
    with pytest.raises(RewardContractError, match=r"'train/kl': expected a finite number, got"):
        checked_metrics({"good": 1.0, "train/kl": value})


def test_every_fault_is_named_at_once() -> None:
    """Each key at fault is named with its reason, those that are fine are not."""
    metrics: dict[Any, Any] = {"fine": 1, "a": math.nan, "b": True, "step": 1, "time": 2, "": 3, "x\ny": 4, 5: 6}
    with pytest.raises(RewardContractError, match="these metrics can't be recorded") as caught:
        checked_metrics(metrics)
    assert str(caught.value).splitlines() == [
        "these metrics can't be recorded:",
        "  'a': expected a finite number, got nan (float), which is not finite as a float",
        "  'b': expected a finite number, got True (bool): write float(ok)",
        "  'step' is reserved: a line has it already",
        "  'time' is reserved: a line has it already",
        "  '' (str): expected a name of printable characters",
        "  'x\\ny' (str): expected a name of printable characters",
        "  5 (int): expected a name of printable characters",
        "Leave out what has no value at this step.",
    ]


@pytest.mark.parametrize("step", [-1, LAST_STEP + 1, True, 1.0, "1", None, np.int64(3)], ids=repr)
def test_a_step_is_an_int_that_a_file_name_holds(step: Any) -> None:
    """Negative steps, steps of more than eight digits, and what is no plain int are refused."""
    with pytest.raises(
        RewardContractError, match=r"step: expected an int from 0 to 99,999,999, got " + re.escape(repr(step))
    ):
        check_step(step)
    assert [check_step(0), check_step(LAST_STEP)] == [0, 99_999_999]


@given(value=finite_floats)
def test_every_finite_float_comes_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, value: float) -> None:
    """JSON lines keep each finite float exactly, negative zero and the smallest ones too."""
    path = tmp_path_factory.mktemp("bits") / "metrics.jsonl"
    with MetricsLog(path) as log:
        log.write(1, {"x": value})
    assert repr(json.loads(path.read_bytes())["x"]) == repr(value)


def test_the_sinks_are_sinks(tmp_path: Path) -> None:
    """The run's log, and a fan-out of it, have the methods of the protocol."""
    with MetricsLog(tmp_path / "m.jsonl") as log:
        assert isinstance(log, MetricSink)
        assert isinstance(FanOut(log), MetricSink)
