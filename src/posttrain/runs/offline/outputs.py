# SPDX-License-Identifier: Apache-2.0
"""Where scores go: the rows, and beside them the metrics and what made them. Refused before anything is scored."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

import msgspec

from posttrain.errors import RewardConfigError
from posttrain.rollouts.atomic import real_target, replace_file

__all__ = ["Outputs", "planned_outputs"]

_COMPRESSED: Final = frozenset({".gz", ".zst"})
_PUBLIC: Final = 0o644


@final
class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one run; None: not asked for."""

    rows: Path | None = None
    metrics: Path | None = None
    identity: Path | None = None

    def make_folders(self) -> None:
        """Make the folders that are missing, and find out what can't be a file.

        Raises:
            RewardConfigError: the file system refuses, or there is a folder in the place of a file.
        """
        for path in filter(None, (self.rows, self.metrics, self.identity)):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RewardConfigError(f"the folder {path.parent} can't be made: {error.strerror or error}") from error
            real_target(path)

    def put(self, path: Path, data: bytes | Iterable[bytes]) -> None:
        """Write one of the files whole.

        The temporary has a name that follows from those of the files: what a killed run left, the next one removes.

        Raises:
            RewardConfigError: the file system refuses.
        """
        target = real_target(path)
        owner = path if self.rows is None else self.rows
        temporary = target.with_name(f".{owner.name}.{target.name}-tmp")
        try:
            temporary.unlink(missing_ok=True)
        except OSError as error:
            raise RewardConfigError(f"can't write {path}: {error.strerror or error}") from error
        replace_file(target, temporary, data, mode=_PUBLIC)


def planned_outputs(rollouts: Path, out: Path | None, metrics: Path | None) -> Outputs:
    """The files that a run will write.

    Args:
        rollouts: what is scored; no output may take its place.
        out: the scored rows, with ``NAME.identity.json`` beside them.
        metrics: the metrics; ``metrics.json`` beside `out` by default.

    Raises:
        RewardConfigError: two of these are one file, or `out` has the name of a compressed file.
    """
    outputs = Outputs(rows=out, metrics=metrics)
    if out is not None:
        if out.suffix.lower() in _COMPRESSED:
            raise RewardConfigError(
                f"--out {out}: scored rows are written plain, so leave {out.suffix} out of the name"
            )
        outputs = Outputs(
            rows=out,
            metrics=metrics or out.with_name("metrics.json"),
            identity=out.with_name(f"{out.name.removesuffix('.jsonl')}.identity.json"),
        )
    owners = {os.path.realpath(rollouts): "the rollouts themselves"}
    named = (("--out", outputs.rows), ("--metrics", outputs.metrics), ("the identity beside --out", outputs.identity))
    for role, path in named:
        if path is None:
            continue
        owner = owners.setdefault(os.path.realpath(path), role)
        if owner != role:
            raise RewardConfigError(
                f"{role} would overwrite {owner}, {path}: give each a name of its own with --out and --metrics"
            )
    return outputs
