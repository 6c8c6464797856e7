# SPDX-License-Identifier: Apache-2.0
"""Files that are written whole or not at all."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.rollouts.atomic import write_atomically


def test_it_replaces_the_file(tmp_path: Path) -> None:
    """The file holds the new content and nothing is left beside it."""
    path = tmp_path / "metrics.json"
    for data in (b"old", b"", b"new"):
        write_atomically(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


def test_pieces(tmp_path: Path) -> None:
    """Content may come in pieces, and be longer than one system call takes."""
    write_atomically(tmp_path / "a", iter([b"a", b"", b"bc" * 3_000_000]))
    assert (tmp_path / "a").read_bytes() == b"a" + b"bc" * 3_000_000


@pytest.mark.parametrize(
    ("mask", "mode", "expected"), [(0o022, 0o644, 0o644), (0o077, 0o644, 0o600), (0, 0o600, 0o600)]
)
def test_permissions(tmp_path: Path, mask: int, mode: int, expected: int) -> None:
    """A new file has the mode that was asked for, less the umask, whatever the old one had."""
    path = tmp_path / "a"
    path.touch(0o400)
    old = os.umask(mask)
    try:
        write_atomically(path, b"x", mode=mode)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == expected


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_one(tmp_path: Path, exists: bool) -> None:
    """The file that a link points to is written, in its own folder; a dangling link is followed too."""
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "a", tmp_path / "a"
    if exists:
        real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert {each.name for each in real.parent.iterdir()} == {"a"}


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """A missing folder is named."""
    with pytest.raises(RewardConfigError, match=r"can't write .*/out/a: there is no folder .*/out; make it first"):
        write_atomically(tmp_path / "out" / "a", b"")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    """A folder in the place of the file is not replaced."""
    with pytest.raises(RewardConfigError, match="it is a folder; name a file in it"):
        write_atomically(tmp_path, b"")


def test_a_refusal_of_the_file_system_is_named(tmp_path: Path) -> None:
    """What the file system says is passed on with the file's name, and nothing is left behind."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    path = tmp_path / "a"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(RewardConfigError, match=r"can't write .*/a: File too large"):
            write_atomically(path, b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt("broken")])
def test_a_failure_within_the_data_changes_nothing(tmp_path: Path, error: BaseException) -> None:
    """When the pieces can't be made, the old file stays, the temporary goes and the error passes."""

    def pieces() -> Iterator[bytes]:
        yield b"new"
        raise error

    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(type(error), match="broken"):
        write_atomically(path, pieces())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupt_at_any_line_leaves_old_or_new(
    tmp_path: Path, interrupted: Callable[[Callable[[], object], int], bool]
) -> None:
    """An interrupt before each executed line, in turn, leaves the old file or the new one and no temporary."""
    path = tmp_path / "a"
    seen = set()
    at = 0
    while True:
        at += 1
        path.write_bytes(b"old")
        was_interrupted = interrupted(lambda: write_atomically(path, [b"n", b"ew"]), at)
        seen.add(path.read_bytes())
        assert list(tmp_path.iterdir()) == [path]
        if not was_interrupted:
            break
    # Fewer would mean that the lines were not traced.
    assert at > 20
    assert seen == {b"old", b"new"}
