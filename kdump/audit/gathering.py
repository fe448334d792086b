"""gather(): everything that is known of a partition beside its logs and indexes.

Spec: none of Kafka's. It must never read more than the ends of logs and indexes; small files, and
a metadata log's snapshots, are read whole.
"""

from __future__ import annotations

from dataclasses import replace

from kdump.audit.case import known_ends
from kdump.audit.context import Context
from kdump.audit.facts import PartitionFacts, read_partition_facts
from kdump.audit.groups import Group
from kdump.audit.metadata_log import read_snapshots
from kdump.audit.quick import quick_survey
from kdump.storage.logdir import is_metadata_log


def gather(group: Group, context: Context) -> PartitionFacts | None:
    """Read the small files of a group, and the ends of what waits to be swapped in.

    None where only a segment is judged, or the directory could not be listed.
    """
    partition = group.partition
    if partition is None:
        return None
    settings = context.settings(group)
    facts = read_partition_facts(partition, group.directory, settings, stopped=group.stopped)
    swaps = [
        quick_survey(segment, sealed=True)
        for segment in partition.transient
        if segment.suffix == ".swap"
    ]
    snapshots = read_snapshots(partition) if is_metadata_log(partition) else ()
    return replace(
        facts,
        swap_ends=known_ends(swaps),
        metadata_snapshots=snapshots,
        coordinator=context.node(group).coordinator,
    )
