"""Finding codes of producers, transactions, snapshots and leader epochs.

Spec: what brokers of 3.9 to 4.3 do and log. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import REINDEX, REPLICA_FIRST, SALVAGE_OR_CUT, FindingCode, Severity

TRANSACTION_MIXED: Final = FindingCode(
    "transaction-mixed",
    Severity.ERROR,
    "A batch that is not transactional stands inside its producer's open transaction.",
    "Does not start if it must replay this part of the log, in recovery or because a producer "
    "snapshot is missing.",
    SALVAGE_OR_CUT,
    ("Expected transactional write from producer {} at offset {} in partition {}",),
    check=32,
)
MARKER_UNKNOWN: Final = FindingCode(
    "marker-unknown",
    Severity.ERROR,
    "A control batch of a producer begins with a record that ends no transaction.",
    "Does not start if it must replay this part of the log, in recovery or because a producer "
    "snapshot is missing.",
    SALVAGE_OR_CUT,
    ("Invalid control record type for end transaction marker",),
    check=32,
)
MARKER_UNREADABLE: Final = FindingCode(
    "marker-unreadable",
    Severity.ERROR,
    "A control batch of a producer begins with a record that cannot be read.",
    "Recovery cuts the log behind it and deletes every later segment, sound records included; "
    "then, and wherever else it must replay this part of the log, the broker does not start.",
    SALVAGE_OR_CUT,
    (
        "Invalid value size found for control record key",
        "Invalid version found for control record",
        "Invalid version found for end transaction marker",
    ),
    check=32,
)
MARKER_ODD: Final = FindingCode(
    "marker-odd",
    Severity.INFO,
    "The marker of a transaction's end stands in a batch that no broker writes so: with more "
    "records, a sequence, or not marked as transactional.",
    "Reads the marker alone, and goes on.",
    "Nothing to do. Something other than a broker may have written this log.",
    check=32,
)
PRODUCER_EPOCH_FALLS: Final = FindingCode(
    "producer-epoch-falls",
    Severity.INFO,
    "A batch of a producer has a lower epoch than one before it: a producer that was fenced "
    "wrote all the same, as after its state had expired.",
    "Warns when it replays the log, and goes on.",
    "Nothing to do, unless two instances of that producer ran at the time.",
    ("Epoch of producer {} at offset {} in {} is {}, which is",),
    check=32,
)
SEQUENCE_GAP: Final = FindingCode(
    "sequence-gap",
    Severity.WARNING,
    "The sequence numbers of a producer do not join, on a topic that is not compacted.",
    "Does not look at them again once they are written.",
    "Compare with another replica: batches are missing there, or stand twice.",
    check=33,
)
TRANSACTION_HANGING: Final = FindingCode(
    "transaction-hanging",
    Severity.ERROR,
    "A transaction has no end, and its last batch was written longer ago than any transaction "
    "may take (transaction.max.timeout.ms, and 5 minutes more). Or the log of its coordinator "
    "(__transaction_state) does not have it any more. No coordinator will end it.",
    "Holds the last stable offset there: consumers with read_committed read no further, and on a "
    "compacted topic nothing behind is cleaned.",
    "End it with the broker's own tool while the brokers run: kafka-transactions.sh abort, with "
    "the topic, the partition and the start offset that are given here.",
    check=34,
)
TRANSACTION_LATE: Final = FindingCode(
    "transaction-late",
    Severity.WARNING,
    "A transaction has no end, and its last batch was written longer ago than a transaction may "
    "take by default (15 minutes, and 5 more). Neither what the brokers allow nor the log of its "
    "coordinator (__transaction_state) is known here.",
    "Holds the last stable offset there: consumers with read_committed read no further, and on a "
    "compacted topic nothing behind is cleaned.",
    "See whether transaction.max.timeout.ms of the brokers is larger: then it may still be at "
    "work, and kdump verify --config server.properties knows it. If not, kafka-transactions.sh "
    "abort ends it, with the topic, the partition and the start offset that are given here.",
    check=34,
)
TRANSACTION_OPEN: Final = FindingCode(
    "transaction-open",
    Severity.INFO,
    "A transaction is open at the end of the log, and not for long.",
    "Its coordinator commits or aborts it, at the latest when it times out.",
    "Nothing to do, unless the brokers allow less than the 15 minutes of the default: "
    "transaction.max.timeout.ms is known with --config server.properties.",
    check=34,
)
# An error, though its records can be read and are not lost: consumers of committed records get what
# may have been aborted, or stop.
TRANSACTION_END_LOST: Final = FindingCode(
    "transaction-end-lost",
    Severity.ERROR,
    "Offsets are missing behind the begin of a transaction, its marker may be one of them, and "
    "no transaction index, producer snapshot or coordinator's log (__transaction_state) at hand "
    "shows whether it was committed.",
    "Takes the producer's next marker for the end of both transactions, or waits for an end.",
    "Another replica may have the marker: kdump dump of these offsets there shows it. Without it, "
    "salvage makes the records readable, export --read-committed leaves them out, convert takes "
    "over the transaction index, and reindex and truncate-to-valid leave open what nothing ends.",
    check=34,
)
DELETE_HORIZON_ODD: Final = FindingCode(
    "delete-horizon-odd",
    Severity.INFO,
    "Batches have a delete horizon, which only the cleaner sets (3.1 and later): on a topic that "
    "is not compacted now, or of a time that cannot be.",
    "Uses it only in cleaning: tombstones and markers go when it has passed.",
    "Nothing to do. The topic may have been compacted before.",
    check=35,
)

TXNINDEX_LENGTH: Final = FindingCode(
    "txnindex-length",
    Severity.ERROR,
    "The length of a .txnindex file is no multiple of 34: its last entry is cut off.",
    "Ignores the rest, but appends behind it: every later entry is read as another one.",
    REINDEX,
    check=16,
)
TXNINDEX_VERSION: Final = FindingCode(
    "txnindex-version",
    Severity.ERROR,
    "An entry of a .txnindex file has another version than 0.",
    "Does not start.",
    "While the broker is stopped, kdump reindex rebuilds it. The broker does at its start, once "
    "the segment's .index and .txnindex are deleted.",
    ("Unexpected aborted transaction version {} in transaction index {}",),
    check=16,
)
TXNINDEX_BELOW_SEGMENT: Final = FindingCode(
    "txnindex-below-segment",
    Severity.WARNING,
    "An entry of a .txnindex file ends below the offset in its segment's name.",
    "Recovers the segment at start, which rebuilds its indexes.",
    "Let it, or run kdump reindex before. Copy the directory first, if anything else is wrong in "
    "this partition.",
    ("Last offset of aborted transaction {} in index {} is less than start offset {}",),
    check=16,
)
TXNINDEX_ORDER: Final = FindingCode(
    "txnindex-order",
    Severity.ERROR,
    "The entries of a .txnindex file do not rise, or one ends before it begins.",
    "Believes it: consumers with read_committed may get aborted records, or miss committed ones.",
    REINDEX,
    ("The last offset of appended transactions must increase sequentially, but {} is not",),
    check=16,
)
TXNINDEX_UNFOUNDED: Final = FindingCode(
    "txnindex-unfounded",
    Severity.ERROR,
    "An entry of a .txnindex file names an abort that does not stand in the log.",
    "Believes it: consumers with read_committed drop that producer's records up to its next "
    "abort, committed ones too.",
    REINDEX,
    check=16,
)
TXNINDEX_MISSING_ENTRY: Final = FindingCode(
    "txnindex-missing-entry",
    Severity.ERROR,
    "The log holds an aborted transaction that the .txnindex file does not name, or only from a "
    "later offset on.",
    "Nothing notices: consumers with read_committed get its records.",
    REINDEX,
    check=17,
)
TXNINDEX_STABLE_OFFSET: Final = FindingCode(
    "txnindex-stable-offset",
    Severity.ERROR,
    "An entry of a .txnindex file claims that everything up to a last stable offset was decided, "
    "but a transaction that began below it was aborted later, or the log ends before.",
    "Ends its search for aborted transactions there: consumers with read_committed may get "
    "aborted records.",
    REINDEX,
    check=18,
)
TXNINDEX_STALE: Final = FindingCode(
    "txnindex-stale",
    Severity.WARNING,
    "A .txnindex file does not fit its segment, which the next start recovers after the unclean "
    "stop.",
    "Rebuilds it from the log in recovery.",
    "Let it, or run kdump reindex before.",
    check=17,
)

SNAPSHOT_DISAGREES: Final = FindingCode(
    "snapshot-disagrees",
    Severity.ERROR,
    "A producer snapshot says other than the log up to its offset.",
    "Believes it: it may accept batches twice, refuse a producer's next batch, or take an open "
    "transaction for ended.",
    "While the broker is stopped, kdump reindex writes it anew from the log, where that reaches "
    "back far enough. Else deleting the snapshot makes the broker use an older one and read the "
    "log behind that.",
    check=20,
)

LEADER_EPOCH_FALLS: Final = FindingCode(
    "leader-epoch-falls",
    Severity.WARNING,
    "A batch has a lower leader epoch than the batches before it. No checksum covers the epoch; "
    "or this log is from another cluster.",
    "Ignores the lower epoch. After a change of leader followers may truncate to the wrong offset.",
    "While the broker is stopped, kdump reindex adds those of the batches.",
    check=23,
)
LEADER_EPOCH_NEGATIVE: Final = FindingCode(
    "leader-epoch-negative",
    Severity.ERROR,
    "A batch has a leader epoch below -1, which no broker writes. No checksum covers the epoch.",
    "Serves the batch. A follower that fetches it refuses the epoch, and replication stops there.",
    REPLICA_FIRST,
    ("Received invalid partition leader epoch entry {}",),
    check=23,
)
LEADER_EPOCH_ABSENT: Final = FindingCode(
    "leader-epoch-absent",
    Severity.WARNING,
    "A batch of magic 2 has no leader epoch. The cleaner of 4.0 and later leaves it out when it "
    "rewrites messages of magic 0 or 1. No checksum covers the epoch.",
    "Serves the batch. A follower of 3.9 or later that fetches it refuses the epoch -1, and "
    "replication stops there: a new replica never gets in sync. Replicas that have the batch "
    "go on.",
    "While the broker is stopped, kdump convert-v0-v2 puts in the epoch of the offset.",
    ("Received invalid partition leader epoch entry {}",),
    check=23,
)
EPOCHS_MISMATCH: Final = FindingCode(
    "epochs-mismatch",
    Severity.ERROR,
    "Batches have another leader epoch than leader-epoch-checkpoint gives for their offsets.",
    "Believes the checkpoint: after a change of leader replicas may truncate to the wrong offset "
    "and diverge.",
    "While the broker is stopped, kdump reindex writes the file from the leader epochs of the "
    "batches. " + REPLICA_FIRST,
    check=23,
)
EPOCHS_MISSING: Final = FindingCode(
    "epochs-missing",
    Severity.WARNING,
    "The leader-epoch-checkpoint lacks leader epochs that batches have.",
    "Followers of those epochs truncate to the high watermark instead. Recovery adds epochs "
    "above the last one that is there.",
    "Compare with another replica before this one leads.",
    check=23,
)
