"""A forecast in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from kdump.audit.facts.space import Space
from kdump.audit.finding_code import Harm
from kdump.audit.startup.forecast import DirectoryForecast, Forecast
from kdump.audit.startup.outcome import Cause, LogCut, Outcome, RecoveryReason
from kdump.audit.survey.recovery import Records, Span
from kdump.format.lines.text import printable
from kdump.storage.names import FileKind, format_file_name
from kdump.ui.folding import fold_texts, likeness
from kdump.ui.units import count_text, duration_text, period_text, size_text

#: The number of recovered segments that are named.
_LISTED: Final = 8
OUTCOMES: Final = {
    Outcome.STARTS: "starts",
    Outcome.OFFLINE: "the log directory goes OFFLINE",
    Outcome.REFUSES: "the broker DOES NOT START",
}
#: Why a start recovers a segment.
RECOVERY: Final = {
    RecoveryReason.INDEX_MISSING: "index missing",
    RecoveryReason.TRANSACTION_INDEX_CORRUPT: "transaction index corrupt",
    RecoveryReason.METADATA_LOG: "metadata log, at every startup",
    RecoveryReason.NO_RECOVERY_POINT: "no recovery point after an unclean shutdown",
    RecoveryReason.PAST_RECOVERY_POINT: "past the recovery point after an unclean shutdown",
}
_HARMS: Final = {
    Harm.EMPTY: "creates missing replicas again, empty",
    Harm.STRAYS: "renames all partitions to -stray and no longer serves them",
    Harm.REFETCHED: "creates missing replicas again and fetches them from their leaders",
    Harm.METADATA_FETCHED: "fetches the metadata log again, from a majority that has to run first",
    Harm.METADATA_CUT: "starts without the metadata at the end of a torn snapshot",
    Harm.METADATA_SHORT: "goes on without the end of the metadata log: an only voter loses it",
    Harm.UNSERVED: "does not serve all partitions",
    Harm.FOLLOWED: "shortens replicas: if one of them leads, others delete what it lacks",
    Harm.EMPTIED: "may empty segments that it recovers, where a write finds no space",
    Harm.SHORTENED: "replaces segments by a .swap file with fewer records, an unknown loss",
    Harm.UNREAD: "may remove valid records of a corrupt log: not all that it recovers was read",
}
#: What a start does to valid records that it keeps, where all that decides that was read, or not.
_NO_LOSS: Final = "removes no valid record"
_NO_LOSS_SEEN: Final = "nothing seen that removes valid records"


def harm_text(forecast: Forecast) -> str | None:
    """Return what a start breaks or loses in one partition; None if it does no harm."""
    if forecast.causes:
        return "; ".join(map(stopping_text, forecast.causes))
    lost = lost_parts(forecast.lost)
    parts = (
        ["renames it to -stray: its records stay on disk, but are not served"]
        if forecast.set_aside
        else []
    )
    if forecast.removes_records:
        parts += [f"truncates at {_cut_text(cut)}" for cut in forecast.cuts]
    if forecast.deleted:
        parts.append(
            f"deletes {count_text(len(forecast.deleted), 'segment')} "
            f"({size_text(forecast.deleted_bytes)})"
        )
    if forecast.replaced:
        parts.append(f"replaces {count_text(len(forecast.replaced), 'file')} by a .swap")
    parts += lost
    parts += harm_parts(forecast.harms)
    return "; ".join(parts) or None


def effect_text(forecast: Forecast) -> str:
    """Return what a start does with one partition, harmful or not."""
    harm = harm_text(forecast)
    if forecast.causes:
        return harm or ""
    nothing = _NO_LOSS if forecast.exact else _NO_LOSS_SEEN
    parts = [harm or nothing, *harmless_cuts(forecast)]
    if forecast.recovered:
        parts.append(recovered_text(forecast))
    parts.append(f"reads {_reads_text(forecast, exact=forecast.exact)}")
    text = "; ".join(parts)
    if forecast.log_end_offset is not None:
        text += f"; log end offset {forecast.log_end_offset}"
    return text if forecast.exact else f"{text}; by its end alone"


def harmless_cuts(forecast: Forecast) -> Iterator[str]:
    """Yield the tails without readable records that a start cuts off."""
    if forecast.removes_records:
        return
    for cut in forecast.cuts:
        size = size_text(cut.size)
        yield f"removes {size} without records at {_cut_text(cut)}"


def _cut_text(cut: LogCut) -> str:
    """Return the place of a cut."""
    name = format_file_name(FileKind.LOG, cut.segment)
    return f"offset {cut.offset} (position {cut.position} of {name})"


def recovered_text(forecast: Forecast) -> str:
    """Return the segments that recovery reads, by their base offsets, and why."""
    parts = [
        f"{bases_text(bases)} ({RECOVERY[reason]})"
        for reason, bases in recovered_by_reason(forecast).items()
    ]
    return f"recovers {count_text(len(forecast.recovered), 'segment')}: {', '.join(parts)}"


def recovered_by_reason(forecast: Forecast) -> dict[RecoveryReason, list[int]]:
    """Return the base offsets of the segments that recovery reads, by the reason."""
    bases: dict[RecoveryReason, list[int]] = {}
    for base, reason in zip(forecast.recovered, forecast.recovery, strict=True):
        bases.setdefault(reason, []).append(base)
    return bases


def _reads_text(forecast: Forecast | DirectoryForecast, *, exact: bool) -> str:
    """Return how much recovery reads; what was not read may make it more."""
    text = size_text(forecast.read_bytes)
    if forecast.reread_bytes:
        text += f", {size_text(forecast.reread_bytes)} of them a second time for producer states"
    return text if exact else f"at least {text}"


def bases_text(bases: Sequence[int]) -> str:
    """Return base offsets of segments; of many, the first ones and the last."""
    texts = [str(base) for base in bases]
    if len(texts) > _LISTED:
        texts = [*texts[: _LISTED - 1], "...", texts[-1]]
    return ", ".join(texts)


def directory_sentences(forecast: DirectoryForecast) -> Iterator[str]:
    """Yield what a start does with all partitions of a log directory, in a few sentences."""
    if not forecast.whole:
        yield _checked(forecast)
    if not forecast.causes:
        yield (
            "nothing here stops the broker"
            if forecast.whole
            else "nothing seen that stops the broker"
        )
    if forecast.outcome is Outcome.OFFLINE:
        yield broker_end_text(forecast.ends_broker)
    yield from causes_texts(forecast.causes)
    if forecast.set_aside:
        strays = count_text(forecast.set_aside, "partition")
        yield f"renames {strays} to -stray: records stay on disk, but are not served"
    if not forecast.causes:
        yield from harm_parts(forecast.harms)
    reads = f"recovery reads {_reads_text(forecast, exact=forecast.whole)}"
    if forecast.recovery_seconds >= 1:
        threads = count_text(forecast.threads, "thread")
        rate = "250 MiB/s each" if forecast.threads > 1 else "250 MiB/s"
        reads += f", about {duration_text(forecast.recovery_seconds)} with {threads} at {rate}"
    yield reads
    lost = lost_parts(
        forecast.lost, ranges=False
    )  # offsets of several partitions do not make a range
    if not forecast.lost.sound and not forecast.harms:
        yield _NO_LOSS if forecast.whole else _NO_LOSS_SEEN
    yield from lost


def space_text(space: Space) -> str:
    """Return the free space and the free inodes of a file system, as df shows them."""
    text = f"{size_text(space.free_bytes)} of {size_text(space.total_bytes)} free"
    return text if space.free_files is None else f"{text}, {space.free_files:,} inodes free"


def harm_parts(harms: Collection[Harm]) -> list[str]:
    """Return the harms of a start that no number of records shows."""
    return [text for harm, text in _HARMS.items() if harm in harms]


def causes_texts(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield the outcomes and their causes; equal ones are counted after the first few."""
    texts = [stopping_text(cause) for cause in causes]
    alike = [
        likeness(text, printable(str(cause.path)), printable(cause.path.name))
        for text, cause in zip(texts, causes, strict=True)
    ]
    return fold_texts(texts, alike)


