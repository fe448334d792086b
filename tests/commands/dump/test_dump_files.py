"""``kdump dump`` of files that hold no batches: our own lines pinned, damage, JSON without loss."""

from __future__ import annotations

import json
import math
import os
import random
import struct
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kdump.cli.main import main
from kdump.commands.dump.entries import FileDamage, json_lines
from kdump.commands.dump.files import KINDS, pieces
from kdump.storage.names import FileKind, parse_file_name
from support import forge
from support.fixtures_loader import few_first

pytestmark = pytest.mark.loops

JsonObject = dict[str, Any]
Capture = pytest.CaptureFixture[bytes]

IDLE = (1000, 3, 41, 99, 4, 1_700_000_000_000, -1, -1)
MARKED = (2000, 5, -1, -1, 0, 1_700_000_000_500, 6, -1)
OPEN = (3000, 0, 1, 120, 3, 1_700_000_000_900, -1, 118)
QUORUM_0 = (
    '{"clusterId":"C","leaderId":1,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
)
QUORUM_1 = (
    '{"leaderId":-1,"leaderEpoch":7,"votedId":2,"votedDirectoryId":"Zx3rO8V1QyCqz-_7aB4mXw",'
    '"data_version":1}'
)

#: By name: the content, the text behind the line that names the file, and the JSON between its
#: "file" line and the summary, each without the topic and partition of its directory.
PINNED: dict[str, tuple[bytes, list[str], list[JsonObject]]] = {
    "00000000000000000100.index": (
        forge.offset_index([(104, 4100), (110, 8300)], 100),
        ["offset: 104 position: 4100", "offset: 110 position: 8300"],
        [
            {"type": "index-entry", "offset": 104, "position": 4100},
            {"type": "index-entry", "offset": 110, "position": 8300},
        ],
    ),
    "00000000000000000100.timeindex": (
        forge.time_index([(1_700_000_000_000, 104)], 100),
        ["timestamp: 1700000000000 offset: 104"],
        [{"type": "time-index-entry", "timestamp": 1_700_000_000_000, "offset": 104}],
    ),
    "00000000000000000100.txnindex": (
        forge.txn_index([(7, 101, 105, 106)]),
        ["version: 0 producerId: 7 firstOffset: 101 lastOffset: 105 lastStableOffset: 106"],
        [
            {
                "type": "aborted-transaction",
                "version": 0,
                "producer_id": 7,
                "first_offset": 101,
                "last_offset": 105,
                "last_stable_offset": 106,
            }
        ],
    ),
    "00000000000000000121.snapshot": (
        forge.snapshot([IDLE, MARKED, OPEN]),
        [
            "producerId: 1000 producerEpoch: 3 coordinatorEpoch: -1 currentTxnFirstOffset: "
            "OptionalLong.empty lastTimestamp: 1700000000000 firstSequence: 37 lastSequence: 41 "
            "lastOffset: 99 offsetDelta: 4 timestamp: 1700000000000",
            "producerId: 2000 producerEpoch: 5 coordinatorEpoch: 6 currentTxnFirstOffset: "
            "OptionalLong.empty lastTimestamp: 1700000000500",
            "producerId: 3000 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: "
            "OptionalLong[118] lastTimestamp: 1700000000900 firstSequence: 2147483646 "
            "lastSequence: 1 lastOffset: 120 offsetDelta: 3 timestamp: 1700000000900",
        ],
        [
            {
                "type": "producer",
                "producer_id": entry[0],
                "producer_epoch": entry[1],
                "last_sequence": entry[2],
                "last_offset": entry[3],
                "offset_delta": entry[4],
                "timestamp": entry[5],
                "coordinator_epoch": entry[6],
                "current_txn_first_offset": entry[7],
            }
            for entry in (IDLE, MARKED, OPEN)
        ],
    ),
    "leader-epoch-checkpoint": (
        forge.checkpoint([(0, 0), (5, 96)]),
        ["epoch: 0 startOffset: 0", "epoch: 5 startOffset: 96"],
        [
            {"type": "leader-epoch", "epoch": 0, "start_offset": 0},
            {"type": "leader-epoch", "epoch": 5, "start_offset": 96},
        ],
    ),
    "recovery-point-offset-checkpoint": (
        forge.checkpoint([("a.b-c", 1, 42)]),
        ["topic: a.b-c partition: 1 offset: 42"],
        [{"type": "offset-checkpoint-entry", "topic": "a.b-c", "partition": 1, "offset": 42}],
    ),
    "partition.metadata": (
        forge.partition_metadata("FoY4DOuWRguG8tgvXsND8Q"),
        ["version: 0 topicId: FoY4DOuWRguG8tgvXsND8Q"],
        [{"type": "partition-metadata", "version": 0, "topic_id": "FoY4DOuWRguG8tgvXsND8Q"}],
    ),
    "meta.properties": (
        b"#a comment\nversion=1\nnode.id=3\nsomething = else \n",
        [
            "name: version value: 1",
            "name: node.id value: 3",
            "name: something value: else ",
        ],
        [
            {"type": "property", "name": "version", "value": "1"},
            {"type": "property", "name": "node.id", "value": "3"},
            {"type": "property", "name": "something", "value": "else "},
        ],
    ),
    "quorum-state": (
        QUORUM_0.encode(),
        [
            "version: 0 leaderId: 1 leaderEpoch: 7 votedId: -1 votedDirectoryId: null "
            "clusterId: C appliedOffset: 0 currentVoters: [1,2]"
        ],
        [
            {
                "type": "quorum-state",
                "version": 0,
                "leader_id": 1,
                "leader_epoch": 7,
                "voted_id": -1,
                "voted_directory_id": None,
                "cluster_id": "C",
                "applied_offset": 0,
                "current_voters": [1, 2],
            }
        ],
    ),
    ".kafka_cleanshutdown": (
        b'{"version":0,"brokerEpoch":214}',
        ["brokerEpoch: 214"],
        [{"type": "clean-shutdown", "broker_epoch": 214}],
    ),
}


