# SPDX-License-Identifier: Apache-2.0
"""Whatever is typed or stands in a file, a config comes out or one `RewardConfigError`, and nothing else."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardConfigError
from posttrain.runs import load_config
from posttrain.runs.config.keys import LEAVES, SECTIONS, dotted

# Pieces that mean something to a reader, and anything else.
_pieces = st.one_of(
    st.sampled_from([*(dotted(key) for key in (*LEAVES, *SECTIONS)), *(key[-1] for key in LEAVES)]),
    st.sampled_from("=:.,[]{}\"'#-&*!|>%@`?~<\\$\n\t "),
    st.sampled_from(["\r\n", "\n  ", "---", "<<", "!!", '"""', "${", "\0"]),
    st.sampled_from(
        ["8", "08", "1e3", "true", "null", "gsm8k", "rl", ".5", "x.jsonl", "\u2028", "\ud800", "\x85", "é"]
    ),
)
texts = st.lists(_pieces, max_size=12).map("".join)


@given(st.lists(texts, max_size=3))
def test_any_overrides(overrides: list[str]) -> None:
    """Texts that no shell would give either."""
    with suppress(RewardConfigError):
        load_config(None, overrides)


@given(texts, st.sampled_from(sorted(LEAVES)))
def test_any_value_of_any_key(value: str, key: tuple[str, ...]) -> None:
    """Each key with each text behind it: what is accepted can be written and read again."""
    needed = ["rl.reward=gsm8k", "rl.group_size=8"]
    with tempfile.TemporaryDirectory() as folder, suppress(RewardConfigError):
        config = load_config(None, [*needed, f"{dotted(key)}={value}"])
        path = Path(folder) / "run.toml"
        path.write_bytes(config.to_toml().encode())
        assert load_config(path) == config


@pytest.mark.parametrize("suffix", [".toml", ".yaml"])
@given(content=st.one_of(st.binary(max_size=30), texts.map(lambda text: text.encode("utf-8", "surrogatepass"))))
def test_any_file(suffix: str, content: bytes) -> None:
    """Bytes, and texts that are nearly a config."""
    with tempfile.TemporaryDirectory() as folder, suppress(RewardConfigError):
        path = Path(folder) / f"run{suffix}"
        path.write_bytes(content)
        load_config(path)
