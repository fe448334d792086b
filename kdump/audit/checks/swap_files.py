"""Checks of ``.swap`` files, which an interrupted cleaning or split leaves.

Spec: ``LogLoader.removeTempFilesAndCollectSwapFiles``, KAFKA-6264; KOD 5, KOD 9 check 28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kdump.audit.checks.leftovers import joint_finding, suffixed_files
from kdump.audit.evidence import Evidence
from kdump.audit.finding_code import FindingCode, Harm, Severity
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.audit.startup.swap_loss import swap_loss
from kdump.storage.logdir import Partition
from kdump.storage.names import parse_file_name
from kdump.storage.paths import AnyPath
from kdump.values import frozen

SWAP_DISCARDED: Final = FindingCode(
    "swap-discarded",
    Severity.INFO,
    "The offset of a .swap file is at or above the offset of a .cleaned file: the split of a "
    "segment is unfinished.",
    "The broker removes both at startup and uses the original segment.",
    "Nothing to do.",
    check=28,
)
SWAP_PENDING: Final = FindingCode(
    "swap-pending",
    Severity.INFO,
    "A cleaned or split segment was about to replace other segments when the broker died.",
    "The broker completes the replacement at startup: it deletes the replaced files and renames "
    "the .swap files.",
    "Nothing to do.",
    check=28,
)
SWAP_DELETES: Final = FindingCode(
    "swap-deletes",
    Severity.ERROR,
    "A .swap file will replace segments, and holds fewer records than they do. The topic was never "
    "compacted, or its configs are unknown and nothing shows compaction.",
    "At startup, the broker deletes those segments and renames the .swap file, after a clean "
    "shutdown too.",
    "Before a broker starts, move all .swap files whose names begin with the number of this file "
    "out of the partition.",
    check=28,
)
SWAP_SHORTENED: Final = FindingCode(
    "swap-shortened",
    Severity.WARNING,
    "A .swap file will replace segments, and holds fewer records than they do. kdump cannot "
    "determine whether compaction removed the other records. The topic's configs are unknown, or "
    "batches appear cleaned although the topic is not compacted.",
    "At startup, the broker deletes those segments and renames the .swap file, after a clean "
    "shutdown too.",
    "Verify the partition in its log directory, where the metadata log has the topic's configs. If "
    "the topic was never compacted, move all .swap files whose names begin with the number of this "
    "file out of the partition before a broker starts.",
    check=28,
    harm=Harm.SHORTENED,
)
SWAP_OVERLAPS: Final = FindingCode(
    "swap-overlaps",
    Severity.ERROR,
    "A .swap file begins inside the offsets of a segment that it will not replace.",
    "The broker renames the .swap file at startup: the log then has those offsets twice.",
    "Before a broker starts, move all .swap files whose names begin with the number of this file "
    "out of the partition.",
    check=28,
)

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


def check_swaps(evidence: Evidence) -> Iterator[Finding]:
    """Check the effect of finishing an interrupted replacement."""
    facts = evidence.facts
    if facts is None or not facts.stopped:
        return
    loss = swap_loss(facts, evidence.surveys)
    swap = _plan_swap(facts.partition, facts.swap_ends)
    yield from joint_finding(SWAP_DISCARDED, swap.discarded)
    overlap = _overlap(facts.partition, swap, evidence.ends)
    if overlap is not None:
        yield file_finding(
            SWAP_OVERLAPS,
            swap.pending[0],
            f"a base offset from {overlap.last} on, where the segment before ends",
            str(overlap.first),
            offsets=Offsets(overlap.first, (overlap.last or 0) - 1),
        )
    elif loss is not None:
        first, last = loss.records.first_offset or 0, loss.records.last_offset
        upto = max(facts.swap_ends[base] for base in swap.logs)
        yield file_finding(
            SWAP_DELETES if loss.certain else SWAP_SHORTENED,
            swap.pending[0],
            "all records of the segments that it replaces",
            f"an end at {upto}, and {loss.records.count} records less",
            offsets=Offsets(first, last),
        )
    else:
        yield from joint_finding(SWAP_PENDING, swap.pending)


def _plan_swap(partition: Partition, swap_ends: Ends) -> Swap:
    """Return the effect of a start on the ``.swap`` files, before it loads a segment."""
    files = suffixed_files(partition)
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


def _base(path: AnyPath) -> int | None:
    return parse_file_name(path.name).base_offset


CHECKS: Final = (check_swaps,)
