# SPDX-License-Identifier: Apache-2.0
"""Is there a curl that can be used?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media.transport import Answer, CurlTransport, NoAnswer, Post
from posttrain.media.transport.program import environment, tied_to_us
from posttrain.testing import FakeRewardService

GOOD = "curl 7.88.1 (x86_64) libcurl/7.88.1\nProtocols: dict http https\n"


def test_the_curl_of_this_machine_is_found() -> None:
    """Preflight passes where curl is there."""
    CurlTransport().check_machine()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf 'curl 7.62.0 (x86_64)\\nProtocols: http https\\n'", r"is curl 7\.62\.0, 7\.63\.0 or newer is needed"),
        ("printf 'curl 8.1.0 (x86_64)\\nProtocols: file http\\n'", "speaks no https"),
        ("printf 'GNU Wget 1.21\\n'", "it is no curl"),
        ("exit 3", "exited 3 and named no version"),
    ],
)
def test_a_program_that_can_not_be_used_is_named(program: Callable[[str], str], script: str, message: str) -> None:
    """Too old, without TLS, or no curl: the error says which program, and what is wrong with it."""
    path = program(script)
    with pytest.raises(RewardConfigError, match=message) as caught:
        CurlTransport(path).check_machine()
    assert path in str(caught.value)


def test_without_setpriv_requests_are_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, post_to: Callable[..., Post]
) -> None:
    """A machine that has curl alone can do everything but let curl die with a killed rank."""
    (tmp_path / "curl").symlink_to(str(shutil.which("curl")))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tied_to_us() == []
    with FakeRewardService() as service:
        found = CurlTransport().post(post_to(service.pull_url))
    assert isinstance(found, Answer)
    assert found.status == 200


def test_a_missing_program_is_found_at_the_first_request_too(post_to: Callable[..., Post]) -> None:
    """Without a preflight the first request says the same."""
    with pytest.raises(RewardConfigError, match="install curl"):
        CurlTransport("curl-that-is-not-there").post(post_to("http://127.0.0.1:9/x"))


def test_a_hung_program_is_killed_with_its_children(
    program: Callable[[str], str], post_to: Callable[..., Post]
) -> None:
    """A program that ignores its own bound and SIGTERM, and has a child, ends half a second after the bound."""
    script = f"case $2 in --version) printf '{GOOD}'; exit;; esac\ntrap '' TERM\nsleep 600 & sleep 600"
    found = CurlTransport(program(script)).post(post_to("http://127.0.0.1:9/x", timeout_s=0.5))
    assert isinstance(found, NoAnswer)
    # Nobody knows what it did.
    assert found.sent
    assert "was killed" in found.why


def test_a_program_that_dies_is_reported(program: Callable[[str], str], post_to: Callable[..., Post]) -> None:
    """Ended by a signal of somebody else: no answer, and nobody knows what was sent."""
    script = f"case $2 in --version) printf '{GOOD}'; exit;; esac\nkill -SEGV $$"
    found = CurlTransport(program(script)).post(post_to("http://127.0.0.1:9/x"))
    assert isinstance(found, NoAnswer)
    assert found.sent
    assert "signal 11" in found.why


def test_credentials_of_the_environment_stay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child gets what it needs to start and to trust, and no other variable."""
    monkeypatch.setenv("REWARD_SERVICE_TOKEN", "tok-TEST-111")
    monkeypatch.setenv("SSLKEYLOGFILE", "/tmp/keys")  # noqa: S108  # never written
    monkeypatch.setenv("CURL_CA_BUNDLE", "/some/bundle.pem")
    assert set(environment()) <= {
        "CURL_CA_BUNDLE",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "PATH",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
    }
    assert environment()["CURL_CA_BUNDLE"] == "/some/bundle.pem"
