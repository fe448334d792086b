"""Damaged copies of partitions that brokers left, and the circumstances of a start on them.

A kind says what is damaged and how, its number the base and whether the stop was clean; the random
numbers choose the place only. Imports nothing of kdump.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import crc32c

from support.fixtures_loader import ROOT, listing, topic_configs
from support.resealing import places

HEADER_BYTES = 61
#: The fields of a header of magic 2: position and width.
FIELDS = {
    "base-offset": (0, 8),
    "size": (8, 4),
    "leader-epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last-offset-delta": (23, 4),
    "base-timestamp": (27, 8),
    "max-timestamp": (35, 8),
    "producer-id": (43, 8),
    "producer-epoch": (51, 2),
    "base-sequence": (53, 4),
    "count": (57, 4),
}
#: Fixture and partition: all codecs and magics, transactions, idempotence, compaction.
BASES = (
    ("3.9.1/clean", "transactions-0"),
    ("4.3.1/clean", "codec-zstd-0"),
    ("2.8.2/clean", "magic-1-0"),
    ("3.9.1/killed", "idempotent-0"),
    ("4.3.1/clean", "compacted-0"),
    ("2.8.2/clean", "formats-rolled-0"),
    ("4.3.1/clean", "transfers-0"),
    ("0.10.2.2/clean", "codec-gzip-0"),
    ("3.9.1/clean", "codec-lz4-0"),
    ("2.8.2/killed", "magic-0-0"),
    ("4.3.1/killed", "log-append-time-0"),
    ("2.8.2/clean", "compacted-magic-0-0"),
    ("3.9.1/clean", "codec-snappy-0"),
    ("1.1.1/clean", "transactions-0"),
)
#: Those of them in which every batch is of magic 2.
NEWER = tuple(
    base
    for base in BASES
    if not base[1].startswith(("magic", "compacted-magic", "formats", "codec-gzip"))
)
_MARKED = tuple(base for base in BASES if base[1].startswith(("transactions", "transfers")))
CONFIGS = ("index.interval.bytes", "segment.index.bytes")


@dataclass(frozen=True)
class Start:
    """A partition and how a broker finds it: what ``Oracle.load`` takes."""

    name: str
    base: tuple[str, str]
    damage: Callable[[random.Random, Path], dict[str, int]]
    clean: bool
    seed: int

    @property
    def config(self) -> dict[str, str]:
        """The topic's settings that decide about indexes."""
        fixture, partition = self.base
        found = topic_configs(fixture).get(partition.rpartition("-")[0], {})
        return {key: found[key] for key in CONFIGS if key in found}

    def write(self, target: Path) -> tuple[Path, int, int]:
        """Write the damaged partition below ``target``: its path, log start, recovery point."""
        directory = copy(*self.base, target)
        told = self.damage(random.Random(f"{self.name} {self.seed}"), directory)
        return directory, told.get("log_start", 0), told.get("recovery_point", 0)


def copy(fixture: str, partition: str, target: Path) -> Path:
    """Copy one partition of a fixture, as large as its broker left it."""
    prefix = f"brokers/{fixture}/{partition}/"
    directory = target / partition
    shutil.copytree(ROOT / prefix, directory, copy_function=shutil.copyfile)
    for row in listing().values():
        if row.path.startswith(prefix) and row.full_bytes > row.stored_bytes:
            with (directory / row.path.removeprefix(prefix)).open("r+b") as file:
                file.truncate(row.full_bytes)
    return directory


def starts(seed: int = 0) -> Iterator[Start]:
    """All of them, each kind at least fifteen times."""
    for name, bases, damage, times in _KINDS:
        for number in range(times):
            base = bases[number % len(bases)]
            # Thrice round the bases, so that each meets both kinds of stop.
            clean = number // len(bases) % 3 == 1 if len(bases) > 2 else number % 3 == 1
            yield Start(f"{name} {number}", base, damage, clean, seed)


def logs(directory: Path) -> list[Path]:
    """The logs that hold anything, by base offset."""
    return sorted(path for path in directory.glob("*.log") if path.stat().st_size)


Change = Callable[[random.Random, list[bytes]], list[bytes]]


def _batches(change: Change) -> Callable[[random.Random, Path], dict[str, int]]:
    """A change of the batches of one log."""

    def damage(rng: random.Random, directory: Path) -> dict[str, int]:
        log = rng.choice([log for log in logs(directory) if places(log.read_bytes())])
        data = log.read_bytes()
        spans = places(data)
        rest = data[spans[-1][1] :]
        pieces = change(rng, [data[start:end] for start, end in spans])
        log.write_bytes(b"".join(pieces) + rest)
        return {}

    return damage


