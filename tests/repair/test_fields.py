"""Plans that set fields which no checksum covers: each value that is left, and no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from commands.repair.test_repair_field import (
    COMPACTED,
    FIELDS,
    GOOD,
    SHOWN_BY_A_REPLICA,
    UNDECIDED,
    WRONG,
    with_field,
    wrong,
)
from kdump.errors import Refused
from kdump.repair.fields.plan import FieldsPlan
from kdump.repair.fields.wrong_fields import NoField
from kdump.repair.transaction.apply import apply
from kdump.repair.transaction.plan import decode, encode
from kdump.repair.transaction.undo import newest_repair, undo
from support import forge
from support.crashing.trees import take
from support.damaged import name
from support.planning import setting_fields

Logs = Mapping[int, Sequence[bytes]]


def partition(data: Path, good: Logs, logs: Logs, node: int = 1) -> Path:
    """A partition whose other files are those of the good log; its broker was stopped."""
    rows = forge.epoch_rows(batch for base in sorted(good) for batch in good[base])
    files: dict[str, bytes | None] = {
        "leader-epoch-checkpoint": forge.checkpoint(rows),
        name(200, ".snapshot"): forge.snapshot([]),
    }
    path = forge.write_partition(data, "t", 0, good, interval=300, files=files)
    for base, batches in logs.items():
        (path / name(base, ".log")).write_bytes(b"".join(batches))
    (data / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    (data.parent / "server.properties").write_text(f"log.dirs={data}\n")
    return path


def content(path: Path) -> dict[int, bytes]:
    return {int(log.stem): log.read_bytes() for log in path.glob("*.log")}


def notes(planned: FieldsPlan) -> str:
    return " ".join(planned.plan.notes)


@pytest.mark.parametrize(("field", "value"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize(("base", "at"), [(0, 7), (100, 0)])
def test_the_field_gets_its_value(
    field: str, value: int, base: int, at: int, tmp_path: Path
) -> None:
    batches = list(GOOD[base])
    batches[at] = wrong(batches[at], field, value)
    path = partition(tmp_path / "data", GOOD, {base: batches})
    before = take(path.parent)
    plan = setting_fields(path).plan
    assert decode(encode(plan)) == plan
    assert not plan.lossy
    apply(plan)
    assert content(path) == {base: b"".join(batches) for base, batches in GOOD.items()}
    with pytest.raises(NoField):
        setting_fields(path)
    one = newest_repair(path)
    assert one is not None
    undo(one, path, plan.log_directory, assume_stopped=False)
    after = {each: node.content for each, node in take(path.parent).items()}
    assert {each: after[each] for each in before} == {
        each: node.content for each, node in before.items()
    }


@pytest.mark.parametrize(("batches", "good"), UNDECIDED.values(), ids=UNDECIDED)
def test_it_is_refused_where_more_values_are_left(
    batches: Sequence[bytes], good: Sequence[bytes], tmp_path: Path
) -> None:
    path = partition(tmp_path / "data", {0: good}, {0: batches})
    with pytest.raises(NoField):
        setting_fields(path)


@pytest.mark.parametrize("case", SHOWN_BY_A_REPLICA.values(), ids=SHOWN_BY_A_REPLICA)
def test_a_replica_shows_the_value(
    case: tuple[Sequence[bytes], str, int, int], tmp_path: Path
) -> None:
    good, field, at, value = case
    batches = [*good]
    batches[at] = with_field(batches[at], field, value)
    replica = partition(tmp_path / "replica/data", {0: good}, {}, node=2)
    path = partition(tmp_path / "data", {0: good}, {0: batches})
    apply(setting_fields(path, replica.parent).plan)
    assert content(path) == {0: b"".join(good)}


def test_a_replica_that_cannot_be_read_decides_nothing(tmp_path: Path) -> None:
    batches = [*COMPACTED]
    batches[6] = with_field(batches[6], "base offset", 70)
    batches[2] = with_field(batches[2], "size", 70)
    path = partition(tmp_path / "data", {0: COMPACTED}, {0: batches})
    replica = partition(tmp_path / "replica/data", {0: COMPACTED}, {}, node=2)
    (replica / name(0, ".log")).unlink()
    (replica / name(0, ".log")).symlink_to("nowhere")
    planned = setting_fields(path, replica)
    assert "base offset" not in notes(planned)
    assert "size" in notes(planned)


def test_a_replica_of_another_cluster_is_not_asked(tmp_path: Path) -> None:
    batches = list(GOOD[0])
    batches[2] = with_field(batches[2], "size", 70)
    path = partition(tmp_path / "data", GOOD, {0: batches})
    replica = partition(tmp_path / "replica/data", GOOD, {}, node=2)
    (replica.parent / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=2\n")
    planned = setting_fields(path, replica.parent)
    assert "no replica was asked" in notes(planned)
    assert "size" in notes(planned)


def test_a_log_with_other_links_is_refused(tmp_path: Path) -> None:
    batches = list(GOOD[0])
    batches[2] = with_field(batches[2], "size", 70)
    path = partition(tmp_path / "data", GOOD, {0: batches})
    (tmp_path / "link").hardlink_to(path / name(0, ".log"))
    (path / name(0, ".log")).unlink()
    (path / name(0, ".log")).symlink_to(tmp_path / "link")
    with pytest.raises(Refused):
        setting_fields(path)


def test_too_many_are_no_flipped_bits(tmp_path: Path) -> None:
    good = [forge.batch(at, [forge.record()]) for at in range(4_400)]
    batches = [one if at % 4 else with_field(one, "size", 3) for at, one in enumerate(good)]
    path = partition(tmp_path / "data", {0: good}, {0: batches})
    with pytest.raises(NoField, match="too many"):
        setting_fields(path)


def test_more_than_twenty_fields_are_counted(tmp_path: Path) -> None:
    good = [forge.batch(at, [forge.record()]) for at in range(120)]
    batches = [one if at % 4 else with_field(one, "size", 3) for at, one in enumerate(good)]
    path = partition(tmp_path / "data", {0: good}, {0: batches})
    planned = setting_fields(path)
    assert "10 more fields" in notes(planned)
    apply(planned.plan)
    assert content(path) == {0: b"".join(good)}


def test_sequences_have_to_go_on(tmp_path: Path) -> None:
    """A batch whose producer skips a batch there was not written there."""
    sequences = [0, 5, 10, 15, 20, 25]
    good = [
        forge.batch(at, [forge.record()] * 5, producer_id=7, producer_epoch=0, base_sequence=at)
        for at in sequences
    ]
    assert FIELDS["base offset"] == (0, 8)
    batches = list(good)
    batches[3] = wrong(good[3], "base offset", 1 << 9)
    path = partition(tmp_path / "data", {0: good}, {0: batches})
    apply(setting_fields(path).plan)
    assert content(path) == {0: b"".join(good)}
    other = forge.batch(15, [forge.record()] * 5, producer_id=7, producer_epoch=0, base_sequence=40)
    batches[3] = wrong(other, "base offset", 1 << 9)
    (path / name(0, ".log")).write_bytes(b"".join(batches))
    with pytest.raises(NoField):
        setting_fields(path)
