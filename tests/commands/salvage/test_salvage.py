"""``kdump salvage``: what it takes, leaves and reports, and that it only reads its source."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import shlex
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kdump.cli.main
from brokers.oracle import Loaded, Oracle
from kdump.audit.finding_code import Severity
from kdump.audit.replay.fates import HIGHEST
from kdump.audit.survey.events import EpochRun
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import assign, open_roots
from kdump.commands.salvage import overlap, stretches
from kdump.commands.salvage.offset_gaps import offset_gaps
from kdump.commands.salvage.receipt import Salvaged
from kdump.commands.salvage.salvage import salvage as rescue
from kdump.commands.salvage.selection import select_pieces
from kdump.commands.salvage.stretches import Stretch
from kdump.errors import SourceError
from kdump.format.batch import read_header
from kdump.format.checkpoint import EpochEntry, decode_epochs
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import decode_snapshot
from kdump.repair.content.companions import merge_epochs
from kdump.repair.newdir.building import build_directory
from kdump.repair.transaction import disk
from kdump.storage.access import open_source
from kdump.storage.logdir import read_partition
from kdump.storage.source import Source
from kdump.storage.walk import Damage, walk
from support import forge, forge_metadata
from support.cases import Case, case
from support.failing import NO_ROOM, Failing
from support.fixtures_loader import FIXTURES, few_first
from support.forge import TOPIC_ID
from support.forge_metadata import segment_name
from support.long_samples import first_of
from support.pipeline import judge
from support.planning import failing_at
from support.recipes_directory import meta_properties
from support.resealing import places

Of = Callable[[str], Oracle]

pytestmark = pytest.mark.usefixtures("unsearched")


class Salvage:
    """Runs ``kdump salvage`` in this process, to ``output``."""

    def __init__(self, capsys: pytest.CaptureFixture[str], output: Path) -> None:
        self.capsys, self.output = capsys, output
        self.said = ""

    def __call__(self, *arguments: str | Path, code: int = 0) -> list[dict[str, Any]]:
        """The receipts of a run that ends with ``code``."""
        command = ["salvage", *map(str, arguments), "--format", "json", "--progress", "none"]
        if "--output" not in command:
            command += ["--output", str(self.output)]
        ended = kdump.cli.main.main(command)
        printed = self.capsys.readouterr()
        self.said = printed.err
        assert ended == code, printed
        if not printed.out:
            return []
        header, *rest, summary = map(json.loads, printed.out.splitlines())
        assert header["type"] == "header"
        assert summary == {"type": "summary", "exit": code, "partitions": len(rest)}
        return rest

    def one(self, partition: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
        """The receipt of one partition, which is also in its folder and has no problems."""
        (receipt,) = self(partition, *arguments, code=code)
        assert receipt["problems"] == 0
        target = Path(receipt["target"])
        stored = json.loads((target / ".kdump" / receipt["id"] / "receipt.json").read_text())
        assert {key: receipt[key] for key in stored if key not in ("source", "next")} == {
            key: stored[key] for key in stored if key not in ("source", "next")
        }
        files = {path.name: path for path in target.iterdir() if path.is_file()}
        assert set(files) == set(receipt["files"])
        for name, file in receipt["files"].items():
            data = files[name].read_bytes()
            assert file == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        return receipt

    def verified(self, target: Path) -> None:
        """Make sure that verify finds nothing above info in ``target``."""
        command = ["verify", "--fail-on", "warning", "--progress", "none", str(target)]
        assert kdump.cli.main.main(command) == 0, self.capsys.readouterr().out
        self.capsys.readouterr()


@pytest.fixture
def salvage(capsys: pytest.CaptureFixture[str], place: Path) -> Salvage:
    return Salvage(capsys, place / "out")


def some(base: int, batches: int, records: int = 3, **fields: Any) -> list[bytes]:
    """Batches of so many records from ``base`` on, each other than the others."""
    return [
        forge.batch(
            base + records * number,
            [forge.record(b"value %d" % (base + records * number + i) * 9) for i in range(records)],
            **fields,
        )
        for number in range(batches)
    ]


def broken(batch: bytes) -> bytes:
    """The batch with a wrong checksum."""
    return forge.flip(batch, -1)


def moved(batch: bytes, offset: int) -> bytes:
    """The batch with another base offset, which its checksum does not cover."""
    return struct.pack(">q", offset) + batch[8:]


def resized(batch: bytes, size: int) -> bytes:
    """The batch with another size in its header."""
    return batch[:8] + struct.pack(">i", size) + batch[12:]


def logs(directory: Path) -> dict[int, bytes]:
    """The bytes of all logs by base offset."""
    return {int(path.stem): path.read_bytes() for path in sorted(directory.glob("*.log"))}


def tree(directory: Path) -> dict[str, tuple[int, int, str]]:
    """The content of a directory: sizes, times and digests of files by name."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.stat()
        data = path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(data).hexdigest()
        found[str(path)] = (status.st_size, status.st_mtime_ns, digest)
    return found


def sound(directory: Path) -> list[bytes]:
    """The sound batches of all logs, in order."""
    found = []
    for path in sorted(directory.glob("*.log")):
        with open_source(path, mapped=False) as source:
            for piece in walk(source, int(path.stem)):
                if not isinstance(piece, Damage):
                    found += [bytes(source.window(b.position, b.size)[: b.size]) for b in piece]
    return found


# --- damage


@pytest.mark.parametrize(
    ("damaged", "missing"),
    [
        ((), []),
        ((0,), [(0, 2)]),
        ((4,), [(12, 14)]),
        ((3, 4), [(9, 14)]),
        ((0, 4, 7), [(0, 2), (12, 14), (21, 23)]),
        ((9,), [(27, None)]),
        (tuple(range(10)), [(0, None)]),
    ],
)
def test_all_but_damaged_batches_are_taken(
    tmp_path: Path, salvage: Salvage, damaged: Sequence[int], missing: list[tuple[int, int | None]]
) -> None:
    batches = some(0, 10)
    spoilt = [broken(b) if number in damaged else b for number, b in enumerate(batches)]
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: spoilt})
    before = tree(origin)
    # After two in a row the next one has to be searched.
    receipt = salvage.one(origin, *(["--hunted"] if 3 in damaged else []))
    target = salvage.output / "orders-7"
    remaining = [b for number, b in enumerate(batches) if number not in damaged]
    assert logs(target) == {0: b"".join(remaining)}
    assert [(hole["first_offset"], hole["last_offset"]) for hole in receipt["holes"]] == missing
    assert receipt["taken"]["batches"] == len(remaining)
    assert receipt["taken"]["records"] == 3 * len(remaining)
    if damaged:
        assert set(receipt["left_sums"]) == {"bad-checksum"}
    salvage.verified(target)
    assert tree(origin) == before


def test_several_segments_keep_their_bases_and_times(tmp_path: Path, salvage: Salvage) -> None:
    segments = {0: some(0, 5), 15: some(15, 5), 30: some(30, 5)}
    spoilt = segments | {15: [*segments[15][:2], broken(segments[15][2]), *segments[15][3:]]}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, spoilt)
    os.utime(origin / f"{15:020d}.log", (1_600_000_000, 1_600_000_000))
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    remaining = {base: b"".join(segment) for base, segment in segments.items()}
    remaining[15] = b"".join([*segments[15][:2], *segments[15][3:]])
    assert logs(target) == remaining
    assert (target / f"{15:020d}.log").stat().st_mtime == 1_600_000_000
    (hole,) = receipt["holes"]
    assert (hole["first_offset"], hole["last_offset"]) == (21, 23)
    assert hole["left"]["reason"] == "bad-checksum"
    assert (receipt["log_start_offset"], receipt["log_end_offset"]) == (0, 45)
    names = {path.name for path in target.iterdir() if path.is_file()}
    stems = [f"{base:020d}" for base in segments]
    assert names == {
        *(f"{stem}.{ending}" for stem in stems for ending in ("log", "index", "timeindex")),
        *(f"{base:020d}.snapshot" for base in (15, 30, 45)),
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    assert (target / "partition.metadata").read_bytes() == forge.partition_metadata()


def test_a_segment_without_a_sound_batch_is_left_out_but_not_the_last(
    tmp_path: Path, salvage: Salvage
) -> None:
    segments = {0: some(0, 2), 6: [b"\xff" * 500], 12: some(12, 2), 18: [b"\xff" * 500]}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, segments)
    receipt = salvage.one(origin)
    assert list(logs(salvage.output / "orders-7")) == [0, 12, 18]
    assert receipt["log_end_offset"] == 18
    assert [(h["first_offset"], h["last_offset"]) for h in receipt["holes"]] == [
        (6, 11),
        (18, None),
    ]


