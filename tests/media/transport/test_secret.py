# SPDX-License-Identifier: Apache-2.0
"""A credential that does not show itself."""

from __future__ import annotations

import copy
import pickle

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media.transport import Secret


def test_a_secret_shows_its_name_only() -> None:
    """Its repr, its text and a format hold no part of the value; `reveal` gives it."""
    secret = Secret("tok-TEST-111", "the variable T")
    assert f"{secret!r} {secret} {[secret]}".count("tok") == 0
    assert secret.reveal() == "tok-TEST-111"


def test_a_secret_is_not_passed_on() -> None:
    """It is neither pickled nor copied, so it reaches no file and no other process by accident."""
    secret = Secret("tok-TEST-111", "the variable T")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled or copied"):
            leak(secret)


@pytest.mark.parametrize("value", ["", "s3cr\n", "s3cr\r\nX: y", "s3 cr", "s3cr\x00", "t\u00f6k", "\ud800"])
def test_a_value_that_no_header_can_carry_is_refused(value: str) -> None:
    """The error names the variable and not what is in it."""
    with pytest.raises(RewardConfigError, match=r"the variable T (is empty|holds a line break)") as caught:
        Secret(value, "the variable T")
    assert not value or value.strip() not in str(caught.value)
