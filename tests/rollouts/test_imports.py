# SPDX-License-Identifier: Apache-2.0
"""What reading and writing rollouts loads."""

import subprocess
import sys
from pathlib import Path

_READ = """
import sys
from posttrain.rollouts.journal import Journal
from posttrain.rollouts.source import RolloutSource
print(len(list(RolloutSource(sys.argv[1]).groups())), *sorted(sys.modules))
"""


def loaded(path: Path) -> set[str]:
    """The modules of a process that read one group from the file."""
    done = subprocess.run([sys.executable, "-c", _READ, str(path)], capture_output=True, text=True, check=True)
    count, *modules = done.stdout.split()
    assert count == "1"
    return set(modules)


def test_zstandard_is_loaded_for_its_files_only(tmp_path: Path) -> None:
    """A plain file needs neither zstandard nor anything of the reward stage; a .zst file does load it."""
    import zstandard

    row = b'{"completions": ["a"]}\n'
    (tmp_path / "a.jsonl").write_bytes(row)
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(row))
    plain = loaded(tmp_path / "a.jsonl")
    assert "posttrain.rollouts.source" in plain
    assert not [name for name in plain if name.startswith(("zstandard", "posttrain.rewards", "numpy", "torch"))]
    assert "zstandard" in loaded(tmp_path / "a.jsonl.zst")
