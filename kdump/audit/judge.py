"""judge(): all checks over one partition or log directory, in order.

Spec: the invariants of KOD 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from kdump.audit import codes
from kdump.audit.checks import (
    batches,
    directory,
    epochs,
    indexes,
    leftovers,
    metadata,
    missing_offsets,
    partition_files,
    producers,
    repair_records,
    segments,
    topic,
    transactions,
    txn_indexes,
)
from kdump.audit.evidence import Case
from kdump.audit.facts.settings import longest_transaction_ms
from kdump.audit.facts.small_files import DirectoryFacts, PartitionFacts
from kdump.audit.findings import Detail, Finding, unreadable
from kdump.audit.remedies import remedied
from kdump.audit.replay.replay import Replay
from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.swap_loss import swap_loss
from kdump.audit.survey.survey import Survey, Unread
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Group
from kdump.audit.verdicts.loss import lost_now
from kdump.audit.verdicts.verdict import Covered, Judged
from kdump.errors import MissingDirectoryError
from kdump.format.lines.shell import operand
from kdump.storage.logdir import is_metadata_log
from kdump.storage.workers import Died

Check = Callable[[Case], Iterator[Finding]]


def judge(
    group: Group,
    results: Sequence[Survey | Finding],
    facts: PartitionFacts | None = None,
    context: Context | None = None,
    *,
    quick: bool = False,
) -> Judged:
    """Judge one group by all that was found out about it.

    ``results`` are the surveys of its segments, in any order, or what is to be said instead of one;
    ``quick``: they are of the ends alone. ``facts`` are as in ``Judged``.
    """
    around = context or Context(now_ms=0)
    surveys = sorted(
        (result for result in results if isinstance(result, Survey)),
        key=lambda survey: survey.segment.base_offset,
    )
    longest_ms = longest_transaction_ms(around.config)
    case = Case(group, tuple(surveys), facts, around.node(group), around.now_ms, quick, longest_ms)
    findings = [result for result in results if isinstance(result, Finding)]
    if isinstance(group.error, MissingDirectoryError):
        findings.append(directory.missing_directory(group.error, kraft=around.kraft))
    elif group.error is not None:
        findings.append(unread(group, Unread.of(group.path, group.error)))
    for check in CHECKS:
        findings += check(case)
    if facts is not None:
        findings = list(repair_records.of_receipts(facts, findings))
    told = tuple(remedied(case, findings))
    covered = _covered(group, surveys)
    stable = None
    if case.replay is not None and facts is not None and not is_metadata_log(facts.partition):
        stable = StableOffset.of(case.replay, facts.start_offset)
    lost = lost_now(group, case.surveys, facts, told)
    name = None if facts is None else facts.partition.name
    copies = None if name is None else case.node.copies(name.topic, name.partition)
    return Judged(
        group,
        case.surveys,
        told,
        facts,
        covered,
        quick,
        case.replay,
        lost,
        copies,
        stable=stable,
    )


def _covered(group: Group, surveys: Sequence[Survey]) -> Covered:
    return Covered(
        partitions=int(group.error is None),
        segments=sum(survey.complete for survey in surveys),
        size=group.size,
        read_bytes=sum(survey.read_bytes for survey in surveys),
        batches=sum(survey.batches for survey in surveys),
        control_batches=sum(survey.control_batches for survey in surveys),
        records=sum(survey.records for survey in surveys),
        wrappers=sum(survey.wrappers for survey in surveys),
    )


def judge_directories(context: Context) -> Iterator[Finding]:
    """Judge the log directories themselves, each alone and those of one node together."""
    for together in context.siblings:
        for facts in together:
            for check in DIRECTORY_CHECKS:
                yield from check(facts)
        for check_node in NODE_CHECKS:
            yield from check_node(together, context)


# --- the checks, each with what it gets of a case


def _unread(case: Case) -> Iterator[Finding]:
    for survey in case.surveys:
        for missed in survey.unread:
            yield unread(case.group, missed)


def _segment(case: Case) -> Iterator[Finding]:
    clean = case.facts is not None and case.facts.stopped_cleanly
    for survey, next_base in case.neighbours:
        yield from batches.check_segment(
            survey, next_base, live=case.live, clean=clean, compacted=case.compacted
        )


def _sequence(case: Case) -> Iterator[Finding]:
    return batches.check_sequence(case.surveys)


def _index_files(case: Case) -> Iterator[Finding]:
    for survey, next_base in case.neighbours:
        found = indexes.check_indexes(survey, sealed=next_base is not None)
        yield from _of_indexes(case, next_base, found)


def _offset_entries(case: Case) -> Iterator[Finding]:
    for survey, next_base in case.neighbours:
        found = indexes.check_offset_entries(survey, sealed=next_base is not None, live=case.live)
        yield from _of_indexes(case, next_base, found)


def _time_entries(case: Case) -> Iterator[Finding]:
    for survey, next_base in case.neighbours:
        found = indexes.check_time_entries(survey, sealed=next_base is not None, live=case.live)
        yield from _of_indexes(case, next_base, found)


def _last_timestamp(case: Case) -> Iterator[Finding]:
    for survey, next_base in case.neighbours:
        found = indexes.check_last_timestamp(survey, sealed=next_base is not None)
        yield from _of_indexes(case, next_base, found)


def _of_indexes(case: Case, next_base: int | None, found: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of a segment's indexes, which the next start may write anew, or delete."""
    facts = case.facts
    if case.doomed:
        return iter(())
    recovered = facts is not None and (facts.recovered(next_base) or _is_metadata_log(case))
    return indexes.rebuilt(found) if recovered else found


