"""Values of log directories that the driver holds compressed.

A log directory names each of its partitions, and each of its checkpoints has a line for most of
them. The driver has those of all brokers, and reads them seldom. Measured: the names take 300 bytes
a partition as objects, a checkpoint 175.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, cast

from kdump.audit.facts.small_files import DirectoryFacts, Offsets, Read
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.packs import MadeSequence, pack, unpack
from kdump.storage.logdir import LogDirectory
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The number from which names and lines are compressed.
_LEAST: Final = 64


@frozen
class PackedPaths(MadeSequence[AnyPath]):
    """Paths in the directory ``parent``; ``names`` are pickled and compressed."""

    parent: AnyPath
    names: bytes
    size: int

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[AnyPath]:
        return (self.parent / name for name in unpack(self.names))

    def _make(self, number: int) -> AnyPath:
        names: list[str] = unpack(self.names)
        return self.parent / names[number]


@frozen
class PackedOffsets(Mapping[tuple[str, int], int]):
    """The lines of a checkpoint, pickled and compressed."""

    lines: bytes
    size: int

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(unpack(self.lines))

    def __getitem__(self, key: tuple[str, int]) -> int:
        return cast("Offsets", unpack(self.lines))[key]


def pack_root(root: Root) -> Root:
    """Return ``root`` with the names and the checkpoints of its log directory compressed."""
    if root.directory is None:
        return root
    directory = pack_directory(root.directory)
    content = directory.directory if isinstance(root.content, LogDirectory) else root.content
    return replace(root, directory=directory, content=content)


def pack_directory(facts: DirectoryFacts) -> DirectoryFacts:
    """Return ``facts`` with names and checkpoints compressed."""
    listed = facts.directory
    return replace(
        facts,
        directory=replace(listed, partition_paths=_pack_paths(listed.path, listed.partition_paths)),
        recovery_points=_pack_read(facts.recovery_points),
        high_watermarks=_pack_read(facts.high_watermarks),
        log_starts=_pack_read(facts.log_starts),
        cleaner_offsets=_pack_read(facts.cleaner_offsets),
    )


def _pack_paths(parent: AnyPath, paths: Sequence[AnyPath]) -> Sequence[AnyPath]:
    names = [path.name for path in paths]
    if len(paths) < _LEAST or list(paths) != [parent / name for name in names]:
        return paths
    return PackedPaths(parent, pack(names), len(names))


def _pack_read(read: Read[Offsets] | None) -> Read[Offsets] | None:
    if read is None or read.value is None or len(read.value) < _LEAST:
        return read
    return replace(read, value=PackedOffsets(pack(dict(read.value)), len(read.value)))
