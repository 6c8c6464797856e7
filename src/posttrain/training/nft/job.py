# SPDX-License-Identifier: Apache-2.0
"""A rank of a running job: where it meets the others, on which device it works, and how it ends with them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, final

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.execution.ranks import RankExchange, torch_exchange
from posttrain.runs.config import RLConfig

if TYPE_CHECKING:
    import torch

__all__ = ["Job", "is_rank", "joined"]

GRACE_S: Final = 15.0
"""Most seconds that a rank waits for the others once the launcher has told it to stop. Launchers kill after 30."""
_UNAVAILABLE: Final = 4
"""Exit code of a rank that hung."""
_START_S: Final = 600.0
"""Least seconds that a rank waits for the others while they load their models."""
_LAST_S: Final = 5.0
"""Seconds after that in which it has to be gone."""


def is_rank() -> bool:
    """Whether a launcher such as torchrun started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


@final
@dataclass(kw_only=True)
class Job:
    """One rank's side of it."""

    exchange: RankExchange
    device: torch.device
    reduces_on: torch.device
    """Where tensors have to lie to be summed over the ranks."""
    is_told_to_stop: bool = False

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes the run's directory."""
        return self.exchange.rank == 0

    @contextmanager
    def together(self, step: str) -> Iterator[None]:
        """All ranks do a thing, or all raise the same error that names who could not.

        A failure in here is told to the others in place of the record that they wait for, so that none hangs.

        Raises:
            RewardError: on every rank alike.
        """
        try:
            yield
        except BaseException as error:
            self._tell(step, error)
            raise
        told = [rank for rank, stops in enumerate(self.exchange.swap(step, self.is_told_to_stop)) if stops]
        if told:
            names = ", ".join(map(str, told))
            raise RewardUnavailableError(f"rank {names}: told to stop (SIGTERM), after the step {step!r}")

    def _tell(self, step: str, error: BaseException) -> None:
        """Let the others know of what came up here, unless they know; raises what all of them raise."""
        if error is self.exchange.raised:
            return
        if isinstance(error, Exception):
            self.exchange.fail(step, error)
        self.exchange.leave(error)

    def settle(self, timeout_s: float) -> None:
        """From here on nobody loads anything: wait for the others no longer than this."""
        self.exchange.timeout_s = min(self.exchange.timeout_s, timeout_s)

    def same_everywhere(self, what: str, value: str) -> None:
        """Refuse to go on where ranks hold different values.

        Raises:
            RewardContractError: naming the ranks that are not as rank 0.
        """
        values = self.exchange.swap(what, value)
        others = [str(rank) for rank, each in enumerate(values) if each != values[0]]
        if others:
            raise RewardContractError(f"{what}: rank {', '.join(others)} has others than rank 0; they have to be equal")

    def from_first(self, what: str, value: Any) -> Any:
        """Rank 0's plain value, on every rank."""
        return self.exchange.swap(what, value if self.is_first else None)[0]

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum tensors over the ranks, in place. Every rank has to be here already: see `together`.

        Raises:
            RewardUnavailableError: a rank died in the middle of it.
        """
        import torch
        import torch.distributed as dist

        sizes = [each.numel() for each in tensors]
        flat = torch.cat([each.reshape(-1) for each in tensors]).to(self.reduces_on)
        try:
            dist.all_reduce(flat)
        except RuntimeError as error:
            raise RewardUnavailableError(f"the gradients could not be added up over the ranks: {error}") from error
        for each, part in zip(tensors, torch.split(flat.to(tensors[0].device), sizes), strict=True):
            each.copy_(part.reshape(each.shape))


@contextmanager
def joined(config: RLConfig) -> Iterator[Job]:
    """Join the job that the launcher started, and leave it.

    SIGTERM, which a launcher sends when a rank is gone, does not end a rank in here at once: it has `GRACE_S`, or
    ``rl.nft.ranks_timeout_s`` where that is shorter, to learn with the others who is missing, then all raise that. A
    rank that hangs meanwhile ends soon after.

    Raises:
        RewardConfigError: torch is not installed, or the ranks can't meet.
    """
    try:
        import torch
        import torch.distributed as dist
    except ImportError as error:
        raise RewardConfigError('posttrain nft needs torch: pip install "posttrain[media,train]"') from error
    local, beside = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    on_gpu = config.policy.device == "auto" and torch.cuda.is_available()
    device = torch.device("cuda", local % torch.cuda.device_count()) if on_gpu else torch.device("cpu")
    has_own = on_gpu and beside <= torch.cuda.device_count()
    if on_gpu:
        torch.cuda.set_device(device)
    try:
        dist.init_process_group(
            "nccl" if has_own else "gloo", timeout=timedelta(seconds=config.nft.ranks_timeout_s + GRACE_S)
        )
    except (RuntimeError, ValueError) as error:
        raise RewardConfigError(f"the ranks can't meet: {error}") from error
    exchange = torch_exchange(timeout_s=max(config.nft.ranks_timeout_s, _START_S))
    job = Job(exchange=exchange, device=device, reduces_on=device if has_own else torch.device("cpu"))

    def told(number: int, frame: object) -> None:
        del number, frame
        job.is_told_to_stop = True
        exchange.timeout_s = min(exchange.timeout_s, GRACE_S)
        _end_within(exchange.timeout_s + _LAST_S, exchange.rank)

    before = signal.signal(signal.SIGTERM, told)
    try:
        yield job
        # Only a job that ended well is taken down: the ranks that are gone would be waited for.
        exchange.swap("end", None)
        dist.destroy_process_group()
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_within(seconds: float, rank: int) -> None:
    """End this process, whatever its main thread hangs in."""

    def end() -> None:
        sys.stderr.write(
            f"posttrain: unavailable: rank {rank} was told to stop (SIGTERM), and had not after {seconds:g} s\n"
        )
        sys.stderr.flush()
        os._exit(_UNAVAILABLE)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
