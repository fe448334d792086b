"""The filters of ``kdump dump``, against a slow filter over what the whole dump says."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.storage.access import open_source
from kdump.storage.selection import entry_position
from kdump.storage.source import WindowedFile
from kdump.storage.walk import sound_batch, walk
from support.fixtures_loader import few_first
from support.forge import (
    batch,
    flip,
    index_entries,
    marker,
    message,
    offset_index,
    record,
    segment,
    txn_index,
    wrapper,
    write_partition,
)

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]
HIGHEST = 2**63 - 1


def run(capture: Capture, *args: str) -> tuple[int, list[JsonObject]]:
    code = main(["dump", "--format", "json", *args])
    out, _ = capture.readouterr()
    return code, [json.loads(line) for line in out.decode().splitlines()]


def of_type(kind: str, lines: list[JsonObject]) -> list[JsonObject]:
    return [line for line in lines if line["type"] == kind]


def offsets(capture: Capture, *args: str) -> list[int]:
    """The offsets of the records that a dump prints."""
    return [line["offset"] for line in of_type("record", run(capture, "--records", *args)[1])]


def key_of(line: JsonObject) -> bytes | None:
    return base64.b64decode(line["key_base64"]) if "key_base64" in line else None


# --- against the whole dump


def some_filter(
    chance: random.Random, lines: list[JsonObject]
) -> tuple[list[str], Callable[[JsonObject], bool], Callable[[JsonObject], bool]]:
    """Options, and what they ask for of records and of batches, in terms of the lines of JSON."""
    records, batches = of_type("record", lines), of_type("batch", lines)
    options: list[str] = []
    first, last, since, until = 0, HIGHEST, None, None
    key, producer = None, None
    while not options:
        if chance.random() < 0.4:
            first, last = sorted(chance.choice(records)["offset"] for _ in range(2))
            form = chance.choice([f"{first}..{last}", f"{first}..", f"..{last}", f"{first}"])
            first = 0 if form.startswith("..") else first
            last = first if ".." not in form else HIGHEST if form.endswith("..") else last
            options += ["--offsets", form]
        times = sorted({line["timestamp"] for line in records if line["timestamp"] is not None})
        if times and chance.random() < 0.4:
            since = chance.choice(times) + chance.choice([0, 1])
            options += ["--since", str(since)]
        if times and chance.random() < 0.4:
            until = max(chance.choice(times), (since or 0) + 1)
            options += ["--until", str(until)]
        if chance.random() < 0.2:
            key = chance.choice([key_of(line) for line in records]) or b""
            options += ["--key-base64", base64.b64encode(key).decode()]
        if chance.random() < 0.2:
            producer = chance.choice([line["producer_id"] for line in batches])
            if producer < 0:
                producer = None
            else:
                options += ["--producer-id", str(producer)]

    def timely(earliest: int | None, latest: int | None) -> bool:
        if since is None and until is None:
            return True
        if latest is None or latest < (since or 0):
            return False
        return until is None or earliest is None or earliest < until

    def of_records(line: JsonObject) -> bool:
        return (
            first <= line["offset"] <= last
            and timely(line["timestamp"], line["timestamp"])
            and (key is None or (key_of(line) == key and not line["control"]))
            and (producer is None or line["producer_id"] == producer)
        )

    def of_batches(line: JsonObject) -> bool:
        earliest: int | None = line["base_timestamp"]
        if line["timestamp_type"] == "LogAppendTime":
            earliest = line["max_timestamp"]
        elif line["delete_horizon_ms"] is not None:
            earliest = None
        return (
            line["base_offset"] <= last
            and line["last_offset"] >= first
            and timely(earliest, line["max_timestamp"])
            and (producer is None or line["producer_id"] == producer)
        )

    return options, of_records, of_batches


@pytest.mark.parametrize("name", few_first())
def test_filters_ask_for_what_a_slow_filter_does(
    name: str, grown: Callable[[str], Path], capfdbinary: Capture
) -> None:
    directory = str(grown(name))
    whole = run(capfdbinary, directory)[1]
    whole_records = run(capfdbinary, "--records", "--base64", directory)[1]
    chance = random.Random(name)
    found = 0
    for _ in range(6):
        options, of_records, of_batches = some_filter(chance, whole + whole_records)
        _, lines = run(capfdbinary, "--records", "--base64", *options, directory)
        expected = [line for line in of_type("record", whole_records) if of_records(line)]
        assert of_type("record", lines) == expected, options
        found += len(expected)
        if "--key-base64" not in options:
            _, lines = run(capfdbinary, *options, directory)
            batches = of_type("batch", lines)
            # A wrapper's offsets begin where its header does not say: those may be more.
            assert [line for line in batches if not is_wrapper(line)] == [
                line
                for line in of_type("batch", whole)
                if not is_wrapper(line) and of_batches(line)
            ], options
            assert lines[-1]["batches"] == len(batches)
    assert found > 50


def is_wrapper(line: JsonObject) -> bool:
    return line["count"] is None


def test_text_has_the_batches_of_the_records_alone(tmp_path: Path, capfdbinary: Capture) -> None:
    batches = [batch(i * 10, [record(b"v", b"%d" % j) for j in range(10)]) for i in range(5)]
    directory = write_partition(tmp_path, "t", 0, {0: batches})
    main(["dump", "--key", "3", "--offsets", "15..40", str(directory)])
    text = capfdbinary.readouterr().out.decode().splitlines()
    assert [" ".join(line.split(" ")[:3]) for line in text[2:]] == [
        "baseOffset: 20 lastOffset:",
        "| offset: 23",
        "baseOffset: 30 lastOffset:",
        "| offset: 33",
    ]
    assert main(["dump", "--offsets", "15..20", str(directory)]) == 0
    text = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split(" ")[1] for line in text[2:]] == ["10", "20"]


# --- entering a segment through its index


class Spied(WindowedFile):
    """Remembers the lowest position that was asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, window_bytes=4096)
        self.lowest = self.size

    def window(self, position: int, at_least: int = 1) -> memoryview:
        self.lowest = min(self.lowest, position)
        return super().window(position, at_least)


