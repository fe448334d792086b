"""Finding: one problem or oddity, with its file, position, offsets and remedy.

Spec: the invariants of KOD 9; the codes are in ``kdump.audit.codes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kdump.audit.codes import FindingCode, Severity

#: What a finding says that is milder because a broker runs, or may run for all that is known.
AS_LIVE: Final = "as beside a running broker"

_READABLE: Final = "something that can be read"
_ERROR: Final = "an error: "


@dataclass(frozen=True, slots=True)
class Detail:
    """What was expected and what was found: two phrases that follow these very words."""

    expected: str
    found: str

    def __str__(self) -> str:
        if self.expected == _READABLE:
            return f"cannot be read: {self.found.removeprefix(_ERROR)}"
        return f"expected {self.expected}, found {self.found}"

    def as_live(self) -> Detail:
        """The same of a finding that is milder because a broker may be running."""
        return Detail(self.expected, f"{self.found}, {AS_LIVE}")


def unreadable(text: str) -> Detail:
    """The detail of a file that could not be read, for the reason ``text``."""
    return Detail(_READABLE, f"{_ERROR}{text}")


@dataclass(frozen=True, slots=True)
class Offsets:
    """The offsets from ``first`` to ``last``, both inclusive; ``last`` None where nobody knows."""

    first: int
    last: int | None

    def __str__(self) -> str:
        return f"{self.first}..{'' if self.last is None else self.last}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found in one file.

    ``position`` and ``size`` are bytes in that file, None where it is about the whole file.
    ``offsets`` are those that are touched. ``remedy`` is a command as an argv. ``repeats`` counts
    more of the same code in the same file, which are not listed.
    """

    code: FindingCode
    path: Path
    position: int | None = None
    size: int | None = None
    offsets: Offsets | None = None
    detail: Detail | None = None
    remedy: tuple[str, ...] | None = None
    repeats: int = 0


def explaining(code: FindingCode) -> tuple[str, ...] | None:
    """The remedy where no command heals: have the code explained; None for what needs none."""
    return None if code.severity is Severity.INFO else ("kdump", "explain", code.name)


def file_finding(
    code: FindingCode,
    path: Path,
    expected: str,
    found: str,
    *,
    offsets: Offsets | None = None,
    size: int | None = None,
    repeats: int = 0,
) -> Finding:
    """A finding about a whole file or directory, to be explained; ``size`` is its bytes."""
    detail = Detail(expected, found)
    return Finding(
        code,
        path,
        size=size,
        offsets=offsets,
        detail=detail,
        remedy=explaining(code),
        repeats=repeats,
    )
