"""Finding: one problem or oddity, with its file, position, offsets and remedy.

Spec: the invariants of KOD 9; the codes stand beside the checks.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from kdump.audit.finding_code import FindingCode, Severity
from kdump.storage.paths import AnyPath
from kdump.values import frozen

#: The text of a finding that is milder because a broker runs or may be running.
AS_LIVE: Final = "as while a broker is running"

_READABLE: Final = "something that can be read"
_ERROR: Final = "an error: "
_UNREADABLE: Final = "cannot be read: "


@frozen
class Detail:
    """Two phrases, which follow the words "expected" and "found"."""

    expected: str
    found: str

    def __str__(self) -> str:
        if self.expected == _READABLE:
            reason = self.found.removeprefix(_ERROR)  # some have these words, behind the path
            return reason if _UNREADABLE in reason else f"{_UNREADABLE}{reason}"
        return f"expected {self.expected}, found {self.found}"

    def as_live(self) -> Detail:
        """Return the detail of a finding that is milder because a broker may be running."""
        return Detail(self.expected, f"{self.found}, {AS_LIVE}")


def unreadable(text: str) -> Detail:
    """Return the detail of a file that could not be read for the reason ``text``."""
    return Detail(_READABLE, f"{_ERROR}{text}")


@frozen
class Offsets:
    """The offsets from ``first`` to ``last``, both inclusive; ``last`` is None if unknown."""

    first: int
    last: int | None

    def __str__(self) -> str:
        return f"{self.first}..{'' if self.last is None else self.last}"


@frozen
class Finding:
    """One problem or oddity in one file.

    ``position`` and ``size`` are in bytes of that file, None if the finding is about the whole
    file. ``offsets`` are the affected offsets. ``remedy`` is a command as an argv. ``repeats``
    counts further findings of the same code in the same file, which are not listed.
    """

    code: FindingCode
    path: AnyPath
    position: int | None = None
    size: int | None = None
    offsets: Offsets | None = None
    detail: Detail | None = None
    remedy: tuple[str, ...] | None = None
    repeats: int = 0

    def is_below(self, path: AnyPath) -> bool:
        """Return whether the finding is about ``path``, or about something below it."""
        return path == self.path or path in self.path.parents


def finding_fields(finding: Finding) -> dict[str, object]:
    """Return all of a finding but its code and its path as plain values, for JSON."""
    return {
        "position": finding.position,
        "size": finding.size,
        "offsets": finding.offsets and asdict(finding.offsets),
        "detail": finding.detail and asdict(finding.detail),
        "remedy": finding.remedy,
        "repeats": finding.repeats,
    }


def explain_command(code: FindingCode) -> tuple[str, ...] | None:
    """Return the remedy of a code that no command heals: ``explain``; None for severity info."""
    return None if code.severity is Severity.INFO else ("kdump", "explain", code.name)


def file_finding(
    code: FindingCode,
    path: AnyPath,
    expected: str,
    found: str,
    *,
    offsets: Offsets | None = None,
    size: int | None = None,
    repeats: int = 0,
) -> Finding:
    """Return a finding about a whole file or directory; ``size`` is in bytes.

    Its remedy is ``explain``.
    """
    detail = Detail(expected, found)
    return Finding(
        code,
        path,
        size=size,
        offsets=offsets,
        detail=detail,
        remedy=explain_command(code),
        repeats=repeats,
    )
