"""The copies of each partition, what parts them, and what follows from that: text and JSON Lines.

Scripts rely on JSON: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Final, NamedTuple

from kdump.audit.commands import Remedy
from kdump.audit.facts.remote_storage import ranges_text
from kdump.audit.verdicts.state import RunState
from kdump.commands.compare.advice import Advice
from kdump.commands.compare.summary import CompareSummary
from kdump.copies.comparison import Comparison, ComparisonState, Difference, FollowerCut, Held
from kdump.copies.copy import Copy, LostOffsets, OffsetRange
from kdump.copies.fields import copy_fields, difference_fields, leader_fields, partition_fields
from kdump.format.lines.text import printable
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.paragraphs import command_line, paragraph
from kdump.ui.table import FIELDS, Column, ReportTable
from kdump.ui.units import count_text, size_text
from kdump.ui.verdicts.verdict_text import state_lines

#: How many ranges of offsets are listed.
_LISTED: Final = 8


class _CopyRow(NamedTuple):
    found: Comparison
    place: int
    copy: Copy


def _copies(found: Comparison) -> list[_CopyRow]:
    return [_CopyRow(found, *placed) for placed in enumerate(found.copies)]


def _in_sync(row: _CopyRow) -> str | None:
    in_sync = row.found.in_sync(row.place)
    if row.found.eligible(row.place):
        return "elr"
    return None if in_sync is None else "yes" if in_sync else "no"


def _end(row: _CopyRow) -> str:
    copy = row.copy
    return "stray" if copy.stray else str(copy.end) if copy.starts else "offline"


_COPIES: Final = ReportTable[_CopyRow](
    "copy",
    (
        Column("REPLICA", None, lambda row: row.place + 1),
        Column(None, FIELDS, lambda row: copy_fields(row.found, row.place, jsonl.path_field)),
        Column("NODE", None, lambda row: row.copy.node_id),
        Column("ISR", None, _in_sync),
        Column("CHOICE", None, lambda row: row.found.order.index(row.place) + 1),
        Column("EPOCH", None, lambda row: row.copy.started.latest),
        Column("START", None, lambda row: row.copy.log_start),
        Column("END", None, _end),
        Column("HW", None, lambda row: row.copy.high_watermark),
        Column("SIZE", None, lambda row: row.copy.size, size_text),
        Column("CORRUPT", None, lambda row: len(row.copy.lost) or None),
        Column("PATH", None, lambda row: row.copy.path),
    ),
    always=2,
)


class TextComparisons:
    """Prints the verdict, then each partition; equal ones if ``everything`` is shown.

    Lines wait until all is compared, or the run ends early. ``again`` is the command that
    compares the same copies once more.
    """

    def __init__(
        self, emit: Callable[[str], None], again: Remedy, *, everything: bool, wide: bool
    ) -> None:
        self._emit = emit
        self._lines: list[str] = []
        self._everything = everything
        self._wide = wide
        self._summary = CompareSummary()
        self._advice = Advice(again)

    def shows(self, found: Comparison) -> bool:
        """Return whether the report has an entry for a partition."""
        return self._everything or found.state not in (ComparisonState.EQUAL, ComparisonState.ALONE)

    def add(self, found: Comparison) -> None:
        """Add a partition."""
        self._summary.add(found)
        self._advice.add(found)
        if not self.shows(found):
            return
        self._lines.append(printable(f"PARTITION {found.topic}-{found.partition}: {_title(found)}"))
        self._lines += _COPIES.text(_copies(found), wide=self._wide)
        for label, text in _rows(found):
            self._print(f"  {label}", text)
        self._lines.append("")

    def finish(self, *, interrupted: bool = False) -> int:
        """Print the report with what follows from it; return the exit code."""
        summary = self._summary
        state, verdict = summary.state, summary.verdict
        if interrupted:
            state = state if state is RunState.ERROR else RunState.INCOMPLETE
            verdict += " The run ended early: not all was compared."
        parts = [
            f"{summary.states[state]:,} {state.value}"
            for state in ComparisonState
            if summary.states[state]
        ]
        hidden = summary.states[ComparisonState.EQUAL] + summary.states[ComparisonState.ALONE]
        more = " (--all shows all)" if hidden and not self._everything else ""
        self._print("result", f"{', '.join(parts) or 'no partition'}{more}")
        self._print(
            "compared",
            f"{count_text(summary.copies, 'replica')} of "
            f"{count_text(summary.partitions, 'partition')}, {size_text(summary.log_bytes)}, "
            f"{count_text(summary.batches, 'batch', 'batches')}: every header and checksum",
        )
        if summary.remote:
            partitions = count_text(summary.remote, "partition")
            self._print("remote", f"{partitions} with offsets in remote storage, not read")
        if summary.uncompared:
            self._print(
                "",
                f"the records of {count_text(summary.uncompared, 'pair')} of batches of compacted "
                "topics could not be compared",
            )
        # Steps for a part of the partitions would make others lose records.
        for number, step in enumerate(() if interrupted else self._advice.steps(), 1):
            colon = ":" if step.commands else ""
            self._print("next" if number == 1 else "", f"{number} {step.text}{colon}")
            self._lines += map(command_line, step.commands)
        for line in (*state_lines(state, verdict), *self._lines):
            self._emit(line)
        return summary.exit_code

    def _print(self, label: str, text: str) -> None:
        self._lines += map(printable, paragraph(label, text).split("\n"))


class JsonComparisons:
    """Emits the header at once, and the lines of each partition as soon as it is compared.

    Copies are numbered from 1 in each partition.
    """

    def __init__(self, emit: Callable[[str], None], paths: Iterable[AnyPath]) -> None:
        self._emit = emit
        self._summary = CompareSummary()
        emit(jsonl.line("header", jsonl.header("compare", paths)))

    def add(self, found: Comparison) -> None:
        """Emit the lines of a partition."""
        self._summary.add(found)
        name: dict[str, object] = {"topic": found.topic, "partition": found.partition}
        for row in _copies(found):
            self._emit(_COPIES.json(row, **name))
        for leadership in found.leaderships:
            self._emit(jsonl.line("leader", name | leader_fields(leadership)))
        for difference in found.differences:
            self._emit(jsonl.line("difference", name | difference_fields(difference)))
        self._emit(jsonl.line("partition", name | partition_fields(found)))

    def finish(self, *, interrupted: bool = False) -> int:
        """Emit the last line, unless the run ends early; return the exit code."""
        summary = self._summary
        if interrupted:
            return summary.exit_code
        fields: dict[str, object] = {
            "exit": summary.exit_code,
            "partitions": summary.partitions,
            **{state.value: summary.states[state] for state in ComparisonState},
            "copies": summary.copies,
            "log_bytes": summary.log_bytes,
            "batches": summary.batches,
        }
        self._emit(jsonl.line("summary", fields))
        return summary.exit_code


def _title(found: Comparison) -> str:
    if found.state is ComparisonState.LAGGING:
        most = max(copy.end for copy in found.copies) - min(copy.end for copy in found.copies)
        if not most and not found.missing:
            return "log starts differ"
        return f"lagging, by {count_text(most, 'offset')} at most" if most else "lagging"
    return found.state.value


def _rows(found: Comparison) -> Iterator[tuple[str, str]]:
    for text in found.unread:
        yield "unread", text
    for node in found.missing:
        yield (
            "missing",
            f"node {node} is a replica, but its log directories have no log of this topic id: if "
            "it leads, the others lose all records",
        )
    for path in found.aside:
        yield "", f"it is in {printable(str(path))}, which a broker does not use"
    for difference in found.differences:
        yield "differs", _difference_text(difference)
    for first, second, batches in found.uncompared:
        yield (
            "records",
            f"replicas {first + 1} and {second + 1}: the records of "
            f"{count_text(batches, 'batch', 'batches')} were not compared",
        )
    for index, copy in enumerate(found.copies):
        damages = zip(copy.lost, found.sound_in[index], found.held[index], strict=True)
        for lost, sound_in, held in islice(damages, _LISTED):
            yield "lost", _lost_text(index, lost, sound_in, held)
        if len(copy.lost) > _LISTED:
            yield "", f"replica {index + 1}: {len(copy.lost) - _LISTED:,} more places"
        if copy.remote:
            offsets = ranges_text(copy.remote)
            yield "remote", f"replica {index + 1}: offsets {offsets} in remote storage, not read"
        if copy.starts and copy.started.latest is None and copy.epochs.latest is not None:
            yield (
                "epochs",
                f"replica {index + 1} has no leader-epoch-checkpoint: its broker cannot tell where "
                "its log diverges from others",
            )
        if copy.end < copy.end_offset:
            yield (
                "start",
                f"replica {index + 1}: the next startup truncates its log to offset {copy.end}, "
                f"and removes offsets up to {copy.end_offset - 1}",
            )
        elif copy.start_loses:
            yield "start", f"replica {index + 1}: the next startup removes valid batches"
        if copy.lacks_start and any(other.start < copy.start for other in found.copies):
            yield (
                "start",
                f"replica {index + 1} lacks the start of its log: do not start its broker first, "
                "unless the replica is healed",
            )
    for index, ranges in groupby(found.alone, key=itemgetter(0)):
        yield f"only in {index + 1}", _ranges_text([offsets for _, offsets in ranges])
    for leadership in found.leaderships:
        effects = [
            *(_cut_text(cut) for cut in leadership.cuts if cut.truncation is not None),
            *_deletion_texts(leadership.cuts),
        ]
        if effects:
            yield f"{leadership.leader + 1} leads", "; ".join(effects)


def _difference_text(difference: Difference) -> str:
    copy, other = (index + 1 for index in difference.copies)
    where = "" if difference.offset is None else f" from offset {difference.offset} on"
    return f"replicas {copy} and {other}{where}: {difference.detail}"


def _lost_text(index: int, lost: LostOffsets, sound_in: Sequence[int], held: Sequence[Held]) -> str:
    sound = [str(number + 1) for number in sound_in]
    size = f", {count_text(lost.size, 'byte')} at position {lost.position}" if lost.size else ""
    where = f"valid in {' and '.join(sound)}" if sound else "valid in no other replica"
    if held and not sound:
        parts = [f"{_bounds(part.offsets)} in {part.copy + 1}" for part in held[:_LISTED]]
        more = len(held) - len(parts)
        where = f"valid in part: {', '.join(parts)}" + (f", and {more:,} more" if more else "")
    offsets = f"offset {lost.first} and on"
    if lost.end == lost.first:
        offsets = f"no offset missing before {lost.first}"
    elif lost.end is not None:
        offsets = _range_text(OffsetRange(lost.first, lost.end))
    place = f"replica {index + 1}: {lost.path.name}{size}, {offsets}"
    return f"{place}: {lost.reason}; {where}"


def _cut_text(cut: FollowerCut) -> str:
    assert cut.truncation is not None
    offset = cut.truncation.offset
    start = f"replica {cut.copy + 1} truncates to offset {offset}"
    if cut.truncation.restart:
        start = f"replica {cut.copy + 1} drops its log and begins an empty one at offset {offset}"
    if cut.lost is None or not cut.records:
        return f"{start}, and loses no record"
    return f"{start}, and loses {count_text(cut.records, 'record')}, {_range_text(cut.lost)}"


def _deletion_texts(cuts: Sequence[FollowerCut]) -> Iterator[str]:
    """Yield what copies delete at their starts because the leader's log begins later."""
    by_range: dict[OffsetRange, list[FollowerCut]] = {}
    for cut in cuts:
        if cut.deleted is not None:
            by_range.setdefault(cut.deleted, []).append(cut)
    for offsets, same in by_range.items():
        numbers = " and ".join(str(cut.copy + 1) for cut in same)
        copies = f"replicas {numbers} lose" if len(same) > 1 else f"replica {numbers} loses"
        records = count_text(max(cut.deleted_records for cut in same), "record")
        yield f"{copies} {records}, {_range_text(offsets)}, before the log start of the leader"


def _ranges_text(ranges: Sequence[OffsetRange]) -> str:
    more = "" if len(ranges) <= _LISTED else f", and {len(ranges) - _LISTED:,} more ranges"
    return f"offsets {', '.join(map(_bounds, ranges[:_LISTED]))}{more}"


def _range_text(offsets: OffsetRange) -> str:
    return f"offsets {_bounds(offsets)}"


def _bounds(offsets: OffsetRange) -> str:
    return f"{offsets.first}..{offsets.end - 1}"
