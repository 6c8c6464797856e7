# SPDX-License-Identifier: Apache-2.0
"""What every section of a config is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Section"]


class Section(BaseModel):
    """Strict: nothing is converted, no key is made up, nothing changes afterwards."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
