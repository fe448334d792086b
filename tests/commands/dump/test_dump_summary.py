"""``kdump dump --summary``, against sums over what the dump itself says."""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from kdump.cli.main import main
from kdump.commands.dump.lines import DumpFile
from kdump.commands.dump.summary import TextView
from kdump.commands.dump.totals import DumpTotals
from kdump.format.lines.text import time_text
from kdump.format.records import RecordReader
from kdump.storage.names import parse_file_name
from support.fixtures_loader import FIXTURES
from support.forge import (
    TIMESTAMP,
    batch,
    flip,
    marker,
    message,
    record,
    segment,
    wrapper,
    write_partition,
)

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]


def run(capture: Capture, *args: str) -> tuple[int, list[JsonObject]]:
    code = main(["dump", "--format", "json", *args])
    out, _ = capture.readouterr()
    return code, [json.loads(line) for line in out.decode().splitlines()]


def totals(capture: Capture, *args: str) -> JsonObject:
    """The only sums of a run."""
    _, lines = run(capture, "--summary", *args)
    (found,) = (line for line in lines if line["type"] == "totals")
    return found


def inflated(codec: str, block: bytes) -> bytes:
    """The records of a batch of magic 2 of a real broker."""
    if codec == "gzip":
        return zlib.decompress(block, wbits=31)
    if codec == "snappy":
        found, at = b"", 16
        while at < len(block):
            end = at + 4 + int.from_bytes(block[at : at + 4], "big")
            found += snappy.decompress(block[at + 4 : end])
            at = end
        return found
    if codec == "lz4":
        return bytes(lz4.frame.decompress(block))
    if codec == "zstd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(block)
    return block