def _missing_indexes(case: Case) -> Iterator[Finding]:
    # Which magics there are decides; and of a metadata log every start builds the indexes anew.
    if case.quick or _is_metadata_log(case):
        return
    found = list(
        indexes.check_missing_indexes(case.surveys, next_base=case.group.next_base, live=case.live)
    )
    for survey, next_base in case.neighbours:
        of_segment = (finding for finding in found if finding.path == survey.segment.log)
        yield from _of_indexes(case, next_base, of_segment)


def _is_metadata_log(case: Case) -> bool:
    return case.facts is not None and is_metadata_log(case.facts.partition)


def _log_sizes(case: Case) -> Iterator[Finding]:
    return partition_files.check_log_sizes(
        (survey.segment.log, survey.size) for survey in case.surveys
    )


def _orphans(case: Case) -> Iterator[Finding]:
    if case.facts is not None and not case.doomed:
        yield from indexes.check_orphans(case.facts.partition, live=case.live)


def _names(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from partition_files.check_file_names(case.facts.partition)


def _unread_files(case: Case) -> Iterator[Finding]:
    facts = case.facts
    if facts is not None:
        small = (facts.epochs, facts.metadata, facts.quorum_state, facts.repairs)
        read = (*small, *facts.snapshots.values(), *facts.txn_indexes.values())
        yield from directory.check_read(read, stopped=facts.stopped)


def _suffix(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from directory.check_suffix(case.facts.partition, case.log_bytes)


def _topic_id(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from topic.check_topic_id(case.facts, case.node, case.surveys)


def _segment_bytes(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from topic.check_segment_bytes(case.facts, case.node)


def _high_watermark(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from partition_files.check_high_watermark(case.facts, case.first_base, case.log_end)


def _cleaner_offset(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from partition_files.check_cleaner_offset(case.facts, case.first_base, case.log_end)


def _swaps(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        loss = swap_loss(case.facts, case.surveys)
        yield from leftovers.check_swaps(case.facts, case.ends, loss)


def _metadata_snapshots(case: Case) -> Iterator[Finding]:
    facts = case.facts
    if facts is not None and _is_metadata_log(case):
        yield from metadata.check_metadata_snapshots(
            facts, facts.metadata_snapshots, case.first_base, case.log_end
        )


def _missing_offsets(case: Case) -> Iterator[Finding]:
    if case.facts is not None:
        yield from missing_offsets.check_missing_offsets(
            case.surveys, case.facts, case.ends, case.replay, quick=case.quick
        )


def _future_timestamps(case: Case) -> Iterator[Finding]:
    if case.facts is not None and not case.quick:
        newest = [(survey.segment.log, survey.max_timestamp) for survey in case.surveys]
        yield from segments.check_future_timestamps(newest, case.facts.settings, case.now_ms)


def _clean_stop(case: Case) -> Iterator[Finding]:
    if case.facts is not None and case.surveys and not case.quick:
        yield from segments.check_clean_stop(case.facts, case.surveys[-1])


def _hanging(case: Case) -> Iterator[Finding]:
    name = None if case.facts is None else case.facts.partition.name
    if case.replay is not None and case.facts is not None and name is not None:
        yield from transactions.check_hanging(
            case.replay,
            name.topic,
            name.partition,
            case.clock(),
            case.longest_transaction_ms,
            case.facts.coordinator,
        )


def _horizons(case: Case) -> Iterator[Finding]:
    if case.replay is not None and case.facts is not None:
        compacted = case.facts.settings.compacted
        yield from transactions.check_horizons(case.replay, compacted=compacted)


def _of_facts(
    check: Callable[[PartitionFacts], Iterator[Finding]], case: Case
) -> Iterator[Finding]:
    return iter(()) if case.facts is None else check(case.facts)


def _of_end(
    check: Callable[[PartitionFacts, int | None], Iterator[Finding]], case: Case
) -> Iterator[Finding]:
    return iter(()) if case.facts is None else check(case.facts, case.log_end)


def _of_replay(check: Callable[[Replay], Iterator[Finding]], case: Case) -> Iterator[Finding]:
    return iter(()) if case.replay is None else check(case.replay)


def _of_replay_and_facts(
    check: Callable[[Replay, PartitionFacts], Iterator[Finding]], case: Case
) -> Iterator[Finding]:
    # A broker that deletes a partition first forgets its leader epochs, and where its log starts.
    if case.replay is None or case.facts is None or case.doomed:
        return iter(())
    return check(case.replay, case.facts)


def _node(together: Sequence[DirectoryFacts], context: Context) -> Iterator[Finding]:
    yield from directory.check_node(together)
    yield from directory.check_node_id(together, context.config)
    yield from directory.check_bootstrap(together)


def _missing_replicas(together: Sequence[DirectoryFacts], context: Context) -> Iterator[Finding]:
    return directory.check_missing_replicas(together, context.node_of(together[0]))


def _twice(together: Sequence[DirectoryFacts], context: Context) -> Iterator[Finding]:
    return directory.check_twice(together, context.strays)


#: The checks of one partition, in the order in which their findings are told.
CHECKS: Final[tuple[Check, ...]] = (
    _segment,
    _index_files,
    _offset_entries,
    _time_entries,
    _last_timestamp,
    _unread,
    _sequence,
    _missing_indexes,
    _log_sizes,
    _orphans,
    _names,
    _unread_files,
    _suffix,
    partial(_of_facts, topic.check_partition_metadata),
    _topic_id,
    _segment_bytes,
    partial(_of_facts, partition_files.check_epoch_file),
    partial(_of_end, partition_files.check_epoch_end),
    partial(_of_facts, partition_files.check_snapshot_files),
    partial(_of_facts, partition_files.check_stray_snapshots),
    partial(_of_end, partition_files.check_log_start),
    partial(_of_end, partition_files.check_recovery_point),
    _high_watermark,
    _cleaner_offset,
    partial(_of_facts, leftovers.check_leftovers),
    partial(_of_facts, leftovers.check_foreign),
    partial(_of_facts, repair_records.check_kept),
    _swaps,
    partial(_of_facts, metadata.check_quorum_state),
    _metadata_snapshots,
    _missing_offsets,
    partial(_of_end, segments.check_wiped),
    _future_timestamps,
    _clean_stop,
    partial(_of_replay, transactions.check_transactions),
    partial(_of_replay_and_facts, transactions.check_lost_ends),
    _hanging,
    _horizons,
    partial(_of_replay_and_facts, producers.check_snapshots),
    partial(_of_replay_and_facts, producers.check_sequences),
    partial(_of_replay_and_facts, txn_indexes.check_txn_index_files),
    partial(_of_replay_and_facts, txn_indexes.check_aborts),
    partial(_of_replay_and_facts, txn_indexes.check_stable_offsets),
    partial(_of_replay, epochs.check_epoch_falls),
    partial(_of_replay, epochs.check_epoch_range),
    partial(_of_replay_and_facts, epochs.check_epoch_checkpoint),
)
#: The checks of one log directory.
DIRECTORY_CHECKS: Final[tuple[Callable[[DirectoryFacts], Iterator[Finding]], ...]] = (
    directory.check_foreign_directories,
    directory.check_foreign_files,
    directory.check_clean_marker,
    directory.check_checkpoints,
    directory.check_checkpoint_lines,
    directory.check_meta_properties,
    directory.check_top_files,
)
#: The checks of all log directories of one node.
NODE_CHECKS: Final[tuple[Callable[[Sequence[DirectoryFacts], Context], Iterator[Finding]], ...]] = (
    _node,
    _twice,
    _missing_replicas,
)


def unread(group: Group, missed: Unread) -> Finding:
    """Return the finding for what could not be read, which is no damage by itself."""
    code = codes.DENIED if missed.denied else codes.UNREADABLE
    detail = unreadable(missed.text)
    if missed.vanished:
        code = codes.VANISHED if group.stopped else codes.VANISHED_LIVE
        detail = detail if group.stopped else detail.as_live()
    return Finding(
        code,
        missed.path,
        detail=detail,
        remedy=None if code is codes.VANISHED_LIVE else again(group.path),
    )


def killed(path: Path, died: Died, group: Group) -> Finding:
    """Return the finding for what a worker was reading when a signal killed it."""
    detail = Detail("a reader that ends by itself", f"a reader that {died.label} killed")
    return Finding(codes.UNREADABLE, path, detail=detail, remedy=again(group.path))


def again(path: Path) -> tuple[str, ...]:
    """Return the remedy where nothing else is known: to look again."""
    return "kdump", "verify", operand(path)
