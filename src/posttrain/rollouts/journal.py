# SPDX-License-Identifier: Apache-2.0
"""An output file that is written piece by piece and survives a kill at any moment.

Beside the target stand, while it is unfinished, ``.NAME.partial`` with what was written and ``.NAME.journal`` with the
last checkpoint. The order of system calls makes each crash leave one checkpoint that can be read:

    checkpoint    partial written, synced      then the journal replaced, synced
    begin         partial made, locked         journal with length 0 put in place, then an older partial emptied
    finish        partial gets its permissions, synced, renamed to the target, folder synced, journal removed

So a journal without a partial means that the target is complete, which its digest confirms, and bytes of the partial
behind the recorded length were never promised: a resumed run cuts them off.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self, final

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.frozen import FrozenJson, Json, freeze, thaw
from posttrain.rollouts.atomic import real_target, replace_file, sync_folder, write_all
from posttrain.rollouts.checkpoint import Checkpoint, check_header, read_checkpoint

__all__ = ["Journal"]

_BUFFER: Final = 1 << 20
_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644
_SAFE: Final = "; the last checkpoint is safe: mend it and go on with --resume"
_OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


@final
class Journal:
    """The writer of one unfinished output. Made by `begin` or `resume`.

    A context manager: leaving it, by an exception too, lets go of the files and leaves them for `resume`; only
    `finish` and `discard` end the work. While the output is unfinished, only its owner can read it. After a failure
    or an interrupt within one of its methods a journal can only be closed, since nobody knows how far it got.

    Example:
        Write on, wherever an earlier run had come to::

            journal = Journal.resume(target, header) or Journal.begin(target, header)
            with journal:
                for piece, state in work(journal.state):
                    journal.append(piece)
                    journal.checkpoint(state)
                journal.finish()
    """

    def __init__(self, target: Path, file: io.FileIO | None, checkpoint: Checkpoint) -> None:
        self._target = target
        self._file = file
        self._checkpoint = checkpoint
        self._length = checkpoint.length
        self._digest = hashlib.sha256()
        self._pending = bytearray()
        self._is_usable = True
        self._is_finished = file is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({str(self._target)!r}, checkpoint at byte {self._checkpoint.length})"

    @staticmethod
    def leftover(target: str | Path) -> bool:
        """Whether unfinished work on `target` stands beside it, for `resume` to take up.

        Raises:
            RewardConfigError: the target's folder is missing.
        """
        partial, journal, _ = _beside(real_target(target))
        return journal.exists() or (partial.exists() and partial.stat().st_size > 0)

    @classmethod
    def begin(cls, target: str | Path, header: Json, *, overwrite: bool = False) -> Journal:
        """Begin an output. Its state is None until the first checkpoint.

        Args:
            target: the file that is to be written; one that is there stays until `finish` replaces it. A symbolic
                link stays one: the file that it points to is written.
            header: what must not change until the output is finished; `resume` refuses another one.
            overwrite: throw unfinished work on the target away.

        Raises:
            RewardConfigError: there is unfinished work, another process writes the target, or the file system refuses.
            RewardContractError: the header is no JSON.
        """
        frozen = freeze(header, "header")
        path = real_target(target)
        partial, journal, temporary = _beside(path)
        unfinished = RewardConfigError(
            f"unfinished results of an earlier run stand beside {target} ({partial.name}, {journal.name}): go on with "
            "--resume, or throw them away with --restart"
        )
        with _refusals(partial):
            if not overwrite and journal.exists() and not partial.exists():
                raise unfinished
            file = _locked(partial, create=True)
            with _closed_on_failure(file):
                if not overwrite and (journal.exists() or os.fstat(file.fileno()).st_size):
                    raise unfinished
                checkpoint = Checkpoint(header=frozen, length=0, sha256=hashlib.sha256().hexdigest(), state=None)
                # The new journal comes first: from here on, what an older partial holds does not count.
                os.fchmod(file.fileno(), _PRIVATE)
                temporary.unlink(missing_ok=True)
                replace_file(journal, temporary, checkpoint.encode(), mode=_PRIVATE)
                os.ftruncate(file.fileno(), 0)
        return cls(path, file, checkpoint)

    @classmethod
    def resume(cls, target: str | Path, header: Json) -> Journal | None:
        """Take an unfinished output up at its last checkpoint; None when there is nothing to take up.

        What was appended after the checkpoint is cut off. When all that was missing is the removal of the journal,
        the journal that is returned `is_finished`; calling `finish` does the rest.

        Raises:
            RewardConfigError: the recorded header differs from `header`, a file is damaged or missing, another
                process writes the target, or the file system refuses.
            RewardContractError: the header is no JSON.
        """
        frozen = freeze(header, "header")
        path = real_target(target)
        partial, journal, temporary = _beside(path)
        with _refusals(partial):
            try:
                file = _locked(partial, create=False)
            except FileNotFoundError:
                return cls._resume_finished(path, frozen)
            with _closed_on_failure(file):
                checkpoint = read_checkpoint(journal)
                if checkpoint is not None:
                    check_header(checkpoint.header, frozen, journal)
                    resumed = cls(path, file, checkpoint)
                    resumed._recover()
                    temporary.unlink(missing_ok=True)
                    return resumed
                if os.fstat(file.fileno()).st_size:
                    raise RewardConfigError(
                        f"{partial} has no journal beside it ({journal.name}), so that nobody knows how much of it is "
                        "good: put it back, or start over with --restart"
                    )
            # An earlier run was killed before its first checkpoint; `begin` takes the empty file over.
            file.close()
        return None

    @classmethod
    def _resume_finished(cls, path: Path, header: FrozenJson) -> Journal | None:
        partial, journal, _ = _beside(path)
        checkpoint = read_checkpoint(journal)
        if checkpoint is None:
            return None
        check_header(checkpoint.header, header, journal)
        if path.exists() and path.stat().st_size == checkpoint.length:
            with path.open("rb") as target:
                if hashlib.file_digest(target, "sha256").hexdigest() == checkpoint.sha256:
                    return cls(path, None, checkpoint)
        raise RewardConfigError(
            f"{journal} records unfinished results, but {partial.name} beside it is gone: put it back, or "
            "start over with --restart"
        )

    def _recover(self) -> None:
        """Check what the checkpoint promised, and cut off what came after it."""
        file, wanted = self._open_file(), self._checkpoint
        os.fchmod(file, _PRIVATE)
        done = 0
        while done < wanted.length and (piece := os.pread(file, min(_BUFFER, wanted.length - done), done)):
            self._digest.update(piece)
            done += len(piece)
        if done < wanted.length or self._digest.hexdigest() != wanted.sha256:
            partial, _, _ = _beside(self._target)
            found = f"has {done} bytes" if done < wanted.length else "has other bytes"
            raise RewardConfigError(
                f"{partial} is damaged: its journal records {wanted.length} bytes of it, and it {found}. Put the file "
                f"back as it was, or start over with --restart"
            )
        os.ftruncate(file, wanted.length)

    @property
    def state(self) -> Any:
        """The state at the last checkpoint, a private copy; None before the first."""
        return thaw(self._checkpoint.state)

    def lines(self) -> Iterator[bytes]:
        """The lines that were appended up to the last checkpoint, without their line feeds.

        Raises:
            RewardContractError: the journal is closed or finished.
            RewardConfigError: the file system refuses.
        """
        self._open_file()
        partial, _, _ = _beside(self._target)
        left = self._checkpoint.length
        with _refusals(partial), partial.open("rb") as file:
            while left > 0 and (line := file.readline()):
                left -= len(line)
                yield line.removesuffix(b"\n")

    @property
    def is_finished(self) -> bool:
        """Whether the target is complete: by `finish`, or by that of an earlier run, which only left the journal."""
        return self._is_finished

    def append(self, data: bytes) -> None:
        """Write `data` behind what was written; it counts once a checkpoint is made.

        Raises:
            RewardConfigError: the file system refuses.
        """
        self._open_file()
        self._enter_step()
        self._pending += data
        if len(self._pending) >= _BUFFER:
            with _refusals(self._target, _SAFE):
                self._write()
        self._is_usable = True

    def checkpoint(self, state: Json) -> None:
        """Make everything that was appended, and `state` with it, survive a crash.

        Raises:
            RewardConfigError: the file system refuses; the last checkpoint stands.
            RewardContractError: the state is no JSON; nothing was done.
        """
        frozen = freeze(state, "state")
        file = self._open_file()
        _, journal, temporary = _beside(self._target)
        with self._step():
            self._write()
            os.fsync(file)
            checkpoint = Checkpoint(
                header=self._checkpoint.header, length=self._length, sha256=self._digest.hexdigest(), state=frozen
            )
            replace_file(journal, temporary, checkpoint.encode(), mode=_PRIVATE)
            self._checkpoint = checkpoint

    def finish(self) -> None:
        """Put the output in the place of the target, readable as the umask says, and end the work.

        Raises:
            RewardContractError: bytes were appended since the last checkpoint.
            RewardConfigError: the file system refuses.
        """
        if self._pending or self._length != self._checkpoint.length:
            raise RewardContractError("bytes were appended since the last checkpoint: make one, then finish")
        partial, journal, temporary = _beside(self._target)
        with self._step():
            if self._file is not None:
                os.fchmod(self._file.fileno(), _public_mode(temporary))
                os.fsync(self._file.fileno())
                partial.replace(self._target)
            sync_folder(self._target.parent)
            journal.unlink(missing_ok=True)
            temporary.unlink(missing_ok=True)
            self._is_finished = True
        self.close()

    def discard(self) -> None:
        """Throw the unfinished output away, after a failed step too; a target that is there stays as it is.

        Raises:
            RewardContractError: the journal is closed, so that the files may be another process's by now.
            RewardConfigError: the file system refuses.
        """
        if self._file is None and not (self._is_finished and self._is_usable):
            raise RewardContractError(f"the journal of {self._target} is closed: nothing can be discarded")
        partial, journal, temporary = _beside(self._target)
        with _refusals(self._target):
            journal.unlink(missing_ok=True)
            temporary.unlink(missing_ok=True)
            if self._file is not None:
                partial.unlink(missing_ok=True)
            sync_folder(self._target.parent)
        self.close()

    def close(self) -> None:
        """Let go of the files without ending the work. Closing twice is fine."""
        self._is_usable = False
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _write(self) -> None:
        write_all(self._open_file(), self._pending, self._length)
        self._digest.update(self._pending)
        self._length += len(self._pending)
        self._pending = bytearray()

    def _open_file(self) -> int:
        if self._file is None:
            what = "is complete" if self._is_finished else "is closed"
            raise RewardContractError(f"the journal of {self._target} {what}: nothing can be written to it")
        return self._file.fileno()

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One operation: when it does not come to its end, no other may follow."""
        self._enter_step()
        with _refusals(self._target, _SAFE):
            yield
        self._is_usable = True

    def _enter_step(self) -> None:
        if not self._is_usable:
            raise RewardContractError(
                f"the journal of {self._target} was closed, or failed or was interrupted in an earlier step: resume it"
            )
        self._is_usable = False


