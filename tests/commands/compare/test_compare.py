"""``kdump compare`` on copies of which everything is known."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path

import pytest

from support import copies, forge
from support.commands import kdump
from support.copies import BASE, Log, append, compare, lay_out, partition, truncations

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True, params=["workers", pytest.param("spark", marks=pytest.mark.spark)])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who carries the stages out: workers, or in this process what stands in for Spark."""
    if request.param == "spark":
        from support import matrix_spark

        matrix_spark.stand_in(monkeypatch.setattr)
        on_spark = partial(kdump, "compare", "--master", "local[2]")
        monkeypatch.setattr(copies, "kdump", lambda _, *paths, **how: on_spark(*paths, **how))


def test_equal_copies_with_other_segments(tmp_path: Path) -> None:
    ran = compare(*lay_out(tmp_path, [BASE, BASE, BASE], rolls=(5, 3, 12)))
    assert (ran.code, partition(ran)["state"]) == (0, "equal")
    assert partition(ran)["alone"] == []
    assert set(truncations(ran).values()) == {None}


def test_a_copy_that_lags(tmp_path: Path) -> None:
    ran = compare(*lay_out(tmp_path, [BASE, BASE[:9], BASE]))
    assert (ran.code, partition(ran)["state"]) == (0, "lagging")
    assert truncations(ran)[1, 0] == 27
    (leader,) = (line for line in ran.of("leader") if line["copy"] == 2)
    assert [cut["records"] for cut in leader["truncations"]] == [9, 9]
    assert [line["preference"] for line in ran.of("copy")] == [1, 3, 2]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.slow
def test_copies_after_unclean_elections(tmp_path: Path, seed: int) -> None:
    """The offsets at which lineages part, what is cut and what is held alone, by brute force."""
    rng = random.Random(seed)
    logs = copies.histories(rng, rng.randrange(2, 9))
    ran = compare(*lay_out(tmp_path, logs, rolls=[rng.randrange(1, 6) for _ in logs]))
    parted = {}
    for one, other in combinations(range(3), 2):
        common = copies.end(logs[one][: copies.shared(logs[one], logs[other])])
        ends = [copies.end(logs[number]) for number in (one, other)]
        parted[one, other] = parted[other, one] = common
        if common < min(ends):
            assert {
                "kind": "epochs",
                "copies": [one + 1, other + 1],
                "offset": common,
            }.items() <= next(
                line.items()
                for line in ran.of("difference")
                if line["copies"] == [one + 1, other + 1]
            )
    differ = any(
        offset < min(copies.end(logs[a]), copies.end(logs[b])) for (a, b), offset in parted.items()
    )
    assert ran.code == (4 if differ else 0)
    assert len(list(ran.of("difference"))) == len(
        [1 for a, b in combinations(range(3), 2)
         if parted[a, b] < min(copies.end(logs[a]), copies.end(logs[b]))]
    )  # fmt: skip
    assert truncations(ran) == {
        (leader, follower): parted[leader, follower]
        if parted[leader, follower] < copies.end(logs[follower])
        else None
        for leader in range(3)
        for follower in range(3)
        if leader != follower
    }
    for line in ran.of("leader"):
        for cut in line["truncations"]:
            log = logs[cut["copy"] - 1]
            lost = [batch for batch in log if batch.base >= (cut["offset"] or 0)]
            assert cut["records"] == (
                0 if cut["offset"] is None else sum(batch.count for batch in lost)
            )
    alone = {
        (number, offset)
        for number, log in enumerate(logs)
        for offset in range(copies.end(log))
        if all(offset >= parted[number, other] for other in range(3) if other != number)
    }
    assert alone == {
        (found["copy"] - 1, offset)
        for found in partition(ran)["alone"]
        for offset in range(found["first_offset"], found["last_offset"] + 1)
    }


def test_other_records_in_one_epoch(tmp_path: Path) -> None:
    """No sound cluster has that: checksums are right, and epochs are equal."""
    other = [*BASE[:7], replace(BASE[7], seed=99), *BASE[8:]]
    ran = compare(*lay_out(tmp_path, [BASE, other, BASE]))
    assert ran.code == 4
    found = [(line["kind"], line["copies"], line["offset"]) for line in ran.of("difference")]
    assert found == [("content", [1, 2], 21), ("content", [2, 3], 21)]


def test_a_base_offset_that_no_checksum_covers(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    log = nodes[1] / "t-0" / f"{0:020}.log"
    data = log.read_bytes()
    size = len(BASE[0].data())
    log.write_bytes(data[: size + 7] + b"\x04" + data[size + 8 :])  # 3 becomes 4
    ran = compare(*nodes)
    assert ran.code == 4
    assert [(line["kind"], line["offset"]) for line in ran.of("difference")] == [("content", 3)]


def test_damage_is_sound_elsewhere(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE, BASE])
    sizes = [len(batch.data()) for batch in BASE]
    for directory in nodes[:2]:
        log = directory / "t-0" / f"{0:020}.log"
        log.write_bytes(forge.flip(log.read_bytes(), sizes[0] + 80))
    (nodes[2] / "t-0" / f"{15:020}.log").unlink()
    ran = compare(*nodes)
    assert (ran.code, partition(ran)["state"]) == (4, "different")
    assert list(ran.of("difference")) == []
    damages = [line["damages"] for line in ran.of("copy")]
    for found in damages[:2]:
        (damage,) = found
        assert damage["path"].endswith(f"{0:020}.log")
        del damage["path"]
        assert damage == {
            "position": sizes[0],
            "size": sizes[1],
            "first_offset": 3,
            "last_offset": 5,
            "reason": "bad-checksum",
            "sound_in": [3],
            "held": [{"copy": 3, "first_offset": 3, "last_offset": 5}],
        }
    (damage,) = damages[2]
    assert (damage["reason"], damage["first_offset"], damage["last_offset"]) == (
        "segment-missing",
        15,
        29,
    )
    assert damage["sound_in"] == [1, 2]
    assert partition(ran)["alone"] == [{"copy": 3, "first_offset": 3, "last_offset": 5}]


