"""The bytes of log directories in a few numbers, for metrics: topics, retention, and growth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.facts.space import Space
from kdump.audit.run.spread import Spread
from kdump.audit.sizes.file_systems import file_systems
from kdump.audit.sizes.growth import Growth
from kdump.audit.sizes.measure import PartitionSpace
from kdump.audit.sizes.tasks import measure_targets
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.storage.paths import AnyPath
from kdump.values import frozen


@frozen
class DirectoryTotals:
    """A log directory: the bytes of its topics by name, and of what retention should have deleted.

    ``overdue_bytes`` is None if the configs of no topic are known. ``space`` is that of its file
    system, and ``growth`` that of all logs in directories there; they are None if not all of its
    partitions could be measured, or the file system does not tell its space.
    """

    path: AnyPath
    topics: Mapping[str, int]
    overdue_bytes: int | None
    space: Space | None
    growth: Growth | None


def directory_totals(
    targets: Sequence[Target],
    directories: Sequence[DirectoryFacts],
    context: Context,
    spread: Spread,
) -> tuple[DirectoryTotals, ...]:
    """Measure the partitions ``targets`` of log directories. What cannot be read counts as 0."""
    found: dict[AnyPath, list[PartitionSpace]] = {facts.directory.path: [] for facts in directories}
    partial: set[AnyPath] = set()
    for target, measured in measure_targets(targets, context, spread):
        parent = target.path.parent
        if isinstance(measured, PartitionSpace) and parent in found:
            found[parent].append(measured)
        if not isinstance(measured, PartitionSpace) or measured.errors:
            partial.add(parent)
    growths = {path: sum((each.growth for each in own), Growth()) for path, own in found.items()}
    systems = {
        facts.directory.path: system
        for system in file_systems(directories, growths)
        if not any(facts.directory.path in partial for facts in system.directories)
        for facts in system.directories
    }
    result = []
    for path, partitions in found.items():
        system = systems.get(path)
        result.append(
            DirectoryTotals(
                path,
                _topics(partitions),
                _overdue(partitions),
                None if system is None else system.space,
                None if system is None else system.growth,
            )
        )
    return tuple(result)


def _topics(partitions: Sequence[PartitionSpace]) -> dict[str, int]:
    topics: dict[str, int] = defaultdict(int)
    for each in partitions:
        if each.name is not None and not each.name.suffix:
            topics[each.name.topic] += each.own_bytes
    return dict(sorted(topics.items()))


def _overdue(partitions: Sequence[PartitionSpace]) -> int | None:
    known = [each.overdue_bytes for each in partitions if each.overdue_bytes is not None]
    return sum(known) if known else None
