"""Checks of unfinished cleanings, splits and deletions.

Spec: ``LogLoader.removeTempFilesAndCollectSwapFiles``, ``LogLoader.load``, KAFKA-6264; KOD 5, KOD 9
check 28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kdump.audit import codes
from kdump.audit.codes import FindingCode
from kdump.audit.evidence import Evidence
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.audit.startup.swap_loss import swap_loss
from kdump.storage.logdir import EntryType, Partition
from kdump.storage.names import FileKind, Suffix, parse_file_name
from kdump.storage.paths import AnyPath
from kdump.values import frozen

Ends = Mapping[int, int]
"""The offset after the last record of a segment, by its base offset, if it is known."""


@frozen
class Swap:
    """The effect of a start on a partition's ``.swap`` files.

    The start removes ``discarded`` and renames ``pending``. ``logs`` are the base offsets of the
    pending segments, ``replaced`` those of the segments that they replace.
    """

    discarded: tuple[AnyPath, ...]
    pending: tuple[AnyPath, ...]
    logs: tuple[int, ...]
    replaced: tuple[int, ...]


def check_leftovers(evidence: Evidence) -> Iterator[Finding]:
    """Report the files that a start removes or ignores, in one finding for each kind."""
    facts = evidence.facts
    if facts is None or not facts.stopped:
        return
    kinds: tuple[tuple[FindingCode, tuple[Suffix, ...]], ...] = (
        (codes.LEFTOVER_DELETED, (".deleted",)),
        (codes.LEFTOVER_CLEANED, (".cleaned",)),
        (codes.LEFTOVER_TEMPORARY, (".tmp", ".part")),
    )
    for code, suffixes in kinds:
        yield from _joint_finding(
            code, [path for path, suffix in _files(facts.partition) if suffix in suffixes]
        )


def check_foreign(evidence: Evidence) -> Iterator[Finding]:
    """Report, in one finding, the entries of a partition that do not belong to Kafka."""
    facts = evidence.facts
    if facts is None:
        return
    yield from _joint_finding(
        codes.FOREIGN_FILE,
        [
            entry.path
            for entry in facts.partition.entries
            if entry.name.kind is FileKind.UNKNOWN and entry.name.suffix == ""
        ],
    )


def check_swaps(evidence: Evidence) -> Iterator[Finding]:
    """Check the effect of finishing an interrupted replacement."""
    facts = evidence.facts
    if facts is None or not facts.stopped:
        return
    loss = swap_loss(facts, evidence.surveys)
    swap = plan_swap(facts.partition, facts.swap_ends)
    yield from _joint_finding(codes.SWAP_DISCARDED, swap.discarded)
    overlap = _overlap(facts.partition, swap, evidence.ends)
    if overlap is not None:
        yield file_finding(
            codes.SWAP_OVERLAPS,
            swap.pending[0],
            f"a base offset from {overlap.last} on, where the segment before ends",
            str(overlap.first),
            offsets=Offsets(overlap.first, (overlap.last or 0) - 1),
        )
    elif loss is not None:
        first, last = loss.records.first_offset or 0, loss.records.last_offset
        upto = max(facts.swap_ends[base] for base in swap.logs)
        yield file_finding(
            codes.SWAP_DELETES if loss.certain else codes.SWAP_SHORTENED,
            swap.pending[0],
            "all records of the segments that it replaces",
            f"an end at {upto}, and {loss.records.count} records less",
            offsets=Offsets(first, last),
        )
    else:
        yield from _joint_finding(codes.SWAP_PENDING, swap.pending)


def plan_swap(partition: Partition, swap_ends: Ends) -> Swap:
    """Return the effect of a start on the ``.swap`` files, before it loads a segment."""
    files = _files(partition)
    cleaned = [_base(path) for path, suffix in files if suffix == ".cleaned"]
    swaps = [path for path, suffix in files if suffix == ".swap"]
    lowest_cleaned = min((base for base in cleaned if base is not None), default=None)
    discarded: list[AnyPath] = []
    pending: list[AnyPath] = []
    for path in swaps:
        base = _base(path)
        is_split = lowest_cleaned is not None and base is not None and base >= lowest_cleaned
        (discarded if is_split else pending).append(path)
    pending_paths = set(pending)
    logs = [segment.base_offset for segment in partition.transient if segment.log in pending_paths]
    upto = max((swap_ends.get(base, base) for base in logs), default=0)
    replaced = [
        segment.base_offset
        for segment in partition.segments
        # The rename itself replaces a segment of the same name.
        if logs and (logs[0] <= segment.base_offset < upto or segment.base_offset in logs)
    ]
    return Swap(tuple(discarded), tuple(pending), tuple(logs), tuple(replaced))


def _overlap(partition: Partition, swap: Swap, ends: Ends) -> Offsets | None:
    """Return the first swapped base offset and the higher end of the segment before, or None."""
    if not swap.logs or swap.logs[0] in swap.replaced:
        return None
    before = [
        segment.base_offset for segment in partition.segments if segment.base_offset < swap.logs[0]
    ]
    end = ends.get(before[-1]) if before else None
    return Offsets(swap.logs[0], end) if end is not None and end > swap.logs[0] else None


def _files(partition: Partition) -> list[tuple[AnyPath, Suffix]]:
    """Return all files with a suffix, sorted by path, including those of transient segments."""
    found: list[tuple[AnyPath, Suffix]] = [
        (entry.path, entry.name.suffix)
        for entry in partition.entries
        if entry.type is EntryType.FILE and entry.name.suffix
    ]
    for segment in partition.transient:
        files = (
            segment.log,
            segment.index,
            segment.time_index,
            segment.txn_index,
            segment.snapshot,
        )
        found += [(path, segment.suffix) for path in files if path is not None]
    return sorted(found)


def _base(path: AnyPath) -> int | None:
    return parse_file_name(path.name).base_offset


def _joint_finding(code: FindingCode, paths: Sequence[AnyPath]) -> Iterator[Finding]:
    if paths:
        yield Finding(code, paths[0], repeats=len(paths) - 1)
