# SPDX-License-Identifier: Apache-2.0
"""Catalogs of which each breaks one rule when it is called. The provider is always named ``it``."""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from posttrain.rewards import (
    ProviderExecution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
)

Catalog = dict[str, RewardProviderSpec]

_called, _made_once, _turns = itertools.count(), itertools.count(), itertools.count()


class Quiet:
    """Pays every candidate 1, and does nothing else."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """1 each."""
        ones = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": 1.0})) for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(ones))


class Other(Quiet):
    """The same under another name."""


def _made(factory: Callable[[], Any] = Quiet, **fields: Any) -> Catalog:
    return {"it": RewardProviderSpec(factory=factory, **{"revision": "1", "terms": ("t",), **fields})}


def _after(deed: Callable[[], Any]) -> Catalog:
    """A provider whose factory does something first."""

    def factory() -> Quiet:
        deed()
        return Quiet()

    return _made(factory)


def sound() -> Catalog:
    """Nothing is wrong."""
    return _made(diagnostics=("calls",), execution=ProviderExecution(groups_in_flight=8, repeatable=True))


def raises() -> Catalog:
    """The catalog factory raises."""
    raise ValueError("no such judge")


def exits() -> Catalog:
    """The catalog factory ends the process politely."""
    sys.exit(0)


def factory_raises() -> Catalog:
    """The provider's factory raises."""
    return _after(lambda: 1 // 0)


def factory_exits() -> Catalog:
    """The provider's factory ends the process politely."""
    return _after(lambda: sys.exit("bye"))


def makes_junk() -> Catalog:
    """The provider has no evaluate."""
    return _made(object)


def half_a_character() -> Catalog:
    """The identity has no JSON text that could be hashed."""
    return _made(semantic_identity={"name": "\ud800"})


def raises_half_a_character() -> Catalog:
    """The error's own text can't be written down."""
    raise ValueError("\ud800")


def once_only() -> Catalog:
    """A second construction in the same process fails."""

    def deed() -> None:
        if next(_made_once):
            raise RuntimeError("registered already")

    return _after(deed)


def counts() -> Catalog:
    """Each call of the catalog gives another identity."""
    return _made(semantic_identity={"fixed": 1, "run": {"number": next(_called)}})


def set_order() -> Catalog:
    """The identity has the order of a set, which depends on the hash seed."""
    return _made(semantic_identity={"words": list({f"word {number}" for number in range(20)})})


def pid_in_revision() -> Catalog:
    """Each process has another revision."""
    return _made(revision=f"r{os.getpid()}")


def class_by_turns() -> Catalog:
    """The factory makes another class each time."""
    return _made(lambda: Quiet() if next(_turns) % 2 else Other())


def socket_in_catalog() -> Catalog:
    """The catalog factory makes a socket and closes it again."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
    return _made()


def socket_in_factory() -> Catalog:
    """The provider's factory asks for a connection that nobody accepts."""

    def deed() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.connect_ex(("127.0.0.1", 9))

    return _after(deed)


def looks_up() -> Catalog:
    """The provider's factory resolves a name."""
    return _after(lambda: socket.getaddrinfo("localhost", 80))


def socket_in_c() -> Catalog:
    """A library opens a socket where the interpreter does not see it."""
    return _after(lambda: ctypes.CDLL(None).socket(socket.AF_INET, socket.SOCK_DGRAM, 0))


def hostname() -> Catalog:
    """The machine's name is no network."""
    return _after(socket.gethostname)


def process_that_ends() -> Catalog:
    """The provider's factory runs a program to its end."""
    return _after(lambda: subprocess.run(["true"], check=True))


def slow() -> Catalog:
    """The provider's factory takes more than a second."""
    return _after(lambda: time.sleep(1.05))


def pulls_in_jax() -> Catalog:
    """The catalog imports a package that is heavy."""
    __import__("jax")
    return _made()


def on_the_gpu() -> Catalog:
    """The provider's factory leaves a CUDA context behind, says torch."""

    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

    def deed() -> None:
        torch: Any = type(sys)("torch")
        torch.cuda = Cuda
        sys.modules["torch"] = torch

    return _after(deed)
