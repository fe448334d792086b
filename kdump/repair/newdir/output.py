"""The path, the files, the verification and the receipt of a new partition directory.

Spec: ``LogManager.loadLogs``, which fails on unknown directories in a log directory; KOD 5.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kdump.audit.facts.settings import Overrides
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.audit.run.verify import verify
from kdump.audit.survey.rebuilt_indexes import RebuiltIndexes
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, SourceError
from kdump.repair.newdir.building import Building
from kdump.repair.transaction.disk import Attributes
from kdump.repair.transaction.folder import Folder, StartRecord
from kdump.repair.transaction.lock import finish_or_undo, interrupted_repair, same_file
from kdump.repair.transaction.plan import Plan
from kdump.storage.access import open_source
from kdump.storage.logdir import Partition, Segment, ancestors, is_log_directory, read_partition
from kdump.storage.names import DirectoryName, FileKind, format_directory_name, format_file_name
from kdump.storage.paths import as_local
from kdump.storage.source import WINDOW_BYTES, Identity, Source
from kdump.values import frozen

#: The longest directory name that a broker makes; it shortens the topic to fit.
_LONGEST_NAME: Final = 255
_PROBLEMS: Final = frozenset({Severity.ERROR, Severity.WARNING, Severity.INCOMPLETE})


@frozen
class NewDirectory:
    """The new directory at ``destination``, made from the partition directory at ``partition``.

    ``identity`` is the device and inode of ``partition``. ``files`` has the size and the SHA-256 of
    all written files by name. ``findings`` are the findings of verify on the new directory.
    """

    id: str
    partition: Path
    destination: Path
    identity: tuple[int, int]
    files: Mapping[str, tuple[int, str]]
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]
    begun_ns: int
    seconds: float

    @property
    def problems(self) -> int:
        """The number of findings above info on the new directory."""
        return sum(1 + finding.repeats for finding in self._problems)

    @property
    def problem_codes(self) -> list[str]:
        """The codes of these findings, in the order of the alphabet."""
        return sorted({finding.code.name for finding in self._problems})

    @property
    def has_errors(self) -> bool:
        """Whether one of the findings is an error."""
        return any(finding.code.severity is Severity.ERROR for finding in self.findings)

    @property
    def _problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.code.severity in _PROBLEMS]

    @property
    def begun(self) -> str:
        """The time of the start, in ISO 8601."""
        return f"{datetime.fromtimestamp(self.begun_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def encode_output(output: NewDirectory, command: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON fields of ``output``, without its paths; ``fields`` are added."""
    device, inode = output.identity
    return {
        "id": output.id,
        "command": command,
        "begun": output.begun,
        "seconds": output.seconds,
        "source_identity": {"device": device, "inode": inode},
        **fields,
        "files": {
            name: {"size": size, "sha256": digest}
            for name, (size, digest) in sorted(output.files.items())
        },
        "notes": list(output.notes),
        "problems": output.problems,
        "next": ["kdump", "verify"],
    }


def encode_identity(identity: Identity) -> dict[str, int]:
    """Return the JSON fields of ``identity``."""
    return {
        "device": identity.device,
        "inode": identity.inode,
        "size": identity.size,
        "mtime_ns": identity.mtime_ns,
    }


# --- path


def destination_of(partition: Partition, output: Path) -> Path:
    """Return the path of the new directory of a partition; raise Refused if it cannot be made."""
    try:
        return _checked_destination(partition, output)
    except OSError as error:
        raise Refused(
            f"{output}: expected a place where a directory can be made, found an error: "
            f"{error.strerror}"
        ) from error


def _checked_destination(partition: Partition, output: Path) -> Path:
    name = partition.name
    if name is None:
        raise Refused(
            f"{partition.path}: expected a directory called <topic>-<partition>, found another "
            "name: copy or link it under its name"
        )
    for directory in ancestors(output):
        if is_log_directory(directory):
            raise Refused(
                f"{output}: expected a place outside of log directories, found that {directory} "
                "is a log directory: a broker would load the result, or refuse to start because "
                "of it"
            )
        if same_file(as_local(directory), as_local(partition.path)):
            raise Refused(
                f"{output}: expected a place outside of the source, found a place inside it"
            )
    if not output.exists() and not output.parent.is_dir():
        raise Refused(f"{output.parent}: expected a directory, found none")
    if output.exists() and not output.is_dir():
        raise Refused(f"{output}: expected a directory, found something else")
    destination = output / format_directory_name(name.topic, name.partition)
    if os.path.lexists(destination):
        raise Refused(
            f"{partition.path}: expected nothing at {destination}, found something: nothing is "
            "overwritten"
        )
    return destination


def check_targets(targets: Sequence[Target], output: Path) -> None:
    """Raise Refused, before anything is written, if the destination of a target is refused."""
    origins: dict[Path, Path] = {}
    for target in targets:
        if target.partition is None:
            continue
        destination = destination_of(target.partition, output)
        if destination in origins:
            raise Refused(
                f"{target.path}: expected a single source for {destination}, found "
                f"{origins[destination]} too: give each its own --output"
            )
        origins[destination] = as_local(target.path)


def check_space(output: Path, needed: int) -> None:
    """Raise Refused unless ``needed`` bytes are free at ``output``."""
    space = os.statvfs(output if output.exists() else output.parent)
    free = space.f_bavail * space.f_frsize
    if free < needed:
        raise Refused(f"{output}: expected {needed} free bytes, found {free}")


