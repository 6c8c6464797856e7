# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/runs.md run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs.directory import RecordedRun, RunDirectory
from posttrain.runs.sinks import TensorBoardSink

MY_REWARDS = """
from functools import partial
from posttrain.rewards import RewardProviderResult, RewardProviderSpec, map_candidates

def score(candidate, context):
    return RewardProviderResult({"rubric": float(candidate.completion[-1])})

def catalog():
    factory = partial(map_candidates, score)
    return {"rubric": RewardProviderSpec(factory=factory, revision="3", terms=("rubric",))}
"""


def test_the_examples_of_the_page(
    repository: Path,
    tmp_path: Path,
    scored: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Begun, recorded, gone on with, read and sent to TensorBoard, in the order of the page."""
    pytest.importorskip("tensorboard")
    (tmp_path / "my_rewards.py").write_text(MY_REWARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (repository / "docs" / "runs.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    begun, gone_on_with, read, sent = (compile(block, "docs/runs.md", "exec") for block in blocks)
    batch = scored({"g1": [1.0] * 8}, size=8)
    names: dict[str, Any] = {"text": "rl.group_size = 8\n", "trajectories": batch.trajectories, "step": 2}
    exec(begun, names)  # noqa: S102  # the page's own example
    exec(gone_on_with, names)  # noqa: S102  # the page's own example
    assert names["step"] == 1
    exec(read, names)  # noqa: S102  # the page's own example
    # The completions end in 0 to 7: their mean is 3.5.
    assert names["recorded"].tally().rewards["final"].mean == 3.5
    with RunDirectory.open("runs/first") as names["run"]:
        names["step"] = 2
        exec(sent, names)  # noqa: S102  # the page's own example
    assert set(RecordedRun("runs/first").metrics()) == {1, 2}
    assert issubclass(names["TensorBoardSink"], TensorBoardSink)
    assert len(list((tmp_path / "runs" / "first" / "tensorboard").iterdir())) == 1


def test_the_page_shows_the_files_that_there_are(repository: Path) -> None:
    """Its drawing names every part of the layout."""
    from posttrain.runs import records

    page = (repository / "docs" / "runs.md").read_text()
    layout = [value for name, value in vars(records).items() if name.endswith(("_FILE", "_FOLDER"))]
    assert len(layout) == 6
    assert [name for name in layout if f"      {name}" not in page] == []
