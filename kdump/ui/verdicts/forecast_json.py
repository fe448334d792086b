"""The JSON line of a forecast.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from dataclasses import asdict

from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import DirectoryForecast, Forecast
from kdump.audit.startup.outcome import Cause
from kdump.audit.survey.recovery import Records, Span
from kdump.audit.verdicts.cures import OPTIONS, Diagnosis, cures_of
from kdump.audit.verdicts.losses import Losses
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.text import time_text
from kdump.storage.logdir import directory_name
from kdump.ui import jsonl


def forecast_line(verdict: Verdict, forecast: Forecast, stable: StableOffset | None = None) -> str:
    """Return the line of a partition, with what can be done about it.

    ``stable`` is the last stable offset, None if the log was not read.
    """
    path = verdict.target.path
    name = directory_name(path)
    fields: dict[str, object] = {
        **jsonl.path_field(path),
        "topic": None if name is None else name.topic,
        "partition": None if name is None else name.partition,
    }
    fields |= {} if stable is None else stable_fields(stable)
    lost = {"lost_now": lost_now_fields(verdict.lost.records)}
    cured = diagnosis_fields(cures_of(verdict))
    return jsonl.line("forecast", {**fields, **forecast_fields(forecast), **lost, **cured})


def diagnosis_fields(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the fields of the cures of a partition; none where there is nothing to do."""
    if not diagnosis.cures and diagnosis.left is None:
        return {}
    left = {"reason": diagnosis.left, "remedy": diagnosis.command}
    return {
        "cures": [{"cure": kind.value, "option": OPTIONS.get(kind)} for kind in diagnosis.cures],
        "left": None if diagnosis.left is None else left,
    }


def stable_fields(stable: StableOffset) -> dict[str, object]:
    """Return the fields of the last stable offset and of the open transaction that holds it."""
    holder = stable.holder
    held = None
    if holder is not None:
        held = {
            "producer_id": holder.producer_id,
            "producer_epoch": holder.producer_epoch,
            "first_offset": holder.first_offset,
            "since": None if stable.since_ms is None else time_text(stable.since_ms),
            "last_batch": time_text(holder.timestamp),
            "waiting_records_at_most": stable.waiting,
        }
    return {"last_stable_offset": stable.offset, "open_transaction": held}


def forecast_fields(forecast: Forecast) -> dict[str, object]:
    """Return the fields of a forecast; ``cut`` is the first cut, null if there is none."""
    first = forecast.cuts[0] if forecast.cuts else None
    return {
        "outcome": forecast.outcome.value,
        "reasons": [reason_fields(cause) for cause in forecast.causes],
        "log_start_offset": forecast.log_start_offset,
        "log_end_offset": forecast.log_end_offset,
        "segments": forecast.segments,
        "cut": first
        and {"segment": first.segment, "position": first.position, "offset": first.offset},
        "cuts": [asdict(cut) for cut in forecast.cuts],
        "recovered_segments": forecast.recovered,
        "recovery": [
            {"segment": base, "reason": reason.value}
            for base, reason in zip(forecast.recovered, forecast.recovery, strict=True)
        ],
        "deleted_segments": forecast.deleted,
        "deleted_bytes": forecast.deleted_bytes,
        "replaced": [jsonl.path_value(path) for path in forecast.replaced],
        "reads_bytes": forecast.read_bytes,
        "rereads_bytes": forecast.reread_bytes,
        "lost": _lost(forecast.lost),
        "snapshots_lost": forecast.snapshots_lost,
        "exact": forecast.exact and not forecast.lost.unreadable.unbounded,
        "release": forecast.release and forecast.release.value,
        "set_aside": forecast.set_aside and forecast.set_aside.name,
    }


def directory_fields(forecast: DirectoryForecast) -> dict[str, object]:
    """Return the fields of a log directory in the summary: sums over the partitions checked.

    ``exact``: all partitions were checked, and all that decides their start was read.
    """
    return {
        "outcome": forecast.outcome.value,
        "reasons": [reason_fields(cause) for cause in forecast.causes],
        "partitions": forecast.partitions,
        "partitions_total": forecast.total,
        "exact": forecast.whole,
        "set_aside": forecast.set_aside,
        "reads_bytes": forecast.read_bytes,
        "rereads_bytes": forecast.reread_bytes,
        "seconds": round(forecast.recovery_seconds, 1),
        "threads": forecast.threads,
        "deleted_bytes": forecast.deleted_bytes,
        "lost": _lost(forecast.lost),
        "ends_broker": forecast.ends_broker,
        "writes_bytes": forecast.room.bytes,
        "writes_files": forecast.room.files,
        "file_system": forecast.space
        and {
            "total_bytes": forecast.space.total_bytes,
            "free_bytes": forecast.space.free_bytes,
            "free_inodes": forecast.space.free_files,
        },
    }


def lost_now_fields(lost: Span) -> dict[str, object]:
    """Return the fields of what consumers cannot get today; ``records`` is null without a bound."""
    return {
        "records": None if lost.unbounded else lost.count,
        "first_offset": lost.first_offset,
        "last_offset": None if lost.unbounded else lost.last_offset,
        "first_timestamp": lost.first_timestamp,
        "last_timestamp": lost.last_timestamp,
    }


def losses_fields(losses: Losses) -> dict[str, object]:
    """Return the fields of what all partitions have lost, and of what the next start loses.

    Numbers of records are null without a bound.
    """
    return {
        "now": None if losses.now.unbounded else losses.now.count,
        "now_partitions": losses.now_partitions,
        "now_exact": losses.now_exact and not losses.now.unbounded,
        "next_start": losses.further.count,
        "next_start_partitions": losses.further_partitions,
        "next_start_exact": losses.further_exact,
        "outcome": losses.outcome.value,
        "strays": losses.strays,
    }


def reason_fields(cause: Cause) -> dict[str, object]:
    """Return the fields of a cause that stops a start."""
    return {
        "outcome": cause.outcome.value,
        "text": cause.text,
        **jsonl.path_field(cause.path),
        "position": cause.position,
    }


def _lost(lost: Records) -> dict[str, object]:
    both, unbounded = lost.sound + lost.unreadable, lost.unreadable.unbounded
    return {
        "sound": lost.sound.count,
        "unreadable": None if unbounded else lost.unreadable.count,
        "first_offset": both.first_offset,
        "last_offset": None if unbounded else both.last_offset,
        "first_timestamp": both.first_timestamp,
        "last_timestamp": both.last_timestamp,
    }
