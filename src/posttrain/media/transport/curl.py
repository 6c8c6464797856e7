# SPDX-License-Identifier: Apache-2.0
"""Requests through the curl program: uploads stream from their file in flat memory, and a hung one can be killed."""

from __future__ import annotations

import os
import re
import secrets
import stat
import subprocess
from typing import Final, NamedTuple, final

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.media.transport.child import Ended, run_child
from posttrain.media.transport.config_text import config_text
from posttrain.media.transport.program import environment, find_curl, tied_to_us
from posttrain.media.transport.transport import Answer, FileBody, NoAnswer, Post, Reply

__all__ = ["CurlTransport"]

_GRACE: Final = 0.5
"""Seconds that curl has beyond its own `max-time` before it is killed."""

_TOO_LONG: Final = 63
_DISTRUST: Final = frozenset({51, 58, 59, 60, 64, 66, 77, 83, 90, 91})
"""Exit codes: a certificate, ours or the server's, is missing, malformed or not trusted."""
_ON_THIS_SIDE: Final = frozenset({1, 2, 3, 4, 43, 48})
"""Exit codes: curl could not do what it was told to, before it sent anything."""


@final
class CurlTransport:
    """Sends each request with a curl process of its own.

    The command line is ``curl -q --config -`` for every request: URL, headers, token and form go to curl's standard
    input. curl reads no configuration file, follows no redirect, uses no proxy, verifies certificates, and gets no
    more of our environment than where its libraries and certificates are. A body in a file is streamed from the
    descriptor that curl inherits. It stops by itself after `timeout_s`; half a second later its process group is
    killed. Where the system can do that (Linux, with `setpriv`), it dies with this process.

    Safe to share between threads; it keeps nothing but where the program is.

    Args:
        program: name or path of curl.
    """

    def __init__(self, program: str = "curl") -> None:
        self._program = program
        self._command: list[str] | None = None

    def __repr__(self) -> str:
        return f"CurlTransport(program={self._program!r})"

    def check_machine(self) -> None:
        """Look for the program.

        Raises:
            RewardConfigError: curl is missing, does not run, is older than 7.63, or was built without TLS.
        """
        self._found()

    def post(self, request: Post) -> Reply:
        """Send `request` once.

        Raises:
            RewardConfigError: curl is missing, the URL is none, or a certificate is not trusted; nothing was sent.
            RewardContractError: the body's file is not as long as it is said to be.
        """
        command = self._command or self._found()
        passed = _checked(request.body)
        mark = secrets.token_hex(8)
        text = config_text(request, mark)
        try:
            ended = run_child(
                command,
                text=text,
                env=environment(),
                pass_fds=passed,
                limit=request.max_response_bytes,
                kill_after_s=request.timeout_s + _GRACE,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise RewardConfigError(f"{command[0]} can't be started ({error.strerror}): install curl") from error
        except OSError as error:
            return NoAnswer(why=f"curl can't be started: {error.strerror}", sent=False)
        except subprocess.TimeoutExpired:
            return NoAnswer(why="curl was killed at its time limit and hangs in the kernel", sent=True)
        return _reply(ended, _trace(ended.report, mark), request)

    def _found(self) -> list[str]:
        self._command = [*tied_to_us(), find_curl(self._program), "-q", "--config", "-"]
        return self._command


class _Trace(NamedTuple):
    """curl's own report of the request."""

    status: int
    sent: bool
    location: str


def _checked(body: FileBody | bytes) -> tuple[int, ...]:
    """The descriptors that curl inherits."""
    if not isinstance(body, FileBody):
        return ()
    try:
        found = os.fstat(body.fd)
    except OSError as error:
        raise RewardContractError(f"the spooled sample can't be read ({error.strerror}): keep its file open") from error
    if not stat.S_ISREG(found.st_mode) or found.st_size != body.nbytes:
        raise RewardContractError(
            f"the spooled sample is {found.st_size} bytes long, expected a regular file of {body.nbytes}: "
            "write it whole before it is sent"
        )
    # Where /dev/fd gives a copy of the descriptor instead of opening the file anew, curl begins at its offset.
    os.lseek(body.fd, 0, os.SEEK_SET)
    return (body.fd,)


def _trace(report: bytes, mark: str) -> _Trace | None:
    """None: curl was killed before it could report."""
    found = re.search(rf"^{mark} (\d+) (\d+) (\d+) (.*)$", report.decode("utf-8", "replace"), re.MULTILINE)
    if found is None:
        return None
    return _Trace(int(found[1]), int(found[2]) > 0 or int(found[3]) > 0, found[4])


def _reply(ended: Ended, trace: _Trace | None, request: Post) -> Reply:
    sent = trace is None or trace.sent
    status = trace.status if trace is not None and trace.status >= 200 else None
    code, why = _end_of(ended)
    if ended.overflowed or code == _TOO_LONG:
        long = f"the answer is longer than {request.max_response_bytes} bytes (max_response_bytes)"
        return NoAnswer(why=long, sent=True, status=status, oversized=True)
    if ended.overran:
        return NoAnswer(
            why=f"curl did not end within {request.timeout_s:.3g} s and was killed", sent=sent, status=status
        )
    if code in _DISTRUST and not sent:
        raise RewardConfigError(
            f"the connection is not trusted: {why}. Nothing was sent; have the server use a certificate that this "
            "machine trusts, or name its authority's file in the variable CURL_CA_BUNDLE"
        )
    if code in _ON_THIS_SIDE and not sent:
        raise RewardConfigError(f"curl could not make the request: {why}. Nothing was sent")
    if code != 0 or trace is None or status is None:
        return NoAnswer(why=why, sent=sent, status=status)
    return Answer(status, ended.out, trace.location)


def _end_of(ended: Ended) -> tuple[int, str]:
    """How curl ended, as a code and in words; of its standard error only its own closing message.

    That message holds nothing of the config. Its code counts where the system gave 0: in a process that ignores
    SIGCHLD, as one that inherited it does, no exit code can be learnt, and Python says 0 of each.
    """
    if ended.exit_code < 0:
        return ended.exit_code, f"curl was ended by signal {-ended.exit_code}"
    found = re.search(r"^curl: \((\d+)\) (.*)$", ended.report.decode("utf-8", "replace"), re.MULTILINE)
    code = ended.exit_code or (int(found[1]) if found else 0)
    return code, f"curl exit {code}" + (f" ({found[2].strip()[:200]})" if found else "")
