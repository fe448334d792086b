"""Manifests of few bytes that ask for much work are refused, and those of real logs are not."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from xxhash import xxh3_128_digest

from kdump.commands.manifest.output import ManifestOutput
from kdump.errors import SourceError
from kdump.format.kernel.headers import BATCH_FIELDS
from kdump.format.manifest.blocks import BATCHES, Block, decode_block, encode_block
from kdump.format.manifest.contents import (
    Contents,
    StoredDirectory,
    StoredRoot,
    encode_contents,
)
from kdump.format.manifest.directories import (
    FileContent,
    StoredEntry,
    StoredStatus,
    encode_directory,
)
from kdump.format.manifest.indexes import END_BYTES, INDEX_BYTES, StoredIndex, encode_index
from kdump.format.manifest.logs import BlockEntry, StoredLog, encode_log
from kdump.format.manifest.sections import SectionKind
from kdump.storage.manifests.file import ManifestFile
from kdump.storage.manifests.log import LogInManifest
from kdump.storage.manifests.opening import open_in_manifest
from kdump.storage.manifests.path import ManifestPath
from support.forge_manifests import forge

#: Manifests that cost more than 10 s of CPU were smaller.
MOST_BYTES = 165_000
BATCH_BYTES = 100
BLOCK_BYTES = BATCHES * BATCH_BYTES


def rows(first: int) -> memoryview:
    """As many batches as a block holds, of one record each, which are all alike."""
    alike = {"size": BATCH_BYTES, "magic": 2, "crc": 7, "count": 1}
    alike |= dict.fromkeys(("producer_id", "producer_epoch", "base_sequence"), -1)
    numbers = array("q", [alike.get(name, 0) for name in BATCH_FIELDS]) * BATCHES
    offsets = range(first, first + BATCHES)
    for name in ("base_offset", "last_offset"):
        numbers[BATCH_FIELDS.index(name) :: len(BATCH_FIELDS)] = array("q", offsets)
    positions = array("q", (BATCH_BYTES * offset for offset in offsets))
    numbers[BATCH_FIELDS.index("position") :: len(BATCH_FIELDS)] = positions
    return memoryview(numbers.tobytes()).cast("q")


def status(mode: int, size: int = 0) -> StoredStatus:
    return StoredStatus(mode, 0, 0, 1, size, 0)


def put_log(output: ManifestOutput, blocks: Sequence[int]) -> int:
    entries = tuple(
        BlockEntry(at * BLOCK_BYTES, (at + 1) * BLOCK_BYTES, BATCHES, section, bytes(16))
        for at, section in enumerate(blocks)
    )
    log = StoredLog(len(entries) * BLOCK_BYTES, True, xxh3_128_digest(b""), entries, ())
    return output.put(SectionKind.LOG, encode_log(log))


def put_block(output: ManifestOutput, number: int) -> int:
    payload = encode_block(rows(number * BATCHES), (), array("q"), b"")
    return output.put(SectionKind.BLOCK, payload)


def log_entry(section: int, blocks: int, name: bytes = b"%020d.log" % 0) -> StoredEntry:
    return StoredEntry(name, status(0o100644, blocks * BLOCK_BYTES), FileContent.LOG, section)


def write(file: Path, content: Callable[[ManifestOutput], tuple[int | Sequence[int], int]]) -> None:
    """Write a manifest of directories; ``content`` returns their sections, or one for so many."""
    with file.open("wb") as stream:
        output = ManifestOutput(stream)
        sections, count = content(output)
        if isinstance(sections, int):
            sections = [sections] * count
        directories = tuple(
            StoredDirectory(b"logs/t-%06d" % number, status(0o040755), section)
            for number, section in enumerate(sections)
        )
        root = StoredRoot(b"logs", "stopped", "")
        top = StoredDirectory(b"logs", status(0o040755), output.put(
            SectionKind.DIRECTORY, encode_directory([])
        ))  # fmt: skip
        contents = Contents(0, 0, False, "a test", b"/", (root,), (top, *directories))
        output.finish(output.put(SectionKind.CONTENTS, encode_contents(contents)))
    assert file.stat().st_size < MOST_BYTES


def one_directory_for_all(output: ManifestOutput) -> tuple[int, int]:
    blocks = [put_block(output, number) for number in range(20)]
    entry = log_entry(put_log(output, blocks), len(blocks))
    return output.put(SectionKind.DIRECTORY, encode_directory([entry])), 1_000


def one_log_for_all(output: ManifestOutput) -> tuple[Sequence[int], int]:
    blocks = [put_block(output, number) for number in range(20)]
    log = put_log(output, blocks)
    names = (b"%020d.log" % number for number in range(1_000))
    entries = [log_entry(log, len(blocks), name) for name in names]
    return [output.put(SectionKind.DIRECTORY, encode_directory(entries))], 1


def one_block_for_all(output: ManifestOutput) -> tuple[Sequence[int], int]:
    blocks = 100 * [put_block(output, 0)]
    entry = log_entry(put_log(output, blocks), len(blocks))
    return [output.put(SectionKind.DIRECTORY, encode_directory([entry]))], 1


def batches_that_take_no_bytes(output: ManifestOutput) -> tuple[Sequence[int], int]:
    blocks = [put_block(output, number) for number in range(140)]
    entry = log_entry(put_log(output, blocks), len(blocks))
    return [output.put(SectionKind.DIRECTORY, encode_directory([entry]))], 1


def one_log_for_all_indexes(output: ManifestOutput) -> tuple[Sequence[int], int]:
    blocks = [put_block(output, number) for number in range(50)]
    log = put_log(output, blocks)
    entries = [log_entry(log, len(blocks), b"%020d.log" % 10**9)]
    for number in range(100):
        index = StoredIndex(False, number, log, array("q", [0, 1]), 1_000, bytes(END_BYTES))
        section = output.put(SectionKind.INDEX, encode_index(index))
        file = status(0o100644, index.size)
        entries.append(StoredEntry(b"%020d.index" % number, file, FileContent.INDEX, section))
        entries.append(log_entry(put_log(output, []), 0, b"%020d.log" % number))
    return [output.put(SectionKind.DIRECTORY, encode_directory(entries))], 1


def indexes_of_zeros(output: ManifestOutput) -> tuple[Sequence[int], int]:
    entries = []
    for number in range(100):
        log = put_log(output, [])
        index = StoredIndex(False, number, log, array("q"), INDEX_BYTES, bytes(END_BYTES))
        section = output.put(SectionKind.INDEX, encode_index(index))
        file = status(0o100644, index.size)
        entries.append(StoredEntry(b"%020d.index" % number, file, FileContent.INDEX, section))
        entries.append(log_entry(log, 0, b"%020d.log" % number))
    return [output.put(SectionKind.DIRECTORY, encode_directory(entries))], 1


def directories_of_nothing(output: ManifestOutput) -> tuple[Sequence[int], int]:
    return [0] * 30_000, 0


def files_of_nothing(output: ManifestOutput) -> tuple[Sequence[int], int]:
    names = (b"%020d.log" % number for number in range(30_000))
    entries = [StoredEntry(name, status(0o100644), FileContent.ERROR, 0, "x") for name in names]
    return [output.put(SectionKind.DIRECTORY, encode_directory(entries))], 1


SHARED = (one_directory_for_all, one_log_for_all, one_block_for_all)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        *((content, "expected a section of a manifest in one place") for content in SHARED),
        (batches_that_take_no_bytes, "batches and index entries"),
        (one_log_for_all_indexes, "batches and index entries"),
        (indexes_of_zeros, "zeros behind the entries"),
        (directories_of_nothing, "files and directories without content"),
        (files_of_nothing, "files and directories without content"),
    ],
)
def test_few_bytes_ask_for_little_work(
    content: Callable[[ManifestOutput], tuple[int | Sequence[int], int]],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many batches are decoded as are within the bound, and each block once."""
    decoded = 0
    decode = decode_block

    def count(payload: bytes, position: int, end: int) -> Block:
        nonlocal decoded
        block = decode(payload, position, end)
        decoded += len(block)
        return block

    monkeypatch.setattr("kdump.storage.manifests.file.decode_block", count)
    file = tmp_path / "forged.kdm"
    write(file, content)
    assert any(expected in error for error in read_all(file))
    assert decoded <= (1 << 20) + 2 * file.stat().st_size


