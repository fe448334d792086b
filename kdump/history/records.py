"""The values of the state: what was read of a segment, and the course of a run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from kdump.audit.codes import CODES
from kdump.audit.finding_code import Severity
from kdump.audit.findings import Detail, Finding, Offsets, finding_fields
from kdump.errors import DecodeError
from kdump.storage.paths import AnyPath
from kdump.storage.source import Identity
from kdump.values import frozen

#: The severities of findings that are kept, and reported until the segment is read again.
_STANDING: Final = (Severity.ERROR, Severity.INCOMPLETE, Severity.WARNING)


class EndReason(Enum):
    """Why a run ended."""

    DONE = "done"  # all that was due was read
    DURATION = "duration"  # what is left takes longer than the run may
    SIGNAL = "signal"


@frozen
class FileState:
    """The state of a log that shows whether it was replaced or written to.

    The device is not part of it: its number changes when disks are found in another order.
    """

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, identity: Identity) -> FileState:
        """Return the state of the file with this identity."""
        return cls(signed(identity.inode), identity.size, signed(identity.mtime_ns))


@frozen
class SegmentReading:
    """What was read of a segment at ``read_ms``, by the release ``version`` of kdump.

    ``digest`` are the 16 bytes of its ``HeaderDigest``, of the form ``digest_form``, as they were
    at ``digest_ms`` and since; ``ctime_ns`` is the time at which the file's inode had changed.
    ``earlier`` is the digest before something rewrote the segment, which an undo brings back.
    ``findings`` are those of the segment that are more than notes, as ``encode_findings`` writes
    them. ``max_timestamp`` is the largest timestamp of its batches in ms, -1 without any, None if
    an older release read it.
    """

    read_ms: int
    batches: int
    digest: bytes
    digest_ms: int
    digest_form: int
    ctime_ns: int
    version: str
    earlier: bytes | None = None
    findings: str = ""
    max_timestamp: int | None = None

    @property
    def is_sound(self) -> bool:
        """Whether no finding of the segment is an error, and all of it could be checked."""
        found = {finding.code.severity for finding in decode_findings(self.findings, Path())}
        return found.isdisjoint({Severity.ERROR, Severity.INCOMPLETE})


@frozen
class SegmentRecord:
    """What is known of a segment; ``reading`` is None before it was read for the first time.

    ``seen_ms`` is the time at which it was seen first. ``file`` is its state when it was read, or
    before that when it was seen first; ``sealed``: it was not its partition's last then.
    ``log_bytes`` is its size when it was seen last. ``changed``: it then was no longer what had
    been read, because it was sealed since, or because something wrote to a sealed segment.
    ``tried_ms`` is the time at which a run ended amid its read, None if it was read since.
    """

    base_offset: int
    seen_ms: int
    file: FileState
    sealed: bool
    log_bytes: int
    changed: bool = False
    tried_ms: int | None = None
    reading: SegmentReading | None = None

    @property
    def known_ms(self) -> int:
        """The time at which it was read, or seen first if it was never read."""
        return self.seen_ms if self.reading is None else self.reading.read_ms

    def is_due(self, now_ms: int, max_age_s: int) -> bool:
        """Return whether the segment has to be read: it is new, changed, damaged, or too old."""
        if self.reading is None or self.changed or not self.reading.is_sound:
            return True
        # The clock may have been set back.
        return not 0 <= now_ms - self.reading.read_ms < 1000 * max_age_s


@frozen
class DirectoryRun:
    """What a run did in one log directory, counted by severity and code, and its exit code."""

    read_bytes: int
    findings: Mapping[tuple[str, str], int]
    exit_code: int


@frozen
class PastRun:
    """The course of a run that ended: its times, and why it ended.

    ``max_age_s`` is the age in seconds within which everything has to be read.
    """

    begin_ms: int
    end_ms: int
    reason: EndReason
    max_age_s: int


@frozen
class DirectoryStatus:
    """A log directory: its last run that ended, and what is due at a time.

    ``directory`` is its number in the state.
    ``success_ms`` is the end of the last run with the exit code 0, None before the first.
    ``oldest_ms`` is the time at which the segment was read, or first seen, that was not read for
    longest; None without segments.
    """

    directory: int
    path: Path
    run: PastRun
    of_run: DirectoryRun
    success_ms: int | None
    log_bytes: int
    due_bytes: int
    segments: int
    due_segments: int
    oldest_ms: int | None

    @property
    def read_part(self) -> float:
        """The part of all bytes that was read within the age; 1 without any."""
        return 1 - self.due_bytes / self.log_bytes if self.log_bytes else 1.0


@frozen
class ReadPace:
    """What the runs in a log directory have read: ``read_bytes`` in ``seconds``, a day or more.

    The time between runs counts, as scrubs are started once in a while.
    """

    read_bytes: int
    seconds: float

    def time_for(self, size_bytes: int) -> float:
        """Return the seconds that ``size_bytes`` take; infinite if nothing was read."""
        if not size_bytes:
            return 0.0
        return size_bytes * self.seconds / self.read_bytes if self.read_bytes else math.inf

    def is_too_slow(self, status: DirectoryStatus) -> bool:
        """Return whether ``--max-age`` cannot be kept, by a run that did not read all."""
        unfinished = status.run.reason is EndReason.DURATION and status.due_bytes > 0
        return unfinished and self.time_for(status.log_bytes) > status.run.max_age_s


def signed(number: int) -> int:
    """Return a number modulo 2 to the power of 64, as one with a sign, which a database takes."""
    return (number + 2**63) % 2**64 - 2**63


def encode_findings(findings: Iterable[Finding]) -> str:
    """Return the findings that are more than notes as JSON; an empty string without any."""
    fields = [
        {
            "code": finding.code.name,
            "file": finding.path.name,
            **finding_fields(finding),
        }
        for finding in findings
        if finding.code.severity in _STANDING
    ]
    return json.dumps(fields, separators=(",", ":")) if fields else ""


def decode_findings(text: str, partition: AnyPath) -> Sequence[Finding]:
    """Return the findings in ``text`` about files of the directory ``partition``.

    The inverse of ``encode_findings``. A code that this release does not have is left out. Raise
    DecodeError for what ``encode_findings`` does not write.
    """
    try:
        fields: list[dict[str, Any]] = json.loads(text) if text else []
        return [_finding(each, partition) for each in fields if each["code"] in CODES]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"expected findings in a state, found: {error!r:.200}") from error


def _finding(fields: dict[str, Any], partition: AnyPath) -> Finding:
    """Return a finding. Raise ValueError, LookupError, TypeError or AttributeError."""
    name, offsets, detail = fields["file"], fields["offsets"], fields["detail"]
    numbers = [fields["position"], fields["size"], *(offsets or {}).values()]
    texts = [name, *(detail or {}).values(), *(fields["remedy"] or ())]
    if any(number is not None and type(number) is not int for number in numbers):
        raise TypeError("a position, size or offset that is no whole number")
    if any(type(word) is not str for word in texts) or type(fields["repeats"]) is not int:
        raise TypeError("a text or a count of another type")
    if "/" in name or name in ("", ".", ".."):
        raise ValueError("no name of a file")
    return Finding(
        CODES[fields["code"]],
        partition / name,
        fields["position"],
        fields["size"],
        offsets and Offsets(**offsets),
        detail and Detail(**detail),
        fields["remedy"] and tuple(fields["remedy"]),
        fields["repeats"],
    )
