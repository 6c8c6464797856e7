# SPDX-License-Identifier: Apache-2.0
"""The file of recorded answers: its mode, its key, its readers and writers, and what becomes of a bad one."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from posttrain.errors import RewardConfigError, RewardUnavailableError
from posttrain.judges.cache import AnswerCache, RecordedAnswer, answer_key, answers, export_jsonl


def _row(number: int, answer: str = "yes") -> RecordedAnswer:
    return RecordedAnswer(f"key{number}", "judge", "m", "http://h/v1", 0, json.dumps({"n": number}), answer, 3, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the cache is."""
    return tmp_path / "answers.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[AnswerCache]:
    """An open cache."""
    made = AnswerCache(path)
    made.open()
    yield made
    made.close()


def test_what_is_recorded_is_found(cache: AnswerCache, path: Path) -> None:
    """By its key, in this connection and after it was closed; also more keys than one query takes."""
    rows = [_row(number) for number in range(1201)]
    assert cache.record(rows) == {}
    keys = [row.key for row in rows]
    assert cache.find([*keys, "none"]) == {row.key: row for row in rows}
    cache.close()
    cache.close()
    cache.open()
    assert cache.find(["key7", "key7"]) == {"key7": _row(7)}
    assert len(cache) == 1201
    assert cache.find([]) == {}
    assert cache.record([]) == {}


def test_the_first_stays(cache: AnswerCache) -> None:
    """Recording again changes nothing and tells what is there, unless it is to be replaced."""
    cache.record([_row(1, "first")])
    assert cache.record([_row(1, "second"), _row(2)]) == {"key1": _row(1, "first")}
    assert cache.record([_row(1, "third")], replacing={"key1"}) == {}
    assert [row.answer for row in cache] == ["third", "yes"]


def test_all_or_nothing(cache: AnswerCache) -> None:
    """A row that can't be written takes those beside it along."""
    with pytest.raises(RewardConfigError, match="can't"):
        cache.record([_row(1), _row(2)._replace(answer=None)])  # type: ignore[arg-type]  # refused
    assert len(cache) == 0


def test_it_is_private(path: Path) -> None:
    """Its mode is 0600 whatever the umask, those of its companions too."""
    before = os.umask(0)
    try:
        made = AnswerCache(path)
        made.open()
        made.record([_row(1)])
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
        made.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"answers.sqlite", "answers.sqlite-wal"}
    assert set(modes.values()) == {0o600}


def test_the_key_is_of_everything() -> None:
    """Content, config, request and sample each make another key, and parts can't run into each other."""
    base = ("content", {"model": "m", "seed": None}, b"{}", 0)
    keys = {
        answer_key(*base),
        answer_key("conten", base[1], b"t{}", 0),
        answer_key(base[0], {"model": "m", "seed": 0}, base[2], 0),
        answer_key(base[0], base[1], b"{ }", 0),
        answer_key(base[0], base[1], base[2], 1),
    }
    assert len(keys) == 5
    assert answer_key("content", {"seed": None, "model": "m"}, b"{}", 0) == answer_key(*base)


def test_threads_and_connections_at_once(path: Path) -> None:
    """Eight threads over three connections record 400 answers, each key by two of them: every one is there once."""
    caches = [AnswerCache(path) for _ in range(3)]
    for each in caches:
        each.open()
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(caches[number % 3].record, [_row(number % 200, f"from {number}")]) for number in range(400)]
        stayed = [row for job in jobs for row in job.result().values()]
    assert (len(caches[0]), len(stayed)) == (200, 200)
    for each in caches:
        each.close()


WRITER = """
import sys
from posttrain.judges.cache import AnswerCache, RecordedAnswer

cache = AnswerCache(sys.argv[1])
cache.open()
for number in range(150):
    cache.record([RecordedAnswer(f"{number}", "judge", "m", "u", 0, "{}", sys.argv[2])])
cache.close()
"""


def test_processes_at_once(path: Path) -> None:
    """Four processes begin the file together and record the same 150 keys; none fails."""
    command = [sys.executable, "-c", WRITER, str(path)]
    running = [subprocess.Popen([*command, str(number)]) for number in range(4)]
    assert [process.wait(timeout=60) for process in running] == [0] * 4
    cache = AnswerCache(path)
    cache.open()
    assert len(cache) == 150
    cache.close()


