# SPDX-License-Identifier: Apache-2.0
"""What both media rewards share: where the service is, how long it may take, and how its score is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.media.config.check import (
    clip_faults,
    count_faults,
    credential_faults,
    name_faults,
    number_faults,
    score_key_faults,
    text_faults,
    url_faults,
)
from posttrain.media.config.fp32 import transformed_score
from posttrain.media.sample import MediaType

__all__ = ["REVISION_SENTINEL", "ServiceConfig"]

REVISION_SENTINEL: Final = "SET-THE-DEPLOYED-REVISION"
"""What the recipes ship as `provider_revision`; refused, so that nobody trains on a scorer of unknown revision."""

_DAY: Final = 86_400.0
_TEBIBYTE: Final = 1 << 40
_SECONDS: Final = frozenset(
    {
        "connect_timeout_s",
        "enqueue_timeout_s",
        "pull_timeout_s",
        "evaluation_timeout_s",
        "poll_interval_s",
        "poll_interval_max_s",
    }
)

MACHINE_LOCAL: Final = frozenset({"spool_dir"})
"""Fields that say where on this machine something lies; they decide no score and are no part of the identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Fields of `VideoRewardConfig` and `ImageRewardConfig` alike. Standard library only.

    Raises:
        RewardConfigError: naming every field that is not valid.
    """

    media_type: ClassVar[MediaType]
    """What the service is told that it gets."""
    floats: ClassVar[frozenset[str]] = frozenset()
    """Fields of the subclass that an int may be given for."""

    provider_revision: str
    """Immutable revision of the deployed scorer; required, and not `REVISION_SENTINEL`."""
    enqueue_url: str
    """Full URL of the enqueue endpoint; http or https, no user, query or fragment."""
    pull_url: str
    """Full URL of the pull endpoint, of the same form."""
    reward: str
    """The service's name of the reward: key of `reward_fn` when enqueued, `type` when pulled."""
    score_key: str
    """Which series of the answer is the score; ``a+b`` adds them. An unnamed list of one score needs no key."""
    credential: str | None = "REWARD_SERVICE_TOKEN"
    """Name of the environment variable that holds the bearer token, never the token; None: the service takes none."""
    send_prompts: bool = False
    """Whether the group's prompt is sent with the sample; then it has to be text."""
    connect_timeout_s: float = 10.0
    """Seconds to connect, for each request; in (0, 86400]."""
    enqueue_timeout_s: float = 300.0
    """Seconds for the whole enqueue, upload included; in (0, 86400]."""
    pull_timeout_s: float = 30.0
    """Seconds for one pull; in (0, 86400]. The service may stall for seconds while it takes another upload."""
    evaluation_timeout_s: float = 900.0
    """Seconds from the start of the decode to the accepted score, the absolute deadline; in (0, 86400]."""
    poll_interval_s: float = 1.0
    """Seconds between two pulls, and the first wait after a pull that failed; in (0, 86400]."""
    poll_interval_max_s: float = 15.0
    """Cap of the wait that doubles with each failed pull, in seconds; from `poll_interval_s` to 86400."""
    max_response_bytes: int = 1 << 20
    """Largest answer that is read, in bytes; in [1024, 2^30]."""
    max_sample_bytes: int = 1 << 29
    """Largest array that is sent, in bytes without its header; in [1, 2^40]. Public servers lose more than 1 GiB."""
    spool_dir: str | None = None
    """Folder of this machine for the sample that is being sent; None: the platform's temporary directory."""
    score_clip: tuple[float, float] | None = None
    """Lowest and highest score, applied first, in single precision; None: no clamp."""
    score_scale: float = 1.0
    """Factor of the clamped score, in single precision; not 0."""

    def __post_init__(self) -> None:
        """Refuse every field that is not valid, all at once; numbers become floats."""
        if faults := self._faults():
            raise RewardConfigError(f"{type(self).__name__} is not valid:\n{listing(faults)}")
        for name in _SECONDS | {"score_scale"} | self.floats:
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.score_clip is not None:
            object.__setattr__(self, "score_clip", (float(self.score_clip[0]), float(self.score_clip[1])))

    def _own_faults(self) -> list[str]:
        """What is wrong with the fields of the subclass."""
        return []

    def _faults(self) -> list[str]:
        faults = _revision_faults(self.provider_revision)
        for field in ("enqueue_url", "pull_url"):
            faults += url_faults(field, getattr(self, field))
        faults += name_faults("reward", self.reward)
        faults += score_key_faults(self.score_key)
        faults += credential_faults(self.credential)
        if type(self.send_prompts) is not bool:
            faults.append(f"send_prompts: expected a bool, got {describe(self.send_prompts)}")
        waits = [
            fault
            for name in sorted(_SECONDS)
            for fault in number_faults(name, getattr(self, name), low=0.0, high=_DAY, unit="s")
        ]
        if not waits and self.poll_interval_max_s < self.poll_interval_s:
            waits.append(
                f"poll_interval_max_s: expected at least poll_interval_s ({self.poll_interval_s:g}), got "
                f"{describe(self.poll_interval_max_s)}"
            )
        faults += waits
        faults += count_faults("max_response_bytes", self.max_response_bytes, low=1024, high=1 << 30, unit="bytes")
        faults += count_faults("max_sample_bytes", self.max_sample_bytes, low=1, high=_TEBIBYTE, unit="bytes")
        if self.spool_dir is not None:
            faults += text_faults("spool_dir", self.spool_dir)
        return [*faults, *clip_faults(self.score_clip, self.score_scale), *self._own_faults()]

    def score(self, raw: float) -> float:
        """The reward of a raw score: `score_clip`, then `score_scale`, in single precision.

        Raises:
            RewardContractError: the result is beyond the range of single precision.
        """
        return transformed_score(raw, self.score_clip, self.score_scale)

    def semantic_identity(self) -> dict[str, Any]:
        """Every field that decides a score or whether there is one: all but the paths of this machine.

        The name of the credential is one of them, the token is not.
        """
        named = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in MACHINE_LOCAL}
        return {"media_type": self.media_type, **named}

    def token(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The bearer token; None: the service takes none.

        Args:
            environment: where to look; None: this process's.

        Raises:
            RewardConfigError: the variable is not set, or what it holds can't stand in a header.
        """
        if self.credential is None:
            return None
        found = (os.environ if environment is None else environment).get(self.credential, "")
        if not found:
            raise RewardConfigError(
                f"the reward service's token is missing: set the environment variable {self.credential} on every "
                "machine that evaluates (credential=None where the service takes no token)"
            )
        if not found.isascii() or not found.isprintable() or " " in found:
            raise RewardConfigError(
                f"the environment variable {self.credential} holds a character that can't stand in a bearer token "
                "(a line break or blank at its end, often)"
            )
        return found


def _revision_faults(revision: object) -> list[str]:
    if isinstance(revision, str) and revision.strip() == REVISION_SENTINEL:
        stands_for = "stands for the revision that you deployed: set it to the immutable revision of the scorer"
        return [f"provider_revision: {REVISION_SENTINEL!r} {stands_for} (an image digest, a commit)"]
    return text_faults("provider_revision", revision)
