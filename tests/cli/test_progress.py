# SPDX-License-Identifier: Apache-2.0
"""The progress bar is for people at a terminal, and for nobody else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ESCAPE = b"\x1b["


def _argv(path: Path) -> list[str]:
    return [sys.executable, "-m", "posttrain", "score", str(path), "--reward", "constant", "--group-size", "2"]


def test_a_terminal_sees_the_bar(four: Path) -> None:
    """On a terminal standard error shows how many groups were scored; standard output stays free of it."""
    outer, inner = pty.openpty()
    with subprocess.Popen(_argv(four), stdout=subprocess.PIPE, stderr=inner) as child:
        os.close(inner)
        seen = b""
        try:
            while piece := os.read(outer, 65536):
                seen += piece
        except OSError:
            # How Linux says that the other end of a terminal was closed.
            pass
        finally:
            os.close(outer)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert b"scoring" in seen
    assert b"2 groups" in seen
    assert ESCAPE not in out
    assert b"scoring" not in out
    assert b"candidates      4" in out


def test_a_file_sees_nothing(four: Path) -> None:
    """Where standard error is no terminal it stays empty, also where an environment asks for colours."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        done = subprocess.run(_argv(four), capture_output=True, env={**os.environ, name: "1"}, timeout=60, check=False)
        assert done.returncode == 0
        assert done.stderr == b""


def test_a_failure_leaves_the_terminal_as_it_was(pairs: Callable[..., Path], flaky: str, tmp_path: Path) -> None:
    """After a failure the bar is gone, the cursor is back, and the message is the last that stands there."""
    outer, inner = pty.openpty()
    argv = [*_argv(pairs(*["x"] * 20, "bad")), "--catalog", flaky]
    argv[argv.index("constant")] = "flaky"
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=inner, cwd=tmp_path) as child:
        os.close(inner)
        seen = b""
        try:
            while piece := os.read(outer, 65536):
                seen += piece
        except OSError:
            # As above.
            pass
        finally:
            os.close(outer)
        child.communicate(timeout=60)
    assert child.returncode == 3
    message = seen.index(b"posttrain: contract broken")
    assert b"\x1b[?25h" in seen[:message]
    assert ESCAPE not in seen[message:]
    assert b"Traceback" not in seen