BATCHES = [batch(100 + 3 * i, [record(b"v" * 300), record(b"w"), record(b"x")]) for i in range(60)]


def positions() -> list[int]:
    """Where each of ``BATCHES`` starts."""
    return [sum(map(len, BATCHES[:i])) for i in range(len(BATCHES))]


def test_the_index_saves_reading_what_lies_before(tmp_path: Path) -> None:
    directory = write_partition(tmp_path, "t", 0, {100: BATCHES}, interval=2000)
    log = directory / f"{100:020d}.log"
    with Spied(log) as source:
        start = entry_position(source, log.with_suffix(".index"), 100, 205)
        assert start in positions()
        assert positions()[29] < start <= positions()[35]
        first = next(iter(walk(source, 100, start)))
        assert first.position == start
        assert source.lowest == start
        assert entry_position(source, None, 100, 205) == 0
        assert entry_position(source, log.with_suffix(".gone"), 100, 205) == 0


def test_damage_before_the_entry_is_not_read(tmp_path: Path, capfdbinary: Capture) -> None:
    data = flip(segment(BATCHES), 100)
    entries, _ = index_entries(BATCHES, 100, 2000)
    files = {f"{100:020d}.log": data, f"{100:020d}.index": offset_index(entries, 100)}
    directory = write_partition(tmp_path, "t", 0, {100: BATCHES}, files=files)
    log = directory / f"{100:020d}.log"
    assert run(capfdbinary, str(log))[0] == 4
    for path in (directory, log):
        code, lines = run(capfdbinary, "--records", "--offsets", "200..203", str(path))
        assert code == 0
        assert [line["offset"] for line in of_type("record", lines)] == [200, 201, 202, 203]
        assert lines[-1]["bytes"] < len(data)
    log.with_suffix(".index").unlink()
    code, lines = run(capfdbinary, "--records", "--offsets", "200..203", str(directory))
    assert code == 4
    assert [line["type"] for line in lines][2:4] == ["damage", "record"]
    assert [line["offset"] for line in of_type("record", lines)] == [200, 201, 202, 203]
    assert lines[-1]["bytes"] == len(data)