def stopping_text(cause: Cause) -> str:
    """Return the outcome and its cause."""
    return f"{OUTCOMES[cause.outcome]}: {cause_text(cause)}"


def broker_end_text(ends_broker: bool | None) -> str:
    """Return what the broker does when its log directory goes offline; None is unknown."""
    if ends_broker is None:
        return "a broker that has no other log directory EXITS"
    return "the broker EXITS" if ends_broker else "the broker continues with its other directories"


def _checked(forecast: DirectoryForecast) -> str:
    """Return how many partitions a forecast rests on, and how many were read only in part."""
    text = f"{count_text(forecast.total, 'partition')} checked"
    if forecast.partitions < forecast.total:
        text = f"{forecast.partitions:,} of {text}"
    vague = forecast.partitions - forecast.exact
    if vague:
        text += f", {vague:,} by {'its end' if vague == 1 else 'their ends'} alone"
    return text


def lost_parts(lost: Records, *, ranges: bool = True) -> list[str]:
    """Return the lost records: sound ones, and those that damage has made unreadable."""
    parts = []
    if lost.sound:
        parts.append(f"removes {count_text(lost.sound.count, 'VALID record')}")
    if lost.unreadable:
        parts.append(f"removes {bound_text(lost.unreadable, 'corrupt record')}")
    spans = [span for span in (lost.sound, lost.unreadable) if span]
    if ranges:
        return [part + _range(span) for part, span in zip(parts, spans, strict=True)]
    return parts


def cause_text(cause: Cause) -> str:
    """Return a cause with its file and position."""
    position = "" if cause.position is None else f" at position {cause.position}"
    return printable(f"{cause.path}{position}: {cause.text}")


def bound_text(span: Span, noun: str) -> str:
    """Return the upper bound of a number of records, or the lower bound if there is no upper."""
    if not span.unbounded:
        return f"at most {count_text(span.count, noun)}"
    return (
        f"at least {count_text(span.count, noun)}"
        if span.count
        else f"an unknown number of {noun}s"
    )


def _range(span: Span) -> str:
    if span.unbounded and span.first_offset is not None:
        return f" ({span.first_offset}..)"
    if span.first_offset is None or span.last_offset is None:
        return ""
    text = f"{span.first_offset}..{span.last_offset}"
    if span.first_timestamp is not None and span.last_timestamp is not None:
        text += f", {period_text(span.first_timestamp, span.last_timestamp)}"
    return f" ({text})"
