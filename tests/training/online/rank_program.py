# SPDX-License-Identifier: Apache-2.0
"""What the processes of `test_two_processes` run: the command itself, with a file for what each of them says."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from posttrain.cli import main


def run(folder: Path, *arguments: str) -> None:
    """`posttrain grpo` with its words in a file of this process."""
    # The launcher ends the others as soon as one is gone; here they are to end by themselves, but for one that hangs.
    if not (os.environ.get("FAULT", "").startswith("hang") and os.environ["RANK"] == "1"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.argv = ["posttrain", "grpo", *arguments]
    out = (folder / f"rank-{os.environ['RANK']}.txt").open("w", buffering=1, encoding="utf-8")
    sys.stderr = out
    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    out.write(f"exit {code or 0}\n")
    out.flush()
    # No clean end of the process group: a rank that is gone would be waited for.
    os._exit(int(str(code or 0)))


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
