# SPDX-License-Identifier: Apache-2.0
"""Where a tool is installed, what it writes today is still read as what it wrote then."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import consecutive
from posttrain.rollouts.importers import dump_source
from posttrain.rollouts.source import RolloutSource

WRITERS = [
    ("trl", "trl_table.py", "trl-text/completions_00001.parquet", "trl"),
    ("trl", "trl_table.py", "trl-messages/completions_00001.parquet", "trl"),
    ("verl", "verl_dump.py", "verl/2.jsonl", "verl"),
    ("verifiers", "verifiers_results.py", "verifiers/results-independent.jsonl", "verifiers"),
    ("inspect_ai", "inspect_log.py", "inspect/sums.eval", "inspect"),
    ("inspect_ai", "inspect_log.py", "inspect/sums.json", "inspect"),
]


def source_of(path: Path, peer: str) -> RolloutSource:
    """The dump as rollouts."""
    if peer == "trl":
        return dump_source(path, peer, columns=RolloutColumns(reference="answer"), grouping=consecutive(4))
    return dump_source(path, peer)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "script", "name", "peer"), WRITERS)
def test_a_tool_still_writes_what_is_read(
    data: Path, tmp_path: Path, module: str, script: str, name: str, peer: str
) -> None:
    """The writer's script gives, with the installed version, a file with the same groups."""
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        pytest.skip(f"{module} is not installed")
    extra = [str(Path(found.origin).parent / "trainer" / "ppo" / "ray_trainer.py")] if peer == "verl" else []
    writer = data.parent / "writers" / script
    done = subprocess.run(
        [sys.executable, writer, tmp_path, *extra],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    now, then = source_of(tmp_path / name, peer), source_of(data / name, peer)
    assert [group.trajectories for group in now.groups()] == [group.trajectories for group in then.groups()]
