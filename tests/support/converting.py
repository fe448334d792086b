"""What ``kdump convert-v0-v2`` must make of logs, and what tests ask of kdump before and after.

Spec: KOD 6 (``MemoryRecords.filterTo`` of Kafka 4) for the batches; KOD 4.2 for the indexes. What
the batches must be is worked out from forged pieces, with ``forge`` alone.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kdump.storage.repair_record import FOLDERS
from support import forge
from support.commands import Ran, kdump
from support.legacy_partitions import Partition, Piece, WrittenRecord

JsonObject = dict[str, Any]

COMMAND = "convert-v0-v2"
BATCH_BYTES = 16_384
HEADER_BYTES = 61


# --- what there is to convert


def write(directory: Path, partitions: Mapping[str, Partition]) -> Path:
    """Write a log directory, whose logs are a day older than its other files."""
    top = directory / "data"
    top.mkdir()
    (top / "meta.properties").write_text("version=0\nbroker.id=1\n")
    for topic, partition in partitions.items():
        for log in logs(partition.write(top, topic)):
            status = log.stat()
            os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns - 86_400 * 10**9))
    return top


# --- what must come out


class Wanted(NamedTuple):
    """A batch that must be there; where ``recompressed`` its records' block may look otherwise."""

    data: bytes
    recompressed: bool

    def fits(self, found: bytes) -> bool:
        """Whether ``found`` is that batch."""
        return outline(found) == outline(self.data) if self.recompressed else found == self.data


def outline(batch: bytes) -> bytes:
    """The header of a batch of magic 2 but its size and its checksum."""
    return batch[:8] + batch[12:17] + batch[21:HEADER_BYTES]


def wanted(
    pieces: Iterable[Piece],
    batch_bytes: int = BATCH_BYTES,
    codec: str | None = None,
    epoch: int = 0,
) -> Iterator[Wanted]:
    """The batches that the pieces of a segment must become, in order.

    ``epoch`` is the highest leader epoch before them; new batches have the highest so far.
    """
    for (magic, is_wrapper, _), run in itertools.groupby(pieces, key=_Kinds().of):
        these = list(run)
        if magic > 1:
            epoch = newest_epoch(these, epoch)
            yield from (Wanted(piece.data, recompressed=False) for piece in these)
            continue
        named = codec or these[0].codec
        records = [record for piece in these for record in piece.records]
        for part in _parts(records, None if is_wrapper else batch_bytes):
            yield Wanted(_batch(part, named, epoch), recompressed=named != "none")


def newest_epoch(pieces: Iterable[Piece], before: int = 0) -> int:
    """The highest leader epoch of pieces, and ``before`` at least."""
    found = (piece.data[12:16] for piece in pieces if not piece.is_legacy)
    return max([before, *(int.from_bytes(epoch, signed=True) for epoch in found)])


class _Kinds:
    """Tells neighbours that may become one batch from those that may not."""

    def __init__(self) -> None:
        self._wrappers = 0

    def of(self, piece: Piece) -> tuple[int, bool, int]:
        self._wrappers += piece.is_wrapper
        return piece.magic, piece.is_wrapper, self._wrappers if piece.is_wrapper else 0


def _parts(
    records: Sequence[WrittenRecord], batch_bytes: int | None
) -> Iterator[list[WrittenRecord]]:
    """The records of one batch each."""
    part: list[WrittenRecord] = []
    size = 0
    for record in records:
        needed = len(_encoded(record, (part or [record])[0]))
        full = batch_bytes is not None and size + needed > batch_bytes
        if part and (full or not _together(part[0], record)):
            yield part
            part = []
        if not part:
            size, needed = HEADER_BYTES, len(_encoded(record, record))
        part.append(record)
        size += needed
    yield part


def _together(first: WrittenRecord, record: WrittenRecord) -> bool:
    """Whether two records may be in one batch, for all that their timestamps say."""
    if first.appended or record.appended:
        return first[1:3] == record[1:3]
    return True


def _encoded(record: WrittenRecord, first: WrittenRecord) -> bytes:
    return forge.record(
        record.value,
        record.key,
        offset_delta=record.offset - first.offset,
        timestamp_delta=record.timestamp - first.timestamp,
    ).encode(0, 0)


def _batch(records: Sequence[WrittenRecord], codec: str, epoch: int) -> bytes:
    first, last = records[0], records[-1]
    return forge.batch(
        first.offset,
        [_encoded(record, first) for record in records],
        codec=codec,
        base_timestamp=first.timestamp,
        max_timestamp=max(-1, *(record.timestamp for record in records)),
        timestamp_type="LogAppendTime" if first.appended else "CreateTime",
        leader_epoch=epoch,
        last_offset_delta=last.offset - first.offset,
    )


