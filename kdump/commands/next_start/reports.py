"""The reports of ``next-start``, and its exit code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from kdump.audit.checks.repair_records import REPAIR_PENDING
from kdump.audit.commands import space_command
from kdump.audit.facts.cluster import Configs
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding
from kdump.audit.startup.forecast import Forecast
from kdump.audit.startup.outcome import Cause, Outcome, RecoveryReason
from kdump.audit.startup.room import DISK_LOW, SPACE_CODES
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.losses import Losses, losses_of
from kdump.audit.verdicts.state import RunState, state_of
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import shell_text
from kdump.format.lines.text import printable
from kdump.storage.logdir import LogDirectory
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.exits import Ending
from kdump.ui.folding import FoldedEntry, fold, fold_texts, likeness
from kdump.ui.paragraphs import command_line, paragraph, wrap
from kdump.ui.units import count_text
from kdump.ui.verdicts.entries import findings_lines
from kdump.ui.verdicts.first_line import ENDS, check_command, empty_text, nothing_text
from kdump.ui.verdicts.forecast_json import (
    directory_fields,
    forecast_line,
    losses_fields,
    reason_fields,
)
from kdump.ui.verdicts.forecast_text import (
    RECOVERY,
    bases_text,
    causes_texts,
    directory_sentences,
    effect_text,
    harm_text,
    harmless_cuts,
    recovered_by_reason,
    space_text,
)
from kdump.ui.verdicts.json_lines import finding_line
from kdump.ui.verdicts.verdict_text import verdict_lines


class _Report:
    """The base of both reports: forecasts, and what could not be read or has no forecast.

    ``pending`` are findings of interrupted repairs; the forecast is for the files as they are now.
    ``harmful`` are findings of harm that no number of records shows, and of log directories that
    the configuration names and that are missing. ``options`` are those that a command for the rest
    repeats.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        roots: Sequence[Root],
        config: Configs | None,
        options: Sequence[str] = (),
    ) -> None:
        self.emit = emit
        self.options = options
        self.paths = [root.path for root in roots]
        self.starts = Starts(roots, config)
        self.known: list[tuple[Verdict, Forecast]] = []
        self.incomplete: list[Finding] = []
        self.pending: list[Finding] = []
        self.harmful: list[Finding] = []
        self.left_out: list[AnyPath] = []
        self._directories = {root.path for root in roots if isinstance(root.content, LogDirectory)}
        directories = (
            root.directory.directory.path if root.directory else root.path for root in roots
        )
        self._around = dict.fromkeys(path for path in directories if path not in self._directories)

    def directories(self, findings: Iterable[Finding]) -> None:
        """Add the findings at the top of log directories."""
        top_findings = tuple(findings)
        self.starts.add_findings(top_findings)
        self._add_incomplete(top_findings)
        self.pending += (finding for finding in top_findings if finding.code is REPAIR_PENDING)
        self.harmful += _harmful(top_findings)
        self.harmful += (finding for finding in top_findings if finding.code is DISK_LOW)

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Add one partition; ``forecast`` is None if it has none."""
        self.starts.add(verdict, forecast)
        unread = self._add_incomplete(verdict.findings)
        self.pending += (finding for finding in verdict.findings if finding.code is REPAIR_PENDING)
        if forecast is not None:
            self.known.append((verdict, forecast))
            self.harmful += _harmful(verdict.findings) if forecast.harms else ()
        elif verdict.target.error is not None:
            self.harmful += () if unread else verdict.findings
        else:
            self.left_out.append(verdict.target.path)

    @property
    def around(self) -> list[Cause]:
        """The causes that stop a start in the log directories around the paths."""
        return [cause for path in self._around for cause in self.starts.causes(path)]

    @property
    def losses(self) -> Losses:
        """What is lost now, and what the start loses further, as far as was read."""
        return losses_of(self.known, self.starts.top_findings, stopped=self.starts.stopped)

    @property
    def exit_code(self) -> int:
        """The exit code, as the help of the command describes it."""
        return Ending(unread=bool(self.incomplete), problems=self.has_problems).exit_code

    @property
    def state(self) -> RunState:
        """What is known of the next start. ERROR comes before what is unread."""
        worst = Severity.WARNING if self.harmful or self._has_strays else None
        if self.has_problems:
            worst = Severity.ERROR
        elif self.incomplete:
            worst = Severity.INCOMPLETE
        return state_of(worst, whole=self.losses.starts_exact and self.holds_bytes)

    @property
    def holds_bytes(self) -> bool:
        """Whether the logs hold a byte that a start could recover."""
        return any(verdict.covered.size for verdict, _ in self.known)

    @property
    def has_problems(self) -> bool:
        """Whether records are lost, or the next start fails or does harm."""
        if self.losses.now:
            return True
        stops = [
            forecast
            for _, forecast in self.starts.directories()
            if forecast.outcome is not Outcome.STARTS
        ]
        harmed = any(
            forecast.causes
            or forecast.lost.sound.count
            or (forecast.set_aside is not None and forecast.set_aside.severity is Severity.ERROR)
            for _, forecast in self.known
        )
        errors = any(finding.code.severity is Severity.ERROR for finding in self.harmful)
        return bool(stops or self.around or errors or harmed)

    @property
    def _has_strays(self) -> bool:
        """Whether the start renames a partition with records to ``-stray``."""
        return any(forecast.set_aside is not None for _, forecast in self.known)

    def _add_incomplete(self, findings: Iterable[Finding]) -> bool:
        """Add the findings of what could not be read; return whether there are any."""
        unread = [finding for finding in findings if finding.code.severity is Severity.INCOMPLETE]
        self.incomplete += unread
        return bool(unread)


class TextStarts(_Report):
    """The text report: the partitions that a start harms, worst first, then the sums."""

    def finish(self) -> int:
        """Emit the report, and return the exit code."""
        if not self.starts.checked and self._directories and not self.harmful:
            state = RunState.ERROR if self.has_problems else RunState.NOT_CHECKED
            self._emit_all(verdict_lines(state, empty_text(0), self.losses, None))
        elif self.known or self.harmful:
            check = None
            if self.holds_bytes:
                check = check_command(["next-start", "--scan", *self.options], self.paths)
            self._emit_all(verdict_lines(self.state, self._about(), self.losses, check))
        self._emit_all(findings_lines((*self.incomplete, *self.harmful)))
        for finding in self.pending:
            self._emit_all(findings_lines([finding]))
            if finding.remedy is not None:
                self.emit(f"       do: {shell_text(finding.remedy)}")
        for text in causes_texts(self.around):
            self._emit_all(wrap(text, 0))
        listed = [pair for pair in self.known if not self._directories or _is_listed(pair[1])]
        if self._directories:
            listed.sort(key=lambda pair: (pair[1].outcome is Outcome.STARTS, -_lost_count(pair[1])))
        self._emit_all(fold(_entry(*pair) for pair in listed))
        short = {each.path for each in self.starts.top_findings if each.code in SPACE_CODES}
        for path, start in self.starts.directories():
            self._emit_all(wrap(printable(str(path)), 0))
            self.emit(paragraph("startup", "; ".join(directory_sentences(start))))
            if start.space is not None:
                self.emit(paragraph("disk", space_text(start.space)))
            if path in short:
                self.emit(command_line(space_command(path)))
        others = [pair for pair in self.known if pair[1].recovered and not _is_listed(pair[1])]
        if self._directories and others:
            for number, text in enumerate(_recovered_texts(others, after_others=bool(listed))):
                self.emit(paragraph("" if number else "recovers", text))
        for path in self.left_out:
            self.emit(paragraph("not checked", f"{printable(str(path))}: a segment alone"))
        if self._directories:
            self.emit(paragraph("checked", self._coverage()))
        return self.exit_code

    def _about(self) -> str:
        """Return what was read, and how it was found."""
        what = count_text(self.losses.starts, "partition")
        match self.state:
            case RunState.NOT_CHECKED if not self.holds_bytes:
                return empty_text(self.losses.starts)
            case RunState.NOT_CHECKED:
                found = self.harmful or self._has_strays
                nothing = nothing_text(Severity.WARNING if found else None)
                return f"{what}: {nothing} in what was read ({ENDS})"
            case RunState.OK if not self.losses.read_bytes:
                return f"{what}, shut down cleanly; the contents of logs were not read"
            case RunState.OK:
                return f"{what}; only what recovery reads was read"
        return what

    def _coverage(self) -> str:
        text = count_text(self.starts.checked, "partition")
        vague = sum(not forecast.exact for _, forecast in self.known)
        if vague:
            text += f", {vague:,} of them by their ends alone (more with --scan)"
        return text

    def _emit_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.emit(line)


class JsonStarts(_Report):
    """The JSON report: a header, a line for each partition, a summary."""

    def __init__(
        self, emit: Callable[[str], None], roots: Sequence[Root], config: Configs | None
    ) -> None:
        super().__init__(emit, roots, config)
        emit(jsonl.line("header", jsonl.header("next-start", [root.path for root in roots])))

    def add(self, verdict: Verdict, forecast: Forecast | None) -> None:
        """Emit the line of one partition; ``forecast`` is None if it has none."""
        super().add(verdict, forecast)
        if forecast is not None:
            self.emit(forecast_line(verdict, forecast))

    def finish(self) -> int:
        """Emit findings of unread files, harm and interrupted repairs, then the summary.

        Return the exit code.
        """
        for finding in (*self.incomplete, *self.harmful, *self.pending):
            self.emit(finding_line(finding))
        starts = [
            {**jsonl.path_field(path), **directory_fields(start)}
            for path, start in self.starts.directories()
        ]
        summary: dict[str, object] = {
            "exit": self.exit_code,
            "state": self.state.value,
            "losses": losses_fields(self.losses),
            "reasons": [reason_fields(cause) for cause in self.around],
            "not_judged": [jsonl.path_value(path) for path in self.left_out],
            "next_starts": starts,
        }
        self.emit(jsonl.line("summary", summary))
        return self.exit_code


def _harmful(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings of harm that no number of records shows."""
    return [finding for finding in findings if finding.code.harm is not None]


