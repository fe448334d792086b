"""``kdump dump``: real records as a real consumer read them, damage in its place, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support.consumer_records import EXAMPLES, JsonObject, as_consumer, log_start
from support.fixtures_loader import ROOT, few_first
from support.forge import TIMESTAMP, batch, flip, message, record, segment, wrapper

Grown = Callable[[str], Path]


def run_json(capfdbinary: pytest.CaptureFixture[bytes], *args: str) -> tuple[int, list[JsonObject]]:
    code = main(["dump", "--format", "json", *args])
    out, _ = capfdbinary.readouterr()
    return code, [json.loads(line) for line in out.decode().splitlines()]


def segment_file(directory: Path, data: bytes, base: int = 0) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / f"{base:020d}.log"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(("name", "topic_partition", "path"), EXAMPLES)
def test_records_equal_what_a_real_consumer_read(
    name: str,
    topic_partition: str,
    path: Path,
    grown: Grown,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Control records, and offsets below the log start, are not for consumers."""
    code, lines = run_json(capfdbinary, "--records", str(grown(name) / topic_partition))
    records = [line for line in lines if line["type"] == "record"]
    start = log_start(name, topic_partition)
    found = [
        as_consumer(line) for line in records if not line["control"] and line["offset"] >= start
    ]
    assert found == [as_consumer(json.loads(line)) for line in path.read_text().splitlines()]
    topic, _, partition = topic_partition.rpartition("-")
    assert {(line["topic"], line["partition"]) for line in records} <= {(topic, int(partition))}
    preallocated = (name.partition("/")[2], topic) == ("killed", "preallocated")
    assert code == (4 if preallocated else 0)
    assert [line["reason"] for line in lines if line["type"] == "damage"] == (
        ["preallocated"] if preallocated else []
    )


