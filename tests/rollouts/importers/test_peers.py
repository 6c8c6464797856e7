# SPDX-License-Identifier: Apache-2.0
"""What is read from the dump that each tool wrote itself."""

from pathlib import Path
from typing import Any

import pytest

from posttrain.rollouts.columns import RolloutColumns
from posttrain.rollouts.grouping import by_columns, consecutive
from posttrain.rollouts.importers import dump_source
from posttrain.rollouts.source import RolloutSource

# The last of the four completions of each question is the empty text where the tool lets one be generated.
SUMS = {"1+1=": "2", "2+3=": "5", "9-2=": "7"}


def completions(right: str, last: str) -> list[str]:
    """The four completions that every writer gives to a question, in the order of its rounds."""
    return [right, f" {right}\n", f"{right}0", last]


def read(source: RolloutSource) -> list[tuple[str, Any, Any, list[str | None]]]:
    """Id, prompt, reference and completions of each group."""
    return [
        (
            group.group_id,
            group.trajectories[0].obs.prompt,
            group.trajectories[0].obs.reference,
            [each.completion for each in group.trajectories],
        )
        for group in source.groups()
    ]


@pytest.mark.parametrize("grouping", [consecutive(4), by_columns(("step", "prompt"))])
@pytest.mark.parametrize("kind", ["text", "messages"])
def test_a_completions_table_of_trl(data: Path, kind: str, grouping: Any) -> None:
    """Texts, and the content of completions that are one message; a logged column is the reference."""
    table = data / f"trl-{kind}" / "completions_00001.parquet"
    source = dump_source(table, "trl", columns=RolloutColumns(reference="answer"), grouping=grouping)
    # Step 1 drew these two of the four questions, as the table's own `prompt` says.
    expected = [("group-0", "2+3=", "5"), ("group-1", "9-2=", "7")]
    assert read(source) == [
        (group_id, prompt if kind == "text" else [{"role": "user", "content": prompt}], right, completions(right, ""))
        for group_id, prompt, right in expected
    ]
    assert all(each.policy_info == {} for group in source.groups() for each in group.trajectories)


@pytest.mark.parametrize("step", [1, 2])
def test_a_rollout_dump_of_verl(data: Path, step: int) -> None:
    """The templated prompt is the prompt; rows that balancing tore apart are one group all the same."""
    source = dump_source(data / "verl" / f"{step}.jsonl", "verl")
    assert read(source) == [
        (f"group-{at}", f"user\n{question}\nassistant\n", right, completions(right, ""))
        for at, (question, right) in enumerate(SUMS.items())
    ]


def test_rows_that_were_gathered_keep_their_numbers(data: Path) -> None:
    """A group knows the lines of the file that it was made of, however far apart they stand."""
    groups = list(dump_source(data / "verl" / "2.jsonl", "verl").groups())
    # Three questions in turn, four times: the first question has lines 1, 4, 7 and 10.
    assert [(group.first_row, group.last_row) for group in groups] == [(1, 10), (2, 11), (3, 12)]


def test_results_of_verifiers(data: Path) -> None:
    """Examples are groups under their ids, also where the rollouts of an example were saved apart."""
    source = dump_source(data / "verifiers" / "results-independent.jsonl", "verifiers")
    assert read(source) == [
        (str(at), [{"role": "user", "content": question}], right, completions(right, "none"))
        for at, (question, right) in enumerate(SUMS.items())
    ]
    first, *_ = source.groups()
    assert [each.trajectory_id for each in first.trajectories] == ["0/0", "0/1", "0/2", "0/3"]
    assert all(each.policy_info == {} for each in first.trajectories)


def test_results_of_verifiers_scored_by_group(data: Path) -> None:
    """The file of the default way of scoring holds the same groups, each in the order in which its rollouts ended."""
    source = dump_source(data / "verifiers" / "results.jsonl", "verifiers")
    assert [(group_id, prompt, right, sorted(map(str, texts))) for group_id, prompt, right, texts in read(source)] == [
        (str(at), [{"role": "user", "content": question}], right, sorted(completions(right, "none")))
        for at, (question, right) in enumerate(SUMS.items())
    ]


@pytest.mark.parametrize("kind", ["eval", "json"])
def test_a_log_of_inspect_ai(data: Path, kind: str) -> None:
    """Samples are groups, epochs candidates in their order, and a verdict is none that the engine did not give."""
    source = dump_source(data / "inspect" / f"sums.{kind}", "inspect")
    assert read(source) == [
        (f"q{at}", question, right, completions(right, "none")) for at, (question, right) in enumerate(SUMS.items(), 1)
    ]
    first, *_ = source.groups()
    assert [each.trajectory_id for each in first.trajectories] == ["q1/1", "q1/2", "q1/3", "q1/4"]
    # The writer's four stop reasons are stop, stop, max_tokens and content_filter.
    assert [each.policy_info["finish_reason"] for each in first.trajectories] == [
        "stop",
        "stop",
        None,
        "content_filter",
    ]


DUMPS = [
    ("trl-text/completions_00001.parquet", "trl"),
    ("verl/1.jsonl", "verl"),
    ("verl/2.jsonl", "verl"),
    ("verifiers/results-independent.jsonl", "verifiers"),
    ("inspect/sums.eval", "inspect"),
    ("inspect/sums.json", "inspect"),
]


@pytest.mark.parametrize(("name", "peer"), DUMPS)
def test_reading_goes_on_behind_any_group(data: Path, name: str, peer: str) -> None:
    """From the place behind each group, a later pass gives exactly the groups that follow it."""
    source = dump_source(data / name, peer, grouping=consecutive(4) if peer == "trl" else None)
    groups = list(source.groups())
    assert len(groups) > 1
    for at, group in enumerate(groups, 1):
        assert list(source.groups(group.end)) == groups[at:]


@pytest.mark.parametrize(("name", "peer"), DUMPS)
def test_progress_ends_at_the_size_of_the_file(data: Path, name: str, peer: str) -> None:
    """Progress grows to the whole file and not beyond."""
    source = dump_source(data / name, peer, grouping=consecutive(4) if peer == "trl" else None)
    seen = [group.progress for group in source.groups()]
    assert seen == sorted(seen)
    assert seen[-1] == (data / name).stat().st_size


@pytest.mark.parametrize(("name", "peer"), DUMPS)
def test_a_dump_holds_no_path_of_a_machine(data: Path, name: str, peer: str) -> None:
    """What is kept in the repository says nothing about where it was written."""
    source = dump_source(data / name, peer, grouping=consecutive(4) if peer == "trl" else None)
    assert source.path.read_bytes().count(b"/home/") == 0
    assert source.path.read_bytes().count(b"site-packages") == 0
