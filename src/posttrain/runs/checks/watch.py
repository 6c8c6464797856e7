# SPDX-License-Identifier: Apache-2.0
"""Watches what a construction does to the outside: sockets, processes and GPUs. For a fresh process only.

The interpreter's audit events tell of what Python code does, with the line that did it. What a library does in C shows
in the descriptors and processes that are there afterwards, where the system has /proc.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any, Final, final

from posttrain.runs.checks.credentials import encodable
from posttrain.runs.checks.messages import Event, EventKind

__all__ = ["Watch", "device_signs", "open_descriptors"]

_HARMLESS: Final = frozenset({"socket.gethostname", "socket.getservbyname", "socket.getservbyport"})
"""Socket events that only look something up in this machine."""
_LIBRARY_PROBES: Final = frozenset({"socket.__new__", "socket.bind"})
"""What libraries do while they are imported, to learn whether the machine has IPv6."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PROCESSES: Final = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen",
})  # fmt: skip
_FORKS: Final = frozenset({"os.fork", "os.forkpty"})
"""What copies the whole process, so that two may go on from there."""
_DEVICES: Final = re.compile(r"/dev/(?:nvidia\w*(?:-\w+)*|nvidia-caps/.*|kfd|dri/renderD\d+|dxg|davinci\d+|accel.*)")
_STANDARD_LIBRARY: Final = os.path.dirname(os.__file__)  # noqa: PTH120  # pathlib would take longer, at each event
_OWN: Final = __name__.partition(".")[0]
_IMPORTING: Final = "<frozen importlib"
_BECOMES_ANOTHER: Final = 0.25
"""Seconds that a new process may take to become the program that it is to run."""
_MOST: Final = 50
"""Events of one kind that are reported, faults and others apart."""


@final
class Watch:
    """Reports each thing once, as soon as it is seen. It can't be taken off again: its process ends after it.

    Args:
        report: is called with each event, in whatever thread it happens.
    """

    def __init__(self, report: Callable[[Event], None]) -> None:
        self._report = report
        self._seen: set[tuple[str, ...]] = set()
        self._counts: Counter[tuple[EventKind, bool]] = Counter()
        self._before = set(open_descriptors().values())
        self._judged: set[str] = set()
        self.doing = ""
        """The step that events are put down to; empty: nothing is watched."""

    def begin(self) -> None:
        """Watch from now on."""
        sys.addaudithook(self._hear)

    def look(self) -> None:
        """Report what is there now that was not before: descriptors of sockets and GPUs, a CUDA context of torch."""
        descriptors = set(open_descriptors().values())
        for target in sorted(descriptors - self._before):
            # Of what Python code did, the event told more.
            if target.startswith("socket:") and not self._counts["socket", True]:
                self._tell("socket", "a socket is still open")
        for sign in device_signs(descriptors - self._before, sys.modules):
            self._tell("gpu", sign)
        for pid in sorted(set(_children()) - self._judged):
            self._judged.add(pid)
            if (name := _name_if_running(pid)) is not None:
                self._tell("process", f"{name} is still running")

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.doing:
            return
        if event in _PROCESSES:
            what = f"{event} {_program(args)}".strip()
            self._tell("process", what, inspect.currentframe(), is_fault=event in _FORKS)
        elif event.startswith("socket.") and event not in _HARMLESS:
            frame = inspect.currentframe()
            if not (event in _LIBRARY_PROBES and _is_harmless_bind(event, args) and _is_import_of_library(frame)):
                self._tell("socket", f"{event}{_address(args)}", frame)

    def _tell(self, kind: EventKind, what: str, frame: FrameType | None = None, *, is_fault: bool = True) -> None:
        place = _place(frame)
        key = (kind, what, place)
        if key in self._seen or self._counts[kind, is_fault] >= _MOST:
            return
        self._seen.add(key)
        self._counts[kind, is_fault] += 1
        what, place = encodable(what[:200]), encodable(place[:400])
        self._report(Event(kind=kind, what=what, during=self.doing, place=place, is_fault=is_fault))


