"""The notes of a plan to cut: reasons, losses, alternatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kdump.audit.checks.transactions import TRANSACTION_END_LOST
from kdump.audit.facts.small_files import PartitionFacts, TopicSettings
from kdump.audit.replay.fates import Fate
from kdump.audit.replay.replay import Replay, lost_ends
from kdump.audit.survey.recovery import RecoveryEnding
from kdump.audit.survey.survey import Survey
from kdump.repair.transaction.plan import Loss
from kdump.repair.truncation.cut_point import CutPoint, disorder

#: The most transactions that are named.
_LISTED = 3


def cut_notes(
    survey: Survey, cut_point: CutPoint, loss: Loss, log_end: int, high_watermark: int | None
) -> Iterator[str]:
    """Yield why the log of ``survey`` is cut at ``cut_point``, and what to consider before."""
    log, whole = survey.segment.log.name, cut_point.position == survey.size
    where = "stays whole" if whole else f"is truncated at position {cut_point.position}"
    yield f"{log} {where}: {cut_point.cause}"
    if not loss:
        return
    if loss.sound:
        yield (
            f"{loss.sound.count:,} valid records follow that position: kdump salvage copies them "
            "too, to another directory"
        )
    yield (
        "kdump cannot see the cluster. If another replica is in sync, start its broker first; "
        "if this replica becomes the leader, its followers truncate there too"
    )
    if loss.below_high_watermark:
        yield (
            f"the high watermark is {high_watermark}, above {log_end}: consumers may have read "
            "the removed records"
        )


def open_transaction_notes(before: Replay, after: Replay, facts: PartitionFacts) -> Iterator[str]:
    """Yield the transactions whose end a cut removes.

    ``before`` is the replay of the whole log, ``after`` of the part that stays.
    """
    surveys = [segment.survey for segment in before.segments]
    lost = {(end.producer, end.begin): end.fate for end in lost_ends(surveys, before.start, facts)}
    still_open = {
        (transaction.producer_id, transaction.first_offset) for transaction in before.open
    }
    opened = [
        (transaction, lost.get(key))
        for transaction in after.open
        if (key := (transaction.producer_id, transaction.first_offset)) not in still_open
        or key in lost
    ]
    for transaction, fate in opened[:_LISTED]:
        known = f", which was {fate.value}," if fate in (Fate.COMMITTED, Fate.ABORTED) else ""
        yield (
            f"{TRANSACTION_END_LOST.name}: the transaction of producer {transaction.producer_id} "
            f"from offset {transaction.first_offset} on{known} is left open: consumers with "
            f"read_committed stop at offset {after.open[0].first_offset} until its coordinator "
            "ends it, or kafka-transactions.sh abort does"
        )
    if len(opened) > _LISTED:
        yield f"{len(opened) - _LISTED} more transactions are left open"


def order_notes(
    surveys: Sequence[Survey],
    cut_point: CutPoint | None,
    refused: CutPoint | None,
    settings: TopicSettings,
) -> Iterator[str]:
    """Yield the problems that stay after a cut at ``cut_point``, None for no cut.

    ``refused`` is the first point that recovery does not accept.
    """
    if refused is not None and cut_point is not None and _before(refused, cut_point):
        log = surveys[refused.number].segment.log.name
        yield (
            f"{log} stays corrupt at position {refused.position} ({refused.cause}): without --at "
            "the log is truncated there"
        )
    stop = len(surveys) - 1 if cut_point is None else cut_point.number
    for number, survey in enumerate(surveys[: stop + 1]):
        end = (
            cut_point.position
            if cut_point is not None and number == cut_point.number
            else survey.size
        )
        for position, text in disorder(survey):
            if position < end:
                yield (
                    f"{survey.segment.log.name}, position {position}: {text}. Recovery accepts "
                    "this, so it stays, unless --at truncates before it"
                )
        if survey.recovered is not None and survey.recovered.ending is RecoveryEnding.SPLIT:
            yield (
                f"{survey.segment.log.name} holds offsets beyond the range of its index: a broker "
                "that recovers it splits it in two, and loses nothing"
            )
        if survey.recovered is not None and survey.recovered.ending is RecoveryEnding.FULL:
            yield (
                f"the index entries of {survey.segment.log.name} do not fit into "
                f"segment.index.bytes, which is {settings.segment_index_bytes}: a broker that "
                "recovers it does not start; raise segment.index.bytes"
            )
    for survey, following in pairwise(surveys[: stop + 1]):
        if survey.last_offset is not None and survey.last_offset >= following.segment.base_offset:
            yield (
                f"{survey.segment.log.name} ends at offset {survey.last_offset}, not below the "
                f"base offset of {following.segment.log.name}. Recovery accepts this, so both stay"
            )


def _before(cut_point: CutPoint, other: CutPoint) -> bool:
    return (cut_point.number, cut_point.position) < (other.number, other.position)
