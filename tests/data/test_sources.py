# SPDX-License-Identifier: Apache-2.0
"""What a run's `rl.data.*` opens: the loader that is meant, and words for what does not go together."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from posttrain.data.columns import ColumnMapping
from posttrain.data.hf import HfRows
from posttrain.data.jsonl import JsonlRows
from posttrain.data.sources import open_rows, source_kind
from posttrain.errors import RewardConfigError, RewardUnavailableError

WriteRows: TypeAlias = Callable[..., Path]

ROWS = [{"prompt": "one", "reference": "1", "level": "a"}, {"prompt": "two", "reference": "2", "level": "b"}]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("rows.jsonl", "jsonl"),
        ("rows.JSONL", "jsonl"),
        ("a.b/rows.ndjson.gz", "jsonl"),
        ("rows.jsonl.zst", "jsonl"),
        ("rows.json", "hf"),
        ("rows.parquet", "hf"),
        ("rows.gz", "hf"),
        ("openai/gsm8k", "hf"),
        ("folder.jsonl/train", "hf"),
    ],
)
def test_the_suffix_tells_the_loader(path: str, kind: str) -> None:
    """A JSONL file goes to the local loader, compressed or not, and everything else to datasets."""
    assert source_kind(path) == kind
    assert source_kind(path, "hf") == "hf"
    assert source_kind(path, "jsonl") == "jsonl"


def test_an_unknown_loader_is_refused() -> None:
    """There are three loaders."""
    with pytest.raises(RewardConfigError, match=r"rl\.data\.source: expected jsonl, hf or function, got 'csv' \(str\)"):
        open_rows("rows.csv", source="csv")


def test_a_jsonl_source_takes_no_hf_options(write: WriteRows) -> None:
    """A row map and the options of a dataset are refused on a local JSONL file, all at once, with the reason."""
    path = write(*ROWS)
    with pytest.raises(RewardConfigError, match="is a jsonl source") as caught:
        open_rows(path, items_fn="prepare:row", name="main", split="train", revision="1")
    offline = "a local JSONL file is prepared offline: write its rows as they should be"
    assert str(caught.value).splitlines()[1:] == [
        "  rl.data.name: only an hf source has one",
        "  rl.data.split: only an hf source has one",
        "  rl.data.revision: only an hf source has one",
        f"  rl.data.items_fn: {offline}, or read it with rl.data.source=hf",
    ]


def test_a_jsonl_source_is_opened(write: WriteRows, tmp_path: Path) -> None:
    """A local JSONL file is read by the local loader, with the folder for its copy."""
    rows = open_rows(write(*ROWS, name="rows.jsonl.gz"), spool_dir=tmp_path)
    assert isinstance(rows, JsonlRows)
    assert rows.take([1])[0].representations == {}


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json", "rows.parquet", "rows.csv", "saved", "rows.jsonl.gz"])
def test_datasets_opens_local_files(datasets: Any, write: WriteRows, tmp_path: Path, name: str) -> None:
    """Every local form of the same rows gives the same prompts, references and preserved columns."""
    path = tmp_path / name
    if "jsonl" in name:
        write(*ROWS, name=name)
    elif name == "rows.json":
        path.write_text(json.dumps(ROWS))
    elif name == "rows.parquet":
        datasets.Dataset.from_list(ROWS).to_parquet(path)
    elif name == "rows.csv":
        path.write_text("prompt,reference,level\none,x1,a\ntwo,x2,b\n")
    else:
        datasets.Dataset.from_list(ROWS).save_to_disk(path)
    rows = open_rows(path, source="hf")
    assert isinstance(rows, HfRows)
    assert [(row.prompt, row.representations) for row in rows.take([0, 1])] == [
        ("one", {"level": "a"}),
        ("two", {"level": "b"}),
    ]
    # A csv file has no types, so that its references would come as ints.
    assert [row.reference for row in rows.take([0, 1])] == (["x1", "x2"] if name == "rows.csv" else ["1", "2"])


def test_a_saved_dataset_with_splits(datasets: Any, tmp_path: Path) -> None:
    """Of several saved splits one is chosen by name; without a name, or with a wrong one, all are named."""
    first, second = (datasets.Dataset.from_list([row]) for row in ROWS)
    datasets.DatasetDict(train=first, test=second).save_to_disk(tmp_path / "saved")
    assert open_rows(tmp_path / "saved", split="test").take([0])[0].prompt == "two"
    with pytest.raises(RewardConfigError, match=r"has the splits train, test: choose one with rl\.data\.split"):
        open_rows(tmp_path / "saved")
    with pytest.raises(RewardConfigError, match="has the splits train, test: there is no 'dev'; choose one"):
        open_rows(tmp_path / "saved", split="dev")


def test_a_split_of_a_single_dataset(datasets: Any, write: WriteRows, tmp_path: Path) -> None:
    """A split that a source does not have is an error, never passed over."""
    datasets.Dataset.from_list(ROWS).save_to_disk(tmp_path / "saved")
    assert len(open_rows(tmp_path / "saved", split="train")) == len(open_rows(tmp_path / "saved")) == 2
    with pytest.raises(RewardConfigError, match="has the splits train: there is no 'test'; choose one"):
        open_rows(tmp_path / "saved", split="test")
    path = write(*ROWS)
    assert len(open_rows(path, source="hf", split="train[:1]")) == 1
    with pytest.raises(RewardConfigError, match=r"datasets could not load .*Unknown split \"test\""):
        open_rows(path, source="hf", split="test")


def test_a_folder_of_files(datasets: Any, tmp_path: Path) -> None:
    """A folder that datasets knows how to read is one, split by the names of its files."""
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        (tmp_path / "data" / f"{split}.jsonl").write_text(json.dumps({"prompt": split}))
    assert open_rows(tmp_path / "data", split="test").take([0])[0].prompt == "test"
    with pytest.raises(RewardConfigError, match=r"has the splits (train, test|test, train): choose one"):
        open_rows(tmp_path / "data")


def test_the_row_map_is_found_by_path(datasets: Any, write: WriteRows) -> None:
    """A dotted path and a function itself do the same on an hf source, local file or not."""
    path = write({"prompt": {"a": 1}}, {"prompt": {"a": 2}})
    by_path = open_rows(path, source="hf", items_fn="builtins:dict")
    by_function = open_rows(path, source="hf", items_fn=dict)
    assert by_path.take([1]) == by_function.take([1])
    assert by_path.fingerprint == by_function.fingerprint


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"revision": "v1"}, r"rl\.data\.revision: .*rows\.jsonl is local and has no revisions; leave it out"),
        ({"spool_dir": "somewhere"}, r"rl\.data\.spool_dir: only a jsonl source makes a temporary copy"),
        ({"items_fn": "no_such_module_at_all:row"}, "can't be found"),
        ({"columns": ColumnMapping(prompt_column="promt")}, "did you mean 'prompt'"),
    ],
)
def test_options_that_do_not_fit(datasets: Any, write: WriteRows, options: dict[str, Any], fault: str) -> None:
    """An option that would do nothing, or leads nowhere, is refused."""
    with pytest.raises(RewardConfigError, match=fault):
        open_rows(write(*ROWS), source="hf", **options)


@pytest.mark.parametrize("name", ["none.parquet", "none.json"])
def test_a_file_that_is_not_there(datasets: Any, tmp_path: Path, name: str) -> None:
    """A local file that does not exist is a mistake in the config, in the words of datasets."""
    with pytest.raises(RewardConfigError, match=r"datasets could not load .*none\.\w+: FileNotFoundError: "):
        open_rows(tmp_path / name)


def test_a_file_that_is_damaged(datasets: Any, write: WriteRows, caplog: pytest.LogCaptureFixture) -> None:
    """What datasets says of a damaged file comes through with its cause."""
    with pytest.raises(RewardConfigError, match=r"DatasetGenerationError: .*JSON parse error"):
        open_rows(write('{"prompt": 1}', '{"prompt":'), source="hf")


def test_a_hub_that_does_not_answer(datasets: Any) -> None:
    """A dataset that would have to be fetched while the Hub can't be reached is unavailable, not wrong."""
    with pytest.raises(RewardUnavailableError, match="no such file or folder is here, and the Hub could not answer"):
        open_rows("nobody/nothing", split="train")


def test_without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is not installed, the one line says what to install."""
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RewardConfigError, match=r"which needs datasets: pip install 'posttrain\[data\]'$"):
        open_rows("openai/gsm8k")
