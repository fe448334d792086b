"""``kdump salvage`` of several copies of a partition, against a generator that knows everything.

Every record that any copy has sound, none twice, in order.
"""

from __future__ import annotations

import json
import os
import pwd
import random
from pathlib import Path
from typing import Any

import pytest

from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, batch_bytes, walk
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS, REFUSED
from support import forge
from support.crashing.running import run
from support.crashing.trees import take
from support.damaged import name
from support.long_samples import first_of, wrong_seeds
from support.torn_copies import base_of, damaged_copy, epoch_file, random_log

pytestmark = pytest.mark.usefixtures("unsearched")

FEW, MANY = 20, 300


def batches_of(partition: Path) -> list[bytes]:
    """All batches of a partition, in order; damage fails."""
    found = []
    for path in sorted(partition.glob("*.log")):
        with WindowedFile(path) as source:
            for piece in walk(source, int(path.stem)):
                assert not isinstance(piece, Damage), (path, piece)
                found += [bytes(batch_bytes(source, batch)) for batch in piece]
    return found


def salvaged(place: Path, paths: list[Path]) -> dict[str, Any]:
    """The receipt of a salvage of copies into ``out``."""
    argv = ["salvage", *map(str, paths), "--output", str(place / "out"), "--format", "json"]
    ran = run(argv)
    assert ran.code in (OK, PROBLEMS), ran
    (receipt,) = (
        line for line in map(json.loads, ran.out.splitlines()) if line["type"] == "receipt"
    )
    return dict(receipt)


def wrong(seed: int, place: Path) -> list[str]:
    """What is wrong with what is salvaged of the copies of one seed."""
    rng = random.Random(seed)
    log = random_log(rng)
    files = {"leader-epoch-checkpoint": epoch_file(log)}
    copies = [
        damaged_copy(
            log.with_other_borders(rng) if rng.random() < 0.3 else log,
            rng,
            rng.randrange(4),
            covered=True,
        )
        for _ in range(rng.randrange(2, 4))
    ]
    paths = [copy.write(place / f"copy{number}", files) for number, copy in enumerate(copies)]
    before = take(place)
    receipt = salvaged(place, paths)
    found = [f"{path} has changed" for path, node in before.items() if take(place)[path] != node]
    truth, data = log.batches, batches_of(place / "out" / "orders-0")
    offsets = [base_of(each) for each in data]
    found += [
        f"other bytes at {at}"
        for at, each in zip(offsets, data, strict=True)
        if truth.get(at) != each
    ]
    if offsets != sorted(set(offsets)):
        found.append("batches come twice, or not in order")
    sure = set[int]().union(*(copy.surely_has() for copy in copies))
    found += [f"offset {at} is missing" for at in sorted(sure - set(offsets))]
    for taken in receipt["taken_from"]:
        source, target = Path(taken["from"]), place / "out" / "orders-0"
        start, size = taken["from_position"], taken["bytes"]
        piece = source.read_bytes()[start : start + size]
        if piece not in b"".join(path.read_bytes() for path in sorted(target.glob("*.log"))):
            found.append(f"the receipt names bytes that are not there: {taken}")
    return found


@pytest.mark.parametrize("seed", first_of(range(FEW), 7, every=1))
def test_what_any_copy_has_is_salvaged(seed: int, place: Path) -> None:
    assert wrong(seed, place) == []


@pytest.mark.nightly
def test_what_any_copy_has_is_salvaged_in_many_seeds(place: Path) -> None:
    assert wrong_seeds(wrong, place, FEW, MANY) == {}


def plain(first: int, last: int, epoch: int, text: bytes = b"value") -> list[bytes]:
    return [
        forge.batch(offset, [forge.record(text)] * 5, leader_epoch=epoch)
        for offset in range(first, last, 5)
    ]


def test_the_last_epoch_wins_over_the_longer_log(place: Path) -> None:
    """As in an unclean election: last epoch, then end; the other log gives what they share."""
    shared = plain(0, 50, 1)
    newer = [*shared, *plain(50, 60, 3)]
    longer = [*shared, *plain(50, 200, 2, b"other")]
    broken = [forge.flip(each, -1) if at == 3 else each for at, each in enumerate(newer)]
    paths = [
        forge.write_partition(place / "longer", "orders", 0, {0: longer}),
        forge.write_partition(place / "newer", "orders", 0, {0: broken}),
    ]
    receipt = salvaged(place, paths)
    assert batches_of(place / "out" / "orders-0") == newer
    assert receipt["copies"] == [str(paths[1]), str(paths[0])]
    (taken,) = receipt["taken_from"]
    assert taken["from"] == str(paths[0] / name(0, ".log"))


