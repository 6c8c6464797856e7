# SPDX-License-Identifier: Apache-2.0
"""Importing the reward core is light: no trainer, no array library, no network, and hardly any time."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

SECONDS = 0.15
HEAVY = frozenset(
    {
        "aiohttp",
        "asyncio",
        "http.client",
        "httpx",
        "numpy",
        "openai",
        "pandas",
        "ray",
        "requests",
        "rich",
        "socket",
        "ssl",
        "torch",
        "typer",
        "urllib3",
    }
)
RULE = f"`import posttrain.rewards` loads none of {', '.join(sorted(HEAVY))} and takes less than {SECONDS} s"


def _heavy_after(statement: str, fresh_python: Callable[[str], str]) -> set[str]:
    """The heavy modules that `statement` loads in a fresh interpreter, beyond what that one loads by itself."""
    program = f"import sys\nbefore = set(sys.modules)\n{statement}\nafter = set(sys.modules) - before\n"
    return set(json.loads(fresh_python(f"{program}import json\nprint(json.dumps(sorted(after)))"))) & HEAVY


def test_the_reward_core_loads_nothing_heavy(fresh_python: Callable[[str], str]) -> None:
    """A fresh process that imports the core has loaded none of the heavy modules."""
    loaded = _heavy_after("import posttrain.rewards", fresh_python)
    assert not loaded, f"{RULE}; it loaded {', '.join(sorted(loaded))}"


@pytest.mark.parametrize("module", ["numpy", "http.client", "asyncio", "rich"])
def test_a_heavy_import_is_found(fresh_python: Callable[[str], str], module: str) -> None:
    """The check can fail: it sees a heavy module that is loaded beside the core."""
    assert module in _heavy_after(f"import posttrain.rewards, {module}", fresh_python)


def _seconds(statement: str, fresh_python: Callable[[str], str]) -> float:
    # Processor time: on an idle machine it is the wall time of an import, and other work does not add to it.
    clock = "from time import process_time\nstart = process_time()\n"
    return min(float(fresh_python(f"{clock}{statement}\nprint(process_time() - start)")) for _ in range(5))


def test_the_reward_core_is_imported_quickly(fresh_python: Callable[[str], str]) -> None:
    """The best of five fresh processes stays below the limit."""
    seconds = _seconds("import posttrain.rewards", fresh_python)
    assert seconds < SECONDS, f"{RULE}; it took {seconds:.3f} s"


def test_a_slow_import_is_found(fresh_python: Callable[[str], str]) -> None:
    """The check can fail: an import that takes longer than the limit is measured as such."""
    assert _seconds(f"while process_time() - start < {SECONDS}: pass", fresh_python) >= SECONDS


def test_a_failing_program_is_reported(fresh_python: Callable[[str], str]) -> None:
    """A fresh process that fails does not pass for one that loaded nothing."""
    with pytest.raises(AssertionError, match="no_such_module"):
        fresh_python("import no_such_module")