def test_what_was_found_by_hunting_is_taken_on_request(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 8)
    spoilt = [*batches[:3], resized(batches[3], 7), *batches[4:]]
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: spoilt})
    receipt = salvage.one(origin)
    assert logs(salvage.output / "orders-7") == {0: b"".join(batches[:3])}
    assert receipt["left_sums"]["hunted"]["batches"] == 4
    (note,) = (note for note in receipt["notes"] if "--hunted" in note)
    assert note.startswith("batches that a search found after corruption: 4. ")
    assert note.endswith("Those in parts that reach the end of their log are no values: 4")
    salvage.output = tmp_path / "again"
    receipt = salvage.one(origin, "--hunted")
    assert logs(salvage.output / "orders-7") == {0: b"".join([*batches[:3], *batches[4:]])}
    assert "hunted" not in receipt["left_sums"]


# --- offsets


@pytest.mark.parametrize("offset", [5_000, 1_000_000, 0, 2])
def test_one_wrong_base_offset_costs_one_batch(
    tmp_path: Path, salvage: Salvage, offset: int
) -> None:
    segments = {0: some(0, 20), 60: some(60, 20)}
    spoilt = dict(segments)
    spoilt[0] = [*segments[0][:8], moved(segments[0][8], offset), *segments[0][9:]]
    origin = forge.write_partition(tmp_path / "in", "orders", 7, spoilt)
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    remaining = b"".join([*segments[0][:8], *segments[0][9:]])
    assert logs(target) == {0: remaining, 60: b"".join(segments[60])}
    (left,) = receipt["left"]
    assert (left["reason"], left["batches"], left["first_offset"]) == ("backwards", 1, offset)
    (hole,) = receipt["holes"]
    assert (hole["first_offset"], hole["last_offset"]) == (24, 26)


def test_the_last_batch_of_a_log_may_be_the_wrong_one(tmp_path: Path, salvage: Salvage) -> None:
    first, second = some(0, 5), some(15, 5)
    spoilt = {0: [*first[:4], moved(first[4], 9_000)], 15: second}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, spoilt)
    salvage.one(origin)
    assert logs(salvage.output / "orders-7") == {0: b"".join(first[:4]), 15: b"".join(second)}


def test_a_stretch_that_stands_twice_is_taken_once(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 10)
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: [*batches[:7], *batches[4:]], 30: some(30, 1)}
    )
    receipt = salvage.one(origin)
    assert logs(salvage.output / "orders-7")[0] == b"".join(batches)
    assert receipt["holes"] == []
    assert receipt["left_sums"]["backwards"]["batches"] == 3


@pytest.mark.parametrize("damaged", [True, False])
def test_of_segments_that_overlap_each_offset_is_taken_once(
    tmp_path: Path, salvage: Salvage, damaged: bool
) -> None:
    batches = some(0, 20)
    second = list(batches[10:])
    if damaged:
        second[0] = broken(second[0])
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: batches[:15], 30: second, 60: some(60, 2)}
    )
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    assert b"".join(logs(target).values()) == b"".join([*batches, *some(60, 2)])
    assert receipt["holes"] == []
    # A reader of an offset must find it in the last segment that begins at or below it.
    assert list(logs(target)) == ([0, 33, 60] if damaged else [0, 30, 60])
    salvage.verified(target)


def test_a_segment_whose_range_is_taken_gets_another_name(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 20)
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: batches[:18], 30: [batches[17], *batches[18:19]]}
    )
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    assert b"".join(logs(target).values()) == b"".join(batches[:19])
    salvage.verified(target)
    new_logs = {segment["log"]: segment["new_log"] for segment in receipt["segments"]}
    assert new_logs[f"{30:020d}.log"] == f"{51:020d}.log"


def test_batches_out_of_range_and_inverted_ones_are_left(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(100, 6)
    odd = [
        moved(batches[1], 20),
        forge.batch(106, [forge.record()], last_offset_delta=-2),
        moved(batches[3], 100 + 2**31),
    ]
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {100: [batches[0], *odd, *batches[4:]]}
    )
    receipt = salvage.one(origin)
    remaining = [batches[0], *batches[4:]]
    assert logs(salvage.output / "orders-7") == {100: b"".join(remaining)}
    assert {why: sums["batches"] for why, sums in receipt["left_sums"].items()} == {
        "out-of-range": 2,
        "inverted": 1,
    }


def test_what_a_replay_refuses_is_left(tmp_path: Path, salvage: Salvage) -> None:
    open_one = forge.batch(
        0, [forge.record()], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True
    )
    plain = [
        forge.batch(1 + n, [forge.record()], producer_id=5, producer_epoch=0, base_sequence=1 + n)
        for n in range(12)
    ]
    behind = [forge.marker(13, 5, commit=True), *some(14, 2)]
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: [open_one, *plain[:6]], 7: [*plain[6:], *behind]}
    )
    receipt = salvage.one(origin)
    remaining = logs(salvage.output / "orders-7")
    assert remaining == {0: open_one, 7: b"".join(behind)}
    assert receipt["left_sums"]["refused"]["batches"] == 12


def test_a_run_that_goes_back_over_several_stretches(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 40)
    again = [
        moved(batch, offset) for batch, offset in zip(batches, range(9_000, 9_018, 3), strict=False)
    ]
    # Between correct batches are six wrong ones, in three stretches, and two that go back.
    spoilt = [
        *batches[:10],
        *again[:2],
        broken(batches[20]),
        *again[2:4],
        broken(batches[21]),
        *again[4:],
        *batches[10:18],
        broken(batches[18]),
        *batches[19:],
    ]
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: spoilt})
    receipt = salvage.one(origin)
    remaining = b"".join([*batches[:18], *batches[19:]])
    assert logs(salvage.output / "orders-7") == {0: remaining}
    assert receipt["left_sums"]["backwards"]["batches"] == 6
    salvage.output = tmp_path / "other"
    low = [*batches[:10], *batches[2:4], broken(batches[20]), *batches[4:6], *batches[10:]]
    (origin / f"{0:020d}.log").write_bytes(b"".join(low))
    receipt = salvage.one(origin)
    assert logs(salvage.output / "orders-7") == {0: b"".join(batches)}
    assert receipt["left_sums"]["backwards"]["batches"] == 4


def test_comparisons_end(tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap, "_MOST_COMPARISONS", 0)
    batches = some(0, 6)
    spoilt = [*batches[:2], moved(batches[2], 12), *batches[3:]]
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: spoilt})
    (receipt,) = salvage(origin)
    assert receipt["problems"] == 1, "the gap before the batch that was moved"
    assert logs(salvage.output / "orders-7") == {0: b"".join([*spoilt[:3], batches[5]])}
    assert receipt["left_sums"]["backwards"]["batches"] == 2


def test_wrappers_are_taken_by_what_is_inside(tmp_path: Path, salvage: Salvage) -> None:
    def wrapper(first: int) -> bytes:
        inner = [forge.message(delta, b"v%d" % (first + delta)) for delta in range(3)]
        return forge.wrapper(first + 2, inner, codec="gzip")

    unreadable = forge.message(8, b"no gzip stream", attributes=1)
    across = wrapper(10)
    batches = [wrapper(0), wrapper(3), unreadable, wrapper(9), across, wrapper(12)]
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {}, files={f"{0:020d}.log": b"".join(batches)}
    )
    receipt = salvage.one(origin)
    remaining = b"".join([*batches[:2], batches[3], batches[5]])
    assert logs(salvage.output / "orders-7") == {0: remaining}
    assert {why: sums["batches"] for why, sums in receipt["left_sums"].items()} == {
        "wrapper": 1,
        "backwards": 1,
    }
    (hole,) = receipt["holes"]
    assert (hole["first_offset"], hole["last_offset"]) == (6, 8)