def _is_listed(forecast: Forecast) -> bool:
    """Return whether a start does more with a partition than to recover segments."""
    return harm_text(forecast) is not None or any(harmless_cuts(forecast))


def _recovered_texts(
    known: Sequence[tuple[Verdict, Forecast]], *, after_others: bool
) -> Iterator[str]:
    """Yield each reason for which segments are recovered, with these segments.

    ``after_others``: the report lists other partitions before them.
    """
    last = Counter[RecoveryReason]()
    others: dict[RecoveryReason, list[tuple[str, str]]] = {}
    for verdict, forecast in known:
        if forecast.recovered == forecast.segments[-1:]:
            last[forecast.recovery[0]] += 1
            continue
        name = printable(verdict.target.name)
        for reason, bases in recovered_by_reason(forecast).items():
            others.setdefault(reason, []).append((name, bases_text(bases)))
    for reason, text in RECOVERY.items():
        parts = list[str]()
        if last[reason]:
            which = count_text(last[reason], "other partition" if after_others else "partition")
            parts.append(f"the last segment of {which}")
        named = others.get(reason, [])
        parts += fold_texts([f"{name}: {bases}" for name, bases in named], [b for _, b in named])
        if parts:
            yield f"{text}: {'; '.join(parts)}"


def _entry(verdict: Verdict, forecast: Forecast) -> FoldedEntry:
    name = printable(verdict.target.name)
    text = f"{name}: {effect_text(forecast)}"
    return FoldedEntry(
        tuple(wrap(text, 0)), likeness(text, printable(str(verdict.target.path)), name)
    )


def _lost_count(forecast: Forecast) -> int:
    return forecast.lost.sound.count + forecast.lost.unreadable.count
