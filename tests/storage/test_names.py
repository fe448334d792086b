from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.storage.names import (
    EXTENSIONS,
    DirectoryName,
    FileKind,
    FileName,
    Suffix,
    format_directory_name,
    format_file_name,
    parse_directory_name,
    parse_file_name,
)

BASE = "00000000000000012345"
OFFSETS = st.integers(0, 2**63 - 1)
SEGMENT_KINDS = st.sampled_from(sorted(EXTENSIONS, key=lambda kind: kind.name))
SUFFIXES: list[Suffix] = ["", ".deleted", ".cleaned", ".swap", ".tmp", ".part"]
TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True).filter(
    lambda topic: topic not in (".", "..")
)


@pytest.mark.parametrize(
    ("name", "kind", "base_offset", "epoch", "suffix"),
    [
        (f"{BASE}.log", FileKind.LOG, 12345, None, ""),
        (f"{BASE}.index", FileKind.INDEX, 12345, None, ""),
        (f"{BASE}.timeindex", FileKind.TIME_INDEX, 12345, None, ""),
        (f"{BASE}.txnindex", FileKind.TXN_INDEX, 12345, None, ""),
        (f"{BASE}.snapshot", FileKind.SNAPSHOT, 12345, None, ""),
        (f"{BASE}.snapshot.deleted", FileKind.SNAPSHOT, 12345, None, ".deleted"),
        (f"{BASE}.log.cleaned", FileKind.LOG, 12345, None, ".cleaned"),
        (f"{BASE}.index.swap", FileKind.INDEX, 12345, None, ".swap"),
        (f"{BASE}-0000000007.checkpoint", FileKind.METADATA_SNAPSHOT, 12345, 7, ""),
        (f"{BASE}-0000000007.checkpoint.deleted", FileKind.METADATA_SNAPSHOT, 12345, 7, ".deleted"),
        (
            f"{BASE}-0000000007-8211236714403422151.checkpoint.part",
            FileKind.METADATA_SNAPSHOT,
            12345,
            7,
            ".part",
        ),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCHS, None, None, ""),
        ("leader-epoch-checkpoint.tmp", FileKind.LEADER_EPOCHS, None, None, ".tmp"),
        ("partition.metadata", FileKind.PARTITION_METADATA, None, None, ""),
        ("quorum-state", FileKind.QUORUM_STATE, None, None, ""),
        ("recovery-point-offset-checkpoint", FileKind.OFFSET_CHECKPOINT, None, None, ""),
        ("replication-offset-checkpoint", FileKind.OFFSET_CHECKPOINT, None, None, ""),
        ("log-start-offset-checkpoint", FileKind.OFFSET_CHECKPOINT, None, None, ""),
        ("cleaner-offset-checkpoint.tmp", FileKind.OFFSET_CHECKPOINT, None, None, ".tmp"),
        ("meta.properties", FileKind.META_PROPERTIES, None, None, ""),
        (".kafka_cleanshutdown", FileKind.CLEAN_MARKER, None, None, ""),
        (".lock", FileKind.LOCK, None, None, ""),
        ("bootstrap.checkpoint", FileKind.BOOTSTRAP_SNAPSHOT, None, None, ""),
        (".kdump", FileKind.KDUMP, None, None, ""),
        (".kdump.0007.log", FileKind.KDUMP, None, None, ""),
        (".kdumped", FileKind.UNKNOWN, None, None, ""),
        ("server.conf", FileKind.UNKNOWN, None, None, ""),
        ("anything.deleted", FileKind.UNKNOWN, None, None, ".deleted"),
        (f"{BASE}.log.swap.deleted", FileKind.UNKNOWN, None, None, ".deleted"),
        (f"{BASE}.kafka", FileKind.UNKNOWN, None, None, ""),
        (f"{BASE}.log.gz", FileKind.UNKNOWN, None, None, ""),
        ("", FileKind.UNKNOWN, None, None, ""),
    ],
)
def test_file_names(
    name: str, kind: FileKind, base_offset: int | None, epoch: int | None, suffix: Suffix
) -> None:
    parsed = parse_file_name(name)
    assert parsed == FileName(name, kind, base_offset, epoch, suffix)
    assert parsed.canonical


