# SPDX-License-Identifier: Apache-2.0
"""What `posttrain serve` costs: requests a second, and seconds from the start of an upload to its score.

    python benchmarks/service.py [--requests 300] [--clip]

One server and one client on this machine, one connection, nothing in parallel. Beside each row stands what the same
bytes cost without us: a bare socket that answers at once, and the scorer's function on the array in memory. `--clip`
adds the clip of 121 x 704 x 1280. Ratios hold within a run only.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import platform
import re
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from posttrain.service.scorers.image import brightness
from posttrain.service.scorers.video import motion

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def _body(array: np.ndarray[Any, Any], reward: str) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    line: dict[str, Any] = {"media_type": "image", "reward_fn": {reward: 1.0}}
    if array.ndim == 5:
        line = {**line, "media_type": "video", "video_infos": [{"video_fps": 16}]}
    return json.dumps(line).encode() + b"\n" + file.getvalue()


def _ask(connection: http.client.HTTPConnection, path: str, body: Any, headers: dict[str, str]) -> tuple[int, bytes]:
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def _scored(connection: http.client.HTTPConnection, body: bytes, reward: str) -> float:
    """Seconds from the first byte of the upload to the score."""
    started = perf_counter()
    status, text = _ask(connection, "/api/reward/enqueue", body, {})
    if status != 200:
        raise SystemExit(text.decode())
    form = f"uuid={json.loads(text)['uuid']}&type={reward}"
    while _ask(connection, "/api/reward/pull", form, FORM)[0] != 200:
        pass
    return perf_counter() - started


def _sink(listening: socket.socket) -> None:
    """Read requests with a length and answer each at once."""
    connection, _ = listening.accept()
    with connection, connection.makefile("rb") as stream:
        while head := stream.readline():
            length = 0
            while (line := stream.readline()) not in {b"\r\n", b""}:
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            while length:
                length -= len(stream.read(min(length, 1 << 20)))
            if head:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")


def _median(call: Callable[[], float], repeats: int) -> float:
    return statistics.median(call() for _ in range(repeats))


def _timed(call: Callable[[], Any]) -> float:
    started = perf_counter()
    call()
    return perf_counter() - started


def _peak_mib(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def _rows(connection: http.client.HTTPConnection, bare: http.client.HTTPConnection, requests: int, clip: bool) -> None:  # noqa: FBT001  # a flag of the command line
    rng = np.random.default_rng(0)
    ping = _median(lambda: _timed(lambda: _ask(connection, "/api/reward/ping", "info_data=x", FORM)), requests)
    floor = _median(lambda: _timed(lambda: _ask(bare, "/", "info_data=x", FORM)), requests)
    print(f"ping                     {1 / ping:8.0f} requests/s   bare socket {1 / floor:8.0f}   {ping / floor:5.1f} x")
    sizes: list[tuple[str, tuple[int, ...], str, Callable[..., float], int]] = [
        ("image 64 x 64", (1, 64, 64, 3), "brightness", brightness, requests),
        ("image 1024 x 1024", (1, 1024, 1024, 3), "brightness", brightness, max(3, requests // 10)),
    ]
    if clip:
        sizes.append(("clip 121 x 704 x 1280", (1, 3, 121, 704, 1280), "motion", motion, 3))
    for name, shape, reward, function, repeats in sizes:
        array = rng.integers(0, 256, shape, np.uint8)
        body = _body(array, reward)
        _scored(connection, body, reward)
        whole = _median(lambda: _scored(connection, body, reward), repeats)  # noqa: B023  # called in this turn
        sent = _median(lambda: _timed(lambda: _ask(bare, "/", body, {})), repeats)  # noqa: B023  # as above
        alone = _median(lambda: _timed(lambda: function(array[0], {})), repeats)  # noqa: B023  # as above
        print(
            f"{name:24} {whole * 1e3:8.1f} ms to the score   bytes sent alone {sent * 1e3:8.1f} ms   "
            f"scorer alone {alone * 1e3:8.1f} ms   {whole / (sent + alone):5.1f} x"
        )


def main() -> None:
    """Start a server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--clip", action="store_true")
    options = parser.parse_args()
    command = [sys.executable, "-m", "posttrain", "serve", "--port", "0", "--drain", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        _measure(served, options.requests, options.clip)
    finally:
        served.terminate()
        code = served.wait(60)
    raise SystemExit(code)


def _measure(served: subprocess.Popen[str], requests: int, clip: bool) -> None:  # noqa: FBT001  # as above
    if served.stdout is None:
        raise SystemExit("no output")
    port = int(served.stdout.readline().rpartition(":")[2])
    print(f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_sink, args=(listening,), daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        bare = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=600)
        _rows(connection, bare, requests, clip)
        connection.close()
        bare.close()
    print(f"peak memory of the server process, {_peak_mib(served.pid):.0f} MiB")


if __name__ == "__main__":
    main()
