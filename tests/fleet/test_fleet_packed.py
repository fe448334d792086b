"""What the driver holds compressed is what was put there."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import Mock

import pytest

from kdump.audit.facts.small_files import read_directory
from kdump.audit.judge import judge
from kdump.audit.targets.inventory import Inventory
from kdump.audit.targets.target import Root, Target, TopicSelection, assign, open_roots
from kdump.audit.verdicts import packs
from kdump.audit.verdicts.packs import PACK, PackedList, PackedVerdicts, Packs, Written, pack
from kdump.errors import SourceError
from kdump.fleet.job.packing import JobSize
from kdump.fleet.verify import listing
from kdump.fleet.verify.packed import PackedOffsets, PackedPaths, pack_root
from kdump.fleet.verify.packed_targets import PackedColumn, PackedTargets
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory
from support import forge

if TYPE_CHECKING:
    from kdump.fleet.session.session import Session

pytestmark = pytest.mark.once

COUNT = 70


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A log directory with a checkpoint of its partitions."""
    top = tmp_path_factory.mktemp("logs")
    for number in range(COUNT):
        forge.write_partition(top, "orders", number, {0: [forge.batch(0, [forge.record()])]})
    lines = "".join(f"orders {number} {number}\n" for number in range(COUNT))
    (top / "recovery-point-offset-checkpoint").write_text(f"0\n{COUNT}\n{lines}")
    (found,) = open_roots([top])
    assert isinstance(found.content, LogDirectory)
    stopped = Liveness(BrokerState.STOPPED, "a test says so")
    return replace(found, directory=read_directory(found.content, stopped))


def same(sequence: Sequence[Any], plain: list[Any]) -> None:
    assert len(sequence) == len(plain)
    assert list(sequence) == plain
    assert [sequence[number] for number in range(len(plain))] == plain
    assert [sequence[-1], list(sequence[1:-1])] == [plain[-1], plain[1:-1]]
    with pytest.raises(IndexError):
        sequence[len(plain)]


def list_of(count: int) -> tuple[PackedList[tuple[int, str]], list[tuple[int, str]]]:
    """A packed list, and a list of the same values."""
    packed: PackedList[tuple[int, str]] = PackedList()
    plain = [(number, f"{number}") for number in range(count)]
    for value in plain:
        packed.append(value)
    return packed, plain


