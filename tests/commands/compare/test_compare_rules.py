"""``kdump compare`` on copies that are easily mistaken: nothing is said that is not so."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest

from commands.compare.copy_values import ID, beside, copy
from kdump.audit.facts.cluster import Replicas
from kdump.copies.comparison import ComparisonState, NodeDirectory
from kdump.copies.comparison import compare as compare_values
from kdump.copies.copy import Copy, LostOffsets, SegmentExtent
from kdump.copies.lineage import LeaderEpochs, Truncation, truncation
from kdump.format.checkpoint import EpochEntry
from support import copies, forge
from support.copies import BASE, Batch, append, compare, lay_out, partition

OTHER_ID = "BBBBBBBBQBCBBBBBBBBBBQ"


# --- the first choice


def test_the_watermark_of_another_lineage_does_not_count() -> None:
    """Copy 1 led before an unclean election; copy 3 is not in sync with copy 2, which leads now."""
    found = beside(
        copy(1, 39, (0, 0), (4, 16), watermark=39),
        copy(2, 24, (0, 0), (8, 16), watermark=24),
        copy(3, 30, (0, 0), (8, 16), watermark=20),
        in_sync=(2,),
    )
    assert (found.first, found.unclean) == (1, False)


def test_the_watermark_of_an_old_topic_does_not_count() -> None:
    found = beside(
        copy(1, 1000, watermark=1000, topic_id=OTHER_ID),
        copy(2, 20, watermark=20),
        copy(3, 28, watermark=20),
        in_sync=(1, 2),
    )
    assert (found.first, found.unclean) == (1, False)
    assert [found.in_sync(index) for index in range(3)] == [False, True, False]


def test_a_copy_in_sync_that_lost_committed_records_is_not_first() -> None:
    found = beside(copy(1, 20, watermark=30), copy(2, 30, watermark=30), in_sync=(1,))
    assert (found.first, found.unclean) == (1, True)


def test_a_copy_that_does_not_start_is_not_first() -> None:
    found = beside(
        replace(copy(1, 30, watermark=30), starts=False), copy(2, 28, watermark=20), in_sync=(1,)
    )
    assert (found.first, found.unclean, found.state) == (1, True, ComparisonState.DIFFERENT)


def test_a_stray_copy_leads_nothing() -> None:
    found = beside(replace(copy(1, 30), stray=True), copy(2, 20), copy(3, 20), in_sync=())
    assert found.first == 1
    assert [leadership.leader for leadership in found.leaderships] == [1, 2]


# --- replicas that are missing


def test_a_node_of_which_another_partition_is_read_is_not_missing(tmp_path: Path) -> None:
    assert beside(copy(1, 5), in_sync=(1,)).missing == ()
    assert beside(copy(1, 5), in_sync=(1,), directories=(NodeDirectory(2, None),)).missing == (2,)


def test_a_replica_may_be_in_a_directory_that_is_not_at_hand() -> None:
    ids = ("A" * 21 + "1", "B" * 21 + "1", "C" * 21 + "1")
    replicas = Replicas((1, 2, 3), ids, in_sync=(1,))

    def missing(*directories: NodeDirectory) -> tuple[int, ...]:
        return compare_values([copy(1, 5)], ID, replicas, directories).missing

    assert missing(NodeDirectory(2, "D" * 22)) == ()
    assert missing(NodeDirectory(2, ids[1]), NodeDirectory(3, "D" * 22)) == (2,)


# --- damage


def test_every_damage_of_a_segment_counts(tmp_path: Path) -> None:
    """A verdict lists the first eight of a kind."""
    log = [Batch(0, 3 * number, 3, number) for number in range(60)]
    nodes = lay_out(tmp_path, [log, log], rolls=(1000, 1000))
    path = nodes[1] / "t-0" / f"{0:020}.log"
    data = bytearray(path.read_bytes())
    position, damaged = 0, []
    for number, batch in enumerate(log):
        if number % 3 == 1:
            data[position + 70] ^= 1
            damaged.append((batch.base, batch.end - 1))
        position += len(batch.data())
    path.write_bytes(data)
    ran = compare(*nodes)
    assert list(ran.of("difference")) == []
    (damages,) = [line["damages"] for line in ran.of("copy") if line["copy"] == 2]
    assert [(each["first_offset"], each["last_offset"]) for each in damages] == damaged
    assert {tuple(each["sound_in"]) for each in damages} == {(1,)}
    assert partition(ran)["alone"] == [
        {"copy": 1, "first_offset": first, "last_offset": last} for first, last in damaged
    ]


def test_a_missing_segment_behind_a_damaged_one(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    log = nodes[1] / "t-0" / f"{0:020}.log"
    log.write_bytes(forge.flip(log.read_bytes(), 80))
    (nodes[1] / "t-0" / f"{15:020}.log").unlink()
    ran = compare(*nodes)
    (damages,) = [line["damages"] for line in ran.of("copy") if line["copy"] == 2]
    assert [(each["reason"], each["first_offset"], each["last_offset"]) for each in damages] == [
        ("bad-checksum", 0, 2),
        ("segment-missing", 15, 29),
    ]


def test_zeros_at_the_end_of_a_segment_that_is_not_the_last(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    log = nodes[1] / "t-0" / f"{0:020}.log"
    lost = len(BASE[4].data())
    log.write_bytes(log.read_bytes()[:-lost] + bytes(lost))
    ran = compare(*nodes)
    (damages,) = [line["damages"] for line in ran.of("copy") if line["copy"] == 2]
    assert [(each["first_offset"], each["last_offset"]) for each in damages] == [(12, 14)]
    assert damages[0]["sound_in"] == [1]
    assert (ran.code, list(ran.of("difference"))) == (4, [])


def test_zeros_behind_all_batches_of_a_segment_cut_the_next_start(tmp_path: Path) -> None:
    """Recovery after an unclean stop drops the segments behind them."""
    nodes = lay_out(tmp_path, [BASE, BASE])
    log = nodes[1] / "t-0" / f"{0:020}.log"
    log.write_bytes(log.read_bytes() + bytes(500))
    (nodes[1] / ".kafka_cleanshutdown").unlink()
    (nodes[1] / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    ran = compare(*nodes)
    assert (ran.code, partition(ran)["state"]) == (4, "different")
    assert [line["start_loses"] for line in ran.of("copy")] == [False, True]


def test_many_damages_take_no_time() -> None:
    """16,000 segments of which each has lost a batch: nothing grows with their square."""
    count = 16_000
    end = 100 * count
    whole = copy(1, end)
    segments = tuple(
        SegmentExtent(Path(f"{100 * i:020}.log"), 100 * i, 100 * i, 100 * i + 100, 1, 100, 1, b"x")
        for i in range(count)
    )
    lost = tuple(
        LostOffsets(segment.log, 0, 1, segment.base_offset + 10, segment.base_offset + 20, "r")
        for segment in segments
    )
    began = time.process_time()
    found = compare_values(
        [replace(whole, segments=segments), replace(copy(2, end), segments=segments, lost=lost)]
    )
    assert time.process_time() - began < 5
    assert set(found.sound_in[1]) == {(0,)}
    assert [offsets for _, offsets in found.alone] == [(each.first, each.end) for each in lost]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_held_alone_by_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    made = []
    for node in range(3):
        offsets = sorted(rng.sample(range(60), 2 * rng.randrange(6)))
        lost = tuple(
            LostOffsets(Path("x"), 0, 1, first, end, "r")
            for first, end in zip(offsets[::2], offsets[1::2], strict=True)
        )
        end = rng.randrange(40, 60)
        part = rng.randrange(60)
        epochs = ((0, 0),) if rng.random() < 0.5 else ((0, 0), (node + 1, part))
        made.append(replace(copy(node, end, *epochs), lost=lost))

    def has(each: Copy, offset: int) -> bool:
        inside = any(lost.first <= offset < (lost.end or 0) for lost in each.lost)
        return offset < each.end_offset and not inside

    def lineage(each: Copy, offset: int) -> list[int | None]:
        return [each.epochs.epoch_at(below) for below in range(offset + 1)]

    expected = {
        (number, offset)
        for number, each in enumerate(made)
        for offset in range(60)
        if has(each, offset)
        and not any(
            has(other, offset) and lineage(other, offset) == lineage(each, offset)
            for place, other in enumerate(made)
            if place != number
        )
    }
    found = compare_values(made)
    assert expected == {
        (number, offset) for number, (first, end) in found.alone for offset in range(first, end)
    }


# --- leader epochs


def test_batches_contradict_a_checkpoint(tmp_path: Path) -> None:
    """The batches are the same: what a checkpoint says of them is no difference of content."""
    log = append(append(BASE[:4], 2, 3), 5, 3)
    nodes = lay_out(tmp_path, [log, log])
    (nodes[1] / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    ran = compare(*nodes)
    assert list(ran.of("difference")) == []
    assert partition(ran)["alone"] == []


def test_a_log_whose_records_are_all_deleted_has_its_last_epoch() -> None:
    """As ``LeaderEpochFileCache.truncateFromStart`` leaves it: it needs no high watermark."""
    empty = LeaderEpochs.of([EpochEntry(3, 50), EpochEntry(5, 80)], 100, 100)
    assert empty.entries == (EpochEntry(5, 100),)
    leader = LeaderEpochs.of([EpochEntry(5, 80)], 80, 250)
    assert truncation(empty, leader) is None
    shorter = LeaderEpochs.of([EpochEntry(5, 80)], 80, 90)
    assert truncation(empty, shorter) == Truncation(90)


# --- compacted topics


def compacted(directory: Path, gone: set[int], checkpoint: int | None, *, spoilt: int = -1) -> None:
    """Two segments, from offset 0 and from 18: a cleaner has removed the records ``gone``."""
    segments: dict[int, list[bytes]] = {0: [], 18: []}
    for batch in BASE:
        records = [
            forge.record(key=b"k%d" % (batch.base + i), value=b"v", offset_delta=i)
            for i in range(batch.count)
            if batch.base + i not in gone
        ]
        count = None if batch.base != spoilt else len(records) + 1
        if records:
            segments[0 if batch.base < 18 else 18].append(
                forge.batch(batch.base, records, last_offset_delta=2, count=count)
            )
    forge.write_partition(directory, copies.TOPIC, 0, segments)
    if checkpoint is not None:
        (directory / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {checkpoint}\n")


@pytest.mark.parametrize("checkpoint", [None, 0, 3, 6, 18])
def test_a_cleaner_that_was_stopped_has_cleaned_more_than_it_noted(
    tmp_path: Path, checkpoint: int | None
) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    compacted(nodes[0], {0, 4, 6, 7, 8, 9, 10, 11, 13}, checkpoint)
    compacted(nodes[1], set(), 0)
    ran = compare(*nodes)
    assert (ran.code, list(ran.of("difference"))) == (0, [])


def test_the_last_segment_is_not_cleaned(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    compacted(nodes[0], {18, 19, 20}, 6)
    compacted(nodes[1], set(), 0)
    ran = compare(*nodes)
    assert [line["offset"] for line in ran.of("difference")] == [18]


def test_records_that_cannot_be_read_are_the_same_in_both_orders(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    compacted(nodes[0], {0}, 18, spoilt=3)
    compacted(nodes[1], {6}, 18)
    for order in (nodes, nodes[::-1]):
        ran = compare(*order)
        assert (ran.code, partition(ran)["state"]) == (0, "equal")
        assert partition(ran)["uncompared"] == [{"copies": [1, 2], "batches": 1}]
        assert "the records of 1 pair of batches" in copies.text(*order)


# --- paths


def test_a_directory_without_segments(tmp_path: Path) -> None:
    (node,) = lay_out(tmp_path, [BASE])
    empty = copies.node(tmp_path, 1) / "t-0"
    empty.mkdir()
    ran = compare(empty, node)
    assert (ran.code, partition(ran)["state"]) == (0, "lagging")
    # Outside of a log directory it may as well be a mount that failed.
    stray = tmp_path / "a" / "t-0"
    stray.mkdir(parents=True)
    ran = compare(stray, node)
    assert (ran.code, ran.lines) == (5, ())
    assert f"{stray}: expected a segment, a partition directory or a log directory" in ran.said


def test_one_directory_in_several_spellings_is_one_copy(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    (tmp_path / "link").symlink_to("node0")
    for paths in (
        [nodes[0], tmp_path / "link", nodes[0] / ".." / "node0"],
        [nodes[0], tmp_path / "link" / "t-0", nodes[0] / "t-0"],
        [tmp_path / "link" / "t-0", nodes[0]],
    ):
        ran = compare(*paths)
        assert (ran.code, partition(ran)["copies"]) == (0, 1)


def test_one_copy_shows_the_compaction_of_another(tmp_path: Path) -> None:
    """A single gap shows none: in a partition without its log directory it would be a loss."""
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    compacted(nodes[0], {3, 4, 5}, None)
    compacted(nodes[1], {0, 4, 6, 7, 8, 13}, None)
    alone = []
    for number, directory in enumerate(nodes):
        (tmp_path / str(number)).mkdir()
        alone.append((directory / "t-0").rename(tmp_path / str(number) / "t-0"))
    ran = compare(*alone)
    assert (ran.code, partition(ran)["state"]) == (0, "equal")
    assert [line["damages"] for line in ran.of("copy")] == [[], []]


def test_a_directory_of_another_name_is_compared_by_a_link(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    renamed = (nodes[1] / "t-0").rename(tmp_path / "t-0.before")
    ran = compare(nodes[0], renamed)
    assert (ran.code, "named TOPIC-PARTITION" in ran.said) == (2, True)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "t-0").symlink_to(renamed)
    ran = compare(nodes[0], tmp_path / "links" / "t-0")
    assert (ran.code, partition(ran)["copies"]) == (0, 2)
