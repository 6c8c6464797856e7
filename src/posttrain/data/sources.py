# SPDX-License-Identifier: Apache-2.0
"""Opens the rows that a run's `rl.data.*` describes: a local JSONL file, what `datasets` can load, or a function's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from posttrain.data.columns import ColumnMapping
from posttrain.data.function import FunctionRows
from posttrain.data.hf import HfRows, datasets_module
from posttrain.data.items import ItemsFn, load_items_fn
from posttrain.data.jsonl import JsonlRows
from posttrain.data.row import RowSource
from posttrain.errors import RewardConfigError, RewardUnavailableError, describe, listing, text_of

__all__ = ["load_hf_dataset", "open_rows", "source_kind"]

_JSONL: Final = {".jsonl", ".ndjson"}
_PACKED: Final = {".gz", ".zst"}
_BUILDERS: Final = {
    ".arrow": "arrow",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".txt": "text",
}


def open_rows(
    path: str | Path,
    *,
    source: str | None = None,
    columns: ColumnMapping | None = None,
    items_fn: str | ItemsFn | None = None,
    name: str | None = None,
    split: str | None = None,
    revision: str | None = None,
    spool_dir: str | Path | None = None,
) -> RowSource:
    """The rows of a source, checked and mapped.

    Args:
        path: a file, a folder, what `datasets.load_dataset` takes, or the path of a function.
        source: ``jsonl`` for the local loader, which keeps only the mapped columns; ``hf`` for `datasets`, which also
            preserves the others; ``function`` for rows that ``package.module:function`` makes. None: ``jsonl`` for the
            suffixes .jsonl and .ndjson, also with .gz or .zst, else ``hf``.
        columns: how columns are mapped.
        items_fn: row map of an ``hf`` source, or its dotted path ``package.module:function``.
        name: configuration of an ``hf`` dataset.
        split: split of an ``hf`` dataset. None: the only one that it has.
        revision: version of an ``hf`` dataset on the Hub.
        spool_dir: folder for the temporary copy of a compressed ``jsonl`` file.

    Raises:
        RewardConfigError: an option does not go with the source, or the source can't be opened.
        RewardContractError: rows are at fault.
        RewardUnavailableError: the Hub could not answer.
    """
    kind = source_kind(path, source)
    if kind == "hf":
        if spool_dir is not None:
            raise RewardConfigError("rl.data.spool_dir: only a jsonl source makes a temporary copy; leave it out")
        function = load_items_fn(items_fn) if isinstance(items_fn, str) else items_fn
        dataset = load_hf_dataset(path, name=name, split=split, revision=revision)
        return HfRows(dataset, columns, items_fn=function, title=str(path))
    if kind == "function":
        _refuse_options(path, kind, name, split, revision, items_fn, spool_dir)
        return FunctionRows(str(path), columns)
    _refuse_options(path, kind, name, split, revision, items_fn, None)
    return JsonlRows(path, columns, spool_dir=spool_dir)


def _refuse_options(  # each is its own option
    path: str | Path,
    kind: str,
    name: str | None,
    split: str | None,
    revision: str | None,
    items_fn: object,
    spool_dir: object,
) -> None:
    faults = [
        f"rl.data.{key}: only an hf source has one"
        for key, value in (("name", name), ("split", split), ("revision", revision))
        if value is not None
    ]
    if items_fn is not None and kind == "jsonl":
        faults.append(
            "rl.data.items_fn: a local JSONL file is prepared offline: write its rows as they should be, or read it "
            "with rl.data.source=hf"
        )
    elif items_fn is not None:
        faults.append("rl.data.items_fn: a function that makes rows makes them as they should be; leave it out")
    if spool_dir is not None:
        faults.append("rl.data.spool_dir: only a jsonl source makes a temporary copy; leave it out")
    if faults:
        raise RewardConfigError(f"{path} is a {kind} source:\n{listing(faults)}")


def source_kind(path: str | Path, source: str | None = None) -> str:
    """``jsonl``, ``hf`` or ``function``: what was asked for, or else what the path's suffix says.

    Raises:
        RewardConfigError: `source` is anything else.
    """
    if source is None:
        return "jsonl" if _suffix(path) in _JSONL else "hf"
    if source not in {"jsonl", "hf", "function"}:
        raise RewardConfigError(f"rl.data.source: expected jsonl, hf or function, got {describe(source)}")
    return source


def load_hf_dataset(
    path: str | Path, *, name: str | None = None, split: str | None = None, revision: str | None = None
) -> Any:
    """What `datasets` makes of a path: a saved dataset, a local file of a known suffix, or anything else that it knows.

    Raises:
        RewardConfigError: `datasets` is not installed, or could not load it.
        RewardUnavailableError: the Hub could not answer.
    """
    datasets = datasets_module(str(path))
    local, builder = Path(path), _BUILDERS.get(_suffix(path))
    if revision is not None and local.exists():
        raise RewardConfigError(f"rl.data.revision: {path} is local and has no revisions; leave it out")
    is_saved = any((local / marker).is_file() for marker in ("state.json", "dataset_dict.json"))
    try:
        if is_saved:
            found = datasets.load_from_disk(str(local))
        elif builder is not None and local.is_file():
            found = datasets.load_dataset(builder, name, data_files=str(local), split=split)
        else:
            found = datasets.load_dataset(str(path), name, split=split, revision=revision)
    except (ConnectionError, TimeoutError) as error:
        raise RewardUnavailableError(
            f"{path}: no such file or folder is here, and the Hub could not answer: {text_of(error)}"
        ) from error
    except Exception as error:
        cause = f" ({text_of(error.__cause__)})" if error.__cause__ is not None else ""
        raise RewardConfigError(
            f"datasets could not load {path}: {type(error).__name__}: {text_of(error)}{cause}"
        ) from error
    return _one_split(found, split, str(path)) if is_saved or split is None else found


def _one_split(found: Any, split: str | None, title: str) -> Any:
    """The split of that name, or the only one, of a dataset or of several by name."""
    # A table that was saved without the name of a split counts as what datasets makes of a bare file.
    splits = found if isinstance(found, dict) else {str(found.split or "train"): found}
    if split is None and len(splits) == 1:
        return next(iter(splits.values()))
    if split not in splits:
        wanted = "choose one" if split is None else f"there is no {split!r}; choose one"
        raise RewardConfigError(f"{title} has the splits {', '.join(map(str, splits))}: {wanted} with rl.data.split")
    return splits[split]


def _suffix(path: str | Path) -> str:
    """The suffix that tells a file's format, in lower case; that of the compression is left out."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""
