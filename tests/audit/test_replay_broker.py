"""replay() against the loader of real brokers, on recipes and on seeded histories.

After an unclean stop a broker reads everything and writes down what it found: a transaction index
for each segment, a snapshot before each and at the end, the leader epochs.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from brokers.oracle import Loaded, Oracle, Refused
from kdump.audit.replay.replay import Replay, ViolationKind, replay
from kdump.audit.survey.survey import survey
from kdump.format.checkpoint import decode_epochs
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import decode_snapshot
from kdump.storage.logdir import read_partition
from kdump.storage.paths import as_local
from support import forge
from support.damaged import LAST
from support.forge import marker, write_partition
from support.recipes_producers import RECIPES, History, data, one, plain
from support.releases import LOADERS

Of = Callable[[str], Oracle]

broker = pytest.mark.broker
#: What replay follows a broker in: a log without damage that recovery would cut at.
REPLAYED = [
    recipe
    for recipe in RECIPES
    if not any(code.startswith(("batch", "offsets")) for code in recipe.expected)
    and not any(name.endswith(".log") for name in recipe.files)
    # A bad transaction index makes a broker recover its segment before the others; 4.4 refuses
    # one of another version.
    and recipe.name not in {"txnindex-below", "txnindex-newer"}
]
FATAL = {ViolationKind.PLAIN, ViolationKind.CONTROL_FATAL, ViolationKind.CONTROL_CUT}


def of(directory: Path) -> Replay:
    return replay(
        [
            survey(segment, lambda _: None, mapped=False, sealed=True, deep=False)
            for segment in read_partition(directory).segments
        ]
    )


def load(oracle: Oracle, directory: Path) -> Loaded | Refused:
    for file in ("leader-epoch-checkpoint", "partition.metadata"):
        (directory / file).unlink(missing_ok=True)
    return oracle.load(directory)


def recent(batches: Iterable[bytes]) -> list[bytes]:
    """The same batches of today, so that no producer expires."""
    shift, shifted = int(time.time() * 1000) - forge.TIMESTAMP, []
    for each in batches:
        if each[16:17] == b"\2":
            times = (stamp + shift for stamp in struct.unpack_from(">qq", each, 27))
            checked = each[21:27] + struct.pack(">qq", *times) + each[43:]
            each = each[:17] + struct.pack(">I", crc32c(checked)) + checked
        shifted.append(each)
    return shifted


def compare(found: Replay, directory: Path) -> None:
    """Hold a replay of ``directory`` as it was against what a broker has written there since."""
    states = {offset: set(state.values()) for offset, state in found.states()}
    snapshots = {
        int(file.stem): {
            entry
            for entry in decode_snapshot(file.read_bytes())
            # An emptied control batch makes a broker's recovery write an entry that says nothing.
            if entry.producer_epoch >= 0
        }
        for file in directory.glob("*.snapshot")
    }
    assert found.end_offset in snapshots
    assert snapshots == {offset: states[offset] for offset in snapshots}
    for segment in found.segments:
        file = segment.survey.segment.log.with_suffix(".txnindex")
        entries = (
            TransactionIndex.decode(as_local(file).read_bytes()).entries if file.exists() else ()
        )
        assert segment.aborted == entries
    epochs = directory / "leader-epoch-checkpoint"
    assert (decode_epochs(epochs.read_bytes()) if epochs.exists() else ()) == found.epochs


@broker
@pytest.mark.parametrize("version", LOADERS)
@pytest.mark.parametrize("recipe", REPLAYED, ids=lambda recipe: recipe.name)
def test_a_recipe_is_replayed_as_by_a_broker(
    recipe: History, version: str, oracle: Of, tmp_path: Path
) -> None:
    fresh = replace(recipe, first=recent(recipe.first), last=recent(recipe.last))
    directory = fresh.write(tmp_path)
    found = of(directory)
    violations = [violation for segment in found.segments for violation in segment.violations]
    done = load(oracle(version), directory)
    if any(violation.kind in FATAL for violation in violations):
        assert isinstance(done, Refused), done
        assert not done.offline
        return
    assert isinstance(done, Loaded), done
    compare(found, directory)


@broker
@pytest.mark.parametrize("version", LOADERS)
def test_batches_after_an_unreadable_marker_go_before_the_broker_refuses(
    version: str, oracle: Of, tmp_path: Path
) -> None:
    first = recent([plain(0), one(20, records=[], block=b"\x20\0", count=1), plain(30)])
    directory = write_partition(tmp_path, "topic", 0, {0: first, LAST: recent([plain(100)])})
    assert isinstance(load(oracle(version), directory), Refused)
    (log,) = directory.glob("*.log")
    assert log.stat().st_size == len(first[0]) + len(first[1])


def random_history(rng: random.Random) -> dict[int, list[bytes]]:
    """Three segments of a few producers: batches in and out of transactions, markers, epochs."""
    segments: dict[int, list[bytes]] = {}
    offset, leader = 0, 0
    epochs = dict.fromkeys(range(1, 6), 0)
    sequences = dict.fromkeys(epochs, 0)
    open_ones: set[int] = set()
    for base in (0, LAST, 2 * LAST):
        offset = max(offset, base)
        batches = segments[base] = []
        while offset < base + LAST - 6 and rng.random() < 0.97:
            producer = rng.choice(list(epochs))
            kind = rng.random()
            leader += rng.random() < 0.1
            if kind < 0.1:
                batches.append(plain(offset, leader=rng.choice((leader, -1))))
                offset += 5
            elif kind < 0.45 and producer < 5:
                bump = rng.random() < 0.5
                epochs[producer] += bump
                sequences[producer] *= not bump
                commit, at = rng.random() < 0.4, rng.randrange(3)
                batches.append(
                    marker(
                        offset,
                        producer,
                        epochs[producer],
                        commit=commit,
                        coordinator_epoch=at,
                        leader_epoch=leader,
                    )
                )
                open_ones.discard(producer)
                offset += 1
            else:
                transactional = producer in open_ones or (producer < 5 and rng.random() < 0.7)
                open_ones |= {producer} if transactional else set()
                batches.append(
                    data(
                        offset,
                        producer,
                        sequences[producer],
                        epoch=epochs[producer],
                        transactional=transactional,
                        leader=leader,
                    )
                )
                sequences[producer] += 5
                offset += 5 + rng.choice((0, 0, 0, 3))
    return segments


@broker
@pytest.mark.parametrize("version", LOADERS)
@pytest.mark.parametrize("seed", range(20))
def test_a_history_is_replayed_as_by_a_broker(
    seed: int, version: str, oracle: Of, tmp_path: Path
) -> None:
    history = random_history(random.Random(seed))
    segments = {base: recent(batches) for base, batches in history.items()}
    directory = write_partition(tmp_path, "topic", 0, segments)
    found = of(directory)
    assert isinstance(load(oracle(version), directory), Loaded)
    compare(found, directory)
