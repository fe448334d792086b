"""A forecast in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kdump.audit.startup.forecast import DirectoryForecast, Forecast
from kdump.audit.startup.outcome import Cause, Outcome
from kdump.audit.survey.recovery import Records, Span
from kdump.cli.ui.units import count_text, duration_text, period_text, size_text
from kdump.format.lines.text import printable

#: How many segments are named that are recovered.
_LISTED: Final = 8
OUTCOMES: Final = {
    Outcome.STARTS: "starts",
    Outcome.OFFLINE: "the log directory goes OFFLINE",
    Outcome.REFUSES: "the broker DOES NOT START",
}


def harm_text(one: Forecast) -> str | None:
    """What a start breaks or loses in one partition; None where it does no harm."""
    if one.causes:
        return "; ".join(map(stopping_text, one.causes))
    lost = lost_parts(one.lost)
    parts = (
        ["renamed to -stray: its records stay on disk, but are not served"] if one.set_aside else []
    )
    if lost or one.deleted:
        parts += [f"cut at {cut.offset} (position {cut.position})" for cut in one.cuts]
    if one.deleted:
        parts.append(
            f"{count_text(len(one.deleted), 'segment')} deleted ({size_text(one.deleted_bytes)})"
        )
    if one.replaced:
        parts.append(f"{count_text(len(one.replaced), 'file')} replaced by a .swap")
    parts += lost
    return "; ".join(parts) or None


def effect_text(one: Forecast) -> str:
    """What a start does with one partition, harm or not."""
    harm = harm_text(one)
    if one.causes:
        return harm or ""
    parts = [harm or "nothing more is lost", *harmless_cuts(one)]
    if one.recovered:
        parts.append(recovered_text(one))
    parts.append(f"reads {size_text(one.read_bytes)}")
    text = "; ".join(parts)
    if one.log_end_offset is not None:
        text += f"; log end offset {one.log_end_offset}"
    return text if one.exact else f"{text}; by its end alone"


def harmless_cuts(one: Forecast) -> Iterator[str]:
    """Which tails a start cuts off that hold no record which anybody could have read."""
    if one.lost.sound or one.lost.unreadable or one.deleted:
        return
    for cut in one.cuts:
        size = size_text(cut.size)
        yield f"{size} without records cut off at {cut.offset} (position {cut.position})"


def recovered_text(one: Forecast) -> str:
    """Which segments recovery reads, by their base offsets."""
    return f"recovers {count_text(len(one.recovered), 'segment')}: {bases_text(one.recovered)}"


def bases_text(bases: Sequence[int]) -> str:
    """Segments by their base offsets; of many, the first ones and the last."""
    texts = [str(base) for base in bases]
    if len(texts) > _LISTED:
        texts = [*texts[: _LISTED - 1], "...", texts[-1]]
    return ", ".join(texts)


def directory_sentences(one: DirectoryForecast) -> Iterator[str]:
    """What a start does with all partitions together, in a few sentences."""
    if not one.whole:
        yield _checked(one)
    if not one.causes:
        yield "no fatal error" if one.whole else "no fatal error seen"
    if one.outcome is Outcome.OFFLINE:
        yield broker_end_text(one.ends_broker)
    yield from map(stopping_text, one.causes)
    if one.set_aside:
        strays = count_text(one.set_aside, "partition")
        yield f"{strays} renamed to -stray: records stay on disk, but are not served"
    reads = f"recovery reads {size_text(one.read_bytes)}"
    if one.recovery_seconds >= 1:
        reads += f", about {duration_text(one.recovery_seconds)} at 250 MiB/s"
    yield reads
    lost = lost_parts(one.lost, ranges=False)  # of several partitions none would be true
    if not one.lost.sound:
        yield "nothing more is lost" if one.whole else "no more loss seen"
    yield from lost


def stopping_text(cause: Cause) -> str:
    """What comes of it, and why."""
    return f"{OUTCOMES[cause.outcome]}: {cause_text(cause)}"


def broker_end_text(ends_broker: bool | None) -> str:
    """What becomes of the broker whose log directory goes offline."""
    if ends_broker is None:
        return "a broker that has no other log directory EXITS"
    return "the broker EXITS" if ends_broker else "the broker continues with its other directories"


def _checked(one: DirectoryForecast) -> str:
    """How much the forecast of a directory rests on, where that is not all of it."""
    text = f"{count_text(one.total, 'partition')} checked"
    if one.partitions < one.total:
        text = f"{one.partitions:,} of {text}"
    vague = one.partitions - one.exact
    if vague:
        text += f", {vague:,} by {'its end' if vague == 1 else 'their ends'} alone"
    return text


def lost_parts(lost: Records, *, ranges: bool = True) -> list[str]:
    """Which records are lost: sound ones, and those that damage has made unreadable."""
    parts = []
    if lost.sound:
        parts.append(f"{count_text(lost.sound.count, 'SOUND record')} lost")
    if lost.unreadable:
        parts.append(f"{bound_text(lost.unreadable, 'unreadable record')} cut away")
    spans = [span for span in (lost.sound, lost.unreadable) if span]
    if ranges:
        return [part + _range(span) for part, span in zip(parts, spans, strict=True)]
    return parts


def cause_text(cause: Cause) -> str:
    """A reason with its file."""
    place = "" if cause.position is None else f" at position {cause.position}"
    return printable(f"{cause.path}{place}: {cause.text}")


def bound_text(span: Span, noun: str) -> str:
    """How many records there are at most; where nobody knows that, how many at least."""
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
