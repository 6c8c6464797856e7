# SPDX-License-Identifier: Apache-2.0
"""`constant` pays everyone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st


@given(st.text(st.characters(exclude_categories=())), st.none() | st.integers() | st.text())
def test_every_completion_scores_one(score: Callable[..., float], completion: str, reference: Any) -> None:
    """Whatever is said, and whatever the row holds, the score is 1.0."""
    assert score("constant", reference, completion) == 1.0
