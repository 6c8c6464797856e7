# SPDX-License-Identifier: Apache-2.0
"""What a status other than 200 means: ask again, or an error that only a person can mend."""

from __future__ import annotations

from typing import Final

from posttrain.errors import RewardConfigError, RewardContractError, RewardError
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.credential import Credential
from posttrain.judges.endpoint.link import Received
from posttrain.judges.endpoint.reply import shown
from posttrain.judges.endpoint.retry import is_retried

__all__ = ["refusal_of"]

_SET_UP: Final = frozenset({401, 402, 403, 404, 405, 407})
_SPENT: Final = b"insufficient_quota"
"""What OpenAI's 429 says when the account has no money left: no wait mends it."""


def refusal_of(
    config: JudgeConfig, key: str, received: Received, credential: Credential
) -> tuple[str, RewardError | None]:
    """What came, in words, and the error that it is where asking again does not help.

    A refusal that only a person can mend is never `RewardUnavailableError`: a failure policy must not hide it.

    Args:
        config: what was asked, and how.
        key: whom the question is about.
        received: status and body.
        credential: what may not be shown.
    """
    status = received.status
    said = f"{status} {credential.masked(received.reason)}: {shown(received.body, credential.masked)}"
    is_spent = status == 429 and _SPENT in received.body
    if status < 300 or (is_retried(status) and not is_spent):
        return said, None
    where = f"model {config.model!r} at {config.url} answered {key} with {said}"
    if status < 400:
        mend = "a redirect is not followed, since the key would go along: set base_url to where it leads"
        return said, RewardConfigError(f"{where}\n{mend}")
    if status in _SET_UP or is_spent:
        variable = config.credential_variable
        sent = "no key was sent" if variable is None else f"the key was that of {variable}"
        return said, RewardConfigError(f"{where}\ncheck base_url, model, credential and account; {sent}")
    return said, RewardContractError(
        f"{where}\nthe request itself was refused: check what this model takes (length of the prompt, "
        "structured_output, max_tokens, temperature, extra_body)"
    )