@pytest.mark.parametrize("name", few_first())
def test_plain_json_says_the_same_as_base64(
    name: str, grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    _, plain = run_json(capfdbinary, "--records", str(grown(name)))
    _, forced = run_json(capfdbinary, "--records", "--base64", str(grown(name)))
    pairs = [(one, two) for one, two in zip(plain, forced, strict=True) if one["type"] == "record"]
    assert len(pairs) > 500
    assert any("value_base64" in one for one, _ in pairs)
    assert any(one.get("value") for one, _ in pairs)
    assert not any(two.get("value") or two.get("key") for _, two in pairs)
    for one, two in pairs:
        assert as_consumer(one) == as_consumer(two)


@pytest.mark.parametrize("name", few_first())
def test_json_covers_every_byte(
    name: str, grown: Grown, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The summary counts what was printed, and batches and damage add up to the files."""
    code, lines = run_json(capfdbinary, str(grown(name)))
    assert (lines[0]["type"], lines[0]["schema"], lines[0]["command"]) == ("header", 1, "dump")
    summary = lines[-1]
    batches = [line for line in lines if line["type"] == "batch"]
    damages = [line for line in lines if line["type"] == "damage"]
    files = [*grown(name).glob("*-*/*.log"), *grown(name).glob("*-*/*.checkpoint")]
    assert (summary["type"], summary["exit"]) == ("summary", code)
    assert (summary["files"], summary["batches"]) == (len(files), len(batches))
    assert summary["bytes"] == sum(line["size"] for line in batches + damages)
    assert summary["bytes"] == sum(path.stat().st_size for path in files)
    _, with_records = run_json(capfdbinary, "--records", str(grown(name)))
    records = [line for line in with_records if line["type"] == "record"]
    assert with_records[-1]["records"] == len(records)
    # The header of a wrapper of magic 0 or 1 does not count the messages inside.
    inside = [line for line in records if line["magic"] < 2 and line["codec"] != "none"]
    counts = [line["count"] for line in batches]
    assert len(records) - len(inside) == sum(count for count in counts if count is not None)
    assert len(inside) >= counts.count(None)
    assert bool(inside) == (None in counts)


def test_damage_is_shown_in_its_place_and_the_dump_goes_on(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    parts = [batch(i, [record(b"x" * 20)]) for i in range(3)]
    data = flip(segment(parts), len(parts[0]) + 70) + b"\x01" * 30
    path = segment_file(tmp_path / "orders-3", data)
    code, lines = run_json(capfdbinary, str(path))
    assert code == 4
    assert [line["type"] for line in lines] == [
        "header",
        "file",
        "batch",
        "damage",
        "batch",
        "damage",
        "summary",
    ]
    assert lines[3] | {"stored_crc": 0, "computed_crc": 0} == {
        "type": "damage",
        "topic": "orders",
        "partition": 3,
        "position": len(parts[0]),
        "size": len(parts[1]),
        "reason": "bad-checksum",
        "claimed_bytes": len(parts[1]),
        "stored_crc": 0,
        "computed_crc": 0,
    }
    assert lines[3]["stored_crc"] != lines[3]["computed_crc"]
    assert (lines[5]["reason"], lines[5]["size"]) == ("torn-tail", 30)
    assert (lines[6]["damages"], lines[6]["batches"], lines[6]["exit"]) == (2, 2, 4)

    assert main(["dump", str(path)]) == 4
    text = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.split(" ")[0] for line in text] == [
        "Dumping",
        "Log",
        "baseOffset:",
        "baseOffset:",
        "damage:",
        "baseOffset:",
        "damage:",
        "Found",
    ]
    assert text[3].endswith("isvalid: false")
    assert text[4].startswith(
        f"damage: bad-checksum position: {len(parts[0])} size: {len(parts[1])} "
    )
    assert text[-1] == f"Found 30 invalid bytes at the end of {path.name}"


def test_unreadable_records_are_damage_and_the_next_batch_follows(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    parts = [
        batch(0, [record(b"good"), record(b"cut", length=99)]),
        batch(2, [record(b"behind")]),
    ]
    path = segment_file(tmp_path / "t-0", segment(parts))
    code, lines = run_json(capfdbinary, "--records", str(path))
    assert code == 4
    assert [(line["type"], line.get("offset")) for line in lines[2:-1]] == [
        ("record", 0),
        ("unread", None),
        ("record", 2),
    ]
    assert lines[3]["reason"] == "records-unreadable"
    assert "expected record 2 of 2" in lines[3]["detail"]


def test_json_of_old_messages_has_null_for_what_they_do_not_say(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    data = segment([message(0, b"v", b"k", magic=0), wrapper(2, [message(0)] * 2, codec="gzip")])
    path = segment_file(tmp_path / "t-0", data)
    code, (_, _, alone, wrapped, _) = run_json(capfdbinary, str(path))
    assert code == 0
    said = ("base_offset", "last_offset", "count", "max_timestamp", "timestamp_type", "codec")
    assert [alone[name] for name in said] == [0, 0, 1, None, "NoTimestampType", "none"]
    assert [wrapped[name] for name in said] == [None, 2, None, TIMESTAMP, "CreateTime", "gzip"]
    code, (_, _, *found, summary) = run_json(capfdbinary, "--records", str(path))
    assert code == 0
    assert summary["records"] == 3
    keys = ("offset", "magic", "timestamp", "timestamp_type", "key", "value", "headers")
    assert [found[0][name] for name in keys] == [0, 0, None, "NoTimestampType", "k", "v", []]
    assert [found[1][name] for name in keys[1:4]] == [1, TIMESTAMP, "CreateTime"]


def test_text_of_old_messages_has_their_checksums(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    inner = [message(0, b"value", b"key"), flip(message(1, b"\n"), -1)]
    path = segment_file(tmp_path / "t-0", wrapper(1, inner, codec="lz4"))
    assert main(["dump", "--data", str(path)]) == 4
    *_, first, second, behind = capfdbinary.readouterr().out.decode().splitlines()
    crcs = [int.from_bytes(one[12:16], "big") for one in inner]
    when = f"CreateTime: {TIMESTAMP}"
    assert first == (
        f"| offset: 0 {when} keySize: 3 valueSize: 5 isValid: true crc: {crcs[0]} "
        "key: key payload: value"
    )
    assert second == (
        f"| offset: 1 {when} keySize: -1 valueSize: 1 isValid: false crc: {crcs[1]} payload: \\x0b"
    )
    assert behind == (
        "records-unreadable: expected the messages in the wrapper at position 0 to match their "
        "checksums, found 1 that do not"
    )


def test_a_missing_path_does_not_keep_the_others_from_being_read(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = segment_file(tmp_path / "t-0", batch(0, [record()]))
    code = main(["dump", str(tmp_path / "gone-0"), str(path)])
    out, err = capfdbinary.readouterr()
    assert code == 5
    assert b"baseOffset: 0" in out
    assert b"gone-0" in err


@pytest.mark.parametrize(
    "args",
    [["--format", "json", "--data"], ["--base64"], ["--format", "xml"], []],
)
def test_wrong_usage(args: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["dump", *args, *([str(ROOT)] if args else [])]) == 2
    assert capfdbinary.readouterr().out == b""


def test_a_file_of_another_kind_is_wrong_usage(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / ".lock"
    path.write_bytes(b"")
    assert main(["dump", str(path)]) == 2
    assert b"found a file of another kind (lock)" in capfdbinary.readouterr().err


UNSAFE = ["\x00", "\x1b", "\x7f", "\x85", "\xad", "\u200b", "\u202e", "\u2028", "\u2029", "\ufeff"]


@pytest.mark.parametrize("args", [["--data"], ["--format", "json", "--records"]])
def test_unsafe_characters_never_leave_raw(
    args: list[str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    nasty = "".join(UNSAFE) + "\U000e0001"
    raw = nasty.encode()
    data = batch(0, [record(raw, raw, [(raw, raw)])])
    path = segment_file(tmp_path / "t\x1b[31m\u202e-0", data)
    main(["dump", *args, str(path)])
    out = capfdbinary.readouterr().out.decode()
    assert not set(nasty) & set(out)
    if "json" in args:
        line = json.loads(out.splitlines()[2])
        assert (line["key"], line["value"], line["headers"][0]["key"]) == (nasty, nasty, nasty)
        assert json.loads(out.splitlines()[1])["path"] == str(path)


def test_invalid_utf8_in_text_is_replaced_as_java_does(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    value = b"a\xffb\xed\xa0\x80c\xed\xa0d\xed\xbf"
    path = segment_file(tmp_path / "t-0", batch(0, [record(value, b"\xe2\x82")]))
    main(["dump", "--data", str(path)])
    assert (
        "key: \ufffd payload: a\ufffdb\ufffdc\ufffdd\ufffd\n"
        in capfdbinary.readouterr().out.decode()
    )


@pytest.mark.parametrize(
    ("kafka", "own"),
    [
        (["--print-data-log"], ["--data"]),
        (["--deep-iteration"], ["--records"]),
        (["--deep-iteration", "--print-data-log"], ["--records", "--data"]),
        (["--offsets-decoder"], ["--data", "--topic-name", "__consumer_offsets"]),
        (["--transaction-log-decoder"], ["--data", "--topic-name", "__transaction_state"]),
        (["--cluster-metadata-decoder"], ["--data", "--topic-name", "__cluster_metadata"]),
        (["--remote-log-metadata-decoder"], ["--data", "--topic-name", "__remote_log_metadata"]),
        (["--share-group-state-decoder"], ["--data", "--topic-name", "__share_group_state"]),
    ],
)
def test_the_options_of_kafkas_tool(
    kafka: list[str], own: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A runbook's line works with the name of the command changed."""
    clean = ROOT / "brokers/4.3.1/clean"
    files = [
        str(next((clean / name).glob("*.log")))
        for name in ("codec-none-0", "transactions-0", "__consumer_offsets-0")
    ]
    printed = []
    for words in ([*kafka, "--files", ",".join(files)], [*own, *files]):
        assert main(["dump", *words]) == exits.OK
        printed.append(capfdbinary.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].count(b"\n| offset: ") > 10


def test_files_and_paths_together(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    first, second = sorted((ROOT / "brokers/4.3.1/clean").glob("codec-*-0/*.log"))[:2]
    assert main(["dump", "--files", str(second), str(first)]) == exits.OK
    told = capfdbinary.readouterr().out.decode()
    assert told.index(f"Dumping {first}") < told.index(f"Dumping {second}")
    assert main(["dump", "--deep-iteration"]) == exits.USAGE
    assert b"Missing argument 'PATH...'" in capfdbinary.readouterr().err


def test_what_only_kafkas_tool_has_leads_on(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for option, words in {
        "--index-sanity-check": b"kdump verify checks indexes",
        "--max-bytes": b"--limit ends after",
        "--skip-record-metadata": b"--format json",
    }.items():
        assert main(["dump", option, "file"]) == exits.USAGE
        assert words in capfdbinary.readouterr().err
    assert main(["dump", "--nonsense", "file"]) == exits.USAGE
    assert b"No such option" in capfdbinary.readouterr().err
