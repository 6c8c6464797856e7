# SPDX-License-Identifier: Apache-2.0
"""What ranks that are processes run: one scenario after the other, each rank's ends written to a file.

Under torchrun they meet at the job's store; with a folder for a store they need no torch, which takes seconds to load.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from execution.ranks.folder_store import FolderStore
from execution.ranks.rank_threads import Told, batch_of, trajectory, worker_for
from posttrain.errors import RewardContractError, RewardError
from posttrain.execution.ranks import RankExchange, score_on_ranks, torch_exchange
from posttrain.rewards import ProviderExecution, RewardGroupRequest
from posttrain.schema import Trajectory

BOUND_S = 3.0


def tell(request: RewardGroupRequest) -> list[float]:
    """A reward that hangs on the completion alone."""
    return [len(each.completion) / 3 + place for place, each in enumerate(request.candidates)]


def _own(exchange: RankExchange, batch: list[Trajectory]) -> list[Trajectory]:
    """Five candidates a rank (the last may get four), so that groups of two straddle ranks."""
    return batch[exchange.rank * 5 : (exchange.rank + 1) * 5]


def _score(exchange: RankExchange, told: Told, own: list[Trajectory], **settings: Any) -> dict[str, Any]:
    start = time.monotonic()
    end: dict[str, Any] = {}
    try:
        with worker_for(exchange, told, **settings) as worker:
            end["metrics"] = score_on_ranks(worker, exchange, own).metrics()
    except RewardError as error:
        end["error"] = [type(error).__name__, str(error), error.cause_type]
    end["written"] = [[each.trajectory_id, each.reward, each.advantage] for each in own]
    end["seconds"] = time.monotonic() - start
    return end


def all_ok(exchange: RankExchange) -> dict[str, Any]:
    """Groups straddle ranks."""
    return _score(exchange, tell, _own(exchange, batch_of(5 * exchange.world_size // 2, 2)))


def latents(exchange: RankExchange) -> dict[str, Any]:
    """One trajectory a rank, two ranks a group, scored where it is."""
    rank = exchange.rank
    own = [trajectory(rank // 2, rank % 2, latent=[1.0, 3.0, 0.0, 4.0][rank])]
    spec = {"needs": (), "execution": ProviderExecution(rank_local=True)}

    def told(request: RewardGroupRequest[Any]) -> list[float]:
        return [each.latent for each in request.candidates]

    return _score(exchange, told, own, estimator="group_mean_batch_std", spec=spec)


def one_raises(exchange: RankExchange) -> dict[str, Any]:
    """The last rank's provider fails."""

    def told(request: RewardGroupRequest) -> list[float]:
        if exchange.rank == exchange.world_size - 1:
            raise RewardContractError("out of cheese") from KeyError("cheese")
        return tell(request)

    return _score(exchange, told, _own(exchange, batch_of(5 * exchange.world_size // 2, 2)))


def one_hangs(exchange: RankExchange) -> dict[str, Any]:
    """Rank 1 never comes back from its provider."""

    def told(request: RewardGroupRequest) -> list[float]:
        if exchange.rank == 1:
            time.sleep(10_000)
        return tell(request)

    return _score(exchange, told, _own(exchange, batch_of(5 * exchange.world_size // 2, 2)))


def one_dies(exchange: RankExchange) -> dict[str, Any]:
    """Rank 1 is killed inside its provider."""

    def told(request: RewardGroupRequest) -> list[float]:
        if exchange.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return tell(request)

    return _score(exchange, told, _own(exchange, batch_of(5 * exchange.world_size // 2, 2)))


SCENARIOS: dict[str, Callable[[RankExchange], dict[str, Any]]] = {
    each.__name__: each for each in (all_ok, latents, one_raises, one_hangs, one_dies)
}


def _exchange() -> RankExchange:
    if (folder := os.environ.get("STORE")) is not None:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return RankExchange(FolderStore(Path(folder)), rank=rank, world_size=size, timeout_s=BOUND_S)
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    return torch_exchange(timeout_s=BOUND_S)


def main(folder: str, *names: str) -> int:
    """Run the scenarios; 1 when the last one failed."""
    if "one_dies" in names:
        # The launcher ends the other ranks as soon as one is gone; here they are to end by themselves.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    exchange = _exchange()
    ends = {}
    for name in names:
        ends[name] = SCENARIOS[name](exchange)
        path = Path(folder, f"rank-{exchange.rank}.json")
        path.with_suffix(".new").write_text(json.dumps({"pid": os.getpid(), **ends}))
        path.with_suffix(".new").replace(path)
    return int("error" in ends[names[-1]])


if __name__ == "__main__":
    # No clean end of the process group: the ranks that are gone would be waited for.
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
