# SPDX-License-Identifier: Apache-2.0
"""A dump is recognised by its beginning, and only where that leaves no doubt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rollouts.importers import detected_peer


@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("trl-text/completions_00001.parquet", "trl"),
        ("trl-messages/completions_00001.parquet", "trl"),
        ("verl/1.jsonl", "verl"),
        ("verifiers/results.jsonl", "verifiers"),
        ("inspect/sums.eval", "inspect"),
        ("inspect/sums.json", "inspect"),
    ],
)
def test_each_tool_s_own_file_is_recognised(data: Path, name: str, peer: str) -> None:
    """The files that the tools wrote themselves are seen for what they are."""
    assert detected_peer(data / name) == peer


@pytest.mark.parametrize(
    "row",
    [
        {"group_id": "a", "completion": "x"},
        {"input": "q", "output": "a", "score": 1.0, "step": 1},
        {"input": "q", "output": "a", "gts": "a", "score": 1.0, "step": 1, "group_id": "g"},
        {"example_id": 0, "prompt": "q", "completion": "a", "reward": 1.0},
        {"version": 2, "status": "success"},
    ],
)
def test_what_could_be_something_else_is_jsonl(lines: Callable[..., Path], row: dict[str, Any]) -> None:
    """Rows that lack one of a dump's marks, or have ids of ours, are rows of ours."""
    assert detected_peer(lines([row])) is None


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b"[1]", b"\xff\xfe", b"PK\x03\x04", b"[" * 100_000])
def test_what_is_no_row_is_left_to_the_reader(tmp_path: Path, content: bytes) -> None:
    """A file that begins with no row at all is for the reader of JSONL to refuse."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    assert detected_peer(path) is None


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """A file that is not there is an error of the set-up."""
    with pytest.raises(RewardConfigError, match=r"can't read .*none\.jsonl: No such file"):
        detected_peer(tmp_path / "none.jsonl")