def read_all(file: Path) -> list[str]:
    """Read each log and index of a manifest, as commands do, and return the errors."""
    try:
        manifest = ManifestFile(file)
    except SourceError as error:
        return [str(error)]
    errors = []

    def attempt(work: Callable[[], object]) -> None:
        try:
            work()
        except SourceError as error:
            errors.append(str(error))

    for directory in manifest.contents.directories:
        listed: dict[bytes, StoredEntry] = {}
        attempt(partial(_list, manifest, directory, listed))
        for entry in listed.values():
            if entry.content in (FileContent.LOG, FileContent.INDEX):
                path = ManifestPath.of(file, os.fsdecode(directory.path + b"/" + entry.name))
                attempt(partial(_read, path))
    return errors


def _list(
    manifest: ManifestFile, directory: StoredDirectory, listed: dict[bytes, StoredEntry]
) -> None:
    listed.update(manifest.entries(directory))


def _read(path: ManifestPath) -> None:
    with open_in_manifest(path) as source:
        if isinstance(source, LogInManifest):
            for _ in source.pieces(0):
                pass
        else:
            source.window(0, source.size)


@pytest.mark.slow
def test_a_manifest_of_a_large_directory_passes(tmp_path: Path) -> None:
    """Its logs have far more batches than a manifest of no bytes may have."""
    file = tmp_path / "large.kdm"
    forge(file, 4, 3, 120_000, idempotent=False)
    assert read_all(file) == []
    manifest = ManifestFile(file)
    batches = sum(
        manifest.log(entry.section).batches
        for directory in manifest.contents.directories
        for entry in manifest.entries(directory).values()
        if entry.content is FileContent.LOG
    )
    assert batches > 1 << 20
    assert batches < manifest.identity.size // 4
