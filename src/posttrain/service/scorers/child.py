# SPDX-License-Identifier: Apache-2.0
"""The program of a scorer's process: load one function, then score what comes until the service hangs up."""

from __future__ import annotations

import sys
from pathlib import Path

from posttrain.errors import RewardConfigError, text_of
from posttrain.execution.processes.attached import Attached, attach
from posttrain.service.scorers.call import load_function, score_file
from posttrain.service.scorers.messages import LOAD, READY, REFUSED, REPLY, pack, unpack_call, unpack_text

__all__ = ["main"]


def main() -> None:
    """Serve one service. What goes wrong outside the function ends the process, which the service sees."""
    attached = attach()
    # As `python -m` would have it, but last: the working directory can hide no installed module.
    sys.path.append(str(Path.cwd()))
    message = attached.receive()
    if message is None or message[0] != LOAD:
        return
    _serve(attached, unpack_text(message[1]))


def _serve(attached: Attached, path: str) -> None:
    try:
        function = load_function(path)
    except RewardConfigError as error:
        attached.send(REFUSED, pack(text_of(error)))
        return
    attached.send(READY)
    while (message := attached.receive()) is not None:
        attached.send(REPLY, pack(score_file(function, unpack_call(message[1]))))


if __name__ == "__main__":
    main()
