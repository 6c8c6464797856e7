# SPDX-License-Identifier: Apache-2.0
"""Real runs of `posttrain nft`: ranks that torch's launcher starts, a server of their own, a tiny model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from posttrain.testing import FakeRewardService

__all__ = ["Launched", "children_of", "launched", "overrides_of", "ranks_of", "torchrun"]

PROMPTS = '{"prompt": "a lamp"}\n{"prompt": "snow"}\n{"prompt": "the sun"}\n'


def overrides_of(folder: Path, service: FakeRewardService | str, *more: str) -> list[str]:
    """A run of two batches on the tiny image model, recorded in `folder`, scored by `service`."""
    url = service if isinstance(service, str) else service.url
    (folder / "prompts.jsonl").write_text(PROMPTS)
    (folder / "spool").mkdir(exist_ok=True)
    nft = {
        "media": "image",
        "steps": 2,
        "height": 16,
        "width": 16,
        "sampling_steps": 2,
        "times_per_sample": 2,
        "learning_rate": 0.003,
        "ranks_timeout_s": 120.0,
        "reward.provider_revision": "r1",
        "reward.enqueue_url": f"{url}/api/reward/enqueue",
        "reward.pull_url": f"{url}/api/reward/pull",
        "reward.reward": "brightness",
        "reward.score_key": "brightness",
        "reward.poll_interval_s": 0.02,
        "reward.evaluation_timeout_s": 60.0,
        "reward.spool_dir": folder / "spool",
    }
    return [
        "rl.reward=image",
        "rl.group_size=2",
        f"rl.data.path={folder / 'prompts.jsonl'}",
        "rl.reward_stage.estimator=group_mean_batch_std",
        "rl.policy.model=tiny",
        "rl.policy.device=cpu",
        f"rl.run.directory={folder / 'runs'}",
        "rl.run.name=it",
        *(f"rl.nft.{key}={value}" for key, value in nft.items()),
        *more,
    ]


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}


class Launched:
    """A started `posttrain nft`, whose standard error is read as it comes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told = ""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.told += line
                self._more.notify_all()

    def close(self) -> None:
        """Let go of its standard error, once it has ended."""
        self._reader.join(30)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def wait_until_told(self, pattern: str, timeout_s: float = 60.0) -> None:
        """Return once a line on standard error matches."""
        with self._more:
            assert self._more.wait_for(lambda: re.search(pattern, self.told), timeout_s), self.told

    def end(self, timeout_s: float = 120.0) -> tuple[int, str]:
        """Wait for its end; gives the exit code and all of standard error."""
        code = self.process.wait(timeout_s)
        self._reader.join(30)
        return code, self.told


@contextmanager
def launched(overrides: Sequence[str], *flags: str, ranks: int = 2) -> Iterator[Launched]:
    """Start `posttrain nft --ranks`; it is killed with its ranks when the test leaves early."""
    command = [sys.executable, "-m", "posttrain", "nft", "--ranks", str(ranks), *flags, *overrides]
    process = subprocess.Popen(
        command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    found = Launched(process)
    try:
        yield found
    finally:
        left = {process.pid, *children_of(process.pid)} if process.poll() is None else set()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        process.wait(60)
        found.close()


def torchrun(overrides: Sequence[str], *, ranks: int) -> subprocess.CompletedProcess[str]:
    """Run `posttrain nft` under the real torchrun."""
    where = ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    command = ["-m", "torch.distributed.run", *where, f"--nproc-per-node={ranks}", "-m", "posttrain", "nft"]
    return subprocess.run(
        [sys.executable, *command, *overrides],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def children_of(pid: int) -> set[int]:
    """Process ids of the children of a process."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def ranks_of(launcher: int) -> dict[int, int]:
    """Rank to process id of the ranks that a launcher has started."""
    found: dict[int, int] = {}
    for pid in children_of(launcher):
        with suppress(FileNotFoundError, ProcessLookupError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks: list[Any] = [item[5:] for item in environment if item.startswith(b"RANK=")]
            found |= {int(rank): pid for rank in ranks}
    return found