def open_descriptors(folder: Path = Path("/proc/self/fd")) -> dict[str, str]:
    """Descriptor to what it is open on; empty where the system has no such folder."""
    found = {}
    try:
        names = os.listdir(folder)  # noqa: PTH208  # the names alone
    except OSError:
        return {}
    for name in names:
        try:
            found[name] = os.readlink(folder / name)  # noqa: PTH115  # a text, such as socket:[7]
        except OSError:
            continue  # the one that the listing itself had open
    return found


def device_signs(targets: set[str], modules: dict[str, Any]) -> list[str]:
    """Signs of a GPU that is in use, in words.

    Args:
        targets: what descriptors are open on.
        modules: the loaded modules; none is imported.
    """
    signs = [f"{target} is open" for target in sorted(targets) if _DEVICES.fullmatch(target)]
    cuda = getattr(modules.get("torch"), "cuda", None)
    if cuda is not None and cuda.is_initialized():
        signs.append("torch.cuda is initialized")
    return signs


def _children() -> Iterator[str]:
    """The processes that this one has started, by number, those that ended and were not waited for included."""
    for thread in Path("/proc/self/task").glob("*"):
        yield from _read(thread / "children").split()


def _name_if_running(pid: str) -> str | None:
    """Name of a process; None: it has ended, or is the standard library's own helper, which ends with this one."""
    own, deadline = _read(Path("/proc/self/cmdline")), monotonic() + _BECOMES_ANOTHER
    while True:
        name, _, rest = _read(Path(f"/proc/{pid}/stat")).partition("(")[2].rpartition(")")
        if rest.split()[:1] in (["Z"], ["X"], []):
            return None
        command = _read(Path(f"/proc/{pid}/cmdline"))
        # One that was started a moment ago is a copy of this one, then nothing, before it shows what it will be.
        if command not in {own, ""} or monotonic() > deadline:
            return None if "multiprocessing.resource_tracker" in command else name
        sleep(0.005)


def _read(file: Path) -> str:
    """What the system says in a file; nothing where its process, its thread or the file itself is not there."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _program(args: tuple[Any, ...]) -> str:
    """The program of a process event. Its arguments may hold anything, and are left out."""
    first = args[0] if args else ""
    text = os.fsdecode(first) if isinstance(first, (str, bytes, os.PathLike)) else ""
    return text.split()[0] if text.split() else ""


def _address(args: tuple[Any, ...]) -> str:
    """Where a socket event goes, as far as the event says so."""
    target = args[1] if len(args) > 1 else None
    if isinstance(target, tuple) and len(target) >= 2:
        return f" to {target[0]}:{target[1]}"
    if isinstance(target, str):
        return f" to {target}"
    return f" of {args[0]}" if args and isinstance(args[0], str) else ""


def _is_harmless_bind(event: str, args: tuple[Any, ...]) -> bool:
    if event != "socket.bind":
        return True
    address = args[1] if len(args) > 1 else None
    return isinstance(address, tuple) and len(address) >= 2 and address[0] in _LOOPBACK and address[1] == 0


def _is_import_of_library(frame: FrameType | None) -> bool:
    """Whether a library does it on its own while it is imported."""
    frame = frame and frame.f_back  # the first is our own
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_IMPORTING):
            return True
        if not _is_library(file) and not file.startswith(_STANDARD_LIBRARY):
            return False
        frame = frame.f_back
    return False


def _is_library(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def _place(frame: FrameType | None) -> str:
    """The innermost line that is the author's; where there is none, the innermost that is a library's."""
    library = ""
    while frame is not None:
        file = frame.f_code.co_filename
        is_own = str(frame.f_globals.get("__name__", "")).partition(".")[0] == _OWN
        if not is_own and not file.startswith("<"):
            place = f"{file}:{frame.f_lineno}, in {frame.f_code.co_name}"
            if _is_library(file):
                library = library or place
            elif not file.startswith(_STANDARD_LIBRARY):
                return place
        frame = frame.f_back
    return library
