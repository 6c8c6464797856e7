# SPDX-License-Identifier: Apache-2.0
"""What the ranks of `test_two_ranks` run: a step of training with a group that straddles them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from integrations.spy import SpyTrainer, config, rows, scored_rows, worker_telling
from posttrain.errors import RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards import RewardGroupRequest

BOUND_S = 5.0


def spread(request: RewardGroupRequest) -> list[float]:
    """A reward that differs between candidates."""
    return [sum(map(ord, each.completion)) % 97 / 7 + place for place, each in enumerate(request.candidates)]


def _drops_one(request: RewardGroupRequest) -> list[float]:
    # The middle group: two of its candidates are on each rank.
    if request.group_id.split("/")[2].startswith("1-"):
        raise RewardUnavailableError("503")
    return spread(request)


def _on_rank_1(act: Callable[[], Any]) -> Callable[[RewardGroupRequest], list[float]]:
    def tell(request: RewardGroupRequest) -> list[float]:
        if os.environ["RANK"] == "1":
            act()
        return spread(request)

    return tell


def _raise() -> None:
    raise RewardContractError("out of cheese")


def _wait_for_rank_0() -> None:
    """Hang for as long as the other rank has not given up; a rank that wakes finds out what it raised."""
    deadline = time.monotonic() + 100
    while "hangs" not in _read(Path(sys.argv[1], "rank-0.json")) and time.monotonic() < deadline:
        time.sleep(0.05)


SCENARIOS: dict[str, Callable[[RewardGroupRequest], list[float]]] = {
    "straddles": _drops_one,
    "raises": _on_rank_1(_raise),
    "hangs": _on_rank_1(_wait_for_rank_0),
    "dies": _on_rank_1(lambda: os.kill(os.getpid(), signal.SIGKILL)),
}


def _state(trajectories: Any) -> dict[str, Any]:
    return {each.trajectory_id: each.advantage for each in trajectories}


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _step(folder: str, name: str) -> dict[str, Any]:
    """One step over 12 completions: three groups of four, six completions a rank."""
    worker = worker_telling(SCENARIOS[name], on_unavailable="drop_group", max_dropped_fraction=0.5)
    args = config(Path(folder), per_device_train_batch_size=6, ddp_timeout=60)
    spy = SpyTrainer(args, worker, train_dataset=rows(3), ranks_timeout_s=BOUND_S)
    try:
        spy.train()
    except RewardError as error:
        return {"error": [type(error).__name__, str(error), spy.state.global_step]}
    (scored,) = spy.scored
    return {
        "own": _state(scored.own),
        "batch": _state(scored.batch),
        "rows": {trajectory_id: row._asdict() for trajectory_id, row in scored_rows(spy).items()},
        "logged": {key: value for key, value in spy.logged.items() if key.startswith("train/")},
    }


def main(folder: str, *names: str) -> int:
    """Run the scenarios; 1 when the last one failed."""
    if "dies" in names:
        # The launcher ends the rest at once; here they are to end by themselves.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    path = Path(folder, f"rank-{os.environ['RANK']}.json")
    ends: dict[str, Any] = {"pid": os.getpid()}
    for name in names:
        ends[name] = _step(folder, name)
        path.with_suffix(".new").write_text(json.dumps(ends))
        path.with_suffix(".new").replace(path)
    return int("error" in ends[names[-1]])


if __name__ == "__main__":
    # No clean end of the process group: the ranks that are gone would be waited for.
    os._exit(main(*sys.argv[1:]))
