"""kdump dump --decode: keys and values of internal topics as messages, in JSON and in text."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.ui import exits
from support import forge
from support.fixtures_loader import copy_fixture

PASSWORD = "planted-secret"


def write(folder: Path, records: Sequence[tuple[bytes | None, bytes | None]]) -> Path:
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(forge.batch(0, [forge.record(value, key) for key, value in records]))
    return path


def lines(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> list[dict[str, Any]]:
    assert main(["dump", "--format", "json", "--decode", *map(str, argv)]) == exits.OK
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in found if line["type"] == "record"]


def text(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    assert main(["dump", *map(str, argv)]) == exits.OK
    return capsys.readouterr().out


def string(content: str) -> bytes:
    return struct.pack(">h", len(content)) + content.encode()


def test_a_commit_has_its_fields_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = b"\0\1" + string("billing") + string("orders") + struct.pack(">i", 7)
    value = struct.pack(">hqi", 3, 4711, 5) + string("note") + struct.pack(">q", 1_700_000_000_000)
    path = write(tmp_path / "__consumer_offsets-3", [(key, value), (key, None)])
    commit, tombstone = lines(capsys, path)
    name = {
        "message": "OffsetCommitKey",
        "type": 1,
        "version": 0,
        "fields": {"group": "billing", "topic": "orders", "partition": 7},
    }
    assert commit["key"] == tombstone["key"] == name
    assert commit["value"] == {
        "message": "OffsetCommitValue",
        "type": 1,
        "version": 3,
        "fields": {
            "offset": 4711,
            "leaderEpoch": 5,
            "metadata": "note",
            "commitTimestamp": 1_700_000_000_000,
        },
    }
    assert tombstone["value"] is None
    shown = text(capsys, "--data", path)
    assert 'key: {"type":"1","data":{"group":"billing","topic":"orders","partition":7}}' in shown
    assert shown.rstrip().endswith(" payload: <DELETE>")
    assert '{"type"' not in text(capsys, "--data", "--raw", path)
    assert text(capsys, "--decode", path) == shown


def test_what_cannot_be_decoded_keeps_its_bytes_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = b"\0\1" + string("g") + string("t") + bytes(4)
    odd = [(b"\0\x63name", b"value"), (key, b"\0\x09value"), (None, b"value"), (key + b"!", b"v")]
    path = write(tmp_path / "__consumer_offsets-0", odd)
    reasons = [line.get("undecoded") for line in lines(capsys, path)]
    assert reasons == [
        "key: expected a known type, found 99",
        "OffsetCommitValue has version 9, expected 0 to 4",
        "expected a key, found null",
        "OffsetCommitKey at byte 10: expected the end, found 1 bytes more",
    ]
    first, second, *_ = lines(capsys, path)
    assert (first["key"], first["value"]) == ("\0cname", "value")
    assert second["value"] == "\0\tvalue"
    shown = text(capsys, "--decode", path)
    assert " key: Unknown record type 99 at offset 0, skipping.\n" in shown
    assert " key: Error at offset 2, skipping. expected a key, found null\n" in shown


def test_layouts_of_older_releases_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feature = b"\1\x0c\0" + forge.uvarint(9) + b"metadata" + struct.pack(">hh", 1, 2) + b"\0"
    path = write(tmp_path / "__cluster_metadata-0", [(None, feature)])
    (line,) = lines(capsys, path)
    assert line["key"] is None
    assert line["value"] == {
        "message": "FeatureLevelRecord",
        "type": 12,
        "version": 0,
        "layout_of": "3.0-3.2",
        "fields": {"name": "metadata", "minFeatureLevel": 1, "maxFeatureLevel": 2},
    }


def test_numbers_of_enumerations_have_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_fixture("4.3.1/clean", tmp_path / "logs")
    found = lines(capsys, *sorted((tmp_path / "logs").glob("__transaction_state-*")))
    states = {
        (line["value"]["fields"]["transactionStatus"], line["value"]["fields"].get(name))
        for line in found
        if line["value"]
        for name in ["transactionStatus_name"]
    }
    assert {(0, "Empty"), (1, "Ongoing"), (4, "CompleteCommit")} <= states
    assert all(name is not None for _, name in states)
    found = lines(capsys, tmp_path / "logs/__cluster_metadata-0")
    settings = [line for line in found if (line["value"] or {}).get("message") == "ConfigRecord"]
    assert {line["value"]["fields"]["resourceType_name"] for line in settings} >= {"TOPIC"}


def test_control_records_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_fixture("4.3.1/clean", tmp_path / "logs")
    found = lines(capsys, tmp_path / "logs/transactions-0", tmp_path / "logs/__cluster_metadata-0")
    keys = [line.get("key") for line in found]
    named = {key["control"] for key in keys if isinstance(key, dict)}
    assert {"COMMIT", "ABORT", "LEADER_CHANGE"} <= named
    marker = next(line for line in found if "COMMIT" in str(line.get("key")))
    assert marker["key"] == {"control": "COMMIT", "type": 1}
    assert marker["value"] == {"version": 0, "fields": {"coordinatorEpoch": 0}}


def metadata_record(type_id: int, *parts: bytes) -> tuple[None, bytes]:
    return None, bytes([1, type_id, 0]) + b"".join(parts) + b"\0"


def compact(content: bytes) -> bytes:
    return forge.uvarint(len(content) + 1) + content


def test_secrets_of_metadata_are_in_no_decoded_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = PASSWORD.encode()
    scram = metadata_record(
        11, compact(b"alice"), b"\1", *[compact(secret)] * 3, struct.pack(">i", 4096)
    )
    configs = [
        metadata_record(4, b"\4", compact(b"1"), compact(name), compact(secret))
        for name in (
            b"ssl.keystore.password",
            b"listener.name.internal.scram-sha-256.sasl.jaas.config",
            b"ssl.keystore.key",
            b"delegation.token.secret.key",
        )
    ]
    plain = metadata_record(4, b"\2", compact(b"orders"), compact(b"retention.ms"), compact(b"77"))
    path = write(tmp_path / "__cluster_metadata-0", [scram, *configs, plain])
    shown = [text(capsys, "--data", path), str(lines(capsys, path))]
    for output in shown:
        assert PASSWORD not in output
        assert "cGxhbnRlZC1zZWNyZXQ" not in output  # in base64
        assert output.count("redacted") == 7
        assert "retention.ms" in output
        assert "alice" in output
    assert "77" in shown[0]
    assert PASSWORD in text(capsys, "--data", "--raw", path)


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", f"{5:020}-{1:010}.checkpoint"])
def test_snapshots_of_kraft_are_decoded_wherever_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    value = b"\1\x0c\0" + b"\x11metadata.version" + b"\0\x1e\0"
    path = tmp_path / name
    path.write_bytes(forge.batch(1, [forge.record(value)]))
    (record,) = lines(capsys, path)
    assert (record["topic"], record["partition"]) == ("__cluster_metadata", None)
    assert record["value"] == {
        "message": "FeatureLevelRecord",
        "type": 12,
        "version": 0,
        "fields": {"name": "metadata.version", "featureLevel": 30},
    }
    shown = 'payload: {"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"metadata.version"'
    assert shown in text(capsys, "--data", path)
    assert shown not in text(capsys, "--data", "--raw", path)


def test_the_user_may_name_the_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = b"\0\1" + string("billing") + string("orders") + struct.pack(">i", 7)
    path = write(tmp_path / "taken from a broker", [(key, None)])
    named = ["--topic-name", "__consumer_offsets"]
    decoded = 'key: {"type":"1","data":{"group":"billing"'
    for argv in (named, [*named, "--data"], [*named, "--decode"]):
        assert decoded in text(capsys, *argv, path)
    assert decoded not in text(capsys, *named, "--raw", "--data", path)
    (record,) = lines(capsys, *named, path)
    assert record["key"]["message"] == "OffsetCommitKey"
    assert record["topic"] == "__consumer_offsets"
    # The name of the directory may be that of a partition, by chance.
    assert decoded in text(capsys, *named, path.parent.rename(tmp_path / "broker-1"))


def test_a_topic_that_is_not_internal_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "copy", [(None, b"value")])
    assert main(["dump", "--topic-name", "orders", str(path)]) == exits.USAGE
    assert "__cluster_metadata, " in " ".join(capsys.readouterr().err.split())


def test_a_dump_that_cannot_decode_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(*argv: str | Path) -> str:
        assert main(["dump", *map(str, argv)]) == exits.OK
        return capsys.readouterr().err

    orders, copy, internal = (
        write(tmp_path / name, [(None, b"value")])
        for name in ("orders-0", "copy", "__consumer_offsets-3")
    )
    for paths, folder in (([copy], copy), ([orders], orders), ([copy, internal], copy)):
        assert complaint("--decode", *paths) == (
            f"kdump: not decoded: {folder.parent}: expected the name of an internal topic and a "
            "partition; --topic-name TOPIC names the topic\n"
        )
    assert "copy and 1 more: expected" in complaint("--decode", copy, orders)
    assert complaint("--decode", orders, internal) == ""
    assert complaint("--data", copy) == complaint("--raw", copy) == ""
    assert complaint("--topic-name", "__consumer_offsets", copy) == ""
