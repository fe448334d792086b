"""The replay of a metadata log: snapshot, records, transactions, and what cannot be applied.

Spec: ``MetadataLoader``, ``MetadataBatchLoader``; KIP-630 for snapshots, KIP-866 for transactions.
A broker replays up to the high watermark, which is not on disk: here all records of the log count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kdump.errors import DecodeError, UsageError
from kdump.format.control import ControlRecord
from kdump.format.messages.metadata import MetadataRecord
from kdump.metadata.builder import ImageBuilder, InapplicableError, RecordType
from kdump.metadata.image import MetadataImage, ScramUser
from kdump.metadata.log import (
    ControlEntry,
    DataRecord,
    LogItem,
    MetadataSnapshot,
    Stop,
    metadata_records,
    read_snapshots,
)
from kdump.metadata.voters import VoterHistory
from kdump.storage.logdir import Partition
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_TRANSACTIONS: Final = frozenset(
    {
        RecordType.BEGIN_TRANSACTION,
        RecordType.END_TRANSACTION,
        RecordType.ABORT_TRANSACTION,
    }
)


@frozen
class Note:
    """A record in ``path`` that brokers cannot apply.

    ``record`` is its type in words, ``type_id`` its number; None for a control record, and if it
    is not known. ``lost`` says that the image lacks what the record says, ``decoded`` that its
    type, version and fields could be read.
    """

    path: AnyPath
    offset: int
    record: str
    reason: str
    lost: bool = True
    type_id: int | None = None
    decoded: bool = True


@dataclass(slots=True)
class MetadataReplay:
    """The replay of files in the order of their records.

    Only records of ``types`` are read, None for all of them; those of transactions have to be among
    them. ``controls``: control records are read too, as they are with all types. ``transaction`` is
    the offset of the record that began the open transaction. ``refusals`` are the records that an
    image does not need, but that end the start of a controller or, if they are not ``decoded``, of
    every node; they are not part of ``notes``.
    """

    types: Collection[int] | None = None
    controls: bool = False
    builder: ImageBuilder = field(default_factory=ImageBuilder)
    history: VoterHistory = field(default_factory=VoterHistory)
    notes: list[Note] = field(default_factory=list)
    refusals: list[Note] = field(default_factory=list)
    transaction: int | None = None
    _pending: list[tuple[AnyPath, int, MetadataRecord]] = field(default_factory=list)

    def read_snapshot(self, snapshot: MetadataSnapshot) -> Stop:
        """Apply the records of a snapshot."""
        records = self._records(snapshot.path, 0, 0)
        return self._read(snapshot.path, records, None, snapshot.end_offset - 1)

    def read_segment(
        self, path: AnyPath, base_offset: int, start: int, last: int | None = None
    ) -> Stop:
        """Apply the records of a segment from offset ``start`` on, up to ``last``, None for all."""
        return self._read(path, self._records(path, base_offset, start), last, None)

    def image(self) -> MetadataImage:
        """Return the image, without the records of an open transaction."""
        return self.builder.freeze(self.history)

    def _records(self, path: AnyPath, base_offset: int, start: int) -> Iterator[LogItem]:
        controls = self.controls or self.types is None
        return metadata_records(path, base_offset, start, self.types, controls=controls)

    def _read(
        self, path: AnyPath, items: Iterable[LogItem], last: int | None, contained: int | None
    ) -> Stop:
        for item in items:
            if last is not None and item.offset > last:
                break
            if isinstance(item, Stop):
                return item
            if isinstance(item, DataRecord):
                self._replay(path, item)
            else:
                self._add_control(path, item, item.offset if contained is None else contained)
        assert last is not None
        return Stop(last + 1, "")

    def _add_control(self, path: AnyPath, item: ControlEntry, offset: int) -> None:
        reason = self.history.add(offset, item.record)
        if reason is not None:
            kind = None if isinstance(item.record, DecodeError) else item.record.type
            name = "control record" if kind is None else kind.name
            self.notes.append(Note(path, item.offset, name, reason, decoded=False))
        elif isinstance(item.record, ControlRecord) and item.record.type is None:
            reason = f"expected a known type, found {item.record.type_id}"
            self.refusals.append(Note(path, item.offset, "control record", reason, decoded=False))

    def _replay(self, path: AnyPath, item: DataRecord) -> None:
        record, offset = item.record, item.offset
        if isinstance(record, DecodeError):
            note = Note(path, offset, "metadata record", str(record), decoded=False)
            self.notes.append(note)
        elif record.fields is None:
            expected = "type" if record.message is None else "version"
            found = f"type {record.type_id}, version {record.version}"
            reason = f"expected a known {expected}, found {found}"
            note = Note(path, offset, _name(record), reason, True, record.type_id, decoded=False)
            self.notes.append(note)
        elif record.type_id in _TRANSACTIONS:
            self._mark(path, offset, record)
        elif self.transaction is not None:
            self._pending.append((path, offset, record))
        else:
            self._apply(path, offset, record)

    def _mark(self, path: AnyPath, offset: int, record: MetadataRecord) -> None:
        """Begin, end or abort a transaction."""
        begins = record.type_id == RecordType.BEGIN_TRANSACTION
        if begins != (self.transaction is None):
            found = "found an open one" if begins else "found none"
            expected = "no open transaction" if begins else "an open transaction"
            reason = f"expected {expected}, {found}"
            self.notes.append(
                Note(path, offset, _name(record), reason, lost=False, type_id=record.type_id)
            )
            return
        self.transaction = offset if begins else None
        pending, self._pending = self._pending, []
        if record.type_id == RecordType.END_TRANSACTION:
            for each in pending:
                self._apply(*each)

    def _apply(self, path: AnyPath, offset: int, record: MetadataRecord) -> None:
        fields = record.fields or {}
        refused = refusal(self.builder, record.type_id, fields)
        if refused is not None:
            self.refusals.append(Note(path, offset, _name(record), refused, False, record.type_id))
        try:
            self.builder.apply(record.type_id, fields)
        except InapplicableError as error:
            self.notes.append(
                Note(path, offset, _name(record), str(error), error.lost, record.type_id)
            )


def _name(record: MetadataRecord) -> str:
    return record.name or f"type {record.type_id}"


@frozen
class MetadataState:
    """The image of a metadata log before ``end_offset``, and how it was read.

    ``snapshot`` is the one that it begins with, None without one; ``unusable`` are those that were
    passed over. ``notes`` are records that brokers cannot apply. ``gaps`` are ranges of offsets
    that are not there, from the first up to before the second. ``stop`` is the damage, or the
    error, at which reading ended before the end of the log. ``transaction`` is where an open
    transaction begins, whose records do not count. ``history`` has voters and kraft versions.
    """

    path: AnyPath
    image: MetadataImage
    end_offset: int
    snapshot: MetadataSnapshot | None
    unusable: tuple[MetadataSnapshot, ...]
    notes: tuple[Note, ...]
    gaps: tuple[tuple[int, int], ...]
    stop: Stop | None
    transaction: int | None
    history: VoterHistory


def replay_torn(partition: Partition, snapshot: MetadataSnapshot) -> MetadataReplay:
    """Replay a snapshot that is torn, and the log after it, as a starting node does."""
    replay = MetadataReplay()
    replay.read_snapshot(snapshot)
    for segment in partition.segments:
        if replay.read_segment(segment.log, segment.base_offset, snapshot.end_offset).cut:
            break
    return replay


def read_state(partition: Partition, last: int | None = None) -> MetadataState:
    """Read a metadata log up to offset ``last``, or to its end.

    The newest whole snapshot that contains nothing behind ``last`` counts, and the records behind
    it. Reading ends at damage, where recovery cuts the log. Raises UsageError if the log does not
    reach ``last``, or no longer reaches back to it.
    """
    within = [
        snapshot
        for snapshot in read_snapshots(partition)
        if last is None or snapshot.end_offset <= last + 1
    ]
    whole = [snapshot for snapshot in within if snapshot.fault is None]
    newest = whole[-1] if whole else None
    unusable = tuple(within[within.index(newest) + 1 :] if newest is not None else within)
    replay = MetadataReplay()
    end = 0
    stop = Stop(0, "")
    if newest is not None:
        stop = replay.read_snapshot(newest)
        end = newest.end_offset
    gaps = []
    covered = end
    for segment in partition.segments:
        if stop.reason or (last is not None and segment.base_offset > last):
            break
        if segment.base_offset > end:
            gaps.append((end, segment.base_offset))
        stop = replay.read_segment(segment.log, segment.base_offset, covered, last)
        end = max(end, stop.offset)
    if last is not None and end <= last and not stop.reason:
        bases = (segment.base_offset for segment in partition.segments)
        following = min((base for base in bases if base > last), default=None)
        ends = "up to its end" if following is None else f"up to offset {following - 1}"
        raise UsageError(
            f"expected an offset whose records are there, found {last}: {partition.path} has no "
            f"records from offset {end} {ends}"
        )
    return MetadataState(
        path=partition.path,
        image=replay.image(),
        end_offset=end,
        snapshot=newest,
        unusable=unusable,
        notes=tuple(replay.notes),
        gaps=tuple(gaps),
        stop=stop if stop.reason else None,
        transaction=replay.transaction,
        history=replay.history,
    )


# --- What a controller refuses to replay, though a broker applies it to its image.
# Spec: replay of ReplicationControlManager, ClusterControlManager, ProducerIdControlManager,
# ScramControlManager.


def refusal(known: ImageBuilder, type_id: int, fields: dict[str, Any]) -> str | None:
    """Return why a controller with the image ``known`` stops at a record; None if it does not."""
    match type_id:
        case RecordType.TOPIC if fields["name"] in known.topics:
            found = f"{fields['name']} with the id {known.topics[fields['name']]}"
            return f"expected a topic that does not exist yet, found {found}"
        case RecordType.REGISTER_BROKER:
            return _registered_elsewhere(known, fields)
        case RecordType.UNREGISTER_BROKER:
            broker, epoch = fields["brokerId"], fields["brokerEpoch"]
            before = known.brokers.get(broker)
            if before is None or before.epoch != epoch:
                return f"expected a registered broker, found {broker} with the epoch {epoch}"
        case RecordType.PRODUCER_IDS if fields["nextProducerId"] <= known.next_producer_id:
            found = f"{fields['nextProducerId']}"
            return f"expected a producer id above {known.next_producer_id}, found {found}"
        case RecordType.REMOVE_USER_SCRAM_CREDENTIAL:
            user = ScramUser(fields["name"], fields["mechanism"])
            if user not in known.scram:
                return f"expected a credential of {fields['name']}, found none"
    return None


def _registered_elsewhere(known: ImageBuilder, fields: dict[str, Any]) -> str | None:
    directories = set(fields.get("logDirs") or ())
    for owner in known.brokers.values():
        shared = directories.intersection(owner.directories)
        if shared and owner.id != fields["brokerId"]:
            return f"expected log directories of its own, found {min(shared)} of broker {owner.id}"
    return None
