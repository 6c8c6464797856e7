# SPDX-License-Identifier: Apache-2.0
"""A progress bar for long work, on standard error; silent where that is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from posttrain.runs.offline import Progress

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(total_bytes: int) -> Iterator[Callable[[Progress], None]]:
    """A bar over the bytes of a rollout file; what is yielded moves it."""
    # Asked of the stream: the console takes a log file for a terminal where FORCE_COLOR is set.
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (TextColumn("scoring"), BarColumn(), TextColumn("{task.fields[groups]:,} groups"), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("scoring", total=total_bytes, groups=0)

        def move(progress: Progress) -> None:
            bar.update(task, completed=progress.consumed, groups=progress.groups)

        yield move
