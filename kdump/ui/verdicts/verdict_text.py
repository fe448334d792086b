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
from kdump.format.lines.text import printable
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
_DO_NOT_START: Final = ("DO NOT START", "red")
_CORRUPT: Final = ("CORRUPT", "red")
#: The width of the first word, with the blanks after it.
_INDENT: Final = 14
#: The states in which the first line begins with what is lost: in the others nothing is.
_WORSE: Final = (RunState.ERROR, RunState.WARNING, RunState.INCOMPLETE)


def severity_text(severity: Severity) -> str:
    """Return the label of a finding."""
    return click.style(f"{LABELS[severity]:6}", fg=_COLOURS[severity])


def verdict_lines(
    state: RunState, about: str, losses: Losses, check: Remedy | None = None
) -> Iterator[str]:
    """Yield the first line of a report, wrapped, and the command that checks what was not.

    ``about`` is a sentence, or empty: what was read, and how it was found.
    """
    known = losses.starts or losses.at_start or losses.harms
    start = [f"{_start_text(losses, state)}."] if known else []
    read = [f"{about}."] if about else []
    sentences = [*read, *start]
    if state in _WORSE:  # the worst comes first; what a startup removes more, after what is lost
        lost = [f"{_lost_sentence(losses, state)}."]
        worst = [*start, *lost] if losses.only_start_harms else [*lost, *start]
        sentences = [*worst, *read]
    yield from _first_lines(*_word(state, losses), " ".join(sentences))
    if state is RunState.NOT_CHECKED and check is not None:
        yield f"{'check with':{LABEL}}{shell_text(check)}"


def state_lines(state: RunState, text: str) -> Iterator[str]:
    """Yield the first line of a report that forecasts no startup, wrapped."""
    return _first_lines(*_STATES[state], text)


def _first_lines(word: str, colour: str, text: str) -> Iterator[str]:
    first, *others = wrap(text, _INDENT)
    yield click.style(f"{word:{_INDENT}}", fg=colour) + first.lstrip()
    yield from others


def _word(state: RunState, losses: Losses) -> tuple[str, str]:
    """Return the first word, and its colour."""
    if state is RunState.ERROR and losses.acute:
        return _DO_NOT_START
    return _CORRUPT if state is RunState.ERROR and losses.corrupt else _STATES[state]


def _lost_sentence(losses: Losses, state: RunState) -> str:
    """Return a sentence on the records that consumers cannot get today."""
    kinds = [
        kind for kind, found in (("corrupt", losses.corrupt), ("missing", losses.missing)) if found
    ]
    reason = _undecided(losses)
    sentences = []
    if losses.now:
        where = _where(losses.now_partitions, losses.name)
        verb = "is" if losses.now.count == 1 else "are"
        bound = bound_text(losses.now, "record")
        known = f"{bound} {where} {verb} {' or '.join(kinds) or 'missing'}"
        if reason is None and not losses.now_exact:
            known += ", as far as was read"
        sentences.append(known[0].upper() + known[1:])
    if reason is not None:
        unknown = "Whether more are missing is unknown" if losses.now else "Records may be missing"
        sentences.append(f"{unknown}: {reason}")
    if sentences:
        return ". ".join(sentences)
    if losses.now_exact and state is not RunState.INCOMPLETE:
        so_far = " so far" if losses.further or losses.harms or losses.strays else ""
        return f"No record is lost{so_far}"
    return "No lost record was seen; not all was read"


def lost_text(losses: Losses) -> str:
    """Return how many records of a log directory consumers cannot get today."""
    reason = _undecided(losses)
    known = (
        f"{bound_text(losses.now, 'record')} in {count_text(losses.now_partitions, 'partition')}"
    )
    return known if reason is None else f"{known}, and an unknown number: {reason}"


def _undecided(losses: Losses) -> str | None:
    """Return why nothing decides how many records are lost, None if something does."""
    return next((text for code, text in UNDECIDED.items() if code in losses.undecided), None)


def _start_text(losses: Losses, state: RunState) -> str:
    """Return a sentence or two on what the next startup does."""
    harms = harm_parts(losses.harms) if losses.outcome is Outcome.STARTS else []
    if losses.strays:
        harms.insert(0, f"renames {count_text(losses.strays, 'partition')} to -stray, not served")
    if losses.further:
        also = "also " if losses.now else ""
        noun = "record" if losses.further.count == 1 else "records"
        where = _where(losses.further_partitions, losses.further_name)
        harms.insert(0, f"{also}removes {losses.further.count:,} VALID {noun} {where}")
    sentences = []
    if losses.outcome is not Outcome.STARTS:
        text = OUTCOMES[losses.outcome]
        text = text if losses.acute else f"after a crash, {text}"
        sentences.append(text[0].upper() + text[1:])
    if harms:
        when = "If the broker starts now, it" if losses.acute else "If it dies, its next startup"
        if losses.outcome is not Outcome.STARTS:
            when = "Once that is repaired, a startup"
        sentences.append(f"{when} {', '.join(harms)}")
    if sentences:
        return ". ".join(sentences)
    when = "Startup" if losses.stopped else "Startup after a crash"
    reads = size_text(losses.read_bytes)
    if losses.starts_exact and state is not RunState.INCOMPLETE:
        what = reads if losses.read_bytes else "nothing"
        return f"{when} recovers {what} and removes no valid record"
    if state is RunState.OK:  # which answers for the contents of logs alone
        return f"{when} was not checked"
    if losses.read_bytes:
        return f"{when} recovers at least {reads}; it may remove records"
    return f"{when} may recover segments and remove records"


def _where(partitions: int, name: str | None) -> str:
    """Return a partition by its name, or the number of several."""
    return f"in {count_text(partitions, 'partition')}" if name is None else f"of {printable(name)}"
