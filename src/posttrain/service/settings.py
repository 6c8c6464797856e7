# SPDX-License-Identifier: Apache-2.0
"""Everything that can be set of a service, checked when it is made."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, final
from urllib.parse import urlsplit

from posttrain.errors import RewardConfigError, describe, listing
from posttrain.service.scorers.spec import ScorerSpec

__all__ = ["PENDING_FORMS", "ServiceSettings"]

PENDING_FORMS: Final = ("legacy_400", "202")
"""What a pull is answered while there is no result: 400 ``Not found scores for …``, or 202 ``pending``."""

_VISIBLE: Final = re.compile("[!-~]{1,512}", re.ASCII)

_ABOVE_ZERO: Final = (
    "max_body_bytes", "max_line_bytes", "max_samples", "max_queue", "max_spool_bytes", "upload_timeout_s",
    "scorer_timeout_s", "result_ttl_s", "max_results", "max_group_bytes", "max_groups", "group_workers",
    "group_timeout_s", "start_timeout_s",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How to serve.

    Raises:
        RewardConfigError: naming every value that is not valid.
    """

    host: str = "127.0.0.1"
    """Address to listen on. Without a token only a loopback address is taken, unless `insecure`."""
    port: int = 8080
    """0: any free port."""
    token_env: str | None = None
    """Name of the environment variable that holds the bearer token; None: no token is asked for."""
    insecure: bool = False
    """Serve other machines without a token."""
    pending: str = "legacy_400"
    """One of `PENDING_FORMS`."""
    replica_id: str | None = None
    """Sent with each uuid, for a gateway that routes pulls by it."""
    scorers: tuple[ScorerSpec, ...] = ()
    """The user's own scorers, beside the built-in ones."""
    max_body_bytes: int = 512 << 20
    """Largest enqueue; a clip of 121 x 704 x 1280 takes 312 MiB."""
    max_line_bytes: int = 1 << 20
    """Longest line of JSON."""
    max_samples: int = 64
    """Most samples of one array."""
    max_queue: int = 64
    """Most tasks (an array and one scorer) that are accepted and not scored; above it enqueue answers 429."""
    spool_dir: Path | None = None
    """Where arrays wait; None: the platform's temporary directory."""
    max_spool_bytes: int = 4 << 30
    """Most bytes of waiting arrays; above it enqueue answers 429."""
    upload_timeout_s: float = 600.0
    """Seconds that one upload may take."""
    scorer_timeout_s: float = 60.0
    """Seconds that a scorer may take for one array; then its process is killed."""
    memory_limit_mib: int | None = None
    """Resident memory of one worker process above which it is killed; None: not limited."""
    start_timeout_s: float = 60.0
    """Seconds that a worker process may take to start."""
    redis_url: str | None = None
    """Where results are kept; without a password. None, and no `redis_env`: in memory."""
    redis_env: str | None = None
    """Name of the environment variable that holds that URL, which may have a password."""
    result_ttl_s: float = 3600.0
    """Seconds that a finished result can be pulled."""
    max_results: int = 100_000
    """Most finished results in memory; the oldest go first, and are counted."""
    catalog: str | None = None
    """Catalog of `POST /v1/score`, ``package.module:factory``; None: the built-in providers."""
    max_group_bytes: int = 8 << 20
    """Largest body of `POST /v1/score`."""
    max_groups: int = 16
    """Most groups that are accepted and not scored; above it `POST /v1/score` answers 429."""
    group_workers: int = 1
    """Worker processes a provider, started with its first group."""
    group_timeout_s: float = 60.0
    """Seconds that a group may take once it has a worker; then the worker is killed."""
    drain_s: float = 10.0
    """Seconds that accepted work has to end after SIGTERM."""

    def __post_init__(self) -> None:
        """Refuse what can't be served, all at once."""
        if faults := list(self._faults()):
            raise RewardConfigError(f"the service can't be set up like this:\n{listing(faults)}")

    def _faults(self) -> Iterator[str]:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _ABOVE_ZERO and not (value > 0 and math.isfinite(value)):
                yield f"{field.name}: expected a number above 0, got {describe(value)}"
        if not 0 <= self.drain_s < math.inf:
            yield f"drain_s: expected a number of at least 0, got {describe(self.drain_s)}"
        if self.memory_limit_mib is not None and self.memory_limit_mib <= 0:
            yield f"memory_limit_mib: expected a number above 0, got {describe(self.memory_limit_mib)}"
        if not 0 <= self.port < 1 << 16:
            yield f"port: expected 0 to 65535, got {self.port}"
        if self.pending not in PENDING_FORMS:
            yield f"pending: expected one of {', '.join(PENDING_FORMS)}, got {describe(self.pending)}"
        if self.replica_id is not None and not _VISIBLE.fullmatch(self.replica_id):
            yield f"replica_id: a client sends it in a header: expected visible ASCII, got {describe(self.replica_id)}"
        if self.redis_url is not None and self.redis_env is not None:
            yield "redis_url and redis_env: give one of them"
        if self.redis_url is not None and _has_password(self.redis_url):
            yield "redis_url: it holds a password, which others would see: put the URL into a variable, give its name"
        if self.token_env is None and not self.insecure and not _is_loopback(self.host):
            yield (
                f"host: {self.host!r} can be reached by other machines, and no token is asked for: name the variable "
                "that holds one (--token-env), or say --insecure"
            )


def _has_password(url: str) -> bool:
    try:
        return urlsplit(url).password is not None
    except ValueError:
        return True


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
