"""What ``kdump compare`` advises: each step is followed to its end, in the order of the report."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from commands.compare.copy_values import beside, copy
from commands.compare.following import REPAIRS, commands_of, follow, text_of
from kdump.copies.comparison import Held
from kdump.copies.comparison import compare as compare_values
from kdump.copies.copy import END_MISSING, Copy, LostOffsets, OffsetRange
from kdump.copies.lineage import LeaderEpochs
from kdump.format.checkpoint import EpochEntry
from kdump.ui import exits
from support import copies, forge, forge_metadata
from support.copies import BASE, append, lay_out
from support.crashing.running import run
from support.fixtures_loader import REPLICAS, copy_fixture, few_first

pytestmark = pytest.mark.once

METADATA = "__cluster_metadata-0"
#: So many of the seeded damages run each time.
ORDINARY, ALL = 4, 200


# --- damage is laid beside what others hold


@pytest.mark.parametrize("name", few_first(REPLICAS))
@pytest.mark.slow
def test_a_lost_end_is_healed_without_an_election(name: str, tmp_path: Path) -> None:
    top = copy_fixture(name, tmp_path / "nodes")
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    text = text_of("--topic", "behind", *(top / node for node in "123"))
    found = " ".join(text.split())
    assert "offsets 41..56: end-missing; valid in 1 only in 1 offsets 41..56" in found
    assert [words[1] for words in commands_of(text)] == ["heal", "compare"]
    after = follow(text)
    assert "\n  lost " not in after
    assert "start node 2 first" in after
    assert commands_of(after) == []


def lost(end: int, *ranges: tuple[int, int], node: int = 2, known: int | None = None) -> Copy:
    """A copy up to ``end`` that has lost ranges; its epochs are known up to ``known``."""
    found = tuple(LostOffsets(Path("x"), 0, 0, *each, reason=END_MISSING) for each in ranges)
    made = replace(copy(node, end), lost=found)
    once = None if known is None else LeaderEpochs.of([EpochEntry(0, 0)], 0, known)
    return replace(made, once=once)


def test_what_several_copies_hold_together_is_named_in_parts() -> None:
    found = beside(copy(1, 48), lost(41, (41, 57)), copy(3, 57, (0, 0)), in_sync=(2,))
    assert found.sound_in[1] == (((2,)),)
    assert set(found.held[1][0]) == {Held(0, OffsetRange(41, 48)), Held(2, OffsetRange(41, 57))}
    short = beside(copy(1, 48), lost(41, (41, 57)), in_sync=(2,))
    assert short.sound_in[1] == ((),)
    assert short.held[1] == ((Held(0, OffsetRange(41, 48)),),)
    assert short.heal_sources(1) == (0,)


def test_a_later_epoch_of_the_lost_end_is_in_no_copy_without_it() -> None:
    """The checkpoint still has the epoch of the offsets from 50 on; the other copy wrote others."""
    own = replace(
        lost(41, (41, 57)), once=LeaderEpochs.of([EpochEntry(0, 0), EpochEntry(8, 50)], 0, 57)
    )
    found = compare_values([copy(1, 57), own])
    assert found.held[1] == ((Held(0, OffsetRange(41, 50)),),)


def test_another_lineage_holds_nothing_of_a_lost_end() -> None:
    found = compare_values([copy(1, 57, (0, 0), (4, 16)), lost(41, (41, 57), known=57)])
    assert found.held[1] == ((),)
    assert found.heal_sources(1) == ()


@pytest.mark.parametrize("seed", range(30))
def test_what_is_held_by_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    made = []
    for node in range(3):
        offsets = sorted(rng.sample(range(60), 2 * rng.randrange(6)))
        pairs = list(zip(offsets[::2], offsets[1::2], strict=True))
        made.append(lost(60, *pairs, node=node))
    found = compare_values(made)
    gone = [{at for each in one.lost for at in range(each.first, each.end or 0)} for one in made]
    for index, one in enumerate(made):
        for each, parts in zip(one.lost, found.held[index], strict=True):
            held = {(part.copy, at) for part in parts for at in range(*part.offsets)}
            assert held == {
                (other, at)
                for other in range(3)
                for at in range(each.first, each.end or 0)
                if at not in gone[other]
            }


# --- the sequence


def lead(directory: Path, nodes: list[int], in_sync: list[int]) -> None:
    """Write a metadata log with the replicas of the partition into a log directory."""
    (directory / METADATA).mkdir()
    values = [
        forge_metadata.topic(copies.TOPIC, forge.TOPIC_ID),
        forge_metadata.partition(forge.TOPIC_ID, 0, nodes, in_sync=in_sync),
    ]
    (directory / forge_metadata.segment_name()).write_bytes(forge_metadata.log(values))


def test_a_copy_in_sync_that_forgot_its_end_is_healed_too(tmp_path: Path) -> None:
    """No checkpoint says how far it went; the watermark of another one does."""
    nodes = lay_out(tmp_path, [append(BASE, 1, 6), BASE])
    lead(nodes[0], [0, 1], [1])
    text = text_of(*nodes)
    assert [words[1] for words in commands_of(text)] == ["heal", "compare"]
    after = follow(text)
    assert commands_of(after) == []


def test_an_election_stays_where_nothing_heals(tmp_path: Path) -> None:
    """Compacted logs get no end from others: ``heal`` would take nothing."""
    found = beside(
        replace(copy(1, 30, watermark=30), compacted=True),
        replace(copy(2, 20, watermark=30), compacted=True),
        in_sync=(2,),
    )
    assert found.unclean
    assert found.heal_sources(1) == ()


def test_a_follower_fetches_its_end_itself() -> None:
    found = beside(copy(1, 57), lost(41, (41, 57)), in_sync=(1,))
    assert found.sound_in[1] == ((0,),)
    assert found.heal_sources(1) == ()


@pytest.mark.slow
def test_all_commands_are_printed(tmp_path: Path) -> None:
    nodes = [copies.node(tmp_path, number) for number in range(2)]
    names = [f"t{number}" for number in range(5)]
    for directory in nodes:
        for name in names:
            segments = {0: [batch.data() for batch in BASE]}
            forge.write_partition(directory, name, 0, segments)
    for name in names:
        log = nodes[1] / f"{name}-0" / f"{0:020}.log"
        log.write_bytes(forge.flip(log.read_bytes(), len(BASE[0].data()) + 80))
    text = text_of(*nodes)
    assert [words[1] for words in commands_of(text)] == [*["heal"] * len(names), "compare"]
    assert " more" not in text.partition("\nnext ")[2]
    follow(text)
    assert text_of(*nodes).startswith("OK            The replicas of 5 partitions are equal.")


def test_a_replica_that_was_set_aside_is_named_and_no_other_is_elected(tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "nodes")
    aside = top / "2" / f"same-0.{32 * '1'}-stray"
    (top / "2" / "same-0").rename(aside)
    command = ["compare", str(top / "1"), str(top / "2")]
    text = "".join(run(command).out.split())  # a long path is folded
    assert f"itisin{aside},whichabrokerdoesnotuse" in text
    assert f"1whileitsbrokerisstopped,rename{aside}tosame-02compareagain" in text
    assert "--topicsame-" not in text
    # The log of another topic of that name is not the replica.
    (aside / "partition.metadata").write_text("version: 0\ntopic_id: dGhlLXRvcGljLXRoYXQtZw")
    text = "".join(run(command).out.split())
    assert "--election-typeunclean--topicsame-" in text
    assert str(aside) not in text


def test_other_partitions_keep_their_steps_behind(tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "nodes")
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    text = text_of(*(top / node for node in "123"))
    words = [each[1] for each in commands_of(text)]
    assert words == ["heal", "compare", *["salvage"] * (len(words) - 2)]
    assert len(words) > 8
    steps = " ".join(text.partition("\nnext ")[2].split())
    assert steps.endswith("4 start node 2 first for the other partitions")


@pytest.mark.parametrize("made", [(1, 2), (2,), (1,)])
@pytest.mark.slow
def test_commands_for_manifests_are_for_their_hosts(made: tuple[int, ...], tmp_path: Path) -> None:
    top = copy_fixture(REPLICAS[0], tmp_path / "nodes")
    for path in (top / "2" / "behind-0").glob("00000000000000000041.*"):
        path.unlink()
    paths = [top / "1", top / "2"]
    for number in made:
        file = tmp_path / f"{number}.kdm"
        assert run(["manifest", str(top / str(number)), "--to", str(file)]).code == exits.OK
        paths[number - 1] = file
    text = text_of("--topic", "behind", *paths)
    heal, again = commands_of(text)
    assert heal == ["kdump", "heal", str(top / "2" / "behind-0"), "--from", "COPY"]
    assert again[:4] == ["kdump", "compare", "--topic", "behind"]
    assert "copied to its host as COPY" in " ".join(text.split())


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=() if seed < ORDINARY else pytest.mark.nightly)
        for seed in range(ALL)
    ],
)
@pytest.mark.slow
def test_followed_to_its_end_nothing_is_left_to_heal(seed: int, tmp_path: Path) -> None:
    """Of copies with damage that no two of them share."""
    rng = random.Random(seed)
    nodes = lay_out(tmp_path, [append(BASE, 1, 20)] * 3, rolls=(4, 7, 32))
    lead(nodes[0], [0, 1, 2], [rng.randrange(3)])
    damaged = rng.randrange(3)
    logs = sorted((nodes[damaged] / "t-0").glob("*.log"))
    for log in rng.sample(logs, min(len(logs), rng.randrange(1, 4))):
        data = log.read_bytes()
        kind = rng.randrange(3)
        if kind == 0 and len(logs) > 1:
            log.unlink()
        elif kind == 1:
            log.write_bytes(forge.flip(data, rng.randrange(61, len(data))))
        else:
            log.write_bytes(data[: rng.randrange(len(data))])
    text = text_of(*nodes)
    for _ in range(2):  # a log that was not in order may lack other batches too
        if any(words[1] in REPAIRS for words in commands_of(text)):
            text = follow(text)
    assert not any(words[1] in REPAIRS for words in commands_of(text)), text
    assert not any(words[0].startswith("kafka") for words in commands_of(text)), text


# --- offsets and leader epochs, which no checksum covers


def header(log: Path, number: int, **fields: int) -> None:
    """Write a base offset or a leader epoch into the batch with this number of a file."""
    data, at = bytearray(log.read_bytes()), 0
    for _ in range(number):
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    if "base" in fields:
        data[at : at + 8] = fields["base"].to_bytes(8)
    if "epoch" in fields:
        data[at + 12 : at + 16] = fields["epoch"].to_bytes(4, signed=True)
    log.write_bytes(data)


#: Of 12 batches of 3 records and 20 of 1: the batch, its fields, and where its log is truncated.
_HEADERS: dict[str, tuple[int, dict[str, int], int]] = {
    "offset-up": (20, {"base": 65_580}, 44),
    "offset-down": (20, {"base": 3}, 3),
    "offset-twice": (20, {"base": 43}, 43),
    "last-offset-up": (31, {"base": 9_000}, 55),
    "epoch-up": (20, {"epoch": 1 << 24}, 44),
    "epoch-down": (20, {"epoch": 0}, 44),
    "epoch-negative": (20, {"epoch": -7}, 44),
}


@pytest.mark.parametrize("nodes", [2, 3])
@pytest.mark.parametrize("kind", _HEADERS)
@pytest.mark.slow
def test_a_log_out_of_order_is_truncated_and_then_healed(
    kind: str, nodes: int, tmp_path: Path
) -> None:
    number, fields, expected = _HEADERS[kind]
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * nodes, rolls=(40, 7, 40))
    lead(paths[1], [*range(nodes)], [0])
    log = paths[0] / "t-0" / f"{0:020}.log"
    whole = log.read_bytes()
    header(log, number, **fields)
    text = text_of(*paths)
    assert [words[1] for words in commands_of(text)] == ["truncate-to-valid", "heal", "compare"]
    assert commands_of(text)[0][-2:] == ["--at", str(expected)]
    assert follow(text).startswith("OK            The replicas of 1 partition are equal.")
    after = b"".join(path.read_bytes() for path in sorted((paths[0] / "t-0").glob("*.log")))
    assert after == whole


# --- batches that are missing in each of them


def remove(log: Path, *numbers: int) -> None:
    """Remove the batches with these numbers from a file."""
    data, at, left = log.read_bytes(), 0, list[bytes]()
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12])
        left.append(data[at : at + size])
        at += size
    log.write_bytes(b"".join(each for number, each in enumerate(left) if number not in numbers))


#: The batches that each replica lacks, of 12 with 3 records and 20 with 1.
UNITED = {
    "two": ((5,), (25,)),
    "two, the first one last": ((25,), (5,)),
    "two of two": ((5, 9), (25, 27)),
    "three": ((5,), (25,), (14,)),
    "one has all": ((5,), (), (14,)),
}


@pytest.mark.parametrize("name", UNITED)
@pytest.mark.slow
def test_replicas_that_each_lack_batches_get_all_from_each_other(name: str, tmp_path: Path) -> None:
    """The one whose last batches others have is first: it lacks none of the earlier ones."""
    nodes = lay_out(tmp_path, [append(BASE, 1, 20)] * len(UNITED[name]), rolls=(40, 40, 40))
    for path in nodes:
        lead(path, [*range(len(nodes))], [*range(len(nodes))])
    logs = [path / "t-0" / f"{0:020}.log" for path in nodes]
    whole = logs[0].read_bytes()
    for log, numbers in zip(logs, UNITED[name], strict=True):
        remove(log, *numbers)
    text = text_of(*nodes)
    for _ in nodes:
        if any(words[1] in REPAIRS for words in commands_of(text)):
            text = follow(text)
    assert text.startswith("OK            The replicas of 1 partition are equal."), text
    for path in nodes:
        files = sorted((path / "t-0").glob("*.log"))
        assert b"".join(file.read_bytes() for file in files) == whole


def steps_of(text: str) -> str:
    return " ".join(text.partition("\nnext ")[2].split())


@pytest.mark.parametrize("in_sync", [[0, 1], [0]])
def test_what_each_leader_loses_is_said_where_no_repair_unites_them(
    in_sync: list[int], tmp_path: Path
) -> None:
    nodes = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    lead(nodes[0], [0, 1], in_sync)
    logs = [path / "t-0" / f"{0:020}.log" for path in nodes]
    remove(logs[0], 5, 25)
    remove(logs[1], 15)
    first, other = (1, 0) if 1 in in_sync else (0, 1)
    unclean = "" if 1 in in_sync else " after an unclean election"
    lacks = ("offsets 15..17, 49..49", "offsets 39..39")
    assert steps_of(text_of(*nodes)) == (
        "1 t-0: no replica has all records, and heal cannot unite them. The leader decides what "
        f"is lost, least if node 1 leads{unclean}: node {first} lacks {lacks[first]}, node {other} "
        f"lacks {lacks[other]}. To save the others first: kdump salvage {nodes[other] / 't-0'} "
        f"--output DIR 2 start node {first} first"
    )


def test_what_each_of_two_logs_out_of_order_loses_is_said(tmp_path: Path) -> None:
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", 20, base=65_580)
    header(paths[1] / "t-0" / f"{0:020}.log", 17, epoch=1 << 20)
    said = steps_of(text_of(*paths))
    assert "no replica has all records, and heal cannot unite them" in said
    assert "node 0 lacks offsets" in said


def test_replicas_that_lack_the_same_are_no_choice(tmp_path: Path) -> None:
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    for path in paths:
        remove(path / "t-0" / f"{0:020}.log", 5)
    assert "no replica has all records" not in steps_of(text_of(*paths))


@pytest.mark.parametrize("name", few_first(REPLICAS))
@pytest.mark.slow
def test_logs_of_brokers_out_of_order_are_healed(name: str, tmp_path: Path) -> None:
    top = copy_fixture(name, tmp_path / "nodes")
    partition = top / "2" / "behind-0"
    log = min(partition.glob("*.log"))
    whole = [path.read_bytes() for path in sorted(partition.glob("*.log"))]
    header(log, 2, epoch=1 << 16)
    text = text_of("--topic", "behind", *(top / node for node in "123"))
    assert [words[1] for words in commands_of(text)] == ["truncate-to-valid", "heal", "compare"]
    after = follow(text)
    assert "differs" not in after
    assert commands_of(after) == []
    healed = [path.read_bytes() for path in sorted(partition.glob("*.log"))]
    assert b"".join(healed) == b"".join(whole)


@pytest.mark.slow
def test_a_committed_end_is_restored_in_the_same_step(tmp_path: Path) -> None:
    """The truncation lowers the only watermark that says how far the log went."""
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    lead(paths[1], [0, 1], [0])
    (paths[1] / "replication-offset-checkpoint").write_text("0\n1\nt 0 40\n")
    header(paths[0] / "t-0" / f"{0:020}.log", 20, epoch=0)
    assert follow(text_of(*paths)).startswith(
        "OK            The replicas of 1 partition are equal."
    )


def truncated(*paths: Path) -> bool:
    """Whether a report says to truncate a replica."""
    return any(words[1] == "truncate-to-valid" for words in commands_of(text_of(*paths)))


def test_what_lies_before_the_start_of_the_other_is_not_truncated(tmp_path: Path) -> None:
    log = append(BASE, 1, 20)
    paths = lay_out(tmp_path, [log, log[10:]], rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", 20, base=3)
    assert not truncated(*paths)


def test_beside_a_directory_without_segments_nothing_is_truncated(tmp_path: Path) -> None:
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", 20, base=65_580)
    for path in (paths[1] / "t-0").glob("0*"):
        path.unlink()
    assert not truncated(*paths)


def test_a_batch_is_not_taken_for_an_equal_one_beside_it(tmp_path: Path) -> None:
    """One log lacks a heartbeat in its middle, the other one the last."""
    log = [copies.Batch(0, number, 1) for number in range(30)]
    same = log[0].data()[8:]  # the base offset is outside of the checksum
    beats = [number.to_bytes(8) + same for number in range(30)]
    paths = lay_out(tmp_path, [log, log], rolls=(40, 40))
    for path, kept in zip(paths, (beats[:20] + beats[21:], beats[:-1]), strict=True):
        (path / "t-0" / f"{0:020}.log").write_bytes(b"".join(kept))
    assert not truncated(*paths)


def test_records_that_no_other_copy_has_are_not_truncated(tmp_path: Path) -> None:
    """The later batches of the leader are its own: the others wrote different ones."""
    log = append(BASE, 1, 20, seed=1)
    paths = lay_out(tmp_path, [log, append(BASE, 1, 20, seed=2)], rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", 20, epoch=0)
    assert not truncated(*paths)


@pytest.mark.parametrize("kind", ["offset-up", "epoch-down"])
def test_of_two_logs_out_of_order_neither_is_truncated(kind: str, tmp_path: Path) -> None:
    number, fields, _ = _HEADERS[kind]
    paths = lay_out(tmp_path, [append(BASE, 1, 20)] * 2, rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", number, **fields)
    header(paths[1] / "t-0" / f"{0:020}.log", 17, epoch=1 << 20)
    assert not truncated(*paths)


def test_what_a_shorter_copy_lacks_is_not_truncated(tmp_path: Path) -> None:
    """It has the same batches up to its end, and the other log goes on."""
    paths = lay_out(tmp_path, [append(BASE, 1, 20), append(BASE, 1, 15)], rolls=(40, 40))
    header(paths[0] / "t-0" / f"{0:020}.log", 13, epoch=0)
    assert not truncated(*paths)
