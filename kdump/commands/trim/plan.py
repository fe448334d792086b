"""The plan of a trim: the segments that go, what stays for which reason, its id.

Nothing is saved on the disk, which may be full: the id is the consent to a loss for good.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final

from kdump.audit.facts.cluster import Copies
from kdump.audit.run.spread import Spread
from kdump.audit.sizes.leftovers import Leftover
from kdump.audit.sizes.measure import OldSegment, PartitionSpace
from kdump.audit.sizes.tasks import measure_targets
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.commands.trim.bound import Choose, why_kept
from kdump.errors import SourceError, UsageError, VanishedError
from kdump.repair.removal import OldSegments, UnusedFiles
from kdump.repair.saved_segments import check_backup_directory
from kdump.repair.transaction.fingerprint import stamp_of
from kdump.repair.transaction.lock import check_stopped, finish_or_undo, interrupted_repair
from kdump.repair.transaction.plan import log_directory_of
from kdump.storage.logdir import directory_name
from kdump.storage.names import HIGH_WATERMARK_CHECKPOINT
from kdump.storage.paths import AnyPath, as_local
from kdump.storage.source import status_of
from kdump.values import frozen

COMMAND: Final = "trim"
_ID_LENGTH: Final = 8


@frozen
class TrimmedPartition:
    """A partition that loses its oldest segments; ``copies`` are its other replicas, if known."""

    gone: OldSegments
    copies: Copies | None

    @property
    def bytes(self) -> int:
        """The bytes that its removal frees."""
        return sum(segment.bytes for segment in self.gone.segments)

    @property
    def first_offset(self) -> int:
        """The first offset that goes."""
        return self.gone.segments[0].base_offset

    @property
    def last_offset(self) -> int:
        """The last offset that goes."""
        return self.gone.log_start - 1

    @property
    def offsets(self) -> int:
        """The number of offsets that go."""
        return self.gone.log_start - self.first_offset

    @property
    def newest_ms(self) -> int | None:
        """The largest timestamp of what goes, None if it is unknown."""
        times = [segment.largest_ms for segment in self.gone.segments]
        return max((time for time in times if time is not None), default=None)


@frozen
class TrimmedLeftovers:
    """Leftovers of one kind that go from a directory; ``bytes`` are freed."""

    kind: Leftover
    gone: UnusedFiles
    bytes: int


@dataclass(frozen=True)
class TrimPlan:
    """The partitions that lose segments, by path; ``kept`` are the others, with the reason.

    ``leftovers`` go instead of segments, which are saved in ``backup`` first, unless it is None.
    ``arguments`` are the options that decide, ``wanted_bytes`` those that are to be free, None if
    any number is. ``errors`` are of what could not be read.
    """

    arguments: tuple[str, ...]
    parts: tuple[TrimmedPartition, ...]
    kept: tuple[tuple[AnyPath, str], ...]
    errors: tuple[SourceError, ...]
    wanted_bytes: int | None = None
    leftovers: tuple[TrimmedLeftovers, ...] = ()
    backup: Path | None = None

    @property
    def bytes(self) -> int:
        """The bytes that it frees."""
        return sum(place.bytes for place in self.places)

    @property
    def offsets(self) -> int:
        """The number of offsets that are lost: remote storage has none of them."""
        return sum(part.offsets for part in self.parts if not part.gone.remote)

    @property
    def segments(self) -> int:
        """The number of segments that go."""
        return sum(len(part.gone.segments) for part in self.parts)

    @property
    def places(self) -> tuple[TrimmedPartition | TrimmedLeftovers, ...]:
        """The directories from which something goes, in this order."""
        return (*self.parts, *self.leftovers)

    @cached_property
    def id(self) -> str:
        """Its name: a digest of all that goes."""
        fields = [
            [
                place.gone.path.name,
                place.gone.identity,
                [
                    [name, stamp.size, stamp.mtime_ns]
                    for name, stamp in sorted(place.gone.files.items())
                ],
            ]
            for place in self.places
        ]
        text = json.dumps([self.arguments, fields], separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:_ID_LENGTH]


def plan_trim(
    targets: Sequence[Target],
    context: Context,
    choose: Choose,
    spread: Spread,
    *,
    arguments: tuple[str, ...],
    assume_stopped: bool,
    wanted_bytes: int | None = None,
    up_to: int = 0,
    high_watermark: int | None = None,
    backup: Path | None = None,
) -> TrimPlan:
    """Return what goes of the partitions ``targets``.

    ``high_watermark`` is that of a partition whose checkpoint has none. Raise UsageError if the
    checkpoint has one, or the log ends before it; if a partition does not reach offset ``up_to``;
    if ``wanted_bytes`` are to be free on several file systems. Raise Refused beside a running
    broker, and if ``backup`` is no place for a backup; SourceError.
    """
    for target in targets:
        if target.error is None and (not target.stopped or target.directory is None):
            check_stopped(as_local(target.path), assume_stopped=assume_stopped)
    measured: list[tuple[Target, PartitionSpace]] = []
    errors = [target.error for target in targets if target.error is not None]
    kept: list[tuple[AnyPath, str]] = []
    readable = [target for target in targets if target.error is None]
    for target, found in measure_targets(
        readable, context, spread, listing=True, high_watermark=high_watermark
    ):
        if isinstance(found, SourceError):
            errors.append(found)
        elif found.errors:
            errors += found.errors
        elif (reason := why_kept(found) or _in_the_way(found)) is not None:
            kept.append((target.path, reason))
        elif high_watermark is not None and (wrong := _wrong_mark(found, high_watermark)):
            raise UsageError(f"--high-watermark {high_watermark}: {wrong}")
        elif found.reach is not None and found.reach < up_to:
            raise UsageError(
                f"{target.path}: expected an offset up to the high watermark, {found.reach}, found "
                f"{up_to}"
            )
        else:
            measured.append((target, found))
    measured.sort(key=lambda pair: str(pair[0].path))
    if wanted_bytes is not None:
        _check_one_system([target for target, _ in measured])
    chosen = choose([found for _, found in measured])
    parts = [
        _part(target, found, segments, context)
        for (target, found), segments in zip(measured, chosen, strict=True)
        if segments
    ]
    gained = sum(part.bytes for part in parts)
    enough = wanted_bytes is not None and gained >= wanted_bytes
    stays = "its records are younger than what goes" if enough else "no segment is old enough"
    kept += [
        (target.path, stays)
        for (target, _), segments in zip(measured, chosen, strict=True)
        if not segments
    ]
    if backup is not None:
        needed = sum(stamp.size for part in parts for stamp in part.gone.files.values())
        for part in parts:
            check_backup_directory(backup, part.gone, needed)
    return TrimPlan(
        arguments,
        tuple(parts),
        tuple(sorted(kept, key=str)),
        tuple(errors),
        wanted_bytes,
        backup=backup,
    )


def _in_the_way(found: PartitionSpace) -> str | None:
    """Return what keeps a partition from being changed, None for nothing. Raise SourceError."""
    path = as_local(found.path)
    links = (name for old in found.old for name in old.files if (path / name).is_symlink())
    unfinished = why_unfinished(path)
    return unfinished or next((f"{name} is a symbolic link" for name in links), None)


def why_unfinished(path: Path) -> str | None:
    """Return why an interrupted repair keeps a directory as it is, None without one.

    Raise SourceError.
    """
    record = interrupted_repair(path)
    if record is None:
        return None
    return f"interrupted repair {record.id}: {finish_or_undo(record, path)}"


def _wrong_mark(found: PartitionSpace, high_watermark: int) -> str | None:
    """Return why a high watermark that was given cannot be that of a partition."""
    if found.reach != high_watermark:
        return f"{found.path} has its own, {found.reach}: leave the option out"
    if found.log_end is not None and high_watermark > found.log_end:
        return f"expected an offset up to the log end of {found.path}, {found.log_end}"
    return None


def _check_one_system(targets: Sequence[Target]) -> None:
    """Raise UsageError unless the directories of ``targets`` are on one file system."""
    places = {log_directory_of(target) or as_local(target.path) for target in targets}
    devices = {status_of(place).st_dev for place in places}
    if len(devices) > 1:
        raise UsageError(
            f"--free: expected log directories on one file system, found {len(devices)} of them: "
            "give the directory that is full"
        )


def _part(
    target: Target, found: PartitionSpace, segments: Sequence[OldSegment], context: Context
) -> TrimmedPartition:
    """Return what goes of a partition. Raise VanishedError, SourceError."""
    path, log_directory, stamps = as_local(target.path), log_directory_of(target), {}
    for name in (name for segment in segments for name in segment.files):
        stamp = stamp_of(path / name)
        if stamp is None:
            raise VanishedError(path / name, f"{path / name}: expected a file, found none")
        stamps[name] = stamp
    status, named = status_of(path), directory_name(path)
    marks = None
    if log_directory is not None:
        marks = stamp_of(log_directory / HIGH_WATERMARK_CHECKPOINT)
    remote = found.configs is not None and found.configs.remote
    inode = status.st_dev, status.st_ino
    old = OldSegments(path, log_directory, inode, tuple(segments), stamps, marks, remote)
    copies = None if named is None else context.node(target).copies(named.topic, named.partition)
    return TrimmedPartition(old, copies)