def test_a_lying_index_hides_nothing(tmp_path: Path, capfdbinary: Capture) -> None:
    directory = write_partition(tmp_path, "t", 0, {100: BATCHES})
    index = directory / f"{100:020d}.index"
    chance = random.Random(5)
    size = len(segment(BATCHES))
    for _ in range(40):
        entries = sorted(
            (
                chance.randrange(100, 300),
                chance.choice([*positions(), chance.randrange(size + 9), 2**31 + 5]),
            )
            for _ in range(chance.randrange(1, 6))
        )
        index.write_bytes(offset_index(entries, 100) + chance.randbytes(chance.choice([0, 3])))
        first = chance.randrange(100, 280)
        found = offsets(capfdbinary, "--offsets", f"{first}..", str(directory))
        assert found == list(range(first, 280)), entries


def test_an_index_too_large_to_be_one_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(segment(BATCHES))
    index = tmp_path / "index"
    index.write_bytes(offset_index([(150, positions()[9])], 100))
    with open_source(log, mapped=False) as source:
        assert entry_position(source, index, 100, 200) == positions()[9]
        with index.open("ab") as file:
            file.truncate((64 << 20) + 8)
        assert entry_position(source, index, 100, 200) == 0


def test_a_sound_batch_is_found_only_where_one_starts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(flip(segment(BATCHES), positions()[2] + 70))
    with open_source(log, mapped=False) as source:
        found = [
            position
            for position in range(-3, source.size + 3)
            if sound_batch(source, 100, position) is not None
        ]
        assert found == [position for i, position in enumerate(positions()) if i != 2]
        assert sound_batch(source, 103, 0) is None, "its offset lies before the segment"


