# SPDX-License-Identifier: Apache-2.0
"""Start a program on several ranks of this machine, over loopback, with the real launcher."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["torchrun"]

_TESTS = Path(__file__).resolve().parents[2]


def torchrun(
    program: Path, *arguments: str, ranks: int, timeout_s: float = 200, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `program` under torchrun; gives its exit code and what all ranks wrote."""
    launcher = "torch.distributed.run --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:0 --local-addr=127.0.0.1"
    paths = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")]).strip(os.pathsep)
    return subprocess.run(
        [sys.executable, "-m", *launcher.split(), f"--nproc-per-node={ranks}", str(program), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "CUDA_VISIBLE_DEVICES": "",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
