# SPDX-License-Identifier: Apache-2.0
"""A fresh process: constructs the selected providers twice, as a reward actor would, and tells what that did.

Run as `python -P -u -m posttrain.runs.checks.fresh` with a request on standard input. It tells each step before it
takes it, so that the one who asked knows where a hang or a kill has left it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, final

import msgspec

from posttrain.errors import RewardError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.construct import construct_provider
from posttrain.runs.checks.construction import Construction, construction_of, origin_of
from posttrain.runs.checks.contained import contained
from posttrain.runs.checks.credentials import Credentials, encodable
from posttrain.runs.checks.messages import Answer, Fault, Message, Request, Step
from posttrain.runs.checks.watch import Watch

__all__ = ["HEAVY", "main"]

HEAVY: Final = frozenset({
    "accelerate", "cupy", "cv2", "datasets", "deepspeed", "diffusers", "jax", "keras", "langchain", "litellm",
    "matplotlib", "mlflow", "nltk", "onnxruntime", "pandas", "peft", "ray", "scipy", "sentence_transformers",
    "sglang", "sklearn", "spacy", "tensorflow", "torch", "torchaudio", "torchvision", "transformers", "triton", "trl",
    "vllm", "wandb",
})  # fmt: skip
"""Packages that take long to import, or much memory."""

_SHOWN: Final = 5


@final
class _Sender:
    """Writes messages to a descriptor that no other process gets."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)  # noqa: FBT003  # it takes no keyword
        self._descriptor = descriptor
        # Reentrant, since an audit event may come in the middle of a message.
        self._lock = threading.RLock()

    def send(self, message: Message) -> None:
        """Write one message as a line."""
        line = memoryview(msgspec.json.encode(message) + b"\n")
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]


@final
class _Rounds:
    """Constructs everything, and remembers what came of it."""

    def __init__(self, request: Request, sender: _Sender) -> None:
        self._request = request
        self._sender = sender
        self._watch = Watch(sender.send)
        self._environment = dict(os.environ)
        self.constructions: list[Construction] = []
        self.faults: list[Fault] = []
        self.origin: str | None = None

    def run(self) -> float:
        """Both rounds; gives the seconds of the first."""
        self._watch.begin()
        started = perf_counter()
        self._round(1)
        seconds = perf_counter() - started
        self._round(2)
        self._watch.doing = ""
        return seconds

    def _round(self, number: int) -> None:
        request = self._request
        base = None if request.base is None else Path(request.base)
        catalog = self._tried(number, None, partial(load_catalog, request.catalog, base=base))
        if catalog is None:
            return
        self.origin = origin_of(catalog)
        for name in request.providers:
            made = self._tried(number, name, partial(self._constructed, number, catalog, name))
            if made is not None:
                self.constructions.append(made)

    def _constructed(self, number: int, catalog: RewardCatalog, name: str) -> Construction:
        spec = catalog.spec(name)
        provider = construct_provider(name, spec)
        return construction_of(name, spec, provider, Credentials(self._environment, os.environ), number=number)

    def _tried(self, number: int, provider: str | None, call: Callable[[], Any]) -> Any:
        doing = "the catalog was loaded" if provider is None else f"provider {provider!r} was constructed"
        self._watch.doing = doing
        self._sender.send(Step(doing))
        try:
            with contained("the catalog" if provider is None else "its factory", provider=provider):
                made = call()
        except RewardError as error:
            made = None
            self.faults.append(Fault(provider=provider, text=encodable(str(error)), round=number))
        self._watch.look()
        return made


def main() -> None:
    """Answer one request, then end without any of the operator's clean-up."""
    # Whoever waits too long asks where it hangs; a crash says so by itself.
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    # Behind everything else, where a local file can't hide an installed module; `posttrain` does the same.
    sys.path.append(str(Path.cwd()))
    pid, sender, before = os.getpid(), _Sender(request.answer_to), set(sys.modules)
    rounds = _Rounds(request, sender)
    seconds = rounds.run()
    # A fork of the operator's code that goes on does not answer for it.
    if os.getpid() == pid:
        new = [name for name in sys.modules if name not in before]
        sender.send(_answer(rounds, seconds, new))
    os._exit(0)


def _answer(rounds: _Rounds, seconds: float, new: list[str]) -> Answer:
    packages = Counter(name.partition(".")[0] for name in new)
    # A module without a spec was made on the spot, not imported.
    heavy = sorted(name for name in packages.keys() & HEAVY if getattr(sys.modules.get(name), "__spec__", None))
    others = [name for name, _ in packages.most_common() if name not in sys.stdlib_module_names]
    return Answer(
        origin=rounds.origin,
        constructions=tuple(rounds.constructions),
        faults=tuple(rounds.faults),
        seconds=seconds,
        heavy=tuple(heavy),
        packages=tuple(others[:_SHOWN]),
        modules=len(new),
    )


if __name__ == "__main__":
    main()
