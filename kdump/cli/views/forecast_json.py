"""The JSON line of a forecast.

Scripts rely on it: fields may come, none may change or go.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from kdump.audit.replay.stable_offset import StableOffset
from kdump.audit.startup.forecast import DirectoryForecast, Forecast
from kdump.audit.startup.outcome import Cause
from kdump.audit.survey.recovery import Records, Span
from kdump.audit.verdicts.losses import Losses
from kdump.cli.ui import jsonl
from kdump.format.lines.text import time_text
from kdump.storage.logdir import directory_name


def forecast_line(
    path: Path, one: Forecast, lost_now: Span, stable: StableOffset | None = None
) -> str:
    """Return the line of the partition at ``path``, which has lost ``lost_now`` already.

    ``stable`` is there where its log was read.
    """
    name = directory_name(path)
    fields: dict[str, object] = {
        **jsonl.path_field(path),
        "topic": None if name is None else name.topic,
        "partition": None if name is None else name.partition,
    }
    fields |= {} if stable is None else stable_fields(stable)
    lost = {"lost_now": lost_now_fields(lost_now)}
    return jsonl.line("forecast", {**fields, **forecast_fields(one), **lost})


def stable_fields(stable: StableOffset) -> dict[str, object]:
    """Return where consumers of committed records stop now, and what holds them, if anything."""
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


def forecast_fields(one: Forecast) -> dict[str, object]:
    """Return what is said of a start; ``cut`` is the first one, null without any."""
    first = one.cuts[0] if one.cuts else None
    return {
        "outcome": one.outcome.value,
        "reasons": [reason_fields(cause) for cause in one.causes],
        "log_start_offset": one.log_start_offset,
        "log_end_offset": one.log_end_offset,
        "segments": one.segments,
        "cut": first
        and {"segment": first.segment, "position": first.position, "offset": first.offset},
        "cuts": [asdict(cut) for cut in one.cuts],
        "recovered_segments": one.recovered,
        "deleted_segments": one.deleted,
        "deleted_bytes": one.deleted_bytes,
        "replaced": [jsonl.path_value(path) for path in one.replaced],
        "reads_bytes": one.read_bytes,
        "lost": _lost(one.lost),
        "snapshots_lost": one.snapshots_lost,
        "exact": one.exact and not one.lost.unreadable.unbounded,
        "release": one.release and one.release.value,
        "set_aside": one.set_aside and one.set_aside.name,
    }


def directory_fields(one: DirectoryForecast) -> dict[str, object]:
    """Return what belongs into a summary: the sums over all partitions that were looked at.

    ``exact``: that is all of them, and nothing that counts was left unread.
    """
    return {
        "outcome": one.outcome.value,
        "reasons": [reason_fields(cause) for cause in one.causes],
        "partitions": one.partitions,
        "partitions_total": one.total,
        "exact": one.whole,
        "set_aside": one.set_aside,
        "reads_bytes": one.read_bytes,
        "seconds": round(one.recovery_seconds, 1),
        "deleted_bytes": one.deleted_bytes,
        "lost": _lost(one.lost),
        "ends_broker": one.ends_broker,
    }


def lost_now_fields(lost: Span) -> dict[str, object]:
    """Return what consumers cannot get today; ``records`` is null where it has no bound."""
    return {
        "records": None if lost.unbounded else lost.count,
        "first_offset": lost.first_offset,
        "last_offset": None if lost.unbounded else lost.last_offset,
        "first_timestamp": lost.first_timestamp,
        "last_timestamp": lost.last_timestamp,
    }


def losses_fields(losses: Losses) -> dict[str, object]:
    """Return what all partitions have lost, and what the next start costs further.

    Numbers of records are null where they have no bound.
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
    """Return why something does not start."""
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
