# SPDX-License-Identifier: Apache-2.0
"""The compact set of ids."""

from hypothesis import given
from hypothesis import strategies as st

from posttrain.rollouts.digests import DigestSet


@given(st.lists(st.text()))
def test_it_remembers_what_it_was_given(texts: list[str]) -> None:
    """A text is new the first time and known each later time."""
    digests = DigestSet()
    known: set[str] = set()
    for text in texts:
        assert digests.add(text) == (text in known)
        known.add(text)
    assert len(digests) == len(known)


def test_it_grows_without_forgetting() -> None:
    """Growing keeps every digest, in 12 to 24 bytes an id."""
    digests = DigestSet()
    names = [f"group-{at}/{at % 7}" for at in range(50_000)]
    assert not any(digests.add(name) for name in names)
    assert all(digests.add(name) for name in names)
    assert len(digests) == 50_000
    assert 12 <= digests.nbytes / 50_000 <= 24


def test_short_digests_collide() -> None:
    """With 3 bits at most 7 digests exist, so that among 100 texts there are false suspicions but no false miss."""
    digests = DigestSet(bits=3)
    names = [str(at) for at in range(100)]
    suspected = [digests.add(name) for name in names]
    assert sum(suspected) >= 93
    assert all(digests.add(name) for name in names)
