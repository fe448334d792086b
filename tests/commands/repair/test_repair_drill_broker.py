"""A broker's directory of 500 partitions, 60 of them corrupt: one plan, one apply, one undo.

What has to be served afterwards is known from before the damage.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.broker import QUICK_RESTART, Broker
from brokers.planting import plant
from commands.repair.repairing import lasting, plan_id, repair
from commands.repair.test_repair_field import FIELDS, with_field
from kdump.ui import exits
from support import forge
from support.commands import kdump
from support.fixtures_loader import consumed, copy_fixture
from support.losses import NAMES, Losses, places
from support.served import COMMITTED, READ, read_all, records

pytestmark = [pytest.mark.broker, pytest.mark.nightly]

PARTITIONS, DAMAGED = 500, 60
MISSING = "records are missing"
KEPT = {"retention.ms": "-1"}
SETTINGS = {"log.cleaner.enable": "false", **QUICK_RESTART}
#: The repair may drop what nobody can read: no other node has a replica.
ALLOWED = ("--only-copy",)


def index_gone(partition: Path, _: random.Random) -> None:
    min(partition.glob("*.index")).unlink()


def index_garbled(partition: Path, rng: random.Random) -> None:
    for path in partition.glob("*.timeindex"):
        path.write_bytes(rng.randbytes(24))


def snapshot_garbled(partition: Path, rng: random.Random) -> None:
    for path in partition.glob("*.snapshot"):
        path.write_bytes(rng.randbytes(40))


def epochs_malformed(partition: Path, _: random.Random) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n1\nx y\n")


def field_wrong(partition: Path, rng: random.Random) -> None:
    """A base offset or a size amid a log."""
    log = max(partition.glob("*.log"), key=lambda path: path.stat().st_size)
    found, content = places(log), log.read_bytes()
    batch = found[len(found) // 2]
    field = rng.choice(["base offset", "size"])
    value = rng.randrange(1 << (8 * FIELDS[field][1] - 2))
    wrong = with_field(content[batch.position : batch.end], field, value)
    log.write_bytes(content[: batch.position] + wrong + content[batch.end :])


def torn(partition: Path, _: random.Random) -> None:
    """The start of a batch that was never complete after the last one."""
    log = max(partition.glob("*.log"))
    log.write_bytes(log.read_bytes() + forge.batch(10_000, [forge.record(b"never")])[:-9])


#: These lose no record.
HARMLESS: tuple[Callable[[Path, random.Random], None], ...] = (
    index_gone,
    index_garbled,
    snapshot_garbled,
    epochs_malformed,
    field_wrong,
    torn,
)


def damage_directory(data: Path) -> None:
    """Files at the top that brokers cannot read, and what the next startup removes."""
    for name in ("recovery-point", "replication", "log-start", "cleaner"):
        path = data / f"{name}-offset-checkpoint"
        content = path.read_text() if path.exists() else "0\n0\n"
        path.write_text(content.replace("0\n", "zero\n", 1))
    for name in ("00000000000000000007.log.deleted", "00000000000000000007.index.cleaned"):
        (data / "t001-0" / name).write_bytes(b"left over")
    (data / "t002-0" / "00000000000000000900.index").write_bytes(bytes(8))
    (data / "t003-0" / "00000000000000000900.timeindex").write_bytes(bytes(12))
    (data / "t004-0" / "00000000000000000900.txnindex").write_bytes(b"")


@pytest.mark.parametrize("version", ["4.3.1", "3.9.1"])
def test_one_plan_one_apply_and_all_that_is_valid_is_served(version: str, tmp_path: Path) -> None:
    rng = random.Random(49)
    fixture, data = f"{version}/clean", tmp_path / "data"
    whole = copy_fixture(fixture, tmp_path / "whole")
    topics = {f"t{number:03}": NAMES[number % len(NAMES)] for number in range(PARTITIONS)}
    plant(version, data, {topic: whole / name for topic, name in topics.items()}, KEPT)
    lost = dict.fromkeys(topics, frozenset[int]())
    for number, topic in enumerate(rng.sample(sorted(topics), DAMAGED)):
        if number % 2:
            HARMLESS[number // 2 % len(HARMLESS)](data / f"{topic}-0", rng)
        else:
            lost[topic] = frozenset(Losses(number, data / f"{topic}-0").lost)
    damage_directory(data)
    before = lasting(data)

    asked = (*ALLOWED, data)
    shown = repair(*asked)
    assert len(shown.out.splitlines()) <= 30, shown.out
    agreed = plan_id(*asked)
    apply = ("repair", *asked, "--apply", "--confirm", agreed)
    ran = kdump(*apply)
    left = {Path(line["partition"]).name: line["reason"] for line in ran.of("left")}
    assert ran.code == (exits.INCOMPLETE if left else exits.OK), ran
    # Where a segment is gone nothing is to be done; elsewhere a person decides.
    undecided = {name for name, reason in left.items() if not reason.startswith(MISSING)}
    assert len(undecided) <= 6, left
    errors = {
        Path(line["path"]).relative_to(data).parts[0]
        for line in kdump("verify", data).of("finding")
        if line["severity"] == "error"
    }
    assert errors <= left.keys()
    assert kdump("undo", data, "--plan", agreed, "--apply").code == exits.OK
    assert lasting(data) == before
    assert plan_id(*asked) == agreed
    assert kdump(*apply).code == ran.code
    for name in undecided:
        salvaged = kdump("salvage", data / name, "--output", tmp_path / "out", "--hunted")
        assert salvaged.code in (exits.OK, exits.PROBLEMS), salvaged
        shutil.rmtree(data / name)
        shutil.move(tmp_path / "out" / name, data / name)

    # A consumer waits for the last offset, and a committed one for markers that are gone.
    waits = {topic for topic, gone in lost.items() if gone and _ends_in(whole, topics[topic], gone)}
    served = {f"{topic}-0": source for topic, source in topics.items() if topic not in waits}
    served = {name: source for name, source in served.items() if name not in undecided}
    assert len(served) >= PARTITIONS - 25
    intact = consumed(fixture)
    settled = {
        name: source
        for name, source in served.items()
        if not lost[name.removesuffix("-0")] and (source, COMMITTED) in intact
    }
    with Broker(version, data, SETTINGS) as broker:
        found = read_all(broker, [*served], tmp_path / READ, READ)
        committed = read_all(broker, [*settled], tmp_path / COMMITTED, COMMITTED)
    for name, source in served.items():
        wanted = _payloads(records(intact[source, READ]))
        for offset in lost[name.removesuffix("-0")]:
            wanted.pop(offset, None)
        assert _payloads(found[name]) == wanted, name
    for name, source in settled.items():
        assert _payloads(committed[name]) == _payloads(records(intact[source, COMMITTED])), name


def _payloads(found: dict[int, dict[str, object]]) -> dict[int, dict[str, object]]:
    """Records without the names of their topics and their leader epochs, which begin anew."""
    left_out = {"topic", "partition", "leader_epoch", "leaderEpoch"}
    return {
        at: {name: value for name, value in line.items() if name not in left_out}
        for at, line in found.items()
    }


def _ends_in(whole: Path, source: str, gone: frozenset[int]) -> bool:
    """Whether the last offset of a log is among those that are gone."""
    found = (place.last for log in (whole / source).glob("*.log") for place in places(log))
    return max(found) in gone
