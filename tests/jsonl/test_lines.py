# SPDX-License-Identifier: Apache-2.0
"""Reading a file row by row: numbers, offsets, and every line that is no row."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from posttrain.errors import RewardContractError
from posttrain.jsonl.lines import RowFault, read_rows
from posttrain.jsonl.streams import RowStream

Rows: TypeAlias = list[tuple[int, Any, int]]
WriteRows: TypeAlias = Callable[..., Path]

_numbers = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | _numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def read(path: Path, *, offset: int = 0, row: int = 0, distinct: Sequence[str] = (), longest: int = 1 << 20) -> Rows:
    """All rows, the faults among them as their texts in angle brackets."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with RowStream(path) as stream:
        found = read_rows(stream, decode, offset=offset, row=row, distinct=distinct, longest=longest)
        return [(number, _shown(value), end) for number, value, end, _ in found]


def _shown(value: object) -> object:
    return f"<{value.text}>" if isinstance(value, RowFault) else value


def only_fault(path: Path, **options: Any) -> str:
    """The text of the one fault in a file."""
    faults = [value for _, value, _ in read(path, **options) if isinstance(value, str)]
    assert len(faults) == 1
    return faults[0][1:-1]


def test_rows_have_numbers_and_ends(rows: WriteRows) -> None:
    """Each row comes with its number from 1 and the offset behind its line end."""
    # {"a": 1} and a line feed are 9 bytes.
    assert read(rows({"a": 1}, {"a": 2})) == [(1, {"a": 1}, 9), (2, {"a": 2}, 18)]


def test_numbers_match_an_editor(rows: WriteRows) -> None:
    """A byte order mark, CRLF ends, blank lines and a last line without an end change no row's number."""
    path = rows(b'\xef\xbb\xbf{"a":1}\r\n\r\n   \n{"a":2}', end=b"")
    # 3 + 7 + 2 bytes, then 2 and 4 bytes of blank lines, then 7.
    assert read(path) == [(1, {"a": 1}, 12), (4, {"a": 2}, 25)]


def test_an_empty_file_has_no_rows(rows: WriteRows) -> None:
    """A file without bytes, also when it is called compressed, has no rows and no fault."""
    assert [read(rows(name=name)) for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst")] == [[], [], []]


@given(st.lists(st.dictionaries(st.text(), _json, max_size=3), max_size=6), st.data())
def test_compressed_files_read_alike(
    tmp_path_factory: pytest.TempPathFactory, values: list[dict[str, Any]], data: st.DataObject
) -> None:
    """Plain, gzip and zstd files give the same rows and offsets, from the beginning and from behind any row."""
    folder = tmp_path_factory.mktemp("formats")
    plain = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    (folder / "a.jsonl").write_bytes(plain)
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(plain))
    (folder / "a.jsonl.zst").write_bytes(zstandard.compress(plain))
    expected = read(folder / "a.jsonl")
    assert [value for _, value, _ in expected] == values
    done = data.draw(st.integers(0, len(values)))
    end = expected[done - 1][2] if done else 0
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst"):
        assert read(folder / name) == expected
        assert read(folder / name, offset=end, row=done) == expected[done:]