def test_without_a_cleaner_missing_offsets_are_gaps(tmp_path: Path) -> None:
    batches = some(0, 20)
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: [*batches[:3], *batches[4:8]], 30: batches[10:]}
    )
    segments = read_partition(origin).segments
    picked = select_pieces(segments, hunted=False, compacted=False)
    found = [(hole.first, hole.last, hole.left) for hole in offset_gaps(picked, whole=True)]
    assert found == [(9, 11, None), (24, 29, None)]
    assert [hole.count for hole in offset_gaps(picked, whole=True)] == [3, 6]
    picked = select_pieces(segments, hunted=False, compacted=True)
    assert list(offset_gaps(picked, whole=False)) == []


# --- companions


def test_producers_and_transactions_follow_the_new_logs(tmp_path: Path, salvage: Salvage) -> None:
    def data(offset: int, sequence: int) -> bytes:
        return forge.batch(
            offset,
            [forge.record()],
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )

    first = [data(10, 4), data(11, 5), forge.marker(12, 5, commit=False)]
    second = [data(13, 6), broken(forge.marker(14, 5, commit=True)), *some(15, 1)]
    before = forge.snapshot([(9, 1, 3, 7, 0, forge.TIMESTAMP, -1, -1)])
    origin = forge.write_partition(
        tmp_path / "in",
        "orders",
        7,
        {10: first, 13: second},
        files={f"{10:020d}.snapshot": before},
    )
    (receipt,) = salvage(origin, code=4)
    target = salvage.output / "orders-7"
    assert (target / f"{10:020d}.txnindex").read_bytes() == forge.txn_index([(5, 10, 12, 13)])
    assert (target / f"{10:020d}.snapshot").read_bytes() == before
    entries = {
        offset: {entry.producer_id for entry in decode_snapshot(path.read_bytes())}
        for offset in (13, 18)
        if (path := target / f"{offset:020d}.snapshot").exists()
    }
    assert entries == {13: {5, 9}, 18: {5, 9}}
    # Nothing says what became of the last one, which is given an end so that it can be read.
    assert receipt["open_transactions"] == []
    (end,) = receipt["transaction_ends"]
    assert (end["producer_id"], end["first_offset"], end["marker_offset"]) == (5, 13, 14)


def written(offset: int, producer: int = 7, sequence: int | None = None) -> bytes:
    """A transactional batch of five records.

    Its ``sequence`` is that of a producer all of whose transactions are such a batch and a marker.
    """
    return forge.batch(
        offset,
        [forge.record(b"value %d" % (offset + at)) for at in range(5)],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=offset - offset // 6 if sequence is None else sequence,
        transactional=True,
    )


def ended(offset: int, producer: int = 7, *, commit: bool) -> bytes:
    return forge.marker(offset, producer, commit=commit)


#: One producer: committed at 5 and at 11, aborted at 17; then a record without a producer.
THREE = [
    *(written(0), ended(5, commit=True)),
    *(written(6), ended(11, commit=True)),
    *(written(12), ended(17, commit=False)),
    *some(18, 1),
]
ABORTED: Mapping[str, bytes | None] = {
    f"{0:020d}.txnindex": forge.txn_index([(7, 12, 17, 18)]),
}


def three(place: Path, at: int, files: Mapping[str, bytes | None] = ABORTED) -> Path:
    """A partition of ``THREE``, the batch number ``at`` of which is damaged."""
    batches = [broken(batch) if number == at else batch for number, batch in enumerate(THREE)]
    return forge.write_partition(place / "in", "orders", 7, {0: batches}, files=files)


def test_a_lost_commit_does_not_hide_its_records(tmp_path: Path, salvage: Salvage) -> None:
    """The abort of the producer's next transaction is not that of the one before."""
    receipt = salvage.one(three(tmp_path, 3))
    target = salvage.output / "orders-7"
    assert (target / f"{0:020d}.txnindex").read_bytes() == ABORTED[f"{0:020d}.txnindex"]
    # A broker that recovers the log gets the same result, because the marker is there again.
    assert (target / f"{0:020d}.log").read_bytes() == forge.segment(THREE)
    assert receipt["last_stable_offset"] == 21
    assert receipt["transaction_ends"] == [
        {
            "producer_id": 7,
            "first_offset": 6,
            "missing_first_offset": 11,
            "missing_last_offset": 11,
            "fate": "committed",
            "code": None,
            "marker_offset": 11,
            "read_committed": True,
        }
    ]
    (hole,) = receipt["holes"]
    assert hole["left"]["transaction_marker"]
    salvage.verified(target)


@pytest.mark.parametrize(("behind", "expected"), [(-1, 0), (4, 4)])
def test_a_marker_that_is_written_has_a_leader_epoch(
    tmp_path: Path, salvage: Salvage, behind: int, expected: int
) -> None:
    """A follower refuses a batch without one; here none before it has one."""
    batches = [batch[:12] + struct.pack(">i", -1) + batch[16:] for batch in THREE[:-1]]
    batches[3] = broken(batches[3])
    batches += some(18, 1, leader_epoch=behind)
    salvage(forge.write_partition(tmp_path / "in", "orders", 7, {0: batches}, files=ABORTED))
    log = (salvage.output / "orders-7" / f"{0:020d}.log").read_bytes()
    epochs = [log[start + 12 : start + 16] for start, _ in places(log)]
    assert epochs[3] == struct.pack(">i", expected)


def test_a_lost_abort_stays_one(tmp_path: Path, salvage: Salvage) -> None:
    receipt = salvage.one(three(tmp_path, 5))
    assert (salvage.output / "orders-7" / f"{0:020d}.log").read_bytes() == forge.segment(THREE)
    (end,) = receipt["transaction_ends"]
    assert (end["fate"], end["marker_offset"], end["read_committed"]) == ("aborted", 17, False)


def test_what_nothing_decides_stays_readable_and_is_reported(
    tmp_path: Path, salvage: Salvage
) -> None:
    """Without a transaction index it is unknown which of the two was aborted."""
    (receipt,) = salvage(three(tmp_path, 3, {}), code=4)
    assert (receipt["problems"], receipt["last_stable_offset"]) == (1, 21)
    (end,) = receipt["transaction_ends"]
    assert (end["fate"], end["marker_offset"], end["read_committed"]) == ("undecided", 11, True)
    assert end["code"] == "transaction-end-lost"


def test_what_became_of_transactions_is_printed(tmp_path: Path, salvage: Salvage) -> None:
    def printed(output: str, files: Mapping[str, bytes | None]) -> str:
        path = three(tmp_path / output, 3, files)
        command = ["salvage", str(path), "--output", str(tmp_path / output / "out")]
        kdump.cli.main.main(command)
        return " ".join(salvage.capsys.readouterr().out.split())

    begins = "producer 7 from offset 6, marker missing in 11..11: "
    readable = "; new commit marker at 11; consumers with read_committed get its records"
    text = printed("undecided", {})
    assert f"{begins}transaction-end-lost: nothing shows whether it was committed{readable}" in text
    assert "markers 1 transaction ended, or may have ended, where offsets are missing" in text
    assert "(was a transaction marker)" in text
    assert f"{begins}was committed{readable}" in printed("committed", ABORTED)


def test_the_problems_that_are_counted_are_named(tmp_path: Path, salvage: Salvage) -> None:
    """A transaction that is open at the end is a note, and no problem."""
    batches = [broken(batch) if number in {3, 4} else batch for number, batch in enumerate(THREE)]
    path = forge.write_partition(tmp_path / "in", "orders", 7, {0: batches})
    kdump.cli.main.main(["salvage", str(path), "--output", str(salvage.output)])
    text = " ".join(salvage.capsys.readouterr().out.split())
    assert "every header and checksum: 1 problem (transaction-end-lost)" in text


@pytest.mark.parametrize(
    ("behind", "says"),
    [
        (some(6, 1), "a broker that replays the log waits for its end"),
        ([written(6), ended(11, commit=True)], "a broker that replays the log takes the next"),
    ],
)
def test_verify_says_what_a_broker_makes_of_a_lost_end(
    behind: list[bytes], says: str, tmp_path: Path
) -> None:
    batches = [written(0), broken(ended(5, commit=True)), *behind]
    path = forge.write_partition(tmp_path, "orders", 7, {0: batches})
    (found,) = (finding for finding in judge(path) if finding.code.name == "transaction-end-lost")
    assert found.code.severity is Severity.ERROR
    assert found.detail is not None
    stable = 0 if len(behind) == 1 else 12
    assert says in found.detail.found
    assert found.detail.found.endswith(f"the last stable offset is then {stable}")


