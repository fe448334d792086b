"""The logs that a finished repair has moved into its backup.

``kdump.repair.transaction.folder`` describes the files of a backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kdump.errors import Refused
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import Plan
from kdump.storage.logdir import DirectoryEntry, Partition, Segment, read_partition
from kdump.storage.names import FileKind
from kdump.storage.repair_record import FOLDERS, RepairState, repair_records
from kdump.values import frozen

#: Small files of the partition that apply to its backup too, unless the backup has its own.
_SHARED: Final = frozenset({FileKind.LEADER_EPOCHS, FileKind.PARTITION_METADATA})


@frozen
class Backup:
    """The logs in the backup at ``path`` of a repair.

    ``partition`` is the repaired one, with the saved logs as its segments and with the small files
    as they were before the repair. A saved log may begin with bytes that were not cut off. Then
    ``starts`` has the position of the first byte that was cut off.
    """

    path: Path
    partition: Partition
    starts: Mapping[Path, int]


def partition_of(path: Path) -> Path | None:
    """Return the partition directory that a backup at ``path`` belongs to, None for no backup."""
    folders = path.absolute().parent
    return path.parent.parent if folders.name == FOLDERS else None


def read_backup(path: Path) -> Backup:
    """List the logs in the backup at ``path``, ``<partition>/.kdump/<plan id>``.

    Raises Refused if there is none, or if the repair is not finished; SourceError.
    """
    directory = path.parent.parent
    repair = next((repair for repair in repair_records(directory) if repair.id == path.name), None)
    if repair is None or repair.state is not RepairState.DONE:
        state = "none" if repair is None else f"an unfinished repair ({repair.state.value})"
        raise Refused(f"{path}: expected the backup of a finished repair, found {state}")
    folder = Folder(directory, repair.id)
    plan = folder.plan()
    repaired, saved = read_partition(directory), read_partition(folder.backup_path(""))
    tails = folder.start_record(plan).tails
    segments = list(saved.segments)
    starts: dict[Path, int] = {}
    for cut in plan.cuts:
        log = folder.tail_path(cut.name)
        starts[log] = cut.size - tails[cut.name]
        segments.append(Segment(_cut_offset(plan, cut.name), log, None, None, None, None, ""))
    if not segments:
        raise Refused(
            f"{path}: expected the backup of a repair that moved logs away, found a backup of "
            f"kdump {plan.command}, which saved no log"
        )
    segments.sort(key=lambda segment: segment.base_offset)
    entries = (*_shared(repaired, saved, segments[0].base_offset), *saved.entries)
    partition = replace(repaired, segments=tuple(segments), transient=(), entries=entries)
    return Backup(path, partition, starts)


def _cut_offset(plan: Plan, log: str) -> int:
    """Return the offset of the first record that was cut off from a log."""
    _, log_end = plan.log_end
    return int(Path(log).stem) if log_end is None else log_end


def _shared(repaired: Partition, saved: Partition, first: int) -> Iterator[DirectoryEntry]:
    """Yield the small files that the repair did not change, and snapshots up to ``first``."""
    names = {entry.name.name for entry in saved.entries}
    for entry in repaired.entries:
        if entry.name.kind in _SHARED and entry.name.name not in names:
            yield entry
        base = entry.name.base_offset
        if entry.name.kind is FileKind.SNAPSHOT and base is not None and base <= first:
            yield entry