def test_copies_of_two_topics_of_one_name_are_refused(place: Path) -> None:
    ids = ("AAAAAAAAQACAAAAAAAAAAQ", "BBBBBBBBQACAAAAAAAAAAQ")
    paths = [
        forge.write_partition(
            place / each,
            "orders",
            0,
            {0: plain(0, 20, 1)},
            files={"partition.metadata": forge.partition_metadata(each)},
        )
        for each in ids
    ]
    ran = run(["salvage", *map(str, paths), "--output", str(place / "out")])
    assert ran.code == REFUSED, ran
    assert "expected topic id" in ran.err
    assert not (place / "out").exists()


# --- rights, and what could not be read


@pytest.fixture
def nobody() -> int:
    return pwd.getpwnam("nobody").pw_uid


def give_all(top: Path, uid: int) -> None:
    for path in (top, *top.rglob("*")):
        os.chown(path, uid, pwd.getpwuid(uid).pw_gid, follow_symlinks=False)


def two_copies(place: Path) -> tuple[list[bytes], list[Path]]:
    """Batches in two segments, and two copies: the first lacks a batch that the second has."""
    good = plain(0, 100, 1)
    broken = [forge.flip(each, -1) if at == 3 else each for at, each in enumerate(good)]
    return good, [
        forge.write_partition(place / "one", "orders", 0, {0: broken[:10], 50: broken[10:]}),
        forge.write_partition(place / "two", "orders", 0, {0: good[:10], 50: good[10:15]}),
    ]


@pytest.mark.root
def test_each_copy_is_read_with_the_rights_of_its_owner(place: Path, nobody: int) -> None:
    good, paths = two_copies(place)
    give_all(paths[0].parent, nobody)
    for path in (paths[1].parent, *paths[1].parent.rglob("*")):
        os.chown(path, 4321, 4321)
    for path in paths[1].iterdir():
        path.chmod(0o600)
    paths[1].chmod(0o700)
    receipt = salvaged(place, paths)
    assert receipt["unread"] == []
    assert batches_of(place / "out" / "orders-0") == good


@pytest.mark.root
def test_a_link_in_a_copy_is_refused(place: Path, nobody: int) -> None:
    _, paths = two_copies(place)
    log = paths[0] / name(50, ".log")
    secret = place / "secret"
    log.rename(secret)
    secret.chmod(0o600)
    log.symlink_to(secret)
    for path in paths:
        give_all(path.parent, nobody)
    ran = run(["salvage", *map(str, paths), "--output", str(place / "out")])
    assert ran.code == REFUSED, ran
    assert "expected a regular file in a replica, found another kind of file" in ran.err
    assert not (place / "out").exists()


@pytest.mark.root
@pytest.mark.parametrize("number", [0, 1], ids=["preferred", "other"])
def test_a_log_that_cannot_be_read_is_said(place: Path, nobody: int, number: int) -> None:
    good, paths = two_copies(place)
    for path in paths:
        give_all(path.parent, nobody)
    log = paths[number] / name(0, ".log")
    os.chown(log, 0, 0)
    log.chmod(0o600)
    argv = ["salvage", *map(str, paths), "--output", str(place / "out"), "--format", "json"]
    ran = run(argv)
    assert ran.code == INCOMPLETE, ran
    (receipt,) = (
        line for line in map(json.loads, ran.out.splitlines()) if line["type"] == "receipt"
    )
    assert [text for text in receipt["unread"] if str(log) in text] != []
    found = batches_of(place / "out" / "orders-0")
    assert found == (good if number == 0 else [*good[:3], *good[4:]])


@pytest.mark.root
def test_copies_of_which_no_log_can_be_read(place: Path, nobody: int) -> None:
    _, paths = two_copies(place)
    for path in paths:
        give_all(path.parent, nobody)
        for log in path.glob("*.log"):
            os.chown(log, 0, 0)
            log.chmod(0o600)
    ran = run(["salvage", *map(str, paths), "--output", str(place / "out")])
    assert ran.code == INCOMPLETE, ran
    assert "cannot be read: Permission denied" in ran.err
    assert not (place / "out").exists()
