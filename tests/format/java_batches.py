"""What Kafka's readers and kdump make of single batches, in one form."""

from __future__ import annotations

import struct
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokers import programs
from kdump.audit.survey.anomalies import FaultKind
from kdump.audit.survey.survey import survey
from kdump.errors import CutError, DecodeError, KdumpError, LimitError
from kdump.format.batch import BatchTable, Record, RecordRun
from kdump.format.records import RecordReader
from kdump.storage.logdir import Segment, open_path
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.walk import batch_bytes, walk
from support.memory import MemorySource

TIMEOUT_S = 900
#: Findings without which a batch has to be read by Java, and with which it may be not.
REFUSED = frozenset({FaultKind.MAGIC, FaultKind.CODEC, FaultKind.UNREADABLE, FaultKind.LIMIT})

#: The offset of a record and the CRC-32 of its content, as ``java/Batches.java`` has them.
Seen = tuple[int, int]


@dataclass(frozen=True)
class Read:
    """The records of a batch up to the ``error`` that ends them, which is empty without one."""

    error: str
    records: tuple[Seen, ...]


def by_java(version: str, batches: Iterable[bytes]) -> list[Read]:
    """What the clients of ``version`` read, in one process."""
    with tempfile.TemporaryFile() as given:
        for batch in batches:
            given.write(struct.pack(">i", len(batch)) + batch)
        given.seek(0)
        done = subprocess.run(
            programs.command(version, "Batches"),
            stdin=given,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return list(map(_parsed, done.stdout.splitlines()))


def _parsed(line: str) -> Read:
    error, *words = line.split()
    records = (word.split(":") for word in words)
    seen = tuple((int(offset), int(crc)) for offset, crc in records)
    return Read("" if error == "-" else error, seen)


def seen(record: Record) -> Seen:
    """A record of kdump's in the form of Java's."""
    content = struct.pack(">q", record.timestamp) + _field(record.key) + _field(record.value)
    content += struct.pack(">i", len(record.headers))
    for key, value in record.headers:
        name = key.decode(errors="replace")
        content += _field(b"" if "\ufffd" in name else key) + _field(value)
    return record.offset, zlib.crc32(content)


def _field(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


class Reading:
    """How kdump reads single batches: those of ``dump``, of ``export``, and ``verify --deep``."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self._log = directory / f"{0:020d}.log"
        self._reader = RecordReader()
        # Each survey makes one, which takes as long as the rest of it.
        patch.setattr("kdump.audit.survey.survey.RecordReader", lambda **_: self._reader)

    def dumped(self, batch: bytes) -> Read:
        """What ``dump`` reads: table by table."""
        found: list[Seen] = []
        error = ""
        source = MemorySource(batch)
        for piece in walk(source, 0):
            if not isinstance(piece, BatchTable):
                error = piece.reason.value
                continue
            for one in piece:
                try:
                    for table in self._reader.tables(one, batch_bytes(source, one)):
                        found += map(seen, table)
                except (DecodeError, LimitError) as raised:
                    error = _name(raised)
        return Read(error, tuple(found))

    def exported(self, batch: bytes) -> Read:
        """What ``export`` and the tables of Spark read: many batches at once if possible."""
        found: list[Seen] = []
        error = ""
        source = MemorySource(batch)
        for piece in walk(source, 0):
            if not isinstance(piece, BatchTable):
                error = piece.reason.value
                continue
            for run in record_runs(piece, source, self._reader):
                if isinstance(run, Unread):
                    error = _name(run.error)
                else:
                    found += _of_run(run)
        return Read(error, tuple(found))

    def verified(self, batch: bytes) -> Sequence[str]:
        """The names of what ``verify --deep`` finds that are reasons not to read the batch, and
        ``cut`` and ``nulls``."""
        self._log.write_bytes(batch)
        segment = open_path(self._log)
        assert isinstance(segment, Segment)
        result = survey(segment, lambda _: None, mapped=False, sealed=True, deep=True)
        kinds = [fault.kind for fault in result.faults]
        told = {FaultKind.CUT, FaultKind.NULLS, *REFUSED}
        return sorted(
            [gap.damage.reason.value for gap in result.gaps]
            + [kind.value for kind in kinds if kind in told]
        )


def _of_run(run: RecordRun) -> Iterator[Seen]:
    for number in range(len(run)):
        yield from map(seen, run.table(number))


def _name(error: KdumpError) -> str:
    return "cut" if isinstance(error, CutError) else type(error).__name__


def differences(java: Read, reading: Reading, batch: bytes) -> list[str]:
    """Where kdump reads a batch otherwise than Java; empty if it does not.

    The same records, or a finding where Java throws; in front of an error the records are those of
    Java as far as both have some.
    """
    dumped, exported = reading.dumped(batch), reading.exported(batch)
    found = reading.verified(batch)
    wrong = []
    if dumped != exported:
        wrong.append(f"dump {dumped} and export {exported}")
    # Java makes room for as much as the message claims that is cut off, if it can.
    passed = ("nulls",) if java.error == "OutOfMemoryError" else ("nulls", "cut")
    refused = [name for name in found if name not in passed]
    if java.error and not refused:
        wrong.append(f"Java throws {java.error}, verify finds {found}")
    if not java.error and refused:
        wrong.append(f"Java throws nothing, verify finds {found}")
    if not java.error and dumped.error not in ("", "cut"):
        wrong.append(f"Java throws nothing, dump says {dumped.error}")
    if (dumped.error == "cut") != ("cut" in found):
        wrong.append(f"dump says {dumped.error or 'nothing'}, verify finds {found}")
    common = min(len(java.records), len(dumped.records)) if java.error else None
    if java.records[:common] != dumped.records[:common]:
        wrong.append(f"Java reads {java.records}, dump {dumped.records}")
    return wrong
