# SPDX-License-Identifier: Apache-2.0
"""A provider that asks to end the process it runs in, where others rely on that process."""

from __future__ import annotations

from typing import Any

from posttrain.errors import RewardContractError, text_of
from posttrain.rewards.contract.request import RewardGroupRequest

__all__ = ["ended_by"]


def ended_by(provider: str, request: RewardGroupRequest[Any], error: BaseException) -> RewardContractError:
    """`SystemExit` or `KeyboardInterrupt` of a provider's code as what it is there: the provider's own fault.

    In process it ends the driver. In a worker or an actor it must neither end that nor pass for an outside failure,
    which a failure policy may drop.
    """
    failure = RewardContractError(
        f"raised {type(error).__name__}: {text_of(error)}, which would end the process that it runs in: raise an "
        "ordinary error",
        provider=provider,
        group_id=request.group_id,
    )
    failure.because_of(error)
    failure.request = request
    return failure
