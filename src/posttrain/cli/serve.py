# SPDX-License-Identifier: Apache-2.0
"""`posttrain serve`: rewards over HTTP, from this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from posttrain.cli.importing import importable_from_here
from posttrain.cli.options import flag

__all__ = ["ServeOptions", "serve"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What the user asked for."""

    host: Annotated[str, flag("--host", "Address to listen on. Others than loopback need a token.")] = "127.0.0.1"
    port: Annotated[int, flag("--port", "0: any free port.", min=0, max=65535)] = 8080
    token_env: Annotated[str | None, flag("--token-env", "Variable that holds the bearer token.", metavar="NAME")] = (
        None
    )
    insecure: Annotated[bool, flag("--insecure", "Serve other machines without a token.")] = False
    catalog: Annotated[
        str | None,
        flag("--catalog", "Providers for POST /v1/score, beside the built-in ones.", metavar="pkg.mod:fn|file.py:fn"),
    ] = None
    image_scorer: Annotated[
        list[str] | None,
        flag("--image-scorer", "A scorer of your own, (array, info) -> number; repeat it.", metavar="NAME=pkg.mod:fn"),
    ] = None
    video_scorer: Annotated[
        list[str] | None, flag("--video-scorer", "The same, of videos.", metavar="NAME=pkg.mod:fn")
    ] = None
    pending: Annotated[
        Literal["legacy_400", "202"], flag("--pending", "What a pull is answered while there is no result.")
    ] = "legacy_400"
    replica_id: Annotated[str | None, flag("--replica-id", "Sent with each uuid, for a gateway.")] = None
    redis: Annotated[str | None, flag("--redis", "URL of the Redis that keeps results; no password in it.")] = None
    redis_env: Annotated[
        str | None, flag("--redis-env", "Variable that holds that URL; it may have a password.", metavar="NAME")
    ] = None
    result_ttl: Annotated[float, flag("--result-ttl", "Seconds that a result can be pulled.")] = 3600.0
    max_results: Annotated[int, flag("--max-results", "Most results in memory; the oldest go first.")] = 100_000
    max_queue: Annotated[int, flag("--max-queue", "Most tasks that wait; above it: 429.")] = 64
    max_body_mib: Annotated[int, flag("--max-body-mib", "Largest upload.", min=1)] = 512
    spool_dir: Annotated[Path | None, flag("--spool-dir", "Where uploads wait; the temporary directory.")] = None
    max_spool_mib: Annotated[int, flag("--max-spool-mib", "Most of all that waits; above it: 429.", min=1)] = 4096
    upload_timeout: Annotated[float, flag("--upload-timeout", "Seconds that an upload may take.")] = 600.0
    scorer_timeout: Annotated[float, flag("--scorer-timeout", "Seconds that a scorer may take.")] = 60.0
    group_timeout: Annotated[float, flag("--group-timeout", "Seconds that a group may take.")] = 60.0
    group_workers: Annotated[int, flag("--group-workers", "Worker processes a provider.", min=1)] = 1
    max_groups: Annotated[int, flag("--max-groups", "Most groups that wait; above it: 429.", min=1)] = 16
    max_group_mib: Annotated[int, flag("--max-group-mib", "Largest group.", min=1)] = 8
    start_timeout: Annotated[float, flag("--start-timeout", "Seconds that a worker may take to start.")] = 60.0
    memory_limit_mib: Annotated[
        int | None, flag("--memory-limit-mib", "Memory above which a worker is killed, its array counted.", min=1)
    ] = None
    drain: Annotated[float, flag("--drain", "Seconds that work has to end after SIGTERM.")] = 10.0


def serve(options: ServeOptions) -> None:
    """Serve image and video rewards by the enqueue and pull protocol, and groups by POST /v1/score.

    Example: posttrain serve --port 8080
    """
    from posttrain.service import ServiceSettings
    from posttrain.service import serve as run
    from posttrain.service.scorers.spec import own_scorers

    importable_from_here()
    settings = ServiceSettings(
        host=options.host,
        port=options.port,
        token_env=options.token_env,
        insecure=options.insecure,
        pending=options.pending,
        replica_id=options.replica_id,
        scorers=(
            *own_scorers("image", options.image_scorer or ()),
            *own_scorers("video", options.video_scorer or ()),
        ),
        max_body_bytes=options.max_body_mib << 20,
        max_queue=options.max_queue,
        spool_dir=options.spool_dir,
        max_spool_bytes=options.max_spool_mib << 20,
        upload_timeout_s=options.upload_timeout,
        scorer_timeout_s=options.scorer_timeout,
        memory_limit_mib=options.memory_limit_mib,
        start_timeout_s=options.start_timeout,
        redis_url=options.redis,
        redis_env=options.redis_env,
        result_ttl_s=options.result_ttl,
        max_results=options.max_results,
        catalog=options.catalog,
        max_group_bytes=options.max_group_mib << 20,
        max_groups=options.max_groups,
        group_workers=options.group_workers,
        group_timeout_s=options.group_timeout,
        drain_s=options.drain,
    )
    run(settings, lambda url: typer.echo(f"posttrain serve: listening on {url}"))
