"""make_manifest(): reads log directories and writes their manifest.

Small files of a partition are read before its logs, so that they are not newer than these. A
partition whose segments are renamed or removed while it is read is read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from kdump.commands.manifest.log_folding import (
    Emitted,
    FileOutcome,
    FoldingTask,
    LogOutcome,
    Slot,
    fold_log,
    status_of_file,
)
from kdump.commands.manifest.names import Names
from kdump.commands.manifest.output import ManifestOutput
from kdump.commands.manifest.small_files import SmallFiles
from kdump.commands.manifest.tree import (
    Base,
    ListedEntry,
    belongs,
    is_repair_record,
    is_whole,
    list_files,
    locate,
    repair_folders,
    status_of_path,
)
from kdump.errors import KdumpError, SourceError, VanishedError
from kdump.format.manifest.contents import (
    Contents,
    StoredDirectory,
    StoredRoot,
    encode_contents,
)
from kdump.format.manifest.directories import (
    FileContent,
    StoredEntry,
    StoredStatus,
    encode_directory,
)
from kdump.format.manifest.indexes import with_log
from kdump.format.manifest.logs import BlockEntry, StoredLog, encode_log
from kdump.format.manifest.sections import SectionKind
from kdump.storage import workers
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, Partition, Segment, list_partition, open_path
from kdump.storage.names import FileKind
from kdump.storage.source import Identity, source_error
from kdump.storage.throttle import Pace, use_idle_io
from kdump.values import frozen

#: How often a partition is read whose files change while it is read.
_ROUNDS: Final = 3
#: The suffix of segments that the next start takes; those with other suffixes it deletes.
_SWAP: Final = ".swap"
_ANONYMOUS_REASONS: Final = {
    BrokerState.LIVE: "a broker used it",
    BrokerState.STOPPED: "no broker used it",
    BrokerState.UNKNOWN: "it was unknown whether a broker used it",
}


@frozen
class NamedRoot:
    """A path that was named, and whether a broker uses it."""

    path: Path
    liveness: Liveness


@frozen
class Made:
    """What was put into a manifest; ``log_bytes`` is the size of the logs that were read."""

    partitions: int
    logs: int
    batches: int
    damages: int
    log_bytes: int
    unread: tuple[str, ...]


@frozen
class ManifestRequest:
    """What a manifest is made of, and how. Times are in nanoseconds since 1970."""

    origin: Path
    bases: tuple[Base, ...]
    roots: tuple[NamedRoot, ...]
    made_by: str
    names: Names
    jobs: int
    pace: Pace | None
    clock_ns: Callable[[], int]

    @property
    def stopped(self) -> bool:
        """Whether certainly no broker uses any of the paths."""
        return all(root.liveness.state is BrokerState.STOPPED for root in self.roots)


def make_manifest(
    request: ManifestRequest, output: ManifestOutput, on_progress: Callable[[int], None]
) -> Made:
    """Read what is requested, and write it to ``output``. Raises KdumpError."""
    maker = _Maker(request, output, on_progress)
    begun = request.clock_ns()
    for base in request.bases:
        maker.read_base(base)
    maker.read_partitions()
    maker.write_bases()
    contents = Contents(
        begun,
        request.clock_ns(),
        request.names.anonymous,
        request.made_by,
        b"" if request.names.anonymous else bytes(request.origin),
        tuple(maker.stored_root(root) for root in request.roots),
        tuple(maker.directories.values()),
    )
    output.finish(output.put(SectionKind.CONTENTS, encode_contents(contents)))
    return maker.made()


@dataclass(slots=True)
class _Partition:
    """A partition directory that is being read; ``files`` are its entries by name.

    ``named``: it was asked for by its name, not as a part of its log directory. ``gone``: a broker
    has deleted or renamed it since its log directory was listed, so that it is left out.
    """

    path: Path
    place: str
    status: StoredStatus
    whole_of: str
    named: bool
    files: dict[str, StoredEntry] = field(default_factory=dict)
    outcomes: dict[int, LogOutcome] = field(default_factory=dict)
    sections: dict[int, dict[Slot, list[int]]] = field(default_factory=dict)
    tasks: dict[int, Segment] = field(default_factory=dict)
    rounds: int = 0
    error: str = ""
    gone: bool = False


class _Maker:
    def __init__(
        self, request: ManifestRequest, output: ManifestOutput, on_progress: Callable[[int], None]
    ) -> None:
        self.request, self.output, self.on_progress = request, output, on_progress
        self.names = request.names
        self.small_files = SmallFiles(request.names, output)
        self.directories: dict[str, StoredDirectory] = {}
        self._waiting: list[_Partition] = []
        self._open: dict[int, _Partition] = {}  # by the number of a task
        self._bases: dict[str, tuple[StoredStatus, list[StoredEntry]]] = {}  # by their place
        self._gone: set[str] = set()  # the places of partitions
        self._numbers = 0
        self._logs = self._batches = self._damages = self._log_bytes = self._partitions = 0

    # --- the top of a log directory

    def read_base(self, base: Base) -> None:
        """Read the files at the top of a log directory, and note its partitions."""
        status = status_of_path(base.path)
        if base.partitions is None and not self._is_log_directory(base):
            self._waiting.append(
                _Partition(base.path, base.place, status, base.path.name, named=True)
            )
            return
        entries: list[StoredEntry] = []
        for file in list_files(base.path):
            if file.is_directory:
                if belongs(base, file.name.name, anonymous=self.names.anonymous):
                    entries.append(self._directory(base, file))
            elif not self._hides(file):
                entries.append(self.small_files.entry(file))
        self._bases[base.place] = status, entries

    def write_bases(self) -> None:
        """Write the log directories, without partitions that are gone."""
        for place, (status, entries) in self._bases.items():
            left = (entry for entry in entries if _place(place, entry) not in self._gone)
            self._write_directory(place, status, left)

    def _hides(self, file: ListedEntry) -> bool:
        """Return whether a file at the top holds users, in a form that is not rewritten."""
        return self.names.anonymous and file.name.kind is FileKind.BOOTSTRAP_SNAPSHOT

    def _is_log_directory(self, base: Base) -> bool:
        return isinstance(open_path(base.path), LogDirectory)

    def _directory(self, base: Base, listed: ListedEntry) -> StoredEntry:
        name = self.names.directory(listed.name.name)
        entry = StoredEntry(name.encode(errors="surrogateescape"), listed.status)
        place = _place(base.place, entry)
        named = base.partitions is not None
        self._waiting.append(
            _Partition(listed.path, place, listed.status, listed.name.name, named=named)
        )
        return entry

    def stored_root(self, root: NamedRoot) -> StoredRoot:
        """Return a root with its place in the manifest."""
        real, _ = locate(root.path)
        for base in self.request.bases:
            if real == base.path:
                place = base.place
                break
            if real.parent == base.path:
                place = "/".join(filter(None, (base.place, self.names.directory(real.name))))
                break
        else:
            raise SourceError(root.path, f"{root.path}: expected a directory that was read")
        reason = root.liveness.reason
        if self.names.anonymous:
            reason = _ANONYMOUS_REASONS[root.liveness.state]
        state = root.liveness.state.value
        return StoredRoot(place.encode(errors="surrogateescape"), state, reason)

    # --- partitions

    def read_partitions(self) -> None:
        """Read all partitions, and once more those that changed while they were read."""
        live = not self.request.stopped
        pace = self.request.pace

        def work(task: FoldingTask, report: Callable[[int | Emitted], None]) -> LogOutcome:
            if live:
                use_idle_io()
            return fold_log(task, report, pace=pace)

        def retry(task: FoldingTask, died: workers.WorkerDied) -> FoldingTask | None:
            if not (died.of_map and task.mapped):
                return None
            self._open[task.number].sections[task.number] = defaultdict(list)
            return replace(task, mapped=False)

        while self._waiting:
            partitions, self._waiting = self._waiting, []
            with closing(
                workers.run(
                    work,
                    self._tasks(partitions),
                    self.request.jobs,
                    retry=retry,
                    on_progress=self._take,
                )
            ) as outcomes:
                for outcome in outcomes:
                    self._finish_log(outcome)

    def _take(self, progress: int | Emitted) -> None:
        if isinstance(progress, int):
            self.on_progress(progress)
            return
        sections = self._open[progress.number].sections[progress.number]
        sections[progress.slot].append(self.output.add(progress.section))

    def _tasks(self, partitions: Sequence[_Partition]) -> Iterator[FoldingTask]:
        for partition in partitions:
            tasks = self._list(partition)
            for task in tasks:
                partition.sections[task.number] = defaultdict(list)
                self._open[task.number] = partition
            yield from tasks
            if not tasks:
                self._finish_partition(partition)

    def _list(self, partition: _Partition) -> list[FoldingTask]:
        """List a partition, read its small files, and return the tasks for its logs."""
        partition.rounds += 1
        known = {
            segment: (partition.outcomes[number], partition.sections[number])
            for number, segment in partition.tasks.items()
            if number in partition.outcomes and not partition.outcomes[number].changed
        }
        partition.files.clear()
        partition.outcomes.clear()
        partition.sections.clear()
        partition.tasks.clear()
        partition.error = ""
        try:
            listing = list_partition(partition.path)
            if isinstance(listing, SourceError):
                raise listing
            listed = {file.name.name: file for file in list_files(partition.path)}
        except SourceError as error:
            partition.gone = isinstance(error, VanishedError) and not partition.named
            if not partition.gone:
                self._note_unread(partition, error)
            return []
        swaps = (segment for segment in listing.transient if segment.suffix == _SWAP)
        segments = (*listing.segments, *swaps)
        logs = {segment.log.name: segment for segment in segments}
        read_with_log = {
            path.name
            for segment in segments
            for path in (segment.index, segment.time_index)
            if path is not None
        }
        for name, file in listed.items():
            if name not in logs and name not in read_with_log:
                partition.files[name] = self.small_files.entry(file)
        tasks = []
        for name, segment in logs.items():
            if name not in listed:
                continue
            task = self._task(partition, segment, listed[name], listing)
            before = known.get(segment)
            if before is not None and before[0].log.identity == _identity(segment):
                partition.outcomes[task.number], partition.sections[task.number] = before
            else:
                tasks.append(task)
            for path in (segment.log, segment.index, segment.time_index):
                if path is not None and path.name in listed:
                    found = listed[path.name]
                    partition.files[path.name] = StoredEntry(path.name.encode(), found.status)
        return tasks

    def _note_unread(self, partition: _Partition, error: SourceError) -> None:
        self.small_files.note(error)
        text = str(error).removeprefix(f"{partition.path}: ")
        partition.error = self.small_files.reason(text.removeprefix("cannot be read: "))

    def _task(
        self, partition: _Partition, segment: Segment, file: ListedEntry, listing: Partition
    ) -> FoldingTask:
        number = self._numbers
        self._numbers += 1
        partition.tasks[number] = segment
        last = bool(listing.segments) and segment is listing.segments[-1]
        anonymous = self.names.anonymous
        return FoldingTask(
            number,
            segment.log,
            segment.base_offset,
            segment.index,
            segment.time_index,
            mapped=self.request.stopped,
            sealed=not last,
            whole=is_whole(partition.whole_of, file.status.size, anonymous=anonymous),
            anonymous=anonymous,
        )

    def _finish_log(self, outcome: workers.Result[FoldingTask, LogOutcome]) -> None:
        number, value = outcome.task.number, outcome.value
        partition = self._open.pop(number)
        if isinstance(value, KdumpError):
            raise value
        if isinstance(value, workers.WorkerDied):
            text = f"cannot be read: the process that read it was ended by {value.label}"
            value = LogOutcome(FileOutcome(None, text), None, None, changed=False)
        partition.outcomes[number] = value
        if len(partition.outcomes) == len(partition.tasks):
            self._finish_partition(partition)

    def _finish_partition(self, partition: _Partition) -> None:
        if partition.gone:
            self._gone.add(partition.place)
            return
        changed = any(outcome.changed for outcome in partition.outcomes.values())
        if changed and partition.rounds < _ROUNDS:
            self._waiting.append(partition)
            return
        for number, outcome in partition.outcomes.items():
            self._add_log(partition, partition.tasks[number], outcome, partition.sections[number])
        self._partitions += 1
        if partition.error:
            self._note_directory(partition.place, partition.status, 0, partition.error)
            return
        self._write_directory(partition.place, partition.status, partition.files.values())
        if not self.names.anonymous:
            self._add_repairs(partition)

    def _add_log(
        self,
        partition: _Partition,
        segment: Segment,
        outcome: LogOutcome,
        sections: dict[Slot, list[int]],
    ) -> None:
        """Write the section of a log, and note the entries of its files."""
        files = partition.files
        log = files[segment.log.name]
        position = 0
        if outcome.log.identity is not None:
            status = status_of_file(outcome.log.identity, log.status)
            self._logs += 1
            self._log_bytes += status.size
            if outcome.blocks or not sections[Slot.LOG_BYTES]:
                position = self._put_log(outcome, status.size, sections[Slot.BLOCKS])
                log = log._replace(status=status, content=FileContent.LOG, section=position)
            else:
                log = self.small_files.from_parts(
                    log._replace(status=status), sections[Slot.LOG_BYTES]
                )
        else:
            log = self.small_files.failed(segment.log.parent / segment.log.name, log, outcome.log)
        files[segment.log.name] = log
        for path, found, slot in (
            (segment.index, outcome.index, Slot.INDEX_BYTES),
            (segment.time_index, outcome.time_index, Slot.TIME_INDEX_BYTES),
        ):
            if path is None or path.name not in files or found is None:
                continue
            entry = files[path.name]
            if found.identity is not None:
                entry = entry._replace(status=status_of_file(found.identity, entry.status))
            if found.error:
                entry = self.small_files.failed(path, entry, found)
            elif found.folded is not None and position:
                payload = with_log(found.folded, position)
                section = self.output.put(SectionKind.INDEX, payload)
                entry = entry._replace(content=FileContent.INDEX, section=section)
            else:
                entry = self.small_files.from_parts(entry, sections[slot])
            files[path.name] = entry

    def _put_log(self, outcome: LogOutcome, size: int, sections: Sequence[int]) -> int:
        blocks = []
        position = 0
        for (end, batches, digest), section in zip(outcome.blocks, sections, strict=True):
            blocks.append(BlockEntry(position, end, batches, section, digest))
            position = end
            self._batches += batches
        self._damages += outcome.damages
        log = StoredLog(size, outcome.plausible, outcome.digest, tuple(blocks), outcome.excerpts)
        return self.output.put(SectionKind.LOG, encode_log(log))

    def _add_repairs(self, partition: _Partition) -> None:
        for directory in repair_folders(partition.path):
            place = f"{partition.place}/{directory.relative_to(partition.path)}"
            try:
                entries = [
                    self.small_files.read(file, StoredEntry(file.name.name.encode(), file.status))
                    if is_repair_record(file)
                    else StoredEntry(file.name.name.encode(errors="surrogateescape"), file.status)
                    for file in list_files(directory)
                ]
                status = status_of_path(directory)
            except SourceError as error:
                self.small_files.note(error)
                continue
            except OSError as error:
                self.small_files.note(source_error(directory, error))
                continue
            self._write_directory(place, status, entries)

    # --- directories

    def _write_directory(
        self, place: str, status: StoredStatus, entries: Iterable[StoredEntry]
    ) -> None:
        section = self.output.put(SectionKind.DIRECTORY, encode_directory(entries))
        self._note_directory(place, status, section)

    def _note_directory(
        self, place: str, status: StoredStatus, section: int, error: str = ""
    ) -> None:
        path = place.encode(errors="surrogateescape")
        self.directories[place] = StoredDirectory(path, status, section, error)

    def made(self) -> Made:
        """Return what was put into the manifest."""
        return Made(
            self._partitions,
            self._logs,
            self._batches,
            self._damages,
            self._log_bytes,
            tuple(self.small_files.unread),
        )


def _place(above: str, entry: StoredEntry) -> str:
    return "/".join(filter(None, (above, entry.name.decode(errors="surrogateescape"))))


def _identity(segment: Segment) -> Identity | None:
    with suppress(OSError):
        return Identity.of(segment.log.stat())
    return None
