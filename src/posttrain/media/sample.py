# SPDX-License-Identifier: Apache-2.0
"""Between an adapter and the client that has its sample scored: one spooled sample out, one score back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final, runtime_checkable

__all__ = ["MediaType", "SampleScorer", "ServiceScore", "SpooledSample"]

MediaType: TypeAlias = Literal["image", "video"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SpooledSample:
    """The whole body of one enqueue request, in a private file that has no name.

    The file was unlinked when it was made, so nothing of it outlives the descriptors that hold it, not even after
    SIGKILL. A child process reads it as ``/dev/fd/<fd>`` when it inherits `fd` (``pass_fds=(fd,)``); on Linux that
    opens the file anew, at its start. A reader in this process uses ``os.pread``. The adapter owns `fd` and closes it
    when `SampleScorer.score` is left, by whatever way.
    """

    fd: int
    """Open descriptor of the file, at offset 0; not inheritable unless passed on."""
    nbytes: int
    """Length of the file in bytes: the line, then the `.npy` header and its data."""
    line_nbytes: int
    """Length of the line in front of the `.npy` bytes, its LF included."""
    media_type: MediaType
    """What the array shows."""
    shape: tuple[int, ...]
    """Of the uint8 array: video [1,3,T,H,W], image [1,H,W,3]."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceScore:
    """What the service said of one sample, before the adapter clips and scales it."""

    value: float
    """The raw score, finite."""
    enqueue_seconds: float
    """Wall time of the one enqueue."""
    wait_seconds: float
    """Wall time from its answer to the score."""
    polls: int
    """Number of pulls made, at least 1."""
    pull_retries: int = 0
    """How many of the pulls failed in a way that may pass, and were made again."""


@runtime_checkable
class SampleScorer(Protocol):
    """Has one sample scored by the service. `RewardServiceClient` is the one that ships."""

    @property
    def orphans(self) -> int:
        """Samples so far whose remote work may go on with nobody to collect its score."""
        ...

    def check_machine(self) -> None:
        """Raise `RewardConfigError` naming all that this machine lacks (program, credential); no network."""
        ...

    def enqueue_line(self, prompt: str | None) -> bytes:
        """The JSON line of the enqueue body with its LF; the adapter writes it in front of the `.npy` bytes.

        Args:
            prompt: the prompt of the one sample when the config says `send_prompts`, else None.
        """
        ...

    def score(self, sample: SpooledSample, *, deadline: float) -> ServiceScore:
        """Enqueue the sample once, then pull until its score is there.

        Args:
            sample: what to send; its descriptor stays the caller's.
            deadline: absolute, on `time.monotonic`'s clock; nothing is accepted after it.

        Raises:
            RewardUnavailableError: the service did not answer in time, or a failure that may pass.
            RewardContractError: an answer that is final and no score, or an enqueue whose fate is not known.
            RewardConfigError: an answer that only a person can mend.
        """
        ...
