# SPDX-License-Identifier: Apache-2.0
"""Training rows: loaders, column mapping, observations in a resumable order, and packing for a model."""

from posttrain.data.chat import ChatTemplatePacker, ChatTokenizer, PackedPrompt, PackedPrompts
from posttrain.data.columns import ColumnMapping
from posttrain.data.env import Env
from posttrain.data.function import FunctionRows, RowsFn
from posttrain.data.gaps import Gaps
from posttrain.data.hf import HfRows
from posttrain.data.items import ItemsFn, load_items_fn
from posttrain.data.jsonl import JsonlRows
from posttrain.data.packer import DataPacker
from posttrain.data.row import RowSource, SourceRow
from posttrain.data.sources import load_hf_dataset, open_rows, source_kind
from posttrain.data.state import EnvState
from posttrain.data.trajectories import PromptBatch, group_trajectories

__all__ = [
    "ChatTemplatePacker",
    "ChatTokenizer",
    "ColumnMapping",
    "DataPacker",
    "Env",
    "EnvState",
    "FunctionRows",
    "Gaps",
    "HfRows",
    "ItemsFn",
    "JsonlRows",
    "PackedPrompt",
    "PackedPrompts",
    "PromptBatch",
    "RowSource",
    "RowsFn",
    "SourceRow",
    "group_trajectories",
    "load_hf_dataset",
    "load_items_fn",
    "open_rows",
    "source_kind",
]