def kept(line: JsonObject, codec: str | None = None) -> JsonObject:
    """A record's line of a dump, as it must be behind the conversion; but where it stands."""
    left = {name: value for name, value in line.items() if name != "position"}
    if line["magic"] > 1:
        return left
    # Whatever is not named is kept, and there are no producers, epochs and sequences before.
    left |= {"magic": 2, "codec": codec or line["codec"]}
    if line["timestamp"] is None:
        left["timestamp"] = -1
    if line["timestamp_type"] == "NoTimestampType":
        left["timestamp_type"] = "CreateTime"
    return left


# --- what is there


def records(*paths: Path) -> dict[str, list[JsonObject]]:
    """The records of partitions by ``<topic>-<partition>``, as ``kdump dump`` tells of them."""
    found = defaultdict(list)
    for line in _dumped(*paths, "--records").of("record"):
        found[f"{line['topic']}-{line['partition']}"].append(line)
    return dict(found)


def legacy_batches(*paths: Path) -> list[JsonObject]:
    """The messages and wrappers that are left."""
    return [line for line in _dumped(*paths).of("batch") if line["magic"] < 2]


def _dumped(*arguments: Path | str) -> Ran:
    ran = kdump("dump", *arguments, searching=False)
    assert ran.code == 0, ran.said or [*ran.of("damage"), *ran.of("unread")]
    return ran


def first_difference(
    before: Mapping[str, Sequence[JsonObject]],
    after: Mapping[str, Sequence[JsonObject]],
    codec: str | None = None,
) -> object:
    """The first records that are not what they were, by ``kept``; None if there are none.

    What is converted gets a leader epoch: which one, ``misfits`` compares.
    """
    if before.keys() != after.keys():
        return before.keys() ^ after.keys()
    for name in before:
        for one, other in itertools.zip_longest(before[name], after[name]):
            if one is None or other is None:
                return name, one, other
            line = kept(one, codec)
            if one["magic"] < 2 and other["leader_epoch"] >= 0:
                line["leader_epoch"] = other["leader_epoch"]
            if line != kept(other):
                return name, one, other
    return None


def above_info(*paths: Path) -> list[JsonObject]:
    """What ``kdump verify --deep`` finds that is no mere note.

    But for offsets that the logs left out before, as compaction does; dumps show that they are the
    same.
    """
    found = kdump("verify", "--deep", *paths, searching=False).of("finding")
    return [one for one in found if one["severity"] != "info" and one["code"] != "offsets-missing"]


def tree(directory: Path) -> dict[str, bytes]:
    """All files by name, without what kdump keeps for itself."""
    return {
        name: path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and FOLDERS not in (name := str(path.relative_to(directory)))
        if path.name != ".lock"
    }


def logs(partition: Path) -> list[Path]:
    """The logs of a partition, in order."""
    return sorted(partition.glob("*.log"))


def split(content: bytes) -> list[bytes]:
    """The batches, messages and wrappers of a log."""
    found, position = [], 0
    while position < len(content):
        end = position + 12 + int.from_bytes(content[position + 8 : position + 12])
        found.append(content[position:end])
        position = end
    return found


def stale_indexes(found: Iterable[Path]) -> list[str]:
    """The index files of logs that are not as recovery would write them."""
    stale = []
    for log in found:
        base = int(log.stem)
        offsets, times = forge.index_entries(split(log.read_bytes()), base)
        for suffix, content in (
            (".index", forge.offset_index(offsets, base)),
            (".timeindex", forge.time_index(times, base)),
        ):
            path = log.with_suffix(suffix)
            if not path.exists() or path.read_bytes() != content:
                stale.append(path.name)
    return stale


def misfits(
    directory: Path, partition: Partition, batch_bytes: int = BATCH_BYTES, codec: str | None = None
) -> list[object]:
    """The batches, and indexes of converted logs, of a partition that are not what they must be."""
    wrong: list[object] = []
    if [int(log.stem) for log in logs(directory)] != sorted(partition.segments):
        wrong.append(logs(directory))
    epoch = 0
    for log in logs(directory):
        pieces = partition.segments[int(log.stem)]
        if any(piece.is_legacy for piece in pieces):
            wrong += stale_indexes([log])
        for place, (batch, found) in enumerate(
            itertools.zip_longest(
                wanted(pieces, batch_bytes, codec, epoch), split(log.read_bytes())
            )
        ):
            if batch is None or found is None or not batch.fits(found):
                wrong.append((log.name, place, batch and batch.data[:61], found and found[:61]))
                break
        epoch = newest_epoch(pieces, epoch)
    return wrong


# --- what is done


def convert(*arguments: Path | str) -> Ran:
    """Convert in place: the plan must be there, and be carried out without further words."""
    planned = kdump(COMMAND, *arguments, searching=False)
    if planned.code == 4:
        return kdump(COMMAND, *arguments, "--apply", searching=False)
    return planned


def nothing_to_do(*arguments: Path | str) -> bool:
    """Whether the command says that there is nothing that it would convert."""
    ran = kdump(COMMAND, *arguments, searching=False)
    return ran.code == 0 and all(plan["steps"] == [] for plan in ran.of("plan"))
