# SPDX-License-Identifier: Apache-2.0
"""Real servers as processes of their own, real clients, and a real Redis."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.driving import Served, start

ServeIt = Callable[..., Served]

# Scorers and providers that a person could have written, good and bad ones.
SCORERS = '''
import ctypes, os, sys, time

def red(array, info):
    return float(array[..., 0].mean())

def told(array, info):
    return {"length": len(info["prompt"]), "index": info["index"], "samples": info["samples"]}

def fps(array, info):
    return info["video_fps"]

def moody(array, info):
    """What it does stands in the prompt."""
    mood = info["prompt"]
    if mood == "hang":
        time.sleep(600)
    if mood == "die":
        os.kill(os.getpid(), 9)
    if mood == "segfault":
        ctypes.string_at(0)
    if mood == "exit":
        sys.exit(0)
    if mood == "grow":
        hoard = [bytearray(b"x") * (64 << 20) for _ in range(100)]
    if mood == "raise":
        raise ValueError("no such mood, " + os.environ.get("SCORER_API_KEY", ""))
    if mood == "print":
        print("a line of the scorer's")
    return {"nan": float("nan"), "inf": float("inf"), "none": None, "text": "0.5", "true": True, "empty": {},
            "list": [0.5], "series": {"a": 1, "b": 2.5}, "big": 10**400}.get(mood, 0.25)
'''

CATALOG = """
import os, time
from functools import partial
from posttrain.rewards import (MetricContribution, ProviderExecution, RewardConfigError, RewardProviderResult,
    RewardProviderSpec, RewardUnavailableError, map_candidates)

def score(candidate, context):
    text = candidate.completion
    if text == "hang":
        time.sleep(600)
    if text == "die":
        os.kill(os.getpid(), 9)
    if text == "down":
        raise RewardUnavailableError("503 from the judge")
    if text == "key":
        raise RewardConfigError("the judge refused the key " + os.environ.get("JUDGE_API_KEY", ""))
    if text == "raise":
        raise KeyError(text)
    if text == "nan":
        return RewardProviderResult({"length": float("nan"), "same": 0.0})
    same = float(repr(tuple(context.reference["answer"])) == "(1, 1.0, 'é')")
    return RewardProviderResult({"length": float(len(text)), "same": same},
                                {"words": MetricContribution.mean(len(text.split()))})

def slow(candidate, context):
    time.sleep(float(candidate.completion))
    return RewardProviderResult({"slow": 1.0})

class Unclosed:
    def evaluate(self, request):
        return map_candidates(lambda candidate, context: RewardProviderResult({"one": 1.0})).evaluate(request)
    def open(self):
        pass
    def close(self):
        raise ValueError("it can't be closed")

def dying():
    os.kill(os.getpid(), 9)

def stuck():
    time.sleep(600)

def catalog():
    return {
        **{name: RewardProviderSpec(factory=factory, revision="1", terms=("one",))
           for name, factory in (("unclosed", Unclosed), ("dying", dying), ("stuck", stuck))},
        "lengths": RewardProviderSpec(factory=partial(map_candidates, score), revision="7",
            terms=("length", "same"), needs=("reference",), diagnostics=("words",), semantic_identity={"a": 1}),
        "slow": RewardProviderSpec(factory=partial(map_candidates, slow), revision="1", terms=("slow",)),
        "local": RewardProviderSpec(factory=partial(map_candidates, slow), revision="1", terms=("local",),
            execution=ProviderExecution(rank_local=True)),
    }
"""


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that servers run in, with modules `my_scorers` and `my_rewards`, and a spool folder."""
    folder = tmp_path_factory.mktemp("workplace")
    (folder / "my_scorers.py").write_text(SCORERS)
    (folder / "slow_scorers.py").write_text("import time\ntime.sleep(600)\n")
    (folder / "my_rewards.py").write_text(CATALOG)
    (folder / "spool").mkdir()
    return folder


@pytest.fixture
def serve_it(workplace: Path) -> Iterator[ServeIt]:
    """Start `posttrain serve` with these flags, on a free port; it is ended with the test."""
    running: list[Served] = []

    def run(*flags: str, **environment: str) -> Served:
        running.append(start(workplace, *flags, **environment))
        return running[-1]

    yield run
    for each in running:
        each.end()


OWN = (
    *("--image-scorer", "red=my_scorers:red", "--image-scorer", "told=my_scorers:told"),
    *("--image-scorer", "moody=my_scorers:moody", "--video-scorer", "fps=my_scorers:fps"),
)


@pytest.fixture(scope="session")
def shared(workplace: Path) -> Iterator[Served]:
    """One server for every test that leaves it as it was: no token, own scorers and providers, short deadlines."""
    served = start(
        workplace,
        *OWN,
        *("--catalog", "my_rewards:catalog", "--scorer-timeout", "2", "--group-timeout", "2", "--spool-dir", "spool"),
        *("--replica-id", "rep-7", "--max-body-mib", "4", "--max-group-mib", "1", "--drain", "0.2"),
        SCORER_API_KEY="scorer-key-f00d-123",
        JUDGE_API_KEY="judge-key-beef-456",
    )
    yield served
    assert served.end() == 0, served.log


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real Redis of our own, with a password, on a free port."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(
        [*command, "--requirepass", "pass-of-redis-123", "--dir", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "Ready to accept connections" in line:
            break
    else:
        pytest.fail(f"redis-server ended with {process.wait()}")
    yield f"redis://:pass-of-redis-123@127.0.0.1:{port}/0"
    process.terminate()
    process.wait(30)
    process.stdout.close()


@pytest.fixture
def python() -> list[str]:
    """The command that runs `posttrain` in another process."""
    return [sys.executable, "-m", "posttrain"]


@pytest.fixture
def plain_environment() -> dict[str, str]:
    """This process's environment."""
    return dict(os.environ)
