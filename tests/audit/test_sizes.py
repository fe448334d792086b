"""The bytes of partitions, and the segments that retention may delete: measured in this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.sizes import measure
from kdump.audit.sizes.files import tree_space
from kdump.audit.sizes.measure import FOREIGN, PartitionSpace, measure_all
from kdump.audit.sizes.tasks import measure_targets
from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.paths import AnyPath
from kdump.ui.options.targets import TargetOptions, find_scope
from support.fixtures_loader import copy_fixture

BLOCK = 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


def here(
    work: Callable[[Any], Any], tasks: Sequence[Any], sizes: Sequence[int], **_: Any
) -> Iterator[tuple[int, Any]]:
    """Do the tasks in this process."""
    assert len(tasks) == len(sizes)
    yield from enumerate(map(work, tasks))


def measured(*paths: Path) -> Iterator[PartitionSpace]:
    scope = find_scope(TargetOptions(paths))
    for _, found in measure_targets(scope.targets, scope.context, here, listing=True):
        assert isinstance(found, PartitionSpace)
        yield found


def one(path: Path) -> PartitionSpace:
    (found,) = measured(path)
    return found


def allocated(*paths: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in paths)


@pytest.mark.parametrize("name", ["4.3.1/clean", "4.3.1/killed", "4.3.1/tiered", "2.8.2/clean"])
def test_every_file_of_every_partition_counts_once(name: str, tmp_path: Path) -> None:
    data = copy_fixture(name, tmp_path / "data")
    for found in measured(data):
        files = [path for path in Path(str(found.path)).rglob("*") if path.is_file()]
        assert found.errors == ()
        assert found.bytes == allocated(*files)
        assert found.log_bytes == allocated(*(path for path in files if path.suffix == ".log"))


def test_old_segments_are_those_before_the_high_watermark(data: Path) -> None:
    path = data / "codec-lz4-0"
    found = one(path)
    assert [(old.base_offset, old.end_offset, old.offsets) for old in found.old] == [
        (0, 48, 48),
        (48, 100, 52),
        (100, 110, 10),
    ]
    assert found.reach == 110
    for old in found.old:
        assert old.files[0] == f"{old.base_offset:020}.log"
        assert old.bytes == allocated(*(path / name for name in old.files))


def test_leftovers_and_shared_files_count_apart(data: Path, tmp_path: Path) -> None:
    path = data / "codec-zstd-0"
    log = path / f"{0:020}.log"
    shutil.copy(log, log.with_name(f"{log.name}.deleted"))
    (path / "notes.txt").write_text("x")
    (path / ".kdump" / "12345678").mkdir(parents=True)
    shutil.copy(log, path / ".kdump" / "12345678" / "old")
    os.link(log, tmp_path / "snapshot")
    index = log.with_suffix(".index")
    index.rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    found = one(path)
    assert {*found.beside} == {".deleted", ".kdump", FOREIGN}
    assert found.beside[FOREIGN].bytes == BLOCK
    assert found.linked == allocated(log, tmp_path / "elsewhere")
    assert found.old[0].bytes == allocated(log.with_suffix(".timeindex"))


def test_a_time_that_is_not_in_an_index_is_unknown(data: Path) -> None:
    path = data / "codec-lz4-0"
    (path / f"{0:020}.timeindex").unlink()
    room = path / f"{48:020}.timeindex"
    room.write_bytes(bytes(48))
    assert [old.largest_ms for old in one(path).old][:2] == [None, None]


def test_what_cannot_be_measured_is_an_error(data: Path) -> None:
    path = data / "codec-lz4-0"
    index = path / f"{0:020}.timeindex"

    def failing(read: AnyPath, most: int) -> tuple[int, bytes]:
        if read == index:
            raise SourceError(read, f"{read}: Input/output error")
        return read_end(read, most)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "read_end", failing)
        found = one(path)
    assert [str(error.path) for error in found.errors] == [str(index)]
    scope = find_scope(TargetOptions([path]))
    shutil.rmtree(path)
    found_all = measure_targets(scope.targets, scope.context, here)
    ((_, gone),) = list(found_all)
    assert isinstance(gone, SourceError) or gone.errors
    assert measure_all([]) == []


def test_a_tree_is_measured_without_other_places(data: Path) -> None:
    every = tree_space(data)
    assert every.segments
    own = (data / "codec-lz4-0").stat()
    files = [path for path in data.rglob("*") if path.is_file()]
    assert every.bytes == allocated(*files)
    apart = tree_space(data, {(own.st_dev, own.st_ino)})
    assert every.bytes - apart.bytes == allocated(*(data / "codec-lz4-0").iterdir())
    assert tree_space(data / "nothing").bytes == 0