def test_a_lost_end_that_a_receipt_lists_is_no_finding(tmp_path: Path, salvage: Salvage) -> None:
    """The commit behind it ends it too, so that no new marker is written."""
    data = tmp_path / "data"
    origin = node(data, *KNOWN, metadata=forge.partition_metadata(TOPIC_ID))
    batches = [written(0), broken(ended(5, commit=True)), written(6), ended(11, commit=True)]
    (origin / f"{0:020d}.log").write_bytes(b"".join(batches))
    (receipt,) = salvage(origin, code=4)
    assert receipt["problems"] == 1
    (end,) = receipt["transaction_ends"]
    assert (end["marker_offset"], end["code"]) == (None, "transaction-end-lost")
    shutil.rmtree(origin)
    shutil.copytree(receipt["target"], origin)
    assert "transaction-end-lost" not in {finding.code.name for finding in judge(data)}
    shutil.rmtree(origin / ".kdump")
    assert "transaction-end-lost" in {finding.code.name for finding in judge(data)}


@pytest.mark.parametrize("inside", [True, False], ids=["batch", "segment"])
def test_a_copy_without_settings_lends_no_transaction_the_end_of_another(
    inside: bool, tmp_path: Path, salvage: Salvage
) -> None:
    """The commit at 11 is missing without damage, and nothing shows that the cleaner was there."""
    parts = {0: [*THREE[:3], *THREE[4:]]} if inside else {0: THREE[:3], 12: THREE[4:]}
    index = {f"{max(parts):020d}.txnindex": ABORTED[f"{0:020d}.txnindex"]}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, parts, files=index)
    (receipt,) = salvage(origin, code=0 if inside else 4)
    (end,) = receipt["transaction_ends"]
    assert (end["first_offset"], end["marker_offset"], end["read_committed"]) == (6, 11, True)
    # The index of a log with a gap names all aborts of that log, but not of one that is missing.
    assert end["fate"] == ("committed" if inside else "undecided")
    assert end["code"] == (None if inside else "transaction-end-lost")
    target = salvage.output / "orders-7"
    (name, content) = index.popitem()
    assert (target / name).read_bytes() == content
    assert not set(target.glob("*.txnindex")) - {target / name}


def test_compaction_takes_no_markers_that_salvage_replaces(
    tmp_path: Path, salvage: Salvage
) -> None:
    """Two gaps in a segment: a topic without settings may be compacted."""
    batches = [*THREE[:3], *THREE[4:], *some(25, 1)]
    (receipt,) = salvage(forge.write_partition(tmp_path / "in", "orders", 7, {0: batches}))
    assert (receipt["transaction_ends"], receipt["holes"]) == ([], [])


def test_the_index_of_a_segment_does_not_name_aborts_of_the_next_one(
    tmp_path: Path, salvage: Salvage
) -> None:
    """The index of the segment in which the abort at 11 was is missing with it."""
    first = [written(0), ended(5, commit=False), written(6)]
    last = [written(12), ended(17, commit=True)]
    index = {f"{0:020d}.txnindex": forge.txn_index([(7, 0, 5, 6)])}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: first, 12: last}, files=index)
    (receipt,) = salvage(origin, code=4)
    (end,) = receipt["transaction_ends"]
    assert (end["first_offset"], end["fate"]) == (6, "undecided")
    assert "transaction-end-lost" in {finding.code.name for finding in judge(origin)}


@pytest.mark.parametrize(
    ("opened", "fate", "marker"), [(-1, "committed", 11), (6, "running", None)]
)
def test_a_snapshot_says_whether_a_transaction_has_ended(
    opened: int, fate: str, marker: int | None, tmp_path: Path, salvage: Salvage
) -> None:
    """The index names no abort where the marker may be; the snapshot, whether there was one."""
    entry = (7, 0, 10, 10, 4, forge.TIMESTAMP, 0, opened)
    before = [written(0), ended(5, commit=False), written(6), broken(ended(11, commit=True))]
    origin = forge.write_partition(
        tmp_path / "in",
        "orders",
        7,
        {0: before, 12: some(12, 2)},
        files={
            f"{0:020d}.txnindex": forge.txn_index([(7, 0, 5, 6)]),
            f"{12:020d}.snapshot": forge.snapshot([entry]),
        },
    )
    receipt = salvage.one(origin)
    ends = {end["fate"]: end["marker_offset"] for end in receipt["transaction_ends"]}
    assert ends == ({} if fate == "running" else {fate: marker})
    assert receipt["last_stable_offset"] == (18 if marker else 6)


def test_two_lost_markers_in_one_gap_get_an_offset_each(tmp_path: Path, salvage: Salvage) -> None:
    batches = [written(0), written(5, 8, 0), broken(ended(10, commit=True))]
    batches += [ended(11, 8, commit=True)]
    batches[3] = broken(batches[3])
    batches += [written(12, 7, 5), ended(17, commit=False)]
    batches += [written(18, 8, 5), ended(23, 8, commit=False)]
    aborts = forge.txn_index([(7, 12, 17, 18), (8, 18, 23, 24)])
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: batches}, files={f"{0:020d}.txnindex": aborts}
    )
    receipt = salvage.one(origin, "--hunted")
    ends = {end["producer_id"]: end["marker_offset"] for end in receipt["transaction_ends"]}
    assert ends == {7: 11, 8: 10}
    target = salvage.output / "orders-7"
    assert (target / f"{0:020d}.txnindex").read_bytes() == aborts
    salvage.verified(target)


def test_an_index_that_the_log_contradicts_decides_nothing(
    tmp_path: Path, salvage: Salvage
) -> None:
    """It names no abort at 17: so it may lack others too."""
    (receipt,) = salvage(three(tmp_path, 3, {f"{0:020d}.txnindex": b""}), code=4)
    (end,) = receipt["transaction_ends"]
    assert (end["fate"], end["read_committed"]) == ("undecided", True)


def test_at_the_end_a_transaction_stays_open_unless_it_is_known_to_have_ended(
    tmp_path: Path, salvage: Salvage
) -> None:
    batches = [written(0), written(5, 8), broken(ended(10, commit=False)), broken(some(11, 1)[0])]
    aborts = forge.txn_index([(7, 0, 10, 5)])
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: batches}, files={f"{0:020d}.txnindex": aborts}
    )
    (receipt,) = salvage(origin, code=4)
    ends = [(e["producer_id"], e["fate"], e["marker_offset"]) for e in receipt["transaction_ends"]]
    assert ends == [(7, "aborted", 10), (8, "undecided", None)]
    assert (receipt["log_end_offset"], receipt["last_stable_offset"]) == (11, 5)
    assert (salvage.output / "orders-7" / f"{0:020d}.txnindex").read_bytes() == aborts


def test_epochs_that_no_batch_contradicts_stay(tmp_path: Path, salvage: Salvage) -> None:
    batches = [*some(0, 2, leader_epoch=1), *some(6, 2, leader_epoch=4)]
    batches = [*batches[:2], broken(batches[2]), batches[3]]
    known = forge.checkpoint([(1, 0), (2, 6), (4, 8), (9, 40)])
    origin = forge.write_partition(
        tmp_path / "in", "orders", 7, {0: batches}, files={"leader-epoch-checkpoint": known}
    )
    salvage.one(origin)
    data = (salvage.output / "orders-7" / "leader-epoch-checkpoint").read_bytes()
    assert [(e.epoch, e.start_offset) for e in decode_epochs(data)] == [(1, 0), (2, 6), (4, 8)]


def run(epoch: int, first: int, last: int) -> EpochRun:
    return EpochRun(epoch, first, 0, last)