def write(directory: Path, name: str, data: bytes) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_bytes(data)
    return path


def run_text(capfdbinary: Capture, path: Path) -> tuple[int, list[str]]:
    """The exit code, and the lines behind the one that names the file."""
    code = main(["dump", str(path)])
    first, *lines = capfdbinary.readouterr().out.decode().split("\n")
    assert (first, lines[-1]) == (f"Dumping {path}", "")
    return code, lines[:-1]


def run_json(capfdbinary: Capture, *args: str) -> tuple[int, list[JsonObject]]:
    code = main(["dump", "--format", "json", *args])
    lines = capfdbinary.readouterr().out.decode().splitlines()
    return code, [json.loads(line) for line in lines]


@pytest.mark.parametrize("name", PINNED)
def test_every_kind_is_printed_as_pinned(name: str, tmp_path: Path, capfdbinary: Capture) -> None:
    data, text, entries = PINNED[name]
    path = write(tmp_path / "orders-3", name, data)
    assert run_text(capfdbinary, path) == (0, text)
    code, (header, file, *between, summary) = run_json(capfdbinary, str(path))
    assert code == 0
    assert header["type"] == "header"
    where = {"topic": "orders", "partition": 3}
    assert file == {
        "type": "file",
        "path": str(path),
        **where,
        "kind": parse_file_name(name).kind.value,
        "base_offset": int(name[:20]) if name[0] == "0" else None,
        "size": len(data),
    }
    assert between == [{**where, **entry} for entry in entries]
    assert summary == {
        "type": "summary",
        "exit": 0,
        "files": 1,
        "bytes": len(data),
        "batches": 0,
        "records": 0,
        "entries": len(entries),
        "damages": 0,
        "incomplete": 0,
    }


def test_every_kind_is_pinned() -> None:
    assert {parse_file_name(name).kind for name in PINNED} == KINDS


def test_quorum_state_of_version_1(tmp_path: Path, capfdbinary: Capture) -> None:
    path = write(tmp_path, "quorum-state", QUORUM_1.encode())
    code, lines = run_text(capfdbinary, path)
    assert (code, lines) == (
        0,
        [
            "version: 1 leaderId: -1 leaderEpoch: 7 votedId: 2 "
            "votedDirectoryId: Zx3rO8V1QyCqz-_7aB4mXw clusterId: null appliedOffset: null "
            "currentVoters: []"
        ],
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("00000000000000000000.index", b""),
        ("leader-epoch-checkpoint", b""),
        ("leader-epoch-checkpoint", b"0\n0\n"),
        ("cleaner-offset-checkpoint", b"0\n0\n"),
        ("meta.properties", b"#\n"),
        (".kafka_cleanshutdown", b""),
    ],
)
def test_a_file_of_no_entries_is_said_to_be_empty(
    name: str, data: bytes, tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path, name, data)
    assert run_text(capfdbinary, path) == (0, [f"{path} is empty."])
    assert [line["type"] for line in run_json(capfdbinary, str(path))[1]] == [
        "header",
        "file",
        "summary",
    ]


