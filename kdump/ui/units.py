"""Counts, sizes, durations and times in words.

Offsets and positions are printed as bare digits elsewhere, so that they can be pasted.
"""

from __future__ import annotations

import re
from typing import Final

#: The largest value of a 32-bit setting, and the largest offset or id.
LARGEST_INT: Final = 2**31 - 1
LARGEST_LONG: Final = 2**63 - 1
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) *(?:([kmgt])(i?)b|b)?", re.I | re.A)
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])", re.A)
#: From so many hours on a duration is in days.
_HOURS: Final = 48
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def count_text(number: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 batch", "1,204 batches"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size_text(size_bytes: float) -> str:
    """Return a size in the largest unit that fits: "17 bytes", "2.31 GiB"."""
    power = 0
    while size_bytes >= 1024 and power < len(_UNITS) - 1:
        size_bytes /= 1024
        power += 1
    return f"{size_bytes:.0f} bytes" if power == 0 else f"{size_bytes:.2f} {_UNITS[power]}"


def short_age_text(seconds: int) -> str:
    """Return an age in one unit: "3d", "12h", "5min", "40s"; "future" below 0."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return "future" if seconds < 0 else f"{seconds}s"


def short_size_text(size_bytes: float) -> str:
    """Return a size of at least 1 KiB with two or three digits: "1.2 GiB", "168 KiB"; or "0"."""
    if not size_bytes:
        return "0"
    size = max(size_bytes / 1024, 1)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1000 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.{1 if size < 10 and unit != 'KiB' else 0}f} {unit}"


def parse_size(text: str) -> int:
    """Read a size such as "50MB" (millions), "20MiB" (1024 times 1024), "512kB" or "4096".

    Raises ValueError for anything else.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a size such as 50MB or 20MiB, found {text!r}")
    number, prefix, binary = found.groups(default="")
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[prefix.lower()])


def part_text(part_bytes: int, total_bytes: int) -> str:
    """Return a part and its total in the unit of the total: "1.20 of 11.90 TiB"."""
    unit, scale = _UNITS[0], 1
    for unit in _UNITS:
        if total_bytes < 1024 * scale or unit == _UNITS[-1]:
            break
        scale *= 1024
    digits = 0 if scale == 1 else 2
    return f"{part_bytes / scale:.{digits}f} of {total_bytes / scale:.{digits}f} {unit}"


def parse_duration(text: str) -> int:
    """Read a duration in seconds, such as "30d", "3h", "90m" or "5s".

    Raises ValueError for anything else.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a duration such as 30d, 3h, 90m or 5s, found {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def rate_text(size_bytes: int, seconds: float) -> str:
    """Return a rate such as "559.00 MiB/s"; a time below a millisecond counts as one."""
    return f"{size_text(size_bytes / max(seconds, 0.001))}/s"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units: "0.4 s", "6 h 12 min", "3 days 1 h"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS:
        days, hours = divmod(hours, 24)
        return f"{days} days {hours} h" if hours else f"{days} days"
    return f"{hours} h {minutes} min"


def period_text(first_ms: int, last_ms: int) -> str:
    """Return two times to the second: "2026-11-20T22:14:02Z..22:14:03Z", or with both dates.

    Equal ones are one.
    """
    from kdump.format.lines.text import time_text

    first, last = (re.sub(r"\.\d{3}Z$", "Z", time_text(time_ms)) for time_ms in (first_ms, last_ms))
    day, _, _ = first.partition("T")
    return first if first == last else f"{first}..{last.removeprefix(f'{day}T')}"
