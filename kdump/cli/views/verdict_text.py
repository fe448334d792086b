"""The first line of a report: lost now, and at the next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from kdump.audit.codes import Outcome, Severity
from kdump.audit.verdicts.losses import UNDECIDED, Losses
from kdump.cli.ui.paragraphs import wrap
from kdump.cli.ui.units import count_text
from kdump.cli.views.forecast_text import OUTCOMES, bound_text, harm_parts

LABELS: Final = {
    Severity.ERROR: "ERROR",
    Severity.INCOMPLETE: "UNREAD",
    Severity.WARNING: "WARN",
    Severity.INFO: "INFO",
}
_COLOURS: Final = {
    Severity.ERROR: "red",
    Severity.INCOMPLETE: "magenta",
    Severity.WARNING: "yellow",
    Severity.INFO: "cyan",
}


def severity_text(severity: Severity | None) -> str:
    """Return the label of a finding, or of the first line of a report; None is sound."""
    if severity is None:
        return f"{'sound':6}"
    return click.style(f"{LABELS[severity]:6}", fg=_COLOURS[severity])


def verdict_lines(losses: Losses, severity: Severity | None) -> Iterator[str]:
    """Yield the first line of a report, wrapped; ``severity`` is that of the worst finding."""
    parts = [f"lost now: {lost_now_text(losses)}", _start_text(losses)]
    if losses.start_is_worse:
        parts.reverse()
    first, *others = wrap("; ".join(parts), 7)
    yield f"{severity_text(severity)} {first.lstrip()}"
    yield from others


def lost_now_text(losses: Losses) -> str:
    """Return how many records consumers cannot get today, in all partitions together."""
    reason = next((text for code, text in UNDECIDED.items() if code in losses.undecided), None)
    if losses.now:
        where = count_text(losses.now_partitions, "partition")
        known = f"{bound_text(losses.now, 'record')} in {where}"
        return known if reason is None else f"{known}, and an unknown number: {reason}"
    if reason is not None:
        return f"unknown, {reason}"
    return "no record" if losses.now_exact else "none seen, not all was read"


def _start_text(losses: Losses) -> str:
    when = "next start" if losses.stopped else "if it died"
    parts = []
    if losses.outcome is not Outcome.STARTS:
        parts.append(OUTCOMES[losses.outcome])
    if losses.further:
        where = count_text(losses.further_partitions, "partition")
        parts.append(f"{count_text(losses.further.count, 'SOUND record')} lost in {where}")
    if losses.strays:
        parts.append(f"{count_text(losses.strays, 'partition')} renamed to -stray, not served")
    if losses.outcome is Outcome.STARTS:
        parts += harm_parts(losses.harms)
    if not parts:
        parts.append("loses no more" if losses.further_exact else "no more loss seen")
    return f"{when}: {', '.join(parts)}"