def expected(lines: list[JsonObject], first: dict[tuple[str, int], JsonObject]) -> JsonObject:
    """The sums of ``lines``, of a dump of batches and one of records.

    ``first`` has the first record of each batch by its file and position.
    """
    batches = [line for line in lines if line["type"] == "batch"]
    records = [line for line in lines if line["type"] == "record"]
    wrapped = [first[place] for place, line in located(lines, "batch") if line["count"] is None]
    firsts = [time for time in map(earliest, [*batches, *wrapped]) if time is not None]
    latest = max((line["max_timestamp"] or -1 for line in batches), default=-1)
    offsets = [line["base_offset"] for line in batches if line["count"] is not None]
    offsets += [line["offset"] for line in wrapped]
    sizes = sorted(line["size"] for line in batches)
    control: Counter[str] = Counter()
    begun: dict[int, int] = {}
    for line in batches:
        if line["control"] and line["producer_id"] >= 0 and line["count"]:
            begun.pop(line["producer_id"], None)
        elif line["transactional"] and not line["control"]:
            begun.setdefault(line["producer_id"], line["base_offset"])
    for line in records:
        if line["control"] and line["producer_id"] >= 0:
            control[line["key_base64"]] += 1
    codecs: dict[str, Counter[str]] = defaultdict(Counter)
    for line in batches:
        codecs[line["codec"]] += Counter(batches=1, stored_bytes=line["size"] - header_bytes(line))
    for line in records:
        codecs[line["codec"]]["records"] += 1
    return {
        "bytes": sum(sizes),
        "batches": len(batches),
        "control_batches": sum(line["control"] for line in batches),
        "records": len(records),
        "first_offset": min(offsets, default=None),
        "last_offset": max((line["last_offset"] for line in batches), default=None),
        "first_timestamp": min([*firsts, latest]) if latest >= 0 else None,
        "last_timestamp": latest if latest >= 0 else None,
        "smallest_batch_bytes": sizes[0] if sizes else None,
        "half_below_bytes": 1 << sizes[(len(sizes) - 1) // 2].bit_length() if sizes else None,
        "largest_batch_bytes": sizes[-1] if sizes else None,
        "producers": len({line["producer_id"] for line in batches} - {-1}),
        "committed": control["AAAAAQ=="],
        "aborted": control["AAAAAA=="],
        "open_transactions": [
            {"producer_id": producer, "first_offset": offset} for producer, offset in begun.items()
        ],
        "codecs": {codec: dict(sums) for codec, sums in codecs.items()},
    }


@pytest.mark.parametrize("name", FIXTURES)
def test_sums_of_fixtures(name: str, grown: Callable[[str], Path], capfdbinary: Capture) -> None:
    directory = grown(name)
    seen = 0
    for path in sorted(path for path in directory.iterdir() if list(path.glob("*.log"))):
        logs = [str(log) for log in sorted(path.glob("*.log"))]
        found = totals(capfdbinary, *logs)
        lines = run(capfdbinary, *logs)[1]
        lines += run(capfdbinary, "--records", "--base64", *logs)[1]
        first = dict(reversed(located(lines, "record")))
        sums = expected(lines, first)
        of_codecs = {
            codec.pop("codec"): {key: n for key, n in codec.items() if key in NUMBERS and n}
            for codec in json.loads(json.dumps(found["codecs"]))
        }
        assert of_codecs == {
            codec: {key: n for key, n in numbers.items() if n}
            for codec, numbers in sums.pop("codecs").items()
        }
        assert {key: found[key] for key in sums} == sums
        assert found["files"] == len(logs)
        for codec in found["codecs"]:
            batches = [
                pair for pair in located(lines, "batch") if pair[1]["codec"] == codec["codec"]
            ]
            if any(line["count"] is None for _, line in batches):
                continue  # what stands in a wrapper is for others to take apart
            unpacked = sum(
                len(inflated(codec["codec"], stored(path, line)))
                for (path, _), line in batches
                if line["count"]
            )
            assert codec["uncompressed_bytes"] == unpacked
            assert codec["ratio"] == (unpacked / codec["stored_bytes"] if unpacked else None)
        seen += found["batches"]
    assert seen > 100


NUMBERS = ("batches", "records", "stored_bytes")


def located(lines: list[JsonObject], kind: str) -> list[tuple[tuple[str, int], JsonObject]]:
    """Each line of a kind, with the path of its file and the position of its batch."""
    found, path = [], ""
    for line in lines:
        if line["type"] == "file":
            path = line["path"]
        elif line["type"] == kind:
            found.append(((path, line["position"]), line))
    return found


def stored(path: str, line: JsonObject) -> bytes:
    """The records of a batch as they stand in the file."""
    end = line["position"] + line["size"]
    return Path(path).read_bytes()[line["position"] + header_bytes(line) : end]


def header_bytes(line: JsonObject) -> int:
    """A message is a record as a whole."""
    return 61 if line["magic"] > 1 else 0


def earliest(line: JsonObject) -> int | None:
    """The timestamp of a record, or of a batch's first as far as its header says it."""
    time: int | None
    if line["type"] == "record":
        time = line["timestamp"]
    elif line["count"] is None or line["delete_horizon_ms"] is not None:
        time = None
    elif line["timestamp_type"] == "LogAppendTime":
        time = line["max_timestamp"]
    else:
        time = line["base_timestamp"]
    return time if time is not None and time >= 0 else None


# --- what fixtures do not have


def forged(tmp_path: Path) -> Path:
    """Two segments of one partition with all that a summary tells of, damage and nonsense too."""
    day = 86_400_000
    nine = [record(b"v" * 100)] * 9
    plain = b"".join(one.encode(place, TIMESTAMP) for place, one in enumerate(nine))
    parts = [
        # Not compressed at all, so that its size is the same with any library.
        batch(0, nine, codec="gzip", block=zlib.compress(plain, 0, wbits=31)),
        batch(9, [record()], producer_id=7, transactional=True, base_timestamp=TIMESTAMP + day),
        batch(10, [record()], producer_id=8, transactional=True),
        marker(11, 7, commit=True),
        batch(12, [record()], producer_id=7, transactional=True),
        flip(batch(13, [record(b"damaged" * 30)]), 100),
        batch(14, [record()], attributes=7),
        batch(15, [record()], codec="zstd", block=b"no zstd"),
    ]
    more = [
        batch(20, [record()], producer_id=7, transactional=True),
        marker(21, 7, commit=False),
        batch(22, [record()] * 1200, base_timestamp=TIMESTAMP + 2 * day),
    ]
    files = {f"{0:020d}.log": segment(parts)}
    return write_partition(tmp_path, "orders", 3, {0: [], 20: more}, files=files)


TABLE = """\
{path}
  batches       10 in 2 files, 2 of them control batches
  size          16.85 KiB in valid batches
  records       1,217
  offsets       0 to 1221
  times         2023-11-14T22:13:20.000Z to 2023-11-16T22:13:20.000Z
  batch sizes   68 bytes to 15.23 KiB, half of them under 128 bytes
  producers     2 ids
  transactions  1 committed, 1 aborted, 1 open
                open: producer 8 from 10
  damage        1 place, 280 bytes
  unreadable    2 batches
  compression   batches  records      stored  uncompressed  ratio
  none                7    1,206   15.25 KiB     15.25 KiB   1.00
  gzip                1        9  1004 bytes     981 bytes   0.98
  zstd                1        1     7 bytes
  unknown(7)          1        1    12 bytes
"""


def test_the_table(tmp_path: Path, capfdbinary: Capture) -> None:
    directory = forged(tmp_path)
    assert main(["dump", "--summary", str(directory)]) == 4
    out, err = capfdbinary.readouterr()
    assert (out.decode(), err) == (TABLE.format(path=directory), b"")
    other = write_partition(tmp_path, "empty", 0, {0: []})
    assert main(["dump", "--summary", str(tmp_path)]) == 4
    text = capfdbinary.readouterr().out.decode()
    assert text == (
        f"{other}\n  batches       0 in 1 file\n  size          0 bytes in valid batches\n"
        f"  records       0\n\n{TABLE.format(path=directory)}"
    )


def test_json_has_the_same(tmp_path: Path, capfdbinary: Capture) -> None:
    code, lines = run(capfdbinary, "--summary", str(forged(tmp_path)))
    assert code == 4
    assert [line["type"] for line in lines] == ["header", "totals", "summary"]
    found = lines[1]
    assert (found["topic"], found["partition"], found["path"]) == (
        "orders",
        3,
        str(tmp_path / "orders-3"),
    )
    assert (found["damages"], found["damaged_bytes"], found["unreadable"]) == (1, 280, 2)
    assert found["open_transactions"] == [{"producer_id": 8, "first_offset": 10}]
    assert [codec["ratio"] for codec in found["codecs"]] == [1.0, 981 / 1004, None, None]
    assert lines[2] == {
        "type": "summary",
        "exit": 4,
        "files": 2,
        "bytes": found["bytes"] + 280,
        "batches": 10,
        "records": 1217,
        "entries": 0,
        "damages": 3,
        "incomplete": 0,
    }


def test_filters_and_limit_are_of_batches(tmp_path: Path, capfdbinary: Capture) -> None:
    directory = str(forged(tmp_path))
    found = totals(capfdbinary, "--producer-id", "7", directory)
    assert (found["batches"], found["committed"], found["aborted"]) == (5, 1, 1)
    found = totals(capfdbinary, "--offsets", "0..11", directory)
    assert (found["batches"], found["files"], found["last_offset"]) == (4, 1, 11)
    assert [one["producer_id"] for one in found["open_transactions"]] == [8]
    found = totals(capfdbinary, "--limit", "8", directory)
    assert (found["batches"], found["files"], found["damages"]) == (8, 2, 1)
    found = totals(capfdbinary, "--limit", "2", directory)
    assert (found["batches"], found["files"], found["damages"]) == (2, 1, 0)
    day = str(TIMESTAMP + 86_400_000)
    found = totals(capfdbinary, "--since", day, directory)
    assert (found["first_offset"], found["batches"]) == (9, 2)


def test_each_partition_has_its_sums_and_each_other_file(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    parts = {0: [batch(0, [record()])], 1: [batch(1, [record()])]}
    one = write_partition(tmp_path, "one", 0, parts)
    two = write_partition(tmp_path, "two", 0, parts)
    old = two / f"{0:020d}.log.deleted"
    old.write_bytes(parts[0][0])
    logs = sorted(map(str, two.glob("*.log")))
    _, lines = run(capfdbinary, "--summary", str(one), *logs, str(old), logs[0])
    sums = [line for line in lines if line["type"] == "totals"]
    assert [(line["path"], line["files"]) for line in sums] == [
        (str(one), 2),
        (str(two), 2),
        (str(old), 1),
        (str(two), 1),
    ]
    assert lines[-1]["files"] == 6


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_in_wrappers_are_counted(magic: int, tmp_path: Path, capfdbinary: Capture) -> None:
    inner = [message(i, b"v" * 50, magic=magic) for i in range(4)]
    parts = [wrapper(3, inner, codec="snappy", magic=magic), message(4, magic=magic)]
    directory = write_partition(tmp_path, "t", 0, {0: []}, files={f"{0:020d}.log": segment(parts)})
    found = totals(capfdbinary, str(directory))
    assert found["records"] == 5
    none, compressed = found["codecs"]
    assert (none["records"], none["stored_bytes"]) == (1, len(parts[1]))
    assert (compressed["batches"], compressed["records"]) == (1, 4)
    assert compressed["stored_bytes"] == len(parts[0])
    assert compressed["uncompressed_bytes"] == sum(map(len, inner))


def test_a_bomb_is_over_the_limit(tmp_path: Path, capfdbinary: Capture) -> None:
    block = zlib.compress(bytes(65 << 20), wbits=31)
    parts = [batch(0, [record()], codec="gzip", block=block)]
    directory = str(write_partition(tmp_path, "t", 0, {0: parts}))
    assert main(["dump", "--summary", directory]) == 5
    text = capfdbinary.readouterr().out.decode()
    assert "not read      1 too large batch\n" in text
    assert totals(capfdbinary, directory)["over_limit"] == 1


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (TIMESTAMP + 7, "2023-11-14T22:13:20.007Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_times_in_words(timestamp: int, text: str) -> None:
    assert time_text(timestamp) == text


def test_names_are_neither_markup_nor_control(tmp_path: Path, capfdbinary: Capture) -> None:
    directory = tmp_path / ("[bold]:smile:\x1b[31m" + "x" * 90)
    directory.mkdir()
    path = directory / f"{0:020d}.log"
    path.write_bytes(batch(0, [record()]))
    assert main(["dump", "--summary", str(path)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[0] == str(directory).replace("\x1b", "\\x1b")
    assert max(map(len, lines[1:])) <= 80


def test_a_terminal_gets_a_bold_heading_and_its_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")
    sums = DumpTotals(RecordReader()).totals()
    name = parse_file_name(f"{0:020d}.log")
    path = tmp_path / f"{0:020d}.log"
    shown = TextView(terminal=True).sums(path, DumpFile(path, name, None), sums).decode()
    assert shown.startswith(f"\x1b[1m{path}\x1b[0m\n")
    assert shown.count("\x1b") == 2


@pytest.mark.parametrize("args", [["--records"], ["--data"], ["--key", "a"]])
def test_a_summary_has_no_records(args: list[str], tmp_path: Path, capfdbinary: Capture) -> None:
    assert main(["dump", "--summary", *args, str(forged(tmp_path))]) == 2
    assert capfdbinary.readouterr().out == b""
