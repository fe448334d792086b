"""A manifest is what kdump-manifest-format(5) says: a reader that has only the page reads it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import xxhash

from format.manifest_reader import AS_LOG, NONE, Batch, Manifest
from support.fixtures_loader import copy_fixture, few_first
from support.manifests import make

pytestmark = pytest.mark.once

PREALLOCATED = 1


def header(batch: Batch) -> bytes:
    """What the numbers of a batch say of its first bytes: of magic 2 all of the header."""
    head = struct.pack(">qi", batch["base_offset"], batch["size"] - 12)
    if batch["magic"] < 2:
        head += struct.pack(">IbB", batch["crc"], batch["magic"], batch["attributes"])
        return head + (struct.pack(">q", batch["max_timestamp"]) if batch["magic"] else b"")
    names = ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence")
    return head + struct.pack(
        ">ibIhiqqqhii",
        *(batch[name] for name in ("leader_epoch", "magic", "crc", "attributes")),
        batch["last_offset"] - batch["base_offset"],
        *(batch[name] for name in names),
        batch["count"],
    )


def digest(batches: list[Batch], damages: list[tuple[int, int, int]], log: bytes) -> bytes:
    pieces = [
        (batch["position"], log[batch["position"] :][: 61 if batch["magic"] > 1 else 26])
        for batch in batches
    ]
    for position, size, reason in damages:
        data = b"" if reason == PREALLOCATED else log[position : position + size]
        pieces.append((position, b"damage" + struct.pack(">q", size) + data))
    return xxhash.xxh3_128_digest(b"".join(piece for _, piece in sorted(pieces)))


def check_log(manifest: Manifest, section: int, data: bytes) -> int:
    log = manifest.log(section)
    assert log.size == len(data)
    for batch in log.batches:
        expected = header(batch)
        assert data[batch["position"] :].startswith(expected)
    assert log.digest == digest(log.batches, log.damages, data)
    for begin, end, found in log.block_digests:
        inside = [batch for batch in log.batches if begin <= batch["position"] < end]
        damages = [damage for damage in log.damages if begin <= damage[0] < end]
        assert found == digest(inside, damages, data)
    return len(log.batches)


@pytest.mark.parametrize("fixture", few_first())
@pytest.mark.slow
def test_a_reader_of_the_page_reads_a_manifest(tmp_path: Path, fixture: str) -> None:
    directory = copy_fixture(fixture, tmp_path / "broker")
    damaged = max(directory.rglob("*.log"), key=lambda path: path.stat().st_size)
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0x40
    damaged.write_bytes(data + b"\0" * 50 + b"torn")
    make(tmp_path / "m.kdm", directory)
    manifest = Manifest((tmp_path / "m.kdm").read_bytes())
    assert manifest.sections == manifest.all_sections()
    origin = Path(manifest.origin.decode())
    files = batches = 0
    for path, entries in manifest.directories.items():
        at = origin / path.decode()
        if entries:
            assert {entry.name.decode() for entry in entries} == {
                each.name for each in at.iterdir()
            }
        for entry in entries:
            file = at / entry.name.decode()
            if file.is_dir() or entry.content == NONE:
                continue
            files += 1
            assert entry.size == file.stat().st_size
            if entry.content == AS_LOG:
                batches += check_log(manifest, entry.section, file.read_bytes())
            else:
                assert manifest.file(entry) == file.read_bytes()
    assert files > 20
    assert batches > 10