def test_damage_behind_the_entry_is_shown_and_hunted_behind(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    data = segment(BATCHES)
    at = positions()[40]
    data = data[:at] + b"\xff" * 50 + data[positions()[41] :]
    entries, _ = index_entries(BATCHES, 100, 2000)
    index = offset_index([entry for entry in entries if entry[1] < at], 100)
    files = {f"{100:020d}.log": data, f"{100:020d}.index": index}
    directory = write_partition(tmp_path, "t", 0, {100: BATCHES}, files=files)
    code, lines = run(capfdbinary, "--records", "--offsets", "215..225", str(directory))
    assert code == 4
    assert [(line["type"], line.get("offset")) for line in lines[2:-1]] == [
        *[("record", offset) for offset in range(215, 220)],
        ("damage", None),
        *[("record", offset) for offset in range(223, 226)],
    ]
    assert lines[7]["position"] == at


# --- ranges


def test_a_flipped_base_offset_hides_nothing_behind_it(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    """No checksum covers it, so an offset beyond the range does not end the dump."""
    parts = [batch(i, [record(b"%d" % i)]) for i in range(6)]
    parts[2] = flip(parts[2], 5)
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.write_bytes(segment(parts))
    assert offsets(capfdbinary, "--offsets", "1..4", str(path)) == [1, 3, 4]


def test_segments_outside_the_range_are_not_opened(tmp_path: Path, capfdbinary: Capture) -> None:
    parts = {base: [batch(base + i, [record()]) for i in range(10)] for base in (0, 10, 30, 40)}
    directory = write_partition(tmp_path, "t", 0, parts)
    for args, bases in {
        "10..29": [10],
        "9..30": [0, 10, 30],
        "35": [30],
        "45..": [40],
        "..5": [0],
        "50..60": [40],
    }.items():
        _, lines = run(capfdbinary, "--offsets", args, str(directory))
        assert [line["base_offset"] for line in of_type("file", lines)] == bases, args
    _, lines = run(capfdbinary, "--offsets", "9..30", str(tmp_path))
    assert lines[-1]["files"] == 3
    (directory / f"{0:020d}.log").unlink()
    (directory / f"{0:020d}.log").mkdir()
    assert run(capfdbinary, "--offsets", "10..", str(directory))[0] == 0


def test_a_partition_may_have_no_segment(tmp_path: Path, capfdbinary: Capture) -> None:
    write_partition(tmp_path, "empty", 0, {})
    for options in ([], ["--offsets", "5.."], ["--summary"]):
        code, lines = run(capfdbinary, *options, str(tmp_path / "empty-0"))
        assert (code, [line["type"] for line in lines]) == (0, ["header", "summary"])


def test_the_highest_offset_lies_in_the_last_segment(tmp_path: Path, capfdbinary: Capture) -> None:
    base = HIGHEST - 1
    parts = [batch(base, [record(), record()])]
    directory = write_partition(tmp_path, "highest", 0, {base: parts})
    assert offsets(capfdbinary, "--offsets", str(HIGHEST), str(directory)) == [HIGHEST]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_holds_offsets_from_behind_the_batch_before(
    magic: int, tmp_path: Path, capfdbinary: Capture
) -> None:
    def wrapped(first: int, last: int) -> bytes:
        inner = range(first, last + 1) if magic == 0 else range(last + 1 - first)
        return wrapper(
            last, [message(i, b"v", magic=magic) for i in inner], codec="gzip", magic=magic
        )

    parts = [wrapped(0, 4), wrapped(5, 9), message(10, magic=magic), wrapped(11, 14)]
    data = segment(parts)
    entries = [(5, len(parts[0])), (11, len(data) - len(parts[3]))]
    files = {f"{0:020d}.log": data, f"{0:020d}.index": offset_index(entries)}
    directory = write_partition(tmp_path, "t", 0, {0: []}, files=files)
    for first in range(15):
        for last in range(first, 15):
            found = offsets(capfdbinary, "--offsets", f"{first}..{last}", str(directory))
            assert found == list(range(first, last + 1))
    for asked, shown in (("4", [4]), ("6..8", [9]), ("10..11", [10, 14]), ("5..6", [9])):
        _, lines = run(capfdbinary, "--offsets", asked, str(directory))
        assert [line["last_offset"] for line in of_type("batch", lines)] == shown


def test_a_wrapper_with_offset_0_may_hold_any(tmp_path: Path, capfdbinary: Capture) -> None:
    data = segment([message(4), wrapper(0, [message(5), message(6)], codec="snappy"), message(7)])
    directory = write_partition(tmp_path, "t", 0, {0: []}, files={f"{0:020d}.log": data})
    assert offsets(capfdbinary, "--offsets", "6..", str(directory)) == [6, 7]


# --- times


def timed(tmp_path: Path) -> str:
    """Three batches of two records, one second after the other from the first second of 2024."""
    parts = [
        batch(
            2 * i,
            [record(b"a", timestamp=start), record(b"b", timestamp=start + 500)],
            base_timestamp=start,
        )
        for i, start in enumerate(range(1_704_067_200_000, 1_704_067_203_000, 1000))
    ]
    return str(write_partition(tmp_path, "t", 0, {0: parts}))


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--since", "2024-01-01T00:00:01Z"], [2, 3, 4, 5]),
        (["--since", "2024-01-01T01:00:01+01:00"], [2, 3, 4, 5]),
        (["--since", "2024-01-01 00:00:01"], [2, 3, 4, 5]),
        (["--since", "2024-01-01T00:00:00.499999"], [1, 2, 3, 4, 5]),
        (["--since", "2024-01-01T00:00:00.500001"], [2, 3, 4, 5]),
        (["--since", "2024-01-01"], [0, 1, 2, 3, 4, 5]),
        (["--since", "1704067201500"], [3, 4, 5]),
        (["--until", "2024-01-01T00:00:01Z"], [0, 1]),
        (["--until", "1704067201001"], [0, 1, 2]),
        (["--until", "2024-01-01"], []),
        (["--since", "1704067201000", "--until", "1704067201500"], [2]),
        (["--since", "2025-01-01"], []),
    ],
)
def test_since_includes_and_until_excludes(
    args: list[str], expected: list[int], tmp_path: Path, capfdbinary: Capture
) -> None:
    assert offsets(capfdbinary, *args, timed(tmp_path)) == expected