def test_long_rows_and_many_frames(tmp_path: Path) -> None:
    """Rows longer than every buffer and files made of many compressed parts, padding between them, read alike."""
    lines = [json.dumps({"at": at, "text": "x" * 300_000}).encode() + b"\n" for at in range(3)]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    # Each line is cut in two parts, so that rows span parts.
    parts = [part for line in lines for part in (line[:1000], line[1000:])]
    (tmp_path / "a.jsonl.gz").write_bytes(b"\0".join(gzip.compress(part) for part in parts) + bytes(512))
    (tmp_path / "a.jsonl.zst").write_bytes(b"".join(zstandard.compress(part) for part in parts))
    expected = read(tmp_path / "a.jsonl")
    assert [value["at"] for _, value, _ in expected] == [0, 1, 2]
    assert read(tmp_path / "a.jsonl.gz") == read(tmp_path / "a.jsonl.zst") == expected


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[1]", "expected a JSON object, got [1] (list): the file has one JSON object per line"),
        ("null", "expected a JSON object, got None"),
        ('"text"', "expected a JSON object, got 'text' (str)"),
        ('{"a": NaN}', "JSON has no NaN and no Infinity: write null, or leave the key out"),
        ('{"a": -Infinity}', "JSON has no NaN and no Infinity"),
        ("{'a': 1}", "JSON strings stand in double quotes: write rows with json.dumps"),
        ('{"a": None}', "JSON has null, true and false: write rows with json.dumps"),
        ('{"a": 1,}', "is no valid JSON: trailing comma in object at byte 8: '{\"a\": 1,}'"),
        ('{"a": 1} {"a": 2}', "is no valid JSON: trailing characters at byte"),
        ('{"a": "x', "is no complete JSON: it ends early; was the file cut off?"),
        (b'{"a": "\xff"}', "is not UTF-8 at byte 7"),
        ('{"a": "\\ud800 and so on"}', "holds half of a surrogate pair such as \\ud800, which is no character"),
        (b'{"unread": "\xff"}', "is not UTF-8 at byte 12"),
        ('{"a": 1e999}', "holds a value that can't be read: Number out of range"),
        ("[1e999]", "holds a value that can't be read: Number out of range"),
        ("[1, NaN]", "JSON has no NaN and no Infinity"),
        ('{"a": ' + "[" * 100_000, "is nested too deep to be read"),
        ("[" * 100_000, "is nested too deep to be read"),
    ],
)
def test_a_line_that_is_no_row(rows: WriteRows, line: str | bytes, fault: str) -> None:
    """A line that is no JSON object is a fault that says what was found and the fix; the rows around it are read."""
    path = rows({"a": 0}, line, {"a": 2})
    (_, first, _), (number, found, end), (last_number, last, last_end) = read(path)
    assert (first, number, last_number, last) == ({"a": 0}, 2, 3, {"a": 2})
    assert fault in str(found)
    assert (end, last_end) == (path.stat().st_size - 9, path.stat().st_size)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'[{"a": 1}]', "from one array, jq -c '.[]' makes such a file"),
        (
            b'{\n  "a": 1\n}',
            "it ends early; was the file cut off? The file has one JSON object per line",
        ),
        (gzip.compress(b'{"a": 1}'), "is gzip data: let the file's name end in .gz"),
        (zstandard.compress(b'{"a": 1}'), "is zstd data: let the file's name end in .zst"),
        (b"PAR1\x15", "is Parquet data"),
        ('{"a": 1}'.encode("utf-16"), "is UTF-16: convert the file to UTF-8"),
    ],
)
def test_the_first_line_gives_a_wrong_format_away(rows: WriteRows, content: bytes, fault: str) -> None:
    """A file of another format is recognised by its first line."""
    assert fault in str(read(rows(content, end=b""))[0][1])


@pytest.mark.parametrize("keep", [1, 12, 40, -1])
@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
def test_a_truncated_file_is_a_fault(tmp_path: Path, suffix: str, kind: str, keep: int) -> None:
    """Wherever a compressed file is cut off, what came before is read and then one fault says so."""
    plain = b"".join(b'{"a": %d, "text": "%x"}\n' % (at, at * 7919**5) for at in range(1000))
    whole = gzip.compress(plain) if suffix == ".gz" else zstandard.compress(plain)
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(whole[:keep])
    *before, (number, fault, _) = read(path)
    assert [value["a"] for _, value, _ in before] == list(range(len(before)))
    assert number == len(before) + 1
    assert fault == f"<can't be read: the {kind} file is cut off: its last part is missing; copy it again>"


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
def test_a_wrong_suffix_is_a_fault(rows: WriteRows, suffix: str, kind: str) -> None:
    """A plain file with the suffix of a compressed one is said to be no such file."""
    assert f"is damaged, or is no {kind} file as its suffix says" in only_fault(rows({"a": 1}, name=f"a.jsonl{suffix}"))


def test_a_damaged_checksum_is_a_fault(tmp_path: Path) -> None:
    """A gzip file whose checksum does not match is damaged, though every row in it can be read."""
    whole = bytearray(gzip.compress(b'{"a": 1}\n'))
    whole[-8] ^= 1
    (tmp_path / "a.jsonl.gz").write_bytes(whole)
    assert "is damaged" in only_fault(tmp_path / "a.jsonl.gz")


def test_garbage_behind_a_compressed_file_is_a_fault(tmp_path: Path) -> None:
    """Bytes behind the last part that begin no other part are not passed over."""
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n') + b"garbage")
    first, (number, fault, _) = read(tmp_path / "a.jsonl.gz")
    assert (first, number) == ((1, {"a": 1}, 9), 2)
    assert "is damaged" in str(fault)


def test_a_row_longer_than_the_limit_is_a_fault(rows: WriteRows) -> None:
    """A row over the limit is skipped, whatever its length, and the next one has the right number and offset."""
    path = rows({"a": 1}, "x" * 95, {"a": 2})
    assert read(path, longest=30) == [
        (1, {"a": 1}, 9),
        (2, "<is longer than 30 bytes; write one JSON object per line>", 105),
        (3, {"a": 2}, 114),
    ]


@pytest.mark.parametrize("longest", [8, 9])
def test_the_limit_counts_the_line_end(rows: WriteRows, longest: int) -> None:
    """A row of 9 bytes with its end is read under a limit of 9, and is one row under any limit."""
    numbers = [number for number, _, _ in read(rows({"a": 1}, {"a": 2}), longest=longest)]
    assert numbers == [1, 2]
    assert isinstance(read(rows({"a": 1}), longest=longest)[0][1], dict) == (longest == 9)


