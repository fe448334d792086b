"""Decompression bombs: each is told as ``limit``, the rest is read, and memory stays flat."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lz4.block
import lz4.frame
import pytest

from support import forge
from support.forge import batch, message, record, wrapper
from support.json_lines import check_lines
from support.long_samples import first_of

pytestmark = [
    pytest.mark.loops,
    pytest.mark.skipif(
        not Path("/proc/self/status").exists(), reason="the peak of a process's memory is in /proc"
    ),
]
MIB = 1 << 20
#: Half of what is read of one bomb; what is mapped of the file, 15 MiB more, counts too.
FLAT = 32 * MIB

#: Runs kdump, and says on standard error how many KiB it or a worker of it had at most.
CHILD = """
import resource, sys
from kdump.cli.main import main
code = main(sys.argv[1:])
(peak,) = [int(row.split()[1]) for row in open("/proc/self/status") if row.startswith("VmHWM")]
print(max(peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss), file=sys.stderr)
sys.exit(code)
"""


def zstd_bomb(size: int) -> bytes:
    """A frame of blocks that each repeat one byte 128 KiB long: 32 GiB in 1 MiB."""
    header = (
        128 << 13 | 1 << 1
    )  # the size, and that it is one byte repeated; the last has bit 0 set
    blocks = [header.to_bytes(3, "little") + b"x"] * (size // 4)
    last = (header | 1).to_bytes(3, "little") + b"x"
    # No content size and no checksum; a window of 2 MiB.
    return bytes.fromhex("28b52ffd0058") + b"".join(blocks) + last


def gzip_bomb(size: int) -> bytes:
    """One member, 1 GiB in 1 MiB."""
    deflate = zlib.compressobj(9, wbits=31)
    head = deflate.compress(b"") + deflate.flush(zlib.Z_FULL_FLUSH)
    part = deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return head + part * (size // len(part))


def lz4_bomb(size: int) -> bytes:
    """A frame of blocks of 4 MiB, 255 MiB in 1 MiB."""
    content = bytes(4 * MIB)
    frame = lz4.frame.compress(content, block_size=7, block_linked=False, store_size=False)
    block: bytes = lz4.block.compress(content, store_size=False)
    return bytes(frame[:7]) + (len(block).to_bytes(4, "little") + block) * (size // len(block))


def snappy_bomb(size: int) -> bytes:
    """A raw block that claims 4 GiB less one byte."""
    return b"\xff\xff\xff\xff\x0f" + bytes(size)


BOMBS: Mapping[str, bytes] = {
    "zstd": zstd_bomb(MIB),
    "gzip": gzip_bomb(MIB),
    "lz4": lz4_bomb(MIB),
    "snappy": snappy_bomb(MIB),
    "snappy, as in Java": forge.xerial(b"") + b"\0\x0f\0\0" + snappy_bomb(15 << 16)[: 15 << 16],
}


def segment(magic: int, rounds: int) -> tuple[bytes, int]:
    """Bombs of every codec, each behind one sound batch or wrapper, and how many they are."""
    parts: list[bytes] = []
    bombs = 0
    for name, bomb in list(BOMBS.items()) * rounds:
        codec, offset = name.partition(",")[0], 2 * bombs
        if magic == 2:
            sound = batch(offset, [record(b"sound")], codec=codec)
            bad = batch(offset + 1, codec=codec, count=1, block=bomb)
        elif codec == "zstd":
            continue
        else:
            inner = message(0 if magic else offset, b"sound", magic=magic)
            sound = wrapper(offset, [inner], codec=codec, magic=magic)
            attributes = forge.CODECS.index(codec)
            bad = message(offset + 1, bomb, magic=magic, attributes=attributes)
        parts += (sound, bad)
        bombs += 1
    return b"".join(parts), bombs


def run(*args: str) -> tuple[int, list[dict[str, Any]], int]:
    """Exit code, lines of JSON, and the most memory that a process of it had, in bytes."""
    done = subprocess.run([sys.executable, "-c", CHILD, *args], capture_output=True, check=False)
    check_lines(done.stdout)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, lines, 1024 * int(done.stderr.split()[-1])


def in_few_and_in_many(directory: Path, magic: int) -> Iterator[tuple[Path, int]]:
    for rounds in (1, 4):
        data, bombs = segment(magic, rounds)
        path = directory / str(rounds) / "bombs-0" / f"{0:020d}.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        for extension in (".index", ".timeindex"):
            path.with_suffix(extension).touch()
        yield path, bombs


@pytest.mark.parametrize("magic", first_of([2, 1, 0]))
def test_verify(magic: int, tmp_path: Path) -> None:
    peaks = []
    for path, bombs in in_few_and_in_many(tmp_path, magic):
        code, lines, peak = run("verify", "--deep", "--format", "json", str(path))
        findings = [line for line in lines if line["type"] == "finding"]
        assert code == 5
        assert {line["code"] for line in findings} == {"limit"}
        assert sum(1 + line["repeats"] for line in findings) == bombs
        peaks.append(peak)
    assert peaks[0] < 256 * MIB
    assert peaks[1] < peaks[0] + FLAT


@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_dump(magic: int, tmp_path: Path) -> None:
    peaks = []
    for path, bombs in in_few_and_in_many(tmp_path, magic):
        code, lines, peak = run("dump", "--records", "--format", "json", str(path))
        unread = [line["reason"] for line in lines if line["type"] == "unread"]
        assert code == 5
        assert unread == ["limit"] * bombs
        assert [line["value"] for line in lines if line["type"] == "record"] == ["sound"] * bombs
        peaks.append(peak)
    assert peaks[0] < 256 * MIB
    assert peaks[1] < peaks[0] + FLAT
