from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdump.errors import ForeignDirectoryError, KdumpError, SourceError, VanishedError
from kdump.storage import logdir
from kdump.storage.logdir import (
    DirectoryEntry,
    EntryType,
    LogDirectory,
    Partition,
    Segment,
    ancestors,
    is_log_directory,
    open_path,
    open_paths,
    read_partition,
)
from kdump.storage.names import DirectoryName, FileKind
from kdump.storage.paths import as_local


def fill(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return directory


def segment_files(base_offset: int, suffix: str = "") -> list[str]:
    return [f"{base_offset:020d}.{ext}{suffix}" for ext in ("log", "index", "timeindex")]


def names(entries: tuple[DirectoryEntry, ...]) -> list[str]:
    return [entry.name.name for entry in entries]


@pytest.fixture
def partition_path(tmp_path: Path) -> Path:
    return fill(
        tmp_path / "orders-3",
        *segment_files(1000),
        *segment_files(0),
        "00000000000000001000.snapshot",
        "00000000000000001000.txnindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    )


@pytest.fixture
def log_directory_path(tmp_path: Path) -> Path:
    root = fill(tmp_path / "kafka-logs-1", "meta.properties", "replication-offset-checkpoint")
    for name in ("orders-10", "orders-9", "__cluster_metadata-0", "a-0.cafe-delete"):
        fill(root / name, *segment_files(0))
    return root


def test_a_partition_has_its_segments_in_order(partition_path: Path) -> None:
    partition = open_path(partition_path)
    assert isinstance(partition, Partition)
    assert (partition.path, partition.name) == (partition_path, DirectoryName("orders", 3))
    first, second = partition.segments
    assert first == Segment(
        0,
        partition_path / "00000000000000000000.log",
        partition_path / "00000000000000000000.index",
        partition_path / "00000000000000000000.timeindex",
        None,
        None,
        "",
    )
    assert second.base_offset == 1000
    assert second.txn_index == partition_path / "00000000000000001000.txnindex"
    assert second.snapshot == partition_path / "00000000000000001000.snapshot"
    assert names(partition.entries) == ["leader-epoch-checkpoint", "partition.metadata"]
    assert (partition.transient, partition.orphans) == ((), ())


def test_nothing_in_a_partition_is_left_out(partition_path: Path) -> None:
    fill(
        partition_path,
        *segment_files(500, ".deleted"),
        "00000000000000000000.log.swap",
        "00000000000000000700.index",
        "00000000000000000700.timeindex.cleaned",
        "00000000000000009999.snapshot",
        "00000000000000000000-0000000001.checkpoint",
        "5.log",
        "notes.txt",
    )
    (partition_path / ".kdump").mkdir()
    (partition_path / "00000000000000000800.log").mkdir()
    os.mkfifo(partition_path / "00000000000000000900.log")
    partition = read_partition(partition_path)
    assert [segment.base_offset for segment in partition.segments] == [0, 1000]
    assert [(segment.base_offset, segment.suffix) for segment in partition.transient] == [
        (0, ".swap"),
        (500, ".deleted"),
    ]
    swap, deleted = partition.transient
    assert (swap.index, swap.snapshot) == (None, None)
    assert deleted.index == partition_path / "00000000000000000500.index.deleted"
    assert names(partition.orphans) == ["00000000000000000700.index"]
    assert names(partition.entries) == sorted(
        [
            ".kdump",
            "00000000000000000000-0000000001.checkpoint",
            "00000000000000000700.index",
            "00000000000000000700.timeindex.cleaned",
            "00000000000000000800.log",
            "00000000000000000900.log",
            "00000000000000009999.snapshot",
            "5.log",
            "leader-epoch-checkpoint",
            "notes.txt",
            "partition.metadata",
        ]
    )
    held = [
        path
        for segment in (*partition.segments, *partition.transient)
        for path in (
            segment.log,
            segment.index,
            segment.time_index,
            segment.txn_index,
            segment.snapshot,
        )
        if path is not None
    ]
    assert sorted([*held, *(entry.path for entry in partition.entries)]) == sorted(
        partition_path.iterdir()
    )


def test_entries_tell_their_type(tmp_path: Path) -> None:
    directory = fill(tmp_path / "t-0", "00000000000000000000.log", "file")
    (directory / "directory").mkdir()
    os.mkfifo(directory / "fifo")
    (directory / "dangling").symlink_to("nowhere")
    (directory / "circle").symlink_to("circle")
    (directory / "link-to-file").symlink_to("file")
    types = {entry.name.name: entry.type for entry in read_partition(directory).entries}
    assert types == {
        "file": EntryType.FILE,
        "directory": EntryType.DIRECTORY,
        "fifo": EntryType.OTHER,
        "dangling": EntryType.LINK,
        "circle": EntryType.LINK,
        "link-to-file": EntryType.FILE,
    }


def test_a_partition_needs_no_proper_name(tmp_path: Path) -> None:
    partition = open_path(fill(tmp_path / "evidence", *segment_files(0)))
    assert isinstance(partition, Partition)
    assert partition.name is None
    assert len(partition.segments) == 1
    only_metadata = open_path(fill(tmp_path / "copied", "partition.metadata"))
    assert isinstance(only_metadata, Partition)


def test_an_empty_directory_is_a_partition_in_a_log_directory_alone(
    tmp_path: Path, log_directory_path: Path
) -> None:
    partition = open_path(fill(log_directory_path / "orders-3"))
    assert isinstance(partition, Partition)
    assert partition.segments == ()
    with pytest.raises(ForeignDirectoryError, match="found an empty directory"):
        open_path(fill(tmp_path / "orders-3"))
    with pytest.raises(ForeignDirectoryError, match="directory with 1 entry and none of a broker"):
        open_path(fill(tmp_path / "pictures", "cat.png"))


def test_a_partition_with_directories_inside_stays_one(partition_path: Path) -> None:
    fill(partition_path / "backup-2024", *segment_files(0))
    partition = open_path(partition_path)
    assert isinstance(partition, Partition)
    assert "backup-2024" in names(partition.entries)


def test_a_log_directory_has_its_partitions_in_order(log_directory_path: Path) -> None:
    opened = open_path(log_directory_path)
    assert isinstance(opened, LogDirectory)
    assert [path.name for path in opened.partition_paths] == [
        "__cluster_metadata-0",
        "a-0.cafe-delete",
        "orders-9",
        "orders-10",
    ]
    assert names(opened.entries) == ["meta.properties", "replication-offset-checkpoint"]
    partitions = list(opened.partitions())
    assert [partition.path for partition in partitions if isinstance(partition, Partition)] == list(
        opened.partition_paths
    )
    deleted = partitions[1]
    assert isinstance(deleted, Partition)
    assert deleted.name == DirectoryName("a", 0, "delete", "cafe")


def test_a_log_directory_keeps_what_is_foreign(log_directory_path: Path) -> None:
    fill(log_directory_path / "lost+found")
    fill(log_directory_path / "remote-log-index-cache")
    fill(log_directory_path, "server.log", ".lock", ".kafka_cleanshutdown")
    os.mkfifo(log_directory_path / "fifo-0")
    opened = open_path(log_directory_path)
    assert isinstance(opened, LogDirectory)
    assert names(opened.refused_directories) == ["lost+found"]
    kinds = {entry.name.name: entry.name.kind for entry in opened.entries}
    assert kinds[".lock"] is FileKind.LOCK
    assert kinds[".kafka_cleanshutdown"] is FileKind.CLEAN_MARKER
    assert kinds["server.log"] is FileKind.LOG
    assert "fifo-0" in kinds
    assert len(opened.partition_paths) == 4


def test_a_directory_of_partitions_needs_no_marks(tmp_path: Path) -> None:
    root = tmp_path / "incident"
    fill(root / "orders-0", *segment_files(0))
    fill(root / "orders-1", *segment_files(0))
    opened = open_path(root)
    assert isinstance(opened, LogDirectory)
    assert len(opened.partition_paths) == 2
    named_like_a_partition = tmp_path / "incident-2024"
    root.rename(named_like_a_partition)
    assert isinstance(open_path(named_like_a_partition), LogDirectory)


def test_a_directory_of_log_directories_is_refused(tmp_path: Path) -> None:
    for number in range(5):
        fill(tmp_path / f"kafka-{number}", "meta.properties")
    with pytest.raises(
        SourceError,
        match=r"holds log directories \(\S+/kafka-0, \S+/kafka-1, \S+/kafka-2, \.\.\.\)",
    ):
        open_path(tmp_path)
    assert is_log_directory(tmp_path / "kafka-0")
    assert not is_log_directory(tmp_path)
    assert not is_log_directory(tmp_path / "gone")


def test_a_file_of_a_segment_is_that_segment(partition_path: Path) -> None:
    partition = read_partition(partition_path)
    for path in (
        "00000000000000001000.log",
        "00000000000000001000.index",
        "00000000000000001000.snapshot",
    ):
        assert open_path(partition_path / path) == partition.segments[1]


def test_a_file_that_waits_for_deletion_is_a_segment_of_its_own(partition_path: Path) -> None:
    fill(partition_path, *segment_files(1000, ".deleted"))
    opened = open_path(partition_path / "00000000000000001000.log.deleted")
    assert isinstance(opened, Segment)
    assert (opened.suffix, opened.snapshot) == (".deleted", None)
    assert opened.time_index == partition_path / "00000000000000001000.timeindex.deleted"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000042.index", FileKind.INDEX),
        ("00000000000000000042.snapshot", FileKind.SNAPSHOT),
        ("leader-epoch-checkpoint", FileKind.LEADER_EPOCHS),
        ("00000000000000000042-0000000001.checkpoint", FileKind.METADATA_SNAPSHOT),
        ("copy.log", FileKind.LOG),
        ("42.log", FileKind.LOG),
    ],
)
def test_any_other_file_is_an_entry(tmp_path: Path, name: str, kind: FileKind) -> None:
    fill(tmp_path, name)
    opened = open_path(tmp_path / name)
    assert isinstance(opened, DirectoryEntry)
    assert (opened.path, opened.name.kind) == (tmp_path / name, kind)
    assert opened.type is EntryType.FILE


