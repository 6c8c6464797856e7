# SPDX-License-Identifier: Apache-2.0
"""Catalogs that let a secret out. The provider is named ``it``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posttrain.rewards import (
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
)

Catalog = dict[str, RewardProviderSpec]


class Quiet:
    """Pays every candidate 1, and does nothing else."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """1 each."""
        ones = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": 1.0})) for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(ones))


def _made(factory: Callable[[], Any] = Quiet, **fields: Any) -> Catalog:
    return {"it": RewardProviderSpec(factory=factory, **{"revision": "1", "terms": ("t",), **fields})}


def _after(deed: Callable[[], Any]) -> Catalog:
    """A provider whose factory does something first."""

    def factory() -> Quiet:
        deed()
        return Quiet()

    return _made(factory)


def secret_in_identity() -> Catalog:
    """The identity holds a key in place of its name."""
    key = os.environ["JUDGE_API_KEY"]
    return _made(semantic_identity={"url": "https://judge", "headers": [{"Authorization": key}]})


def secret_in_key() -> Catalog:
    """A key of the identity is itself a secret."""
    return _made(semantic_identity={os.environ["JUDGE_API_KEY"]: 1})


def secret_from_file() -> Catalog:
    """The secret comes into the environment only when the catalog is loaded."""
    os.environ["LATE_TOKEN"] = "-".join(["late", "arrival", "0001"])
    return _made(revision=f"1+{os.environ['LATE_TOKEN']}")


def secret_in_error() -> Catalog:
    """The factory tells its key when it fails."""

    def deed() -> None:
        raise ValueError(f"refused {os.environ['JUDGE_API_KEY']} (request {os.environ['JUDGE_API_KEY'][:14]}...)")

    return _after(deed)


def secret_where_it_is_cut() -> Catalog:
    """Prints so much that only the end is kept, which begins within its key."""
    key, end = os.environ["JUDGE_API_KEY"], "\nthe last words\n"
    sys.stdout.write(f"{key}{'y' * ((1 << 16) + 10 - len(key) - len(end))}{end}")
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def private_key_printed() -> Catalog:
    """Prints a private key of many lines, then dies."""
    lines = [f"line-{number:02}-of-the-key" for number in range(40)]
    sys.stdout.write("\n".join(["-----BEGIN PRIVATE KEY-----", *lines]) + "\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def secret_printed() -> Catalog:
    """Prints its key and its command line, then dies."""
    Path(f"argv.{os.getpid()}").write_bytes(Path("/proc/self/cmdline").read_bytes())
    sys.stdout.write(f"using {os.environ['JUDGE_API_KEY']}\n")
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()
