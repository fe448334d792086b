"""The order of the steps of a plan to drop corrupt batches.

The entries of an index that lie before the first corrupt batch are true of the old log and of the
new one, those after it of the old one alone. So the indexes lose these entries before their log is
replaced. A broker reads a shorter index as it is: it searches the log from the last entry on.

Spec: ``OffsetIndex.sanityCheck``, ``TimeIndex.sanityCheck``, ``LogSegment.translateOffset``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.replay.replay import Replay
from kdump.audit.survey.survey import Survey
from kdump.format.index import OffsetIndex, TimeIndex
from kdump.repair.content.producers import start_of
from kdump.repair.transaction.plan import (
    Assembly,
    Put,
    PutMarker,
    Remove,
    Stamp,
    Step,
    TakeMarker,
)
from kdump.repair.truncation.steps import end_snapshot, end_steps, recovery_point_step
from kdump.storage.access import open_source
from kdump.storage.logdir import Segment
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: How much of an index is read: more than any that a broker makes. Entries after it are dropped.
_MOST_BYTES: Final = 64 << 20

_Entry = tuple[int, int]


@frozen
class ShorterLog:
    """The log of a segment without its corrupt batches, as ``survey`` finds it.

    The first of them was at ``position``, with offset ``offset``. ``sha256`` and ``recipe`` are of
    the new log.
    """

    segment: Segment
    survey: Survey
    sha256: str
    recipe: Assembly
    position: int
    offset: int

    @property
    def size(self) -> int:
        """The size of the new log in bytes."""
        return sum(piece.size for piece in self.recipe.pieces)


def drop_steps(
    facts: PartitionFacts,
    after: Replay,
    changed: Sequence[ShorterLog],
    files: Mapping[str, Stamp],
) -> Iterator[Step]:
    """Yield all steps. ``after`` is a replay of the new logs. Raises SourceError.

    The indexes that stay short are rebuilt by a plan of their own.
    """
    surveys, end = [segment.survey for segment in after.segments], after.end_offset
    if facts.recovery_point is not None and facts.recovery_point > end:
        yield from recovery_point_step(facts, surveys[-1].segment.base_offset)
    for log in changed:
        yield from _log_steps(log, files)
    yield from _snapshot_steps(facts, after, files)
    yield from end_steps(facts, surveys, end, files)
    if facts.clean:
        # A clean shutdown file may name a broker epoch, with which the controller would keep this
        # replica in sync although it lacks records. Until here, a start trusts what it would have.
        yield TakeMarker()
        yield PutMarker()


def _snapshot_steps(
    facts: PartitionFacts, after: Replay, files: Mapping[str, Stamp]
) -> Iterator[Step]:
    """Yield a snapshot of the producers at the new end, if those above it have to go.

    A clean start knows no producers if no snapshot is left, and does not replay the log.
    """
    above = [
        offset for offset in sorted(facts.snapshots, reverse=True) if offset > after.end_offset
    ]
    known = not isinstance(start_of(facts, [each.survey for each in after.segments]), str)
    if above and known:
        yield from end_snapshot(facts, after, files)
    for offset in above:
        yield Remove(facts.snapshots[offset].path.name)


def _log_steps(log: ShorterLog, files: Mapping[str, Stamp]) -> Iterator[Step]:
    segment, base = log.segment, log.segment.base_offset
    if segment.index is not None:
        index = _ascending(OffsetIndex.decode(_content(segment.index), base), (base, 0))
        before = takewhile(lambda entry: entry[1] < log.position, index)
        yield from _shortened(segment.index, OffsetIndex.of(base, before).encode(), files)
    if segment.time_index is not None:
        times = _ascending(TimeIndex.decode(_content(segment.time_index), base), (-1, base - 1))
        earlier = takewhile(lambda entry: entry[1] < log.offset, times)
        yield from _shortened(segment.time_index, TimeIndex.of(base, earlier).encode(), files)
    name = segment.log.name
    # Retention uses the modification time of logs whose records have no timestamp.
    mtime_ns = files[name].mtime_ns
    if log.size:
        yield Put(name, log.size, log.sha256, True, log.recipe, mtime_ns=mtime_ns)
    else:
        yield replace(Put.of(name, b"", replaces=True), mtime_ns=mtime_ns)


def _ascending(entries: Iterable[_Entry], before: _Entry) -> Iterator[_Entry]:
    """Yield entries up to the first that does not follow the one before it."""
    for entry in entries:
        if not (entry[0] > before[0] and entry[1] > before[1]):
            return
        yield entry
        before = entry


def _shortened(path: AnyPath, content: bytes, files: Mapping[str, Stamp]) -> Iterator[Step]:
    stamp = files.get(path.name)
    if stamp is not None and stamp.size > len(content):
        yield Put.of(path.name, content, replaces=True)


def _content(path: AnyPath) -> bytes:
    with open_source(path, mapped=False) as source:
        size = min(source.size, _MOST_BYTES)
        return bytes(source.window(0, size)[:size])