def _field(name: str, *, sealed: bool) -> Change:
    at, width = FIELDS[name]

    def change(rng: random.Random, batches: list[bytes]) -> list[bytes]:
        newer = [number for number, data in enumerate(batches) if data[16] == 2]
        number = rng.choice(newer)
        changed = bytearray(batches[number])
        changed[at + rng.randrange(width)] ^= 1 << rng.randrange(8)
        if sealed:
            changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4, "big")
        return [*batches[:number], bytes(changed), *batches[number + 1 :]]

    return change


def _duplicated(rng: random.Random, batches: list[bytes]) -> list[bytes]:
    number, place = rng.randrange(len(batches)), rng.randrange(len(batches) + 1)
    return [*batches[:place], batches[number], *batches[place:]]


def _swapped(rng: random.Random, batches: list[bytes]) -> list[bytes]:
    a, b = rng.randrange(len(batches)), rng.randrange(len(batches))
    batches[a], batches[b] = batches[b], batches[a]
    return batches


def _removed(rng: random.Random, batches: list[bytes]) -> list[bytes]:
    number = rng.randrange(len(batches))
    return batches[:number] + batches[number + 1 :]


def _torn(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(logs(directory))
    data = log.read_bytes()
    log.write_bytes(data[: rng.randrange(len(data))])
    return {}


def _zeros_inside(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(logs(directory))
    data = bytearray(log.read_bytes())
    at = rng.randrange(len(data))
    data[at : at + 300] = bytes(min(300, len(data) - at))
    log.write_bytes(data)
    return {}


def _zeros_behind(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(logs(directory))
    log.write_bytes(log.read_bytes() + bytes(rng.choice((5, 100, 4096))))
    return {}


def _segment_removed(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(sorted(directory.glob("*.log")))
    extensions = rng.choice(((".log",), (".log", ".index", ".timeindex", ".txnindex", ".snapshot")))
    for extension in extensions:
        log.with_suffix(extension).unlink(missing_ok=True)
    return {}


def _index(rng: random.Random, directory: Path) -> Path:
    every = sorted(directory.glob("*.index"))
    found = [path for path in every if path.stat().st_size]
    if not found:
        every[-1].write_bytes(bytes(16))
        return every[-1]
    # The last one decides about the end of a log that is not recovered.
    return rng.choice((rng.choice(found), found[-1]))


def _index_zeroed(rng: random.Random, directory: Path) -> dict[str, int]:
    index = _index(rng, directory)
    index.write_bytes(bytes(index.stat().st_size))
    return {}


def _index_shifted(rng: random.Random, directory: Path) -> dict[str, int]:
    index = _index(rng, directory)
    data = index.read_bytes()
    kind = rng.choice(("bytes", "slot", "offset", "position"))
    if kind == "bytes":
        data = data[rng.randrange(1, 8) :]
    elif kind == "slot":
        data = bytes(8) + data
    else:
        at = rng.randrange(len(data) // 8) * 8 + (0 if kind == "offset" else 4)
        number = int.from_bytes(data[at : at + 4], "big") + rng.choice((-7, 3, 500))
        data = data[:at] + (number % 2**31).to_bytes(4, "big") + data[at + 4 :]
    index.write_bytes(data)
    return {}


def _index_missing(rng: random.Random, directory: Path) -> dict[str, int]:
    rng.choice(sorted(directory.glob("*.index"))).unlink()
    return {}


def _index_missing_and_damage(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(logs(directory))
    data = bytearray(log.read_bytes())
    data[rng.randrange(len(data))] ^= 255
    log.write_bytes(data)
    log.with_suffix(".index").unlink(missing_ok=True)
    return {}


def _txn_index_damaged(rng: random.Random, directory: Path) -> dict[str, int]:
    found = sorted(path for path in directory.glob("*.txnindex") if path.stat().st_size)
    if not found:
        return {}
    index = rng.choice(found)
    data = bytearray(index.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    index.write_bytes(data[: rng.choice((len(data), len(data) - 5))])
    return {}


def _txn_index_removed(rng: random.Random, directory: Path) -> dict[str, int]:
    found = sorted(directory.glob("*.txnindex"))
    if found:
        rng.choice(found).unlink()
    return {}


def _snapshot_damaged(rng: random.Random, directory: Path) -> dict[str, int]:
    for snapshot in _some(rng, sorted(directory.glob("*.snapshot"))):
        data = bytearray(snapshot.read_bytes())
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        snapshot.write_bytes(data[: rng.choice((len(data), len(data) - 1))])
    return {}


def _snapshot_removed(rng: random.Random, directory: Path) -> dict[str, int]:
    for snapshot in _some(rng, sorted(directory.glob("*.snapshot"))):
        snapshot.unlink()
    return {}


def _some(rng: random.Random, paths: Sequence[Path]) -> Sequence[Path]:
    return rng.choice((paths, paths[-1:], paths[-1:], paths[:1]))


def _epochs_damaged(rng: random.Random, directory: Path) -> dict[str, int]:
    content = rng.choice(
        (
            *("", "0\n", "1\n0\n", "0\n1\n", "0\n1\n0 0 0\n", "0\n1\nx 0\n", "0\n1\n0 x\n"),
            *("0\n1\n-1 0\n", "0\n1\n0 -5\n", "0\nx\n0 0\n", "0\n2\n5 0\n3 7\n", "\0\0", "\n"),
            *("0\n1\n0 99999999999999999999\n", "0\n-1\n", "x\n1\n0 0\n", "0\n1\n7 999999\n"),
        )
    )
    (directory / "leader-epoch-checkpoint").write_text(content)
    return {}


def _metadata_damaged(rng: random.Random, directory: Path) -> dict[str, int]:
    content = rng.choice(
        (
            *("", "version: 0", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: -1\n"),
            *("version: 0\ntopic_id: short", "version: x\ntopic_id: y", "version: 0\nno colon"),
            "version: 0\ntopic_id: 0rj1nwKARFC5ur-iqIDeMA",
        )
    )
    (directory / "partition.metadata").write_text(content)
    return {}


def _log_start(rng: random.Random, directory: Path) -> dict[str, int]:
    last = int(max(path.stem for path in directory.glob("*.log")))
    return {"log_start": rng.choice((rng.randrange(last + 1), last, last + 3, last + 10_000))}


def _recovery_point(rng: random.Random, directory: Path) -> dict[str, int]:
    log = rng.choice(logs(directory))
    data = bytearray(log.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    log.write_bytes(data)
    last = int(max(path.stem for path in directory.glob("*.log")))
    return {"recovery_point": rng.choice((rng.randrange(last + 1), last, last + 10_000))}


def _leftover(suffix: str) -> Callable[[random.Random, Path], dict[str, int]]:
    def damage(rng: random.Random, directory: Path) -> dict[str, int]:
        found = sorted(directory.glob("*.log"))
        log = rng.choice(found)
        extensions = rng.choice(
            ((".log",), (".log", ".index", ".timeindex"), (".index",), (".log", ".index"))
        )
        stem = rng.choice((log.stem, log.stem, f"{int(log.stem) + 5:020}"))
        for extension in extensions:
            shutil.copyfile(log.with_suffix(extension), directory / f"{stem}{extension}{suffix}")
        if rng.random() < 0.3:
            other = rng.choice(found)
            shutil.copyfile(other, directory / f"{other.stem}.log{rng.choice(_SUFFIXES)}")
        return {}

    return damage


_SUFFIXES = (".cleaned", ".swap", ".deleted")
_Damage = Callable[[random.Random, Path], dict[str, int]]
_KINDS: tuple[tuple[str, Sequence[tuple[str, str]], _Damage, int], ...] = (
    *((f"flip {name}", NEWER, _batches(_field(name, sealed=False)), 15) for name in FIELDS),
    *(
        (f"sealed flip {name}", NEWER, _batches(_field(name, sealed=True)), 15)
        for name in FIELDS
        if name != "crc"
    ),
    ("torn", BASES, _torn, 24),
    ("zeros inside", BASES, _zeros_inside, 15),
    ("zeros behind", BASES, _zeros_behind, 24),
    ("duplicated", BASES, _batches(_duplicated), 28),
    ("swapped", BASES, _batches(_swapped), 28),
    ("removed", BASES, _batches(_removed), 15),
    ("segment removed", BASES, _segment_removed, 15),
    ("index zeroed", BASES, _index_zeroed, 24),
    ("index shifted", BASES, _index_shifted, 42),
    ("index missing", BASES, _index_missing, 15),
    ("index missing, damage", BASES, _index_missing_and_damage, 15),
    ("txnindex damaged", _MARKED, _txn_index_damaged, 18),
    ("txnindex removed", _MARKED, _txn_index_removed, 15),
    ("snapshot damaged", BASES, _snapshot_damaged, 24),
    ("snapshot removed", BASES, _snapshot_removed, 24),
    ("epochs damaged", BASES, _epochs_damaged, 28),
    ("metadata damaged", NEWER, _metadata_damaged, 15),
    ("log start", BASES, _log_start, 28),
    ("recovery point", BASES, _recovery_point, 28),
    ("swap", BASES, _leftover(".swap"), 28),
    ("cleaned", BASES, _leftover(".cleaned"), 15),
    ("deleted", BASES, _leftover(".deleted"), 15),
)
