"""The digest of headers: over bytes that are put together here by hand, in both builds."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from xxhash import xxh3_128

from kdump.audit.survey import header_digest
from kdump.audit.survey.survey import Survey, survey
from kdump.format.kernel import digest as _digest
from kdump.storage.logdir import Segment, read_partition
from support.fixtures_loader import ROOT
from support.forge import batch, message, record
from support.kernel_builds import load_plain

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.digest")
BUILDS = pytest.mark.parametrize("build", [_digest, PLAIN], ids=["installed", "plain"])
LOGS = sorted((ROOT / "brokers").rglob("*.log"))


def survey_of(segment: Segment, *, mapped: bool = True, digest: bool = True) -> Survey:
    return survey(segment, lambda _: None, mapped=mapped, sealed=False, deep=False, digest=digest)


def digest_of(path: Path, data: bytes, *, mapped: bool = True) -> bytes | None:
    log = path / "00000000000000000000.log"
    log.write_bytes(data)
    (segment,) = read_partition(path).segments
    return survey_of(segment, mapped=mapped).header_digest


def headers(data: bytes) -> bytes:
    """The headers of sound batches, by the sizes that they give."""
    found, at = b"", 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        found += data[at : at + (61 if data[at + 16] > 1 else 26)]
        at += 12 + size
    return found


@pytest.mark.parametrize(
    ("build", "mapped"),
    [(_digest, True), (PLAIN, False)],
    ids=["installed-mapped", "plain-windows"],
)
def test_it_is_over_all_headers_of_what_brokers_wrote(build: Any, mapped: bool) -> None:
    seen = 0
    with patch.object(header_digest, "_digest", build):
        for log in LOGS:
            if log.parent.name.endswith("-delete") or not log.name[0].isdigit():
                continue
            for segment in read_partition(log.parent).segments:
                found = survey_of(segment, mapped=mapped)
                if segment.log != log or found.counts:
                    continue
                seen += 1
                expected = xxh3_128(headers(log.read_bytes())).digest()
                assert found.header_digest == expected, log
    assert seen > 100


@BUILDS
def test_large_batches_and_many(build: Any, tmp_path: Path) -> None:
    """Headers across windows, batches larger than a window, more than the room at once."""
    small = [batch(n, [record(b"v")]) for n in range(3000)]
    large = [batch(3000 + n, [record(b"x" * size)]) for n, size in enumerate((5 << 20, 9, 3 << 20))]
    data = b"".join([*small, *large, batch(3003, [record(b"v")])])
    with patch.object(header_digest, "_digest", build):
        for mapped in (True, False):
            assert digest_of(tmp_path, data, mapped=mapped) == xxh3_128(headers(data)).digest()


def test_old_messages(tmp_path: Path) -> None:
    data = b"".join([message(0, None, magic=0), message(1, b"v", magic=1), message(2, b"")])
    assert digest_of(tmp_path, data) == xxh3_128(headers(data)).digest()


def test_damage_is_over_its_bytes_and_zeros_over_their_number(tmp_path: Path) -> None:
    first, second = batch(0, [record(b"value")]), batch(1, [record(b"value")])
    flipped = bytearray(first)
    flipped[-2] ^= 1
    mark = struct.Struct(">6sq")
    expected = mark.pack(b"damage", len(first)) + bytes(flipped) + second[:61]
    assert digest_of(tmp_path, bytes(flipped) + second) == xxh3_128(expected).digest()
    zeros = first[:61] + mark.pack(b"damage", 5000)
    assert digest_of(tmp_path, first + bytes(5000)) == xxh3_128(zeros).digest()


def test_every_flipped_byte_changes_it(tmp_path: Path) -> None:
    """Offsets and leader epochs too, which no checksum covers; and the order of batches."""
    batches = [batch(n, [record(b"value", b"key")]) for n in range(3)]
    data = b"".join(batches)
    digests = {digest_of(tmp_path, data)}
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        digests.add(digest_of(tmp_path, bytes(changed)))
    assert len(digests) == len(data) + 1
    first, second, third = batches
    assert digest_of(tmp_path, second + first + third) not in digests


def test_it_is_made_on_request_alone(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000000.log").write_bytes(batch(0, [record(b"value")]))
    (segment,) = read_partition(tmp_path).segments
    assert survey_of(segment, digest=False).header_digest is None
