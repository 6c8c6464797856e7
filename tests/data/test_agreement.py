# SPDX-License-Identifier: Apache-2.0
"""The two loaders agree: the same rows give the same prompts, references, ids and order."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posttrain.data.columns import ColumnMapping
from posttrain.data.env import Env
from posttrain.data.hf import HfRows
from posttrain.data.jsonl import JsonlRows

# Rows of one shape: Arrow, in which a dataset is held, gives every column one type.
_messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": st.text(max_size=6)}),
    min_size=1,
    max_size=3,
)
_references = st.fixed_dictionaries(
    {
        "ids": st.lists(st.text(max_size=3), max_size=3),
        "arguments": st.fixed_dictionaries({"count": st.integers(-(2**63), 2**63 - 1), "flag": st.booleans()}),
        "weight": st.floats(allow_nan=False, allow_infinity=False),
        "note": st.none() | st.text(max_size=3),
    }
)


@settings(max_examples=40)
@given(
    prompts=st.one_of(
        st.lists(_messages, min_size=1, max_size=8), st.lists(st.text(max_size=8), min_size=1, max_size=8)
    ),
    references=st.lists(_references, min_size=8, max_size=8),
    with_ids=st.booleans(),
    escaped=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_loaders_agree(
    datasets: Any,
    tmp_path_factory: pytest.TempPathFactory,
    prompts: list[Any],
    references: list[Any],
    with_ids: bool,
    escaped: bool,
    seed: int,
) -> None:
    """Observations out of a JSONL file and out of a dataset of the same rows differ in the preserved columns alone."""
    rows = [
        {"messages": prompt, "reward_input": reference, "source_id": f"id {at}", "level": at}
        for at, (prompt, reference) in enumerate(zip(prompts, references, strict=False))
    ]
    path = tmp_path_factory.mktemp("agreement") / "rows.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows), encoding="utf-8")
    columns = ColumnMapping(
        prompt_column="messages", response_column="reward_input", row_id_column="source_id" if with_ids else None
    )
    sources = JsonlRows(path, columns), HfRows(datasets.Dataset.from_list(rows), columns)
    drawn = [
        [
            each
            for batch in islice(Env(source, needs=("prompt", "reference"), seed=seed).batches(3, 2), 6)
            for each in batch.observations
        ]
        for source in sources
    ]
    for local, hub in zip(*drawn, strict=True):
        assert (local.id, local.row_id) == (hub.id, hub.row_id)
        assert json.dumps([local.prompt, local.reference], sort_keys=True) == json.dumps(
            [hub.prompt, hub.reference], sort_keys=True
        )
        assert local.representations == {}
        assert hub.representations.keys() == ({"level"} if with_ids else {"level", "source_id"})
        assert rows[hub.representations["level"]]["messages"] == hub.prompt