def test_a_file_that_several_begin_at_the_same_moment(tmp_path: Path) -> None:
    """SQLite refuses all but one of those that turn to write-ahead mode at once; none of them is told."""
    together = threading.Barrier(4)

    def begin(number: int) -> int:
        cache = AnswerCache(tmp_path / f"{number // 4}.sqlite")
        together.wait(timeout=60)
        cache.open()
        cache.record([_row(number)])
        size = len(cache)
        cache.close()
        return size

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(begin, range(200))) == 4


def test_a_transaction_that_an_interrupt_left_open(cache: AnswerCache) -> None:
    """It is undone, and the cache goes on."""
    connection = cache._use()
    connection.execute("BEGIN IMMEDIATE")
    cache.record([_row(1)])
    assert not connection.in_transaction
    assert len(cache) == 1


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough for a header " * 4, b"SQLite format 3\0" + b"x" * 500]
)
def test_a_damaged_file_is_named_and_left_alone(path: Path, content: bytes) -> None:
    """The error says which file and how to mend it; nothing of it is changed."""
    path.write_bytes(content)
    with pytest.raises(RewardConfigError, match=r"answers\.sqlite can't be read: .* move it away"):
        AnswerCache(path).open()
    assert path.read_bytes() == content


def test_damage_that_shows_later(cache: AnswerCache, path: Path) -> None:
    """A page that was overwritten is found when it is read, and told in the same words."""
    cache.record([_row(number, "x" * 500) for number in range(200)])
    cache.close()
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    cache.open()
    with pytest.raises(RewardConfigError, match=r"answers\.sqlite can't be read"):
        list(cache)


def test_another_database_is_not_touched(path: Path) -> None:
    """Somebody's own SQLite file is refused."""
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(RewardConfigError, match="is another SQLite database"):
        AnswerCache(path).open()


def test_a_newer_version_is_refused(cache: AnswerCache, path: Path) -> None:
    """It says which version the file has."""
    cache.close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 9")
    other.close()
    with pytest.raises(RewardConfigError, match="has version 9, this Posttrain writes 1"):
        cache.open()


def test_a_file_that_can_not_be_made(tmp_path: Path) -> None:
    """A missing folder, or a folder in the file's place, is a fault of the set-up."""
    with pytest.raises(RewardConfigError, match="can't be opened: No such file"):
        AnswerCache(tmp_path / "lost" / "answers").open()
    with pytest.raises(RewardConfigError, match="can't be opened: Is a directory"):
        AnswerCache(tmp_path).open()


def test_a_file_that_another_holds(cache: AnswerCache, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that does not let go makes it unavailable after the wait: trying again may work."""
    monkeypatch.setattr(answers, "_BUSY_S", 0.1)
    waiting = AnswerCache(path)
    waiting.open()
    with sqlite3.connect(path, isolation_level=None) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(RewardUnavailableError, match="held by another process"):
            waiting.record([_row(1)])
        holder.execute("ROLLBACK")
    holder.close()
    assert waiting.record([_row(1)]) == {}
    waiting.close()


def test_what_is_closed_can_not_be_used(path: Path) -> None:
    """It says so, and makes no file."""
    with pytest.raises(RewardConfigError, match="is not open"):
        AnswerCache(path).find(["a"])
    assert not path.exists()


def test_the_export_is_for_reading(cache: AnswerCache, tmp_path: Path) -> None:
    """One JSON object a line in the order of recording, requests as they were sent; mode 0600; written whole."""
    cache.record([_row(1), _row(2, "nö")])
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    assert export_jsonl(cache, target) == 2
    first, second = (json.loads(line) for line in target.read_text(encoding="utf-8").splitlines())
    assert first == {
        "key": "key1",
        "judge": "judge",
        "model": "m",
        "base_url": "http://h/v1",
        "sample": 0,
        "request": {"n": 1},
        "answer": "yes",
        "prompt_tokens": 3,
        "completion_tokens": None,
    }
    assert second["answer"] == "nö"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(file.suffix for file in tmp_path.iterdir() if "out" in file.name) == [".jsonl"]


def test_a_failed_export_leaves_the_old_one(cache: AnswerCache, tmp_path: Path) -> None:
    """Where a row can't be written, the file that was there stays and no other does."""
    cache.record([_row(1)])
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    cache.close()
    with pytest.raises(RewardConfigError, match="is not open"):
        export_jsonl(cache, target)
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir() if "out" in file.name] == ["out.jsonl"]
