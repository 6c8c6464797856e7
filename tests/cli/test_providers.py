# SPDX-License-Identifier: Apache-2.0
"""`posttrain providers`: what a catalog offers, and what identifies it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

BUILT_IN = ["arithmetic", "constant", "countdown", "exact_match", "gsm8k", "nonempty"]


def listed(text: str) -> dict[str, list[str]]:
    """Provider to its other cells; no cell of these tests holds a space."""
    return {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:-1]}


def test_the_built_ins(command: Callable[..., Any]) -> None:
    """Without a catalog the six built-ins are listed in order, with needs, terms, revision and identity."""
    done = command("providers")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["provider", "needs", "terms", "diagnostics", "revision", "identity"]
    assert lines[-1] == "6 built-in providers"
    rows = listed(done.stdout)
    assert list(rows) == BUILT_IN
    # Their semantic identity is null: everything that decides a score is in the code, which the revision stands for.
    identity = hashlib.sha256(b"null").hexdigest()[:12]
    assert rows["gsm8k"] == ["reference", "gsm8k", "-", "1", identity]
    assert rows["constant"] == ["-", "constant", "-", "1", identity]


def test_a_catalog_comes_first(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """The user's own providers stand above the built-ins; the last line counts both and says where they come from."""
    written(
        "mine.py",
        """
from functools import partial
from posttrain.rewards import RewardProviderSpec, map_candidates

def catalog():
    make = partial(map_candidates, print)
    return {
        "zoo": RewardProviderSpec(
            factory=make, revision="2026-08", terms=("a", "b"), needs=("prompt", "reference"),
            diagnostics=("calls",), semantic_identity={"model": "m", "n": 1},
        ),
        "bar": RewardProviderSpec(factory=make, revision="[x]", terms=("t",)),
    }
""",
    )
    done = command("providers", "--catalog", "mine.py:catalog")
    assert done.returncode == 0
    rows = listed(done.stdout.replace(", ", ","))
    assert list(rows) == ["bar", "zoo", *BUILT_IN]
    assert rows["bar"][3] == "[x]"
    identity = hashlib.sha256(b'{"model":"m","n":1}').hexdigest()[:12]
    assert rows["zoo"] == ["prompt,reference", "a,b", "calls", "2026-08", identity]
    last = done.stdout.splitlines()[-1]
    assert last.startswith("6 built-in providers; 2 of mine.py@sha256:")
    assert last.endswith(":catalog")


def test_a_catalog_that_fails(command: Callable[..., Any], written: Callable[..., Path]) -> None:
    """A catalog that can't be had is bad set-up, and no table is shown."""
    written("mine.py", "def catalog():\n    return {'gsm8k': None, 'x y': 1}\n")
    done = command("providers", "--catalog", "mine.py:catalog")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "'gsm8k' is a built-in provider and can't be overridden" in done.stderr
    assert "'x y'" in done.stderr
