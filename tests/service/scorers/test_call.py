# SPDX-License-Identifier: Apache-2.0
"""What a scorer's function is given, and what it may return."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posttrain.errors import RewardConfigError
from posttrain.service.scorers.call import ScoreCall, load_function, score_file


@pytest.fixture
def two(tmp_path: Path) -> ScoreCall:
    """Two images of one pixel, 3 and 200."""
    path = tmp_path / "two.npy"
    np.save(path, np.array([3, 200], np.uint8).repeat(3).reshape(2, 1, 1, 3))
    return ScoreCall(path=str(path), reward="mine", prompts=("a", "b"))


def test_each_sample_is_scored_with_its_own_info(two: ScoreCall) -> None:
    """The function sees one sample at a time, read-only, and what belongs to it; the order is that of the batch."""
    seen: list[Mapping[str, Any]] = []

    def function(array: Any, info: Mapping[str, Any]) -> float:
        assert (array.shape, array.dtype, array.flags.writeable) == ((1, 1, 3), np.uint8, False)
        seen.append(info)
        return float(array[0, 0, 0])

    reply = score_file(function, two)
    assert reply.scores == {"mine": [3.0, 200.0]}
    assert (reply.low, reply.high, reply.error) == (3, 200, None)
    assert seen == [
        {"prompt": "a", "video_fps": None, "index": 0, "samples": 2},
        {"prompt": "b", "video_fps": None, "index": 1, "samples": 2},
    ]


@pytest.mark.parametrize(
    ("value", "scores"),
    [
        (1, {"mine": [1.0, 1.0]}),
        (np.float32(0.5), {"mine": [0.5, 0.5]}),
        (np.array(2), {"mine": [2.0, 2.0]}),
        ({"a": 1, "b": np.float64(2.5)}, {"a": [1.0, 1.0], "b": [2.5, 2.5]}),
    ],
)
def test_numbers_and_series_of_numbers_are_scores(two: ScoreCall, value: Any, scores: dict[str, list[float]]) -> None:
    """A number is the series of the scorer's name; numpy's scalars are numbers; a dict names its series."""
    assert score_file(lambda *_: value, two).scores == scores


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "series 'mine' of sample 0: expected a number, got None"),
        (float("nan"), "expected a finite number, got nan"),
        (float("-inf"), "expected a finite number, got -inf"),
        (np.float32("nan"), "expected a finite number, got nan"),
        (True, "expected a number, got True"),
        (np.bool_(False), "expected a number, got False"),
        ("0.5", "expected a number, got '0.5'"),
        ([0.5], "expected a number, got"),
        (np.array([0.5]), "expected a number, got"),
        (1j, "expected a number, got"),
        (10**400, "is too large for a float"),
        ({}, "it returned no series for sample 0"),
        ({"a": 1.0, "b": None}, "series 'b' of sample 0: expected a number, got None"),
        ({1: 0.5}, "it returned a series that is named 1 (int)"),
        ({"": 0.5}, "it returned a series that is named"),
        ({"\ud800": 0.5}, "it returned a series that is named '\\ud800'"),
    ],
)
def test_everything_else_is_an_error(two: ScoreCall, value: Any, error: str) -> None:
    """What is no finite number fails the whole batch, and says which series and which sample."""
    reply = score_file(lambda *_: value, two)
    assert reply.scores is None
    assert error in str(reply.error)


def test_one_bad_sample_fails_the_batch(two: ScoreCall) -> None:
    """There are scores for every sample or for none; an exception is quoted with its sample."""

    def function(_: Any, info: Mapping[str, Any]) -> float:
        return 1.0 / (1 - int(info["index"]))

    reply = score_file(function, two)
    assert (reply.scores, reply.error) == (None, "it raised ZeroDivisionError: float division by zero (sample 1)")


def test_an_error_can_be_sent_and_is_short(two: ScoreCall) -> None:
    """What UTF-8 can't carry comes out escaped; a text without end is cut."""

    def function(*_: Any) -> float:
        raise ValueError("\ud800" + "x" * 100_000)

    error = str(score_file(function, two).error)
    assert error.startswith("it raised ValueError: \\ud800xxx")
    assert error.encode().endswith(b"xxx...")
    assert len(error) < 5000


def test_a_number_that_can_not_be_had_is_an_error(two: ScoreCall) -> None:
    """A tensor whose value can't be read, such as one without data, fails the batch as an exception of the function."""

    class Empty:
        ndim = 0

        def item(self) -> float:
            raise RuntimeError("it has no data")

    reply = score_file(lambda *_: Empty(), two)
    assert (reply.scores, reply.error) == (None, "it raised RuntimeError: it has no data (sample 0)")


def test_samples_have_the_same_series(two: ScoreCall) -> None:
    """A series that only some samples have could not be told apart by place, so it is an error."""
    reply = score_file(lambda _, info: {f"s{info['index']}": 1.0}, two)
    assert reply.error == "it returned the series ['s1'] for sample 1, ['s0'] for those before"


def test_a_function_is_found_by_its_path() -> None:
    """Attributes may be nested."""
    assert load_function("os.path:join")("a", "b") == "a/b"  # type: ignore[arg-type]  # not a scorer
    assert load_function("pathlib:Path.cwd").__name__ == "cwd"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no_such_module:f", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("math:no_such", "AttributeError: module 'math' has no attribute 'no_such'"),
        ("math:pi", "expected a function .*, got 3.14159"),
    ],
)
def test_a_function_that_is_not_there_is_named(path: str, error: str) -> None:
    """The path and what is wrong with it are in the error."""
    with pytest.raises(RewardConfigError, match=f"scorer '{path}': {error}"):
        load_function(path)