@pytest.mark.parametrize(
    ("name", "kind", "base_offset"),
    [
        ("123.log", FileKind.LOG, 123),
        ("123.old.log", FileKind.LOG, 123),
        ("+5.index", FileKind.INDEX, 5),
        ("-00000000000000000005.log", FileKind.LOG, -5),
        ("00000000000000000009\N{ARABIC-INDIC DIGIT ONE}.log", FileKind.LOG, 91),
        ("abc.log", FileKind.LOG, None),
        (".log", FileKind.LOG, None),
        ("1_0.log", FileKind.LOG, None),
        (" 10.log", FileKind.LOG, None),
        ("9223372036854775807.log", FileKind.LOG, 2**63 - 1),
        ("9223372036854775808.log", FileKind.LOG, None),
        ("99999999999999999999.log", FileKind.LOG, None),
        ("1" * 300 + ".log", FileKind.LOG, None),
        ("copy of 5.snapshot", FileKind.SNAPSHOT, None),
        ("foo.checkpoint", FileKind.METADATA_SNAPSHOT, None),
        (f"{BASE}-x.checkpoint", FileKind.METADATA_SNAPSHOT, None),
        (f"{BASE}-9999999999.checkpoint", FileKind.METADATA_SNAPSHOT, None),
        (f"{BASE}-0000000007.checkpoint"[1:], FileKind.METADATA_SNAPSHOT, None),
        ("\udcff\udcfe.log", FileKind.LOG, None),
    ],
)
def test_names_that_a_broker_takes_for_its_own_but_would_not_find_again(
    name: str, kind: FileKind, base_offset: int | None
) -> None:
    parsed = parse_file_name(name)
    assert (parsed.kind, parsed.base_offset) == (kind, base_offset)
    assert not parsed.canonical


def test_a_metadata_snapshot_with_an_odd_separator_is_not_canonical() -> None:
    parsed = parse_file_name(f"{BASE}_0000000007.checkpoint")
    assert (parsed.base_offset, parsed.epoch, parsed.canonical) == (12345, 7, False)


@given(kind=SEGMENT_KINDS, base_offset=OFFSETS, suffix=st.sampled_from(SUFFIXES))
def test_segment_file_names_round_trip(kind: FileKind, base_offset: int, suffix: Suffix) -> None:
    name = format_file_name(kind, base_offset, suffix)
    assert parse_file_name(name) == FileName(name, kind, base_offset, None, suffix)
    assert parse_file_name(name).canonical
    assert re.match(r"\d{20}\.[a-z]+(\.[a-z]+)?$", name)


@given(end_offset=OFFSETS, epoch=st.integers(0, 2**31 - 1))
def test_metadata_snapshot_names(end_offset: int, epoch: int) -> None:
    name = f"{end_offset:020d}-{epoch:010d}.checkpoint"
    parsed = parse_file_name(name)
    assert parsed == FileName(name, FileKind.METADATA_SNAPSHOT, end_offset, epoch)
    assert parsed.canonical


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_no_name_makes_the_parsers_raise(name: str) -> None:
    parsed = parse_file_name(name)
    assert parsed.name == name
    assert parsed.canonical in (True, False)
    directory = parse_directory_name(name)
    assert directory is None or (directory.topic and "-" in name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", DirectoryName("orders", 0)),
        ("my-topic.v2-17", DirectoryName("my-topic.v2", 17)),
        ("__cluster_metadata-0", DirectoryName("__cluster_metadata", 0)),
        ("topic--5", DirectoryName("topic-", 5)),
        ("topic-007", DirectoryName("topic", 7)),
        ("topic-+7", DirectoryName("topic", 7)),
        ("topic-2147483647", DirectoryName("topic", 2147483647)),
        ("not a legal topic-1", DirectoryName("not a legal topic", 1)),
        ("\udcff-1", DirectoryName("\udcff", 1)),
        (
            "a.b-3.0123456789abcdef0123456789abcdef-delete",
            DirectoryName("a.b", 3, "delete", "0123456789abcdef0123456789abcdef"),
        ),
        ("a-3.fedc-stray", DirectoryName("a", 3, "stray", "fedc")),
        ("a-3.fedc-future", DirectoryName("a", 3, "future", "fedc")),
        ("a-3.x-stray-delete", DirectoryName("a", 3, "delete", "x-stray")),
        ("delete-0", DirectoryName("delete", 0)),
    ],
)
def test_directory_names(name: str, expected: DirectoryName) -> None:
    assert parse_directory_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-0",
        "topic-",
        "topic",
        "lost+found",
        ".kdump",
        "topic-x",
        "topic-1x",
        "topic-1_0",
        "topic- 1",
        "topic-2147483648",
        "topic-0-delete",
        "topic-0.-delete",
        ".0-delete",
        "a b-0.cafe-delete",
        "a-0.b.cafe-delete",
        "remote-log-index-cache",
        "topic-0.cafe-deleted",
    ],
)
def test_directory_names_that_a_broker_refuses(name: str) -> None:
    assert parse_directory_name(name) is None


@given(topic=TOPICS, partition=st.integers(0, 2**31 - 1))
def test_directory_names_round_trip(topic: str, partition: int) -> None:
    name = format_directory_name(topic, partition)
    assert parse_directory_name(name) == DirectoryName(topic, partition)
