# SPDX-License-Identifier: Apache-2.0
"""What it costs to upload one decoded video, 121x704x1280 in uint8: time, and memory of curl and of this process.

    python benchmarks/media_upload.py [--repeats 7]

Every row sends the same file of 327 MB to a receiver on loopback, in a process of its own, that reads and forgets.
Beside `CurlTransport` stand a bare socket with `sendfile`, the least that a sender can do, and `curl --data-binary`,
which reads the file into memory first. Rows take turns; seconds are medians; ratios hold within a run only. Memory is
the largest that the process held after its start (VmHWM; Linux).
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from posttrain.media.transport import Answer, CurlTransport, FileBody, Post
from posttrain.media.wire import enqueue_line

SHAPE: Final = (1, 3, 121, 704, 1280)
PATH: Final = "/api/reward/enqueue"
LEAST: Final = "a bare socket with sendfile"

_RECEIVER: Final = """
import re, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
buffer = bytearray(1 << 20)
while True:
    client, _ = server.accept()
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(65536)
    head, _, started = head.partition(b"\\r\\n\\r\\n")
    left = int(re.search(rb"(?i)content-length: *(\\d+)", head)[1]) - len(started)
    while left > 0:
        got = client.recv_into(buffer)
        if not got:
            break
        left -= got
    client.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 12\\r\\nConnection: close\\r\\n\\r\\n{"uuid":"u"}')
    client.close()
"""


def _spooled(folder: Path | None) -> tuple[int, int]:
    """Descriptor and length of the enqueue body, in a file without a name."""
    line = enqueue_line(media_type="video", reward="dance_grpo", fps=16)
    # The .npy header of an array of five dimensions has 128 bytes.
    nbytes = len(line) + 128 + math.prod(SHAPE)
    file = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115  # lives as long as the program
    descriptor = os.dup(file.fileno())
    file.close()
    block, left = os.urandom(1 << 20), nbytes - len(line)
    os.write(descriptor, line)
    while left:
        left -= os.write(descriptor, block[:left])
    return descriptor, nbytes


def _through_curl(port: int, descriptor: int, nbytes: int) -> None:
    request = Post(
        url=f"http://127.0.0.1:{port}{PATH}",
        body=FileBody(descriptor, nbytes),
        content_type="application/octet-stream",
        connect_timeout_s=10.0,
        timeout_s=120.0,
        max_response_bytes=1 << 20,
    )
    found = TRANSPORT.post(request)
    if not isinstance(found, Answer) or found.status != 200:
        raise RuntimeError(f"the upload failed: {found}")


def _data_binary(port: int, descriptor: int, _: int) -> None:
    command = ["curl", "-q", "-s", "-H", "Expect:", "--data-binary", f"@/dev/fd/{descriptor}"]
    subprocess.run(
        [*command, f"http://127.0.0.1:{port}{PATH}"], check=True, pass_fds=(descriptor,), stdout=subprocess.DEVNULL
    )


def _bare_socket(port: int, descriptor: int, nbytes: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {nbytes}\r\n\r\n".encode())
        at = 0
        while at < nbytes:
            at += os.sendfile(client.fileno(), descriptor, at, nbytes - at)
        if not client.recv(4096).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("the upload failed")


TRANSPORT = CurlTransport()
ROWS: dict[str, Callable[[int, int, int], None]] = {
    LEAST: _bare_socket,
    "CurlTransport": _through_curl,
    "curl --data-binary": _data_binary,
}


def _peak_of(row: str, port: int, descriptor: int) -> tuple[float, float]:
    """Largest memory of this row's curl, and what its caller's grew by, in MiB, in a fresh process."""
    command = [sys.executable, __file__, "--row", row, "--port", str(port), "--descriptor", str(descriptor)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, pass_fds=(descriptor,))
    child, grown = done.stdout.split()
    return float(child), float(grown)


def _watch_curl(seen: list[int], over: threading.Event) -> None:
    """Note the largest memory of every curl that this process has started, in KiB, again and again."""
    while not over.wait(0.002):
        for task in Path("/proc/self/task").iterdir():
            # Threads and processes end while they are looked at.
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):
                for child in (task / "children").read_text().split():
                    text = Path(f"/proc/{child}/status").read_text()
                    if text.startswith("Name:\tcurl\n"):
                        seen.append(int(text.partition("VmHWM:")[2].split()[0]))


def _measure_row(row: str, port: int, descriptor: int) -> None:
    """In a process of its own: largest memory of its children, and growth of its own, in MiB."""
    TRANSPORT.check_machine()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen: list[int] = []
    over = threading.Event()
    watcher = threading.Thread(target=_watch_curl, args=(seen, over))
    watcher.start()
    ROWS[row](port, descriptor, os.fstat(descriptor).st_size)
    over.set()
    watcher.join()
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(max(seen, default=0) / 1024, own / 1024)


def _compare(repeats: int, folder: Path | None) -> None:
    receiver = subprocess.Popen([sys.executable, "-c", _RECEIVER], stdout=subprocess.PIPE, text=True)
    try:
        port = int(receiver.stdout.readline() if receiver.stdout else 0)
        descriptor, nbytes = _spooled(folder)
        taken: dict[str, list[float]] = {row: [] for row in ROWS}
        for _ in range(repeats):
            for row, send in ROWS.items():
                started = perf_counter()
                send(port, descriptor, nbytes)
                taken[row].append(perf_counter() - started)
        peaks = {row: _peak_of(row, port, descriptor) for row in ROWS}
    finally:
        receiver.kill()
        receiver.wait()
        if receiver.stdout is not None:
            receiver.stdout.close()
    version = subprocess.run([shutil.which("curl") or "curl", "--version"], capture_output=True, text=True, check=True)
    curl = version.stdout.split()[1]
    print(
        f"{nbytes:,} bytes; Python {platform.python_version()}, curl {curl}, {os.cpu_count()} cores, {repeats} repeats"
    )
    print(f"{'':30} {'seconds':>8} {'times least':>12} {'curl, MiB':>10} {'we grow by, MiB':>16}")
    least = statistics.median(taken[LEAST])
    for row, seconds in taken.items():
        middle, (child, own) = statistics.median(seconds), peaks[row]
        shown = f"{child:10.1f}" if row != LEAST else f"{'':10}"
        print(f"{row:30} {middle:8.3f} {middle / least:12.2f} {shown} {own:16.1f}")


def main() -> None:
    """Compare the rows, or measure the memory of one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="where the file lies; by default the temporary directory")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--descriptor", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        _measure_row(given.row, given.port, given.descriptor)
    else:
        _compare(given.repeats, given.folder)


if __name__ == "__main__":
    main()
