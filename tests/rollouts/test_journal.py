# SPDX-License-Identifier: Apache-2.0
"""Outputs that survive: checkpoints, resuming, and everything that is refused."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from posttrain.errors import RewardConfigError, RewardContractError
from posttrain.rollouts.journal import Journal

HEADER: dict[str, Any] = {"same": [1], "identity": {"gsm8k": "ab"}, "columns": ["a", "b"], "group_size": 4}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The output of a test."""
    return tmp_path / "scored.jsonl"


def names(target: Path) -> set[str]:
    """What stands in the target's folder."""
    return {each.name for each in target.parent.iterdir()}


def unfinished(target: Path, *pieces: bytes) -> None:
    """Leave an output behind with a checkpoint after each piece, and bytes behind the last one."""
    with Journal.begin(target, HEADER) as journal:
        for count, piece in enumerate(pieces, start=1):
            journal.append(piece)
            journal.checkpoint({"done": count})
        journal.append(b"lost" * 500_000)


def test_a_whole_life(target: Path) -> None:
    """What was appended is the target once it is finished; until then the target is the old file."""
    target.write_bytes(b"old")
    with Journal.begin(target, HEADER) as journal:
        assert journal.state is None
        journal.append(b"one\n")
        journal.append(b"two\n")
        journal.checkpoint({"row": 2})
        assert journal.state == {"row": 2}
        assert target.read_bytes() == b"old"
        assert Journal.leftover(target)
        assert names(target) == {"scored.jsonl", ".scored.jsonl.partial", ".scored.jsonl.journal"}
        assert not journal.is_finished
        journal.finish()
        assert journal.is_finished
    assert target.read_bytes() == b"one\ntwo\n"
    assert names(target) == {"scored.jsonl"}
    assert not Journal.leftover(target)


def test_resuming_cuts_off_what_was_not_promised(target: Path) -> None:
    """A run that goes on has the state and the bytes of the last checkpoint, and appends behind them."""
    unfinished(target, b"one\n", b"two\n")
    assert (target.parent / ".scored.jsonl.partial").stat().st_size > 8
    journal = Journal.resume(target, HEADER)
    assert journal is not None
    with journal:
        assert journal.state == {"done": 2}
        journal.append(b"three\n")
        journal.checkpoint(None)
        journal.finish()
    assert target.read_bytes() == b"one\ntwo\nthree\n"


def test_a_state_is_detached(target: Path) -> None:
    """Neither the caller's own state nor the one that is handed out changes what is recorded."""
    with Journal.begin(target, HEADER) as journal:
        state: dict[str, Any] = {"sums": [1.5, -0.0, 2**70]}
        journal.checkpoint(state)
        state["sums"].append(3)
        journal.state["sums"].append(4)
        assert journal.state == {"sums": [1.5, -0.0, 2**70]}
    resumed = Journal.resume(target, HEADER)
    assert resumed is not None
    with resumed:
        assert repr(resumed.state) == repr({"sums": [1.5, -0.0, 2**70]})


def test_nothing_to_resume(target: Path) -> None:
    """Without unfinished work there is nothing to resume, whether or not a target is there."""
    assert Journal.resume(target, HEADER) is None
    target.write_bytes(b"done")
    assert Journal.resume(target, HEADER) is None
    assert names(target) == {"scored.jsonl"}


def test_an_empty_output_can_be_finished(target: Path) -> None:
    """An output without a byte is one."""
    with Journal.begin(target, HEADER) as journal:
        journal.finish()
    assert target.read_bytes() == b""


def test_finished_but_for_its_journal(target: Path) -> None:
    """A journal whose output is in its place already is finished; finishing again removes it."""
    unfinished(target, b"one\n")
    (target.parent / ".scored.jsonl.partial").unlink()
    target.write_bytes(b"one\n")
    journal = Journal.resume(target, HEADER)
    assert journal is not None
    with journal:
        assert journal.is_finished
        assert journal.state == {"done": 1}
        with pytest.raises(RewardContractError, match="is complete: nothing can be written to it"):
            journal.append(b"more")
        journal.finish()
    assert target.read_bytes() == b"one\n"
    assert names(target) == {"scored.jsonl"}


def test_discarding(target: Path) -> None:
    """Discarding leaves the old target and nothing else."""
    target.write_bytes(b"old")
    with Journal.begin(target, HEADER) as journal:
        journal.append(b"x")
        journal.checkpoint(1)
        journal.discard()
    assert target.read_bytes() == b"old"
    assert names(target) == {"scored.jsonl"}


def test_discarding_what_is_finished_but_for_its_journal(target: Path) -> None:
    """Then only the journal goes: the target is complete and stays."""
    unfinished(target, b"one\n")
    (target.parent / ".scored.jsonl.partial").rename(target)
    target.write_bytes(b"one\n")
    journal = Journal.resume(target, HEADER)
    assert journal is not None
    journal.discard()
    assert target.read_bytes() == b"one\n"
    assert names(target) == {"scored.jsonl"}


