"""What is read out of a broker's log: single lines, traces, whole logs of real brokers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.explain.broker_messages import LINES, Row
from kdump.audit.codes import CODES
from kdump.audit.finding_code import FindingCode
from kdump.cli.main import main
from kdump.commands.explain.broker_log.entries import LINE_BYTES, read_entries
from kdump.commands.explain.broker_log.message import Subject
from kdump.commands.explain.broker_log.report import GROUPS, LogReport, group_entries
from kdump.commands.explain.broker_log.table import MESSAGES, messages_of, recognize
from kdump.commands.explain.text import json_lines, text_lines

LOGS = Path(__file__).parent / "broker_logs"


@pytest.mark.parametrize("row", LINES, ids=lambda row: row[0][:60])
def test_a_line_that_brokers_log_is_explained(row: Row) -> None:
    line, about, code, path, partition, offset = row
    logged = f"[2026-11-24 09:31:01,681] WARN {line} (kafka.log.LogManager)\n".encode()
    (entry,) = read_entries([logged])
    found = recognize(entry.text)
    assert found is not None
    assert found.message.kind.value == about
    assert (found.codes[0].name if found.codes else None) == code
    assert (found.location.path, found.location.partition, found.location.offset) == (
        path,
        partition,
        offset,
    )


@pytest.mark.parametrize("code", CODES.values(), ids=lambda code: code.name)
def test_the_messages_of_a_code_lead_to_it(code: FindingCode) -> None:
    for message in messages_of(code):
        found = recognize(message.replace("{}", "7"))
        assert found is not None, message
        assert code in found.message.codes, message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.pattern[:60])
def test_every_row_is_reached_and_says_what_to_do(message: object) -> None:
    row = message
    assert row.happened.endswith(".")  # type: ignore[attr-defined]
    assert row.advice.endswith(".")  # type: ignore[attr-defined]
    text = row.pattern  # type: ignore[attr-defined]
    for name, value in (
        ("path", "/d/t-0"),
        ("dir", "/d"),
        ("entry", "/d/x"),
        ("second", "/e/t-0"),
        ("moved", "/d/t-0.0123456789abcdef0123456789abcdef-delete"),
        ("drive", "C:\\"),
        ("topic", "t"),
        ("number", "0"),
        ("partition", "t-0"),
        ("offset", "7"),
        ("position", "9"),
        ("value", "3"),
    ):
        text = text.replace(f"{{{name}}}", value)
    assert row.match(text.replace("{}", "x") + " ") is not None  # type: ignore[attr-defined]


@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
def test_logs_of_real_brokers_on_damaged_directories_are_known(version: str) -> None:
    with (LOGS / f"{version}.log").open("rb") as log:
        report = group_entries(read_entries(log))
    assert [group.first.message for group in report.unknown] == []
    names = {code.name for group in report.groups if group.known for code in group.known.codes}
    assert names >= {
        "checkpoint-malformed", "epochs-malformed", "file-name-refused", "foreign-directory",
        "high-watermark-number", "index-missing", "index-orphan", "log-start-beyond-end",
        "meta-properties-mismatch", "meta-properties-unreadable", "metadata-snapshot-damaged",
        "partition-metadata-fatal", "partition-metadata-malformed", "partition-stray",
        "partition-twice", "bootstrap-malformed", "node-id-mismatch", "quorum-state-malformed",
        "checkpoint-number", "epochs-order",
    }  # fmt: skip
    assert report.entries >= 30


@pytest.mark.parametrize(
    ("cause", "about", "happened"),
    [
        ("denied", Subject.DISK, "The broker's user may not read or write this file."),
        ("full", Subject.DISK, "The file system is full."),
        ("locked", Subject.ELSEWHERE, "Another process holds the lock of this log directory"),
    ],
)
def test_the_cause_of_a_start_that_failed_is_named(
    cause: str, about: Subject, happened: str
) -> None:
    with (LOGS / f"4.3.1-{cause}.log").open("rb") as log:
        report = group_entries(read_entries(log))
    assert report.unknown == []
    found = [group for group in report.groups if group.known and group.known.message.kind is about]
    assert any(group.known and group.known.message.happened.startswith(happened) for group in found)
    errors = [group for group in report.groups if group.first.level == "ERROR" and group.known]
    lines = {group.first.line for group in found}
    for group in errors:
        assert group.known is not None
        assert group in found or group.follows in lines, group.first.message


def test_files_that_were_denied_are_named() -> None:
    with (LOGS / "4.3.1-denied.log").open("rb") as log:
        report = group_entries(read_entries(log))
    paths = [group.location.path for group in report.groups if group.known and group.known.codes]
    assert paths == [
        "/var/lib/kafka/two/two/.lock",
        "/var/lib/kafka/two/two/.kafka_cleanshutdown",
        "/var/lib/kafka/noright/__cluster_metadata-0/00000000000000000000.log",
    ]


def test_a_page_that_a_full_disk_cannot_give_is_about_the_disk() -> None:
    with (LOGS / "4.3.1-full.log").open("rb") as log:
        *_, last = group_entries(read_entries(log)).groups
    assert last.known is not None
    assert last.known.message.happened.startswith("The broker could not read or write a page")
    assert last.count == 2


def test_the_command_for_a_file_of_a_log_directory_takes_the_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "ERROR Error while loading log dir /d (x.Y)\njava.nio.file.AccessDeniedException: "
    for name in (".kafka_cleanshutdown", "meta.properties", "recovery-point-offset-checkpoint"):
        assert main(["explain", f"{line}/d/{name}"]) == 0
        assert "next      kdump verify /d\n" in capsys.readouterr().out


def test_a_consequence_names_the_line_that_it_follows_from() -> None:
    lines = (
        b"[2026-11-24 09:31:00,000] ERROR Error while reading checkpoint file /d/a (x.Y)\n",
        b"java.io.IOException: Malformed line in checkpoint file [/d/a]: x\n",
        b"\tat a.B.c(B.java:1)\n",
        b"[2026-11-24 09:31:01,000] WARN New epoch entry e caused truncation of conflicting "
        b"entries f. (x.Y)\n",
        b"[2026-11-24 09:31:02,000] WARN Stopping serving logs in dir /d (kafka.log.LogManager)\n",
    )
    report = group_entries(read_entries(lines))
    assert [(group.first.line, group.follows) for group in report.groups] == [
        (1, None), (4, None), (5, 1),
    ]  # fmt: skip


def test_containers_and_other_layouts_are_read() -> None:
    for prefix in (
        b"[2026-11-24 09:31:00,000] ERROR ",
        b"broker-1  | [2026-11-24 09:31:00,000] ERROR ",
        b"Nov 24 09:31:00 host kafka[12]: [2026-11-24 09:31:00,000] ERROR ",
        b"2026-11-24T09:31:00.000Z ERROR ",
        b"2026-11-24 09:31:00,000 [main] ERROR ",
        b"ERROR ",
    ):
        (entry,) = read_entries([prefix + b"Partition t-0 marked as failed (a.B)\n"])
        assert (entry.level, entry.message) == ("ERROR", "Partition t-0 marked as failed"), prefix


def test_the_partition_of_a_prefix_is_read() -> None:
    found = recognize(
        "[Partition t-0 broker=1] Skipping creation of log because there are "
        "potentially offline log directories and log may already exist there."
    )
    assert found is not None
    assert found.location.partition == "t-0"


def test_lines_below_info_and_of_ordinary_running_are_passed_over() -> None:
    lines = (
        b"[2026-11-24 09:31:00,000] INFO Rolled new log segment at offset 9 (x.Y)\n",
        b"\tbelow it\n",
        b"[2026-11-24 09:31:00,000] DEBUG No space left on device (x.Y)\n",
    )
    assert list(read_entries(lines)) == []


def endless(count: int) -> Iterator[bytes]:
    for number in range(count):
        name = "".join(chr(ord("a") + int(digit)) for digit in str(number)).encode()
        yield b"[2026-11-24 09:31:00,000] WARN Unheard of in %s (x.Y)\n" % name


def test_a_long_log_holds_a_bounded_number_of_groups() -> None:
    report = group_entries(read_entries(endless(5_000)))
    assert len(report.groups) == GROUPS
    assert report.entries == 5_000
    assert report.unlisted > 0


def test_a_line_without_an_end_is_cut_off() -> None:
    pieces = itertools.chain(
        [b"[2026-11-24 09:31:00,000] ERROR " + b"x" * (LINE_BYTES - 32)],
        itertools.repeat(b"x" * LINE_BYTES, 100),
    )
    (entry,) = read_entries(pieces)
    assert len(entry.text) < 4 * LINE_BYTES


def test_json_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(
        b"[2026-11-24 09:31:00,000] WARN Found invalid messages in log segment "
        b"/d/t-0/00000000000000000100.log at byte offset 91. (x.Y)\n"
        b"org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt "
        b"(stored crc = 1, computed crc = 2)\n"
    )
    assert main(["explain", "--format", "json", str(log)]) == 0
    header, message, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (header["type"], header["paths"]) == ("header", [str(log)])
    assert message["codes"] == ["batch-crc-mismatch"]
    assert (message["partition"], message["position"]) == ("t-0", 91)
    assert message["remedy"] == ["kdump", "verify", "/d/t-0"]
    assert (summary["type"], summary["exit"], summary["disk"]) == ("summary", 0, 1)


def test_every_kind_is_in_the_summary() -> None:
    assert {kind.value for kind in Subject} == {"disk", "consequence", "note", "elsewhere"}


AT_0 = "/v/data-0/log0/t-1/00000000000000000000.log"


@pytest.mark.parametrize(
    ("line", "path", "partition"),
    [
        ("Error while loading log dir /v/data-0/kafka-log2", "/v/data-0/kafka-log2", None),
        ("Stopping serving logs in dir /v/data-0", "/v/data-0", None),
        ("because they are in the failed log directory /v/k.d/log0.", "/v/k.d/log0", None),
        ("Malformed line in checkpoint file (/v/d-1/x-checkpoint): x", "/v/d-1/x-checkpoint", None),
        (f"Could not read file {AT_0}.", AT_0, "t-1"),
        ("Found directory /d/data, 'data' is not in the form of topic-partition", "/d/data", None),
        ("Error processing append operation on partition [t,3]", None, "t-3"),
    ],
)  # fmt: skip
def test_the_place_is_what_the_line_names(
    line: str, path: str | None, partition: str | None
) -> None:
    found = recognize(f"{line} (kafka.log.LogManager)")
    assert found is not None
    assert (found.location.path, found.location.partition) == (path, partition)


def answers(capsys: pytest.CaptureFixture[str], text: str) -> list[dict[str, object]]:
    main(["explain", "--format", "json", text])
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    return [row for row in rows if row["type"] == "message"]


@pytest.mark.parametrize(
    ("logged", "remedy"),
    [
        ("Found directory /d/lost, 'lost' is not in the form of topic-partition", "next-start /d"),
        ("Duplicate log directories found: /a/t-0, /b/t-0!", "next-start /a /b"),
        (
            "Error while appending records to t-0 in dir /d\njava.io.IOException: No space left on "
            "device",
            "space /d",
        ),
        ("Error while loading log dir /v/data-0/log2.d", "verify /v/data-0/log2.d"),
    ],
)  # fmt: skip
def test_the_command_fits_the_cause(
    logged: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = answers(capsys, f"[2026-11-24 09:31:00,000] ERROR {logged}")
    assert row["remedy"] == ["kdump", *remedy.split()]


CRC = "Record is corrupt (stored crc = 1, computed crc = 2)"
EXCEPTION = "org.apache.kafka.common.errors.CorruptRecordException"
LOADING = "Error while loading log dir /d/data-0/log0"


TRACE = f"{EXCEPTION}: {CRC}\n\tat a.B.c(B.java:1)\n"
AT_ERROR = {"level": "ERROR", "message": LOADING}
NAMED = {"exception_class": EXCEPTION, "exception_message": CRC}
ECS = {"error.type": EXCEPTION, "error.message": CRC}


@pytest.mark.parametrize(
    "fields",
    [
        AT_ERROR | {"exception": NAMED},
        {"exception": {"class": EXCEPTION, "message": CRC}} | AT_ERROR,
        AT_ERROR | {"thrown": {"name": "a.B", "cause": {"name": EXCEPTION, "message": CRC}}},
        {"log.level": "ERROR", "message": LOADING} | ECS,
        {
            "log": {"level": "error"},
            "message": LOADING,
            "error": {"type": EXCEPTION, "message": CRC},
        },
        AT_ERROR | {"stack_trace": TRACE},
        {
            "severity": "ERROR",
            "msg": LOADING,
            "exception.stacktrace": f"a.B: x\nCaused by: {TRACE}",
        },
        {"log": f"[2026-11-24 09:31:00,000] ERROR {LOADING} (a.B)\n{TRACE}", "stream": "stdout"},
    ],
    ids=str,
)
def test_the_cause_in_a_line_of_json_is_read(
    fields: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    for prefix in ("", "kafka-1  | "):
        (row,) = answers(capsys, prefix + json.dumps(fields) + "\n")
        assert row["codes"] == ["batch-crc-mismatch", "metadata-snapshot-damaged"]
        assert (row["level"], row["path"], row["partition"]) == ("ERROR", "/d/data-0/log0", None)
        assert str(row["message"]).startswith(LOADING)


def test_lines_of_json_that_are_cut_off_or_hostile_are_read() -> None:
    cut = json.dumps({"level": "ERROR", "message": f"{LOADING}: {CRC}", "stack_trace": "x" * 99})
    hostile = '{"message": ' + '{"a": ' * 5_000
    deep = json.dumps({"level": "WARN", "message": "m", "thrown": {}})
    for _ in range(90):
        deep = deep.replace('"thrown": {}', '"thrown": {"name": "a.B", "thrown": {}}')
    lines = [
        cut[:-20],
        hostile,
        deep,
        '{"message": 7}',
        "{",
        "[]",
        '{"level": "INFO", "message": "m"}',
    ]
    entries = list(read_entries(f"{line}\n".encode() for line in lines))
    assert entries[0].text.startswith(f"{LOADING}: {CRC}")
    assert len(entries) < 10


def test_frames_without_an_indent_belong_to_the_line_above() -> None:
    lines = (
        b"Error while appending records to t-0 in dir /d (x.Y)\n",
        b"java.io.IOException: Map failed\n",
        b"at java.base/sun.nio.ch.FileChannelImpl.map(FileChannelImpl.java:1016)\n",
        b"... 12 more\n",
    )
    (entry,) = read_entries(lines)
    assert entry.text.splitlines() == [
        "Error while appending records to t-0 in dir /d (x.Y)",
        "java.io.IOException: Map failed",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Corruption of an unheard kind in t-0", "offsets of t-0 are out of range", "bad CRC of x",
        "Truncation of t-0", "the checksum differs", "a batch of t-0 is odd", "an unheard magic",
        "an odd record", "the epoch of t-0 fell", "High watermark of t-0 regressed from 9 to 7",
        "could not decompress t-0", "could not decode t-0", "an underflow in t-0",
        "a KafkaStorageException",
    ],
)  # fmt: skip
def test_nothing_about_damage_or_offsets_is_said_not_to_concern_disks(line: str) -> None:
    (group,) = group_entries(read_entries([f"WARN {line} (a.B)\n".encode()])).groups
    assert group.known is None
    assert group.disks


def test_a_message_that_was_wrapped_is_read_as_one_line() -> None:
    lines = (
        b"WARN Found invalid messages in log segment\n",
        b"  /d/t-0/00000000000000000000.log at byte offset\n",
        b"  4711: Record is corrupt.\n",
        b"\torg.apache.kafka.common.errors.CorruptRecordException: x\n",
        b"\tat a.B.c(D.java:1)\n",
    )
    (entry,) = read_entries(lines)
    assert entry.text.splitlines() == [
        "Found invalid messages in log segment /d/t-0/00000000000000000000.log at byte offset "
        "4711: Record is corrupt.",
        "org.apache.kafka.common.errors.CorruptRecordException: x",
    ]


def explained(line: str) -> LogReport:
    return group_entries(read_entries([line.encode()]))


@pytest.mark.parametrize(
    ("line", "path", "command"),
    [
        (
            "Error while reading checkpoint file /my data/logs/replication-offset-checkpoint",
            "/my data/logs/replication-offset-checkpoint",
            ["verify", "/my data/logs"],
        ),
        ("Error while loading log dir /my data (kafka.log.X)", "/my data", ["verify", "/my data"]),
        (
            "Error while loading log dir /d/logs java.io.IOException: No space",
            "/d/logs",
            ["verify", "/d/logs"],
        ),
        (
            "Error while appending records to t-0 in dir /my data/logs (kafka.log.X)",
            "/my data/logs",
            ["verify", "/my data/logs"],
        ),
        ("Error while loading log dir /my big data/logs: x", "/my", None),
        ("Duplicate log directories found: /d 1/t-0, /d 2/t-0! x", "/d 1/t-0", None),
        ("Error at /my data/t-0/00000000000000000042.log: Record is corrupt (stored", None, None),
    ],
)
def test_a_path_with_a_space_is_whole_or_gives_no_command(
    line: str, path: str | None, command: list[str] | None
) -> None:
    rows = list(map(json.loads, json_lines(explained(f"ERROR {line}"), None)))
    assert rows[1]["path"] == path
    assert rows[1]["remedy"] == (["kdump", *command] if command else None)


@pytest.mark.parametrize(
    "line",
    [
        "Shutdown broker because all log dirs in {} have failed (kafka.log.LogManager)",
        "Shutdown broker because none of the specified log dirs from {} can be created or",
        "No log directories available. Tried {} (kafka.log.LogManager)",
        "Can not create log for t-0 because log directories {} are offline",
        "Failed to delete log for t-0 because it may be in one of the offline directories {}",
    ],
)
@pytest.mark.parametrize("between", [", ", ","])
def test_a_list_of_log_directories_is_no_path(line: str, between: str) -> None:
    (group,) = explained(f"FATAL {line.format(between.join(('/d-1/a', '/d-2/b')))}").groups
    assert group.location.path == "/d-1/a"
    assert group.location.directories == ("/d-1/a", "/d-2/b")
    assert "  where     /d-1/a, /d-2/b" in "\n".join(text_lines(LogReport([group], 1)))


@pytest.mark.parametrize("turns", [1, -1])
def test_a_line_is_not_taken_for_one_with_other_numbers(turns: int) -> None:
    lines = {
        "x: Invalid value 7 for configuration segment.bytes: Value must be at least 1048576": True,
        "x: Invalid value 7 for configuration segment.bytes: Value must be at least 7": False,
        "StringIndexOutOfBoundsException: begin 0, end 9, length 3 (x.Y4)": False,
        "java.lang.StringIndexOutOfBoundsException: begin 0, end 20, length 3 (x.Y4)": True,
        "java.lang.StringIndexOutOfBoundsException: begin 0, end 9, length 3 (x.Y4)": False,
    }
    for line, known in list(lines.items())[::turns]:
        assert (recognize(line) is not None) == known, line


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('{"level":"INFO","message":"started"}', 0),
        ('{"severity" : "Debug","message":"started"}', 0),
        ('{"level":"INFO","message":"[Log partition=t-0, dir=/d] Truncating to offset 7"}', 1),
        ('{"log":{"level":"ERROR"},"level_name":"INFO","message":"x"}', 1),
        ('{"level":"ERROR","message":"x","thread":"\\"level\\":\\"INFO\\""}', 1),
        ('{"level":"WARN","message":"x"}', 1),
    ],
)
def test_structured_lines_of_ordinary_running_are_passed_over(line: str, count: int) -> None:
    assert len(list(read_entries([line.encode()]))) == count


@pytest.mark.parametrize("key", ["message", "log"])
def test_half_a_character_in_a_line_of_json_is_read_as_another(key: str) -> None:
    line = rf'{{"level": "ERROR", "{key}": "Record is corrupt \ud800 here"}}'.encode()
    (entry,) = read_entries([line])
    assert entry.message.startswith("Record is corrupt ? here")
