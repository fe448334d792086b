"""The report of ``kdump space``: text, or JSON Lines with a line for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from kdump.audit.commands import leftovers_command
from kdump.audit.facts.retention import Hold
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.facts.space import BLOCK_BYTES, Space
from kdump.audit.sizes.file_systems import FileSystem
from kdump.audit.sizes.leftovers import ABOUT, MAY_GO
from kdump.commands.space.cleaner import CleanerTurn
from kdump.commands.space.cleaner_text import cleaner_hold, cleaner_sentences, compaction_fields
from kdump.commands.space.sample_text import sample_fields, sample_sentence, type_text, zstd_text
from kdump.commands.space.space import (
    LeftoverSpace,
    SpaceReport,
    TopicSpace,
)
from kdump.commands.space.ways_text import wish_fields, wish_lines
from kdump.format.lines.text import printable
from kdump.storage.liveness import UnlinkedFiles
from kdump.storage.names import CLUSTER_METADATA_TOPIC
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.exits import Ending
from kdump.ui.paragraphs import command_line, paragraph, wrap
from kdump.ui.table import FIELDS, Column, ReportTable
from kdump.ui.units import count_text, duration_text, short_age_text, short_size_text, size_text
from kdump.ui.verdicts.forecast_text import space_text
from kdump.values import frozen


@frozen
class _Row:
    """A topic, and the time up to which ages are counted."""

    topic: TopicSpace
    now_ms: int
    cleaners: tuple[CleanerTurn, ...]


def _age(row: _Row) -> str | None:
    oldest = row.topic.oldest_ms
    return None if oldest is None else short_age_text((row.now_ms - oldest) // 1000)


def _policy(topic: TopicSpace) -> str:
    configs = topic.configs
    if topic.topic == CLUSTER_METADATA_TOPIC:
        return "snapshots"
    if configs is None:
        return "unknown"
    parts = ["compact"] if configs.compact else []
    if configs.delete:
        limits = []
        if configs.retention_ms >= 0:
            limits.append(short_age_text(configs.retention_ms // 1000))
        if configs.retention_bytes >= 0:
            limits.append(size_text(configs.retention_bytes))
        parts.append(f"delete {' or '.join(limits)}" if limits else "keep")
    return ", ".join(parts) or "none"


def _held(row: _Row) -> str | None:
    held = row.topic.held
    if {*held} == {Hold.COMPACTION}:
        return cleaner_hold(row.topic)
    return max(held, key=lambda hold: held[hold]).value if held else None


def _config_fields(row: _Row) -> dict[str, object]:
    configs = row.topic.configs
    if configs is None:
        return {"cleanup_policy": None, "retention_ms": None, "retention_bytes": None}
    names = [name for name in ("compact", "delete") if getattr(configs, name)]
    return {
        "cleanup_policy": ",".join(names),
        "retention_ms": configs.retention_ms,
        "retention_bytes": configs.retention_bytes,
    }


_TOPICS: Final = ReportTable[_Row](
    "topic",
    (
        Column("TOPIC", "topic", lambda row: row.topic.topic),
        Column("SIZE", "bytes", lambda row: row.topic.bytes, short_size_text),
        Column(None, "linked_bytes", lambda row: row.topic.linked),
        Column(None, "partitions", lambda row: row.topic.partitions),
        Column(None, "segments", lambda row: row.topic.segments),
        Column("A DAY", None, lambda row: round(row.topic.growth.day) or None, short_size_text),
        Column(None, "day_bytes", lambda row: round(row.topic.growth.day)),
        Column(None, "week_bytes", lambda row: round(row.topic.growth.week)),
        Column("AGE", None, _age),
        Column(None, "oldest_ms", lambda row: row.topic.oldest_ms),
        Column(None, "newest_ms", lambda row: row.topic.newest_ms),
        Column("POLICY", None, lambda row: _policy(row.topic)),
        Column(None, FIELDS, _config_fields),
        Column("DUE", None, lambda row: row.topic.due_bytes or None, short_size_text),
        Column(None, "due_bytes", lambda row: row.topic.due_bytes),
        Column(None, "due_segments", lambda row: row.topic.due_segments),
        Column(None, "due_offsets", lambda row: row.topic.due_offsets),
        Column("HELD BY", None, _held),
        Column(None, "held", lambda row: _held_fields(row.topic)),
        Column(None, "next_due_ms", lambda row: row.topic.until_ms),
        Column(None, FIELDS, lambda row: compaction_fields(row.topic, row.cleaners)),
        Column("TYPE", None, lambda row: type_text(row.topic)),
        Column("AS ZSTD", None, lambda row: zstd_text(row.topic)),
        Column(None, FIELDS, lambda row: sample_fields(row.topic)),
    ),
    always=7,
)


def _held_fields(topic: TopicSpace) -> list[dict[str, object]]:
    return [{"by": hold.name.lower().replace("_", "-"), "bytes": topic.held[hold]}
            for hold in sorted(topic.held, key=lambda hold: -topic.held[hold])]  # fmt: skip


def print_space(
    emit: Callable[[str], None], report: SpaceReport, now_ms: int, *, wide: bool, config: bool
) -> int:
    """Print the report as text, and return the exit code; ``config``: the file was given."""
    for system in report.systems:
        emit(_head(system.space))
        for line in wrap(_growth_text(system), 2):
            emit(line)
        for facts in system.directories:
            for line in wrap(printable(f"{facts.directory.path}: {_state(facts)}"), 2):
                emit(line)
    for facts in report.unlocated:
        emit(printable(f"{facts.directory.path}: the free space is unknown"))
    rows = [_Row(topic, now_ms, report.cleaners) for topic in report.topics]
    if rows:
        emit("")
        for line in _TOPICS.text(rows, wide=wide):
            emit(line)
    if report.leftovers or report.unlinked:
        emit("")
    for left in report.leftovers:
        about = f"{ABOUT[left.kind]}; {_places(left)}"
        emit(paragraph(size_text(left.bytes), printable(about)))
    directories = [facts for system in report.systems for facts in system.directories]
    stopped = bool(directories) and all(facts.stopped for facts in directories)
    if report.wish is None and stopped and any(left.kind in MAY_GO for left in report.leftovers):
        emit(command_line(leftovers_command(facts.directory.path for facts in directories)))
    for unlinked in report.unlinked:
        emit(paragraph(size_text(unlinked.size_bytes), printable(_unlinked_text(unlinked))))
    emit("")
    *closing, measured = _closing(report, config=config)
    sampled = sample_sentence(report.topics)
    for label, text in (*closing, *cleaner_sentences(report, now_ms), *sampled, measured):
        emit(paragraph(label, text))
    if report.wish is not None:
        paths = [facts.directory.path for facts in directories]
        for line in wish_lines(report, report.wish, paths, now_ms):
            emit(line)
    for error in report.errors:
        emit(paragraph("unreadable", printable(str(error))))
    return Ending(unread=bool(report.errors)).exit_code


def _places(left: LeftoverSpace) -> str:
    more = f" and {left.places - 1:,} more" if left.places > 1 else ""
    return f"{left.first}{more}"


def _unlinked_text(unlinked: UnlinkedFiles) -> str:
    more = f" and {unlinked.files - 1:,} more" if unlinked.files > 1 else ""
    unread = f"; the size of {unlinked.unread:,} cannot be read" if unlinked.unread else ""
    return (
        f"removed files that {unlinked.process} still has open: free once it ends or closes them; "
        f"{unlinked.first}{more}{unread}"
    )


def _closing(report: SpaceReport, *, config: bool) -> Iterator[tuple[str, str]]:
    due = sum(topic.due_bytes for topic in report.topics)
    if due:
        topics = count_text(sum(bool(topic.due_bytes) for topic in report.topics), "topic")
        yield (
            "due",
            f"retention deletes {size_text(due)} of {topics} at its next check: by default 30 "
            "seconds after startup and every 5 minutes, and by the cleaner where a topic is "
            "compacted too",
        )
    if not config and any(topic.configs is not None for topic in report.topics):
        yield (
            "configs",
            "from the metadata log; what it does not set has Kafka's default (7 days, dirty ratio "
            "0.5), unless server.properties sets it: --config FILE",
        )
    if any(topic.held.get(Hold.UNKNOWN) for topic in report.topics):
        yield (
            "unknown",
            "of some topics, either no metadata log in sight has the configs, or no checkpoint has "
            "the high watermark: nothing counts as due",
        )
    if report.linked:
        yield (
            "linked",
            f"{size_text(report.linked)} in files with other hard links, such as snapshots, in "
            "extents that files share (reflinks), or in targets of links: to delete them here "
            "frees nothing",
        )
    if report.uninspected:
        yield (
            "processes",
            f"{count_text(len(report.uninspected), 'process', 'processes')} that this user may not "
            "inspect: removed files that they still have open are not counted",
        )
    stored = [facts for facts in report.unlocated if not isinstance(facts.directory.path, Path)]
    what = "allocated on disk"
    if stored and not report.systems:
        what = "by the sizes of files, not what they take on a disk"
    yield (
        "measured",
        f"{count_text(report.partitions, 'partition')}, {size_text(report.bytes)} {what}; nothing "
        "was changed",
    )


def _head(space: Space) -> str:
    if _is_full(space):
        return f"DISK FULL: {space_text(space)}"
    percent = 100 * space.free_bytes / space.total_bytes
    return f"{percent:.{1 if percent < 10 else 0}f} % free: {space_text(space)}"


def _is_full(space: Space) -> bool:
    return space.free_bytes < BLOCK_BYTES or space.free_files == 0


def _growth_text(system: FileSystem) -> str:
    """Return what came, and when the file system is full if that goes on."""
    growth = system.growth
    came = f"{size_text(growth.day)} came in the last day, {size_text(growth.week)} in the week"
    earliest, latest = growth.full_ms(system.space.free_bytes)
    if _is_full(system.space):
        return (
            f"{came}: kdump next-start says whether a broker starts with so little room; kdump "
            "trim removes the oldest segments while it is stopped"
        )
    if earliest is None:
        return f"{came}: not full within a year at this rate"
    times = [duration_text(each / 1000) for each in (earliest, latest) if each is not None]
    until = " to ".join(dict.fromkeys(times))
    return f"{came}: full in {until}" + ("" if latest is not None else " at the earliest")


def _state(facts: DirectoryFacts) -> str:
    return f"broker {facts.liveness.state.value}"


def emit_space(
    emit: Callable[[str], None], report: SpaceReport, asked: Iterable[AnyPath], now_ms: int
) -> int:
    """Emit the report as JSON Lines, and return the exit code.

    Scripts rely on it: fields may be added, but none is changed or removed.
    """
    ending = Ending(unread=bool(report.errors))
    emit(jsonl.line("header", jsonl.header("space", asked)))
    for system in report.systems:
        space, growth = system.space, system.growth
        earliest, latest = growth.full_ms(space.free_bytes)
        paths = [jsonl.path_value(facts.directory.path) for facts in system.directories]
        fields: dict[str, object] = {
            "directories": paths,
            "total_bytes": space.total_bytes,
            "free_bytes": space.free_bytes,
            "free_files": space.free_files,
            "day_bytes": round(growth.day),
            "week_bytes": round(growth.week),
            "full_after_ms": earliest,
            "full_before_ms": latest,
        }
        emit(jsonl.line("file_system", fields))
    for topic in report.topics:
        emit(_TOPICS.json(_Row(topic, now_ms, report.cleaners)))
    for left in report.leftovers:
        fields = {
            "kind": left.kind.value,
            "bytes": left.bytes,
            "places": left.places,
            **jsonl.path_field(left.first),
        }
        emit(jsonl.line("leftovers", fields))
    for unlinked in report.unlinked:
        fields = {
            "pid": unlinked.process.pid,
            "process": unlinked.process.name,
            "files": unlinked.files,
            "bytes": unlinked.size_bytes,
            "unread_files": unlinked.unread,
            **jsonl.path_field(Path(unlinked.first)),
        }
        emit(jsonl.line("removed_files", fields))
    for error in report.errors:
        emit(jsonl.line("unreadable", {**jsonl.path_field(error.path), "reason": str(error)}))
    for line in () if report.wish is None else wish_fields(report.wish):
        emit(line)
    sums: dict[str, object] = {
        "exit": ending.exit_code,
        "partitions": report.partitions,
        "bytes": report.bytes,
        "linked_bytes": report.linked,
        "due_bytes": sum(topic.due_bytes for topic in report.topics),
        "removed_bytes": sum(each.size_bytes for each in report.unlinked),
        "uninspected": [process.pid for process in report.uninspected],
    }
    emit(jsonl.line("summary", sums))
    return ending.exit_code
