"""The reports of ``next-start``: as text for people, and as JSON Lines.

Spec: none of Kafka's. It must never let a name or path through that is not printable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kdump.audit.codes import Severity
from kdump.audit.forecast import DirectoryForecast, Forecast, forecast_directory
from kdump.audit.judge import Judged
from kdump.audit.outcomes import Outcome
from kdump.cli import jsonl
from kdump.cli.exits import INCOMPLETE, OK, PROBLEMS
from kdump.cli.forecast_json import directory_fields, forecast_line
from kdump.cli.forecast_text import directory_sentences, effect_text, harm_text
from kdump.cli.paragraphs import labelled, wrapped
from kdump.cli.targets import Targets
from kdump.cli.units import count_text
from kdump.format.text import printable
from kdump.storage.logdir import LogDirectory


class _Starts:
    """What both reports count: the forecasts by log directory, and what could not be read."""

    def __init__(self, emit: Callable[[str], None], targets: Targets) -> None:
        self.emit = emit
        self.directories = {
            root.directory.directory.path: root.directory
            for root in targets.roots
            if isinstance(root.target, LogDirectory) and root.directory is not None
        }
        self.known: list[tuple[Judged, Forecast]] = []
        self.unread = False

    def add(self, judged: Judged, forecast: Forecast | None) -> None:
        """Take in one partition; None for what no broker loads."""
        self.unread |= any(
            finding.code.severity is Severity.INCOMPLETE for finding in judged.findings
        )
        if forecast is not None:
            self.known.append((judged, forecast))

    def starts(self) -> Iterable[tuple[Path, DirectoryForecast]]:
        """The forecast of each log directory."""
        for path, facts in self.directories.items():
            within = [one for judged, one in self.known if judged.group.path.parent == path]
            yield path, forecast_directory(facts, within)

    @property
    def exit_code(self) -> int:
        """As the command's help says."""
        if self.unread:
            return INCOMPLETE
        outcomes = [one.outcome for _, one in self.known]
        outcomes += [one.outcome for _, one in self.starts()]
        lost = any(one.lost.sound.count for _, one in self.known)
        return PROBLEMS if lost or set(outcomes) != {Outcome.STARTS} & set(outcomes) else OK


class TextStarts(_Starts):
    """For people: the partitions that are harmed, worst first, then the sums."""

    def finish(self) -> int:
        """Emit everything; returns the exit code."""
        if not self.directories:
            for judged, one in self.known:
                self._emit_all(wrapped(f"{_name(judged)}: {effect_text(one)}", 0))
            return self.exit_code
        harmed = [(judged, one) for judged, one in self.known if harm_text(one)]
        harmed.sort(key=lambda pair: (pair[1].outcome is Outcome.STARTS, -_lost(pair[1])))
        for judged, one in harmed:
            self._emit_all(wrapped(f"{_name(judged)}: {effect_text(one)}", 0))
        for path, start in self.starts():
            self._emit_all(wrapped(printable(str(path)), 0))
            self.emit(labelled("next start", "; ".join(directory_sentences(start))))
        exact = sum(one.exact for _, one in self.known)
        text = count_text(len(self.known), "partition")
        if exact < len(self.known):
            some = "" if exact == 0 else f"{len(self.known) - exact:,} of them "
            text += f", {some}as far as their ends tell (more with --scan)"
        self.emit(labelled("looked at", text))
        return self.exit_code

    def _emit_all(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.emit(line)


class JsonStarts(_Starts):
    """For scripts: a header, a line a partition, a summary."""

    def __init__(self, emit: Callable[[str], None], targets: Targets) -> None:
        super().__init__(emit, targets)
        header = jsonl.header("next-start", [root.path for root in targets.roots])
        emit(jsonl.line("header", header))

    def add(self, judged: Judged, forecast: Forecast | None) -> None:
        """Emit the line of one partition; None for what no broker loads."""
        super().add(judged, forecast)
        if forecast is not None and judged.facts is not None:
            self.emit(forecast_line(judged.facts.partition, forecast))

    def finish(self) -> int:
        """Emit the last line; returns the exit code."""
        starts = [
            {**jsonl.path_field(path), **directory_fields(start)} for path, start in self.starts()
        ]
        self.emit(jsonl.line("summary", {"exit": self.exit_code, "next_starts": starts}))
        return self.exit_code


def _name(judged: Judged) -> str:
    return printable(judged.group.path.name)


def _lost(one: Forecast) -> int:
    return one.lost.sound.count + one.lost.unreadable.count
