# SPDX-License-Identifier: Apache-2.0
"""Recorded answers as lines of JSON, for a person to read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import msgspec

from posttrain.judges.cache.answers import AnswerCache

__all__ = ["export_jsonl"]


def export_jsonl(cache: AnswerCache, path: str | os.PathLike[str]) -> int:
    """Write every recorded answer of an open cache to a file, one JSON object a line, and return how many.

    Each line has the key, the hash of the judge content, model, base URL, sample, the request as it was sent, the
    model's text and the tokens. Prompts and completions are in it, no key of an endpoint is. The file is written whole
    or not at all, with mode 0600.

    Args:
        cache: the open cache.
        path: the file; one that is there is replaced.
    """
    target, count = Path(path), 0
    # In the same folder, so that it can take the target's place at once; made with mode 0600.
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            for each in cache:
                line = {**each._asdict(), "request": msgspec.Raw(each.request.encode())}
                file.write(msgspec.json.encode(line) + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return count
