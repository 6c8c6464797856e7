# SPDX-License-Identifier: Apache-2.0
"""The judge's endpoint in a process of its own, so that what the client costs can be told from what the server costs.

    python benchmarks/peers/judge_service.py LATENCY

Prints its base URL, and serves until standard input ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from posttrain.testing import FakeJudgeServer, JudgeReply

ANSWER = '{"correct": 1.0}'


@contextmanager
def judge_service(latency_s: float) -> Iterator[str]:
    """Run one; gives its base URL."""
    command = [sys.executable, __file__, str(latency_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the service has no pipes")
        yield process.stdout.readline().strip()
        process.stdin.close()


def main() -> None:
    """Serve until standard input ends."""
    with FakeJudgeServer(JudgeReply(content=ANSWER, delay_s=float(sys.argv[1]))) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
