"""The first line of a report: its state, what is lost, and what the next start does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from kdump.audit.commands import Remedy
from kdump.audit.finding_code import Outcome, Severity
from kdump.audit.verdicts.losses import UNDECIDED, Losses
from kdump.audit.verdicts.state import RunState
from kdump.format.lines.shell import shell_text
from kdump.ui.paragraphs import LABEL, wrap
from kdump.ui.units import count_text, size_text
from kdump.ui.verdicts.forecast_text import OUTCOMES, bound_text, harm_parts

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
_STATES: Final = {
    RunState.OK: ("OK", "green"),
    RunState.WARNING: ("WARNING", "yellow"),
    RunState.ERROR: ("ERROR", "red"),
    RunState.NOT_CHECKED: ("NOT CHECKED", "magenta"),
    RunState.INCOMPLETE: ("INCOMPLETE", "magenta"),
}
#: The states in which the first line begins with what is lost: in the others nothing is.
_WORSE: Final = (RunState.ERROR, RunState.WARNING, RunState.INCOMPLETE)


def severity_text(severity: Severity) -> str:
    """Return the label of a finding."""
    return click.style(f"{LABELS[severity]:6}", fg=_COLOURS[severity])


def verdict_lines(
    state: RunState, about: str, losses: Losses, check: Remedy | None = None
) -> Iterator[str]:
    """Yield the first line of a report, wrapped, and the command that checks what was not.

    ``about`` is a sentence: what was read, and how it was found.
    """
    known = losses.starts or losses.at_start or losses.harms
    start = [f"{_start_text(losses, state)}."] if known else []
    sentences = [f"{about}.", *start]
    if state in _WORSE:  # the worst comes first
        lost = [f"Lost: {lost_now_text(losses)}."]
        worst = [*start, *lost] if losses.start_is_worse else [*lost, *start]
        sentences = [*worst, f"{about}."]
    word, colour = _STATES[state]
    first, *others = wrap(" ".join(sentences), LABEL)
    yield click.style(f"{word:{LABEL}}", fg=colour) + first.lstrip()
    yield from others
    if state is RunState.NOT_CHECKED and check is not None:
        yield f"{'check with':{LABEL}}{shell_text(check)}"


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


def _start_text(losses: Losses, state: RunState) -> str:
    when = "Startup" if losses.stopped else "Startup after a crash"
    parts = []
    if losses.outcome is not Outcome.STARTS:
        parts.append(OUTCOMES[losses.outcome])
    if losses.further:
        where = count_text(losses.further_partitions, "partition")
        parts.append(f"removes {count_text(losses.further.count, 'VALID record')} in {where}")
    if losses.strays:
        parts.append(f"renames {count_text(losses.strays, 'partition')} to -stray, not served")
    if losses.outcome is Outcome.STARTS:
        parts += harm_parts(losses.harms)
    if parts:
        return f"{when}: {', '.join(parts)}"
    reads = size_text(losses.read_bytes)
    if losses.starts_exact:
        what = reads if losses.read_bytes else "nothing"
        return f"{when} recovers {what} and removes no valid record"
    if state is RunState.OK:  # which answers for the contents of logs alone
        return f"{when} was not checked"
    if losses.read_bytes:
        return f"{when} recovers at least {reads}; it may remove records"
    return f"{when} may recover segments and remove records"
