# SPDX-License-Identifier: Apache-2.0
"""The seam between rows and a model: templating, tokenization, media shaping and collation, apart from rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from posttrain.schema import Observation

__all__ = ["DataPacker"]

ItemT = TypeVar("ItemT")
BatchT_co = TypeVar("BatchT_co", covariant=True)


class DataPacker(Protocol[ItemT, BatchT_co]):
    """Turns observations into what one model takes. It adapts no benchmark's schema: rows are canonical by then.

    Rewards never see what it makes, and it never sees a reward. `ChatTemplatePacker` is the one for texts; a packer
    for images or video is the model's own.
    """

    def pack(self, observations: Sequence[Observation], /) -> list[ItemT]:
        """One item for each observation, in the same order.

        Raises:
            RewardContractError: naming every observation that the model can't take.
        """
        ...

    def collate(self, items: Sequence[ItemT], /) -> BatchT_co:
        """One batch of any items that `pack` made, repeated ones too, in the same order."""
        ...
