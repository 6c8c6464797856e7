# SPDX-License-Identifier: Apache-2.0
"""The faults of a reward service, each with what the client has to make of it.

Run as a program it measures them all and prints the table of `docs/reward-service-faults.md`:

    PYTHONPATH=tests python tests/reward_service_faults.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from posttrain.errors import RewardError
from posttrain.media.client import RewardServiceClient
from posttrain.media.config import VideoRewardConfig
from posttrain.media.sample import ServiceScore, SpooledSample
from posttrain.testing.reward_service import (
    FakeRewardService,
    Step,
    answer,
    answer_early,
    close_unanswered,
    cut_short,
    drop_mid_upload,
    endless_body,
    enqueued,
    never_answer,
    not_found,
    pending,
    raw,
    reset,
    scored,
    slow_body,
)

__all__ = ["FAULTS", "TOKEN", "Fault", "Outcome", "children", "config_for", "run_fault", "spooled"]

TOKEN: Final = "tok-TEST-111"  # noqa: S105  # what the tests look for
VARIABLE: Final = "POSTTRAIN_TEST_TOKEN"

TIMEOUT: Final = 1.5
"""Seconds for one request, of the faults that only time ends; the others have no bound that a busy machine meets."""
DEADLINE: Final = 3.0
"""Seconds for the whole sample, of the faults that only the deadline ends."""

_SMALL: Final = 4_096
_LARGE: Final = 16 << 20
_SCORE: Final = scored({"overall_reward": [0.5]})

CONTRACT, CONFIG, UNAVAILABLE = "RewardContractError", "RewardConfigError", "RewardUnavailableError"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One misbehaviour, and the outcome that is pinned for it."""

    what: str
    """In words, for the table."""
    enqueue: list[Step] = field(default_factory=lambda: [enqueued()])
    pull: list[Step] = field(default_factory=lambda: [_SCORE])
    outcome: str
    """Name of the error, or the score."""
    says: str = ""
    """Part of the error's text."""
    enqueues: int = 1
    """Enqueues that reach the service: never more than one."""
    pulls: str = "0"
    """How many pulls reach the service; ``1+``: one or more."""
    orphans: int = 0
    """Samples whose remote work may go on."""
    timed: bool = False
    """Whether `TIMEOUT` ends a request of it."""
    body: int = _SMALL
    """Bytes of the array."""
    token: str | None = TOKEN
    """The token that the service wants."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a fault."""

    result: ServiceScore | RewardError
    seconds: float
    enqueues: int
    pulls: int
    orphans: int

    @property
    def name(self) -> str:
        """As `Fault.outcome` has it."""
        return repr(self.result.value) if isinstance(self.result, ServiceScore) else type(self.result).__name__


def _ambiguous(what: str, step: Step, says: str, **more: Any) -> Fault:
    words = f"ambiguous enqueue, remote work may be orphaned: .*{says}"
    return Fault(what=f"enqueue: {what}", enqueue=[step], outcome=CONTRACT, says=words, orphans=1, **more)


def _refused(what: str, step: Step, outcome: str, says: str, **more: Any) -> Fault:
    return Fault(what=f"enqueue: {what}", enqueue=[step], outcome=outcome, says=says, **more)


def _passing(what: str, step: Step, pulls: str = "2", **more: Any) -> Fault:
    return Fault(what=f"one pull: {what}", pull=[step, _SCORE], outcome="0.5", pulls=pulls, **more)


def _final(what: str, step: Step, outcome: str, says: str, *, orphans: int = 1) -> Fault:
    steps = [not_found(), step]
    return Fault(what=f"pull: {what}", pull=steps, outcome=outcome, says=says, pulls="2", orphans=orphans)


def _endless(what: str, step: Step, says: str, **more: Any) -> Fault:
    return Fault(what=f"every pull: {what}", pull=[step], outcome=UNAVAILABLE, says=says, pulls="1+", orphans=1, **more)


