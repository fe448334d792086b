"""Checks of a partition as a whole: no segment left, the first ones missing, records in remote
storage, timestamps in the future, indexes that a clean stop left untrimmed.

Spec: ``UnifiedLog.deleteOldSegments``, ``LogSegment.readNextOffset``,
``AbstractIndex``, KIP-937; KOD 9, checks 31 and 37.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.missing_start import (
    MissingStart,
    deletes_nothing,
    first_line,
    missing_start,
    missing_unseen,
    retention_deletes,
)
from kdump.audit.facts.remote_storage import ranges_text
from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.finding_code import REPLICA_FIRST, Cure, FindingCode, Harm, Severity
from kdump.audit.findings import Finding, Offsets, file_finding
from kdump.audit.survey.index_promises import IndexFacts
from kdump.format.lines.text import time_text
from kdump.storage.names import LEADER_EPOCH_CHECKPOINT

FIRST_SEGMENT_MISSING: Final = FindingCode(
    "first-segment-missing",
    Severity.ERROR,
    "The log begins after the first offset of leader-epoch-checkpoint, or index files of an "
    "earlier segment remain. Neither retention, by the topic's configs, nor DeleteRecords explains "
    "this: segments were removed from the beginning of the log.",
    "The broker does not detect this. It begins the log at the first remaining segment. If this "
    "replica leads, all others take over its log start offset and delete these records too.",
    "Do not let this replica lead: start the broker of another replica first. While this broker is "
    "stopped, kdump heal takes the missing segments from another replica. Or put the files back if "
    "they were moved or are in a backup.",
    check=31,
    loses=True,
    harm=Harm.FOLLOWED,
)
LOG_START_UNEXPLAINED: Final = FindingCode(
    "log-start-unexplained",
    Severity.WARNING,
    "The log begins after the first offset of leader-epoch-checkpoint, and kdump cannot determine "
    "whether retention deleted the earlier segments. Retention leaves such a line only if the "
    "broker is killed within moments. The topic's configs are unknown, or the remaining records "
    "are too recent.",
    "The broker does not detect this. It begins the log at the first remaining segment. If this "
    "replica leads, all others take over its log start offset and delete the records before it.",
    "Name the broker's server.properties with --config, so that kdump knows retention. Compare the "
    "replicas: kdump compare shows whether others begin earlier. If they do, one of them has to "
    "lead, and kdump heal takes the missing segments from it.",
    check=31,
)
LOG_START_RAISED: Final = FindingCode(
    "log-start-raised",
    Severity.INFO,
    "The log begins above offset 0, although the topic's configs let no broker delete a segment. "
    "DeleteRecords explains this, and so do configs that were changed since, or a leader whose log "
    "began there. So do segments that were removed together with their lines in "
    "leader-epoch-checkpoint: records may be missing.",
    "The broker does not detect this. It begins the log at the first remaining segment. If this "
    "replica leads, all others take over its log start offset and delete the records before it.",
    "Compare the replicas: kdump compare shows whether others begin earlier. If they do, one of "
    "them has to lead, and kdump heal takes the missing segments from it. kdump scrub remembers "
    "which segments a log had.",
    check=31,
)
SEGMENTS_GONE: Final = FindingCode(
    "segments-gone",
    Severity.ERROR,
    "A partition has no segment left, although checkpoints or producer snapshots show that it had "
    "records.",
    "The broker begins an empty log at the checkpointed log start offset, or at 0: offsets are "
    "assigned a second time. Records in remote storage are no longer served.",
    "Put the files back if they were moved or are in a backup. " + REPLICA_FIRST,
    check=31,
    loses=True,
    harm=Harm.EMPTY,
)
RECORDS_IN_REMOTE_STORAGE: Final = FindingCode(
    "records-in-remote-storage",
    Severity.INFO,
    "Older records of the partition are in remote storage only. kdump does not read them.",
    "The broker serves them from remote storage.",
    "Nothing to do. Checks, comparisons and exports cover the segments on this disk.",
)
TIMESTAMPS_HOLD_RETENTION: Final = FindingCode(
    "timestamps-hold-retention",
    Severity.WARNING,
    "A segment has a timestamp in the future. Time-based retention therefore keeps later segments "
    "that are due for deletion.",
    "The broker keeps this segment and all later segments until retention.ms after that timestamp.",
    "Correct the client's clock. kafka-delete-records.sh moves the log start offset past the "
    "segment. retention.bytes also deletes the segment. For new records, "
    "message.timestamp.type=LogAppendTime prevents such timestamps.",
    check=7,
)
TIMESTAMPS_FUTURE: Final = FindingCode(
    "timestamps-future",
    Severity.INFO,
    "A segment has a timestamp that is more than an hour in the future.",
    "The broker keeps this segment and all later segments until retention.ms after that timestamp.",
    "Correct the client's clock.",
    check=7,
)
INDEX_PADDED_CLEAN: Final = FindingCode(
    "index-padded-clean",
    Severity.WARNING,
    "The last segment's .index has unused space after its entries, which no clean shutdown leaves. "
    "The clean shutdown file is not from the last shutdown, or the index was changed after the "
    "shutdown.",
    "The broker counts the unused space as entries: lookups are slow. If the file has its full "
    "length, the next append rolls the segment.",
    "While the broker is stopped, kdump reindex rebuilds the file. Or remove .kafka_cleanshutdown: "
    "recovery then rebuilds the indexes of the last segment of every partition.",
    check=37,
    cure=Cure.REINDEX,
)
TIMEINDEX_PADDED_CLEAN: Final = FindingCode(
    "timeindex-padded-clean",
    Severity.ERROR,
    "The last segment's .timeindex has unused space after its entries, which no clean shutdown "
    "leaves. The clean shutdown file is not from the last shutdown, or the index was changed after "
    "the shutdown.",
    "The broker takes the last zeros for the segment's latest timestamp, which is then in 1970: "
    "time-based retention may delete the segment (KAFKA-10207, KAFKA-10471).",
    "While the broker is stopped, kdump reindex rebuilds the file. Or remove .kafka_cleanshutdown: "
    "recovery then rebuilds the indexes of the last segment of every partition.",
    check=37,
    cure=Cure.REINDEX,
)

#: How long after the last write of a checkpoint, which is due each minute, a broker may have run.
_UNWRITTEN_MS: Final = 600_000
#: The default of ``message.timestamp.after.max.ms`` since 4.0, which allows for clock differences.
_TOLERANCE_MS: Final = 3_600_000


def check_wiped(evidence: Evidence) -> Iterator[Finding]:
    """Check a partition without a segment by the offsets in its checkpoints and snapshots."""
    facts, log_end = evidence.facts, evidence.log_end
    if facts is None or facts.partition.segments or log_end is None:
        return
    entries = None if facts.epochs is None else facts.epochs.value
    offsets = {
        "checkpoints": max(facts.recovery_point or 0, facts.high_watermark or 0),
        "leader epochs": max((entry.start_offset for entry in entries or ()), default=0),
        "producer snapshots": max(
            (offset for offset, read in facts.snapshots.items() if read.value is not None),
            default=0,
        ),
    }
    source, known = max(offsets.items(), key=lambda each: each[1])
    first = evidence.first_missing(log_end)
    if known > first:
        yield file_finding(
            SEGMENTS_GONE,
            facts.partition.path,
            f"segments up to offset {known}, by its {source}",
            "none",
            offsets=Offsets(first, known - 1),
        )


def check_remote(evidence: Evidence) -> Iterator[Finding]:
    """Report records that are in remote storage only."""
    ranges = () if evidence.facts is None else evidence.facts.remote_offsets
    if ranges:
        yield file_finding(
            RECORDS_IN_REMOTE_STORAGE,
            evidence.target.path,
            "records on this disk",
            f"offsets {ranges_text(ranges)} in remote storage, not read",
            offsets=Offsets(ranges[0][0], ranges[-1][1]),
        )


def check_first_segment(evidence: Evidence) -> Iterator[Finding]:
    """Check whether the first segments are missing though no broker can have deleted them (31)."""
    facts = evidence.facts
    if facts is None or evidence.deleted_at_start:
        return
    missing = missing_start(facts)
    if missing is None:
        yield from _raised_start(facts)
        return
    now_ms = ran_until_ms(evidence)
    deleted = retention_deletes(facts, missing, evidence.log_bytes, now_ms)
    if deleted:
        return
    code = FIRST_SEGMENT_MISSING if deleted is False else LOG_START_UNEXPLAINED
    path, expected = missing.orphan, f"a segment from offset {missing.first} on"
    if missing.line is not None:
        path = facts.partition.path / LEADER_EPOCH_CHECKPOINT
        expected = (
            f"a segment from offset {missing.first} on, as leader epoch {missing.line.epoch} "
            f"begins at {missing.line.start_offset}"
        )
    assert path is not None
    yield file_finding(
        code,
        path,
        expected,
        f"the first one at {missing.last + 1}{_consequence(evidence, missing)}",
        offsets=Offsets(missing.first, missing.last),
    )


def _raised_start(facts: PartitionFacts) -> Iterator[Finding]:
    """Report a log that begins above 0, where no config and no file explains it."""
    missing = missing_unseen(facts) if deletes_nothing(facts.settings) else None
    if missing is not None:
        begins = "begins there" if first_line(facts) else "has no line"
        yield file_finding(
            LOG_START_RAISED,
            facts.partition.path,
            f"a segment from offset {missing.first} on, as the topic's configs delete nothing",
            f"the first one at {missing.last + 1}; {LEADER_EPOCH_CHECKPOINT} {begins}",
            offsets=Offsets(missing.first, missing.last),
        )


def ran_until_ms(evidence: Evidence) -> int:
    """Return a time up to which a broker may have deleted segments."""
    until_ms = evidence.clock().files_ms + _UNWRITTEN_MS
    latest_ms = max((survey.max_timestamp for survey in evidence.surveys), default=-1)
    # Where the times of files are older than their records, they are not those of the broker.
    return until_ms if until_ms >= latest_ms else max(until_ms, evidence.now_ms)


def _consequence(evidence: Evidence, missing: MissingStart) -> str:
    """Return what a broker on this log does to the other replicas, empty without any."""
    name = None if evidence.facts is None else evidence.facts.partition.name
    others = None if name is None else evidence.node.copies(name.topic, name.partition)
    if others is None or not others.nodes:
        return ""
    nodes = f"node{'' if len(others.nodes) == 1 else 's'} {', '.join(map(str, others.nodes))}"
    return f"; if this replica leads, {nodes} delete offsets up to {missing.last} too"


def check_future_timestamps(evidence: Evidence) -> Iterator[Finding]:
    """Report timestamps in the future, and whether they hold back retention by time.

    The last segment is not due before it is rolled.
    """
    if evidence.facts is None or evidence.quick:
        return
    surveys, now_ms = evidence.surveys, evidence.now_ms
    stamps = [survey.max_timestamp for survey in surveys]
    future = [number for number, stamp in enumerate(stamps) if stamp > now_ms + _TOLERANCE_MS]
    if not future:
        return
    first = future[0]
    stamp, retention_ms = stamps[first], evidence.facts.settings.retention_ms
    due = 0
    if retention_ms is not None and retention_ms >= 0:
        due = sum(0 <= later < now_ms - retention_ms for later in stamps[first + 1 : -1])
    yield file_finding(
        TIMESTAMPS_HOLD_RETENTION if due else TIMESTAMPS_FUTURE,
        surveys[first].segment.log,
        f"no timestamp above {time_text(now_ms)}, the present",
        time_text(stamp) + (f", before {due} segments that are due" if due else ""),
        repeats=len(future) - 1,
    )


def check_clean_stop(evidence: Evidence) -> Iterator[Finding]:
    """Check the last segment's indexes against the clean marker: a clean stop trims them.

    An index has no more entries than its log has batches: further entries are padding.
    """
    if not evidence.stopped_cleanly or evidence.quick or not evidence.surveys:
        return
    last = evidence.surveys[-1]
    if not last.complete or last.gaps:
        return
    yield from _padding(INDEX_PADDED_CLEAN, last.index, last.batches)
    yield from _padding(TIMEINDEX_PADDED_CLEAN, last.time_index, last.batches)


def _padding(code: FindingCode, index: IndexFacts | None, batches: int) -> Iterator[Finding]:
    if index is not None and index.size // index.entry_bytes > batches:
        yield file_finding(
            code,
            index.path,
            f"at most {batches} entries, one for each batch",
            f"room for {index.size // index.entry_bytes}",
        )


CHECKS: Final = (
    check_wiped,
    check_first_segment,
    check_remote,
    check_future_timestamps,
    check_clean_stop,
)
