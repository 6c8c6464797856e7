# SPDX-License-Identifier: Apache-2.0
"""The text that curl is configured with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media.transport import Post
from posttrain.media.transport.config_text import config_text

PostTo = Callable[..., Post]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://h/x", "the URL is malformed"),
        ("file:///etc/passwd", "the URL is malformed"),
        ("http:///x", "the URL is malformed"),
        ("h/x", "the URL is malformed"),
        ("", "the URL is malformed"),
        ("http://h:99999/x", "the URL is malformed"),
        ("http://h:0/x", "the URL is malformed"),
        ("http://[::1/x", "the URL is malformed"),
        ("http://h/a b", "the URL is malformed"),
        ("http://h\u00e9/x", "the URL is malformed"),
        ("http://user:s3cret@h/x", "the URL holds a user name or a password"),
        ("http://h/x\noutput = /tmp/x", "the URL is malformed|control character"),
        ("http://h/x\r", "control character"),
    ],
)
def test_a_url_that_is_none_is_refused(post_to: PostTo, url: str, message: str) -> None:
    """Before curl sees it, and without showing a password that stands in it."""
    with pytest.raises(RewardConfigError, match=message) as caught:
        config_text(post_to(url), "mark")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("value", ["a\nproxy = http://evil", "a\r\nX: y", "a\x00", "\x1b"])
def test_a_value_can_not_smuggle_in_a_line(post_to: PostTo, value: str) -> None:
    """A header's line break would be an option of its own, or another header."""
    with pytest.raises(RewardConfigError, match="header holds a line break"):
        config_text(post_to("http://h/x", headers=(("X-Lepton-Replica-Target", value),)), "mark")


def test_a_config_has_a_bounded_size(post_to: PostTo) -> None:
    """What would not fit is refused and not cut."""
    with pytest.raises(RewardConfigError, match="curl is given at most"):
        config_text(post_to("http://h/x", body=b"a" * 40_000), "mark")


@pytest.mark.parametrize(("timeout", "text"), [(30.0, "30.000"), (0.0001, "0.001"), (86_400.0, "86400.000")])
def test_a_bound_is_never_none(post_to: PostTo, timeout: Any, text: str) -> None:
    """To curl 0 is no bound at all, so the least is a millisecond; connecting is never given longer than all."""
    lines = config_text(post_to("http://h/x", timeout_s=timeout, connect_timeout_s=1e6), "mark").decode().splitlines()
    assert f'max-time = "{text}"' in lines
    assert f'connect-timeout = "{text}"' in lines
