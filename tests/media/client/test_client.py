# SPDX-License-Identifier: Apache-2.0
"""The client's own rules: the clock, the backoff, the deadline, the credential, the machine, interrupts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError, RewardUnavailableError
from posttrain.media.client import RewardServiceClient
from posttrain.media.config import ImageRewardConfig, VideoRewardConfig
from posttrain.media.sample import SampleScorer, SpooledSample
from posttrain.media.transport import Answer, CurlTransport, NoAnswer, Post, Reply
from posttrain.testing import ManualClock
from posttrain.testing.reward_service import Exchange, FakeRewardService, answer
from reward_service_faults import VARIABLE, config_for, spooled

CONFIG: dict[str, Any] = {
    "provider_revision": "r1",
    "enqueue_url": "http://service.invalid/api/reward/enqueue",
    "pull_url": "http://service.invalid/api/reward/pull",
    "credential": VARIABLE,
    "fps": 16.0,
    "enqueue_timeout_s": 50.0,
    "pull_timeout_s": 30.0,
    "poll_interval_s": 1.0,
    "poll_interval_max_s": 6.0,
}
TICKET = Answer(200, b'{"uuid":"u1"}')
SCORE = Answer(200, b'{"scores":[0.5]}')
PENDING = Answer(202, b'{"uuid":"u1","status":"pending"}')
BROKEN = Answer(500, b"Internal Server Error")


class Wire:
    """A transport of one's own: gives what it is told to, and lets the clock pass."""

    def __init__(self, clock: ManualClock, replies: list[Reply | BaseException], takes: float = 0.0) -> None:
        self.clock, self.replies, self.takes = clock, replies, takes
        self.posts: list[Post] = []

    def check_machine(self) -> None:
        """Always lacks something."""
        raise RewardConfigError("no radio")

    def post(self, request: Post) -> Reply:
        """Give the next reply; the last one again and again."""
        self.posts.append(request)
        self.clock.advance(self.takes)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, BaseException):
            raise reply
        return reply


def _client(replies: list[Reply | BaseException], takes: float = 0.0, **more: Any) -> tuple[RewardServiceClient, Wire]:
    clock = ManualClock(1000.0)
    wire = Wire(clock, replies, takes)
    return RewardServiceClient(VideoRewardConfig(**{**CONFIG, **more}), wire, clock=clock), wire


def test_the_client_is_a_sample_scorer_that_shows_no_secret() -> None:
    """It fits the adapters' seam; its repr names the variable and not the token."""
    client = RewardServiceClient(VideoRewardConfig(**CONFIG))
    assert isinstance(client, SampleScorer)
    assert VARIABLE in repr(client)
    assert os.environ[VARIABLE] not in repr(client)


def test_pending_is_asked_at_the_interval_and_failures_back_off_to_the_cap() -> None:
    """Pending waits 1 s each; failures in a row wait 1, 2, 4, 6, 6 s; a pending in between starts over."""
    client, wire = _client([TICKET, PENDING, PENDING, *[BROKEN] * 5, PENDING, BROKEN, SCORE])
    with spooled(b"line\n", b"array") as sample:
        found = client.score(sample, deadline=1100.0)
    assert wire.clock.slept == [1, 1, 1, 2, 4, 6, 6, 1, 1]
    assert (found.polls, found.pull_retries, found.value) == (10, 6, 0.5)
    assert (found.enqueue_seconds, found.wait_seconds) == (0.0, 23.0)


def test_every_request_is_bounded_by_what_is_left() -> None:
    """A request gets its own bound or the rest of the time, whichever is shorter; so does the wait between two."""
    client, wire = _client([TICKET, PENDING], takes=10.0)
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardUnavailableError, match="evaluation deadline"):
        client.score(sample, deadline=1043.0)
    assert [post.timeout_s for post in wire.posts] == [43.0, 30.0, 22.0, 11.0]
    # 1000 enqueue 1010, pull 1020, sleep 1021, pull 1031, sleep 1032, pull 1042, sleep 1043: over.
    assert wire.clock.slept == [1.0, 1.0, 1.0]
    assert client.orphans == 1


