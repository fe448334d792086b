"""The segments of topics that are in remote storage, from ``__remote_log_metadata`` logs.

A segment is in remote storage from the record that says that it was copied there until the record
that says that its removal began. Records of one partition are in one log, in order. A log that is
not at hand, or is damaged, says nothing.

Spec: ``RemoteLogMetadataCache``, ``RemoteLogSegmentState``, ``RemotePartitionDeleteState``
(KIP-405).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kdump.errors import DecodeError, SourceError
from kdump.format.batch import Record, RecordTable
from kdump.format.messages.payloads import REMOTE_LOG_TOPIC, Payload, decoder_of
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.logdir import LogDirectory, Segment, directory_name, read_partition
from kdump.storage.names import DirectoryName
from kdump.storage.paths import AnyPath
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.walk import Damage, walk

OffsetRanges = tuple[tuple[int, int], ...]
"""First and last offsets, both included, ascending."""

_SEGMENT: Final = "RemoteLogSegmentMetadataRecord"
_UPDATE: Final = "RemoteLogSegmentMetadataUpdateRecord"
_DELETED: Final = "RemotePartitionDeleteMetadataRecord"


#: The number of ranges that a text names.
_SHOWN: Final = 3
#: The state of a segment that can be read in remote storage.
_COPY_FINISHED: Final = 1

_Entry = tuple[int, int, bool]
_Segments = defaultdict[tuple[str, int], defaultdict[str, dict[str, _Entry]]]


@dataclass(frozen=True)
class RemoteStorage:
    """The directories of the ``__remote_log_metadata`` partitions of a node.

    They are read when segments are first requested; ``known`` then has the ranges of offsets by
    topic and partition, and by topic id.
    """

    paths: tuple[AnyPath, ...]
    known: dict[tuple[str, int], dict[str, OffsetRanges]] = field(
        default_factory=dict, compare=False
    )
    read: list[AnyPath] = field(default_factory=list, compare=False)

    def ranges(self, topic: str, partition: int, topic_id: str | None) -> OffsetRanges:
        """Return the offsets of a partition's segments in remote storage.

        Without a ``topic_id`` they are unknown if there are several topics of that name.
        """
        if not self.read:
            self.read.extend(self.paths)
            log = _Log()
            for path in self.paths:
                log.read(path)
            self.known.update(log.ranges())
        by_id = self.known.get((topic, partition), {})
        if topic_id is None:
            return next(iter(by_id.values())) if len(by_id) == 1 else ()
        return by_id.get(topic_id, ())


def find_remote_storage(directories: Iterable[LogDirectory]) -> RemoteStorage | None:
    """Return what the logs in ``directories`` say of remote storage; None without such a log."""
    paths = [
        path
        for directory in directories
        for path in directory.partition_paths
        if (name := directory_name(path)) is not None
        and (name.topic, name.suffix) == (REMOTE_LOG_TOPIC, "")
    ]
    return RemoteStorage(tuple(paths)) if paths else None


def remote_offsets(
    remote: RemoteStorage | None,
    name: DirectoryName | None,
    topic_id: str | None,
    log_start: int | None,
    local_start: int | None,
) -> OffsetRanges:
    """Return the offsets of a partition with remote storage that are there alone.

    ``log_start`` is the log start offset, None if it is unknown, ``local_start`` the base offset of
    the first segment here, None without one. If no log names a segment of the partition, all
    offsets between the two are in remote storage: a broker removes no segment here before.
    """
    ranges: OffsetRanges = ()
    if remote is not None and name is not None:
        ranges = remote.ranges(name.topic, name.partition, topic_id)
    if not ranges and log_start is not None and local_start is not None:
        ranges = ((log_start, local_start - 1),)
    lowest = 0 if log_start is None else log_start
    clipped = (
        (max(first, lowest), last if local_start is None else min(last, local_start - 1))
        for first, last in ranges
    )
    return tuple((first, last) for first, last in clipped if first <= last)


def ranges_text(ranges: OffsetRanges) -> str:
    """Return the first ranges as text, and how many more there are."""
    shown = ", ".join(f"{first}..{last}" for first, last in ranges[:_SHOWN])
    more = len(ranges) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"


class _Log:
    """The segments that logs name, by id: their offsets, and whether they are in remote storage."""

    def __init__(self) -> None:
        self.segments: _Segments = defaultdict(lambda: defaultdict(dict))

    def read(self, path: AnyPath) -> None:
        """Read the partition at ``path``; what cannot be read is passed over."""
        reader = RecordReader()
        with suppress(SourceError):
            for segment in read_partition(path).segments:
                for records in _records(segment, reader):
                    for record in records:
                        with suppress(DecodeError):
                            self._apply(_value(record))

    def _apply(self, payload: Payload | None) -> None:
        if payload is None:
            return
        fields: Mapping[str, Any] = payload.fields
        if payload.layout.name == _DELETED:
            place = fields["topicIdPartition"]
            self.segments[place["name"], place["partition"]].pop(place["id"], None)
        elif payload.layout.name in (_SEGMENT, _UPDATE):
            place = fields["remoteLogSegmentId"]["topicIdPartition"]
            segment_id = fields["remoteLogSegmentId"]["id"]
            segments = self.segments[place["name"], place["partition"]][place["id"]]
            is_copied = fields["remoteLogSegmentState"] == _COPY_FINISHED
            known = segments.get(segment_id)
            if payload.layout.name == _SEGMENT:
                segments[segment_id] = fields["startOffset"], fields["endOffset"], is_copied
            elif known is not None:
                segments[segment_id] = *known[:2], is_copied

    def ranges(self) -> dict[tuple[str, int], dict[str, OffsetRanges]]:
        """Return the offsets in remote storage by topic and partition, and by topic id."""
        return {
            place: {topic_id: _joined(segments.values()) for topic_id, segments in by_id.items()}
            for place, by_id in self.segments.items()
        }


def _value(record: Record) -> Payload | None:
    """Return the value of a record. Raise DecodeError."""
    decoder = decoder_of(REMOTE_LOG_TOPIC)
    return None if decoder is None else decoder.decode(None, record.value)[1]


def _records(segment: Segment, reader: RecordReader) -> Iterator[RecordTable]:
    with open_source(segment.log, mapped=False) as source:
        for piece in walk(source, segment.base_offset):
            for run in () if isinstance(piece, Damage) else record_runs(piece, source, reader):
                if not isinstance(run, Unread) and not run.batches[0].is_control:
                    yield from map(run.table, range(len(run)))


def _joined(segments: Iterable[_Entry]) -> OffsetRanges:
    ranges: list[tuple[int, int]] = []
    for first, last, copied in sorted(segments):
        if not copied or first > last:
            continue
        if ranges and first <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], last))
        else:
            ranges.append((first, last))
    return tuple(ranges)