def test_a_torn_tail_is_sound_elsewhere(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    log = nodes[1] / "t-0" / f"{30:020}.log"
    log.write_bytes(log.read_bytes()[:-10])
    ran = compare(*nodes)
    assert ran.code == 4
    (damage,) = list(ran.of("copy"))[1]["damages"]
    assert (damage["reason"], damage["first_offset"], damage["last_offset"]) == (
        "torn-tail",
        33,
        None,
    )
    assert damage["sound_in"] == [1]
    assert truncations(ran) == {(0, 1): None, (1, 0): 33}


def test_recreated_topics_are_told_apart(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(3)]
    other_id = "BBBBBBBBQBCBBBBBBBBBBQ"
    copies.write(nodes[0], BASE)
    copies.write(nodes[1], append(BASE[:2], 0, 5, seed=7), topic_id=other_id)
    copies.write(nodes[2], BASE[:9])
    ran = compare(*nodes)
    assert ran.code == 4
    found = [(line["kind"], line["copies"]) for line in ran.of("difference")]
    assert found == [("recreated", [1, 2]), ("recreated", [2, 3])]
    assert set(truncations(ran)) == {(0, 2), (2, 0)}


def cleaned(directory: Path, log: Log, gone: set[int], offset: int, changed: int = -1) -> None:
    """Write a log of which a cleaner has removed the records at offsets ``gone``."""
    batches = []
    for batch in log:
        records = [
            forge.record(
                key=b"k%d" % (batch.base + i),
                value=(b"changed" if batch.base + i == changed else b"%d" % batch.seed * 20),
                offset_delta=i,
            )
            for i in range(batch.count)
            if batch.base + i not in gone
        ]
        if records:
            batches.append(
                forge.batch(
                    batch.base,
                    records,
                    leader_epoch=batch.epoch,
                    last_offset_delta=batch.count - 1,
                )
            )
    forge.write_partition(directory, copies.TOPIC, 0, {0: batches})
    (directory / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")


def test_compacted_copies_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(3)]
    cleaned(nodes[0], BASE, {0, 1, 2, 4, 9, 10, 11}, 18)
    cleaned(nodes[1], BASE, {1, 6, 7, 8}, 12)
    cleaned(nodes[2], BASE, {1, 6, 7, 8}, 12, changed=5)
    ran = compare(*nodes[:2])
    assert (ran.code, partition(ran)["state"]) == (0, "equal")
    ran = compare(nodes[0], nodes[2])
    assert [(line["kind"], line["offset"]) for line in ran.of("difference")] == [("content", 5)]


def test_what_no_cleaner_has_reached_is_compared_as_a_whole(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    cleaned(nodes[0], BASE, {30}, 30)
    cleaned(nodes[1], BASE, set(), 30)
    ran = compare(*nodes)
    assert [(line["kind"], line["offset"]) for line in ran.of("difference")] == [("content", 30)]


@pytest.mark.parametrize("clean", [True, False])
def test_a_copy_without_its_leader_epochs(tmp_path: Path, clean: bool) -> None:
    """After a clean stop its broker has none, and goes by ends alone: real brokers did so."""
    logs = [append(BASE, 1, 5), append(BASE[:9], 2, 3)]
    nodes = lay_out(tmp_path, logs)
    (nodes[0] / "t-0" / "leader-epoch-checkpoint").unlink()
    if not clean:
        (nodes[0] / ".kafka_cleanshutdown").unlink()
        (nodes[0] / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    ran = compare(*nodes)
    assert [(line["kind"], line["offset"]) for line in ran.of("difference")] == [("epochs", 27)]
    # Leader 2 ends at 30, copy 1 at 41.
    assert truncations(ran) == ({(0, 1): None, (1, 0): 30} if clean else {(0, 1): 27, (1, 0): 27})


def test_partitions_and_log_directories_may_be_mixed(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE[:4]])
    ran = compare(nodes[0] / "t-0", nodes[1])
    assert (ran.code, partition(ran)["state"]) == (0, "lagging")
    assert [line["node_id"] for line in ran.of("copy")] == [0, 1]


def test_a_single_copy_is_alone(tmp_path: Path) -> None:
    ran = compare(*lay_out(tmp_path, [BASE]))
    assert (ran.code, partition(ran)["state"], partition(ran)["alone"]) == (0, "alone", [])


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE, BASE])
    ran = compare(nodes[0], tmp_path / "absent")
    assert (ran.code, "absent" in ran.said) == (5, True)


def test_segments_and_metadata_logs_are_no_copies(tmp_path: Path) -> None:
    nodes = lay_out(tmp_path, [BASE])
    assert compare(nodes[0] / "t-0" / f"{0:020}.log").code == 2
    metadata = Path("fixtures/brokers/4.3.1/clean/__cluster_metadata-0").absolute()
    ran = compare(metadata)
    assert ran.code == 2
    assert "kdump quorum" in ran.said
