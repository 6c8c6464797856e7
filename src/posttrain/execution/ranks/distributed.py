# SPDX-License-Identifier: Apache-2.0
"""The exchange over a `torch.distributed` job: any backend will do, since the ranks meet at its key-value store."""

from __future__ import annotations

from itertools import count
from typing import Any

from posttrain.errors import RewardConfigError
from posttrain.execution.ranks.answering import AnsweringStore
from posttrain.execution.ranks.exchange import RankExchange, checked_bound

__all__ = ["torch_exchange"]

_ANSWER_S = 30.0
"""Seconds for one call to the job's store, which takes milliseconds when its holder is alive."""

# Every exchange has keys of its own; the ranks make theirs in the same order.
_numbers = count()


def torch_exchange(*, timeout_s: float = 600.0) -> RankExchange:
    """This process's place among the ranks of the running `torch.distributed` job; alone where none runs.

    The records go through the store that the job was started with (held by the launcher under `torchrun`), not
    through a collective, so the backend (gloo, NCCL, both) does not matter, no group is created, and a rank that does
    not come is named instead of hanging the others. Every rank makes its exchanges in the same order.

    Args:
        timeout_s: see `RankExchange`.

    Raises:
        RewardConfigError: torch is not there, or the job has no store.
    """
    try:
        import torch.distributed as dist
    except ImportError as error:
        raise RewardConfigError('ranks need torch: pip install "posttrain[train]"') from error
    if not dist.is_available() or not dist.is_initialized():
        return RankExchange(timeout_s=timeout_s)
    try:
        from torch.distributed.distributed_c10d import PrefixStore, _get_default_store
    except ImportError as error:
        raise RewardConfigError("this version of torch does not give the store of its job; use 2.6 to 2.13") from error
    place: Any = PrefixStore(f"posttrain/ranks/{next(_numbers)}", _get_default_store())
    store = AnsweringStore(place, min(checked_bound(timeout_s), _ANSWER_S))
    return RankExchange(store, rank=dist.get_rank(), world_size=dist.get_world_size(), timeout_s=timeout_s)
