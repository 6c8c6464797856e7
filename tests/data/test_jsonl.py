# SPDX-License-Identifier: Apache-2.0
"""The local JSONL loader: random access to the mapped columns, and everything that is wrong at once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from posttrain.data.columns import ColumnMapping
from posttrain.data.jsonl import JsonlRows
from posttrain.errors import RewardConfigError, RewardContractError

WriteRows: TypeAlias = Callable[..., Path]

FORMATS = ("rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst")
MESSAGES = ColumnMapping(prompt_column="messages", response_column="reward_input", row_id_column="source_id")


@pytest.mark.parametrize("name", FORMATS)
def test_only_the_mapped_columns_are_kept(write: WriteRows, name: str) -> None:
    """A row is read under the canonical names, without its other columns, from every format."""
    path = write(
        {"messages": [{"role": "user", "content": "Hi"}], "reward_input": {"n": 3}, "source_id": "a", "junk": 1},
        {"junk": 2, "source_id": 7, "messages": "text", "reward_input": 1.0},
        name=name,
    )
    rows = JsonlRows(path, MESSAGES)
    first, second = rows.take([0, 1])
    assert (first.prompt, first.reference, first.row_id) == ([{"role": "user", "content": "Hi"}], {"n": 3}, "a")
    assert (second.prompt, second.reference, second.row_id) == ("text", 1.0, 7)
    assert first.representations == second.representations == {}
    assert len(rows) == 2
    assert rows.title == name
    assert rows.column_names == ["messages", "reward_input", "source_id", "junk"]


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_read_in_any_order(write: WriteRows, name: str) -> None:
    """Any row can be taken, again and again, and each time anew."""
    rows = JsonlRows(write(*({"prompt": [at]} for at in range(50)), name=name))
    assert [row.prompt for row in rows.take([49, 0, 7, 7])] == [[49], [0], [7], [7]]
    first, again = rows.take([3, 3])
    first.prompt.append("changed")
    assert again.prompt == [3]
    assert rows.take([]) == []
    for index in (-1, 50):
        with pytest.raises(IndexError, match=r"has the rows 0 to 49, got \[" + str(index)):
            rows.take([index])


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_match_an_editor(write: WriteRows, name: str) -> None:
    """A byte order mark, CRLF ends, blank lines and a last row without an end change no row and no number."""
    content = b'\xef\xbb\xbf{"prompt": 1}\r\n\n  \n{"prompt": 2}\n\n{"prompt": 3}'
    rows = JsonlRows(write(content, name=name, end=b""))
    assert [row.prompt for row in rows.take([0, 1, 2])] == [1, 2, 3]
    assert [rows.place(at) for at in range(3)] == ["row 1", "row 4", "row 6"]


def test_a_file_may_begin_with_blank_lines(write: WriteRows) -> None:
    """Blank lines before the first row, and one that holds the byte order mark alone, are no rows."""
    rows = JsonlRows(write(b'\xef\xbb\xbf\n\n{"prompt": 1}'))
    assert [row.prompt for row in rows.take([0])] == [1]
    assert rows.place(0) == "row 3"


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from("pqr"), st.text(max_size=5)), st.integers(0, 2)), max_size=8))
def test_any_file_is_read_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[dict[str, str], int]]
) -> None:
    """Every row of any file comes, with the number of its line, whatever blank lines stand between."""
    texts: list[str] = []
    places = []
    for row, blanks in [({"p": "", "q": ""}, 0), *lines]:
        texts += [""] * blanks
        places.append(f"row {len(texts) + 1}")
        texts.append(json.dumps(row))
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text("\n".join(texts))
    rows = JsonlRows(path, ColumnMapping(prompt_column="p", response_column="q"))
    taken = rows.take(range(len(rows)))
    expected = [({"p": "", "q": ""}), *(row for row, _ in lines)]
    assert [(row.prompt, row.reference) for row in taken] == [
        (row.get("p", UNSET), row.get("q", UNSET)) for row in expected
    ]
    assert [rows.place(at) for at in range(len(rows))] == places


def test_all_faults_come_at_once(write: WriteRows) -> None:
    """One error names every row that is at fault by its number, and no other row."""
    path = write(
        {"prompt": 1, "id": "a"},
        '{"prompt": NaN}',
        b"",
        '{"prompt": 2, "prompt": 3, "id": "b"}',
        {"prompt": 4, "id": ""},
        {"prompt": 5},
        {"prompt": 6, "id": "a"},
        {"prompt": 7, "id": True},
        {"prompt": 8, "id": "c"},
    )
    with pytest.raises(RewardContractError, match=r"rows\.jsonl: 6 faults in the rows:") as caught:
        JsonlRows(path, ColumnMapping(row_id_column="id"))
    lines = str(caught.value).splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == [f"  row {number}" for number in (2, 4, 5, 6, 7, 8)]
    assert "no NaN" in lines[0]
    assert "the key 'prompt' more than once" in lines[1]
    assert "'id': expected a row's id, a text that is not empty or an int, got '' (str)" in lines[2]
    assert "has no column 'id', in which each row has an id of its own" in lines[3]
    assert "'id': row 1 has the id 'a' already; each row has its own" in lines[4]
    assert "got True (bool)" in lines[5]


def test_only_json_space_is_blank(write: WriteRows) -> None:
    """A form feed is no space to JSON, so a line that holds one is no blank line."""
    with pytest.raises(RewardContractError, match="row 2: is no valid JSON: invalid character at byte 0"):
        JsonlRows(write({"prompt": 1}, "\f", {"prompt": 2}))


def test_many_faults_are_counted(write: WriteRows) -> None:
    """The first twenty are named and the others counted, so that a file of rubbish gives no endless error."""
    with pytest.raises(RewardContractError, match=r"rows\.jsonl: 100 faults in the rows:") as caught:
        JsonlRows(write(*["no json"] * 100))
    lines = str(caught.value).splitlines()
    assert lines[20].startswith("  row 20: ")
    assert lines[21:] == ["  ... and 80 more"]


@pytest.mark.parametrize("name", FORMATS)
def test_ids_are_unique(write: WriteRows, name: str) -> None:
    """Each row that repeats an id is named with the row that has it; an int and its text are one id."""
    path = write(*({"prompt": 0, "id": value} for value in ["a", 7, "b", "7", "a", "a"]), name=name)
    with pytest.raises(RewardContractError, match="3 faults in the rows") as caught:
        JsonlRows(path, ColumnMapping(row_id_column="id"))
    assert str(caught.value).splitlines()[1:] == [
        "  row 4: 'id': row 2 has the id '7' already; each row has its own",
        "  row 5: 'id': row 1 has the id 'a' already; each row has its own",
        "  row 6: 'id': row 1 has the id 'a' already; each row has its own",
    ]


def test_a_column_in_no_row_is_a_wrong_name(write: WriteRows) -> None:
    """A name that no row has is a mistake in the config, told with the columns that there are and the nearest."""
    path = write({"messages": 1, "answer": 2}, {"messages": 3, "answer": 4})
    columns = ColumnMapping(prompt_column="mesages", response_column="answers", row_id_column="zz")
    with pytest.raises(RewardConfigError, match=r"rows\.jsonl lacks a column that was asked for") as caught:
        JsonlRows(path, columns)
    there = "there is 'messages', 'answer'"
    assert str(caught.value).splitlines()[1:] == [
        f"  no column 'mesages' for the prompt: {there}; did you mean 'messages'? set rl.data.prompt_column",
        f"  no column 'answers' for the reference: {there}; did you mean 'answer'? set rl.data.response_column",
        f"  no column 'zz' for the row_id: {there}; set rl.data.row_id_column",
    ]


def test_a_wrong_name_hides_no_fault_of_a_row(write: WriteRows) -> None:
    """Where a name is wrong, rows that can't be read at all are told in the same error."""
    with pytest.raises(RewardConfigError, match=r"'prompt'(.|\n)*rows\.jsonl: 1 fault in the rows:\n  row 2: "):
        JsonlRows(write({"promt": 1}, "no json"))


