"""The entries of a list in text: findings, and partitions with the worst of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kdump.audit.finding_code import Outcome, Severity
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast, worst_outcome
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.storage.paths import AnyPath
from kdump.ui.folding import FoldedEntry, fold, likeness
from kdump.ui.paragraphs import wrap
from kdump.ui.units import count_text
from kdump.ui.verdicts.forecast_text import harm_text
from kdump.ui.verdicts.verdict_text import severity_text


def findings_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings, with the names of their files; equal ones are counted after the third."""
    return fold(map(finding_entry, findings))


def finding_entry(finding: Finding) -> FoldedEntry:
    """Return a finding, with the name of its file."""
    label, text = severity_text(finding.code.severity), sentence(finding)
    lines = f"{label} {finding.code.name}", *wrap(text, 7)
    return FoldedEntry(lines, likeness(f"{lines[0]} {text}", *_names(finding.path)))


def _names(path: AnyPath) -> tuple[str, ...]:
    """Return the path as text, its name, and the name of its directory, the longest first."""
    return printable(str(path)), printable(path.name), printable(path.parent.name)


def partition_entries(
    verdict: Verdict, findings: Sequence[Finding], width: int
) -> Iterator[FoldedEntry]:
    """Yield the entry of a partition, and before it one for what stops a start and is no finding.

    ``findings`` are those to list, the worst first; ``width`` is that of the column of names.
    """
    path, forecast = verdict.target.path, verdict.forecast
    name = printable(verdict.target.name)
    harm = None if forecast is None else harm_text(forecast)
    untouched = forecast is not None and forecast.exact and harm is None
    if harm is not None and forecast is not None and not _is_named(forecast, findings):
        serious, effect = Severity.ERROR if forecast.is_error else Severity.WARNING, _name(forecast)
        label = f"{severity_text(serious)} {name:{width}} {effect}"
        files = [name for cause in forecast.causes for name in _names(cause.path)]
        yield FoldedEntry(
            (label, *wrap(f"startup: {harm}", 7)),
            likeness(f"{effect} {harm}", *files, *_names(path)[:2]),
        )
        harm = None
    if not findings:
        return
    worst, text = findings[0], sentence(findings[0])
    texts = [text]
    lines = [f"{severity_text(worst.code.severity)} {name:{width}} {worst.code.name}"]
    lines += (*wrap(text, 7), *command_lines(worst, 7))
    if findings[1:]:
        texts.append(f"also: {', '.join(_others(findings[1:]))}")
        lines += wrap(texts[-1], 7)
    if untouched and verdict.lost.records:
        harm = "leaves the log as it is"
    if harm is not None:
        texts.append(f"startup: {harm}")
        lines += wrap(texts[-1], 7)
    alike = likeness(" ".join(texts), *_names(worst.path), *_names(path)[:2])
    yield FoldedEntry(tuple(lines), f"{worst.code.name} {alike}")


def _others(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield each code of further findings, with their number or the offsets of the only one."""
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code.name, []).append(finding)
    for name, same in by_code.items():
        only = same[0]
        number = len(same) + sum(finding.repeats for finding in same)
        if number > 1:
            yield f"{name} ({number:,})"
        elif only.position is not None and only.offsets is not None:
            yield f"{name} in {printable(only.path.name)}, offsets {only.offsets}"
        elif only.offsets is not None and only.code.severity is Severity.INFO:
            yield f"{name} (offsets {only.offsets})"  # no other line of the report has them
        else:
            yield name


def _is_named(forecast: Forecast, findings: Sequence[Finding]) -> bool:
    """Return whether ``findings`` have an entry for what a start does."""
    if not forecast.causes:
        return bool(findings)
    files = {cause.path for cause in forecast.causes}
    return any(
        finding.code.stops is not None
        or (finding.code.severity is Severity.ERROR and finding.path in files)
        for finding in findings
    )


def _name(forecast: Forecast) -> str:
    """Return what a start does, where a finding has the name of its code."""
    if forecast.causes:
        offline = worst_outcome(forecast.causes) is Outcome.OFFLINE
        return "takes its log directory offline" if offline else "stops the broker"
    return "loses records at startup" if forecast.lost.sound else "changes at startup"


def command_lines(finding: Finding, indent: int) -> Iterator[str]:
    """Yield the remedy, if it is not a kdump command: those are listed at the end."""
    if finding.remedy is not None and finding.remedy[0] != "kdump":
        yield f"{'':{indent}}do: {shell_text(finding.remedy)}"


def sentence(finding: Finding, *, named: bool = True) -> str:
    """Return the position and the text of a finding; ``named`` adds the name of its file."""
    position_parts = [printable(finding.path.name)] if named else []
    if finding.position is not None:
        position_parts.append(f"at position {finding.position}")
    parts = [" ".join(position_parts)] if position_parts else []
    if finding.size is not None:
        parts.append(count_text(finding.size, "byte"))
    if finding.offsets is not None:
        parts.append(f"offsets {finding.offsets}")
    text = ", ".join(parts)
    if finding.detail is not None:
        text += f": {printable(str(finding.detail))}" if text else printable(str(finding.detail))
    if finding.repeats:
        text += f"; {finding.repeats:,} more of these in this file"
    return text
