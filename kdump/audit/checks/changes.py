"""Finding codes of changes between two scrubs, which ``history/`` and ``scrub`` find.

Spec: none in Kafka: a broker never changes a sealed segment of a topic that is not compacted.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.finding_code import REPLICA_FIRST, FindingCode, Severity

SEGMENT_CHANGED_SILENTLY: Final = FindingCode(
    "segment-changed-silently",
    Severity.ERROR,
    "A sealed segment holds other bytes than when kdump read it before, although its file has the "
    "same inode, size and modification time: a disk, its controller or a tool below the file "
    "system changed it. kdump also compares offsets, leader epochs and the order of batches, which "
    "no checksum covers.",
    "The broker does not detect a change that no checksum covers: it serves the changed offsets "
    "and epochs. It detects other changes when it or a consumer reads the batch.",
    REPLICA_FIRST + " Check the disk: other files may have changed too.",
)
SEGMENT_REMOVED: Final = FindingCode(
    "segment-removed",
    Severity.ERROR,
    "Sealed segments that kdump read before are gone from the beginning of the log. By the topic's "
    "configs and the timestamps of these segments, retention could not have deleted them. "
    "leader-epoch-checkpoint still has their offsets, which DeleteRecords removes, or is gone.",
    "The broker does not detect this. It begins the log at the first remaining segment. If this "
    "replica leads, all others take over its log start offset and delete these records too.",
    "Find out which process removes files from the log directory. Do not let this replica lead: "
    "while its broker is stopped, kdump heal takes the missing segments from another replica.",
    loses=True,
)
SEGMENT_REMOVED_UNPROVEN: Final = FindingCode(
    "segment-removed-unproven",
    Severity.WARNING,
    "Sealed segments that kdump read before are gone from the beginning of the log. By the topic's "
    "configs and the timestamps of these segments, retention could not have deleted them. "
    "DeleteRecords up to the first remaining segment explains it, and so does a leader whose log "
    "begins there. Otherwise the segments were removed.",
    "The broker begins the log at the first remaining segment. If this replica leads, all others "
    "take over its log start offset and delete these records too.",
    "If no client deleted these records, find out which process removes files from the log "
    "directory, and do not let this replica lead. kdump compare shows whether other replicas begin "
    "earlier: while this broker is stopped, kdump heal takes the missing segments from one.",
)
SEGMENT_REWRITTEN: Final = FindingCode(
    "segment-rewritten",
    Severity.WARNING,
    "A sealed segment of a topic that is not compacted was replaced or written to since kdump "
    "read it before, and holds other batches. No repair by kdump explains it.",
    "A broker does this only if it becomes a follower and truncates its log to match the leader's "
    "log, or fetches the whole partition again. Otherwise it does not detect the change.",
    "If the broker was a follower that truncated its log, or the file was restored from a backup, "
    "there is nothing to do. Otherwise find out which process writes to the log directory.",
)
