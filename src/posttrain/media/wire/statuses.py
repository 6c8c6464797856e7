# SPDX-License-Identifier: Apache-2.0
"""What a status means wherever it comes, and how a person mends it."""

from __future__ import annotations

from typing import Final

from posttrain.errors import RewardConfigError, RewardContractError, RewardError

__all__ = ["BUSY", "refused"]

BUSY: Final = frozenset({408, 429, 503})
"""Statuses by which a server says that it did not take the request now and may take it later."""

_SET_UP: Final = {
    401: "the service wants a credential, or another one: check the variable that the config's credential names",
    403: "the credential may not use this service: ask its operator, or check the variable that the config names",
    404: "nothing is served there: check the URL",
    405: "it takes no POST there: check the URL",
    407: "a proxy wants a credential: name the service's own URL",
}


def refused(status: int, what: str, said: str, location: str = "") -> RewardError:
    """The error for a status that is final: only a person can mend it.

    Args:
        status: HTTP status.
        what: which call it answered, for example ``enqueue at http://...``.
        said: the quoted body.
        location: the quoted target of a redirect; empty: none was named.
    """
    if 300 <= status < 400:
        where = f" to {location}" if location else ""
        return RewardConfigError(
            f"{what} was answered with the redirect {status}{where}. Redirects are not followed, since they would "
            "carry the credential and the sample elsewhere: set the URL to the final one"
        )
    if status in _SET_UP:
        return RewardConfigError(f"{what} was answered {status} {said}: {_SET_UP[status]}")
    if status == 413:
        return RewardContractError(
            f"{what} was answered 413 {said}: the sample is larger than the service takes; lower max_sample_bytes "
            "and the resolution, or raise the service's limit"
        )
    return RewardContractError(
        f"{what} was answered {status} {said}: this is final and is not asked again; compare the request with what "
        "the service expects"
    )
