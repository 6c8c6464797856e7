# SPDX-License-Identifier: Apache-2.0
"""What a machine must have for a judge: the HTTP client, the key's variable, a usable proxy, a place for the cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.judges.cache.answers import AnswerCache
from posttrain.judges.config import JudgeConfig
from posttrain.judges.endpoint.credential import read_credential
from posttrain.judges.endpoint.link import proxy_of
from posttrain.judges.endpoint.runtime import require_aiohttp

__all__ = ["machine_faults"]

_LEAST_FREE: Final = 16 * 1024 * 1024
"""Bytes that a cache should be able to grow by."""


def machine_faults(config: JudgeConfig) -> list[str]:
    """Everything that is lacking here, one line each; nothing is made, nothing is called."""
    return [*_tried(config), *_cache_faults(config.cache)]


def _tried(config: JudgeConfig) -> Iterator[str]:
    checks: list[Callable[[], object]] = [require_aiohttp, lambda: read_credential(config.credential_variable)]
    if config.proxy_from_environment:
        checks.append(lambda: proxy_of(config.url))
    for check in checks:
        try:
            check()
        except RewardConfigError as error:
            yield error.message


def _cache_faults(cache: str | None) -> Iterator[str]:
    if cache is None:
        return
    path = Path(cache)
    folder = path.absolute().parent
    if not folder.is_dir():
        yield f"judge cache {path}: its folder {folder} does not exist"
    elif not os.access(folder, os.W_OK | os.X_OK):
        yield f"judge cache {path}: its folder {folder} can't be written to"
    elif (free := shutil.disk_usage(folder).free) < _LEAST_FREE:
        yield f"judge cache {path}: {free >> 20} MiB are free in {folder}, at least {_LEAST_FREE >> 20} are needed"
    elif path.exists():
        there = AnswerCache(path)
        try:
            there.open()
        except (RewardConfigError, RewardUnavailableError) as error:
            yield error.message
        finally:
            there.close()
