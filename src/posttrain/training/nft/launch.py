# SPDX-License-Identifier: Apache-2.0
"""Start the ranks of a run on this machine, with torch's own launcher, and tell how they ended."""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Sequence
from typing import Final

from posttrain.errors import RewardConfigError
from posttrain.training.nft.run import CHECKED

__all__ = ["launch"]

_UNAVAILABLE: Final = 4
_BY_SIGNAL: Final = 128
"""Exit code of what a signal ended, less the number of the signal."""
_OURS: Final = frozenset({2, 3, 4})


def launch(arguments: Sequence[str], ranks: int) -> int:
    """Run ``posttrain nft`` with these arguments on `ranks` ranks; gives the exit code of the first that failed.

    The ranks meet over loopback. Each tells its own failure; one that was killed counts as unavailable. When this
    process is interrupted or told to stop, so are they, and they are reaped.

    Raises:
        RewardConfigError: torch is not installed.
    """
    try:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch
    except ImportError as error:
        raise RewardConfigError('posttrain nft needs torch: pip install "posttrain[media,train]"') from error
    # It would tell at length, beside what the ranks tell, that a rank has failed.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    os.environ[CHECKED] = "1"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    # What torchrun does too: ranks that each take all cores are slower than one core each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
    )
    try:
        elastic_launch(settings, sys.executable)("-m", "posttrain", "nft", *arguments)
    except ChildFailedError as error:
        code = error.get_first_failure()[1].exitcode
        return code if code in _OURS else _UNAVAILABLE
    except SignalException as error:
        # The ranks are gone by now.
        if error.sigval == signal.SIGINT:
            raise KeyboardInterrupt from error
        return _BY_SIGNAL + int(error.sigval)
    return 0