@pytest.mark.parametrize(
    ("known", "runs", "expected"),
    [
        ([], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(0, 0), (3, 10)], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(0, 0), (3, 12)], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(0, 0), (2, 10)], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(0, 0), (5, 15)], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(0, 0), (5, 20)], [(0, 0, 9), (3, 10, 19)], [(0, 0), (3, 10)]),
        ([(-1, 0), (0, -5)], [(0, 0, 9)], [(0, 0)]),
    ],
)
def test_epochs(
    known: list[tuple[int, int]],
    runs: list[tuple[int, int, int]],
    expected: list[tuple[int, int]],
) -> None:
    found = merge_epochs(
        [EpochEntry(*entry) for entry in known],
        [run(*bounds) for bounds in runs],
        [EpochEntry(epoch, first) for epoch, first, _ in runs],
        20,
    )
    assert [(entry.epoch, entry.start_offset) for entry in found] == expected


# --- where it comes from, and where it goes


def test_deleted_segments_stand_in_where_there_is_no_other(
    tmp_path: Path, salvage: Salvage
) -> None:
    batches = some(0, 15)
    origin = forge.write_partition(
        tmp_path / "in",
        "orders",
        7,
        {15: batches[5:10], 30: batches[10:]},
        files={
            f"{0:020d}.log.deleted": b"".join(batches[:5]),
            f"{15:020d}.log.deleted": b"".join(batches[5:10]),
            f"{21:020d}.log.deleted": b"".join(batches[7:12]),
            f"{90:020d}.log.cleaned": b"",
        },
    )
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    assert logs(target) == {
        0: b"".join(batches[:5]),
        15: b"".join(batches[5:10]),
        30: b"".join(batches[10:]),
    }
    notes = " ".join(receipt["notes"])
    assert f"{0:020d}.log.deleted, which a broker had marked as deleted" in notes
    assert f"not read: {15:020d}.log.deleted, {90:020d}.log.cleaned" in notes


@pytest.mark.parametrize("suffix", ["delete", "stray", "future"])
def test_directories_that_a_broker_has_set_aside(
    tmp_path: Path, salvage: Salvage, suffix: str
) -> None:
    batches = some(0, 3)
    origin = forge.write_partition(tmp_path / "in", "a.b-c", 7, {0: batches})
    origin = origin.rename(origin.with_name(f"a.b-c-7.{'0' * 32}-{suffix}"))
    receipt = salvage.one(origin)
    assert receipt["target"] == str(salvage.output / "a.b-c-7")
    assert logs(salvage.output / "a.b-c-7") == {0: b"".join(batches)}
    assert not any("shortens long topic names" in note for note in receipt["notes"])


def test_a_topic_that_was_cut_short_is_reported(tmp_path: Path, salvage: Salvage) -> None:
    topic = "t" * (255 - len(f"-7.{'0' * 32}-delete"))
    origin = forge.write_partition(tmp_path / "in", "x", 7, {0: some(0, 1)})
    origin = origin.rename(origin.with_name(f"{topic}-7.{'0' * 32}-delete"))
    receipt = salvage.one(origin)
    assert any("shortens long topic names" in note for note in receipt["notes"])


def test_it_refuses_a_target_that_is_there(tmp_path: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 1)})
    target = salvage.output / "orders-7"
    target.mkdir(parents=True)
    assert salvage(origin, code=6) == []
    assert "nothing is overwritten" in salvage.said
    assert [*salvage.output.rglob("*")] == [target]


@pytest.mark.parametrize("where", ["data", "data/sub", "data/orders-7", "link", "data/../data"])
def test_it_refuses_to_write_in_a_log_directory(
    tmp_path: Path, salvage: Salvage, where: str
) -> None:
    origin = forge.write_partition(tmp_path / "data", "orders", 7, {0: some(0, 1)})
    (tmp_path / "data" / "sub").mkdir()
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    before = tree(tmp_path)
    salvage.output = tmp_path / where
    assert salvage(origin, code=6) == []
    assert "expected a place outside of" in salvage.said
    assert tree(tmp_path) == before


def test_it_refuses_to_write_in_what_it_reads(tmp_path: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 1)})
    before = tree(tmp_path)
    salvage.output = origin / "out"
    assert salvage(origin, code=6) == []
    assert tree(tmp_path) == before


def test_it_refuses_where_there_is_no_room(
    tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 1)})
    real = os.statvfs(tmp_path)
    full = os.statvfs_result([*real[:4], 0, *real[5:10]])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert salvage(origin, code=6) == []
    assert "free bytes" in salvage.said
    assert not salvage.output.exists()


@pytest.mark.parametrize("name", ["orders", "orders-7.bak"])
def test_it_refuses_a_directory_of_another_name(
    tmp_path: Path, salvage: Salvage, name: str
) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 1)})
    origin = origin.rename(origin.with_name(name))
    assert salvage(origin, code=6) == []
    assert "<topic>-<partition>" in salvage.said


def test_it_refuses_a_partition_without_a_log(tmp_path: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {})
    assert salvage(origin, code=6) == []
    assert not salvage.output.exists()


@pytest.mark.parametrize("what", ["log directory", "segment", "nothing"])
def test_it_takes_partition_directories_alone(tmp_path: Path, salvage: Salvage, what: str) -> None:
    origin = forge.write_partition(tmp_path / "data", "orders", 7, {0: some(0, 1)})
    paths = {
        "log directory": tmp_path / "data",
        "segment": origin / f"{0:020d}.log",
        "nothing": tmp_path / "nowhere-0",
    }
    command = ["salvage", str(paths[what]), "--output", str(salvage.output)]
    assert kdump.cli.main.main(command) == (5 if what == "nothing" else 2)
    assert not salvage.output.exists()


