"""The reports of ``next-start``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kdump.audit import codes
from kdump.audit.codes import Severity
from kdump.audit.facts.cluster import Configs
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast
from kdump.audit.startup.outcome import Cause, Outcome
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import Losses, losses_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.cli.ui import jsonl
from kdump.cli.ui.exits import INCOMPLETE, OK, PROBLEMS
from kdump.cli.ui.paragraphs import labelled, wrapped
from kdump.cli.ui.units import count_text
from kdump.cli.views.forecast_json import (
    directory_fields,
    forecast_line,
    losses_fields,
    reason_fields,
)
from kdump.cli.views.forecast_text import (
    bases_text,
    directory_sentences,
    effect_text,
    harm_text,
    harmless_cuts,
    stopping_text,
)
from kdump.cli.views.verdict_text import verdict_lines
from kdump.cli.views.verify.json_lines import finding_line
from kdump.cli.views.verify.text import finding_lines
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.storage.logdir import LogDirectory


class _Report:
    """What both reports count: forecasts, and what could not be read or is not forecast.

    ``pending`` are repairs that were interrupted: what is forecast is the start on what is there.
    ``missing`` are log directories that the configuration names.
    """

    def __init__(
        self, emit: Callable[[str], None], roots: Sequence[Root], config: Configs | None
    ) -> None:
        self.emit = emit
        self.starts = Starts(roots, config)
        self.known: list[tuple[Verdict, Forecast]] = []
        self.incomplete: list[Finding] = []
        self.pending: list[Finding] = []
        self.missing: list[Finding] = []
        self.left_out: list[Path] = []
        self._directories = {root.path for root in roots if isinstance(root.content, LogDirectory)}
        places = (root.directory.directory.path if root.directory else root.path for root in roots)
        self._around = dict.fromkeys(path for path in places if path not in self._directories)

    def directories(self, findings: Iterable[Finding]) -> None:
        """Take in what was found at the top of log directories."""
        found = tuple(findings)
        self.starts.add_findings(found)
        self._keep_incomplete(found)

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Take in one partition; None for what is not forecast."""
        self.starts.add(verdict, forecast)
        unread = self._keep_incomplete(verdict.findings)
        self.pending += (one for one in verdict.findings if one.code is codes.REPAIR_PENDING)
        if forecast is not None:
            self.known.append((verdict, forecast))
        elif verdict.target.error is not None:
            self.missing += () if unread else verdict.findings
        else:
            self.left_out.append(verdict.target.path)

    @property
    def around(self) -> list[Cause]:
        """What stands in the way in the log directories around what was asked for."""
        return [cause for path in self._around for cause in self.starts.causes(path)]

    @property
    def losses(self) -> Losses:
        """What was seen to be lost, and what the start costs further."""
        return losses_of(self.known, self.starts.top_causes)

    @property
    def exit_code(self) -> int:
        """As the command's help says."""
        if self.incomplete:
            return INCOMPLETE
        if self.losses.now:
            return PROBLEMS
        stops = [one for _, one in self.starts.directories() if one.outcome is not Outcome.STARTS]
        harmed = any(
            one.causes
            or one.lost.sound.count
            or (one.set_aside is not None and one.set_aside.severity is Severity.ERROR)
            for _, one in self.known
        )
        return PROBLEMS if stops or self.around or self.missing or harmed else OK

    def _keep_incomplete(self, findings: Iterable[Finding]) -> bool:
        """Keep what says that something could not be read; says whether anything does."""
        unread = [one for one in findings if one.code.severity is Severity.INCOMPLETE]
        self.incomplete += unread
        return bool(unread)


class TextStarts(_Report):
    """For people: the partitions that are harmed, worst first, then the sums."""

    def finish(self) -> int:
        """Emit everything; returns the exit code."""
        severity = {OK: None, INCOMPLETE: Severity.INCOMPLETE}.get(self.exit_code, Severity.ERROR)
        if self.known:
            self._emit_all(verdict_lines(self.losses, severity))
        for finding in (*self.incomplete, *self.missing, *self.pending):
            self._emit_all(finding_lines(finding))
            if finding.code is codes.REPAIR_PENDING and finding.remedy is not None:
                self.emit(f"       do: {shell_text(finding.remedy)}")
        for cause in self.around:
            self._emit_all(wrapped(stopping_text(cause), 0))
        told = [pair for pair in self.known if not self._directories or _is_listed(pair[1])]
        if self._directories:
            told.sort(key=lambda pair: (pair[1].outcome is Outcome.STARTS, -_lost(pair[1])))
        for verdict, one in told:
            self._emit_all(wrapped(f"{printable(verdict.target.path.name)}: {effect_text(one)}", 0))
        for path, start in self.starts.directories():
            self._emit_all(wrapped(printable(str(path)), 0))
            self.emit(labelled("next start", "; ".join(directory_sentences(start))))
        others = [pair for pair in self.known if pair[1].recovered and not _is_listed(pair[1])]
        if self._directories and others:
            self.emit(labelled("recovered", "; ".join(_recovered(others, also=bool(told)))))
        for path in self.left_out:
            self.emit(labelled("not checked", f"{printable(str(path))}: a segment alone"))
        if self._directories:
            self.emit(labelled("checked", self._coverage()))
        return self.exit_code

    def _coverage(self) -> str:
        text = count_text(self.starts.checked, "partition")
        vague = sum(not one.exact for _, one in self.known)
        if vague:
            text += f", {vague:,} of them by their ends alone (more with --scan)"
        return text

    def _emit_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.emit(line)


class JsonStarts(_Report):
    """For scripts: a header, a line a partition, a summary."""

    def __init__(
        self, emit: Callable[[str], None], roots: Sequence[Root], config: Configs | None
    ) -> None:
        super().__init__(emit, roots, config)
        emit(jsonl.line("header", jsonl.header("next-start", [root.path for root in roots])))

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Emit the line of one partition; None for what is not forecast."""
        super().add(verdict, forecast)
        if forecast is not None:
            self.emit(forecast_line(verdict.target.path, forecast, verdict.lost.records))

    def finish(self) -> int:
        """Emit what could not be read or is half done, and the last line; returns the exit code."""
        for finding in (*self.incomplete, *self.missing, *self.pending):
            self.emit(finding_line(finding))
        starts = [
            {**jsonl.path_field(path), **directory_fields(start)}
            for path, start in self.starts.directories()
        ]
        summary = {
            "exit": self.exit_code,
            "losses": losses_fields(self.losses),
            "reasons": [reason_fields(cause) for cause in self.around],
            "not_judged": [jsonl.path_value(path) for path in self.left_out],
            "next_starts": starts,
        }
        self.emit(jsonl.line("summary", summary))
        return self.exit_code


def _is_listed(one: Forecast) -> bool:
    """Whether a start does more with a partition than to recover segments."""
    return harm_text(one) is not None or any(harmless_cuts(one))


def _recovered(known: Sequence[tuple[Verdict, Forecast]], *, also: bool) -> Iterator[str]:
    """Which segments are recovered; ``also``: other partitions have been listed."""
    last = [one for _, one in known if set(one.recovered) <= set(one.segments[-1:])]
    if last:
        which = count_text(len(last), "other partition" if also else "partition")
        yield f"the last segment of {which}"
    for verdict, one in known:
        if one not in last:
            yield f"{printable(verdict.target.path.name)}: {bases_text(one.recovered)}"


def _lost(one: Forecast) -> int:
    return one.lost.sound.count + one.lost.unreadable.count
