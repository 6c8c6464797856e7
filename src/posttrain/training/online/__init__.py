# SPDX-License-Identifier: Apache-2.0
"""What every online run of a language model shares: rows, policy, checkpoints, held-out validation, the record.

Nothing here imports torch until a run has passed its checks.
"""

from posttrain.training.online.run import Outcome, run_online
from posttrain.training.online.watch import SILENT, Watch

__all__ = ["SILENT", "Outcome", "Watch", "run_online"]
