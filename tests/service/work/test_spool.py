# SPDX-License-Identifier: Apache-2.0
"""Uploads on disk: private, bounded, and gone afterwards, also after a server that was killed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.service.work.spool import Spool


def test_a_file_is_private_and_goes_away(tmp_path: Path) -> None:
    """Folder 0700, file 0600; removing twice is no error; nothing is left after the end."""
    spool = Spool(tmp_path, limit=100)
    file = spool.reserve(3)
    assert file is not None
    file.write(b"ab")
    file.write(memoryview(b"c"))
    file.finish()
    assert file.path.read_bytes() == b"abc"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    file.remove()
    file.remove()
    assert (spool.used, file.path.exists()) == (0, False)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_room_is_promised_as_a_whole(tmp_path: Path) -> None:
    """What is promised counts before it is written, until it is removed."""
    spool = Spool(tmp_path, limit=100)
    first = spool.reserve(60)
    assert first is not None
    assert spool.reserve(41) is None
    second = spool.reserve(40)
    assert second is not None
    first.remove()
    third = spool.reserve(60)
    assert third is not None
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_dead_servers_are_removed(tmp_path: Path) -> None:
    """Those of living ones, and whatever else lies there, stay."""
    living = Spool(tmp_path, limit=1)
    dead = tmp_path / "posttrain-serve-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "1.npy").write_bytes(b"x")
    other = tmp_path / "posttrain-serve-other"
    other.mkdir()
    (other / "mine.txt").touch()
    spool = Spool(tmp_path, limit=1)
    assert set(tmp_path.iterdir()) == {living.folder, spool.folder, other}
    living.close()
    spool.close()


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    """With the reason of the system."""
    with pytest.raises(RewardConfigError, match=r"the spool folder .*nowhere: No such file"):
        Spool(tmp_path / "nowhere", limit=1)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """Of files that were finished, removed or abandoned, and of the spool itself."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    spool = Spool(tmp_path, limit=9)
    files = [spool.reserve(1) for _ in range(3)]
    for file in files:
        assert file is not None
        file.remove()
    spool.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
