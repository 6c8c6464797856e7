# SPDX-License-Identifier: Apache-2.0
"""The curl program of this machine: where it is, and whether it is one that we can use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Final

from posttrain.errors import RewardConfigError

__all__ = ["environment", "find_curl", "tied_to_us"]

_OLDEST: Final = (7, 63, 0)
"""First version that writes its closing report to standard error (`%{stderr}`)."""
_ANSWERS_WITHIN: Final = 10.0

# The rest of the environment stays here: it holds credentials, and variables that change what curl does.
_KEPT: Final = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE")


def environment() -> dict[str, str]:
    """What curl gets of our environment: how to start, and whom to trust."""
    return {"LC_ALL": "C", **{name: os.environ[name] for name in _KEPT if name in os.environ}}


def find_curl(program: str) -> str:
    """The full path of `program`.

    Raises:
        RewardConfigError: it is not installed, does not run, is no curl or is too old for what the transport asks.
    """
    path = shutil.which(program)
    if path is None:
        raise RewardConfigError(
            f"the program {program!r} is not on this machine's PATH: install curl (`apt-get install curl`), "
            "which sends the media samples"
        )
    try:
        done = _run([path, "-q", "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RewardConfigError(f"{path} --version did not run ({type(error).__name__}): install curl anew") from error
    said = done.stdout.decode("utf-8", "replace")
    found = re.match(r"curl (\d+)\.(\d+)\.(\d+)", said)
    if done.returncode != 0 or found is None:
        raise RewardConfigError(f"{path} --version exited {done.returncode} and named no version: it is no curl")
    version = tuple(map(int, found.groups()))
    if version < _OLDEST:
        have, need = (".".join(map(str, each)) for each in (version, _OLDEST))
        raise RewardConfigError(
            f"{path} is curl {have}, {need} or newer is needed (for %{{stderr}}): install a newer one"
        )
    protocols = re.search(r"^Protocols: (.*)$", said, re.MULTILINE)
    if protocols is None or not {"http", "https"} <= set(protocols[1].split()):
        raise RewardConfigError(f"{path} speaks no https: install a curl that is built with TLS")
    return path


def tied_to_us() -> list[str]:
    """What to put in front of a command so that it dies with this process, even by SIGKILL; empty: not possible here.

    Linux alone has that, and `setpriv` of util-linux is the way to ask for it that runs none of our code between fork
    and exec, which would not be safe beside the threads of a training process.
    """
    path = shutil.which("setpriv")
    if path is None:
        return []
    prefix = [path, "--pdeathsig", "KILL"]
    try:
        # The one of BusyBox has no such option.
        _run([*prefix, "true"]).check_returncode()
    except (OSError, subprocess.SubprocessError):
        return []
    return prefix


def _run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # noqa: S603  # a program that the operator named, with fixed arguments
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_ANSWERS_WITHIN,
        check=False,
    )
