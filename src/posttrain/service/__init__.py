# SPDX-License-Identifier: Apache-2.0
"""The reference reward service: image and video rewards by the enqueue and pull protocol, groups by POST /v1/score.

`serve` needs the extra: ``pip install "posttrain[serve]"``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from posttrain.errors import RewardConfigError
from posttrain.service.scorers.spec import BUILT_IN_SCORERS, ScorerSpec
from posttrain.service.settings import ServiceSettings

__all__ = ["BUILT_IN_SCORERS", "ScorerSpec", "ServiceSettings", "serve"]

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "numpy")


def serve(settings: ServiceSettings, announce: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; call it from the main thread.

    Args:
        settings: how to serve.
        announce: told the URL once requests are taken.

    Raises:
        RewardConfigError: something of the set-up does not hold, or the extra is not installed.
        RewardUnavailableError: the store does not answer, or a scorer hangs while it is loaded.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise RewardConfigError(f'the service needs {", ".join(missing)}: pip install "posttrain[serve]"')
    from posttrain.service.web.server import run

    run(settings, announce)
