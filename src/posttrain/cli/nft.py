# SPDX-License-Identifier: Apache-2.0
"""`posttrain nft`: DiffusionNFT on an image or video model, scored by a reward service."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from posttrain.cli.config import CONFIG_HELP, OVERRIDES_HELP
from posttrain.cli.exits import exit_code, failure_text
from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag
from posttrain.errors import RewardConfigError, RewardError

if TYPE_CHECKING:
    from posttrain.runs import RLConfig
    from posttrain.training.nft.run import RunEnd
    from posttrain.training.nft.trainer import BatchResult

__all__ = ["NFTOptions", "nft"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NFTOptions:
    """What the user asked for."""

    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help=OVERRIDES_HELP)] = None
    config: Annotated[Path | None, flag("--config", CONFIG_HELP, metavar="FILE")] = None
    ranks: Annotated[
        int | None, flag("--ranks", "Start so many ranks on this machine; without it torchrun starts them.", min=1)
    ] = None
    run: Annotated[str | None, flag("--run", "Name of the run: rl.run.name.", metavar="NAME")] = None
    resume: Annotated[bool, flag("--resume", "Go on with the run of that name from its last checkpoint.")] = False
    check: Annotated[bool, flag("--check", "Make the checks of the run, and stop.")] = False


def nft(options: NFTOptions) -> None:
    """Train an image or video model by DiffusionNFT, one trajectory of a group on each rank.

    Example: posttrain nft --config recipes/nft_image_tiny.toml --run first --ranks 2
    """
    from posttrain.runs.config import Node, resolve_config
    from posttrain.training.nft.job import is_rank
    from posttrain.training.nft.run import check

    importable_from_here()
    flags = {} if options.run is None else {"rl.run.name": Node(options.run, "--run", Path.cwd())}
    config = resolve_config(options.config, options.overrides or (), flags).config
    if is_rank():
        _run_rank(config, options)
    if options.check:
        check(config, ranks=options.ranks)
        typer.echo("posttrain nft: the checks passed")
        return
    if options.ranks is None:
        raise RewardConfigError(_how_to_start(config, options))
    check(config, ranks=options.ranks)
    from posttrain.training.nft.launch import launch

    if code := launch(_arguments(options), options.ranks):
        raise typer.Exit(code)


def _run_rank(config: RLConfig, options: NFTOptions) -> NoReturn:
    """What a launcher has started this process for; it ends here, whatever comes.

    A failure ends the process at once: the clean end of a process group would wait for ranks that are gone.
    """
    from posttrain.training.nft.run import train

    is_first = os.environ["RANK"] == "0"
    try:
        with _progress(config.nft.steps, shown=is_first and sys.stderr.isatty()) as told:
            end = train(config, resume=options.resume, told=told)
    except RewardError as error:
        sys.stderr.write(f"{failure_text(error)}\n")
        _end(exit_code(error))
    if is_first:
        typer.echo(_summary(end))
    _end(0)


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _summary(end: RunEnd) -> str:
    if end.first is None or end.last is None:
        return f"posttrain nft: all {end.steps} batches were done already; see {end.path}"
    return f"posttrain nft: {end.steps} batches; mean reward {end.first:.4f} -> {end.last:.4f}; see {end.path}"


def _arguments(options: NFTOptions) -> list[str]:
    """The command line of a rank."""
    config = [] if options.config is None else ["--config", str(options.config)]
    name = [] if options.run is None else ["--run", options.run]
    return [*config, *name, *(["--resume"] if options.resume else []), *(options.overrides or ())]


def _how_to_start(config: RLConfig, options: NFTOptions) -> str:
    command = " ".join(["posttrain nft", *_arguments(options)])
    size = config.group_size
    return (
        f"each rank has one trajectory of a group, so there have to be {size} ranks or a multiple of it. On this "
        f"machine: {command} --ranks {size}. With torchrun: torchrun --nproc-per-node={size} -m {command}"
    )


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[BatchResult], None]]:
    """A bar over the batches, on standard error; silent where that is no terminal."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.fields[reward]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=total, reward="")

        def move(result: BatchResult) -> None:
            mean = result.outcome.report.final.mean
            bar.update(task, completed=result.step, reward=f"mean reward {mean:.4f}")

        yield move
