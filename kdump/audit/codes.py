"""The one table of finding codes, which reports, ``explain``, manual and tests read.

Severity belongs to the code, so context chooses the code (``torn-tail``, ``torn-tail-sealed``).
Codes never change their meaning.

Spec: what a broker does and logs is from ``LogLoader``, ``LogSegment.recover``, ``AbstractIndex``,
``DefaultRecordBatch`` and ``CompletedFetch`` of 3.9 to 4.3.
It must never judge anything: that is for the checks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final


class Severity(Enum):
    """What a finding means for the data; listed worst first."""

    ERROR = "error"  # data is lost, refused or served wrongly
    INCOMPLETE = "incomplete"  # could not be judged: no damage is known
    WARNING = "warning"  # a broker heals it, or ignores it, at a cost
    INFO = "info"  # an oddity that belongs to normal running

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class FindingCode:
    """A row of the table: what a finding of this name means, wherever it turns up.

    ``messages`` are lines that a broker or client logs for it, with ``{}`` where they vary.
    ``check`` is the number of the invariant in KOD 9 that it is a breach of.
    """

    name: str
    severity: Severity
    meaning: str
    broker: str
    advice: str
    messages: tuple[str, ...] = ()
    check: int | None = None

    def logged_as(self, line: str) -> bool:
        """Whether ``line``, pasted from a log, holds one of ``messages``."""
        return any(_pattern(message).search(line) for message in self.messages)


def _pattern(message: str) -> re.Pattern[str]:
    return re.compile(".+?".join(re.escape(part) for part in message.split("{}") if part))


_TABLE: dict[str, FindingCode] = {}

#: The table of codes by name, in the order in which manual and ``explain --list`` show it.
CODES: Final[Mapping[str, FindingCode]] = MappingProxyType(_TABLE)


def _code(
    name: str,
    severity: Severity,
    meaning: str,
    broker: str,
    advice: str,
    messages: tuple[str, ...] = (),
    check: int | None = None,
) -> FindingCode:
    _TABLE[name] = FindingCode(name, severity, meaning, broker, advice, messages, check)
    return _TABLE[name]


_REPLICA_FIRST: Final = (
    "If another replica is in sync, start that one first. Copy this directory before a broker "
    "starts on it: recovery deletes."
)
_CUT: Final = (
    "Found invalid messages in log segment {} at byte offset {}",
    "Corruption found in segment {}, truncating to offset {}",
)
_FETCH: Final = (
    "Record batch for partition {} at offset {} is invalid, cause: {}",
    "Encountered corrupt message when fetching offset {} for topic-partition {}",
    "Found invalid messages during fetch for partition {} offset {}",
)
_OVERFLOW: Final = (
    "Detected offset overflow at offset {} in segment {}",
    "Split operation is only permitted for segments with overflow, and the problem path is {}",
)
_CORRUPT_INDEX: Final = "Found a corrupted index file corresponding to log file {} due to {}"

# --- batches

BATCH_CRC_MISMATCH: Final = _code(
    "batch-crc-mismatch",
    Severity.ERROR,
    "A batch does not match its checksum: nothing in it can be trusted.",
    "Consumers and followers stop at it. In recovery the segment is cut there and every later "
    "segment deleted, sound records included; after a clean stop nobody looks.",
    _REPLICA_FIRST,
    ("Record is corrupt (stored crc = {}, computed crc = {})", *_CUT, *_FETCH),
    check=2,
)
BATCH_SIZE_IMPOSSIBLE: Final = _code(
    "batch-size-impossible",
    Severity.ERROR,
    "Where a batch should start stands a size that no batch has: too small, or reaching beyond "
    "the end of the file although sound batches follow.",
    "As for a bad checksum: consumers and followers stop, recovery cuts there and deletes every "
    "later segment.",
    _REPLICA_FIRST,
    (
        "Found record size {} smaller than minimum record overhead ({}) in file",
        "Record batch is corrupt (the size {} is smaller than the minimum allowed overhead {})",
        "Record size {} is less than the minimum record overhead ({})",
        "Record is corrupt (crc could not be retrieved as the record is too small, size = {})",
        *_CUT,
        *_FETCH,
    ),
    check=1,
)
TORN_TAIL: Final = _code(
    "torn-tail",
    Severity.WARNING,
    "The last segment ends inside a batch: its writer died while it appended.",
    "After an unclean stop recovery cuts the fragment off, and no whole batch is lost. With a "
    "clean marker it stays, and new batches are appended behind it.",
    "Let an unclean start heal it. If the clean marker is there, something else cut the file: "
    "start another replica first.",
    ("Corruption found in segment {}, truncating to offset {}",),
    check=1,
)
TORN_TAIL_SEALED: Final = _code(
    "torn-tail-sealed",
    Severity.ERROR,
    "A segment that is not the last one ends inside a batch: its end is lost.",
    "Consumers cannot read the offsets up to the next segment. In recovery the fragment is cut "
    "off and every later segment deleted, sound records included.",
    _REPLICA_FIRST,
    ("Corruption found in segment {}, truncating to offset {}",),
    check=1,
)
TORN_TAIL_LIVE: Final = _code(
    "torn-tail-live",
    Severity.INFO,
    "The last segment ended inside a batch when it was read, beside a running broker: a batch "
    "was just being appended.",
    "Nothing: it completes the batch.",
    "Nothing to do. Verify again after the broker has stopped, if in doubt.",
    check=1,
)
PREALLOCATED_TAIL: Final = _code(
    "preallocated-tail",
    Severity.INFO,
    "Zeros stand behind the last batch of the last segment, as with preallocate=true before the "
    "segment is rolled or cleanly closed.",
    "A running broker writes over them; recovery after an unclean stop cuts them off.",
    "Nothing to do.",
    ("Found record size 0 smaller than minimum record overhead ({}) in file", *_CUT),
    check=1,
)
PREALLOCATED_TAIL_SEALED: Final = _code(
    "preallocated-tail-sealed",
    Severity.ERROR,
    "Zeros stand behind the last batch of a segment that is not the last one.",
    "Consumers that are served the zeros stop there. In recovery they are cut off and every "
    "later segment deleted, sound records included.",
    _REPLICA_FIRST,
    ("Found record size 0 smaller than minimum record overhead ({}) in file", *_CUT),
    check=1,
)
OFFSETS_NOT_INCREASING: Final = _code(
    "offsets-not-increasing",
    Severity.ERROR,
    "A batch does not begin behind the end of the batch before it: offsets stand twice or run "
    "backwards.",
    "Recovery takes no offence, and the log ends at the last batch, even if that is lower. Where "
    "index entries fall on both places it empties the whole segment.",
    _REPLICA_FIRST,
    (
        "Found invalid offset during recovery. Deleting the corrupt segment and creating an "
        "empty one with starting offset {}",
        "Attempt to append an offset {} to position {} no larger than the last offset appended",
    ),
    check=4,
)
BATCH_BELOW_SEGMENT: Final = _code(
    "batch-below-segment",
    Severity.ERROR,
    "A batch begins below the offset in its segment's name.",
    "Lookups go wrong. A broker that must recover the segment does not start.",
    _REPLICA_FIRST,
    _OVERFLOW,
    check=4,
)
BATCH_OFFSETS_INVERTED: Final = _code(
    "batch-offsets-inverted",
    Severity.ERROR,
    "A batch has a last offset that is lower than its first.",
    "Lookups go wrong. A broker that must recover the segment may refuse to start, or end the "
    "log at the wrong offset.",
    _REPLICA_FIRST,
    _OVERFLOW,
    check=4,
)
OFFSET_OVERFLOW: Final = _code(
    "offset-overflow",
    Severity.ERROR,
    "The last batch lies more than 2147483647 offsets above its segment's name, which no index "
    "entry can say: its offset is wrong, or cleaning merged too much (before 1.1).",
    "Recovery splits the segment, and takes over the offset even if it is wrong. Unrecovered, "
    "the next append fails.",
    _REPLICA_FIRST,
    (*_OVERFLOW, "Caught segment overflow error: {}"),
    check=4,
)
SEGMENTS_OVERLAP: Final = _code(
    "segments-overlap",
    Severity.ERROR,
    "A segment reaches into the offsets of the next one: they exist twice.",
    "Nothing notices. Consumers that read through see those offsets twice or skip records.",
    _REPLICA_FIRST,
    check=5,
)

# --- indexes

INDEX_LENGTH: Final = _code(
    "index-length",
    Severity.WARNING,
    "The length of an .index file is no multiple of 8: its last entry is cut off.",
    "Ignores the odd bytes and takes longer to look up; up to 2.2 it rebuilds the index at start.",
    "Nothing is lost. If a copy was cut short, look at the .log beside it.",
    (
        "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8",
        _CORRUPT_INDEX,
    ),
    check=9,
)
INDEX_ORDER: Final = _code(
    "index-order",
    Severity.ERROR,
    "The entries of an .index file do not rise in offset and position.",
    "Believes it: lookups start at the wrong place, skip records or fail. It rebuilds the index "
    "in recovery, or if the file is missing at start.",
    "Deleting this .index while the broker is stopped makes it rebuild the file at start.",
    (_CORRUPT_INDEX, "Corrupt index found, index file {} has non-zero size but the last offset"),
    check=9,
)
INDEX_PADDED: Final = _code(
    "index-padded",
    Severity.INFO,
    "Zeros stand behind the entries of an .index file whose segment is not the last one.",
    "Counts them as entries: lookups begin at the segment's start, slowly and rightly.",
    "Nothing to do.",
    check=11,
)
TIMEINDEX_LENGTH: Final = _code(
    "timeindex-length",
    Severity.WARNING,
    "The length of a .timeindex file is no multiple of 12: its last entry is cut off.",
    "Ignores the odd bytes; up to 2.2 it rebuilds the index at start.",
    "Lookups by time and time-based retention may use a timestamp that is too low.",
    (
        "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple",
        _CORRUPT_INDEX,
    ),
    check=13,
)
TIMEINDEX_ORDER: Final = _code(
    "timeindex-order",
    Severity.ERROR,
    "The timestamps of a .timeindex file do not rise, or its offsets fall.",
    "Believes it: lookups by time give wrong offsets, and time-based retention may delete the "
    "segment early or never.",
    "Only a recovery of the segment rebuilds it: deleting its .index while the broker is "
    "stopped causes one.",
    (_CORRUPT_INDEX, "Corrupt time index found, time index file ({}) has non-zero size but the"),
    check=13,
)
TIMEINDEX_PADDED: Final = _code(
    "timeindex-padded",
    Severity.ERROR,
    "Zeros stand behind the entries of a .timeindex file whose segment is not the last one.",
    "Takes the last of them for the segment's newest timestamp, 1970: time-based retention may "
    "delete the segment (KAFKA-10207).",
    "Deleting the segment's .index while the broker is stopped makes it rebuild both at start.",
    check=11,
)

# --- records (--deep)

RECORDS_UNREADABLE: Final = _code(
    "records-unreadable",
    Severity.ERROR,
    "A batch matches its checksum, but its records cannot be read: it was written so.",
    "Serves it as it is, and recovery keeps it. Consumers stop at it until they seek past.",
    "Seek consumers past the batch. On a compacted topic it stalls the cleaner.",
    (
        "Incorrect declared batch size, records still remaining in file",
        "Incorrect declared batch size, premature EOF reached",
        "Found invalid record structure",
        "Found invalid record count {} in magic v{} batch",
        "Found invalid number of record headers",
        "Invalid record size: expected {} bytes in record payload",
        "Failed to decompress record stream",
        "Received exception when fetching the next record from {}",
    ),
    check=6,
)
RECORDS_OFFSETS: Final = _code(
    "records-offsets",
    Severity.ERROR,
    "The offsets of a batch's records do not rise, or leave the range that its header gives.",
    "Does not look. Consumers skip records, see them twice, or go on at the wrong offset.",
    "Seek consumers past the batch, if they must not see it.",
    check=6,
)
RECORDS_TIMESTAMPS: Final = _code(
    "records-timestamps",
    Severity.ERROR,
    "A record has a later timestamp than its batch's header gives as the largest.",
    "Believes the header: lookups by time miss the record, and time-based retention may delete "
    "it early.",
    "Nothing heals it. Look records up by offset.",
    check=7,
)

# --- what could not be judged

UNREADABLE: Final = _code(
    "unreadable",
    Severity.INCOMPLETE,
    "A file or directory could not be read: permissions, a failing disk, or no regular file.",
    "A file that it cannot read takes the log directory offline.",
    "Look at the system's log for disk errors, and verify again as the broker's user or as root.",
    ("Could not read file {}",),
)
VANISHED: Final = _code(
    "vanished",
    Severity.INCOMPLETE,
    "A file or directory was not there, or became shorter while it was read.",
    "What is missing is a matter of its own; nothing was judged here.",
    "Check the path, and that nothing else works in the directory; then verify again.",
)
VANISHED_LIVE: Final = _code(
    "vanished-live",
    Severity.INFO,
    "A file went away while it was read beside a running broker: retention, rolling or cleaning.",
    "It deletes and replaces segments all the time.",
    "Nothing to do.",
    check=38,
)
LIMIT: Final = _code(
    "limit",
    Severity.INCOMPLETE,
    "A batch decompresses to more than kdump reads at once: its records were not judged.",
    "Has no such limit; consumers decompress it piece by piece.",
    "If nobody sends such batches on purpose, it may be a decompression bomb.",
)
