"""What the report says of compaction: what waits for the cleaner, and what keeps it from more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from kdump.audit.facts.compaction import CleanableLog, Wait
from kdump.commands.space.cleaner import CleanerTurn, CompactedPartition
from kdump.commands.space.space import SpaceReport, TopicSpace
from kdump.format.lines.text import printable
from kdump.ui import jsonl
from kdump.ui.units import count_text, duration_text, size_text

#: What holds dirty bytes, and the config or the command that is about it.
_ABOUT: Final = {
    Wait.RATIO: "below min.cleanable.dirty.ratio",
    Wait.LAG: "within min.compaction.lag.ms",
    Wait.ACTIVE: "in the active segment, which is not cleaned before it rolls",
    Wait.HIGH_WATERMARK: "after the high watermark: another replica lags, or the checkpoint is old",
    Wait.TRANSACTION: "after the start of an open transaction: kdump transactions shows it",
    Wait.MOVE: "of partitions that move to another log directory: they are not cleaned meanwhile",
    Wait.CLEANER_OFF: "by log.cleaner.enable=false: no broker with it compacts, nor deletes what "
    "is compacted",
}
#: Of a log whose state is unknown: the same name in text and JSON.
_UNKNOWN: Final = "unknown"


def cleaner_hold(topic: TopicSpace) -> str | None:
    """Return what keeps most bytes of a compacted topic, None without a partition of it."""
    sums: dict[str, int] = defaultdict(int)
    for partition in topic.compacted:
        log = partition.log
        held = partition.log_bytes if log is None else _waiting(log)
        sums[_UNKNOWN if log is None else log.wait.value] += held
    return max(sums, key=lambda hold: sums[hold], default=None)


def compaction_fields(topic: TopicSpace, turns: Sequence[CleanerTurn]) -> dict[str, object]:
    """Return the fields of a topic for JSON; None where it is not compacted."""
    if not topic.compacted:
        return {"dirty_bytes": None, "compaction": None}
    first = {each.path for turn in turns for each in turn.first}
    logs = [each.log for each in topic.compacted if each.log is not None]
    ordered = sorted(topic.compacted, key=lambda each: (each.name.partition, str(each.path)))
    return {
        "dirty_bytes": sum(log.dirty_bytes for log in logs) if logs else None,
        "compaction": [_partition_fields(each, first=each.path in first) for each in ordered],
    }


def _partition_fields(partition: CompactedPartition, *, first: bool) -> dict[str, object]:
    log = partition.log
    fields: dict[str, object] = {
        "partition": partition.name.partition,
        **jsonl.path_field(partition.path),
        "wait": _UNKNOWN if log is None else log.wait.name.lower().replace("_", "-"),
        "next": first,
    }
    if log is not None:
        fields |= {
            "first_dirty_offset": log.first_dirty,
            "end_offset": log.before,
            "clean_bytes": log.clean_bytes,
            "dirty_bytes": log.dirty_bytes,
            "later_bytes": log.later_bytes,
            "dirty_ratio": round(log.ratio, 6),
            "forced": log.forced,
        }
    return fields


def cleaner_sentences(report: SpaceReport, now_ms: int) -> Iterator[tuple[str, str]]:
    """Yield the sentences at the end of the report, each with its label."""
    partitions = [each for topic in report.topics for each in topic.compacted]
    ready = [each.log for each in partitions if each.is_ready and each.log is not None]
    for turn in report.cleaners:
        yield "compaction", _turn_text(turn)
        if turn.idle_ms is not None:
            yield "", _idle_text(turn, turn.idle_ms, now_ms)
    if ready:
        size = size_text(sum(log.dirty_bytes for log in ready))
        yield (
            "",
            (
                f"{size} dirty in {count_text(len(ready), 'partition')} that the cleaner takes in "
                "turn; how much of it cleaning frees is unknown"
            ),
        )
    parts = list(_held_parts(partitions))
    if parts:
        yield "not cleaned", "; ".join(parts)


def _turn_text(turn: CleanerTurn) -> str:
    parts = []
    if turn.busy:
        names = ", ".join(_name(each) for each in turn.busy)
        parts.append(f"the cleaner is at {names}")
    if turn.first:
        log = turn.first[0].log
        ratio = 0.0 if log is None else log.ratio
        others = len(turn.first) - 1
        same = f", or one of {others:,} more with the same" if others else ""
        takes = "takes" if turn.running else "will take"
        forced = " by max.compaction.lag.ms" if log is not None and log.forced else ""
        parts.append(
            f"the cleaner {takes} {_name(turn.first[0])} next{forced} (dirty ratio "
            f"{ratio:.2f}{same})"
        )
    return "; ".join(parts)


def _idle_text(turn: CleanerTurn, idle_ms: int, now_ms: int) -> str:
    waits = f"by its configs it has been ready for {duration_text((now_ms - idle_ms) / 1000)}"
    if turn.written_ms > idle_ms:
        return (
            f"{waits}, and the checkpoint of the cleaner was written meanwhile: a broker that has "
            'failed to clean a partition leaves it, and logs "uncleanable"'
        )
    ended = "no checkpoint of the cleaner is there"
    if turn.written_ms:
        age = duration_text((now_ms - turn.written_ms) / 1000)
        ended = f"the checkpoint of the cleaner has stood still for {age}"
    return (
        f"{waits}, and {ended}: unless the broker has just started, or cleans a large log, its "
        "log says why (kafka.log.LogCleaner)"
    )


def _held_parts(partitions: Sequence[CompactedPartition]) -> Iterator[str]:
    sums: dict[Wait, int] = defaultdict(int)
    for log in (each.log for each in partitions if each.log is not None):
        sums[log.wait] += _waiting(log)
    for wait in sorted(sums, key=lambda each: -sums[each]):
        if wait in _ABOUT and sums[wait]:
            yield f"{size_text(sums[wait])} {_ABOUT[wait]}"
    unknown = [each for each in partitions if each.log is None and each.log_bytes]
    if unknown:
        size = size_text(sum(each.log_bytes for each in unknown))
        yield f"{size} of {_name(unknown[0])}{_more(len(unknown) - 1)}, which is unknown"


def _waiting(log: CleanableLog) -> int:
    """Return the dirty bytes of a log: those that are cleaned next, and those after them."""
    return log.dirty_bytes + (log.later_bytes if log.wait is not Wait.RATIO else 0)


def _more(number: int) -> str:
    return f" and {number:,} more" if number > 0 else ""


def _name(partition: CompactedPartition) -> str:
    return printable(f"{partition.name.topic}-{partition.name.partition}")