FAULTS: Final = [
    Fault(what="none", outcome="0.5", pulls="1"),
    _ambiguous("takes the sample, closes without a word", close_unanswered, "Empty reply"),
    _ambiguous("takes the sample, never answers", never_answer, "timed out", timed=True),
    _ambiguous("takes the sample, resets the connection", reset, "reset"),
    _ambiguous("resets in mid-upload", drop_mid_upload(1 << 20), "curl exit", body=_LARGE),
    _ambiguous("answer breaks off", cut_short(200, {"uuid": "u1"}), "bytes remaining"),
    _ambiguous("answer trickles", slow_body(200, {"uuid": "u1"}, every_s=0.3), "timed out", timed=True),
    _ambiguous("answer without end", endless_body(200), "max_response_bytes"),
    _ambiguous("answer of 1 TB announced", endless_body(200, announced=10**12), "max_response_bytes"),
    _ambiguous("200 with no uuid", answer(200, {"id": 1}), "its uuid is missing"),
    _ambiguous("200 with an empty uuid", answer(200, {"uuid": ""}), "its uuid is missing"),
    _ambiguous("200 that is no JSON", answer(200, "<html>"), "it is no JSON"),
    _ambiguous("a replica id with a line break", enqueued("u1", replica_id="a\r\nX: y"), "can't be a header"),
    _ambiguous("500", answer(500, "Internal Server Error"), "answered 500"),
    _ambiguous("504 of a gateway", answer(504, "upstream timed out"), "answered 504"),
    _ambiguous("bytes that are not HTTP", raw(b"hello\r\n\r\n"), "HTTP/0.9"),
    _refused("503, too busy", answer(503, "busy"), UNAVAILABLE, "takes no work at present"),
    _refused("429, queue full", answer(429, {"detail": "full"}), UNAVAILABLE, "takes no work at present"),
    _refused("413 while the upload runs", answer_early(413, after=1 << 20), CONTRACT, "answered 413", body=_LARGE),
    _refused("422", answer(422, {"detail": "bad"}), CONTRACT, "answered 422"),
    _refused("404", answer(404, {"detail": "Not Found"}), CONFIG, "check the URL"),
    _refused("redirect", answer(307, headers={"Location": "http://127.0.0.1:9/"}), CONFIG, "redirect 307"),
    _refused("wants another token", enqueued(), CONFIG, "answered 401", token="another"),  # noqa: S106  # a fake
    _passing("202 pending", pending()),
    _passing("legacy 400 pending", not_found()),
    _passing("500", answer(500, "Internal Server Error")),
    _passing("503", answer(503, "")),
    _passing("429", answer(429, "")),
    _passing("closes without a word", close_unanswered),
    _passing("never answers", never_answer, "2+", timed=True),
    _passing("resets the connection", reset),
    _passing("a score that breaks off", cut_short(200, {"scores": [0.25]})),
    _passing("a score that trickles", slow_body(200, {"scores": [0.25]}, every_s=0.2), "2+", timed=True),
    _passing("bytes that are not HTTP", raw(b"hello\r\n\r\n")),
    _endless("legacy 400 pending", not_found(), "says pending for ever"),
    _endless("500", answer(500, "Internal Server Error"), 'was 500 "Internal Server Error".*not finite'),
    _endless("never answers", never_answer, "timed out", timed=True),
    _final("202 with a foreign uuid", pending("u-9"), CONTRACT, "must carry our uuid"),
    _final("202 with another status", pending(status="queued"), CONTRACT, "must carry our uuid"),
    _final("legacy 400 with a foreign uuid", not_found("u-9"), CONTRACT, "answered 400"),
    _final("another 400", answer(400, {"message": "bad type"}), CONTRACT, "bad type"),
    _final("401", answer(401, {"detail": "Unauthorized"}), CONFIG, "wants a credential"),
    _final("redirect", answer(302, headers={"Location": "http://127.0.0.1:9/"}), CONFIG, "redirect 302"),
    _final("answer without end", endless_body(200), CONTRACT, "it is no score"),
    _final("reported failure", answer(200, {"scores": None, "error": "rig"}), CONTRACT, '"rig"', orphans=0),
    _final("NaN in the JSON", answer(200, {"scores": [float("nan")]}), CONTRACT, "no JSON", orphans=0),
    _final("two scores", scored({"overall_reward": [0.1, 0.2]}), CONTRACT, "got 2", orphans=0),
    _final("no score", scored({"overall_reward": []}), CONTRACT, "got 0", orphans=0),
    _final("a bare number", answer(200, 0.5), CONTRACT, "expected a JSON object", orphans=0),
    _final("another series", scored({"vq_reward": [0.1]}), CONTRACT, "no series", orphans=0),
]