def test_times_of_batches(tmp_path: Path, capfdbinary: Capture) -> None:
    """They go from the first record's to the largest, and are one under LogAppendTime."""
    parts = [
        batch(0, [record()], base_timestamp=1000, max_timestamp=3000),
        batch(
            1,
            [record()],
            timestamp_type="LogAppendTime",
            base_timestamp=1000,
            max_timestamp=3000,
        ),
        batch(2, [record()], delete_horizon=True, base_timestamp=9000, max_timestamp=3000),
        batch(3, [record()], base_timestamp=-1, max_timestamp=-1),
    ]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    for args, bases in (
        (["--since", "3000"], [0, 1, 2]),
        (["--since", "3001"], []),
        (["--until", "2000"], [0, 2]),
        (["--until", "1000"], [2]),
        (["--until", "3001"], [0, 1, 2]),
    ):
        _, lines = run(capfdbinary, *args, directory)
        assert [line["base_offset"] for line in of_type("batch", lines)] == bases, args


def test_records_before_the_first_of_their_batch_are_found(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    records = [record(timestamp=5000), record(timestamp=100), record(timestamp=7000)]
    parts = [batch(0, records, base_timestamp=5000)]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    assert offsets(capfdbinary, "--until", "200", directory) == [1]


def test_messages_of_magic_0_have_no_time(tmp_path: Path, capfdbinary: Capture) -> None:
    data = segment([message(0, magic=0), message(1, timestamp=50)])
    directory = write_partition(tmp_path, "t", 0, {0: []}, files={f"{0:020d}.log": data})
    assert offsets(capfdbinary, "--since", "0", str(directory)) == [1]
    assert offsets(capfdbinary, "--until", "51", str(directory)) == [1]


# --- keys, producers, limits


def test_keys_are_bytes(tmp_path: Path, capfdbinary: Capture) -> None:
    keys = [b"a", b"\0\xff", None, b"", "\u00e9".encode(), b"aa", b"\0\0\0\1", b"a"]
    parts = [
        batch(0, [record(b"v", key) for key in keys], producer_id=7, transactional=True),
        marker(len(keys), 7, commit=True),
    ]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    for option, text, expected in (
        ("--key", "a", [0, 7]),
        ("--key", "\u00e9", [4]),
        ("--key", "", [3]),
        ("--key", "\udcff", []),
        ("--key-base64", "AP8=", [1]),
        ("--key-base64", "", [3]),
        # The key of the marker too, but that is no key.
        ("--key-base64", base64.b64encode(b"\0\0\0\1").decode(), [6]),
    ):
        code, lines = run(capfdbinary, option, text, directory)
        assert [line["offset"] for line in of_type("record", lines)] == expected, text
        assert code == 0
        assert not of_type("batch", lines)


def test_a_producer_is_shown_with_its_markers(tmp_path: Path, capfdbinary: Capture) -> None:
    parts = [
        batch(0, [record()], producer_id=7, transactional=True),
        batch(1, [record()], producer_id=8, transactional=True),
        marker(2, 8, commit=True),
        marker(3, 7, commit=False),
        batch(4, [record()]),
    ]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    assert offsets(capfdbinary, "--producer-id", "7", directory) == [0, 3]
    _, lines = run(capfdbinary, "--producer-id", "8", "--offsets", "2..", directory)
    assert [line["base_offset"] for line in of_type("batch", lines)] == [2]


def test_a_limit_is_for_the_whole_run_and_ends_it(tmp_path: Path, capfdbinary: Capture) -> None:
    parts = {base: [batch(base + 5 * i, [record()] * 5) for i in range(2)] for base in (0, 10)}
    directory = write_partition(tmp_path, "t", 0, parts)
    damaged = directory / f"{10:020d}.log"
    damaged.write_bytes(damaged.read_bytes() + b"\1" * 20)
    assert run(capfdbinary, str(directory))[0] == 4
    for limit, files in ((3, 1), (10, 1), (11, 2), (20, 2)):
        code, lines = run(capfdbinary, "--records", "--limit", str(limit), str(directory))
        assert [line["offset"] for line in of_type("record", lines)] == list(range(limit))
        assert (code, lines[-1]["files"], lines[-1]["records"]) == (0, files, limit)
    for limit, files in ((1, 1), (2, 1), (3, 2), (4, 2)):
        code, lines = run(capfdbinary, "--limit", str(limit), str(directory))
        assert len(of_type("batch", lines)) == limit
        assert (code, lines[-1]["files"]) == (0, files)
    assert run(capfdbinary, "--limit", "5", str(directory))[0] == 4
    assert offsets(capfdbinary, "--limit", "2", "--offsets", "8..", str(directory)) == [8, 9]


def test_what_cannot_be_read_is_shown_whatever_is_asked_for(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    parts = [
        batch(0, [record(b"v", b"k"), record(b"cut", length=99)]),
        batch(2, [record(b"v", b"k")]),
    ]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    code, lines = run(capfdbinary, "--key", "other", directory)
    assert code == 4
    assert [line["type"] for line in lines] == ["header", "file", "unread", "summary"]
    main(["dump", "--key", "other", directory])
    text = capfdbinary.readouterr().out.decode().splitlines()
    assert text[2].startswith("baseOffset: 0 ")
    assert text[3].startswith("records-unreadable: ")
    assert len(text) == 4


# --- usage


@pytest.mark.parametrize(
    "args",
    [
        ["--offsets", ".."],
        ["--offsets", ""],
        ["--offsets", "5..4"],
        ["--offsets", "-1"],
        ["--offsets", "1...2"],
        ["--offsets", "1..2..3"],
        ["--offsets", "\u0663"],
        ["--offsets", "9223372036854775808"],
        ["--offsets", "9" * 5000],
        ["--since", "yesterday"],
        ["--since", "-5"],
        ["--since", "1969-12-31T23:59:59.999Z"],
        ["--since", "9223372036854775808"],
        ["--since", "9" * 5000],
        ["--until", "0001-01-01T00:00+23:59"],
        ["--until", "2024-13-01"],
        ["--since", "20", "--until", "20"],
        ["--key-base64", "A"],
        ["--key-base64", "a b="],
        ["--key-base64", "\u00e9"],
        ["--key", "a", "--key-base64", "YQ=="],
        ["--producer-id", "-1"],
        ["--producer-id", "9223372036854775808"],
        ["--limit", "0"],
        ["--limit", "some"],
    ],
)
def test_wrong_usage(args: list[str], tmp_path: Path, capfdbinary: Capture) -> None:
    assert main(["dump", *args, timed(tmp_path)]) == 2
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert err.startswith(b"Usage: ")


@pytest.mark.parametrize("args", [["--offsets", "1"], ["--limit", "1"], ["--summary"]])
def test_filters_are_for_files_of_batches(
    args: list[str], tmp_path: Path, capfdbinary: Capture
) -> None:
    path = tmp_path / f"{0:020d}.txnindex"
    path.write_bytes(txn_index([(1, 2, 3, 4)]))
    assert main(["dump", str(path)]) == 0
    capfdbinary.readouterr()
    assert main(["dump", *args, str(path)]) == 2
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert b"files of batches" in b" ".join(err.split())
