"""The bytes of partitions, and the segments that retention may delete: measured in this process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.facts.cluster import ClusterImage
from kdump.audit.facts.compaction import NEVER, CleanableLog, CompactionConfigs, Wait
from kdump.audit.facts.retention import RetentionConfigs
from kdump.audit.facts.settings import Sources, compaction_configs
from kdump.audit.sizes import files, measure
from kdump.audit.sizes.files import tree_space
from kdump.audit.sizes.measure import FOREIGN, PartitionSpace, measure_all
from kdump.audit.sizes.tasks import measure_targets
from kdump.audit.sizes.totals import directory_totals
from kdump.audit.targets.scope import directories_of
from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.logdir import directory_name
from kdump.storage.paths import AnyPath
from kdump.ui.options.targets import TargetOptions, find_scope
from support.fixtures_loader import copy_fixture
from support.forge import batch, record, write_partition

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


# --- what retention should have deleted


HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


def overdue(
    path: Path,
    configs: RetentionConfigs | None,
    *,
    written_hours: Sequence[float],
    high_watermark: int = 1_000,
) -> int | None:
    """The segments that count as overdue, of logs that were last written before so many hours."""
    logs = sorted(path.glob("*.log"))
    for log, hours in zip(logs, written_hours, strict=True):
        time_s = NOW_MS / 1000 - hours * 3600
        os.utime(log, (time_s, time_s))
    task = measure.SpaceTask(
        path, directory_name(path), configs, high_watermark, None, False, NOW_MS, NOW_MS
    )
    found = measure.measure(task).overdue_bytes
    if found is None:
        return None
    sizes = [
        sum(each.stat().st_blocks * 512 for each in path.glob(f"{log.stem}.*")) for log in logs
    ]
    return next(count for count in range(len(logs) + 1) if sum(sizes[:count]) == found)


def three(data: Path, *ages_hours: float) -> Path:
    """Segments of 1000 bytes, whose records are so old."""
    batches = {
        number: [batch(number, [record(bytes(900))], base_timestamp=int(NOW_MS - hours * HOUR_MS))]
        for number, hours in enumerate(ages_hours)
    }
    return write_partition(data, "t", 0, batches)


def test_what_is_due_for_an_hour_is_overdue(tmp_path: Path) -> None:
    path = three(tmp_path, 30, 24.5, 1, 0)
    day = RetentionConfigs(True, False, 24 * HOUR_MS, -1)
    written = (30, 24.5, 1, 0)
    assert (
        overdue(path, day, written_hours=written) == 1
    )  # the second one is due since half an hour
    shorter = RetentionConfigs(True, False, 20 * HOUR_MS, -1)
    assert overdue(path, shorter, written_hours=written) == 2
    assert overdue(path, shorter, written_hours=written, high_watermark=1) == 1
    assert overdue(path, shorter, written_hours=(30, 0.5, 0.4, 0)) == 1
    assert overdue(path, shorter, written_hours=(0.9, 0.5, 0.4, 0)) == 0


def test_a_size_counts_as_it_was_an_hour_ago(tmp_path: Path) -> None:
    path = three(tmp_path, 30, 20, 10, 0)
    size = (path / f"{0:020}.log").stat().st_size
    one = RetentionConfigs(True, False, -1, size)
    assert overdue(path, one, written_hours=(30, 20, 10, 0)) == 2
    assert overdue(path, one, written_hours=(30, 20, 0.5, 0)) == 1


def test_of_configs_that_may_be_others_nothing_is_overdue(tmp_path: Path) -> None:
    path = three(tmp_path, 30, 24, 1)
    written = (30, 24, 1)
    assert overdue(path, None, written_hours=written) is None
    for guess in ("policy_guessed", "limits_guessed"):
        guessed = RetentionConfigs(True, False, HOUR_MS, -1, **{guess: True})
        assert overdue(path, guessed, written_hours=written) is None
    compacted = RetentionConfigs(False, True, -1, -1)
    assert overdue(path, compacted, written_hours=written) == 0


def test_totals_of_a_directory(data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    for given, known in ((None, False), (properties, True)):
        scope = find_scope(TargetOptions((data,), config=given))
        directories = directories_of(scope.roots)
        (found,) = directory_totals(scope.targets, directories, scope.context, here)
        assert found.path == data
        assert (found.overdue_bytes is not None) is known
        assert found.space is not None
        assert found.growth is not None
        for topic in ("codec-none", "compacted"):
            tops = data.glob(f"{topic}-*")
            assert found.topics[topic] == sum(allocated(*top.iterdir()) for top in tops)


def test_totals_lack_the_growth_where_something_is_unread(data: Path) -> None:
    scope = find_scope(TargetOptions((data,)))
    shutil.rmtree(data / "codec-lz4-0")
    (found,) = directory_totals(scope.targets, directories_of(scope.roots), scope.context, here)
    assert (found.space, found.growth) == (None, None)
    assert found.topics["codec-none"] > 0


# --- what the cleaner goes by


def cleanable(data: Path, properties: Path) -> dict[str, CleanableLog | None]:
    scope = find_scope(TargetOptions((data,), config=properties))
    found = {}
    for _, each in measure_targets(scope.targets, scope.context, here, cleaning=True):
        assert isinstance(each, PartitionSpace)
        if each.configs is not None and each.configs.compact:
            found[each.path.name] = each.cleanable
    return found


def test_configs_and_checkpoint_of_a_compacted_topic(data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    found = cleanable(data, properties)
    assert {*found} >= {"compacted-0", "__consumer_offsets-0", "__transaction_state-0"}
    log = found["compacted-0"]
    assert log is not None
    assert (log.wait, log.first_dirty) == (Wait.ACTIVE, 466)
    (data / "cleaner-offset-checkpoint").unlink()
    log = cleanable(data, properties)["compacted-0"]
    assert log is not None
    assert (log.wait, log.first_dirty, log.ratio) == (Wait.READY, 0, 1.0)
    properties.write_text(f"log.dirs={data}\nlog.cleaner.enable=false\n")
    log = cleanable(data, properties)["compacted-0"]
    assert log is not None
    assert log.wait is Wait.CLEANER_OFF


def test_a_checkpoint_that_is_not_one_leaves_all_unknown(data: Path, tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={data}\n")
    (data / "cleaner-offset-checkpoint").write_text("x\n")
    assert {*cleanable(data, properties).values()} == {None}


def test_a_ratio_that_is_no_number_leaves_the_configs_unknown() -> None:
    image = ClusterImage(
        end_offset=1,
        topics={"a": "A", "b": "B"},
        names={},
        deleted=frozenset(),
        replicas={},
        topic_configs={
            "a": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "much"},
            "b": {"cleanup.policy": "Compact, delete", "min.compaction.lag.ms": "7"},
        },
        broker_configs={"": {"log.cleaner.min.cleanable.ratio": "0.25"}},
        problem=None,
    )
    sources = Sources(image)
    assert compaction_configs("a", sources) is None
    assert compaction_configs("c", sources) is None
    assert compaction_configs("b", sources) == CompactionConfigs(
        0.25, 7, NEVER, 86_400_000, cleaner=True
    )


def test_extents_that_are_shared_are_no_bytes_of_a_file(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of small files it is not asked."""
    large, small = data / "codec-none-0" / f"{0:020}.log", data / "codec-none-0" / "small"
    large.write_bytes(bytes(2 << 20))
    small.write_bytes(bytes(BLOCK))
    asked = []

    def shared(path: Path) -> int:
        asked.append(path)
        return 1 << 20

    monkeypatch.setattr(files, "may_share_extents", lambda _: True)
    monkeypatch.setattr(files, "shared_bytes", shared)
    found = files.files_in(data / "codec-none-0")[large.name]
    whole = allocated(large)
    assert (found.bytes, found.linked) == (whole - (1 << 20), 1 << 20)
    tree = tree_space(data / "codec-none-0")
    assert tree.linked == 1 << 20
    assert asked == [large, large]
    monkeypatch.setattr(files, "shared_bytes", lambda _: 1 << 40)
    found = files.files_in(data / "codec-none-0")[large.name]
    assert (found.bytes, found.linked) == (0, whole)