def test_owner_and_permissions_are_those_of_the_origin(place: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(place / "in", "orders", 7, {0: some(0, 1)})
    origin.chmod(0o2750)
    log = origin / f"{0:020d}.log"
    log.chmod(0o640)
    if os.geteuid() == 0:
        for path in (origin, *origin.iterdir()):
            os.chown(path, 4_321, 1_234)
    salvage.one(origin)
    target = salvage.output / "orders-7"
    for ours, theirs in ((target, origin), (target / log.name, log)):
        mine, other = ours.stat(), theirs.stat()
        assert (mine.st_mode, mine.st_uid, mine.st_gid) == (
            other.st_mode,
            other.st_uid,
            other.st_gid,
        )
    assert {path.stat().st_uid for path in target.iterdir()} == {origin.stat().st_uid}


def test_segments_that_wait_to_be_swapped_in(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 10)
    origin = forge.write_partition(
        tmp_path / "in",
        "orders",
        7,
        {15: batches[5:]},
        files={f"{0:020d}.log.swap": b"".join(batches[:5])},
    )
    receipt = salvage.one(origin)
    assert b"".join(logs(salvage.output / "orders-7").values()) == b"".join(batches)
    assert any("had not yet swapped in" in note for note in receipt["notes"])


def test_what_is_unknown_of_the_origin_is_reported(tmp_path: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(
        tmp_path / "data",
        "orders",
        7,
        {10: some(10, 2)},
        files={"partition.metadata": b"nonsense", "leader-epoch-checkpoint": None},
    )
    (tmp_path / "data" / "meta.properties").write_text("version=1\n")
    for name, offset in (("log-start-offset", 13), ("recovery-point-offset", 16)):
        data = forge.checkpoint([("orders", 7, offset)])
        (tmp_path / "data" / f"{name}-checkpoint").write_bytes(data)
    receipt = salvage.one(origin)
    notes = " ".join(receipt["notes"])
    assert "partition.metadata cannot be used" in notes
    assert "the log start offset was 13" in notes
    assert "partition.metadata" not in receipt["files"]
    (tmp_path / "data" / "log-start-offset-checkpoint").write_bytes(forge.checkpoint([]))
    salvage.output = tmp_path / "again"
    notes = " ".join(salvage.one(origin)["notes"])
    assert "producers before the first batch are unknown" in notes


# --- the topic id, and the way back


OTHER_ID = "b3RoZXItdG9waWMtMTIzNA"


def node(data: Path, *values: bytes, metadata: bytes | None = None) -> Path:
    """A partition of a KRaft node whose metadata log has ``values``."""
    files = {"partition.metadata": metadata}
    origin = forge.write_partition(data, "orders", 0, {0: some(0, 3)}, files=files)
    (data / "meta.properties").write_bytes(meta_properties())
    log = data / segment_name()
    log.parent.mkdir()
    log.write_bytes(forge_metadata.log([*values, forge_metadata.NO_OP]))
    return origin


KNOWN = (forge_metadata.topic("orders", TOPIC_ID), forge_metadata.partition(TOPIC_ID))


@pytest.mark.parametrize("metadata", [None, b"nonsense"])
def test_the_topic_id_is_taken_from_the_metadata_log(
    tmp_path: Path, salvage: Salvage, metadata: bytes | None
) -> None:
    receipt = salvage.one(node(tmp_path / "data", *KNOWN, metadata=metadata))
    written = Path(receipt["target"]) / "partition.metadata"
    assert written.read_bytes() == forge.partition_metadata(TOPIC_ID)
    assert f"topic id {TOPIC_ID} is from the metadata log" in " ".join(receipt["notes"])


def test_the_metadata_log_of_another_log_directory_is_within_reach(
    tmp_path: Path, salvage: Salvage
) -> None:
    node(tmp_path / "a", *KNOWN)
    files = {"partition.metadata": None}
    origin = forge.write_partition(tmp_path / "b", "orders", 1, {0: some(0, 3)}, files=files)
    (tmp_path / "b" / "meta.properties").write_bytes(meta_properties(directory=OTHER_ID))
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nlog.dirs={tmp_path / 'a'},{tmp_path / 'b'}\n")
    assert salvage(origin, code=6) == []
    receipt = salvage.one(origin, "--config", str(config))
    written = Path(receipt["target"]) / "partition.metadata"
    assert written.read_bytes() == forge.partition_metadata(TOPIC_ID)


def test_a_topic_id_that_nothing_has_is_asked_for(tmp_path: Path, salvage: Salvage) -> None:
    origin = node(tmp_path / "data")
    assert salvage(origin, code=6) == []
    assert "kafka-topics.sh --describe prints it; then add --topic-id ID" in salvage.said
    receipt = salvage.one(origin, "--topic-id", OTHER_ID)
    written = Path(receipt["target"]) / "partition.metadata"
    assert written.read_bytes() == forge.partition_metadata(OTHER_ID)


@pytest.mark.parametrize("wrong", ["", "orders", "A" * 22, OTHER_ID + "A"])
def test_what_is_no_topic_id_is_wrong_usage(tmp_path: Path, salvage: Salvage, wrong: str) -> None:
    origin = node(tmp_path / "data")
    assert salvage(origin, "--topic-id", wrong, code=2) == []


def test_one_topic_id_is_for_one_topic(tmp_path: Path, salvage: Salvage) -> None:
    origins = [
        forge.write_partition(tmp_path, topic, 0, {0: some(0, 1)}) for topic in ("orders", "sales")
    ]
    assert salvage(*origins, "--topic-id", OTHER_ID, code=2) == []


def test_a_topic_that_was_created_again_is_reported(tmp_path: Path, salvage: Salvage) -> None:
    own = forge.partition_metadata(OTHER_ID)
    receipt = salvage.one(node(tmp_path / "data", *KNOWN, metadata=own))
    notes = " ".join(receipt["notes"])
    assert f"its id is now {TOPIC_ID}, the result has {OTHER_ID}" in notes
    assert "a broker renames it to -stray, and does not serve it" in notes
    assert (Path(receipt["target"]) / "partition.metadata").read_bytes() == own
    salvage.output = tmp_path / "again"
    receipt = salvage.one(tmp_path / "data" / "orders-0", "--topic-id", TOPIC_ID)
    assert "-stray" not in " ".join(receipt["notes"])


def test_an_end_below_the_high_watermark_is_reported(tmp_path: Path, salvage: Salvage) -> None:
    origin = node(tmp_path / "data", *KNOWN, metadata=forge.partition_metadata(TOPIC_ID))
    mark = tmp_path / "data" / "replication-offset-checkpoint"
    mark.write_bytes(forge.checkpoint([("orders", 0, 9)]))
    assert "high watermark" not in " ".join(salvage.one(origin)["notes"])
    mark.write_bytes(forge.checkpoint([("orders", 0, 10)]))
    salvage.output = tmp_path / "again"
    notes = " ".join(salvage.one(origin)["notes"])
    assert "the result ends at 9, BELOW the high watermark 10" in notes


def test_the_way_back_is_printed_last_and_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # A copy that a broker set aside, beside the empty replica that it made instead.
    origin = node(Path("data"), *KNOWN, metadata=forge.partition_metadata(TOPIC_ID))
    stray = origin.with_name(f"orders-0.{'0' * 32}-stray")
    origin.rename(stray)
    forge.write_partition(Path("data"), "orders", 0, {0: []})
    Path("out/orders-0.old").mkdir(parents=True)  # an unrelated directory
    assert kdump.cli.main.main(["salvage", str(stray), "--output", "out"]) == 0
    lines = capsys.readouterr().out.splitlines()
    text = "back if no other replica is in sync, with the broker stopped:"
    assert " ".join(lines[-6].split()) == text
    data, out = tmp_path / "data", tmp_path / "out"
    commands = [shlex.split(line) for line in lines[-5:]]
    assert commands == [
        ["mv", f"{tmp_path / stray}", f"{out}/orders-0.old.2"],
        ["mv", f"{data}/orders-0", f"{out}/orders-0.old.3"],
        ["mv", f"{out}/orders-0", f"{data}/orders-0"],
        ["chown", "-R", f"--reference={out}/orders-0.old.2", f"{data}/orders-0"],
        ["kdump", "verify", f"{data}"],
    ]
    monkeypatch.chdir("/")
    for command in commands[:-1]:
        subprocess.run(command, check=True)
    assert kdump.cli.main.main(commands[-1][1:]) == 0
    assert (data / "orders-0" / "partition.metadata").exists()


def test_the_gaps_that_a_receipt_lists_are_notes(tmp_path: Path, salvage: Salvage) -> None:
    data = tmp_path / "data"
    origin = node(data, *KNOWN, metadata=forge.partition_metadata(TOPIC_ID))
    first, second = some(0, 9), some(27, 9)
    first[2], first[8] = broken(first[2]), broken(first[8])
    (origin / "00000000000000000000.log").write_bytes(b"".join(first))
    (origin / "00000000000000000027.log").write_bytes(b"".join(second))
    (receipt,) = salvage(origin)
    shutil.rmtree(origin)
    shutil.copytree(receipt["target"], origin)

    def holes() -> dict[tuple[int, int | None], str]:
        return {
            (finding.offsets.first, finding.offsets.last): finding.code.name
            for finding in judge(data)
            if finding.offsets is not None
        }

    assert holes() == {(6, 8): "hole-salvaged", (24, 26): "hole-salvaged"}
    # One that came later, and none without the receipt.
    del second[4]
    (origin / "00000000000000000027.log").write_bytes(b"".join(second))
    assert holes()[39, 41] == "batches-hole"
    shutil.rmtree(origin / ".kdump")
    assert {name for at, name in holes().items() if at[0] < 30} == {"batches-hole", "segments-hole"}


def test_a_receipt_names_more_gaps_than_a_check_lists(tmp_path: Path, salvage: Salvage) -> None:
    """A check lists the first 8 gaps of a segment, and counts the others."""
    data = tmp_path / "data"
    origin = node(data, *KNOWN, metadata=forge.partition_metadata(TOPIC_ID))
    first = [
        broken(batch) if number % 2 else batch for number, batch in enumerate(some(0, 23))
    ]  # 11 gaps
    log = origin / "00000000000000000000.log"
    log.write_bytes(b"".join(first))
    receipt = salvage.one(origin)
    shutil.rmtree(origin)
    shutil.copytree(receipt["target"], origin)

    def holes() -> dict[str, int]:
        counts = Counter[str]()
        for finding in judge(data):
            if finding.offsets is not None:
                counts[finding.code.name] += 1 + finding.repeats
        return counts

    assert holes() == {"hole-salvaged": 11}
    (written,) = (origin / ".kdump").glob("*/receipt.json")
    fields = json.loads(written.read_text())

    def without(gap: int) -> None:
        kept = [each for number, each in enumerate(fields["holes"]) if number != gap]
        written.write_text(json.dumps(fields | {"holes": kept}))

    without(10)  # one that is counted alone
    assert holes() == {"hole-salvaged": 7, "batches-hole": 4}
    without(2)  # one that is listed
    assert holes() == {"hole-salvaged": 6, "batches-hole": 5}
    written.write_text(json.dumps(fields))
    sound = log.read_bytes()
    log.write_bytes(sound[: places(sound)[11][0]])  # the end was cut off, with its gaps
    assert holes() == {"hole-salvaged": 10}
    # A batch is lost between two gaps that are counted alone.
    rest = sound[: places(sound)[9][0]] + sound[places(sound)[10][0] :]
    log.write_bytes(rest)
    assert holes() == {"hole-salvaged": 7, "batches-hole": 3}


def test_an_index_without_room_is_reported(tmp_path: Path, salvage: Salvage) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.index.interval.bytes=1\nlog.index.size.max.bytes=24\n")
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 9)})
    receipt = salvage.one(origin, "--config", str(config))
    assert any("more index entries" in note for note in receipt["notes"])