def test_a_fifo_is_an_entry_and_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "00000000000000000000.log")
    opened = open_path(tmp_path / "00000000000000000000.log")
    assert isinstance(opened, DirectoryEntry)
    assert opened.type is EntryType.OTHER


def test_the_current_directory_has_the_name_of_where_it_is(
    partition_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(partition_path)
    here = open_path(Path("."))
    assert isinstance(here, Partition)
    assert here.name == DirectoryName("orders", 3)
    assert here.segments[0].log == Path("00000000000000000000.log")
    (partition_path / "below").mkdir()
    monkeypatch.chdir(partition_path / "below")
    above = open_path(Path(".."))
    assert isinstance(above, Partition)
    assert above.name == DirectoryName("orders", 3)


def test_a_current_directory_that_was_removed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = fill(tmp_path / "orders-3")
    monkeypatch.chdir(directory)
    directory.rmdir()
    with pytest.raises(VanishedError):
        open_path(Path("."))


def test_symbolic_links_are_followed_and_keep_their_spelling(
    partition_path: Path, tmp_path: Path
) -> None:
    root = fill(tmp_path / "data", "meta.properties")
    (root / "orders-4").symlink_to(partition_path)
    opened = open_path(root)
    assert isinstance(opened, LogDirectory)
    (partition,) = opened.partitions()
    assert isinstance(partition, Partition)
    assert partition.name == DirectoryName("orders", 4)
    assert partition.segments[0].log == root / "orders-4" / "00000000000000000000.log"


def test_names_that_are_no_text_are_listed(tmp_path: Path) -> None:
    directory = fill(tmp_path / "t-0", *segment_files(0))
    Path(os.fsdecode(os.fsencode(directory) + b"/\xff\xfe.log")).touch()
    partition = read_partition(directory)
    (entry,) = partition.entries
    assert os.fsencode(entry.name.name) == b"\xff\xfe.log"
    assert entry.name.kind is FileKind.LOG


def test_what_cannot_be_read_is_an_error_and_the_others_are_found(
    partition_path: Path, tmp_path: Path
) -> None:
    (tmp_path / "circle").symlink_to("circle")
    found = list(open_paths([tmp_path / "gone", partition_path, tmp_path / "circle"]))
    gone, partition, circle = found
    assert isinstance(gone, VanishedError)
    assert gone.path == str(tmp_path / "gone")
    assert isinstance(partition, Partition)
    assert isinstance(circle, SourceError)
    assert not isinstance(circle, VanishedError)


def test_a_partition_that_vanishes_is_given_as_an_error(log_directory_path: Path) -> None:
    opened = open_path(log_directory_path)
    assert isinstance(opened, LogDirectory)
    listing = opened.partitions()
    first = next(listing)
    victim = as_local(opened.partition_paths[1])
    for path in victim.iterdir():
        path.unlink()
    victim.rmdir()
    second, *others = listing
    assert isinstance(first, Partition)
    assert isinstance(second, VanishedError)
    assert [type(other) for other in others] == [Partition, Partition]


def test_an_unreadable_directory_is_an_error(
    partition_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(path: Path) -> Iterator[os.DirEntry[str]]:
        if path == partition_path:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SourceError, match=r"orders-3: cannot be read: Permission denied"):
        open_path(partition_path)


def test_a_directory_that_may_not_be_searched_is_no_log_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_file", refuse)
    assert not is_log_directory(tmp_path)


def test_listing_changes_nothing(log_directory_path: Path) -> None:
    def state() -> dict[Path, tuple[int, int, int]]:
        tree = [log_directory_path, *log_directory_path.rglob("*")]
        found = {path: path.lstat() for path in tree}
        return {
            path: (stat.S_IFMT(status.st_mode), status.st_mtime_ns, status.st_ctime_ns)
            for path, status in found.items()
        }

    before = state()
    opened = open_path(log_directory_path)
    assert isinstance(opened, LogDirectory)
    assert not any(isinstance(partition, KdumpError) for partition in opened.partitions())
    assert state() == before


def test_each_directory_is_listed_once(
    log_directory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    inner = logdir._list

    def counting(path: Path) -> list[DirectoryEntry]:
        listed.append(path)
        return inner(path)

    monkeypatch.setattr(logdir, "_list", counting)
    opened = open_path(log_directory_path)
    assert isinstance(opened, LogDirectory)
    assert listed == [log_directory_path]
    assert len(list(opened.partitions())) == 4
    assert listed == [log_directory_path, *opened.partition_paths]


@pytest.mark.slow
def test_four_thousand_partitions_take_about_a_second(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    for number in range(4000):
        directory = tmp_path / f"topic-{number}"
        directory.mkdir()
        for base_offset in range(0, 4000, 1000):
            for extension in ("log", "index", "timeindex"):
                (directory / f"{base_offset:020d}.{extension}").touch()
    start = time.process_time()
    opened = open_path(tmp_path)
    assert isinstance(opened, LogDirectory)
    listed = [partition for partition in opened.partitions() if isinstance(partition, Partition)]
    assert sum(len(partition.segments) for partition in listed) == 16_000
    assert time.process_time() - start < 3  # some 0.5 s, with room for a slow machine


def test_a_link_that_goes_while_it_is_followed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: Path) -> str:  # as that of Python 3.11 does between its lstat and its readlink
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(os.path, "realpath", gone)
    with pytest.raises(VanishedError, match="link"):
        list(ancestors(tmp_path / "link" / "out"))
