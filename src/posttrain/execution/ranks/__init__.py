# SPDX-License-Identifier: Apache-2.0
"""One batch over the ranks of a `torch.distributed` job: gather, deal out, converge. See `docs/ranks.md`."""

from posttrain.execution.ranks.distributed import torch_exchange
from posttrain.execution.ranks.evaluator import RankEvaluator, over_ranks
from posttrain.execution.ranks.exchange import RankExchange
from posttrain.execution.ranks.gather import gather_batch
from posttrain.execution.ranks.records import RemoteLatent
from posttrain.execution.ranks.score import compute_on_ranks, score_on_ranks
from posttrain.execution.ranks.store import MemoryStore, RankStore

__all__ = [
    "MemoryStore",
    "RankEvaluator",
    "RankExchange",
    "RankStore",
    "RemoteLatent",
    "compute_on_ranks",
    "gather_batch",
    "over_ranks",
    "score_on_ranks",
    "torch_exchange",
]
