"""The JSON Lines of ``verify``.

A forecast has the cures of its partition, and the plan is that of the text.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from kdump.audit.finding_code import Severity
from kdump.audit.findings import Finding, finding_fields
from kdump.audit.targets.target import Root
from kdump.audit.verdicts.directory_start import Starts
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.liveness import Liveness
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl
from kdump.ui.verdicts.forecast_json import directory_fields, forecast_line, losses_fields
from kdump.ui.verdicts.plan import Step, directory_plans, findings_of_roots
from kdump.ui.verdicts.summary import LeftOut, Summary


class JsonReport:
    """Emits the header at once, and each finding once, as soon as it is known.

    ``counts`` and ``verdicts`` are as for ``TextReport``.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        roots: Sequence[Root],
        counts: Sequence[int],
        verdicts: Sequence[Verdict],
        starts: Starts,
        *,
        depth: str,
        command: str = "verify",
    ) -> None:
        self._emit = emit
        self._emitted: set[tuple[str, AnyPath, int | None]] = set()
        self._roots, self._counts, self._verdicts = roots, counts, verdicts
        self._top: list[Finding] = []
        self._starts = starts
        emit(header_line(roots, depth=depth, command=command))

    def directories(self, findings: Iterable[Finding]) -> None:
        """Emit the findings at the top of log directories."""
        findings = tuple(findings)
        self._starts.add_findings(findings)
        self._top += findings
        for finding in findings:
            self._emit_once(finding)

    def preview(self, verdict: Verdict) -> None:
        """Emit the findings of the quick pass in one partition."""
        for finding in verdict.findings:
            self._emit_once(finding)

    def add(self, verdict: Verdict) -> None:
        """Emit the further findings in one partition, and its forecast."""
        forecast = verdict.forecast
        for finding in verdict.findings:
            self._emit_once(finding)
        self._starts.add(verdict, forecast)
        if forecast is not None:
            self._emit(forecast_line(verdict, forecast, verdict.stable))

    def finish(self, summary: Summary) -> None:
        """Emit the plans of log directories, then the last line."""
        tops = findings_of_roots(self._roots, self._top)
        for root, steps in directory_plans(self._roots, self._counts, tops, self._verdicts):
            for step in steps:
                self._emit(_step_line(root, step))
        starts = [
            {**jsonl.path_field(path), **directory_fields(start)}
            for path, start in self._starts.directories()
        ]
        self._emit(summary_line(summary, starts))

    def _emit_once(self, finding: Finding) -> None:
        key = finding.code.name, finding.path, finding.position
        if key not in self._emitted:
            self._emitted.add(key)
            self._emit(finding_line(finding))


def header_line(roots: Sequence[Root], *, depth: str, command: str = "verify") -> str:
    """Return the first line: the paths, and whether brokers use them.

    ``liveness`` has an entry for each path, null for a path that does not exist.
    """
    fields = jsonl.header(command, [root.path for root in roots])
    liveness = [root.liveness and _liveness(root.liveness) for root in roots]
    return jsonl.line(
        "header", {**fields, "depth": depth, "deep": depth == "deep", "liveness": liveness}
    )


def finding_line(finding: Finding) -> str:
    """Return the line of one finding; fields that do not apply to it are null."""
    return jsonl.line(
        "finding",
        {
            "code": finding.code.name,
            "severity": finding.code.severity.value,
            **jsonl.path_field(finding.path),
            **finding_fields(finding),
        },
    )


def _step_line(root: Root, step: Step) -> str:
    return jsonl.line(
        "step",
        {
            **jsonl.path_field(root.path),
            "text": step.text,
            "fact": step.fact,
            "partitions": step.partitions,
            "commands": step.commands,
        },
    )


def summary_line(summary: Summary, next_starts: Sequence[dict[str, object]] = ()) -> str:
    """Return the last line: the exit code, the coverage, and the counts of findings.

    ``next_starts`` has the fields of the forecast of each log directory.
    """
    run, covered = summary.run, summary.covered
    return jsonl.line(
        "summary",
        {
            "exit": summary.exit_code,
            "depth": run.depth,
            "deep": run.depth == "deep",
            "partitions": covered.partitions,
            "partitions_total": run.total,
            "segments": covered.segments,
            "bytes": covered.read_bytes,
            "bytes_total": run.total_bytes,
            "batches": covered.batches,
            "control_batches": covered.control_batches,
            "records": covered.records,
            "uncounted_wrappers": covered.wrappers,
            "severities": {severity.value: summary.severities[severity] for severity in Severity},
            "codes": dict(sorted(summary.codes.items())),
            "seconds": round(run.seconds, 3),
            "jobs": run.jobs,
            "verdict": "sound" if summary.verdict is None else summary.verdict.value,
            "state": summary.state.value,
            "losses": losses_fields(summary.losses),
            "next_starts": next_starts,
            "limit_rate": run.limit_rate or None,
            **_left_out(run.left_out),
            **({"remembered": asdict(covered.remembered)} if run.remembers else {}),
        },
    )


def _left_out(left_out: LeftOut | None) -> dict[str, object]:
    return {} if left_out is None else {"left_out": asdict(left_out)}


def _liveness(liveness: Liveness) -> dict[str, object]:
    return {
        "state": liveness.state.value,
        "reason": liveness.reason,
        "pid": liveness.pid,
        "uninspected": [process.pid for process in liveness.uninspected],
    }