@pytest.mark.parametrize("name", ["0.timeindex", "0.txnindex"])
def test_some_files_are_empty_in_silence_as_in_kafkas_tool(
    name: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    assert run_text(capfdbinary, write(tmp_path, name, b"")) == (0, [])


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap", ".tmp", ".part"])
@pytest.mark.parametrize("directory", ["t-0", "t-0.{}-delete", "t-0.{}-stray", "t-0.{}-future"])
def test_names_on_the_way_in_or_out_change_nothing(
    directory: str, suffix: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    top = tmp_path / directory.format("0123456789abcdef" * 2)
    for name, (data, text, _) in PINNED.items():
        path = write(top, name + suffix, data)
        assert run_text(capfdbinary, path) == (0, text), name
    batch = forge.batch(5, [forge.record()])
    for name in ("00000000000000000005.log", f"{5:020}-{1:010}.checkpoint"):
        code, lines = run_text(capfdbinary, write(top, name + suffix, batch))
        assert (code, len(lines)) == (0, 2)
        assert lines[1].startswith("baseOffset: 5 lastOffset: 5 count: 1 ")
    _, (_, file, *_) = run_json(capfdbinary, str(top / f"leader-epoch-checkpoint{suffix}"))
    assert (file["topic"], file["partition"]) == ("t", 0)


@pytest.mark.parametrize("ending", ["", ".{}-delete", ".{}-stray", ".{}-future"])
def test_of_a_directory_the_files_of_batches_are_printed(
    ending: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    forge.write_partition(tmp_path, "t", 0, {0: [forge.batch(0, [forge.record()])]})
    directory = (tmp_path / "t-0").rename(tmp_path / f"t-0{ending.format('ab' * 16)}")
    assert len(list(directory.iterdir())) > 3
    write(tmp_path, "meta.properties", b"")
    for path in (directory, tmp_path):
        code, lines = run_json(capfdbinary, str(path))
        assert code == 0
        assert [line["type"] for line in lines] == ["header", "file", "batch", "summary"]
        assert (lines[1]["topic"], lines[1]["partition"]) == ("t", 0)


# --- zero slots


@pytest.mark.parametrize(
    ("name", "size", "slots"),
    [
        ("00000000000000000009.index", 10_485_760, 1_310_720),
        ("00000000000000000009.timeindex", 10_485_756, 873_813),
    ],
)
@pytest.mark.parametrize("used", [0, 2])
def test_zero_slots_are_counted_in_one_line_and_are_no_damage(
    name: str, size: int, slots: int, used: int, tmp_path: Path, capfdbinary: Capture
) -> None:
    forged = {".index": forge.offset_index, ".timeindex": forge.time_index}[Path(name).suffix]
    path = write(tmp_path, name, forged([(10, 11), (12, 13)][:used], 9))
    position = path.stat().st_size
    os.truncate(path, size)
    code, lines = run_text(capfdbinary, path)
    assert (code, len(lines)) == (0, used + 1)
    place = f"position: {position} size: {size - position}"
    assert lines[-1] == f"zeroSlots: {slots - used} {place}"
    code, objects = run_json(capfdbinary, str(path))
    assert code == 0
    assert [line["type"] for line in objects[2 : 2 + used]] == [
        {".index": "index-entry", ".timeindex": "time-index-entry"}[path.suffix]
    ] * used
    assert objects[-2] == {
        "type": "zero-slots",
        "topic": None,
        "partition": None,
        "position": position,
        "size": size - position,
        "count": slots - used,
    }


def test_zeros_before_stale_entries_are_entries(tmp_path: Path, capfdbinary: Capture) -> None:
    data = forge.offset_index([(5, 50)], 0) + bytes(8) + forge.offset_index([(3, 30)], 0)
    path = write(tmp_path, "00000000000000000000.index", data)
    assert run_text(capfdbinary, path)[1] == [
        "offset: 5 position: 50",
        "offset: 0 position: 0",
        "offset: 3 position: 30",
    ]


# --- damage


def damage_of(line: JsonObject) -> tuple[str, int, int]:
    assert line["type"] == "damage"
    return line["reason"], line["position"], line["size"]


def content(line: JsonObject) -> bytes:
    """The bytes that a damage shows, in whichever form they came; none if it shows none."""
    if line.get("content") is not None:
        return str(line["content"]).encode()
    return b64decode(line.get("content_base64", ""))


@pytest.mark.parametrize(
    ("name", "entries", "slots", "entry_bytes"),
    [
        ("00000000000000000000.index", forge.offset_index([(1, 2)]), 0, 8),
        ("00000000000000000000.index", forge.offset_index([(1, 2)], slots=3), 2, 8),
        ("00000000000000000000.timeindex", forge.time_index([(1, 2)]), 0, 12),
        ("00000000000000000000.txnindex", forge.txn_index([(1, 2, 3, 4)]), 0, 34),
    ],
)
def test_a_remainder_is_shown_behind_the_entries(
    name: str,
    entries: bytes,
    slots: int,
    entry_bytes: int,
    tmp_path: Path,
    capfdbinary: Capture,
) -> None:
    path = write(tmp_path, name, entries + b"a\xff\n")
    code, lines = run_text(capfdbinary, path)
    assert code == 4
    assert lines[1 + (slots > 0) :] == [
        f"damage: remainder position: {len(entries)} size: 3 "
        f"detail: expected entries of {entry_bytes} bytes, found 3 bytes",
        r"content: a\xff\x0a",
    ]
    code, objects = run_json(capfdbinary, str(path))
    assert code == objects[-1]["exit"] == 4
    assert objects[-1]["damages"] == 1
    assert damage_of(objects[-2]) == ("remainder", len(entries), 3)
    assert content(objects[-2]) == b"a\xff\n"


def test_a_remainder_alone_leaves_an_index_empty(tmp_path: Path, capfdbinary: Capture) -> None:
    path = write(tmp_path, "00000000000000000000.index", b"abc")
    code, lines = run_text(capfdbinary, path)
    assert code == 4
    assert lines[0] == f"{path} is empty."
    assert lines[-1] == "content: abc"


def test_entries_of_a_snapshot_with_a_bad_checksum_are_shown(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    sound = forge.snapshot([IDLE, MARKED])
    data = forge.flip(sound, 12)
    path = write(tmp_path, "00000000000000000121.snapshot", data)
    code, (_, _, damage, first, second, summary) = run_json(capfdbinary, str(path))
    assert code == summary["exit"] == 4
    assert damage_of(damage) == ("bad-checksum", 0, len(data))
    assert damage["stored_crc"] == struct.unpack_from(">I", data, 2)[0]
    assert damage["computed_crc"] == crc32c(data[6:])
    assert (first["producer_epoch"], second["producer_id"]) == (3, 2000)
    code, lines = run_text(capfdbinary, path)
    assert (code, len(lines)) == (4, 3)
    assert lines[0] == (
        f"damage: bad-checksum position: 0 size: {len(data)} "
        f"storedCrc: {damage['stored_crc']} computedCrc: {damage['computed_crc']}"
    )


@pytest.mark.parametrize(
    ("data", "found", "rest"),
    [
        (forge.snapshot([IDLE, MARKED], count=1), 1, 46),
        (forge.snapshot([IDLE], count=2), 1, 0),
        (forge.snapshot([IDLE, MARKED], count=-1), 0, 92),
        (forge.snapshot([IDLE], count=2**31 - 1) + b"tail", 1, 4),
    ],
)
def test_a_snapshot_of_another_length_than_its_count_says(
    data: bytes, found: int, rest: int, tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path, "00000000000000000121.snapshot", data)
    code, lines = run_json(capfdbinary, str(path))
    assert code == 4
    assert [line["type"] for line in lines].count("producer") == found
    assert damage_of(lines[-2]) == ("wrong-count", len(data) - rest, rest)
    assert content(lines[-2]) == data[len(data) - rest :]


UNREADABLE = [
    ("00000000000000000000.snapshot", b"\0\1", "expected 10 bytes or more, found 2"),
    ("00000000000000000000.snapshot", forge.snapshot(version=2), "expected version 1, found 2"),
    ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "expected 2 entries, found 1"),
    ("leader-epoch-checkpoint", b"0\n1\nx 0\n", "checkpoint line 3: expected a number"),
    ("recovery-point-offset-checkpoint", b"1\n0\n", "expected version 0, found 1"),
    ("replication-offset-checkpoint", b"\xff\xfe", "expected UTF-8, found byte 0xff"),
    ("partition.metadata", b"version: 0", "partition.metadata line 2"),
    ("meta.properties", rb"a=\u12", "expected four hexadecimal digits"),
    ("quorum-state", b"{}", "expected an integer in data_version, found nothing"),
    (".kafka_cleanshutdown", b"\0\0", "expected JSON"),
]


@pytest.mark.parametrize(("name", "data", "reason"), UNREADABLE)
def test_what_cannot_be_read_is_shown_with_its_bytes(
    name: str, data: bytes, reason: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path, name, data)
    code, lines = run_text(capfdbinary, path)
    assert (code, len(lines)) == (4, 2)
    assert lines[0].startswith(f"damage: unreadable position: 0 size: {len(data)} detail: ")
    assert reason in lines[0]
    code, (_, _, damage, _) = run_json(capfdbinary, str(path))
    assert code == 4
    assert damage_of(damage) == ("unreadable", 0, len(data))
    assert reason in damage["detail"]
    assert content(damage) == data
    _, (_, _, forced, _) = run_json(capfdbinary, "--base64", str(path))
    assert b64decode(forced["content_base64"]) == data


def test_the_dump_goes_on_behind_damage(tmp_path: Path, capfdbinary: Capture) -> None:
    torn = write(tmp_path, "00000000000000000000.index", b"\1" * 9)
    sound = write(tmp_path, "leader-epoch-checkpoint", forge.checkpoint([(4, 40)]))
    missing = tmp_path / "quorum-state"
    assert main(["dump", str(torn), str(missing), str(sound)]) == 5
    out, err = capfdbinary.readouterr()
    assert out.endswith(b"epoch: 4 startOffset: 40\n")
    assert b"quorum-state: cannot be read" in err


@pytest.mark.parametrize("name", ["00000000000000000000.index", "meta.properties"])
def test_what_is_no_file_or_too_large_is_not_read(
    name: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path, name, b"")
    os.truncate(path, (64 << 20) + 1)
    assert main(["dump", str(path)]) == 5
    assert b"bytes, found 67108865" in capfdbinary.readouterr().err
    path.unlink()
    os.mkfifo(path)
    assert main(["dump", str(path)]) == 5
    assert b"found a FIFO" in capfdbinary.readouterr().err


# --- characters

NASTY = "\x00\x1b[31m\x7f\x85\xad\u200b\u202e\u2066\ufeff\U000e0001"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("recovery-point-offset-checkpoint", f"0\n1\n{NASTY} 0 1\n".encode()),
        ("recovery-point-offset-checkpoint", f"0\n2\n{NASTY} 0 1\n".encode()),
        ("meta.properties", rf"a\ud800={NASTY}".encode("utf-16-le", "replace")[::2] + b"\x1b"),
        ("meta.properties", rb"a\u202e=\ud800\u001b\u2028"),
        ("quorum-state", QUORUM_0.replace('"C"', json.dumps(NASTY)).encode()),
    ],
)
@pytest.mark.parametrize("args", [[], ["--format", "json"]])
def test_unsafe_characters_never_leave_raw(
    name: str, data: bytes, args: list[str], tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path / "t%s\x1b[31m\u202e-0", name, data)
    main(["dump", *args, str(path)])
    out = capfdbinary.readouterr().out.decode()
    assert "Dumping" in out or '"type":"file"' in out
    assert all(line.isprintable() for line in out.split("\n"))


def test_a_topic_with_a_percent_sign_is_printed_as_it_is(
    tmp_path: Path, capfdbinary: Capture
) -> None:
    path = write(tmp_path / "100%s%%-0", "0.index", forge.offset_index([(1, 2)]))
    _, lines = run_json(capfdbinary, str(path))
    assert (lines[2]["topic"], lines[2]["offset"]) == ("100%s%%", 1)


# --- without loss


def objects(kind: FileKind, data: bytes, base_offset: int) -> list[JsonObject]:
    lines = b"".join(
        line
        for piece in pieces(kind, data, base_offset)
        for line in json_lines(piece, {"topic": "t"}, force_base64=False)
    )
    return [json.loads(line) for line in lines.decode().splitlines()]


def rebuilt(kind: FileKind, lines: list[JsonObject], base_offset: int) -> bytes:
    """The bytes of an index, from the lines of its dump."""
    data = b""
    for line in lines:
        match line["type"]:
            case "index-entry":
                data += struct.pack(">ii", line["offset"] - base_offset, line["position"])
            case "time-index-entry":
                data += struct.pack(">qi", line["timestamp"], line["offset"] - base_offset)
            case "aborted-transaction":
                names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
                data += struct.pack(">hqqqq", line["version"], *(line[name] for name in names))
            case "zero-slots":
                assert line["position"] == len(data)
                data += bytes(line["size"])
            case "damage":
                assert line["position"] == len(data)
                data += content(line)
    return data


@given(
    st.sampled_from([FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX]),
    st.binary(max_size=200) | st.binary(max_size=80).map(lambda data: data + bytes(50)),
    st.sampled_from([0, 7, 2**63 - 1]),
)
def test_no_byte_of_an_index_is_lost(kind: FileKind, data: bytes, base_offset: int) -> None:
    assert rebuilt(kind, objects(kind, data, base_offset), base_offset) == data


@given(
    st.lists(
        st.tuples(
            *(
                st.integers(-(2 ** (8 * n - 1)), 2 ** (8 * n - 1) - 1)
                for n in (8, 2, 4, 8, 4, 8, 4, 8)
            )
        ),
        max_size=5,
    )
)
def test_no_field_of_a_snapshot_is_lost(entries: list[tuple[int, ...]]) -> None:
    lines = objects(FileKind.SNAPSHOT, forge.snapshot(entries), 0)  # type: ignore[arg-type]
    names = [
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "timestamp",
        "coordinator_epoch",
        "current_txn_first_offset",
    ]
    assert [tuple(line[name] for name in names) for line in lines] == entries


@given(st.sampled_from(sorted(KINDS, key=lambda kind: kind.name)), st.binary(max_size=120))
def test_any_bytes_are_shown(kind: FileKind, data: bytes) -> None:
    """Nothing is raised, and damage is said where it is."""
    for piece in pieces(kind, data, 0):
        if isinstance(piece, FileDamage):
            assert 0 <= piece.position <= piece.position + piece.size <= len(data)
            if piece.content is not None:
                assert piece.content == data[piece.position :][: piece.size]


def test_a_long_index_is_printed_entry_by_entry(tmp_path: Path, capfdbinary: Capture) -> None:
    rng = random.Random(4)
    entries = [(rng.randrange(1, 2**31), rng.randrange(2**31)) for _ in range(140_000)]
    path = write(tmp_path, "00000000000000000100.index", forge.offset_index(entries))
    _, lines = run_text(capfdbinary, path)
    assert lines == [f"offset: {100 + offset} position: {at}" for offset, at in entries]
    path = write(tmp_path, "00000000000000000100.timeindex", forge.time_index(entries))
    _, lines = run_text(capfdbinary, path)
    assert lines == [f"timestamp: {stamp} offset: {100 + at}" for stamp, at in entries]
    transactions = [(number, 1, 2, 3) for number in range(70_000)]
    path = write(tmp_path, "00000000000000000100.txnindex", forge.txn_index(transactions) + b"x")
    code, objects_ = run_json(capfdbinary, str(path))
    assert code == 4
    assert [line["producer_id"] for line in objects_[2:-2]] == list(range(70_000))
    assert damage_of(objects_[-2]) == ("remainder", 34 * 70_000, 1)


# --- what real brokers wrote


def entry_count(path: Path) -> int:
    """How many entries a sound file has, counted without kdump."""
    data = path.read_bytes()
    width = {".index": 8, ".timeindex": 12, ".txnindex": 34}.get(path.suffix)
    if width:
        return math.ceil(len(data.rstrip(b"\0")) / width)
    if path.suffix == ".snapshot":
        return (len(data) - 10) // 46
    if path.name.endswith("-checkpoint"):
        return max(0, data.count(b"\n") - 2)
    if path.name == "meta.properties":
        return sum(not line.startswith(b"#") for line in data.splitlines())
    return 1 if data else 0


@pytest.mark.parametrize("name", few_first())
def test_files_of_real_brokers_are_all_sound(
    name: str, grown: Callable[[str], Path], capfdbinary: Capture
) -> None:
    kinds: set[FileKind] = set()
    paths = [
        path
        for path in sorted(grown(name).rglob("*"))
        if path.is_file() and parse_file_name(path.name).kind in KINDS
    ]
    code, lines = run_json(capfdbinary, *map(str, paths))
    assert code == 0
    assert not [line for line in lines if line["type"] == "damage"]
    starts = [number for number, line in enumerate(lines) if line["type"] == "file"]
    assert [lines[start]["path"] for start in starts] == [str(path) for path in paths]
    for path, start, end in zip(paths, starts, [*starts[1:], len(lines) - 1], strict=True):
        entries = [line for line in lines[start + 1 : end] if line["type"] != "zero-slots"]
        assert len(entries) == entry_count(path), path
        kinds.add(parse_file_name(path.name).kind)
    assert len(kinds) >= 3
    assert lines[-1]["entries"] > 30