def test_unfinished_work_is_not_overwritten_by_chance(target: Path) -> None:
    """Beginning anew beside unfinished work is refused and leaves it; asked for, it replaces it."""
    unfinished(target, b"one\n")
    with pytest.raises(
        RewardConfigError, match=r"unfinished results .*: go on with --resume, or throw them away with --restart"
    ):
        Journal.begin(target, HEADER)
    with Journal.begin(target, {"other": 1}, overwrite=True) as journal:
        assert journal.state is None
        journal.append(b"new\n")
        journal.checkpoint(None)
        journal.finish()
    assert target.read_bytes() == b"new\n"


def test_a_journal_without_its_partial_is_left_alone(target: Path) -> None:
    """Beginning beside a lone journal is refused without making a partial for it."""
    unfinished(target, b"one\n")
    (target.parent / ".scored.jsonl.partial").unlink()
    with pytest.raises(RewardConfigError, match="unfinished results"):
        Journal.begin(target, HEADER)
    assert names(target) == {".scored.jsonl.journal"}


def test_an_empty_partial_is_taken_over(target: Path) -> None:
    """A run that was killed before its first checkpoint leaves nothing to resume and nothing in the way."""
    (target.parent / ".scored.jsonl.partial").touch()
    assert not Journal.leftover(target)
    assert Journal.resume(target, HEADER) is None
    with Journal.begin(target, HEADER) as journal:
        journal.finish()
    assert names(target) == {"scored.jsonl"}


def test_another_header_is_refused(target: Path) -> None:
    """Every field that differs is named with both values, nested ones by their path; the work stays."""
    unfinished(target, b"one\n")
    header: dict[str, Any] = {
        "same": [1],
        "identity": {"gsm8k": "cd", "new": None},
        "columns": ["a", "c"],
        "weights": 1.0,
    }
    with pytest.raises(RewardConfigError, match="was begun under other settings") as caught:
        Journal.resume(target, header)
    assert caught.value.message.splitlines()[1:] == [
        "  identity.gsm8k: recorded 'ab' (str), now 'cd' (str)",
        "  identity.new: recorded nothing, now None",
        "  columns[1] is 'b' (str) in the record and 'c' (str) in this run",
        "  group_size: recorded 4 (int), now nothing",
        "  weights: recorded nothing, now 1.0 (float)",
    ]
    again = Journal.resume(target, {**HEADER, "columns": ("a", "b")})
    assert again is not None
    again.close()


def test_a_header_that_is_no_mapping(target: Path) -> None:
    """Any JSON value is a header; the types of numbers count."""
    Journal.begin(target, 1).close()
    with pytest.raises(RewardConfigError, match=r"header: recorded 1 \(int\), now 1.0 \(float\)"):
        Journal.resume(target, 1.0)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 1, "header": null, "length": 0, "sha256": "", "state": null}',
    ],
)
def test_a_damaged_journal_is_refused(target: Path, damage: bytes) -> None:
    """A journal that is not what was written is named, with what to do, and nothing is touched."""
    unfinished(target, b"one\n")
    journal = target.parent / ".scored.jsonl.journal"
    journal.write_bytes(damage)
    with pytest.raises(RewardConfigError, match=r"\.scored\.jsonl\.journal is damaged: .*start over with --restart"):
        Journal.resume(target, HEADER)
    assert journal.read_bytes() == damage


def test_a_journal_that_can_not_be_read_is_refused(target: Path) -> None:
    """What the file system says about a journal is passed on."""
    unfinished(target, b"one\n")
    journal = target.parent / ".scored.jsonl.journal"
    journal.unlink()
    journal.mkdir()
    with pytest.raises(RewardConfigError, match=r"can't read .*\.scored\.jsonl\.journal: Is a directory"):
        Journal.resume(target, HEADER)


def test_every_changed_byte_of_a_journal_is_noticed(target: Path) -> None:
    """Changing any digit or letter of a journal makes it damaged or differ; none passes."""
    unfinished(target, b"one\n")
    journal = target.parent / ".scored.jsonl.journal"
    good = journal.read_bytes()
    for at, byte in enumerate(good):
        if chr(byte).isalnum():
            journal.write_bytes(good[:at] + bytes([byte ^ 1]) + good[at + 1 :])
            with pytest.raises(RewardConfigError, match="is damaged"):
                Journal.resume(target, HEADER)


def test_another_format_is_refused(target: Path) -> None:
    """A sound journal of a later format is not guessed at."""
    import hashlib

    unfinished(target, b"one\n")
    journal = target.parent / ".scored.jsonl.journal"
    record = {"format": 2, "anything": 1}
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    journal.write_text(json.dumps({**record, "checksum": hashlib.sha256(text.encode()).hexdigest()}))
    with pytest.raises(RewardConfigError, match=r"a journal of format 2 \(int\), and this version .* reads format 1"):
        Journal.resume(target, HEADER)


