# SPDX-License-Identifier: Apache-2.0
"""What a fresh process notices, and what it passes over."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posttrain.runs import load_config
from posttrain.runs.checks import PreflightReport, preflight
from posttrain.runs.checks.watch import device_signs, open_descriptors

Found = Callable[[PreflightReport], dict[str, tuple[str, ...]]]

CATALOG = """
from functools import partial
import {library}
from posttrain.rewards import RewardProviderSpec, map_candidates

def catalog():
    return {{"it": RewardProviderSpec(factory=partial(map_candidates, print), revision="1", terms=("t",))}}
"""

# What urllib3 does when it is imported.
PROBE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
    one.bind(("localhost", 0))
"""


@pytest.mark.parametrize(
    ("folder", "more", "failing"),
    [
        ("site-packages", "", []),
        ("site-packages", "    one.connect_ex(('127.0.0.1', 9))\n", ["no socket"]),
        ("site-packages", "kept = socket.socket()\n", ["no socket"]),
        ("site-packages", "with socket.socket() as two:\n    two.bind(('0.0.0.0', 0))\n", ["no socket"]),
        ("src", "", ["no socket"]),
    ],
)
def test_a_library_that_probes_the_machine(
    tmp_path: Path,
    found: Found,
    written: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    more: str,
    failing: list[str],
) -> None:
    """A library that tries a socket on this machine while it is imported is passed over.

    One that connects, that is open to others or that keeps a socket is not; neither is the author's own module.
    """
    library = f"probing_{folder[:3]}_{len(more)}"
    written(f"{folder}/{library}.py", PROBE + more)
    written(f"{folder}/rewards_of_{library}.py", CATALOG.format(library=library))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / folder), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path / folder)
    report = preflight(
        load_config(None, ["rl.reward=it", "rl.group_size=2", f"rl.reward_catalog=rewards_of_{library}:catalog"])
    )
    assert list(found(report)) == failing


def test_the_standard_librarys_helper(flight: Callable[..., PreflightReport], found: Found) -> None:
    """The process that keeps track of shared resources, and ends with its owner, is none that is left behind."""
    assert "no process" not in found(flight("helped"))


@pytest.mark.parametrize(
    ("target", "is_device"),
    [
        ("/dev/nvidia0", True),
        ("/dev/nvidiactl", True),
        ("/dev/nvidia-uvm", True),
        ("/dev/nvidia-uvm-tools", True),
        ("/dev/nvidia-caps/nvidia-cap2", True),
        ("/dev/kfd", True),
        ("/dev/dri/renderD128", True),
        ("/dev/dxg", True),
        ("/dev/null", False),
        ("/home/dev/nvidia0", False),
        ("/dev/fuse", False),
        ("socket:[12345]", False),
    ],
)
def test_a_descriptor_of_a_gpu(target: str, is_device: bool) -> None:
    """An open device file of a GPU is a sign, and names the device; other files are none."""
    assert device_signs({target}, {}) == ([f"{target} is open"] if is_device else [])


def test_a_context_of_torch() -> None:
    """Torch is asked where it was imported, and is not imported to be asked."""
    for answer, signs in ((True, ["torch.cuda is initialized"]), (False, [])):
        cuda = SimpleNamespace(is_initialized=lambda answer=answer: answer)
        modules: dict[str, Any] = {"torch": SimpleNamespace(cuda=cuda)}
        assert device_signs(set(), modules) == signs
    assert device_signs(set(), {}) == []
    assert "torch" not in sys.modules or hasattr(sys.modules["torch"], "Tensor")


def test_open_descriptors(tmp_path: Path) -> None:
    """Each descriptor is told with what it is open on; a system without such a folder has none to tell of."""
    with (tmp_path / "file").open("w") as file:
        assert open_descriptors()[str(file.fileno())] == str(tmp_path / "file")
    assert open_descriptors(tmp_path / "nowhere") == {}
    reading, writing = os.pipe()
    assert open_descriptors()[str(reading)].startswith("pipe:")
    os.close(reading)
    os.close(writing)
