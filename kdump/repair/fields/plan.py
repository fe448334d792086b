"""plan_fields(): logs whose wrong fields have the values that are left for them.

No record is lost, and none changes: no checksum covers these fields, and that of each batch matches
afterwards. The logs keep their sizes.

Spec: ``DefaultRecordBatch``; ``LogSegment.recover``, ``LeaderEpochFileCache`` (KIP-101).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from kdump.audit.evidence import Evidence
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, SourceError, UsageError
from kdump.repair.content.changed_logs import with_changed_logs
from kdump.repair.content.companions import known_epochs
from kdump.repair.content.extent import check_whole, log_end_of, partition_facts
from kdump.repair.dropping.plan import COMMAND
from kdump.repair.fields.same_bytes import SameBytes
from kdump.repair.fields.wrong_fields import NoField, WrongField, wrong_fields
from kdump.repair.healing.copies import PartitionCopy, open_copies
from kdump.repair.healing.draft import Draft, LogPart
from kdump.repair.healing.own_log import OwnSegment
from kdump.repair.healing.result import HealedLog, survey_parts
from kdump.repair.healing.steps import heal_steps
from kdump.repair.transaction.fingerprint import (
    read_fingerprint,
    refuse_links,
    refuse_metadata_log,
    refuse_swaps,
)
from kdump.repair.transaction.plan import Plan, log_directory_of
from kdump.storage.paths import AnyPath, as_local
from kdump.values import frozen

#: Bytes of new indexes that a plan holds; the other indexes are built again by apply.
_REBUILD_BYTES: Final = 64 << 20
#: The most fields that notes name.
_NOTED: Final = 20


@frozen
class FieldsPlan:
    """A plan that sets fields.

    ``after`` has the evidence on the partition with its new logs, and the findings of before.
    """

    plan: Plan
    after: Verdict


def plan_fields(
    verdict: Verdict,
    replicas: Sequence[AnyPath],
    *,
    settings: TopicSettings,
    node: Node,
    report: Callable[[int], None],
) -> FieldsPlan:
    """Return the plan that sets wrong fields to the values that the log or a replica leaves them.

    ``verdict`` is a verdict of ``verify`` with its evidence. ``report`` is called with counts of
    bytes that were read. Raises NoField if no field is left exactly one value, Refused,
    SourceError.
    """
    facts = partition_facts(verdict)
    path = facts.partition.path
    refuse_metadata_log(facts.partition)
    check_whole(verdict)
    refuse_swaps(facts.partition)
    files, identity = read_fingerprint(facts.partition, verdict.surveys)
    copies, copy_notes = _copies(verdict, replicas, facts)
    same = SameBytes(copies)
    readable = facts.epochs is not None and facts.epochs.value is not None
    found = wrong_fields(
        [survey.segment for survey in verdict.surveys],
        epochs=known_epochs(facts) if readable else (),
        end=_end(facts),
        witness=same if copies else None,
    )
    fields = sorted(found, key=attrgetter("segment.base_offset", "at"))
    if not fields:
        raise NoField(
            f"{path}: a field that no checksum covers may be wrong, and neither the log nor a "
            "replica leaves it one value"
        )
    changed = [
        _mended(list(of_log), settings, report)
        for _, of_log in groupby(fields, key=attrgetter("segment.base_offset"))
    ]
    refuse_links(as_local(log.draft.segment.log) for log in changed)
    after = with_changed_logs(verdict, facts, (log.survey for log in changed))
    assert after.facts is not None
    evidence = Evidence(after.target, after.surveys, after.facts, after.replay, node)
    steps, notes = heal_steps(evidence, after.facts, changed, files, settings, ())
    plan = Plan(
        COMMAND,
        (),
        as_local(path),
        identity,
        log_directory_of(verdict.target),
        tuple(steps),
        files,
        log_start=facts.log_start_offset,
        log_end=(log_end_of(verdict), log_end_of(after)),
        notes=(*_notes(fields), *copy_notes, *same.notes, *notes),
    )
    return FieldsPlan(plan, after)


def _copies(
    verdict: Verdict, replicas: Sequence[AnyPath], facts: PartitionFacts
) -> tuple[Sequence[PartitionCopy], Sequence[str]]:
    """Return the copies at ``replicas`` and notes; none where one of them is no copy."""
    try:
        return open_copies(replicas, verdict.target, facts) if replicas else ((), ())
    except (Refused, UsageError, SourceError) as error:
        return (), (f"no replica was asked: {error}",)


def _end(facts: PartitionFacts) -> int | None:
    """Return the offset at which a clean shutdown left the log, None without one.

    A recovery point and a high watermark may lie anywhere below the end. After a clean shutdown the
    recovery point is the end, and a snapshot of the producers is there.
    """
    point = facts.recovery_point
    exact = facts.clean and point is not None and max(facts.snapshots, default=None) == point
    return point if exact else None


def _mended(
    fields: Sequence[WrongField], settings: TopicSettings, report: Callable[[int], None]
) -> HealedLog:
    """Return the log of a segment with the values of ``fields``, which ascend."""
    segment = fields[0].segment
    size = as_local(segment.log).stat().st_size
    survey, digest, recipe = survey_parts(
        segment, _parts(fields, size), settings, _REBUILD_BYTES, report
    )
    draft = Draft(OwnSegment(segment, size, ()), size, size)
    return HealedLog(draft, survey, digest, recipe)


def _parts(fields: Sequence[WrongField], size: int) -> Iterator[LogPart]:
    position = 0
    for field in fields:
        if field.at > position:
            yield LogPart(None, position, field.at - position)
        position = field.at + len(field.content)
        yield LogPart(None, field.at, len(field.content), content=field.content)
    if position < size:
        yield LogPart(None, position, size - position)


def _notes(fields: Sequence[WrongField]) -> Iterator[str]:
    for field in fields[:_NOTED]:
        yield (
            f"{field.segment.log.name}, batch at position {field.position}: {field.name} "
            f"{field.found} becomes {field.right}"
        )
    if len(fields) > _NOTED:
        yield f"{len(fields) - _NOTED:,} more fields"
    yield (
        "no checksum covers these fields: the log leaves each of them one value, or a replica has "
        "the batch with it"
    )
