# SPDX-License-Identifier: Apache-2.0
"""Recorded answers of a judge, in one SQLite file that threads and processes share."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple, Self, final

import msgspec

from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.frozen import FrozenJson

__all__ = ["AnswerCache", "RecordedAnswer", "answer_key"]

_VERSION: Final = 1
_APPLICATION: Final = 0x504A4143
"""What SQLite's header calls this kind of file: PJAC."""
_BUSY_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.01
_PER_QUERY: Final = 500

_TABLE: Final = """
CREATE TABLE answers (
    key TEXT PRIMARY KEY NOT NULL,
    judge TEXT NOT NULL,
    model TEXT NOT NULL,
    base_url TEXT NOT NULL,
    sample INTEGER NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    prompt_tokens INTEGER,
    completion_tokens INTEGER
)
"""
_COLUMNS: Final = "key, judge, model, base_url, sample, request, answer, prompt_tokens, completion_tokens"
_REPLACE: Final = (
    "ON CONFLICT (key) DO UPDATE SET answer = excluded.answer, prompt_tokens = excluded.prompt_tokens, "
    "completion_tokens = excluded.completion_tokens"  # the key says all the rest
)


class RecordedAnswer(NamedTuple):
    """One answer that was parsed when it was recorded, and what it answers. No key of an endpoint is in it."""

    key: str
    judge: str
    """Hash of the judge content."""
    model: str
    base_url: str
    sample: int
    request: str
    """The exact body of the request."""
    answer: str = ""
    """The model's text."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def filled(self, answer: str, prompt_tokens: int | None, completion_tokens: int | None) -> Self:
        """The same with its answer."""
        return self._replace(answer=answer, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)


def answer_key(content_sha256: str, identity: Mapping[str, FrozenJson], body: bytes, sample: int) -> str:
    """SHA-256 that an answer is found by.

    Args:
        content_sha256: hash of the judge content.
        identity: `JudgeConfig.cache_identity`.
        body: the exact body of the request.
        sample: which of the repeated askings it is.
    """
    parts = [content_sha256.encode(), msgspec.json.encode(identity, order="sorted"), body, str(sample).encode()]
    digest = hashlib.sha256()
    for part in parts:
        # Each part with its length: no two lists of parts give the same bytes.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


@final
class AnswerCache:
    """The file of recorded answers.

    It is made with mode 0600, in write-ahead mode: readers don't wait, writers take turns, a killed process leaves it
    whole. Keep it on a local disk. The connection belongs to the process that opened it.

    Args:
        path: the file; its folder exists.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the file, or begin one.

        Raises:
            RewardConfigError: it can't be made or read, is of another kind, or of a newer version; it says how to mend.
        """
        try:
            # SQLite would make it with the mode that the umask leaves; its companions take the mode of the file.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise RewardConfigError(f"judge cache {self.path} can't be opened: {error.strerror}") from error
        with self._explained():
            connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        self._connection = connection

    def close(self) -> None:
        """Close it; closing what is not open does nothing."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        _begin_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        with _transaction(connection):
            kind, version = (
                connection.execute(f"PRAGMA {it}").fetchone()[0] for it in ("application_id", "user_version")
            )
            if kind == 0 and version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            elif kind != _APPLICATION:
                raise RewardConfigError(f"judge cache {self.path} is another SQLite database: name another file")
            elif version != _VERSION:
                raise RewardConfigError(
                    f"judge cache {self.path} has version {version}, this Posttrain writes {_VERSION}: "
                    "use the Posttrain that wrote it, or name another file"
                )

    def find(self, keys: Collection[str]) -> dict[str, RecordedAnswer]:
        """What is recorded under any of the keys."""
        wanted, found = list(dict.fromkeys(keys)), dict[str, RecordedAnswer]()
        with self._explained(), self._lock:
            for start in range(0, len(wanted), _PER_QUERY):
                some = wanted[start : start + _PER_QUERY]
                marks = ",".join("?" * len(some))
                rows = self._use().execute(f"SELECT {_COLUMNS} FROM answers WHERE key IN ({marks})", some)  # noqa: S608  # marks only
                found.update((row[0], RecordedAnswer(*row)) for row in rows)
        return found

    def record(
        self, answers: Sequence[RecordedAnswer], *, replacing: Collection[str] = ()
    ) -> dict[str, RecordedAnswer]:
        """Record answers, all or none of them. What is recorded already stays, unless its key is in `replacing`.

        Returns:
            What stayed, by its key.
        """
        stayed = dict[str, RecordedAnswer]()
        if not answers:
            return stayed
        marks = ",".join("?" * len(RecordedAnswer._fields))
        with self._explained(), self._lock, _transaction(self._use()) as connection:
            for answer in answers:
                conflict = _REPLACE if answer.key in replacing else "ON CONFLICT (key) DO NOTHING"
                sql = f"INSERT INTO answers ({_COLUMNS}) VALUES ({marks}) {conflict}"  # noqa: S608  # constants only
                if connection.execute(sql, answer).rowcount == 0:
                    row = connection.execute(f"SELECT {_COLUMNS} FROM answers WHERE key = ?", [answer.key]).fetchone()  # noqa: S608  # constants only
                    stayed[answer.key] = RecordedAnswer(*row)
        return stayed

    def __len__(self) -> int:
        with self._explained(), self._lock:
            count: int = self._use().execute("SELECT count(*) FROM answers").fetchone()[0]
        return count

    def __iter__(self) -> Iterator[RecordedAnswer]:
        """Every answer, in the order in which they were recorded, as of the beginning of the walk."""
        with self._explained(), self._lock:
            rows = self._use().execute(f"SELECT {_COLUMNS} FROM answers ORDER BY rowid").fetchall()  # noqa: S608  # constants only
        return (RecordedAnswer(*row) for row in rows)

    def _use(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RewardConfigError(f"judge cache {self.path} is not open")
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn SQLite's errors into ours."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error) or "busy" in str(error):
                why = f"judge cache {self.path} was held by another process for more than {_BUSY_S:g} s"
                raise RewardUnavailableError(why) from error
            raise RewardConfigError(f"judge cache {self.path} can't be used: {error}") from error
        except sqlite3.DatabaseError as error:
            raise RewardConfigError(
                f"judge cache {self.path} can't be read: {error}. It is damaged, or is no cache: move it away and a "
                "new one is begun, which asks everything again"
            ) from error


def _begin_log(connection: sqlite3.Connection) -> None:
    """Turn to write-ahead mode. Of two that do so at once SQLite refuses one without a wait."""
    end = monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() >= end:
                raise
            sleep(_LOOK_AGAIN_S)
        else:
            return


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing. The lock is taken at once: one that was read first could not be had later."""
    if connection.in_transaction:  # an interrupt left it so
        connection.execute("ROLLBACK")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite ends it by itself where the disk is full
            connection.execute("ROLLBACK")
        raise