@pytest.mark.parametrize(("held", "most"), [(0, 0), (1, 2), (packs._HELD_BYTES, 3)])
@pytest.mark.parametrize("count", [1, PACK - 1, PACK, PACK + 1, 3 * PACK + 7])
def test_a_packed_list_is_a_list(
    count: int, held: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As many packs as begin below this number of bytes.
    monkeypatch.setattr(packs, "_HELD_BYTES", held and held + len(pack(list_of(PACK)[1])))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    packed, plain = list_of(count)
    same(packed, plain)
    written = [each for each in packed._packs if isinstance(each, Written)]
    assert len(written) == max(len(packed._packs) - most, 0)
    assert not list(tmp_path.iterdir())
    del packed, written
    assert len(os.listdir("/proc/self/fd")) == before  # the file has ended


@pytest.mark.parametrize("call", ["os.pwrite", "tempfile.TemporaryFile"])
def test_packs_stay_in_memory_where_none_can_be_written(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(*_: object, **__: object) -> None:
        calls.append(call)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(packs, "_HELD_BYTES", 0)
    monkeypatch.setattr(call, refuse)
    packed, plain = list_of(3 * PACK)
    same(packed, plain)
    assert [type(each) for each in packed._packs] == [bytes] * 3
    assert calls == [call]  # and not again for each pack


def test_no_file_is_in_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tempfile`` alone would make it there, where the directories for such files are full."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(packs, "_HELD_BYTES", 0)
    packed, _ = list_of(PACK)
    assert [type(each) for each in packed._packs] == [bytes]


@pytest.mark.parametrize("damage", ["short", "error"])
def test_a_pack_that_cannot_be_read_is_one_clear_error(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_HELD_BYTES", 0)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    packed, _ = list_of(PACK)
    (written,) = packed._packs
    assert isinstance(written, Written)
    if damage == "short":
        os.truncate(written.file.descriptor, 10)
    else:
        monkeypatch.setattr(os, "pread", Mock(side_effect=OSError(errno.EIO, "an error")))
    text = "found 10" if damage == "short" else "cannot be read: an error"
    with pytest.raises(SourceError, match=f"{tmp_path}: .*{text}"):
        packed[0]


def test_a_pack_that_was_not_written_whole_stays_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(packs, "_HELD_BYTES", 0)
    monkeypatch.setattr(
        os, "pwrite", lambda file, data, at: pwrite(file, data[: len(data) // 2], at)
    )
    packed, plain = list_of(2 * PACK)
    same(packed, plain)
    assert [type(each) for each in packed._packs] == [bytes, bytes]


def test_a_log_directory_stays_what_it_is(root: Root) -> None:
    packed = pickle.loads(pickle.dumps(pack_root(root)))
    assert isinstance(root.content, LogDirectory) and isinstance(packed.content, LogDirectory)
    assert packed.content is packed.directory.directory
    assert isinstance(packed.content.partition_paths, PackedPaths)
    same(packed.content.partition_paths, list(root.content.partition_paths))
    before, after = root.directory, packed.directory
    assert before is not None and before.recovery_points is not None
    offsets = after.recovery_points.value
    assert isinstance(offsets, PackedOffsets)
    assert dict(offsets) == before.recovery_points.value
    assert offsets.get(("none", 0)) is None
    assert (after.meta, after.high_watermarks) == (before.meta, before.high_watermarks)
    assert len(pickle.dumps(packed)) < len(pickle.dumps(root)) / 2


def listed(root: Root) -> Iterator[Target]:
    return (target.with_listing() for target in assign(root))


@pytest.mark.parametrize("count", [1, 2])
def test_the_driver_has_a_log_directory_once(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets and their context come in several results."""

    def apart(_: Session, work: Any, tasks: Sequence[Any], __: Any) -> Iterator[tuple[int, Any]]:
        return enumerate(pickle.loads(pickle.dumps(work(task))) for task in tasks)

    def single(_: Session, work: Any, task: Any) -> Any:
        return pickle.loads(pickle.dumps(work(task)))

    monkeypatch.setattr(listing, "spread", apart)
    monkeypatch.setattr(listing, "run_single", single)
    tops = [tmp_path / str(number) for number in range(count)]
    for number, top in enumerate(tops):
        top.mkdir()
        forge.write_partition(top, "orders", number, {0: [forge.batch(0, [forge.record()])]})
        (top / "meta.properties").write_text(f"version=1\nnode.id={number}\n")
    found = listing.list_paths(cast("Session", None), tops, None, TopicSelection())
    (directories,) = zip(*found.scope.context.siblings, strict=True)
    for root, directory, target in zip(
        found.scope.roots, directories, found.scope.targets, strict=True
    ):
        assert root.directory is directory is target.directory


@pytest.mark.parametrize("held", [0, packs._HELD_BYTES])
def test_targets_come_out_as_they_were_listed(
    held: int, root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Root(Path("/missing"), next(open_roots([Path("/missing")])).content, None)
    targets = [*assign(missing), *listed(root)] * 4
    parts = [PackedTargets.of(targets), PackedTargets.of([]), PackedTargets.of(targets[:3])]
    monkeypatch.setattr(packs, "_HELD_BYTES", held)
    place = Packs()
    kept = [part.moved_to(place) for part in pickle.loads(pickle.dumps(parts))]
    assert {type(each) for part in kept for each in part.packs} == {Written if not held else bytes}
    found: PackedColumn[Target] = PackedColumn(kept, itemgetter(0))
    inventories: PackedColumn[Inventory] = PackedColumn(kept, itemgetter(1))
    wanted = [*targets, *targets[:3]]
    opened = [each.open(one) for one, each in zip(found, inventories, strict=True)]
    assert [each.path for each in found] == [each.path for each in wanted]
    assert [str(each.error) for each in opened] == [str(each.error) for each in wanted]
    assert [each.segments for each in opened] == [each.segments for each in wanted]
    assert [each.partition for each in opened] == [each.partition for each in wanted]
    assert [each.directory is None for each in opened] == [
        each.directory is None for each in wanted
    ]
    assert found[len(targets) + 1].path == targets[1].path
    assert [part.count for part in kept] == [len(targets), 0, 3]
    assert kept[0].size == sum(each.size for each in targets)


def test_verdicts_come_out_with_their_log_directory(root: Root) -> None:
    verdicts, packed = [judge(target, []) for target in listed(root)] * 5, PackedVerdicts()
    lone = judge(replace(verdicts[0].target, directory=None), [])
    for verdict in (*verdicts, lone):
        packed.append(verdict)
    assert list(packed) == [*verdicts, lone]
    assert packed[3].target.directory is root.directory
    assert packed[-1].target.directory is None
    assert list(packed[1:3]) == verdicts[1:3]


def test_jobs_become_as_large_as_is_done_in_seconds() -> None:
    size, now, rate = JobSize(cores=2, now=0.0), 0.0, 1_000_000_000
    first = size.cost
    assert first < rate / 2
    for _ in range(8):
        now += size.cost / rate
        size.adapt(size.cost, now)
    assert 4 * rate < size.cost < 6 * rate
    size.adapt(size.cost, now)  # ended with the one before: the time says nothing
    assert size.cost < 21 * rate
    for _ in range(12):
        now += size.cost / 1_000_000
        size.adapt(size.cost, now)
    assert size.cost == first
