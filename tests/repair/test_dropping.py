"""Plans that drop corrupt batches: what they take, and what they leave to a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from commands.heal.forged_copies import broken, plain
from kdump.errors import Refused
from kdump.repair.dropping.plan import shortened_logs
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.plan import Put, PutMarker, Remove, TakeMarker, decode, encode
from kdump.repair.transaction.undo import newest_repair, undo
from support import forge
from support.all_recipes import RECIPES
from support.crashing.trees import take
from support.damaged import name
from support.fixtures_loader import copy_fixture
from support.losses import places
from support.planning import dropping

GOOD = {0: plain(0, 100), 100: plain(100, 200)}


def partition(top: Path, *, topic: str = "t") -> Path:
    """Two segments in a log directory; its broker was stopped."""
    data = top / "data"
    path = forge.write_partition(data, topic, 0, GOOD, interval=300)
    (data / "meta.properties").write_bytes(b"version=1\ncluster.id=c\nnode.id=1\n")
    (data / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":7}')
    return configured(path)


def configured(path: Path) -> Path:
    """The partition, whose broker has a server.properties."""
    (path.parent.parent / "server.properties").write_text(f"log.dirs={path.parent}\n")
    return path


def rewritten(path: Path, base: int, batches: Sequence[bytes]) -> None:
    (path / name(base, ".log")).write_bytes(b"".join(batches))


def kept(base: int, *numbers: int) -> bytes:
    return b"".join(one for at, one in enumerate(GOOD[base]) if at not in numbers)


def test_valid_batches_of_all_segments_stay(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, broken(broken(GOOD[0], 3), 9))
    rewritten(path, 100, [*broken(GOOD[100], 5)[:-1], GOOD[100][-1][:-7]])
    before = take(path.parent)
    plan = dropping(path)
    assert decode(encode(plan)) == plan
    assert plan.holes == ((15, 19), (45, 49), (125, 129))
    assert (plan.loss.sound.count, plan.loss.unreadable.count >= 15) == (0, True)
    assert plan.log_end == (None, 195)
    assert list(shortened_logs(plan)) == [name(0, ".log"), name(100, ".log")]
    assert [type(step) for step in plan.steps[-2:]] == [TakeMarker, PutMarker]
    # Each index is shortened before its log is replaced.
    order = [step.name for step in plan.steps if isinstance(step, Put)]
    for base in GOOD:
        assert order.index(name(base, ".index")) < order.index(name(base, ".log"))
    receipt = apply(plan)
    assert [hole["first_offset"] for hole in receipt["holes"]] == [15, 45, 125]
    assert (path / name(0, ".log")).read_bytes() == kept(0, 3, 9)
    assert (path / name(100, ".log")).read_bytes() == kept(100, 5, 19)
    assert (path.parent / ".kafka_cleanshutdown").read_bytes() == b""
    record = newest_repair(path)
    assert record is not None
    undo(record, path, path.parent, assume_stopped=False)
    after = take(path.parent)
    assert {at: after[at] for at in before} == before


def test_a_segment_without_a_valid_batch_becomes_empty(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, [bytes(len(one)) for one in GOOD[0]])
    plan = dropping(path)
    apply(plan)
    assert (path / name(0, ".log")).stat().st_size == 0
    assert (path / name(100, ".log")).read_bytes() == kept(100)
    assert plan.holes == ((0, 99),)


def test_an_end_below_the_checkpoints_takes_their_lines_along(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 100, [*broken(GOOD[100], 5)[:-1], GOOD[100][-1][:-7]])
    for checkpoint in ("recovery-point", "replication"):
        rows = forge.checkpoint([("t", 0, 200)])
        (path.parent / f"{checkpoint}-offset-checkpoint").write_bytes(rows)
    snapshot = path / name(200, ".snapshot")
    snapshot.write_bytes(forge.snapshot([]))
    plan = dropping(path)
    assert plan.loss.below_high_watermark
    apply(plan)
    lines = {
        checkpoint: (path.parent / f"{checkpoint}-offset-checkpoint").read_text().split()[-1]
        for checkpoint in ("recovery-point", "replication")
    }
    assert lines == {"recovery-point": "100", "replication": "195"}
    assert not snapshot.exists()
    assert (path / name(195, ".snapshot")).exists()
    assert Remove(snapshot.name) in plan.steps


def test_indexes_that_are_garbage_lose_what_does_not_ascend(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, broken(GOOD[0], 15))
    index = path / name(0, ".index")
    entries = index.read_bytes()
    index.write_bytes(entries[:8] + entries[16:24] + entries[8:16] + entries[24:])
    apply(dropping(path))
    assert index.read_bytes() == entries[:8] + entries[16:24]


def test_many_places_are_counted(tmp_path: Path) -> None:
    batches = [forge.batch(at, [forge.record(b"v")]) for at in range(100)]
    path = configured(forge.write_partition(tmp_path / "data", "t", 0, {0: batches}))
    for number in range(1, 99, 2):
        batches = broken(batches, number)
    rewritten(path, 0, batches)
    plan = dropping(path)
    assert len(plan.holes) == 49
    assert "29 more places are dropped" in plan.notes


def test_batches_that_a_search_found_up_to_the_end_stay(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, [forge.flip(one, 9) if at == 3 else one for at, one in enumerate(GOOD[0])])
    apply(dropping(path))
    assert (path / name(0, ".log")).read_bytes() == kept(0, 3)


# --- what is left to a person


def refusal(path: Path) -> str:
    before = take(path)
    with pytest.raises(Refused) as refused:
        dropping(path)
    assert take(path) == before
    return str(refused.value)


def test_a_log_without_a_corrupt_batch(tmp_path: Path) -> None:
    assert "found none that can be dropped" in refusal(partition(tmp_path))


def test_batches_that_a_search_found_amid_a_log(tmp_path: Path) -> None:
    path = partition(tmp_path)
    sizes = [forge.flip(one, 9) if at in (3, 9) else one for at, one in enumerate(GOOD[0])]
    rewritten(path, 0, sizes)
    assert "by search after a corrupt size" in refusal(path)


def test_offsets_that_go_back(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, [*broken(GOOD[0], 19), *GOOD[0][:2]])
    assert "expected offsets above" in refusal(path)


def test_an_old_message_format(tmp_path: Path) -> None:
    old = [forge.message(at, b"value", magic=1) for at in range(20)]
    path = configured(forge.write_partition(tmp_path / "data", "t", 0, {0: old}))
    rewritten(path, 0, broken(old, 3))
    assert "an older one" in refusal(path)


def test_a_log_that_is_a_link(tmp_path: Path) -> None:
    path = partition(tmp_path)
    rewritten(path, 0, broken(GOOD[0], 3))
    log = path / name(0, ".log")
    log.rename(tmp_path / "elsewhere")
    log.symlink_to(tmp_path / "elsewhere")
    assert "found a symbolic link" in refusal(path)


def test_an_end_of_a_transaction_that_is_corrupt(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/killed", tmp_path / "data")
    path = configured(data / "transactions-0")
    (log, marker) = next(
        (log, each)
        for log in sorted(path.glob("*.log"))
        for each in places(log)[:-1]
        if each.size == 78
    )
    log.write_bytes(forge.flip(log.read_bytes(), marker.end - 1))
    assert "kdump salvage writes a new marker" in refusal(path)


def test_batches_that_log_recovery_refuses(tmp_path: Path) -> None:
    (recipe,) = (each for each in RECIPES if each.name == "marker-type")
    path = configured(recipe.write(tmp_path / "data"))
    log = min(path.glob("*.log"))
    *_, last = places(log)
    log.write_bytes(forge.flip(log.read_bytes(), last.end - 1))
    assert "expected log recovery to take what stays" in refusal(path)