# --- files


def read_pieces(source: Source, report: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
    """Yield the bytes of a whole file; ``report`` is called with counts. Raises SourceError."""
    for position in range(0, source.size, WINDOW_BYTES):
        piece = bytes(source.window(position, WINDOW_BYTES)[:WINDOW_BYTES])
        yield piece
        report(len(piece))


def copy_file(building: Building, path: Path) -> None:
    """Copy the file at ``path`` into the new directory. Raises SourceError."""
    with open_source(path, mapped=False) as source:
        building.put(path.name, read_pieces(source), building.attributes(path))


def survey_of(building: Building, name: str, base_offset: int, settings: TopicSettings) -> Survey:
    """Return the survey of a new log, with its indexes built by ``settings``.

    Raises SourceError.
    """
    segment = Segment(base_offset, building.path / name, None, None, None, None, "")
    log_survey = survey(
        segment,
        lambda _: None,
        mapped=False,
        sealed=False,
        deep=False,
        settings=settings,
        rebuild_room=index_room(settings),
    )
    for unread in log_survey.unread:
        raise SourceError(unread.path, unread.text)
    return log_survey


def index_room(settings: TopicSettings) -> int:
    """Return the largest size of both indexes of a segment together, in bytes."""
    return 2 * settings.segment_index_bytes


def put_indexes(
    building: Building,
    base_offset: int,
    rebuilt: RebuiltIndexes | None,
    like: Attributes,
    settings: TopicSettings,
) -> list[str]:
    """Write the rebuilt indexes of a new log; return notes on them.

    Raises SourceError.
    """
    log, index, times = files_of(base_offset)
    if rebuilt is None or rebuilt.index.content is None or rebuilt.time_index.content is None:
        raise SourceError(log, f"{log}: its indexes are too large to be built")
    building.put(index, [rebuilt.index.content], like)
    building.put(times, [rebuilt.time_index.content], like)
    if not rebuilt.full:
        return []
    return [
        f"{log} needs more index entries than {settings.segment_index_bytes} bytes hold: its "
        "indexes do not cover its end"
    ]


def files_of(base_offset: int) -> tuple[str, str, str]:
    """Return the names of a segment's log, offset index and time index."""
    kinds = FileKind.LOG, FileKind.INDEX, FileKind.TIME_INDEX
    log, index, times = (format_file_name(kind, base_offset) for kind in kinds)
    return log, index, times


def name_notes(partition: Partition) -> Iterator[str]:
    """Yield notes on a directory that a broker has renamed."""
    if partition.name is not None and partition.name.suffix:
        yield f"the directory was called {partition.path.name}"
        if len(partition.path.name.encode()) >= _LONGEST_NAME:
            yield (
                "a broker shortens long topic names in such directory names: the topic name may "
                f"be longer than {partition.name.topic}; the topic id in partition.metadata "
                "identifies it"
            )


def source_notes(facts: PartitionFacts, first: int) -> Iterator[str]:
    """Yield notes on the source; ``first`` is the first base offset of the new directory."""
    if not facts.stopped:
        yield (
            "a broker may be writing to the source: records that it wrote during the copy may be "
            "missing"
        )
    repair = interrupted_repair(facts.partition.path)
    if repair is not None:
        yield (
            f"a repair of the source was interrupted, {repair.id}, and its backup holds files that "
            f"it moved away: {finish_or_undo(repair, facts.partition.path)}"
        )
    if facts.log_start is not None and facts.log_start > first:
        yield (
            f"the log start offset was {facts.log_start}, by a checkpoint of the log directory. "
            f"Deleted records from {first} on are in the result again"
        )


# --- verification and receipt


def verify_result(building: Building, settings: TopicSettings, jobs: int = 1) -> Verdict:
    """Return the verdict of verify on the new directory, which is outside of any log directory.

    ``settings`` are those of the source: if it is compacted, so is the new directory.
    """
    partition = replace(read_partition(building.path), name=_final_name(building.path))
    target = Target(building.path, partition.segments, None, True, 0, partition=partition)
    wanted = Overrides(compacted=settings.compacted)
    context = Context(time.time_ns() // 1_000_000, wanted=wanted)
    with closing(verify([target], deep=False, jobs=jobs, context=context)) as verdicts:
        return next(verdicts)


def plan_of(
    building: Building,
    command: str,
    arguments: Sequence[str],
    destination: Path,
    log_start: int,
    log_end: int | None,
    notes: Sequence[str],
) -> Plan:
    """Return the plan that the new directory records; it has no steps."""
    status = building.path.stat()
    return Plan(
        command,
        tuple(arguments),
        destination,
        (status.st_dev, status.st_ino),
        None,
        (),
        {},
        log_start=log_start,
        log_end=(None, log_end),
        notes=tuple(notes),
    )


def leave_receipt(
    building: Building, plan: Plan, output: NewDirectory, fields: Mapping[str, Any]
) -> None:
    """Write plan and receipt into the new directory; ``fields`` are those of ``output`` as JSON."""
    folder = Folder(building.path, plan.id)
    folder.make(plan, building.like)
    folder.begin(StartRecord(output.begun_ns, {}, None))
    source, destination = os.fspath(output.partition), os.fspath(output.destination)
    folder.finish({"source": source, "target": destination, **fields})


def _final_name(path: Path) -> DirectoryName:
    topic, _, number = path.name.removeprefix(".kdump.").removesuffix(".tmp").rpartition("-")
    return DirectoryName(topic, int(number))