@pytest.mark.parametrize(
    ("content", "found"), [(b"one", "it has 3 bytes"), (b"", "it has 0 bytes"), (b"oNe\nlost", "it has other bytes")]
)
def test_a_damaged_partial_is_refused(target: Path, content: bytes, found: str) -> None:
    """A partial that lost bytes or holds others than were promised is refused and left as it is."""
    unfinished(target, b"one\n")
    partial = target.parent / ".scored.jsonl.partial"
    partial.write_bytes(content)
    with pytest.raises(RewardConfigError, match=rf"{partial.name} is damaged: its journal records 4 bytes .* {found}"):
        Journal.resume(target, HEADER)
    assert partial.read_bytes() == content


def test_a_partial_without_its_journal_is_refused(target: Path) -> None:
    """Bytes that no journal vouches for are not used, by either beginning."""
    unfinished(target, b"one\n")
    (target.parent / ".scored.jsonl.journal").unlink()
    assert Journal.leftover(target)
    with pytest.raises(RewardConfigError, match="has no journal beside it"):
        Journal.resume(target, HEADER)
    with pytest.raises(RewardConfigError, match="unfinished results"):
        Journal.begin(target, HEADER)


@pytest.mark.parametrize("other", [None, b"one", b"One\n"])
def test_a_lost_partial_is_refused(target: Path, other: bytes | None) -> None:
    """A journal whose partial is gone and whose target is another file, or none, can't be resumed."""
    unfinished(target, b"one\n")
    (target.parent / ".scored.jsonl.partial").unlink()
    if other is not None:
        target.write_bytes(other)
    with pytest.raises(RewardConfigError, match=r"\.scored\.jsonl\.partial beside it is gone"):
        Journal.resume(target, HEADER)


@pytest.mark.parametrize("name", [".scored.jsonl.partial", ".scored.jsonl.journal"])
@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "damaged"])
def test_starting_over_mends_everything(target: Path, name: str, is_lost: bool) -> None:
    """Whatever happened to unfinished work, beginning anew when asked to replaces it."""
    unfinished(target, b"one\n")
    if is_lost:
        (target.parent / name).unlink()
    else:
        (target.parent / name).write_bytes(b"?")
    with Journal.begin(target, HEADER, overwrite=True) as journal:
        journal.append(b"new\n")
        journal.checkpoint(None)
        journal.finish()
    assert target.read_bytes() == b"new\n"
    assert names(target) == {"scored.jsonl"}


def test_two_writers_of_one_target(target: Path) -> None:
    """The second is refused at once, however it begins, and the first goes on."""
    with Journal.begin(target, HEADER) as journal:
        attempts: list[Callable[[], object]] = [
            lambda: Journal.begin(target, HEADER),
            lambda: Journal.begin(target, HEADER, overwrite=True),
            lambda: Journal.resume(target, HEADER),
        ]
        for attempt in attempts:
            with pytest.raises(
                RewardConfigError, match=r"\.scored\.jsonl\.partial is being written by another process"
            ):
                attempt()
        journal.append(b"one\n")
        journal.checkpoint(None)
        journal.finish()
    assert target.read_bytes() == b"one\n"


