"""Finding codes of offset and time indexes.

Spec: the behaviour and the messages of brokers of 3.9 to 4.3. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REINDEX, FindingCode, Severity

_FETCH: Final = (
    "Record batch for partition {} at offset {} is invalid, cause: {}",
    "Encountered corrupt message when fetching offset {} for topic-partition {}",
    "Found invalid messages during fetch for partition {} offset {}",
)
_REBUILD: Final = (
    "While the broker is stopped, kdump reindex rebuilds it. If the log beside it is sound, the "
    "broker does at its start, once this .index is deleted."
)
_CORRUPT_INDEX: Final = "Found a corrupted index file corresponding to log file {} due to {}"

INDEX_LENGTH: Final = FindingCode(
    "index-length",
    Severity.WARNING,
    "The length of an .index file is no multiple of 8: its last entry is cut off.",
    "Ignores the odd bytes and takes longer to look up; up to 2.2 it rebuilds the index at start.",
    "Nothing is lost; kdump reindex rebuilds it. If a copy was cut short, look at the .log beside "
    "it.",
    (
        "Index file {} is corrupt, found {} bytes which is neither positive nor a multiple of 8",
        _CORRUPT_INDEX,
    ),
    check=9,
)
INDEX_ORDER: Final = FindingCode(
    "index-order",
    Severity.ERROR,
    "The entries of an .index file do not rise in offset and position.",
    "Believes it: lookups start at the wrong place, skip records or fail. It rebuilds the index "
    "in recovery, or if the file is missing at start.",
    _REBUILD,
    (_CORRUPT_INDEX, "Corrupt index found, index file {} has non-zero size but the last offset"),
    check=9,
)
INDEX_PADDED: Final = FindingCode(
    "index-padded",
    Severity.INFO,
    "Zeros stand behind the entries of an .index file whose segment is not the last one.",
    "Counts them as entries: lookups begin at the segment's start, slowly and rightly.",
    "Nothing to do.",
    check=11,
)
TIMEINDEX_LENGTH: Final = FindingCode(
    "timeindex-length",
    Severity.WARNING,
    "The length of a .timeindex file is no multiple of 12: its last entry is cut off.",
    "Ignores the odd bytes; up to 2.2 it rebuilds the index at start.",
    "Lookups by time and time-based retention may use a timestamp that is too low. kdump reindex "
    "rebuilds it.",
    (
        "Time index file {} is corrupt, found {} bytes which is neither positive nor a multiple",
        _CORRUPT_INDEX,
    ),
    check=13,
)
TIMEINDEX_ORDER: Final = FindingCode(
    "timeindex-order",
    Severity.ERROR,
    "The timestamps of a .timeindex file do not rise, or its offsets fall.",
    "Believes it: lookups by time give wrong offsets, and time-based retention may delete the "
    "segment early or never.",
    REINDEX,
    (_CORRUPT_INDEX, "Corrupt time index found, time index file ({}) has non-zero size but the"),
    check=13,
)
TIMEINDEX_PADDED: Final = FindingCode(
    "timeindex-padded",
    Severity.ERROR,
    "Zeros stand behind the entries of a .timeindex file whose segment is not the last one.",
    "Takes the last of them for the segment's newest timestamp, 1970: time-based retention may "
    "delete the segment (KAFKA-10207).",
    REINDEX,
    check=11,
)
INDEX_MISPLACED: Final = FindingCode(
    "index-misplaced",
    Severity.ERROR,
    "An entry of an .index file leads to a place where no batch starts.",
    "Believes it: lookups from that offset on read a batch's inside as a header, and fail or find "
    "the wrong place.",
    _REBUILD,
    _FETCH,
    check=9,
)
INDEX_SKIPS: Final = FindingCode(
    "index-skips",
    Severity.ERROR,
    "An entry of an .index file leads behind offsets that it answers for.",
    "Believes it: consumers and followers that ask for one of these offsets silently get later "
    "ones.",
    _REBUILD,
    check=10,
)
INDEX_BEYOND_LOG: Final = FindingCode(
    "index-beyond-log",
    Severity.ERROR,
    "The last segment's .index file speaks of offsets or positions behind the end of the log: the "
    "log was cut short, or the entry is wrong.",
    "After a clean stop it takes the segment's base for the end of the log and gives its offsets "
    "out again. Recovery after an unclean stop rebuilds the index.",
    "If another replica is in sync, start that one first. Else kdump reindex rebuilds it while the "
    "broker is stopped.",
    check=10,
)
INDEX_BEYOND_LOG_SEALED: Final = FindingCode(
    "index-beyond-log-sealed",
    Severity.ERROR,
    "The .index file of a segment that is not the last one leads to or behind the end of its log: "
    "the log was cut short, or the entry is wrong.",
    "Lookups from that offset on find nothing in this segment and go on in the next one.",
    "If another replica is in sync, start that one first. If the log is whole, kdump reindex "
    "rebuilds the file while the broker is stopped.",
    check=10,
)
INDEX_MISSING: Final = FindingCode(
    "index-missing",
    Severity.WARNING,
    "A segment has no .index file.",
    "Reads the whole segment at start and builds both indexes anew; all later producer snapshots "
    "of the partition go.",
    "Nothing is lost if the segment's log is sound. If it is not, that recovery cuts it: kdump "
    "reindex, while the broker is stopped, saves the start that work and cuts nothing.",
    ("Could not find offset index file corresponding to log file {}, recovering segment",),
    check=12,
)
INDEX_ORPHAN: Final = FindingCode(
    "index-orphan",
    Severity.WARNING,
    "An index file stands there without its .log.",
    "Deletes it at start.",
    "If the .log was not deleted on purpose, a segment is missing: look for it first.",
    ("Found an orphaned index file {}, with no corresponding log file.",),
    check=12,
)
INDEX_REBUILT: Final = FindingCode(
    "index-rebuilt",
    Severity.WARNING,
    "An index file is wrong, but its segment will be recovered: the broker was not stopped cleanly "
    "and did not know the segment to be on disk.",
    "Rebuilds both indexes of the segment at start.",
    "Let the broker start, or run kdump reindex before.",
    check=11,
)
TIMEINDEX_SKIPS: Final = FindingCode(
    "timeindex-skips",
    Severity.ERROR,
    "An entry of a .timeindex file has a timestamp below that of records before it.",
    "Lookups by time begin behind these records and give a later offset.",
    REINDEX,
    check=13,
)
TIMEINDEX_UNMATCHED: Final = FindingCode(
    "timeindex-unmatched",
    Severity.INFO,
    "An entry of a .timeindex file has a timestamp that no batch up to its offset has.",
    "Lookups by time take longer, and are right.",
    "Nothing to do.",
    check=13,
)
TIMEINDEX_BEYOND_LOG: Final = FindingCode(
    "timeindex-beyond-log",
    Severity.ERROR,
    "The last segment's .timeindex file speaks of an offset behind the end of the log: the log was "
    "cut short, or the entry is wrong.",
    "After a clean stop appending fails once a later timestamp has a lower offset. Recovery after "
    "an unclean stop rebuilds the index.",
    "If another replica is in sync, start that one first. Else kdump reindex rebuilds it while the "
    "broker is stopped.",
    ("Attempt to append an offset ({}) to slot {} no larger than the last offset appended",),
    check=13,
)
TIMEINDEX_TOO_LOW: Final = FindingCode(
    "timeindex-too-low",
    Severity.ERROR,
    "The last entry of a .timeindex file is below its segment's latest timestamp.",
    "Takes the segment for older than it is: time-based retention may delete it early, and lookups "
    "of later times pass it over.",
    REINDEX,
    check=14,
)
TIMEINDEX_TOO_HIGH: Final = FindingCode(
    "timeindex-too-high",
    Severity.ERROR,
    "The last entry of a .timeindex file is above its segment's latest timestamp.",
    "Takes the segment for newer than it is: time-based retention keeps it and all later ones too "
    "long, and lookups of later times end in it and find nothing.",
    REINDEX,
    check=14,
)
TIMEINDEX_MISSING: Final = FindingCode(
    "timeindex-missing",
    Severity.ERROR,
    "A segment has no .timeindex file.",
    "Creates an empty one and never fills it: time-based retention goes by when the file was "
    "written, and lookups by time may find nothing.",
    REINDEX,
    check=12,
)
