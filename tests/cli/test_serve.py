# SPDX-License-Identifier: Apache-2.0
"""`posttrain serve` from a shell: its line, its exit codes, its flags."""

from __future__ import annotations

import dataclasses
import http.client
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.cli.serve import ServeOptions
from posttrain.service import ServiceSettings


def test_it_says_where_it_listens_and_ends_well(tmp_path: Path) -> None:
    """One line on standard output, as soon as requests are taken; exit code 0 after an interrupt."""
    served = subprocess.Popen(
        [sys.executable, "-m", "posttrain", "serve", "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert served.stdout is not None
    found = re.fullmatch(r"posttrain serve: listening on http://127\.0\.0\.1:(\d+)\n", served.stdout.readline())
    assert found is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
    connection.request("GET", "/healthz")
    assert connection.getresponse().status == 200
    connection.close()
    served.send_signal(signal.SIGINT)
    out, _ = served.communicate(timeout=60)
    assert (served.returncode, out) == (0, "")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--host", "192.0.2.1"), "can be reached by other machines"),
        (("--pending", "204"), "--pending"),
        (("--port", "70000"), "--port"),
        (("--image-scorer", "x"), "expected NAME=package.module:function, got 'x'"),
    ],
)
def test_bad_usage_is_exit_code_2(command: Callable[..., Any], flags: tuple[str, ...], text: str) -> None:
    """With what was expected."""
    done = command("serve", *flags)
    assert done.returncode == 2
    assert text in done.stderr


def test_the_defaults_are_those_of_the_settings() -> None:
    """A flag that is not given changes nothing."""
    ours, theirs = ServeOptions(), ServiceSettings()
    same = {
        "host": theirs.host,
        "port": theirs.port,
        "pending": theirs.pending,
        "result_ttl": theirs.result_ttl_s,
        "max_results": theirs.max_results,
        "max_queue": theirs.max_queue,
        "max_body_mib": theirs.max_body_bytes >> 20,
        "max_spool_mib": theirs.max_spool_bytes >> 20,
        "upload_timeout": theirs.upload_timeout_s,
        "scorer_timeout": theirs.scorer_timeout_s,
        "group_timeout": theirs.group_timeout_s,
        "group_workers": theirs.group_workers,
        "max_groups": theirs.max_groups,
        "max_group_mib": theirs.max_group_bytes >> 20,
        "start_timeout": theirs.start_timeout_s,
        "drain": theirs.drain_s,
    }
    assert {name: getattr(ours, name) for name in same} == same
    others = {field.name for field in dataclasses.fields(ours)} - set(same)
    assert {name: getattr(ours, name) for name in others if getattr(ours, name)} == {}