@pytest.mark.parametrize("where", ["none/out", "file"])
def test_it_refuses_an_output_that_cannot_be(tmp_path: Path, salvage: Salvage, where: str) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 1)})
    (tmp_path / "file").write_bytes(b"")
    salvage.output = tmp_path / where
    assert salvage(origin, code=6) == []
    assert "expected a directory" in salvage.said


# --- what goes wrong


def test_a_log_that_is_replaced_is_not_mixed(
    tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 5)})
    log, other = origin / f"{0:020d}.log", tmp_path / "other"
    other.write_bytes(b"".join(some(0, 6)))

    class Replacing(disk.System):
        def make_directory(self, path: Path, mode: int) -> None:
            if not path.exists():
                super().make_directory(path, mode)
            # Once alone: the number of the first file might be given to the third one.
            if other.exists():
                other.rename(log)

    monkeypatch.setattr(disk, "SYSTEM", Replacing())
    assert salvage(origin, code=5) == []
    assert "replaced" in salvage.said
    assert not salvage.output.exists()


def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = {0: [*some(0, 2), broken(some(6, 1)[0]), *some(9, 1)], 12: some(12, 1)}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, segments)
    before = tree(tmp_path)
    count = 0
    while True:
        failing = Failing(count)
        monkeypatch.setattr(disk, "SYSTEM", failing)
        ended = kdump.cli.main.main(
            ["salvage", str(origin), "--output", str(salvage.output), "--progress", "none"]
        )
        if failing.left >= 0:
            break
        assert ended == 6, count
        assert NO_ROOM in salvage.capsys.readouterr().err
        assert tree(tmp_path) == before, count
        count += 7
    assert ended == 0
    assert count > 50


def test_a_signal_leaves_nothing_behind(
    tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 3)})
    before = tree(tmp_path)

    class Interrupted(disk.System):
        def rename(self, source: Path, target: Path) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(disk, "SYSTEM", Interrupted())
    command = ["salvage", str(origin), "--output", str(salvage.output)]
    assert kdump.cli.main.main(command) == 130
    assert tree(tmp_path) == before


@pytest.mark.parametrize("command", [["salvage"], ["convert-v0-v2", "--jobs", "1"]], ids=str)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errno.EIO, (6, 5)),
        (KeyboardInterrupt(), (130, 130)),
        (SystemExit(143), (143, 143)),
    ],
    ids=["EIO", "SIGINT", "SIGTERM"],
)
@pytest.mark.slow
def test_a_failed_sync_leaves_nothing_behind_or_names_what_is_there(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    error: int | BaseException,
    expected: tuple[int, int],
) -> None:
    messages = [forge.message(offset, b"value") for offset in range(3)]
    origin = forge.write_partition(place / "in", "orders", 7, {0: messages})
    before, made = tree(place), place / "out" / "orders-7"
    named = 0
    for number in count():
        with failing_at("sync", number, error):
            ended = kdump.cli.main.main([*command, "--output", str(made.parent), str(origin)])
        printed = capsys.readouterr()
        if ended == 0:
            break
        assert ended == expected[made.exists()], (number, printed.err)
        if made.exists():
            named += 1
            assert f"{made}: the directory is complete, but a loss of power may" in printed.err
            assert printed.err.splitlines()[-1] == f"kdump verify {made}"
            assert "Traceback" not in printed.err
            shutil.rmtree(made.parent)
        assert tree(place) == before, number
    assert named == 1
    assert number > 5


def test_another_that_is_at_work_is_left_alone(tmp_path: Path, salvage: Salvage) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 3)})
    with build_directory(salvage.output / "orders-7", origin) as new_directory:
        new_directory.put("file", [b"half"])
        assert salvage(origin, code=6) == []
        assert "another kdump" in salvage.said
        assert (new_directory.path / "file").exists()
    assert [path.name for path in (salvage.output / "orders-7").iterdir()] == ["file"]


def test_what_a_killed_run_left_is_replaced(tmp_path: Path, salvage: Salvage) -> None:
    batches = some(0, 3)
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: batches})
    left = salvage.output / ".kdump.orders-7.tmp"
    folder = left / ".kdump" / "12345678"
    for inner in ("old", "new"):
        (folder / inner).mkdir(parents=True)
    (folder / "plan.json.tmp").write_bytes(b"half")
    for file in (f"{9:020d}.log", f"{9:020d}.txnindex", "partition.metadata", "quorum-state"):
        (left / file).write_bytes(b"half")
    for path in (left, left / ".kdump", folder, folder / "old", folder / "new"):
        path.chmod(0o700)
    salvage.one(origin)
    assert [path.name for path in salvage.output.iterdir()] == ["orders-7"]
    assert logs(salvage.output / "orders-7") == {0: b"".join(batches)}


@pytest.mark.parametrize(
    "file",
    ["notes", f"{9:020d}.log.deleted", "inner/notes", ".kdump/notes", ".kdump/12345678/notes"],
)
def test_what_no_run_has_left_is_not_removed(tmp_path: Path, salvage: Salvage, file: str) -> None:
    origin = forge.write_partition(tmp_path / "in", "orders", 7, {0: some(0, 3)})
    left = salvage.output / ".kdump.orders-7.tmp"
    (left / file).parent.mkdir(parents=True)
    (left / file).write_bytes(b"mine")
    (left / f"{9:020d}.log").write_bytes(b"half")
    for path in left.rglob("*"):
        path.chmod(0o700)
    before = tree(salvage.output)
    assert salvage(origin, code=6) == []
    assert "expected only files of " in salvage.said
    assert str(left / file.replace("inner/notes", "inner")) in salvage.said
    assert "nothing was removed" in salvage.said
    assert tree(salvage.output) == before


class Unreadable:
    """A source that cannot be read from a position on."""

    def __init__(self, source: Source, position: int) -> None:
        self._source, self._position = source, position

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def window(self, position: int, at_least: int = 1) -> memoryview:
        if position + at_least > self._position:
            raise SourceError(self._source.path, f"{self._source.path}: cannot be read")
        return self._source.window(position, at_least)[: self._position - position]

    def __enter__(self) -> Unreadable:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()


