# SPDX-License-Identifier: Apache-2.0
"""Which scorers are served, and under what names."""

from __future__ import annotations

import pytest

from posttrain.errors import RewardConfigError
from posttrain.service import BUILT_IN_SCORERS, ScorerSpec
from posttrain.service.scorers.call import load_function
from posttrain.service.scorers.spec import own_scorers, served_scorers


def test_every_built_in_scorer_is_there_and_documented() -> None:
    """Six of them, each under its own name, with the formula in its docstring."""
    assert sorted(BUILT_IN_SCORERS) == [
        *("brightness", "colourfulness", "contrast", "motion", "sharpness", "temporal_smoothness"),
    ]
    for name, spec in BUILT_IN_SCORERS.items():
        function = load_function(spec.function)
        assert spec.name == name == getattr(function, "__name__", "")
        assert "``" in (function.__doc__ or "")


def test_own_scorers_are_read_from_texts() -> None:
    """The name stands in front of the path."""
    assert own_scorers("image", ["a.b-1=pkg.mod:f", "c=m:C.f"]) == [
        ScorerSpec("a.b-1", "image", "pkg.mod:f"),
        ScorerSpec("c", "image", "m:C.f"),
    ]


def test_texts_of_another_form_are_refused_together() -> None:
    """Every one is named."""
    with pytest.raises(RewardConfigError, match=r"(?s)pkg.mod:f.*=m:f.*a=m.f.*a=m:.*-a=m:f"):
        own_scorers("image", ["pkg.mod:f", "=m:f", "a=m.f", "ok=m:f", "a=m:", "-a=m:f"])


def test_own_scorers_add_names_and_override_none() -> None:
    """A name that is taken, by a built-in one or another, is refused."""
    own = [ScorerSpec("mine", "image", "m:f")]
    assert set(served_scorers(own)) == {*BUILT_IN_SCORERS, "mine"}
    with pytest.raises(RewardConfigError, match=r"(?s)'motion' is taken.*m:g.*'mine' is taken.*m:h"):
        served_scorers([*own, ScorerSpec("motion", "image", "m:g"), ScorerSpec("mine", "video", "m:h")])
