"""Copies of one metadata log that hold different records at offsets that are committed.

Records at the end of a log may differ until a leader has committed them: a follower then truncates
its own. Below the end of a snapshot, which holds committed records alone, they may not (KIP-630);
and no two batches of one leader epoch have the same offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kdump.audit.checks.metadata import METADATA_DIVERGES
from kdump.audit.findings import Detail, Finding, Offsets, explain_command
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.verdict import Verdict
from kdump.quorum.lineage import different_content, shared_end
from kdump.quorum.reading import metadata_log, read_replica
from kdump.quorum.replica import MetadataReplica
from kdump.storage.throttle import Pace


def compare_metadata_logs(
    verdicts: Iterable[Verdict], roots: Sequence[Root], *, jobs: int, pace: Pace | None = None
) -> Iterator[Verdict]:
    """Yield ``verdicts``, that on a metadata log with its differences from the copies before it.

    Where the ``roots`` have several copies, each is read once more, at ``pace``. A copy that cannot
    be read is not compared.
    """
    root_by_log = {path: root for root in roots if (path := metadata_log(root)) is not None}
    copies: list[MetadataReplica] = []
    for verdict in verdicts:
        root = root_by_log.get(verdict.target.path)
        if root is None or len(root_by_log) == 1:
            yield verdict
            continue
        replica = read_replica(root, None, jobs=jobs, pace=pace)
        found = tuple(finding for copy in copies for finding in differences(copy, replica))
        copies.append(replica)
        yield replace(verdict, findings=(*verdict.findings, *found))


def differences(copy: MetadataReplica, replica: MetadataReplica) -> Iterator[Finding]:
    """Yield the findings of ``replica`` beside another ``copy`` of the same quorum."""
    clusters = {copy.cluster_id, replica.cluster_id} - {None}
    if copy.errors or replica.errors or len(clusters) > 1:
        return
    different = different_content(copy, replica)
    if different is not None:
        yield _finding(copy, replica, different, "other batches, of the same leader epoch")
        return
    shared = shared_end(copy, replica)
    snapshots = (each.usable_snapshot for each in (copy, replica))
    committed = max((each.end_offset for each in snapshots if each is not None), default=0)
    if shared < min(committed, copy.end.offset, replica.end.offset):
        yield _finding(
            copy, replica, shared, f"other leader epochs, before the end of a snapshot, {committed}"
        )


def _finding(copy: MetadataReplica, replica: MetadataReplica, first: int, found: str) -> Finding:
    return Finding(
        METADATA_DIVERGES,
        replica.partition or replica.path,
        offsets=Offsets(first, None),
        detail=Detail(f"the batches of {copy.partition or copy.path} from there on", found),
        remedy=explain_command(METADATA_DIVERGES),
    )
