# SPDX-License-Identifier: Apache-2.0
"""The package itself: light to import, and clear about what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import posttrain.service
from posttrain.errors import RewardConfigError

HEAVY = {"fastapi", "starlette", "uvicorn", "redis", "prometheus_client", "numpy", "torch", "asyncio"}


def test_the_package_is_light(fresh_python: Callable[[str], str]) -> None:
    """Settings and scorers can be named without a server, an event loop or numpy."""
    program = "import sys, json, posttrain.service\nprint(json.dumps(sorted(sys.modules)))"
    assert set(json.loads(fresh_python(program))) & HEAVY == set()


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setattr(posttrain.service, "_NEEDED", ("fastapi", "no_such_library"))
    with pytest.raises(RewardConfigError, match=r'needs no_such_library: pip install "posttrain\[serve\]"'):
        posttrain.service.serve(posttrain.service.ServiceSettings())


def test_the_public_names_are_there() -> None:
    """Sorted, and each with a docstring of its own."""
    names = posttrain.service.__all__
    assert names == sorted(names)
    assert all(getattr(posttrain.service, name).__doc__ for name in names if name != "BUILT_IN_SCORERS")