def test_what_cannot_be_read_is_reported_and_the_rest_taken(
    tmp_path: Path, salvage: Salvage, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = {0: some(0, 6), 18: some(18, 3)}
    origin = forge.write_partition(tmp_path / "in", "orders", 7, segments)

    def opened(path: Path, *, mapped: bool) -> Any:
        source = open_source(path, mapped=mapped)
        if path.name.startswith(f"{0:020d}"):
            return Unreadable(source, len(b"".join(segments[0][:4])) + 80)
        return source

    monkeypatch.setattr(stretches, "open_source", opened)
    receipt = salvage.one(origin, code=5)
    assert logs(salvage.output / "orders-7") == {
        0: b"".join(segments[0][:4]),
        18: b"".join(segments[18]),
    }
    assert len(receipt["unread"]) == 1
    (hole,) = receipt["holes"]
    assert (hole["first_offset"], hole["last_offset"], hole["left"]["reason"]) == (
        12,
        17,
        "unread",
    )


# --- what it prints


def test_the_text_says_all_in_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    batches = some(0, 10)
    spoilt = [*batches[:4], broken(batches[4]), *batches[5:]]
    forge.write_partition(Path("in"), "orders", 7, {0: spoilt})
    assert kdump.cli.main.main(["salvage", "in/orders-7", "--output", "out"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(printed.out.split())
    assert "taken 27 records in 9 batches" in text
    assert "missing 1: 3 offsets at most 12..14: bad checksum" in text
    assert "checked 1 segment, every header and checksum: 0 problems" in text
    assert lines[-1] == "next        kdump verify out/orders-7"


# --- real directories


@pytest.mark.once
@pytest.mark.parametrize("name", few_first())
@pytest.mark.slow
def test_a_fixture_is_salvaged_whole(
    name: str, grown: Callable[[str], Path], salvage: Salvage
) -> None:
    origins = [path for path in sorted(grown(name).iterdir()) if path.is_dir()]
    before = tree(grown(name))
    receipts = salvage(*origins)
    assert len(receipts) == len(origins)
    for receipt, origin in zip(receipts, origins, strict=True):
        assert (receipt["problems"], receipt["holes"], receipt["unread"]) == (0, [], []), origin
        assert sound(Path(receipt["target"])) == sound(origin)
    assert tree(grown(name)) == before


@pytest.mark.broker
@pytest.mark.parametrize("version", ["3.9.1", "4.3.1"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_broker_loads_it_and_cuts_nothing(
    tmp_path: Path, salvage: Salvage, oracle: Of, version: str, clean: bool
) -> None:
    first, second = some(0, 20), some(60, 20)
    spoilt = {
        0: [*first[:3], broken(first[3]), moved(first[4], 70_000), *first[5:]],
        60: [broken(second[0]), *second[1:15]],
        120: [b"\xff" * 300],
        150: [*some(150, 3), some(159, 1)[0][:-9]],
    }
    origin = forge.write_partition(tmp_path / "in", "orders", 7, spoilt)
    receipt = salvage.one(origin)
    target = salvage.output / "orders-7"
    before = logs(target)
    loaded = oracle(version).load(target, clean=clean)
    assert isinstance(loaded, Loaded)
    assert logs(target) == before
    assert loaded.log_start_offset == receipt["log_start_offset"] == 0
    assert loaded.log_end_offset == receipt["log_end_offset"] == 159
    assert list(loaded.segments) == [0, 60, 150]


@pytest.mark.broker
@pytest.mark.parametrize("name", first_of([name for name in reversed(FIXTURES) if name >= "2"]))
def test_a_broker_loads_salvaged_fixtures(
    name: str, grown: Callable[[str], Path], salvage: Salvage, oracle: Of
) -> None:
    origins = [
        path
        for path in sorted(grown(name).iterdir())
        if path.is_dir() and not path.name.startswith("__cluster")
    ]
    for receipt in salvage(*origins):
        target = Path(receipt["target"])
        before = logs(target)
        loaded = oracle("4.3.1").load(target, clean=True)
        assert isinstance(loaded, Loaded), target
        assert (loaded.log_start_offset, loaded.log_end_offset) == (
            receipt["log_start_offset"],
            receipt["log_end_offset"],
        )
        loaded = oracle("4.3.1").load(target, clean=False)
        assert isinstance(loaded, Loaded), target
        assert logs(target) == before, target


# --- anything at all


def outcome(whole: Path, fuzz_case: Case, work: Path, *, hunted: bool) -> Salvaged:
    """What comes of a partition, stored at ``whole``, with one of its logs replaced."""
    origin = work / whole.name
    shutil.copytree(whole, origin)
    (origin / fuzz_case.path.name).write_bytes(fuzz_case.data)
    (root,) = open_roots([origin])
    (target,) = assign(root)
    return rescue(target, Context(0), work / "out", hunted=hunted)


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.broker
def test_a_broker_makes_the_same_of_any_log(
    seed: int, tmp_path: Path, grown: Callable[[str], Path], oracle: Of
) -> None:
    fuzz_case = case(seed, [".log"])
    while not fuzz_case.path.parts[1] >= "2" or fuzz_case.path.parts[3].startswith("__cluster"):
        fuzz_case = case(fuzz_case.seed + 1_000, [".log"])
    release, state, partition = fuzz_case.path.parts[1:4]
    whole = grown(f"{release}/{state}") / partition
    salvaged = outcome(whole, fuzz_case, tmp_path, hunted=seed % 2 == 0)
    positions = dict.fromkeys(range(len(salvaged.selection.segments)), 0)
    last = -1
    for piece in salvaged.selection.pieces:
        assert piece.start == positions[piece.log], fuzz_case
        positions[piece.log] = piece.stop
        if isinstance(piece, Stretch):
            assert last < piece.first_offset <= piece.last_offset, fuzz_case
            last = piece.last_offset
    sizes = [identity and identity.size for identity in salvaged.selection.identities]
    assert list(positions.values()) == sizes, fuzz_case
    written = contents(salvaged.destination)
    loaded = oracle("4.3.1").load(
        salvaged.destination, clean=False, producer_expiry_ms=2**31 - 1, now_ms=1_790_000_000_000
    )
    assert isinstance(loaded, Loaded), fuzz_case
    assert (loaded.log_start_offset, loaded.log_end_offset) == (
        salvaged.logs[0].base_offset,
        salvaged.log_end,
    ), fuzz_case
    assert contents(salvaged.destination) == written, fuzz_case


def contents(directory: Path) -> dict[str, object]:
    """All files by name, snapshots as sets, without empty ones that a broker makes in passing."""
    found: dict[str, object] = {}
    for path in directory.iterdir():
        if path.is_file():
            data = path.read_bytes()
            snapshot = path.suffix == ".snapshot"
            found[path.name] = set(decode_snapshot(data)) if snapshot else data
    passing = (".txnindex", "leader-epoch-checkpoint")
    return {name: data for name, data in found.items() if data or not name.endswith(passing)}


@pytest.mark.parametrize("seed", first_of(range(40), 10))
def test_lost_markers_change_no_transaction_that_evidence_decides(
    seed: int, tmp_path: Path, salvage: Salvage
) -> None:
    """A random log with its true index and snapshot, of which some batches are damaged."""
    rng = random.Random(seed)
    log: list[bytes] = []
    running: dict[int, int] = {}
    fates: dict[int, bool | None] = {}  # of data batches by offset: committed, aborted, open
    mine: dict[int, list[int]] = {7: [], 8: [], 9: []}
    aborts: list[tuple[int, int, int, int]] = []
    offset = 0
    for _ in range(rng.randint(8, 30)):
        producer = rng.randint(7, 9)
        if producer in running and rng.random() < 0.5:
            commit = rng.random() < 0.5
            first = running.pop(producer)
            if not commit:
                stable = min(running.values(), default=offset + 1)
                aborts.append((producer, first, offset, stable))
            fates |= dict.fromkeys(mine[producer], commit)
            mine[producer] = []
            log.append(ended(offset, producer, commit=commit))
            offset += 1
        else:
            running.setdefault(producer, offset)
            mine[producer].append(offset)
            fates[offset] = None
            log.append(written(offset, producer))
            offset += 5
    at_end = [
        (producer, 0, -1, -1, 0, forge.TIMESTAMP, 0, running.get(producer, -1)) for producer in mine
    ]
    damaged = {at for at in range(1, len(log)) if rng.random() < 0.25}
    origin = forge.write_partition(
        tmp_path / "in",
        "orders",
        7,
        {0: [broken(batch) if at in damaged else batch for at, batch in enumerate(log)]},
        files={
            f"{0:020d}.txnindex": forge.txn_index(aborts),
            f"{offset:020d}.snapshot": forge.snapshot(at_end),
        },
    )
    (receipt,) = salvage(origin, "--hunted")
    undecided = {
        (end["producer_id"], end["first_offset"])
        for end in receipt["transaction_ends"]
        if end["fate"] == "undecided"
    }
    assert not undecided
    target = salvage.output / "orders-7"
    index = target / f"{0:020d}.txnindex"
    hidden = TransactionIndex.decode(index.read_bytes() if index.exists() else b"").entries
    opened = {
        transaction["producer_id"]: transaction["first_offset"]
        for transaction in receipt["open_transactions"]
    }
    for data in sound(target):
        batch = read_header(memoryview(data), 0)
        assert batch is not None
        if batch.is_control:
            continue
        fate = fates[batch.base_offset]
        gone = any(
            entry.producer_id == batch.producer_id
            and entry.first_offset <= batch.base_offset <= entry.last_offset
            for entry in hidden
        )
        is_open = opened.get(batch.producer_id, HIGHEST) <= batch.base_offset
        assert (gone, is_open) == (fate is False, fate is None), batch