def test_two_processes_on_one_target(target: Path) -> None:
    """So is a second process."""
    code = (
        "import sys; from posttrain.rollouts.journal import Journal\n"
        "try: Journal.begin(sys.argv[1], None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    with Journal.begin(target, None):
        done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("RewardConfigError")
    assert "is being written by another process" in done.stdout


def test_the_files_are_private_until_finished(target: Path) -> None:
    """Only the owner can read unfinished work, resumed work too; the target is as public as the umask allows."""

    def modes() -> set[int]:
        return {stat.S_IMODE(each.stat().st_mode) for each in target.parent.iterdir()}

    old = os.umask(0o027)
    try:
        unfinished(target, b"one\n")
        assert modes() == {0o600}
        (target.parent / ".scored.jsonl.partial").chmod(0o644)
        journal = Journal.resume(target, HEADER)
        assert journal is not None
        with journal:
            assert modes() == {0o600}
            journal.checkpoint(None)
            assert modes() == {0o600}
            journal.finish()
        # 0644 without what the umask 0027 takes away.
        assert modes() == {0o640}
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(old)


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    """The file that a link points to is written, with everything beside it."""
    (tmp_path / "store").mkdir()
    real, link = tmp_path / "store" / "real.jsonl", tmp_path / "link.jsonl"
    link.symlink_to(real)
    with Journal.begin(link, None) as journal:
        assert names(real) == {".real.jsonl.partial", ".real.jsonl.journal"}
        journal.append(b"one")
        journal.checkpoint(None)
        journal.finish()
    assert link.is_symlink()
    assert real.read_bytes() == b"one"


def test_finishing_needs_a_checkpoint(target: Path) -> None:
    """Bytes behind the last checkpoint can't be finished, since a resumed run would not know of them."""
    with Journal.begin(target, HEADER) as journal:
        journal.append(b"one")
        with pytest.raises(RewardContractError, match="since the last checkpoint: make one, then finish"):
            journal.finish()
        journal.checkpoint(None)
        journal.finish()
    assert target.read_bytes() == b"one"


def test_a_state_that_is_no_json_changes_nothing(target: Path) -> None:
    """A wrong state is refused by its path, and the journal goes on."""
    with Journal.begin(target, HEADER) as journal:
        with pytest.raises(RewardContractError, match=r"state\.mean: expected a finite number, got nan"):
            journal.checkpoint({"mean": float("nan")})
        journal.checkpoint({"mean": 1.0})
        assert journal.state == {"mean": 1.0}
    with pytest.raises(RewardContractError, match=r"header\.ids: expected a JSON type"):
        Journal.begin(target, {"ids": {1}})  # type: ignore[dict-item]  # on purpose


@pytest.mark.parametrize("method", ["append", "checkpoint", "finish", "discard"])
def test_a_closed_journal_does_nothing(target: Path, method: str) -> None:
    """After closing, every operation is refused; closing again is fine."""
    journal = Journal.begin(target, HEADER)
    journal.close()
    journal.close()
    arguments: dict[str, list[Any]] = {"append": [b"x"], "checkpoint": [None]}
    with pytest.raises(RewardContractError, match="closed"):
        getattr(journal, method)(*arguments.get(method, []))
    assert Journal.leftover(target)


def test_a_failed_step_ends_the_journal(target: Path) -> None:
    """When the disk is full, the last checkpoint stands, the journal refuses to go on, and resuming works."""
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Journal.begin(target, HEADER) as journal:
            journal.append(b"one\n")
            journal.checkpoint({"done": 1})
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
            journal.append(b"x" * 200_000)
            with pytest.raises(
                RewardConfigError, match="File too large; the last checkpoint is safe: mend it and go on"
            ):
                journal.checkpoint({"done": 2})
            with pytest.raises(RewardContractError, match="failed or was interrupted in an earlier step: resume it"):
                journal.checkpoint({"done": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    resumed = Journal.resume(target, HEADER)
    assert resumed is not None
    with resumed:
        assert resumed.state == {"done": 1}
        resumed.finish()
    assert target.read_bytes() == b"one\n"


@pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning"
)  # an interrupt leaves the file to its last reference
def test_an_interrupt_at_any_line_can_be_resumed(
    quick_path: Path, interrupted: Callable[[Callable[[], object], int], bool]
) -> None:
    """An interrupt before each executed line, in turn, lets go of the lock, and resuming ends with the same bytes."""

    def work(target: Path) -> None:
        with Journal.resume(target, HEADER) or Journal.begin(target, HEADER) as journal:
            for at in range(journal.state or 0, 3):
                journal.append(b"%d" % at)
                journal.checkpoint(at + 1)
            journal.finish()

    at, more = 0, True
    while more:
        at += 1
        target = quick_path / str(at) / "out"
        target.parent.mkdir()
        more = interrupted(lambda target=target: work(target), at)  # type: ignore[misc]  # bound, not passed
        # An interrupt at the very end finds the work done, and doing it again makes the same file.
        work(target)
        assert target.read_bytes() == b"012"
        assert names(target) == {"out"}
    # Fewer would mean that the lines were not traced.
    assert at > 150


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """Every way to begin names a missing folder."""
    target = tmp_path / "out" / "a"
    attempts: list[Callable[[], object]] = [
        lambda: Journal.begin(target, None),
        lambda: Journal.resume(target, None),
        lambda: Journal.leftover(target),
    ]
    for attempt in attempts:
        with pytest.raises(RewardConfigError, match=r"there is no folder .*/out; make it first"):
            attempt()


def test_a_partial_that_is_a_link_is_refused(target: Path) -> None:
    """A link in the place of the partial, which would lead the output elsewhere, is not followed."""
    (target.parent / "elsewhere").touch()
    (target.parent / ".scored.jsonl.partial").symlink_to(target.parent / "elsewhere")
    with pytest.raises(RewardConfigError, match=r"can't write .*\.scored\.jsonl\.partial: Too many levels"):
        Journal.begin(target, HEADER)


def test_repr_names_the_target(target: Path) -> None:
    """A journal shows its target and how far it got."""
    with Journal.begin(target, HEADER) as journal:
        assert repr(journal) == f"Journal('{target}', checkpoint at byte 0)"