def test_gaps_are_found(write: WriteRows) -> None:
    """The rows without a prompt or a reference, missing or null, are known after opening."""
    rows = JsonlRows(write({"prompt": 1, "reference": None}, {"prompt": None, "reference": 0}, {"prompt": False}))
    assert (rows.gaps["prompt"].first, rows.gaps["prompt"].total) == ([1], 1)
    assert (rows.gaps["reference"].first, rows.gaps["reference"].total) == ([0, 2], 2)


def test_many_gaps_are_counted(write: WriteRows) -> None:
    """Of many rows with a gap the first twenty are known by place."""
    rows = JsonlRows(write(*({"prompt": 1} for _ in range(30))))
    assert (rows.gaps["reference"].first, rows.gaps["reference"].total) == (list(range(20)), 30)


def test_column_names_are_those_of_the_rows(write: WriteRows) -> None:
    """A mapped column that the first row happens to lack is known; others are those of the first row."""
    rows = JsonlRows(write({"a": 1, "prompt": 1}, {"prompt": 2, "reference": 3, "b": 4}))
    assert rows.column_names == ["a", "prompt", "reference"]


@pytest.mark.parametrize("content", [b"", b"\n  \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(write: WriteRows, content: bytes) -> None:
    """A file without rows can't be trained on."""
    with pytest.raises(RewardConfigError, match=r"rows\.jsonl has no rows"):
        JsonlRows(write(content, end=b""))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A missing file, and a folder in its place, are mistakes in the config."""
    with pytest.raises(RewardConfigError, match=r"can't read .*none\.jsonl: No such file"):
        JsonlRows(tmp_path / "none.jsonl")
    with pytest.raises(RewardConfigError, match=r"can't read .*: Is a directory"):
        JsonlRows(tmp_path)


@pytest.mark.parametrize("name", FORMATS)
def test_the_fingerprint_is_that_of_the_content(write: WriteRows, name: str) -> None:
    """The fingerprint is the SHA-256 of the decompressed file, so that compression does not change it."""
    rows = JsonlRows(write({"prompt": 1}, name=name))
    assert rows.fingerprint == hashlib.sha256(b'{"prompt": 1}\n').hexdigest()


def test_a_row_over_the_limit_is_a_fault(write: WriteRows) -> None:
    """A row over the limit is named and does not fill the memory; the rows around it keep their numbers."""
    with pytest.raises(RewardContractError, match="1 fault in the rows:\n  row 2: is longer than 30 bytes"):
        JsonlRows(write({"prompt": 1}, "x" * 95, {"prompt": 2}), longest=30)


@pytest.mark.parametrize("name", FORMATS[1:])
def test_a_damaged_file_is_a_fault(write: WriteRows, name: str) -> None:
    """A compressed file that is cut off is refused whole, with the row behind which it ends."""
    path = write(*({"prompt": f"{at * 7919**5:x}"} for at in range(1000)), name=name)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RewardContractError, match=r"row \d+: can't be read: the \w+ file is cut off"):
        JsonlRows(path)


def test_the_copy_of_a_compressed_file_needs_a_folder(write: WriteRows, tmp_path: Path) -> None:
    """Where the temporary copy can't be written, the config key of its folder is named."""
    path = write({"prompt": 1}, name="rows.jsonl.gz")
    with pytest.raises(RewardConfigError, match=r"can't write the temporary copy .* set rl\.data\.spool_dir"):
        JsonlRows(path, spool_dir=tmp_path / "none")
    spool = tmp_path / "spool"
    spool.mkdir()
    rows = JsonlRows(path, spool_dir=spool)
    assert rows.take([0])[0].prompt == 1
    assert list(spool.iterdir()) == []


def test_the_copy_holds_only_what_is_mapped(write: WriteRows, tmp_path: Path) -> None:
    """What is not mapped takes no disk either: a megabyte that nobody mapped is not in the copy."""
    path = write({"prompt": "p", "junk": "x" * 1_000_000}, name="rows.jsonl.gz")
    rows = JsonlRows(path)
    assert os.fstat(rows._file.fileno()).st_size == len('{"prompt":"p"}\n')


@pytest.mark.parametrize("change", ["longer", "rewritten"])
def test_a_file_that_changes_is_noticed(write: WriteRows, change: str) -> None:
    """Rows of a file that was written to are refused, since they may be other ones than those that were checked."""
    path = write({"prompt": 1}, {"prompt": 2})
    rows = JsonlRows(path)
    if change == "longer":
        with path.open("ab") as file:
            file.write(b'{"prompt": 3}\n')
    else:
        path.write_bytes(path.read_bytes().replace(b"1", b"9"))
        os.utime(path, ns=(1, 1))
    with pytest.raises(RewardContractError, match="was changed while it was in use; start again"):
        rows.take([0])


def test_a_file_that_is_replaced_stays_in_use(write: WriteRows, tmp_path: Path) -> None:
    """A new file of the same name, renamed into place, does not touch the rows of the one that was opened."""
    rows = JsonlRows(write({"prompt": "old"}))
    write({"prompt": "new"}, name="new.jsonl").replace(tmp_path / "rows.jsonl")
    assert rows.take([0])[0].prompt == "old"


def test_no_depth_is_a_crash(write: WriteRows) -> None:
    """Whatever the depth of a value, its row is read or refused with words."""
    for depth in [10, *range(150, 1100, 50)]:
        line = f'{{"prompt": 1, "deep": {"[" * depth}{"]" * depth}}}'
        path = write(line)
        try:
            rows = JsonlRows(path)
        except RewardContractError as error:
            assert "is nested too deep to be read" in str(error)  # noqa: PT017  # either of two ends is right
        else:
            assert rows.take([0])[0].prompt == 1


def test_a_file_is_closed_with_its_rows(write: WriteRows) -> None:
    """The open file goes when the rows go; nothing is left for the garbage collector to warn of."""
    rows = JsonlRows(write({"prompt": 1}))
    handle: Any = rows._file
    del rows
    assert handle.closed
