# SPDX-License-Identifier: Apache-2.0
"""What the transport's tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.media.transport import Post


@pytest.fixture(scope="session")
def post_to() -> Callable[..., Post]:
    """A small form to a URL, with bounds that no test meets by accident."""

    def make(url: str, **more: Any) -> Post:
        settings: dict[str, Any] = {
            "body": b"uuid=u1&type=t",
            "content_type": "application/x-www-form-urlencoded",
            "connect_timeout_s": 20.0,
            "timeout_s": 30.0,
            "max_response_bytes": 1 << 16,
        }
        return Post(url=url, **{**settings, **more})

    return make


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    """Write a shell script that stands in for the curl program; gives its path."""

    def write(script: str) -> str:
        path = tmp_path / "curl-like"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write
