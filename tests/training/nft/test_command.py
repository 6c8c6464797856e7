# SPDX-License-Identifier: Apache-2.0
"""`posttrain nft` before any rank starts: its recipes, what it refuses, and how it says to begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.runs import load_config
from posttrain.training.nft.catalog import VARIABLE
from posttrain.training.nft.settings import check_config

RECIPES = ("nft_image_tiny", "nft_video_tiny", "nft_video")


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command describes does not reach the next test."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_fits(name: str, repository: Path) -> None:
    """Its keys exist, its values are valid, and its settings are such that a run can honour."""
    check_config(load_config(repository / "recipes" / f"{name}.toml"))


@pytest.mark.parametrize("name", ["nft_image_tiny", "nft_video_tiny"])
def test_a_tiny_recipe_passes_its_checks(name: str, repository: Path, command: Callable[..., Any]) -> None:
    """With nothing but this repository: preflight finds the described provider in a fresh process."""
    done = command("nft", "--config", f"recipes/{name}.toml", "--check", cwd=repository)
    assert (done.returncode, done.stdout) == (0, "posttrain nft: the checks passed\n"), done.stderr


def test_the_stand_in_for_the_deployed_revision_is_refused(repository: Path, command: Callable[..., Any]) -> None:
    """The recipe for real checkpoints does not run as it stands, and says what to set."""
    done = command("nft", "--config", "recipes/nft_video.toml", "--ranks", "8", cwd=repository)
    assert done.returncode == 2
    assert "provider_revision: 'SET-THE-DEPLOYED-REVISION' stands for the revision that you deployed" in done.stderr


def test_without_ranks_it_says_how_to_start_them(repository: Path, command: Callable[..., Any]) -> None:
    """Here, and under torchrun, with the words that were typed."""
    done = command("nft", "--config", "recipes/nft_image_tiny.toml", "rl.group_size=4", cwd=repository)
    typed = "posttrain nft --config recipes/nft_image_tiny.toml rl.group_size=4"
    assert done.returncode == 2
    assert f"On this machine: {typed} --ranks 4." in done.stderr
    assert f"torchrun --nproc-per-node=4 -m {typed}" in done.stderr


def test_ranks_that_make_no_whole_groups_are_refused_first(repository: Path, command: Callable[..., Any]) -> None:
    """Before a process is started for any of them."""
    done = command("nft", "--config", "recipes/nft_image_tiny.toml", "--ranks", "3", cwd=repository)
    assert done.returncode == 2
    assert "multiple of rl.group_size (2), got 3: start 2 or 4 ranks" in done.stderr


def test_preflight_of_such_a_config_alone_says_what_to_do(repository: Path, command: Callable[..., Any]) -> None:
    """`posttrain preflight` knows of no provider that only a run describes."""
    catalog = "rl.reward_catalog=posttrain.training.nft.catalog:catalog"
    done = command("preflight", "--config", "recipes/nft_image_tiny.toml", catalog, cwd=repository)
    assert done.returncode == 2
    assert "posttrain nft --config FILE --check" in " ".join(done.stdout.split())
