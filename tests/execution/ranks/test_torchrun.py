# SPDX-License-Identifier: Apache-2.0
"""Ranks that are real processes under torchrun, over gloo and loopback: what fails, hangs or dies is named by all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from execution.ranks.rank_program import BOUND_S, tell
from execution.ranks.rank_threads import batch_of, worker_for
from execution.ranks.torchrun import torchrun

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parent / "rank_program.py"
TESTS = Path(__file__).parents[2]


def _ends(folder: Path, name: str) -> list[dict[str, Any]]:
    """What each rank that got that far wrote about a scenario, in rank order; no rank is left."""
    files = sorted(folder.glob("rank-*.json"))
    read = [json.loads(file.read_text()) for file in files]
    alive = [each["pid"] for each in read if Path(f"/proc/{each['pid']}").exists()]
    assert alive == [], "a rank outlived its launcher"
    return [each[name] for each in read if name in each]


def test_ranks_that_are_processes(tmp_path: Path) -> None:
    """A batch that straddles four ranks, latents where they are, an error that all share, and at last one that dies."""
    done = torchrun(PROGRAM, str(tmp_path), "all_ok", "latents", "one_raises", "all_ok", "one_dies", ranks=4)
    assert done.returncode == 1, done.stderr
    alone = batch_of(10, 2)
    report = worker_for(None, tell).score(alone)
    ok = _ends(tmp_path, "all_ok")
    assert [end["metrics"] for end in ok] == [report.metrics()] * 4
    written = [row for end in ok for row in end["written"]]
    assert written == [[each.trajectory_id, each.reward, each.advantage] for each in alone]
    # By hand in test_rank_evaluator: rewards 1, 3 and 0, 4; population variance over the batch 2.5.
    scale = 2.5**0.5 + 1e-4
    advantages = [end["written"][0][2] for end in _ends(tmp_path, "latents")]
    assert advantages == [-1 / scale, 1 / scale, -2 / scale, 2 / scale]
    raised = _ends(tmp_path, "one_raises")
    # Groups 3 and 7 are the last rank's; the first of them is where it fails.
    expected = ["RewardContractError", "provider 'told', group 'g3': rank 3: out of cheese", "KeyError"]
    assert [end["error"] for end in raised] == [expected] * 4
    assert [row[1:] for end in raised for row in end["written"]] == [[{}, None]] * 20
    _check_gone(_ends(tmp_path, "one_dies"), 3)


def _check_gone(ends: list[dict[str, Any]], others: int) -> None:
    """Every other rank raised the same error inside the bound, which names the one that did not come."""
    text = f"rank 1 did not come to the step 'evaluate' within {BOUND_S:g} s: hung or dead"
    assert [end["error"] for end in ends] == [["RewardUnavailableError", text, None]] * others
    assert max(end["seconds"] for end in ends) < BOUND_S + 20
    assert all(row[1:] == [{}, None] for end in ends for row in end["written"])


@pytest.mark.parametrize("scenario", ["one_hangs", "one_dies"])
def test_a_rank_that_is_gone_ends_the_others_inside_the_bound(tmp_path: Path, scenario: str) -> None:
    """Also at a store that is no process: nobody but the other ranks finds out."""
    (tmp_path / "store").mkdir()
    job = {**os.environ, "PYTHONPATH": str(TESTS), "STORE": str(tmp_path / "store"), "WORLD_SIZE": "3"}
    command = [sys.executable, str(PROGRAM), str(tmp_path), "all_ok", scenario]
    ranks = [subprocess.Popen(command, env={**job, "RANK": str(rank)}) for rank in range(3)]
    try:
        assert [ranks[rank].wait(60) for rank in (0, 2)] == [1, 1]
    finally:
        for each in ranks:
            each.kill()
            each.wait()
    _check_gone(_ends(tmp_path, scenario), 2)


STOPPED = """
import os, signal, sys
import torch.distributed as dist
from posttrain.errors import RewardUnavailableError
from posttrain.execution.ranks import torch_exchange

dist.init_process_group("gloo", init_method="env://")
exchange = torch_exchange(timeout_s=3)
try:
    exchange.swap("first", 0)
    if exchange.rank == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    exchange.swap("second", 0)
except RewardUnavailableError as error:
    sys.stdout.write(str(error))
    sys.stdout.flush()
os._exit(0)
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_stopped_holder_of_the_store_hangs_nobody() -> None:
    """Without a launcher rank 0 holds the store; when it is stopped, the other rank says so and ends."""
    job = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": "2"}
    job |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", STOPPED], env={**job, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    try:
        out, _ = processes[1].communicate(timeout=120)
    finally:
        processes[0].send_signal(signal.SIGKILL)
        processes[0].communicate()
    assert out.startswith("rank 1 can't reach the store where the ranks meet")
    assert "no answer within 3 s" in out