def test_a_pull_that_the_deadline_cuts_off_does_not_hide_what_was_said() -> None:
    """The last pull has no time left to be answered; the error still tells that the service said pending."""
    cut = NoAnswer(why="timed out after 1 ms", sent=True)
    client, wire = _client([TICKET, PENDING, cut], takes=10.0)
    with (
        spooled(b"line\n", b"array") as sample,
        pytest.raises(RewardUnavailableError, match="pending for ever") as found,
    ):
        client.score(sample, deadline=1031.0)
    assert "2 pulls, 1 of them failed, the last answer was 202 pending" in str(found.value)
    assert len(wire.posts) == 3


def test_a_score_after_the_deadline_is_refused() -> None:
    """A score that comes at the deadline or later is no score, however good; nothing is at work any more."""
    client, wire = _client([TICKET, SCORE], takes=10.0)
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardUnavailableError, match="is refused"):
        client.score(sample, deadline=1020.0)
    assert len(wire.posts) == 2
    assert client.orphans == 0


def test_nothing_is_sent_after_the_deadline() -> None:
    """A decode that took all of the time leaves none for an enqueue, and then none is made."""
    client, wire = _client([TICKET, SCORE])
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardUnavailableError, match="nothing was sent"):
        client.score(sample, deadline=1000.0)
    assert wire.posts == []
    assert client.orphans == 0


def test_an_enqueue_that_takes_all_the_time_is_given_up() -> None:
    """The deadline is over when the ticket comes: no pull, and the work counts as orphaned."""
    client, wire = _client([TICKET, SCORE], takes=10.0)
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardUnavailableError, match="0 pulls"):
        client.score(sample, deadline=1010.0)
    assert len(wire.posts) == 1
    assert client.orphans == 1


def test_an_enqueue_that_was_not_sent_is_unavailable_and_no_orphan() -> None:
    """Where nothing left the machine there is nothing ambiguous; still it is not sent again by itself."""
    client, wire = _client([NoAnswer(why="connection refused", sent=False)])
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardUnavailableError, match="nothing was sent"):
        client.score(sample, deadline=1100.0)
    assert len(wire.posts) == 1
    assert client.orphans == 0


@pytest.mark.parametrize("status", [401, 403, 404, 413, 307])
def test_a_refusal_whose_body_breaks_off_is_still_a_refusal(status: int) -> None:
    """The status alone says that the sample was not taken."""
    client, _ = _client([NoAnswer(why="reset", sent=True, status=status)])
    with (
        spooled(b"line\n", b"array") as sample,
        pytest.raises((RewardConfigError, RewardContractError), match=f"{status}.*broke off|redirect {status}"),
    ):
        client.score(sample, deadline=1100.0)
    assert client.orphans == 0


@pytest.mark.parametrize("status", [201, 202, 204])
def test_an_enqueue_answered_with_another_2xx_is_ambiguous(status: int) -> None:
    """Work may have begun, and there is no ticket that the protocol knows."""
    client, _ = _client([Answer(status, b'{"uuid":"u1"}')])
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardContractError, match="ambiguous enqueue"):
        client.score(sample, deadline=1100.0)
    assert client.orphans == 1


@pytest.mark.parametrize("place", ["enqueue", "pull", "wait"])
def test_an_interrupt_passes_through_and_counts_the_orphan(place: str) -> None:
    """A KeyboardInterrupt comes out as it is, and the sample that was under way is counted."""
    stop = KeyboardInterrupt()
    client, wire = _client([stop] if place == "enqueue" else [TICKET, stop])
    if place == "wait":
        wire.replies = [TICKET, PENDING]

        def interrupt(_: float) -> None:
            raise stop

        wire.clock.sleep = interrupt  # type: ignore[method-assign, assignment]  # the wait is what is interrupted
    with spooled(b"line\n", b"array") as sample, pytest.raises(KeyboardInterrupt, match=r"^$") as caught:
        client.score(sample, deadline=1100.0)
    assert caught.value is stop
    assert client.orphans == 1


def test_a_fault_on_this_side_is_passed_on_and_is_no_orphan() -> None:
    """What the transport refuses before it sends anything comes out as it is; during a pull it ends the wait."""
    client, _ = _client([RewardConfigError("no radio")])
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardConfigError, match="no radio"):
        client.score(sample, deadline=1100.0)
    assert client.orphans == 0
    client, _ = _client([TICKET, RewardConfigError("no radio")])
    with spooled(b"line\n", b"array") as sample, pytest.raises(RewardConfigError, match="no radio"):
        client.score(sample, deadline=1100.0)
    assert client.orphans == 1


