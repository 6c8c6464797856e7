# SPDX-License-Identifier: Apache-2.0
"""Settings of a service: what is refused, all at once, and what must not be seen."""

from __future__ import annotations

from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.service import ServiceSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_token(host: str) -> None:
    """Nobody else can reach it."""
    assert ServiceSettings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org", ""])  # noqa: S104  # to be refused
def test_any_other_address_needs_a_token(host: str) -> None:
    """Or the word that it is meant so."""
    with pytest.raises(RewardConfigError, match=r"--token-env.*--insecure"):
        ServiceSettings(host=host)
    assert ServiceSettings(host=host, token_env="TOKEN").host == host  # noqa: S106  # a name
    assert ServiceSettings(host=host, insecure=True).host == host


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"port": -1}, "port: expected 0 to 65535, got -1"),
        ({"port": 65536}, "port: expected 0 to 65535, got 65536"),
        ({"pending": "204"}, "pending: expected one of legacy_400, 202, got '204'"),
        ({"max_queue": 0}, "max_queue: expected a number above 0, got 0"),
        ({"scorer_timeout_s": float("nan")}, "scorer_timeout_s: expected a number above 0, got nan"),
        ({"group_timeout_s": float("inf")}, "group_timeout_s: expected a number above 0, got inf"),
        ({"drain_s": -1}, "drain_s: expected a number of at least 0, got -1"),
        ({"replica_id": "a b"}, "replica_id: a client sends it in a header: expected visible ASCII, got 'a b'"),
        ({"memory_limit_mib": 0}, "memory_limit_mib: expected a number above 0, got 0"),
        ({"redis_url": "redis://a", "redis_env": "B"}, "redis_url and redis_env: give one of them"),
        ({"redis_url": "redis://user:secret@host"}, "redis_url: it holds a password"),
        ({"redis_url": "redis://[secret"}, "redis_url: it holds a password"),
    ],
)
def test_what_can_not_be_served_is_refused(values: dict[str, Any], text: str) -> None:
    """The setting is named; what may be a password is not repeated."""
    with pytest.raises(RewardConfigError, match=text) as caught:
        ServiceSettings(**values)
    assert "secret" not in str(caught.value)


def test_every_fault_is_named_at_once() -> None:
    """Three settings, three lines."""
    with pytest.raises(RewardConfigError, match=r"(?s)max_samples: .*max_results: .*pending: "):
        ServiceSettings(max_samples=0, max_results=-1, pending="?")
