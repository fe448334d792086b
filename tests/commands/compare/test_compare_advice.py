"""What ``kdump compare`` advises: each step is followed to its end, in the order of the report."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from commands.compare.copy_values import beside, copy
from commands.compare.following import commands_of, follow, text_of
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
    assert "damage" not in after
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
    assert text_of(*nodes).startswith("result      5 equal")


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
    if any(words[1] == "heal" for words in commands_of(text)):
        text = follow(text)
    assert not any(words[1] == "heal" for words in commands_of(text)), text
    assert not any(words[0].startswith("kafka") for words in commands_of(text)), text
