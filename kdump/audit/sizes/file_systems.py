"""File systems with log directories, and how fast the logs on them grow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.facts.space import Space
from kdump.audit.sizes.growth import Growth
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class FileSystem:
    """A file system with the log directories on it, and the growth of their logs."""

    space: Space
    directories: tuple[DirectoryFacts, ...]
    growth: Growth


def file_systems(
    directories: Iterable[DirectoryFacts], growths: Mapping[AnyPath, Growth]
) -> Iterator[FileSystem]:
    """Yield the file systems of log directories, with the growth of each directory by its path.

    A directory whose file system does not tell its space is left out.
    """
    by_device: dict[int, list[DirectoryFacts]] = defaultdict(list)
    for facts in directories:
        if facts.space is not None:
            by_device[facts.space.device].append(facts)
    for found in by_device.values():
        space, growth = found[0].space, Growth()
        for facts in found:
            growth += growths.get(facts.directory.path, Growth())
        if space is not None:
            yield FileSystem(space, tuple(found), growth)
