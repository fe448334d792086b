"""``kdump groups`` on forged logs: what counts, where offsets lie, and what is said of damage."""

from __future__ import annotations

import json
import shutil
import struct
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.cli.main import main
from kdump.commands.groups.group import partition_of
from kdump.ui import exits
from support import forge
from support.fixtures_loader import ROOT, copy_fixture
from support.forge import TIMESTAMP, TOPIC_ID, batch, flip, marker, record, write_partition
from support.forge_groups import (
    assignment,
    classic,
    commit,
    commit_key,
    consumer,
    current,
    epoch,
    member,
    modern,
    text,
)

META = "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
WEEK_MS = 7 * 24 * 3_600_000


class Top:
    """A log directory with partitions of __consumer_offsets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        (path / "meta.properties").write_text(META)

    def offsets(self, batches: Sequence[bytes], partition: int = 0) -> Path:
        return write_partition(self.path, "__consumer_offsets", partition, {0: batches})


@pytest.fixture
def top(tmp_path: Path) -> Top:
    return Top(tmp_path / "data")


def lines(
    capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0
) -> list[dict[str, Any]]:
    assert main(["groups", "--format", "json", *map(str, arguments)]) == code
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert found[0]["type"] == "header"
    assert found[-1]["type"] == "summary"
    assert found[-1]["exit"] == code
    return found


def offsets(
    capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0
) -> dict[tuple[str, str, int], int | None]:
    return {
        (line["group"], line["topic"], line["partition"]): line["offset"]
        for line in lines(capfd, *arguments, code=code)
        if line["type"] == "offset"
    }


def test_the_last_commit_counts_and_a_tombstone_removes_one(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    top.offsets(
        [
            batch(0, [commit("g", "t", 0, 5), commit("g", "t", 1, 6), commit("h", "t", 0, 1)]),
            batch(3, [commit("g", "t", 0, 9)], codec="zstd"),
            batch(4, [commit("h", "t", 0, None)]),
        ]
    )
    assert offsets(capfd, top.path) == {("g", "t", 0): 9, ("g", "t", 1): 6}


def test_offsets_of_transactions_count_from_their_commit_on(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    def sent(offset: int, producer: int, *records: forge.Record) -> bytes:
        return batch(
            offset, records, producer_id=producer, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip

    top.offsets(
        [
            sent(0, 1, commit("g", "t", 0, 1)),
            sent(1, 2, commit("g", "t", 1, 2)),
            marker(2, 1, commit=True),
            marker(3, 2, commit=False),
            sent(4, 3, commit("g", "t", 2, 3)),
            # Later in the log than the offset of the transaction, which ends after it.
            sent(5, 4, commit("g", "t", 0, 40)),
            batch(6, [commit("g", "t", 0, 50)]),
            marker(7, 4, commit=True),
        ]
    )
    found = {
        (line["partition"]): (line["offset"], line["open_transaction"])
        for line in lines(capfd, top.path)
        if line["type"] == "offset"
    }
    assert found == {0: (50, False), 2: (None, True)}


def test_kinds_states_and_members(top: Top, capfd: pytest.CaptureFixture[str]) -> None:
    topic_id = urlsafe_b64decode(f"{TOPIC_ID}==")
    write_partition(top.path, "orders", 0, {0: [batch(0, [record()] * 4)]})
    top.offsets(
        [
            batch(
                0,
                [
                    classic("empty"),
                    classic("connect", [member("w", b"opaque")], protocol_type="connect"),
                    classic("consumers", [member("m", assignment([("orders", [0, 2])]))]),
                    commit("simple", "orders", 0, 4),
                    # Converted from classic to the newer protocol.
                    classic("converted", [member("old", b"")]),
                    classic("converted", None),
                    modern(3, "converted", epoch(5)),
                    modern(6, "converted", epoch(5)),
                    modern(5, "converted", consumer("new", ["orders"]), "new"),
                    modern(8, "converted", current(5, 0, topic_id, [0]), "new"),
                    modern(3, "assigning", epoch(2)),
                    modern(6, "assigning", epoch(1)),
                    modern(5, "assigning", consumer("a"), "a"),
                    modern(3, "reconciling", epoch(2)),
                    modern(6, "reconciling", epoch(2)),
                    modern(5, "reconciling", consumer("b"), "b"),
                    modern(8, "reconciling", current(1, 1, topic_id, [0]), "b"),
                    modern(3, "left", epoch(9)),
                    modern(11, "share", epoch(1, b"\0" * 9)),
                    classic("deleted"),
                    classic("deleted", None),
                ],
            )
        ]
    )
    found = lines(capfd, top.path)
    groups = {line["group"]: line for line in found if line["type"] == "group"}
    assert {name: (line["kind"], line["state"]) for name, line in groups.items()} == {
        "empty": ("classic", "Empty"),
        "connect": ("classic", "Stable"),
        "consumers": ("classic", "Stable"),
        "simple": ("classic", "Empty"),
        "converted": ("consumer", "Stable"),
        "assigning": ("consumer", "Assigning"),
        "reconciling": ("consumer", "Reconciling"),
        "left": ("consumer", "Empty"),
        "share": ("share", "Empty"),
    }
    assert groups["connect"]["members"][0]["assignments"] is None
    rows = {
        (line["group"], line["topic"], line["partition"]): line["member_id"]
        for line in found
        if line["type"] == "offset"
    }
    assert rows == {
        ("consumers", "orders", 0): "m",
        ("consumers", "orders", 2): "m",
        ("converted", "orders", 0): "new",
        ("reconciling", "orders", 0): "b",
        ("simple", "orders", 0): None,
    }


def test_offsets_beside_their_logs(top: Top, capfd: pytest.CaptureFixture[str]) -> None:
    write_partition(top.path, "orders", 0, {0: [batch(0, [record()] * 100)]})
    (top.path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    commits = {"below": 9, "first": 10, "inside": 60, "end": 100, "beyond": 101}
    top.offsets([batch(0, [commit(group, "orders", 0, at) for group, at in commits.items()])])
    found = lines(capfd, top.path, code=4)
    rows = {line["group"]: line for line in found if line["type"] == "offset"}
    assert {name: (row["lag"], row["outside"]) for name, row in rows.items()} == {
        "below": (91, "below start"),
        "first": (90, None),
        "inside": (40, None),
        "end": (0, None),
        "beyond": (-1, "beyond end"),
    }
    assert {(row["log_start_offset"], row["log_end_offset"]) for row in rows.values()} == {
        (10, 100)
    }
    assert main(["groups", str(top.path)]) == 4
    text = capfd.readouterr().out
    assert "offset below start" in text
    assert "offset beyond end" in text
    assert text.endswith(
        "committed offsets, 2 outside of their log, in 1 partition of __consumer_offsets\n"
    )


def test_when_offsets_expire(top: Top, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    consumers = [member("m", assignment([("t", [0])]), ["t"])]
    top.offsets(
        [
            batch(
                0,
                [
                    commit("simple", "t", 0, 1, at_ms=TIMESTAMP + 1),
                    classic("empty", since_ms=TIMESTAMP + 2),
                    commit("empty", "t", 0, 1, at_ms=TIMESTAMP),
                    classic("stable", consumers),
                    commit("stable", "t", 0, 1),
                    commit("stable", "left", 0, 1, at_ms=TIMESTAMP + 3),
                    commit("old", "t", 0, 1, expire_ms=TIMESTAMP + 4),
                    classic("connect", [member("w", b"")], protocol_type="connect"),
                    commit("connect", "t", 0, 1),
                ],
            )
        ]
    )

    def expiry(*arguments: object) -> dict[tuple[str, str], int | None]:
        return {
            (line["group"], line["topic"]): line["expires_ms"] and line["expires_ms"] - TIMESTAMP
            for line in lines(capfd, *arguments, top.path)
            if line["type"] == "offset"
        }

    week = expiry()
    assert week == {
        ("simple", "t"): WEEK_MS + 1,
        ("empty", "t"): WEEK_MS + 2,
        ("stable", "t"): None,
        ("stable", "left"): WEEK_MS + 3,
        ("old", "t"): 4,
        ("connect", "t"): None,
    }
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={top.path}\noffsets.retention.minutes=1\n")
    assert expiry("--config", config)["simple", "t"] == 60_001


def test_a_torn_write_at_the_end_is_cut_as_at_a_start(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    sound = [batch(0, [commit("g", "t", 0, 1)]), batch(1, [commit("g", "t", 0, 2)])]
    top.offsets([*sound, batch(2, [commit("g", "t", 0, 3)])[:-5]])
    assert offsets(capfd, top.path) == {("g", "t", 0): 2}


def test_damage_is_reported_beside_what_is_sound(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    partition = top.offsets(
        [
            batch(0, [commit("g", "t", 0, 1)]),
            flip(batch(1, [commit("g", "t", 1, 2)]), 80),
            batch(2, [commit("g", "t", 2, 3)]),
            batch(3, [record(b"\0\3\1", commit_key("broken", "t", 0))]),
            batch(4, [record(b"\0\0", b"\0\x63")]),  # of a type that is not known
            batch(5, [record(b"\0\0", None)]),
        ]
    )
    found = lines(capfd, top.path, code=4)
    assert {line["partition"] for line in found if line["type"] == "offset"} == {0, 2}
    (about,) = (line for line in found if line["type"] == "partition")
    (fault,) = about["faults"]
    assert (fault["reason"], fault["damaged"]) == ("bad-checksum", True)
    assert [each["offset"] for each in about["undecodable"]] == [3]
    assert main(["groups", str(top.path)]) == 4
    text = capfd.readouterr().out
    assert f"kdump verify {partition}" in text
    assert "A coordinator does not load this partition" in text


def test_of_several_copies_the_newest_is_taken(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tops = [Top(tmp_path / name) for name in ("a", "b", "c")]
    long = [batch(offset, [commit("g", "t", 0, offset)], leader_epoch=3) for offset in range(4)]
    tops[0].offsets(long[:2])
    tops[1].offsets(long)
    tops[2].offsets([batch(offset, [commit("g", "t", 0, 99)]) for offset in range(9)])
    found = lines(capfd, *(top.path for top in tops))
    (about,) = (line for line in found if line["type"] == "partition")
    assert about["path"] == str(tops[1].path / "__consumer_offsets-0")
    assert len(about["passed_over"]) == 2
    assert [line["offset"] for line in found if line["type"] == "offset"] == [3]
    assert main(["groups", *(str(top.path) for top in tops)]) == 0
    assert capfd.readouterr().out.count("is skipped") == 2


def test_csv_has_the_offsets_of_classic_and_consumer_groups(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    records = [commit('a,"b', "t", 0, 7), commit("plain", "t", 11, 8), classic("empty")]
    top.offsets([batch(0, records)])
    assert main(["groups", "--format", "csv", str(top.path)]) == 0
    assert capfd.readouterr().out == '"a,""b",t,0,7\nplain,t,11,8\n'


@pytest.mark.parametrize("name", ["2.8.2/clean", "3.9.1/clean", "4.3.1/killed"])
def test_groups_are_where_their_name_leads(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    partitions = len(list((ROOT / "brokers" / name).glob("__consumer_offsets-*")))
    found = [line for line in lines(capfd, ROOT / "brokers" / name) if line["type"] == "group"]
    assert len(found) >= 3
    assert len({line["partition"] for line in found}) == partitions == 2
    for line in found:
        assert partition_of(line["group"], partitions) == line["partition"]


def test_the_smallest_hash_leads_to_the_first_partition() -> None:
    # Its String.hashCode is the smallest number, which has no absolute value.
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("polygenelubricants1", 50) == 49


def test_a_named_group_reads_only_its_partition(
    top: Top, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home = partition_of("g", 3)
    for number in range(3):
        top.offsets([batch(0, [commit("g", "t", number, number)])], number)
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={top.path}\noffsets.topic.num.partitions=3\n")
    found = lines(capfd, "--config", config, "--group", "g", top.path)
    assert [line["partition"] for line in found if line["type"] == "partition"] == [home]
    assert len(lines(capfd, "--config", config, "--group", "g*", top.path)) == 2 + 3 * 3
    # Without the number of partitions all are read.
    assert len(offsets(capfd, "--group", "g", top.path)) == 3
    assert offsets(capfd, "--group", "other*", top.path) == {}


def test_a_path_that_cannot_be_read_ends_with_5(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", str(tmp_path / "none")]) == 5
    assert "none: cannot be read" in capfd.readouterr().err


class Share:
    """The share group ``share``, and records of ``__share_group_state`` for it."""

    def __init__(self, top: Top) -> None:
        self.top = top
        write_partition(top.path, "orders", 0, {0: [batch(0, [record()] * 10)]})
        self.place = text("share") + urlsafe_b64decode(f"{TOPIC_ID}==")

    def state(
        self, kind: int, partition: int, start: int | None, complete: int | None = None
    ) -> forge.Record:
        key = struct.pack(">h", kind) + self.place + struct.pack(">i", partition)
        if start is None:
            return record(None, key)
        head = struct.pack(">hi", 0, 1) + (struct.pack(">i", 1) if kind == 0 else b"")
        times = struct.pack(">qq", 1, 1) if kind == 0 else b""
        tags = b"\0" if complete is None else b"\1\0\4" + struct.pack(">i", complete)
        return record(head + struct.pack(">iq", 1, start) + times + b"\1" + tags, key)

    def write(self, *batches: bytes, initialized: Sequence[int] = ()) -> None:
        self.top.offsets(
            [
                batch(0, [modern(11, "share", epoch(1, b"\0" * 9))]),
                batch(1, [modern(15, "share", self.initialized(initialized))]),
            ]
        )
        write_partition(self.top.path, "__share_group_state", 0, {0: batches})

    def initialized(self, partitions: Sequence[int]) -> bytes:
        numbers = b"".join(struct.pack(">i", number) for number in partitions)
        topic = (
            urlsafe_b64decode(f"{TOPIC_ID}==")
            + forge.uvarint(7)
            + b"orders"
            + forge.uvarint(len(partitions) + 1)
            + numbers
            + b"\0"
        )
        return b"\1\2" + topic + b"\1\0"


def test_share_groups_have_their_start_offsets(top: Top, capfd: pytest.CaptureFixture[str]) -> None:
    share = Share(top)
    state = share.state
    share.write(
        batch(0, [state(0, 0, 2), state(1, 0, 5), state(1, 0, -1)]),
        batch(3, [state(1, 1, 9), state(0, 1, 4)]),
        batch(5, [state(0, 2, 6), state(0, 2, None), state(0, 3, 7), record(b"", b"\0")]),
    )
    rows = [line for line in lines(capfd, top.path) if line["type"] == "offset"]
    assert [(row["topic"], row["partition"], row["share_start_offset"]) for row in rows] == [
        ("orders", 0, 5),
        ("orders", 1, 4),
        ("orders", 3, 7),
    ]
    # Up to 4.1 a record does not say how many deliveries are complete.
    assert [(row["share_complete"], row["lag"]) for row in rows] == [(None, None)] * 3


def test_the_lag_of_a_share_group_is_that_of_a_broker(
    top: Top, capfd: pytest.CaptureFixture[str]
) -> None:
    """Acknowledged records behind the start do not count; partitions without a start are shown."""
    share = Share(top)
    share.write(
        batch(0, [share.state(0, 0, 2, 0), share.state(1, 0, 3, 1), share.state(1, 0, -1, 4)]),
        batch(3, [share.state(0, 1, -1)]),
        initialized=(0, 1, 7),
    )
    rows = [line for line in lines(capfd, top.path) if line["type"] == "offset"]
    assert [
        (row["partition"], row["share_start_offset"], row["share_complete"], row["lag"])
        for row in rows
    ] == [(0, 3, 4, 3), (1, None, None, None), (7, None, None, None)]


def test_csv_says_what_it_leaves_out(top: Top, capfd: pytest.CaptureFixture[str]) -> None:
    share = Share(top)
    share.write(batch(0, [share.state(0, 0, 2, 0)]), initialized=(0, 1))
    write_partition(
        top.path,
        "__consumer_offsets",
        1,
        {
            0: [
                batch(
                    0, [commit("g", "orders", 0, 3, metadata="note"), commit("g", "orders", 1, 4)]
                )
            ]
        },
    )
    assert main(["groups", "--format", "csv", str(top.path)]) == 0
    told = capfd.readouterr()
    assert told.out == "g,orders,0,3\ng,orders,1,4\n"
    assert told.err == (
        "kdump: share group share with 2 partitions is left out: kafka-consumer-groups.sh does not "
        "take its offsets\n"
        "kdump: the metadata of 1 commit is left out: --format json has it\n"
    )


# --- partitions that should be here


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The log directory of a node that holds both partitions of the topic."""
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def test_an_absent_partition_is_said(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(data / "__consumer_offsets-1")
    found = lines(capfd, data, code=exits.INCOMPLETE)
    (absent,) = (line for line in found if line["type"] == "partition" and line["faults"])
    assert absent["path"] == str(data / "__consumer_offsets-1")
    assert found[-1]["partitions"] == found[-1]["unread"] == 1
    assert main(["groups", str(data)]) == exits.INCOMPLETE
    assert "what it holds is not shown" in capfd.readouterr().out
    assert main(["groups", "--format", "csv", str(data)]) == exits.INCOMPLETE
    assert "what it holds is not shown" in capfd.readouterr().err


@pytest.mark.parametrize("number", [0, 1])
def test_only_the_partition_of_a_group_has_to_be_there(
    number: int, data: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    group = next(name for name in ("classic", "a", "b", "c", "d") if partition_of(name, 2) == 0)
    shutil.rmtree(data / f"__consumer_offsets-{number}")
    code = exits.INCOMPLETE if number == 0 else exits.OK
    lines(capfd, "--group", group, data, code=code)


def test_another_copy_stands_for_an_absent_partition(
    data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    copy = (data / "__consumer_offsets-1").rename(tmp_path / "__consumer_offsets-1")
    assert lines(capfd, data, copy)[-1]["unread"] == 0
    lines(capfd, data / "__consumer_offsets-0")  # a partition alone promises nothing


# --- remote storage


def test_below_remote_storage_an_offset_is_outside(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a checkpointed log start, the first offset that any storage holds is the start."""
    data = copy_fixture("4.3.1/tiered", tmp_path / "data")
    (data / "log-start-offset-checkpoint").unlink()
    found = {
        (line["group"], line["topic"]): line
        for line in lines(capfd, data, code=exits.PROBLEMS)
        if line["type"] == "offset"
    }
    lost, behind = found["lost", "tiered"], found["behind", "tiered"]
    assert (lost["offset"], lost["log_start_offset"], lost["outside"]) == (30, 55, "below start")
    assert behind["outside"] is None and behind["in_remote_storage"]
    assert found["behind", "copied"]["log_start_offset"] is None
