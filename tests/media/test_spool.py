# SPDX-License-Identifier: Apache-2.0
"""A spool file is private and has no name, so that nothing is ever left behind; its space is checked first."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError
from posttrain.media import spool
from posttrain.media.spool import SpoolFile, check_spool


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(params=["unnamed", "unlinked"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to have a file without a name: the system's own, and to unlink one at once."""
    if request.param == "unlinked":
        monkeypatch.setattr(spool, "_HERE_ONLY", 0)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_the_file_is_private_and_has_no_name(tmp_path: Path) -> None:
    """Mode 0600, no link, nothing in the folder while it is open; its bytes are there for whoever has it open."""
    with SpoolFile(str(tmp_path), 10) as file:
        file.write(b"01234")
        file.write(memoryview(b"56789"))
        status = os.fstat(file.fileno())
        assert (stat.S_IMODE(status.st_mode), status.st_nlink, status.st_size) == (0o600, 0, 10)
        assert stat.S_ISREG(status.st_mode)
        assert _names(tmp_path) == []
        assert not os.get_inheritable(file.fileno())
        assert os.pread(file.fileno(), 100, 0) == b"0123456789"
    assert _names(tmp_path) == []


@pytest.mark.usefixtures("way")
def test_a_wide_umask_makes_it_no_less_private(tmp_path: Path) -> None:
    """The mode does not hang on the process's umask."""
    before = os.umask(0)
    try:
        with SpoolFile(str(tmp_path), 1) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
    finally:
        os.umask(before)


@pytest.mark.usefixtures("way")
def test_a_child_reads_it_by_its_descriptor(tmp_path: Path) -> None:
    """A child that inherits the descriptor opens the file anew, at its start, although we wrote to its end."""
    with SpoolFile(str(tmp_path), 3) as file:
        file.write(b"abc")
        path = f"/dev/fd/{file.fileno()}"
        done = subprocess.run(["cat", path], pass_fds=(file.fileno(),), capture_output=True, check=True)
    assert done.stdout == b"abc"


def test_the_file_is_closed_once(tmp_path: Path) -> None:
    """Closing again does not close what has got the number since."""
    file = SpoolFile(str(tmp_path), 1)
    number = file.fileno()
    file.close()
    with (tmp_path / "other").open("w") as other:
        assert other.fileno() == number
        file.close()
        other.write("still open")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_closed_on_every_way_out(tmp_path: Path, error: type[BaseException]) -> None:
    """An error or an interrupt inside closes it, and passes through."""
    before = _open_files()
    with pytest.raises(error, match="out"), SpoolFile(str(tmp_path), 1):
        raise error("out")
    assert _open_files() == before


def test_without_a_folder_it_lies_in_the_temporary_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None means the platform's temporary directory, asked for at the time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with SpoolFile(None, 1) as file:
        where = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    assert str(where).startswith(str(tmp_path))


def test_the_space_is_checked_before_the_first_byte(tmp_path: Path) -> None:
    """More than the disk has is refused with both numbers; nothing is written, and no descriptor stays open."""
    before = _open_files()
    found = os.statvfs(tmp_path)
    need = found.f_bavail * found.f_frsize + (1 << 40)
    with pytest.raises(RewardConfigError, match="bytes free, one sample needs") as caught:
        SpoolFile(str(tmp_path), need)
    free, needed = (int(each.replace(",", "")) for each in re.findall(r"[\d,]{5,}", caught.value.message)[-2:])
    assert needed == need
    assert 0 < free < need
    assert repr(str(tmp_path)) in caught.value.message
    assert _names(tmp_path) == []
    assert _open_files() == before


def test_space_that_runs_out_on_the_way_is_named_too(tmp_path: Path) -> None:
    """When the system refuses the rest, the error is the same, with the cause kept."""
    program = (
        "import resource, signal, sys\n"
        "from posttrain.media.spool import SpoolFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "from posttrain.errors import RewardConfigError\n"
        "with SpoolFile(sys.argv[1], 2000) as file:\n"
        "    try:\n"
        "        file.write(bytes(2000))\n"
        "    except RewardConfigError as error:\n"
        "        print(type(error.__cause__).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    assert re.search(r"OSError the spool folder .* bytes free, one sample needs 2,000", done.stdout)
    assert _names(tmp_path) == []


@pytest.mark.parametrize("make", ["nowhere", "a_file", "read_only"])
@pytest.mark.usefixtures("way")
def test_a_folder_that_can_not_be_used_is_named(tmp_path: Path, make: str) -> None:
    """Missing, a file, or not writable: the error says which folder and which setting."""
    folder = tmp_path / make
    if make == "a_file":
        folder.touch()
    elif make == "read_only":
        folder.mkdir(mode=0o500)
        if os.geteuid() == 0:
            folder = Path("/proc/self")  # root may write to a folder of any mode, but to none of these
    with pytest.raises(RewardConfigError, match=r"no spool file can be made in .*: set spool_dir") as caught:
        check_spool(str(folder), 1)
    assert repr(str(folder)) in caught.value.message


def test_a_look_keeps_nothing(tmp_path: Path) -> None:
    """The check of a machine leaves neither a file nor a descriptor."""
    before = _open_files()
    check_spool(str(tmp_path), 1000)
    assert _names(tmp_path) == []
    assert _open_files() == before


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """A rank that is killed in the middle of a sample leaves no file, and its space is free again."""
    program = (
        "import signal, sys\n"
        "from posttrain.media.spool import SpoolFile\n"
        "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "file = SpoolFile(sys.argv[1], 1 << 20)\n"
        "file.write(bytes(1 << 20))\n"
        "print('written', flush=True)\n"
        "signal.pause()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        assert child.stdout.readline() == "written\n"
        assert _names(tmp_path) == []
        child.send_signal(number)
        assert child.wait(timeout=30) == -number
    assert _names(tmp_path) == []


def test_eight_ranks_at_once_hold_eight_files(tmp_path: Path) -> None:
    """Each holds its own, all of them nameless; when they have ended the folder is as empty as it was all along."""
    program = (
        "import sys\n"
        "from posttrain.media.spool import SpoolFile\n"
        "with SpoolFile(sys.argv[1], 1000) as file:\n"
        "    file.write(bytes(1000))\n"
        "    print('written', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    ranks = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    try:
        assert [rank.stdout.readline() for rank in ranks if rank.stdout is not None] == [b"written\n"] * 8
        open_files = [each for rank in ranks for each in Path(f"/proc/{rank.pid}/fd").iterdir()]
        held = [each.stat() for each in open_files if str(each.readlink()).startswith(str(tmp_path))]
        assert len({each.st_ino for each in held}) == len(held) == 8
        assert [(each.st_size, each.st_nlink) for each in held] == [(1000, 0)] * 8
        assert _names(tmp_path) == []
    finally:
        codes = [(rank.communicate(timeout=30), rank.returncode)[1] for rank in ranks]
    assert codes == [0] * 8
    assert _names(tmp_path) == []
