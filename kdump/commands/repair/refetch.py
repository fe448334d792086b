"""plan_refetch(): a partition is moved aside, so that the broker fetches it again.

Files go one after the other, the log of the last segment first. A broker that starts amid that
finds a shorter log: a follower fetches what follows its end. The empty clean shutdown file comes
first, since one with a broker epoch keeps an eligible replica in the ELR.

Spec: ``LogLoader.load``, which creates a log for a directory without one;
``ReplicaFetcherThread.fetchEarliestOffset``; ``BrokerServer.startup``, where one log directory
without an epoch makes the shutdown unclean for the controller (KIP-966).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from kdump.audit.facts.small_files import PartitionFacts
from kdump.audit.survey.recovery import Span
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused
from kdump.repair.content.extent import log_end_of, partition_facts
from kdump.repair.dropping.plan import COMMAND
from kdump.repair.transaction.fingerprint import (
    read_fingerprint,
    refuse_links,
    refuse_metadata_log,
)
from kdump.repair.transaction.plan import (
    Line,
    Loss,
    Plan,
    PutMarker,
    Remove,
    Step,
    TakeMarker,
    log_directory_of,
)
from kdump.storage.names import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    FileKind,
    parse_file_name,
)
from kdump.storage.paths import as_local

#: What a broker does not read in a partition.
_NOT_READ: Final = (FileKind.UNKNOWN, FileKind.KDUMP)


def plan_refetch(verdict: Verdict, *, evidence: str) -> Plan:
    """Return the plan that moves all files of a partition but ``partition.metadata`` aside.

    ``evidence`` says why other replicas have all committed records. Raises Refused, SourceError.
    """
    facts = partition_facts(verdict)
    path = as_local(facts.partition.path)
    refuse_metadata_log(facts.partition)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    moved = sorted(files.keys() - {PARTITION_METADATA}, key=_place)
    _refuse_other_types(path, files)
    refuse_links(path / name for name in moved)
    logs = (name for name in moved if parse_file_name(name).kind is FileKind.LOG)
    loss = Loss(
        size=sum(files[name].size for name in logs),
        sound=_valid_records(verdict),
        unreadable=verdict.lost.corrupt,
    )
    return Plan(
        COMMAND,
        (),
        path,
        identity,
        log_directory_of(verdict.target),
        tuple(_steps(facts, moved)) if moved else (),
        files,
        loss,
        log_start=facts.log_start_offset,
        log_end=(log_end_of(verdict), None),
        notes=(
            evidence,
            "the broker fetches the partition from its leader: start no broker with an unclean "
            "election before a member of the ISR runs",
        ),
    )


def _refuse_other_types(path: Path, files: Collection[str]) -> None:
    """Raise Refused if a directory, for example, has the name of a file of a log."""
    for name in sorted({entry.name for entry in path.iterdir()} - {*files}):
        if parse_file_name(name).kind not in _NOT_READ:
            raise Refused(f"{path / name}: expected a file, found another type: move it away")


def _steps(facts: PartitionFacts, moved: Iterable[str]) -> Iterator[Step]:
    if facts.clean:
        yield TakeMarker()
        yield PutMarker()
    lines = (
        (RECOVERY_POINT_CHECKPOINT, facts.recovery_point),
        (HIGH_WATERMARK_CHECKPOINT, facts.high_watermark),
        (LOG_START_CHECKPOINT, facts.log_start),
        (CLEANER_CHECKPOINT, facts.cleaner_offset),
    )
    for checkpoint, offset in lines:
        if offset is not None:
            yield Line(checkpoint, offset, None)
    for name in moved:
        yield Remove(name)


def _place(name: str) -> tuple[bool, int, bool, str]:
    """Return what orders the files: the last segment first, and its log before what is beside it.

    A broker removes the other files of a segment without a log, and rebuilds them with one.
    """
    found = parse_file_name(name)
    base = found.base_offset
    return base is None, -(base or 0), found.kind is not FileKind.LOG, name


def _valid_records(verdict: Verdict) -> Span:
    covered = verdict.covered
    offsets = [survey for survey in verdict.surveys if survey.first_offset is not None]
    return Span(
        covered.records - covered.control_batches,  # a control batch has one record, its marker
        offsets[0].first_offset if offsets else None,
        offsets[-1].last_offset if offsets else None,
        unbounded=bool(covered.wrappers),
    )
