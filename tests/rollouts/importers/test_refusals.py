# SPDX-License-Identifier: Apache-2.0
"""What can't be read from a dump is refused with file, row and field, every offender at once."""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import by_columns, consecutive
from posttrain.rollouts.importers import dump_source
from posttrain.rollouts.source import RolloutSource

Lines: TypeAlias = Callable[..., Path]


def fault_of(source: RolloutSource) -> str:
    """The error that reading the whole file ends in."""
    with pytest.raises(RewardContractError, match=source.path.name) as caught:
        list(source.groups())
    return str(caught.value)


def verl_row(**more: Any) -> dict[str, Any]:
    """A row of verl's dump."""
    return {"input": "q", "output": "a", "gts": "a", "score": 1.0, "step": 1, **more}


def verifiers_row(**more: Any) -> dict[str, Any]:
    """A row of verifiers' results."""
    return {"example_id": 0, "prompt": "q", "completion": "a", "answer": "a", "reward": 1.0, "error": None, **more}


def assistant(content: Any, **more: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {"role": "assistant", "content": content, **more}


def test_a_table_of_trl_needs_a_grouping(tmp_path: Path) -> None:
    """A table has no group ids: the error says so and names both ways out."""
    with pytest.raises(RewardConfigError, match=r"no group ids: say --group-by consecutive:N.*--group-by step,prompt"):
        dump_source(tmp_path / "completions_00001.parquet", "trl")


def test_columns_that_a_table_lacks_are_named(data: Path) -> None:
    """The columns that the table has stand beside those that it lacks."""
    table = data / "trl-text" / "completions_00001.parquet"
    source = dump_source(table, "trl", grouping=by_columns(("step", "uid")), needs=("reference",))
    with pytest.raises(
        RewardContractError, match=r"no column 'reference': the row has 'step', 'prompt'.*no column 'uid'"
    ):
        list(source.groups())


def test_a_file_that_is_no_parquet(lines: Lines) -> None:
    """Anything else under that name is refused before a row is read."""
    path = lines([verl_row()], "completions_00001.parquet")
    with pytest.raises(RewardConfigError, match="can't be read as a Parquet table"):
        list(dump_source(path, "trl", grouping=consecutive(2)).groups())


def test_a_missing_pyarrow_is_one_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow, the error says what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    source = dump_source(data / "trl-text" / "completions_00001.parquet", "trl", grouping=consecutive(4))
    with pytest.raises(RewardConfigError, match=r"^[^\n]*needs pyarrow: pip install 'posttrain\[report\]'$"):
        list(source.groups())


def written_table(path: Path, rows: list[Mapping[str, Any]]) -> Path:
    """A Parquet table."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows), path)
    return path


def test_completions_of_several_messages_in_a_table(tmp_path: Path) -> None:
    """Only the rows whose text is in doubt are refused; asked for the last message, they are read."""
    rows: list[Mapping[str, Any]] = [
        {"step": 1, "prompt": "q", "completion": [assistant("one")]},
        {"step": 1, "prompt": "q", "completion": [assistant("a"), {"role": "tool", "content": "b"}, assistant("c")]},
        {"step": 1, "prompt": "r", "completion": [assistant("d"), {"role": "user", "content": "e"}]},
        {"step": 1, "prompt": "r", "completion": [assistant("f")]},
    ]
    path = written_table(tmp_path / "table.parquet", rows)
    text = fault_of(dump_source(path, "trl", grouping=consecutive(2)))
    assert "2 faults" in text
    assert "row 2: field 'completion': 3 messages (assistant, tool, assistant)" in text
    assert "row 3: field 'completion': 2 messages (assistant, user)" in text
    text = fault_of(dump_source(path, "trl", grouping=consecutive(2), render="last"))
    assert "1 fault" in text
    assert "row 3: field 'completion'[1]: expected a message of the assistant, got one of role 'user'" in text


def test_a_run_of_rows_with_different_prompts_is_no_group(data: Path) -> None:
    """A wrong number of generations is seen by the prompts."""
    source = dump_source(data / "trl-text" / "completions_00001.parquet", "trl", grouping=consecutive(8))
    assert "row 5: its 'prompt' is not that of row 1" in fault_of(source)


def test_every_row_of_verl_that_lacks_a_field_is_named(lines: Lines) -> None:
    """Rows are numbered as in the file, although they are read group by group."""
    bare = {"input": "q", "score": 1.0, "step": 1}
    path = lines([verl_row(), verl_row(input="r"), bare, verl_row(input="r"), b"{", verl_row(output=7)])
    text = fault_of(dump_source(path, "verl", needs=("reference",)))
    assert "3 faults" in text
    assert "row 3: no column 'output': the row has 'input', 'score', 'step'" in text
    assert "no column 'gts'" in text
    assert "row 5: is no complete JSON" in text
    assert "row 6: column 'output': expected a text or null, got 7 (int)" in text


def test_a_field_twice_in_a_row_is_refused(lines: Lines) -> None:
    """A field that is read and stands twice leaves open which counts."""
    path = lines([verl_row(), b'{"input": "q", "output": "a", "output": "b", "step": 1}'])
    assert "row 2: has the key 'output' more than once" in fault_of(dump_source(path, "verl"))


def test_a_text_that_is_no_utf8_is_the_fault_of_its_row(lines: Lines) -> None:
    """A broken text ends in an error with its row, not in one of the decoder's."""
    path = lines([verl_row(), b'{"input": "q", "output": "\xff", "step": 1}'])
    assert "row 2: is not UTF-8 at byte 26" in fault_of(dump_source(path, "verl"))
    path = lines([verifiers_row(), b'{"example_id": 0, "prompt": "q", "completion": "\xff"}'], "results.jsonl")
    assert "row 2: is not UTF-8 at byte 48" in fault_of(dump_source(path, "verifiers"))


def test_nan_does_harm_only_where_it_is_read(lines: Lines) -> None:
    """A metric of NaN, as Python's own writer saves it, is passed over; in a field that is read, it is a fault."""
    nan = float("nan")
    (group,) = dump_source(lines([verl_row(acc=nan), verl_row(acc=-nan, score=nan)]), "verl").groups()
    assert [each.completion for each in group.trajectories] == ["a", "a"]
    text = fault_of(dump_source(lines([verl_row(), verl_row(gts=nan), b'{"step": NaN']), "verl"))
    assert "2 faults" in text
    assert "row 2: field 'gts' can't be read: " in text
    assert "row 3: is no valid JSON" in text


def test_a_failed_rollout_of_verifiers_is_not_scored(lines: Lines) -> None:
    """A failure, which the tool saves with reward 0.0, is an error, and the row and its cause are named."""
    failed = verifiers_row(completion=None, reward=0.0, error={"error": "ModelError"})
    text = fault_of(dump_source(lines([verifiers_row(), failed]), "verifiers"))
    assert "row 2: field 'error': the rollout failed" in text
    assert "ModelError" in text


@pytest.mark.parametrize(
    ("completion", "fault"),
    [
        ([], "expected a completion, got a list without messages"),
        (7, "expected a text or a list of messages, got 7"),
        ([assistant([{"type": "text", "text": "a"}])], "[0]: expected a content that is a text"),
        ([assistant("a", tool_calls=[{"name": "f"}])], "[0]: it calls tools"),
        ([{"role": "user", "content": "a"}], "[0]: expected a message of the assistant"),
    ],
)
def test_a_completion_whose_text_is_in_doubt(lines: Lines, completion: Any, fault: str) -> None:
    """Whatever is not sure to be the completion is refused by field and reason."""
    text = fault_of(dump_source(lines([verifiers_row(completion=completion)]), "verifiers"))
    assert "row 1: field 'completion'" in text
    assert fault in text


def test_the_last_message_may_call_tools(lines: Lines) -> None:
    """Asked for the last message, its content is taken alone."""
    path = lines([verifiers_row(completion=[assistant("a"), assistant("b", tool_calls=[{"name": "f"}])])])
    (group,) = dump_source(path, "verifiers", render="last").groups()
    assert [each.completion for each in group.trajectories] == ["b"]


def test_a_compressed_dump_is_read_in_its_own_order(tmp_path: Path, data: Path) -> None:
    """Rows of a compressed file are not gathered: the error says that they have to stand together."""
    gzip: Any = importlib.import_module("gzip")
    for name in ("1", "2"):
        packed = tmp_path / f"{name}.jsonl.gz"
        packed.write_bytes(gzip.compress((data / "verl" / f"{name}.jsonl").read_bytes()))
    assert [len(group.trajectories) for group in dump_source(tmp_path / "1.jsonl.gz", "verl").groups()] == [4, 4, 4]
    assert "the rows of a group stand together" in fault_of(dump_source(tmp_path / "2.jsonl.gz", "verl"))


def test_what_is_asked_for_has_to_exist(tmp_path: Path) -> None:
    """An unknown tool and an unknown render are refused with those that there are."""
    with pytest.raises(RewardConfigError, match="--from openrlhf: expected one of trl, verl, verifiers, inspect"):
        dump_source(tmp_path / "x", "openrlhf")
    with pytest.raises(RewardConfigError, match="--render: expected one of last, got 'first'"):
        dump_source(tmp_path / "x", "verl", render="first")


def test_only_named_columns_are_read(lines: Lines) -> None:
    """A field that the dump happens to have means nothing until a column is named after it."""
    path = lines([verl_row(finish_reason="length", group_id="x", trajectory_id="t", completion_token_count=-1)])
    (group,) = dump_source(path, "verl").groups()
    assert (group.group_id, group.trajectories[0].policy_info) == ("group-0", {})
    path = lines([verl_row(why="length")], "named.jsonl")
    (group,) = dump_source(path, "verl", columns=RolloutColumns(finish_reason="why")).groups()
    assert group.trajectories[0].policy_info == {"finish_reason": "length"}
