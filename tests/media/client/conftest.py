# SPDX-License-Identifier: Apache-2.0
"""What the client's tests share."""

from __future__ import annotations

import pytest

from reward_service_faults import TOKEN, VARIABLE


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credential is in its variable."""
    monkeypatch.setenv(VARIABLE, TOKEN)
