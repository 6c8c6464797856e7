# SPDX-License-Identifier: Apache-2.0
"""Catalogs of which each does one thing that it must not, when it is called. The provider is always named ``it``."""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from posttrain.rewards import (
    ProviderExecution,
    RewardCandidateResult,
    RewardGroupRequest,
    RewardGroupResult,
    RewardProviderResult,
    RewardProviderSpec,
    RewardUnavailableError,
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


def process_that_stays() -> Catalog:
    """The provider's factory starts a program and leaves it running."""
    return _after(lambda: _remember(subprocess.Popen(["sleep", "60"]).pid))


def fork_that_stays() -> Catalog:
    """The catalog forks, and the child sits on everything that is open."""
    if (pid := os.fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    return _made()


def fork_in_c_that_stays() -> Catalog:
    """The same where no hook of the interpreter runs, so that the child holds the pipe of the answer."""
    if (pid := ctypes.CDLL(None).fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    return _made()


def fork_that_goes_on() -> Catalog:
    """The catalog forks, and both go on; the child is the quicker one."""
    if pid := os.fork():
        time.sleep(0.3)
    return _made(revision="parent" if pid else "child")


def fork_in_c_then_dies() -> Catalog:
    """A child holds the pipe of the answer, and the process itself is gone."""
    if (pid := ctypes.CDLL(None).fork()) == 0:
        time.sleep(60)
        os._exit(0)
    _remember(pid)
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def dies() -> Catalog:
    """The process kills itself."""
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


def leaves() -> Catalog:
    """The provider's factory ends the process without a word."""
    return _after(lambda: os._exit(0))


def becomes_another() -> Catalog:
    """The process becomes another program."""
    os.execvp("true", ["true"])  # noqa: S606  # the misdeed itself


def crashes() -> Catalog:
    """The process has a memory fault."""
    ctypes.string_at(0)
    return _made()


def scribbles() -> Catalog:
    """Writes into every descriptor that there is."""
    for descriptor in range(3, 64):
        with suppress(OSError):
            os.write(descriptor, b"hello?\n")
    return _made()


def closes_everything() -> Catalog:
    """Closes every descriptor, as daemons do."""
    os.closerange(3, 256)
    return _made()


def helped() -> Catalog:
    """Has the standard library start its helper for shared resources."""
    multiprocessing.get_context("spawn").Lock()
    return _made()


def hangs() -> Catalog:
    """The catalog factory never returns."""
    while True:
        time.sleep(0.01)


def remembers_and_hangs() -> Catalog:
    """Never returns, and tells which process does not."""
    _remember(os.getpid())
    return hangs()


def prints() -> Catalog:
    """Prints on both streams, and straight to the descriptors."""
    sys.stdout.write("chatter by print\n")
    sys.stderr.write("chatter on stderr\n")
    os.write(1, b"chatter by write\n")
    return _made()


def prints_and_dies() -> Catalog:
    """Says something before it is gone."""
    sys.stdout.write("the last words\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return _made()


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


class Managed(Quiet):
    """Writes down when it is opened and closed."""

    def open(self) -> None:
        """Note it."""
        _note("open")

    def close(self) -> None:
        """Note it."""
        _note("close")


def managed() -> Catalog:
    """A provider with a life."""
    return _made(Managed)


class Unopened(Quiet):
    """Its service is down."""

    def open(self) -> None:
        """Fail."""
        raise RewardUnavailableError("503 from the judge")

    def close(self) -> None:
        """Never called."""


def does_not_open() -> Catalog:
    """Opening fails."""
    return _made(Unopened)


class Picky(Quiet):
    """Scores only what is long enough; writes down the size of each group."""

    def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
        """The length each, or an error."""
        _note(f"{len(request.candidates)}:{request.candidates[0].finish_reason}")
        if any(len(each.completion) < 2 for each in request.candidates):
            raise ValueError("too short")
        items = [
            RewardCandidateResult(each.trajectory_id, RewardProviderResult({"t": float(len(each.completion))}))
            for each in request.candidates
        ]
        return RewardGroupResult(request.group_id, tuple(items))


def picky() -> Catalog:
    """Scores some completions and refuses others."""
    return _made(Picky, needs=("prompt", "reference"))


def down() -> Catalog:
    """The judge does not answer."""

    class Down(Quiet):
        def evaluate(self, request: RewardGroupRequest) -> RewardGroupResult:
            _note("asked")
            raise RewardUnavailableError("503 from the judge")

    return _made(Down)


def two_of_one_term() -> Catalog:
    """Two providers that can't be selected together."""
    return {**_made(), "that": RewardProviderSpec(factory=Quiet, revision="1", terms=("t",))}


def two() -> Catalog:
    """Two providers that can."""
    return {**_made(), "that": RewardProviderSpec(factory=Quiet, revision="2", terms=("u",), needs=("reference",))}


def _remember(pid: int) -> None:
    Path(f"left.{pid}").touch()


def _note(text: str) -> None:
    with Path("notes").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
