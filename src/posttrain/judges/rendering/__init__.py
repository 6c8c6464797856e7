# SPDX-License-Identifier: Apache-2.0
"""What a judge is shown: templates that are parsed once, and texts of others that stay inert inside them."""

from posttrain.judges.rendering.inert import Shown, blocks, digest, mark_of, shown_text
from posttrain.judges.rendering.page import DATA_RULE, TRUNCATED, Page
from posttrain.judges.rendering.template import Template

__all__ = ["DATA_RULE", "TRUNCATED", "Page", "Shown", "Template", "blocks", "digest", "mark_of", "shown_text"]
