# SPDX-License-Identifier: Apache-2.0
"""Logs on standard error: one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import final

__all__ = ["log_to_standard_error"]


@final
class _JsonLines(logging.Formatter):
    def __init__(self, masked: Callable[[str], str]) -> None:
        super().__init__()
        self._masked = masked

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._masked(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self._masked(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=True)


def log_to_standard_error(masked: Callable[[str], str]) -> None:
    """Send what Posttrain and the server log to standard error.

    Args:
        masked: makes a text fit to be shown: without the secrets that this process knows.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(masked))
    for name, level in (("posttrain", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level)
        logger.propagate = False
