# SPDX-License-Identifier: Apache-2.0
"""The bodies that are answered, to the byte."""

from __future__ import annotations

import json

import pytest

from posttrain.service.protocol.answers import compact, error_result, not_found, pending, scored_result


def test_the_legacy_text_is_exact() -> None:
    """With the uuid as it was sent."""
    assert not_found("../x y") == b'{"message":"Not found scores for ../x y"}'


def test_the_pending_form_names_the_uuid() -> None:
    """And says so."""
    assert pending("u-1") == b'{"uuid":"u-1","status":"pending"}'


def test_a_result_has_the_shape_of_the_public_server() -> None:
    """Durations are texts with two decimals; an error has no scores."""
    assert scored_result("r", {"r": [0.5]}, {"shape": [1]}, 1.234, 0.0) == (
        b'{"scores":{"r":[0.5]},"input_info":{"shape":[1]},"duration":"1.23","decoded_duration":"0.00","type":"r"}'
    )
    assert error_result("r", "it broke", {}) == (
        b'{"scores":null,"input_info":{},"duration":"0.00","decoded_duration":"0.00","type":"r","error":"it broke"}'
    )


def test_no_answer_holds_a_number_that_is_not_finite() -> None:
    """NaN has no JSON, and would reach a client as a broken answer."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        compact({"a": float("nan")})


def test_any_text_can_be_answered() -> None:
    """A lone surrogate, which UTF-8 has no bytes for, comes out as its escape and is read back the same."""
    assert json.loads(compact({"a": "é\ud800"})) == {"a": "é\ud800"}
