"""Finding codes of offset and time indexes.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REINDEX, REPLICA_FIRST, Cure, FindingCode, Severity

_REBUILD: Final = (
    "While the broker is stopped, kdump reindex rebuilds the file. If the segment's log is sound, "
    "you can delete the .index instead: the broker rebuilds it at its start."
)

INDEX_LENGTH: Final = FindingCode(
    "index-length",
    Severity.WARNING,
    "The length of an .index file is not a multiple of 8: its last entry is cut off.",
    "The broker ignores the incomplete entry, and lookups take longer. Brokers up to 2.2 rebuild "
    "the index at their start.",
    "Nothing is lost, and kdump reindex rebuilds the file. If the file was cut short while it was "
    "copied, check the .log beside it.",
    check=9,
    cure=Cure.REINDEX,
)
INDEX_ORDER: Final = FindingCode(
    "index-order",
    Severity.ERROR,
    "The entries of an .index file do not rise in offset and position.",
    "The broker trusts the index: lookups start at the wrong position, skip records or fail. It "
    "rebuilds the index in recovery, or at its start if the file is missing.",
    _REBUILD,
    check=9,
    cure=Cure.REINDEX,
)
INDEX_PADDED: Final = FindingCode(
    "index-padded",
    Severity.INFO,
    "An .index file has zeros after its entries, and its segment is not the last.",
    "The broker counts the zeros as entries. Lookups begin at the start of the segment: they are "
    "slow, but correct.",
    "Nothing to do.",
    check=11,
)
TIMEINDEX_LENGTH: Final = FindingCode(
    "timeindex-length",
    Severity.WARNING,
    "The length of a .timeindex file is not a multiple of 12: its last entry is cut off.",
    "The broker ignores the incomplete entry: lookups by time and time-based retention may use a "
    "timestamp that is too low. Brokers up to 2.2 rebuild the index at their start.",
    "While the broker is stopped, kdump reindex rebuilds the file.",
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_ORDER: Final = FindingCode(
    "timeindex-order",
    Severity.ERROR,
    "The timestamps of a .timeindex file do not rise, or its offsets fall.",
    "The broker trusts the index: lookups by time return wrong offsets, and time-based retention "
    "may delete the segment early or never.",
    REINDEX,
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_PADDED: Final = FindingCode(
    "timeindex-padded",
    Severity.ERROR,
    "A .timeindex file has zeros after its entries, and its segment is not the last.",
    "The broker takes the last zeros for the segment's latest timestamp, which is then in 1970: "
    "time-based retention may delete the segment (KAFKA-10207).",
    REINDEX,
    check=11,
    cure=Cure.REINDEX,
)
INDEX_MISPLACED: Final = FindingCode(
    "index-misplaced",
    Severity.ERROR,
    "An entry of an .index file points to a position where no batch starts.",
    "The broker trusts the entry: lookups from its offset on read bytes inside a batch as a batch "
    "header. They fail or find the wrong position.",
    _REBUILD,
    check=9,
    cure=Cure.REINDEX,
)
INDEX_SKIPS: Final = FindingCode(
    "index-skips",
    Severity.ERROR,
    "An entry of an .index file points past records that a lookup through it must find: they have "
    "its offset or a higher one, but are before its position.",
    "The broker trusts the entry: consumers and followers that fetch one of these offsets receive "
    "later records, without an error.",
    _REBUILD,
    check=10,
    cure=Cure.REINDEX,
)
INDEX_BEYOND_LOG: Final = FindingCode(
    "index-beyond-log",
    Severity.ERROR,
    "The last segment's .index file has an offset or a position after the end of the log: the log "
    "was cut short, or the entry is wrong.",
    "After a clean stop, the broker takes the base offset of the segment for the log end offset, "
    "and assigns the offsets of the segment a second time. After an unclean stop, recovery "
    "rebuilds the index.",
    "While the broker is stopped, kdump reindex rebuilds the file. If the log was cut short and "
    "another replica is in sync, start its broker first: this broker then fetches the lost end "
    "from the leader.",
    check=10,
    cure=Cure.REINDEX,
)
INDEX_BEYOND_LOG_SEALED: Final = FindingCode(
    "index-beyond-log-sealed",
    Severity.ERROR,
    "An .index file has a position at or after the end of its log, and its segment is not the "
    "last: the log was cut short, or the entry is wrong.",
    "Lookups from the entry's offset on find nothing in this segment and continue in the next "
    "segment.",
    "If the log is whole, kdump reindex rebuilds the file while the broker is stopped. If the log "
    "was cut short, its last records are missing. " + REPLICA_FIRST,
    check=10,
    cure=Cure.REINDEX,
)
INDEX_MISSING: Final = FindingCode(
    "index-missing",
    Severity.WARNING,
    "A segment has no .index file.",
    "At its start, the broker reads the whole segment and rebuilds both indexes. It deletes all "
    "later producer snapshots of the partition.",
    "Nothing is lost if the segment's log is sound. If it is not, the broker truncates the "
    "segment at the damage and keeps the later segments: offsets are then missing. While the "
    "broker is stopped, kdump reindex writes the index and truncates nothing: the start then "
    "skips that recovery.",
    check=12,
    cure=Cure.REINDEX,
)
INDEX_ORPHAN: Final = FindingCode(
    "index-orphan",
    Severity.WARNING,
    "An index file has no .log beside it.",
    "The broker deletes the index file at its start.",
    "If the .log was not deleted on purpose, a segment is missing: look for its .log before a "
    "broker starts.",
    check=12,
)
INDEX_REBUILT: Final = FindingCode(
    "index-rebuilt",
    Severity.WARNING,
    "An index file is wrong, but the next start recovers its segment. Either the last stop was "
    "unclean and the recovery point is not past the segment, or this is the metadata log, which "
    "every start recovers.",
    "The broker rebuilds both indexes of the segment at its start.",
    "Let the broker start, or run kdump reindex first.",
    check=11,
    cure=Cure.REINDEX,
)
TIMEINDEX_SKIPS: Final = FindingCode(
    "timeindex-skips",
    Severity.ERROR,
    "An entry of a .timeindex file has an earlier timestamp than records before its offset.",
    "Lookups by time begin after these records and return a later offset.",
    REINDEX,
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_UNMATCHED: Final = FindingCode(
    "timeindex-unmatched",
    Severity.INFO,
    "An entry of a .timeindex file has a timestamp that no batch up to its offset has.",
    "Lookups by time take longer, but are correct.",
    "Nothing to do.",
    check=13,
)
TIMEINDEX_BEYOND_LOG: Final = FindingCode(
    "timeindex-beyond-log",
    Severity.ERROR,
    "The last segment's .timeindex file has an offset after the end of the log: the log was cut "
    "short, or the entry is wrong.",
    "After a clean stop, an append fails if its timestamp is later than that of the last entry and "
    "its offset is lower. After an unclean stop, recovery rebuilds the index.",
    "While the broker is stopped, kdump reindex rebuilds the file. If the log was cut short and "
    "another replica is in sync, start its broker first: this broker then fetches the lost end "
    "from the leader.",
    check=13,
    cure=Cure.REINDEX,
)
TIMEINDEX_TOO_LOW: Final = FindingCode(
    "timeindex-too-low",
    Severity.ERROR,
    "The last timestamp in a .timeindex file is earlier than the latest in its segment.",
    "The broker takes the segment for older than it is: time-based retention may delete it early, "
    "and lookups of later times skip it.",
    REINDEX,
    check=14,
    cure=Cure.REINDEX,
)
TIMEINDEX_TOO_HIGH: Final = FindingCode(
    "timeindex-too-high",
    Severity.ERROR,
    "The last timestamp in a .timeindex file is later than the latest in its segment.",
    "The broker takes the segment for newer than it is: time-based retention keeps it and all "
    "later segments too long. Lookups of times after its latest record end in this segment and "
    "find nothing.",
    REINDEX,
    check=14,
    cure=Cure.REINDEX,
)
TIMEINDEX_MISSING: Final = FindingCode(
    "timeindex-missing",
    Severity.ERROR,
    "A segment has no .timeindex file.",
    "The broker creates an empty file, and adds no entries for the records that are in the "
    "segment: time-based retention uses the modification time of the .log, and lookups by time "
    "may find nothing.",
    REINDEX,
    check=12,
    cure=Cure.REINDEX,
)