def _beside(target: Path) -> tuple[Path, Path, Path]:
    """The partial, the journal, and the journal's temporary."""
    name = f".{target.name}"
    return (
        target.with_name(f"{name}.partial"),
        target.with_name(f"{name}.journal"),
        target.with_name(f"{name}.journal-tmp"),
    )


def _locked(partial: Path, *, create: bool) -> io.FileIO:
    """The partial, opened and locked for this process.

    Raises:
        FileNotFoundError: there is none, and it is not to be created.
        RewardConfigError: another process has it.
    """
    flags = _OPEN | (os.O_CREAT if create else 0)
    while True:
        # An object, not a bare descriptor: wherever an interrupt comes, the lock goes with the last reference.
        file = io.FileIO(partial, "r+", opener=lambda name, _: os.open(name, flags, _PRIVATE))
        with _closed_on_failure(file):
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RewardConfigError(
                    f"{partial} is being written by another process: wait for it, or choose another output"
                ) from error
            # The other process may have finished in between: then this is its target, and no partial any more.
            if _is_at(file.fileno(), partial):
                return file
        file.close()


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def _closed_on_failure(file: io.FileIO) -> Iterator[None]:
    # Not left to the last reference: the error's own traceback holds one.
    try:
        yield
    except BaseException:
        file.close()
        raise


@contextmanager
def _refusals(path: Path, fix: str = "") -> Iterator[None]:
    """Say a refusal of the file system as an error of the run's set-up."""
    try:
        yield
    except OSError as error:
        raise RewardConfigError(f"can't write {path}: {error.strerror or error}{fix}") from error


def _public_mode(probe: Path) -> int:
    """What the umask leaves of a public file's permissions.

    The umask itself can only be read by setting it, for all threads of the process; a file that is made tells it too.
    """
    probe.unlink(missing_ok=True)
    file = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PUBLIC)
    try:
        return stat.S_IMODE(os.fstat(file).st_mode)
    finally:
        os.close(file)
        probe.unlink()