def config_for(service: FakeRewardService, **more: Any) -> VideoRewardConfig:
    """A config with short bounds that points at the fake."""
    settings: dict[str, Any] = {
        "provider_revision": "fake-1",
        "enqueue_url": service.enqueue_url,
        "pull_url": service.pull_url,
        "credential": VARIABLE,
        "fps": 16.0,
        "connect_timeout_s": 5.0,
        "enqueue_timeout_s": 20.0,
        "pull_timeout_s": 20.0,
        "evaluation_timeout_s": 60.0,
        "poll_interval_s": 0.02,
        "poll_interval_max_s": 0.1,
    }
    return VideoRewardConfig(**{**settings, **more})


@contextmanager
def spooled(line: bytes, array: bytes) -> Iterator[SpooledSample]:
    """A sample in a file without a name; one video of shape [1,3,1,1,n]."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(line)
        file.write(array)
        yield SpooledSample(
            fd=file.fileno(),
            nbytes=len(line) + len(array),
            line_nbytes=len(line),
            media_type="video",
            shape=(1, 3, 1, 1, max(1, len(array) // 3)),
        )


def run_fault(fault: Fault) -> Outcome:
    """Have one sample scored by a service with that fault; `VARIABLE` has to hold `TOKEN`."""
    with FakeRewardService(fault.enqueue, fault.pull, token=fault.token) as service:
        bounds = {"enqueue_timeout_s": TIMEOUT, "pull_timeout_s": TIMEOUT} if fault.timed else {}
        client = RewardServiceClient(config_for(service, **bounds))
        client.check_machine()
        deadline = DEADLINE if fault.what.startswith("every pull") else 60.0
        with spooled(client.enqueue_line(None), bytes(fault.body)) as sample:
            started = time.monotonic()
            result: ServiceScore | RewardError
            try:
                result = client.score(sample, deadline=started + deadline)
            except RewardError as error:
                result = error
            seconds = time.monotonic() - started
        return Outcome(
            result=result,
            seconds=seconds,
            enqueues=len(service.enqueues),
            pulls=len(service.pulls),
            orphans=client.orphans,
        )


def children(pid: int | None = None) -> list[int]:
    """Living or unreaped child processes of this one, or of another; Linux."""
    found: list[int] = []
    for task in Path(f"/proc/{pid or os.getpid()}/task").iterdir():
        # A thread that has just ended takes its entry away.
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (task / "children").read_text().split())
    return found


def main() -> None:
    """Print the table."""
    os.environ[VARIABLE] = TOKEN
    write = sys.stdout.write
    write("| fault | the client | enqueues | pulls | seconds | remote work orphaned | left on this machine |\n")
    write("| --- | --- | --- | --- | --- | --- | --- |\n")
    for fault in FAULTS:
        done = run_fault(fault)
        left = f"{len(children())} processes" if children() else "nothing"
        cells = (fault.what, done.name, done.enqueues, done.pulls, f"{done.seconds:.2f}", done.orphans, left)
        write(f"| {' | '.join(map(str, cells))} |\n")


if __name__ == "__main__":
    main()