class TestRepeatedKeys:
    """A key that counts may stand only once in a row."""

    @pytest.mark.parametrize(
        ("line", "keys"),
        [
            ('{"a": 1, "b": 2, "a": 3}', "'a'"),
            ('{"a":1,"b":2,"a":3}', "'a'"),
            ('{ "a" : 1, "a" : 1 }', "'a'"),
            ('{"a": 1, "\\u0061": 2}', "'a'"),
            ('{"é": 1, "é": 2}', "'é'"),
            (r'{"\u00e9": 1, "\u00e9": 2}', "'é'"),
            ('{"a": {"a": 1}, "é": 2, "a": 3, "é": 4}', "'a', 'é'"),
            # The second "" takes the five bytes that the spaces of three keys would take in the other layout.
            ('{"b":1,"c":2,"":3,"":4}', "''"),
        ],
    )
    def test_refused(self, rows: WriteRows, line: str, keys: str) -> None:
        """A repeated key is named in every layout and spelling."""
        path = rows({"a": 0}, line, {"b": 0})
        (_, first, _), (_, fault, _), (_, last, _) = read(path, distinct=["a", "é", ""])
        assert (first, last) == ({"a": 0}, {"b": 0})
        assert fault == f"<has the key {keys} more than once, so that it is open which counts; keep one>"

    @given(st.dictionaries(st.text(max_size=3), _json, max_size=4), st.data())
    def test_found_in_any_row(
        self, tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any], data: st.DataObject
    ) -> None:
        """Any row is read as it is, in either layout and with either spelling; with a key repeated it is refused."""
        separators = data.draw(st.sampled_from([None, (",", ":"), (" , ", " : ")]))
        line = json.dumps(row, separators=separators, ensure_ascii=data.draw(st.booleans()))
        path = tmp_path_factory.mktemp("keys") / "a.jsonl"
        path.write_text(line, encoding="utf-8")
        assert read(path, distinct=list(row)) == [(1, row, path.stat().st_size)]
        if row:
            key = data.draw(st.sampled_from(sorted(row)))
            colon, comma = (": ", ", ") if separators is None else (separators[1], separators[0])
            again = json.dumps({key: data.draw(_json)}, separators=(comma, colon))[1:]
            path.write_text(f"{line[:-1]}{comma}{again}", encoding="utf-8")
            assert only_fault(path, distinct=list(row)).startswith(f"has the key {key!r} more than once")

    def test_other_places_are_fine(self, rows: WriteRows) -> None:
        """The same bytes as a value, in a nested object or inside a text are no repeated key."""
        row = {"a": "a", "list": ["a", {"a": 1}], "text": 'said "a": "a"'}
        assert read(rows(row), distinct=["a"]) == [(1, row, len(json.dumps(row)) + 1)]

    def test_other_keys_are_not_looked_at(self, rows: WriteRows) -> None:
        """A key that nobody reads may repeat."""
        assert read(rows('{"a": 1, "b": 2, "b": 3}'), distinct=["a"])[0][1] == {"a": 1, "b": 3}

    def test_no_depth_is_a_crash(self, rows: WriteRows) -> None:
        """A row whose keys need an exact look is read or refused, however deep its values are nested."""
        depths = [10, *range(900, 1001), 5000]
        path = rows(*[f'{{"a": "a", "deep": {"[" * depth}{"]" * depth}}}' for depth in depths])
        texts = [value for _, value, _ in read(path, distinct=["a"])]
        assert isinstance(texts[0], dict)
        assert str(texts[-1]) == "<is nested too deep to be read>"
        assert all(isinstance(text, dict) or "recursion" in text or "too deep" in text for text in texts)


class TestStartingLater:
    """Reading from behind an earlier row."""

    @pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
    @pytest.mark.parametrize("offset", [4, 19, 1000])
    def test_a_place_inside_a_row_is_refused(self, tmp_path: Path, suffix: str, offset: int) -> None:
        """An offset at which no row begins, or behind the file's end, shows that the file has changed."""
        plain = b'{"a": 1}\n{"a": 2}\n'
        pack: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(pack[suffix](plain))
        with pytest.raises(RewardContractError, match=f"no row begins at byte {offset}, .* has changed since"):
            read(path, offset=offset, row=1)

    def test_the_end_of_a_last_line_without_an_end(self, rows: WriteRows) -> None:
        """Behind a last row without a line end there is nothing more, and that is fine."""
        assert read(rows(b'{"a": 1}', end=b""), offset=8, row=1) == []


def test_consumed_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    """The count of bytes read starts below the size of a long file, never falls, and ends at the size exactly."""
    plain = b"".join(b'{"a": %d, "text": "%x"}\n' % (at, at * 7919**50) for at in range(20_000))
    for name, data in (
        ("a.jsonl", plain),
        ("a.jsonl.gz", gzip.compress(plain)),
        ("a.jsonl.zst", zstandard.compress(plain)),
    ):
        (tmp_path / name).write_bytes(data)
        with RowStream(tmp_path / name) as stream:
            counts = [stream.consumed for _ in read_rows(stream, msgspec.json.decode)]
        assert counts[0] < len(data) / 2
        assert counts == sorted(counts)
        assert counts[-1] == len(data)
