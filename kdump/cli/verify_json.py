"""The JSON Lines of ``verify``: a header, a line a finding, a summary.

Spec: none of Kafka's. Scripts rely on it: fields may come, none may change or go.
It must never let a record's key or value through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from kdump.audit.codes import Severity
from kdump.audit.findings import Finding
from kdump.audit.verify import Judged, Root
from kdump.cli import jsonl
from kdump.cli.verify_summary import Summary
from kdump.storage.liveness import Liveness


class JsonReport:
    """Emits the lines one by one: the header at once, findings as they come."""

    def __init__(self, emit: Callable[[str], None], roots: Sequence[Root], *, deep: bool) -> None:
        self._emit = emit
        emit(header_line(roots, deep=deep))

    def add(self, judged: Judged) -> None:
        """Emit the findings of one partition."""
        for finding in judged.findings:
            self._emit(finding_line(finding))

    def finish(self, summary: Summary) -> None:
        """Emit the last line."""
        self._emit(summary_line(summary))


def header_line(roots: Sequence[Root], *, deep: bool) -> str:
    """Return the first line: what is going to be verified, and whether brokers use it.

    ``liveness`` has a place for each of ``paths``, null for one that is not there.
    """
    fields = jsonl.header("verify", [root.path for root in roots])
    liveness = [root.liveness and _liveness(root.liveness) for root in roots]
    return jsonl.line("header", {**fields, "deep": deep, "liveness": liveness})


def finding_line(finding: Finding) -> str:
    """Return the line of one finding; what does not apply to it is null."""
    return jsonl.line(
        "finding",
        {
            "code": finding.code.name,
            "severity": finding.code.severity.value,
            **jsonl.path_field(finding.path),
            "position": finding.position,
            "size": finding.size,
            "offsets": finding.offsets and asdict(finding.offsets),
            "detail": finding.detail and asdict(finding.detail),
            "remedy": finding.remedy,
            "repeats": finding.repeats,
        },
    )


def summary_line(summary: Summary) -> str:
    """Return the last line: the exit code, what was covered, how many findings there were."""
    run, covered = summary.run, summary.covered
    return jsonl.line(
        "summary",
        {
            "exit": summary.exit_code,
            "deep": run.deep,
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
        },
    )


def _liveness(liveness: Liveness) -> dict[str, object]:
    return {
        "state": liveness.state.value,
        "reason": liveness.reason,
        "pid": liveness.pid,
        "uninspected": [process.pid for process in liveness.uninspected],
    }
