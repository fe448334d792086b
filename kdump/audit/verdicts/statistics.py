"""statistics_of(): the statistics of a partition, and which host has read which of its logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kdump.audit.replay.replay import Replay
from kdump.audit.survey.statistics import BatchSums
from kdump.audit.survey.survey import Survey
from kdump.format.kernel import producers as _producers
from kdump.storage.paths import AnyPath
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)
_RUN: Final = len(_producers.RUN_FIELDS)


@frozen
class LogReading:
    """The reading of one log by ``host``: how many bytes, in how many seconds."""

    path: AnyPath
    host: str
    bytes: int
    seconds: float


@frozen
class PartitionBatches:
    """The batches of a whole partition. Offsets are None without a batch.

    ``records`` are those of ``sums``, None if wrappers of magic 0 or 1 were not read.
    ``producers`` counts producer ids; ``committed`` and ``aborted`` count markers.
    ``open_transactions`` is None for a lone segment.
    """

    sums: BatchSums
    records: int | None
    first_offset: int | None
    last_offset: int | None
    producers: int
    committed: int
    aborted: int
    open_transactions: int | None


@frozen
class Statistics:
    """The statistics of one partition; ``batches`` is None if at most ends of logs were read.

    ``segments`` counts the logs that were surveyed; ``complete`` says whether all logs were read to
    their ends. ``readings`` are those of this run.
    """

    segments: int
    complete: bool
    readings: tuple[LogReading, ...]
    batches: PartitionBatches | None


def statistics_of(
    surveys: Sequence[Survey], replay: Replay | None, *, segments: int, quick: bool
) -> Statistics:
    """Return the statistics from ``surveys`` that have some, of a log of so many ``segments``.

    ``replay`` is that of the verdict. ``quick``: only the ends of logs were read, or nothing.
    """
    readings = tuple(
        LogReading(
            survey.segment.log,
            survey.statistics.host,
            survey.read_bytes,
            survey.statistics.seconds,
        )
        for survey in surveys
        if survey.statistics is not None and survey.read_ms is None
    )
    measured = sum(survey.statistics is not None for survey in surveys)
    complete = measured == segments and all(survey.complete for survey in surveys)
    if quick:
        return Statistics(len(surveys), False, readings, None)
    return Statistics(len(surveys), complete, readings, _batches(surveys, replay))


def _batches(surveys: Sequence[Survey], replay: Replay | None) -> PartitionBatches:
    sums = BatchSums()
    producers: set[int] = set()
    committed = aborted = 0
    for survey in surveys:
        if survey.statistics is not None:
            sums.merge(survey.statistics.sums)
        producers.update(survey.events.runs[::_RUN])
        kinds = survey.events.rows[::_EVENT]
        committed += kinds.count(_producers.COMMIT)
        aborted += kinds.count(_producers.ABORT)
    first = [survey.first_offset for survey in surveys if survey.first_offset is not None]
    last = [survey.last_offset for survey in surveys if survey.last_offset is not None]
    return PartitionBatches(
        sums,
        None if any(survey.wrappers for survey in surveys) else sums.records,
        first[0] if first else None,
        last[-1] if last else None,
        len(producers),
        committed,
        aborted,
        None if replay is None else len(replay.open),
    )
