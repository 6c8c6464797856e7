# SPDX-License-Identifier: Apache-2.0
"""Exit codes: 0 done; 2 bad usage or set-up; 3 a contract was broken; 4 an outside service failed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from posttrain.errors import RewardConfigError, RewardError, RewardUnavailableError

__all__ = ["exit_code", "failure_text", "told_to_the_shell"]

_BROKEN = 3
_PIPE = 128 + signal.SIGPIPE


def exit_code(error: RewardError) -> int:
    """What the shell is told."""
    if isinstance(error, RewardConfigError):
        return 2
    return 4 if isinstance(error, RewardUnavailableError) else _BROKEN


def failure_text(error: RewardError) -> str:
    """What a person is told: what kind of failure, whom it is about, what to do."""
    kind = {2: "set-up", _BROKEN: "contract broken", 4: "unavailable"}[exit_code(error)]
    return _with_notes(f"posttrain: {kind}: {error}", error)


@contextmanager
def told_to_the_shell() -> Iterator[None]:
    """Turn a failure of a command into one message on standard error and an exit code of its own."""
    try:
        yield
    except RewardError as error:
        sys.stderr.write(f"{failure_text(error)}\n")
        sys.exit(exit_code(error))
    except KeyboardInterrupt as error:
        sys.stderr.write(_with_notes("posttrain: interrupted", error) + "\n")
        _end_by_interrupt()
    except SystemExit as error:
        # Nothing of ours raises it in here, and its code could say that all is well.
        sys.stderr.write(f"posttrain: contract broken: a provider or its catalog called sys.exit({error.code!r})\n")
        sys.exit(_BROKEN)
    except BrokenPipeError:
        # Whoever read our output has enough of it; there is nobody left to tell.
        _close_standard_output()
        sys.exit(_PIPE)


def _with_notes(text: str, error: BaseException) -> str:
    return "\n".join([text, *getattr(error, "__notes__", [])])


def _end_by_interrupt() -> None:
    """End as the signal would, which shells know how to read, and without waiting for calls that are under way."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _close_standard_output() -> None:
    """Keep the interpreter from flushing into the broken pipe when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
