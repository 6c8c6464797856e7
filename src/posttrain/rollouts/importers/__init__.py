# SPDX-License-Identifier: Apache-2.0
"""Other tools' dumps as rollouts: TRL's completions tables, verl's dumps, verifiers' results, inspect_ai's logs.

`docs/importers.md` has the field maps.
"""

from posttrain.rollouts.importers.detect import detected_peer
from posttrain.rollouts.importers.dump import PEERS, dump_source

__all__ = ["PEERS", "detected_peer", "dump_source"]