def test_the_token_is_read_anew_and_sent_with_every_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotated token is used from the next sample on; without a credential no token is sent."""
    client, wire = _client([TICKET, SCORE, TICKET, SCORE])
    with spooled(b"line\n", b"array") as sample:
        client.score(sample, deadline=1100.0)
        monkeypatch.setenv(VARIABLE, "tok-NEW")
        client.score(sample, deadline=1100.0)
    tokens = [post.token.reveal() for post in wire.posts if post.token is not None]
    assert tokens == ["tok-TEST-111", "tok-TEST-111", "tok-NEW", "tok-NEW"]
    client, wire = _client([TICKET, SCORE], credential=None)
    with spooled(b"line\n", b"array") as sample:
        client.score(sample, deadline=1100.0)
    assert [post.token for post in wire.posts] == [None, None]


def test_the_machine_is_checked_for_program_and_credential_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Preflight learns of both in one error, and of each alone; with both there it passes."""
    config = VideoRewardConfig(**CONFIG)
    RewardServiceClient(config).check_machine()
    with pytest.raises(RewardConfigError, match="'curl-that-is-not-there' is not on this machine's PATH"):
        RewardServiceClient(config, CurlTransport("curl-that-is-not-there")).check_machine()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(RewardConfigError, match=f"variable {VARIABLE}"):
        RewardServiceClient(config).check_machine()
    with pytest.raises(RewardConfigError, match=rf"this machine lacks:\n.*not-there.*\n.*{VARIABLE}"):
        RewardServiceClient(config, CurlTransport("curl-that-is-not-there")).check_machine()


@pytest.mark.parametrize(
    ("media_type", "shape", "message"),
    [("image", (1, 2, 2, 3), "expected a sample of type video"), ("video", (2, 3, 1, 1, 1), "expected one item")],
)
def test_a_sample_that_is_not_one_of_its_kind_is_refused(media_type: Any, shape: tuple[int, ...], message: str) -> None:
    """A mixed-up sample, or several in one array, is refused before anything is sent."""
    client, wire = _client([TICKET, SCORE])
    sample = SpooledSample(fd=-1, nbytes=1, line_nbytes=1, media_type=media_type, shape=shape)
    with pytest.raises(RewardContractError, match=message):
        client.score(sample, deadline=1100.0)
    assert wire.posts == []


def test_lines_are_those_of_the_media_type() -> None:
    """A video's line carries its frame rate, an image's does not."""
    video, _ = _client([TICKET])
    assert b'"media_type": "video"' in video.enqueue_line(None)
    assert b'"video_infos": [{"video_fps": 16.0}]' in video.enqueue_line(None)
    plain = {name: value for name, value in CONFIG.items() if name != "fps"}
    image = RewardServiceClient(ImageRewardConfig(**plain, reward="ocr", score_key="ocr_reward"))
    assert image.enqueue_line(None) == b'{"media_type": "image", "reward_fn": {"ocr": 1.0}}\n'


def test_the_package_is_light(fresh_python: Callable[[str], str]) -> None:
    """Importing the client loads neither numpy nor torch nor a network library."""
    heavy = ["numpy", "torch", "aiohttp", "http.client", "ssl"]
    program = f"import sys, posttrain.media.client\nprint(sorted(set({heavy!r}) & set(sys.modules)))"
    assert fresh_python(program).strip() == "[]"


def test_samples_may_be_scored_from_several_threads() -> None:
    """Two threads share a client over the real curl: each gets its own uuid's score."""

    def by_uuid(exchange: Exchange) -> None:
        answer(200, {"scores": [float(exchange.asked_for().removeprefix("fake-"))]})(exchange)

    values: list[float] = []
    with FakeRewardService(pull=[by_uuid]) as service:
        client = RewardServiceClient(config_for(service))

        def work() -> None:
            with spooled(client.enqueue_line(None), b"array") as sample:
                values.append(client.score(sample, deadline=time.monotonic() + 60).value)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(values) == [1.0, 2.0, 3.0, 4.0]
