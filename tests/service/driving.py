# SPDX-License-Identifier: Apache-2.0
"""Drive a real `posttrain serve` process from outside: HTTP by the standard library, uploads by the real curl."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

__all__ = ["Answer", "Served", "body_of", "children_of", "image_line", "npy", "start", "video_line"]


def children_of(pid: int) -> set[int]:
    """Process ids of the children of a process, those that wait to be reaped too."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end while we look.
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


def npy(
    *shape: int, fill: int | bytes = 51, descr: str = "|u1", order: bool = False, version: int = 1, size: int = 1
) -> bytes:
    """The bytes of a `.npy` file, written by hand: numpy itself would not write the bad ones."""
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape!r}, }}"
    prefix = 10 if version == 1 else 12
    text += " " * (-(prefix + len(text) + 1) % 64) + "\n"
    count = size
    for side in shape:
        count *= side
    data = fill if isinstance(fill, bytes) else bytes([fill]) * count
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def image_line(*rewards: str, **more: Any) -> dict[str, Any]:
    """The line of an image."""
    return {"media_type": "image", "reward_fn": dict.fromkeys(rewards or ("brightness",), 1.0), **more}


def video_line(*rewards: str, fps: float = 16.0, samples: int = 1, **more: Any) -> dict[str, Any]:
    """The line of a video."""
    weights, infos = dict.fromkeys(rewards or ("motion",), 1.0), [{"video_fps": fps}] * samples
    return {"media_type": "video", "reward_fn": weights, "video_infos": infos, **more}


def body_of(line: Any, array: bytes) -> bytes:
    """The body of an enqueue."""
    return (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" + array


class Served:
    """One `posttrain serve` process."""

    def __init__(self, folder: Path, flags: tuple[str, ...], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "posttrain", "serve", "--port", "0", *flags],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.log = ""
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        found = re.fullmatch(r"posttrain serve: listening on (http://\S+)\n", self.first_line)
        if found is None:
            self.process.wait(60)
            self._reader.join(10)
        self.url = found[1] if found else ""

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 0)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read().decode())
        finally:
            connection.close()

    def enqueue(self, line: Any, array: bytes, **headers: str) -> Answer:
        """Enqueue as the client does."""
        return self.ask("POST", "/api/reward/enqueue", body_of(line, array), **headers)

    def form(self, path: str, fields: dict[str, str], **headers: str) -> Answer:
        """Post a form."""
        headers.setdefault("Content_Type", "application/x-www-form-urlencoded")
        return self.ask("POST", path, urlencode(fields), **headers)

    def pull(self, uuid: str, reward: str, **headers: str) -> Answer:
        """One pull."""
        return self.form("/api/reward/pull", {"uuid": uuid, "type": reward}, **headers)

    def result(self, uuid: str, reward: str, *, within_s: float = 60.0, **headers: str) -> Any:
        """Pull until there is a result."""
        deadline = monotonic() + within_s
        while (answer := self.pull(uuid, reward, **headers)).status != 200:
            assert answer.status in {202, 400}, answer
            assert monotonic() < deadline, (answer, self.log)
            sleep(0.02)
        return answer.json

    def scored(self, line: Any, array: bytes, reward: str, **headers: str) -> Any:
        """Enqueue and pull until there is a result."""
        answer = self.enqueue(line, array, **headers)
        assert answer.status == 200, answer
        return self.result(answer.json["uuid"], reward, within_s=60.0, **headers)

    def group(self, group: Any, **headers: str) -> Answer:
        """Score a group."""
        body = group if isinstance(group, bytes) else json.dumps(group).encode()
        return self.ask("POST", "/v1/score", body, Content_Type="application/json", **headers)

    def children(self) -> set[int]:
        """Process ids of its children that live."""
        return children_of(self.process.pid)

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End it; gives its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(60)
        self._reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


def start(folder: Path, *flags: str, **environment: str) -> Served:
    """Start a server and wait until it takes requests; one that ended instead has no `url`."""
    return Served(folder, flags, environment)
