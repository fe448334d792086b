"""Rows of the table of findings.

A row has the fields of a line of ``kdump verify --format json``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kdump.audit.findings import Finding
from kdump.format.lines.shell import shell_text
from kdump.storage.names import DirectoryName
from kdump.tables.logs import utf8
from kdump.tables.schema import FINDINGS


def finding_rows(findings: Iterable[Finding], partition: DirectoryName | None) -> pa.RecordBatch:
    """Return a row for each finding; ``partition`` is None for findings about directories."""
    rows = [finding_row(finding, partition) for finding in findings]
    return pa.RecordBatch.from_pylist(rows, schema=FINDINGS)


def finding_row(finding: Finding, partition: DirectoryName | None) -> dict[str, object]:
    """Return the columns of one row."""
    offsets, detail = finding.offsets, finding.detail
    return {
        "code": finding.code.name,
        "severity": finding.code.severity.value,
        "path": utf8(str(finding.path)),
        "position": finding.position,
        "size": finding.size,
        "first_offset": offsets and offsets.first,
        "last_offset": offsets and offsets.last,
        "expected": detail and utf8(detail.expected),
        "found": detail and utf8(detail.found),
        "remedy": finding.remedy and utf8(shell_text(finding.remedy)),
        "repeats": finding.repeats,
        "topic": partition and utf8(partition.topic),
        "partition": partition and partition.partition,
    }
