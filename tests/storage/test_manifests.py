"""Files in a manifest as Sources: what they give, and the errors for what they have not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.errors import SourceError
from kdump.format.manifest.sections import TRAILER_BYTES, SectionKind
from kdump.storage.access import open_source, read_end
from kdump.storage.manifests.file import is_manifest, open_manifest
from kdump.storage.manifests.log import LogInManifest
from kdump.storage.manifests.opening import BytesInManifest, IndexInManifest
from kdump.storage.manifests.path import ManifestPath, paths_in
from kdump.storage.walk import Damage, first_batch, sound_batch, walk
from support import forge, manifests

LOG = f"{0:020}.log"
BATCHES = [forge.batch(3 * number, [forge.record()] * 3) for number in range(4)]
SIZE = len(BATCHES[0])


@pytest.fixture
def partition(tmp_path: Path) -> ManifestPath:
    """A partition in a manifest: its third batch is damaged, and it has other things than logs."""
    top = tmp_path / "data"
    directory = forge.write_partition(top, "t", 0, {0: BATCHES})
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    log = directory / LOG
    log.write_bytes(forge.flip(log.read_bytes(), 2 * SIZE + 70))
    (directory / "notes.txt").write_text("of nobody")
    os.mkfifo(directory / "fifo")
    (directory / "leader-epoch-checkpoint").unlink()
    with (directory / "leader-epoch-checkpoint").open("wb") as sparse:
        sparse.truncate((64 << 20) + 1)
    manifests.make(tmp_path / "x.kdm", top)
    (root,) = paths_in(tmp_path / "x.kdm")
    assert isinstance(root, ManifestPath)
    return root / "t-0"


def opened(path: ManifestPath) -> LogInManifest:
    source = open_source(path, mapped=False)
    assert isinstance(source, LogInManifest)
    return source


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent", "No such file"),
        ("fifo", "expected a regular file"),
        ("notes.txt", "found a manifest without it"),
        ("leader-epoch-checkpoint", "expected at most 67108864 bytes"),
    ],
)
def test_what_a_manifest_cannot_give(partition: ManifestPath, name: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        open_source(partition / name, mapped=False)


def test_small_files_are_there_byte_for_byte(partition: ManifestPath) -> None:
    data = forge.partition_metadata()
    assert read_end(partition / "partition.metadata", 1000) == (len(data), data)
    with open_source(partition / "partition.metadata", mapped=False) as source:
        assert bytes(source.window(5, 3)[:3]) == data[5:8]
        assert bytes(source.window(len(data))) == b""
    assert (partition / "partition.metadata").is_file()
    assert not (partition / "partition.metadata").is_dir()
    assert (partition.is_dir(), partition.exists()) == (True, True)
    assert not (partition / "absent").exists()


def test_the_pieces_of_a_log(partition: ManifestPath) -> None:
    with opened(partition / LOG) as log:
        pieces = [(piece.position, isinstance(piece, Damage)) for piece in walk(log, 0)]
        assert pieces == [(0, False), (2 * SIZE, True), (3 * SIZE, False)]
        (before, damage, _) = walk(log, 0)
        assert not isinstance(before, Damage)
        assert isinstance(damage, Damage)
        assert (len(before), damage.size) == (2, SIZE)
        later = list(walk(log, 0, SIZE))
        assert [piece.position for piece in later] == [SIZE, 2 * SIZE, 3 * SIZE]
        assert list(walk(log, 0, log.size)) == []


def test_batches_by_their_position(partition: ManifestPath) -> None:
    with opened(partition / LOG) as log:
        first = first_batch(log, 0)
        assert first is not None
        assert (first.base_offset, first.last_offset) == (0, 2)
        found = [sound_batch(log, 0, SIZE * number) for number in range(5)]
        bases = [None if batch is None else batch.base_offset for batch in found]
        assert bases == [0, 3, None, 9, None]
        assert sound_batch(log, 0, 7) is None
        assert sound_batch(log, 100, 0) is None
        assert not log.ends_with_zeros()


def test_headers_are_there_and_records_are_not(partition: ManifestPath) -> None:
    with opened(partition / LOG) as log:
        assert bytes(log.window(SIZE, 61)[:61]) == BATCHES[1][:61]
        assert bytes(log.window(log.size)) == b""
        for position, at_least in ((SIZE, 62), (SIZE + 61, 1), (-1, 1)):
            with pytest.raises(SourceError, match="which holds no records"):
                log.window(position, at_least)
        inside = 3 * SIZE + 7
        with pytest.raises(SourceError, match=f"expected a batch at position {inside}"):
            list(walk(log, 0, inside))


def test_an_index_is_that_of_the_directory(tmp_path: Path, partition: ManifestPath) -> None:
    for suffix in (".index", ".timeindex"):
        stored = tmp_path / "data" / "t-0" / f"{0:020}{suffix}"
        data = stored.read_bytes()
        assert read_end(partition / stored.name, 1 << 20) == (len(data), data)
        with open_source(partition / stored.name, mapped=False) as source:
            assert bytes(source.window(len(data) // 2)) == data[len(data) // 2 :]


def test_sizes_that_do_not_agree(partition: ManifestPath) -> None:
    for name, kind, found in (
        (LOG, LogInManifest, "a log"),
        (f"{0:020}.index", IndexInManifest, "an index"),
    ):
        entry = (partition / name).entry()
        wrong = entry._replace(status=entry.status._replace(size=entry.status.size + 8))
        with pytest.raises(SourceError, match=f"found {found} of {entry.status.size}"):
            kind(partition / name, partition.manifest(), wrong)
    metadata = partition / "partition.metadata"
    entry = metadata.entry()
    wrong = entry._replace(status=entry.status._replace(size=entry.status.size + 8))
    with pytest.raises(SourceError, match=f"found {entry.status.size}"):
        BytesInManifest(metadata, metadata.manifest(), wrong).window(0)


def test_sections_that_are_not_where_they_should_be(partition: ManifestPath) -> None:
    manifest = partition.manifest()
    log = (partition / LOG).entry().section
    (block,) = manifest.log(log).blocks
    for position in (0, log - 1, manifest.identity.size, manifest.identity.size - TRAILER_BYTES):
        with pytest.raises(SourceError, match="manifest"):
            manifest.section(SectionKind.LOG, position)
    with pytest.raises(SourceError, match="section"):
        manifest.section(SectionKind.BLOCK, log)
    with pytest.raises(SourceError, match=f"expected {block.batches + 1} batches"):
        manifest.block(replace(block, batches=block.batches + 1))


def test_what_is_no_manifest(partition: ManifestPath, tmp_path: Path) -> None:
    assert is_manifest(partition.file)
    (tmp_path / "short").write_bytes(b"k")
    os.mkfifo(tmp_path / "fifo")
    for name in (".", "absent", "short", "fifo"):
        assert not is_manifest(tmp_path / name)
    with pytest.raises(SourceError, match="No such file"):
        open_manifest(str(tmp_path / "absent"))


def test_few_manifests_stay_open(
    partition: ManifestPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdump.storage.manifests.file._OPEN", 4)
    first = open_manifest(str(partition.file))
    assert open_manifest(str(partition.file)) is first
    data = partition.file.read_bytes()
    for number in range(4):
        copy = tmp_path / f"{number}.kdm"
        copy.write_bytes(data)
        assert open_manifest(str(copy)).contents == first.contents
    assert open_manifest(str(partition.file)) is not first
