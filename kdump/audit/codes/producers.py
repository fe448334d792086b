"""Finding codes of producers, transactions, snapshots and leader epochs.

Spec: the behaviour and the messages of brokers of 3.9 to 4.4. Codes never change their meaning.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.codes.code import (
    REINDEX,
    REPLICA_FIRST,
    SALVAGE_OR_CUT,
    Cure,
    FindingCode,
    Severity,
)

TRANSACTION_MIXED: Final = FindingCode(
    "transaction-mixed",
    Severity.ERROR,
    "A non-transactional batch is inside an open transaction of its producer.",
    "The broker does not start if it must replay this part of the log, in recovery or because a "
    "producer snapshot is missing.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_UNKNOWN: Final = FindingCode(
    "marker-unknown",
    Severity.ERROR,
    "A control batch of a producer begins with a record that does not end a transaction.",
    "The broker does not start if it must replay this part of the log, in recovery or because a "
    "producer snapshot is missing.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_UNREADABLE: Final = FindingCode(
    "marker-unreadable",
    Severity.ERROR,
    "A control batch of a producer begins with a record that cannot be read.",
    "Recovery truncates the log after the batch and deletes every later segment, sound records "
    "included. Whenever the broker must replay this part of the log, also after that truncation, "
    "it does not start.",
    SALVAGE_OR_CUT,
    check=32,
    cure=Cure.CUT,
)
MARKER_ODD: Final = FindingCode(
    "marker-odd",
    Severity.INFO,
    "The end marker of a transaction is in a batch that no broker writes. The batch has more than "
    "one record, has a sequence number, or is not transactional.",
    "The broker reads only the marker and continues.",
    "Nothing to do. Something other than a broker may have written this log.",
    check=32,
)
PRODUCER_EPOCH_FALLS: Final = FindingCode(
    "producer-epoch-falls",
    Severity.INFO,
    "A batch of a producer has a lower epoch than an earlier batch. A fenced producer wrote it, as "
    "is possible after the broker has dropped the producer's state.",
    "The broker logs a warning when it replays the log, and continues.",
    "Nothing to do, unless two instances of that producer ran at the time.",
    check=32,
)
SEQUENCE_GAP: Final = FindingCode(
    "sequence-gap",
    Severity.WARNING,
    "The sequence numbers of a producer are not consecutive, and no compaction removed batches "
    "between them: batches are missing, or occur twice.",
    "The broker does not check sequence numbers again once they are written.",
    "Compare with another replica: kdump dump shows the offsets, counts and sequence numbers of "
    "its batches.",
    check=33,
)
TRANSACTION_HANGING: Final = FindingCode(
    "transaction-hanging",
    Severity.ERROR,
    "A transaction has no end, and no coordinator will end it. Its last batch is older than any "
    "transaction may become (transaction.max.timeout.ms plus 5 minutes), or the log of its "
    "coordinator (__transaction_state) no longer has the transaction.",
    "The last stable offset stays at the transaction's start: consumers with read_committed read "
    "no further. On a compacted topic, the cleaner cleans nothing after that offset.",
    "While the brokers run, end the transaction with Kafka's own tool, kafka-transactions.sh "
    "abort. Give it the topic, the partition and the start offset that are shown here.",
    check=34,
)
TRANSACTION_LATE: Final = FindingCode(
    "transaction-late",
    Severity.WARNING,
    "A transaction has no end, and its last batch is older than a transaction may become by "
    "default (15 minutes plus 5). Neither the brokers' limit nor the log of its coordinator "
    "(__transaction_state) is known here.",
    "The last stable offset stays at the transaction's start: consumers with read_committed read "
    "no further. On a compacted topic, the cleaner cleans nothing after that offset.",
    "Check whether transaction.max.timeout.ms of the brokers is larger: then the transaction may "
    "still be active. kdump verify --config server.properties reads that limit. If it is not "
    "larger, end the transaction with kafka-transactions.sh abort, with the topic, the partition "
    "and the start offset that are shown here.",
    check=34,
)
TRANSACTION_OPEN: Final = FindingCode(
    "transaction-open",
    Severity.INFO,
    "A transaction is open at the end of the log. Nothing here shows that it has been open for "
    "long.",
    "Its coordinator commits or aborts it, at the latest when it times out.",
    "Nothing to do, unless the brokers allow less than the default of 15 minutes. With --config "
    "server.properties, kdump verify reads their transaction.max.timeout.ms.",
    check=34,
)
# An error, though its records can be read and are not lost: consumers of committed records get what
# may have been aborted, or stop.
TRANSACTION_END_LOST: Final = FindingCode(
    "transaction-end-lost",
    Severity.ERROR,
    "Offsets are missing after the beginning of a transaction, and its marker may be among them. "
    "No transaction index, producer snapshot or coordinator's log (__transaction_state) at hand "
    "shows whether it was committed.",
    "If the producer has a later marker, that marker ends this transaction too. Without one, the "
    "last stable offset stays at the start of the transaction.",
    "Another replica may have the marker: kdump dump --offsets shows it there. If no replica has "
    "it, decide. kdump salvage makes the records readable: it ends the transaction with a commit, "
    "and consumers with read_committed get its records even if the producer aborted them. kdump "
    "export --read-committed omits them. After kdump truncate-to-valid, a transaction without a "
    "later marker stays open until its coordinator or kafka-transactions.sh abort ends it. kdump "
    "reindex and kdump convert-v0-v2 leave the transaction indexes that depend on the marker as "
    "they are.",
    check=34,
)
DELETE_HORIZON_ODD: Final = FindingCode(
    "delete-horizon-odd",
    Severity.INFO,
    "Batches have a delete horizon, which only the cleaner of 3.1 and later sets. The topic is not "
    "compacted now, or the horizon is an impossible time.",
    "The broker uses the horizon only in cleaning: it removes tombstones and markers after that "
    "time.",
    "Nothing to do. The topic may have been compacted before.",
    check=35,
)

TXNINDEX_LENGTH: Final = FindingCode(
    "txnindex-length",
    Severity.ERROR,
    "The length of a .txnindex file is not a multiple of 34: its last entry is cut off.",
    "The broker ignores the incomplete entry, but appends after it: every later entry is misread.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_VERSION: Final = FindingCode(
    "txnindex-version",
    Severity.ERROR,
    "An entry of a .txnindex file has a version other than 0.",
    "A broker of 4.4 does not start. Earlier ones check the first of the version's two bytes only.",
    "While the broker is stopped, kdump reindex rebuilds the file. Or, if the segment's log is "
    "sound, delete its .index and .txnindex while the broker is stopped: the broker rebuilds them "
    "at its start.",
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_BELOW_SEGMENT: Final = FindingCode(
    "txnindex-below-segment",
    Severity.WARNING,
    "An entry of a .txnindex file ends below the base offset in its segment's name.",
    "The broker recovers the segment at its start, which rebuilds its indexes.",
    "Let the broker start, or run kdump reindex first. If anything else is wrong in this "
    "partition, copy the directory before that.",
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_ORDER: Final = FindingCode(
    "txnindex-order",
    Severity.ERROR,
    "The entries of a .txnindex file do not rise, or an entry ends before it begins.",
    "The broker trusts the index: consumers with read_committed may receive aborted records or "
    "miss committed records.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_UNFOUNDED: Final = FindingCode(
    "txnindex-unfounded",
    Severity.ERROR,
    "An entry of a .txnindex file names an abort that is not in the log.",
    "The broker trusts the index: consumers with read_committed drop that producer's records up to "
    "its next abort, including committed records.",
    REINDEX,
    check=16,
    cure=Cure.REINDEX,
)
TXNINDEX_MISSING_ENTRY: Final = FindingCode(
    "txnindex-missing-entry",
    Severity.ERROR,
    "The log holds an aborted transaction that the .txnindex file does not name, or names only "
    "from a later offset on.",
    "The broker does not detect this: consumers with read_committed receive the aborted records.",
    REINDEX,
    check=17,
    cure=Cure.REINDEX,
)
TXNINDEX_STABLE_OFFSET: Final = FindingCode(
    "txnindex-stable-offset",
    Severity.ERROR,
    "An entry of a .txnindex file has a last stable offset that is too high: another transaction "
    "was open below that offset and was aborted later, or that offset is above the log end "
    "offset.",
    "The broker ends its search for aborted transactions at that entry: consumers with "
    "read_committed may receive aborted records.",
    REINDEX,
    check=18,
    cure=Cure.REINDEX,
)
TXNINDEX_STALE: Final = FindingCode(
    "txnindex-stale",
    Severity.WARNING,
    "A .txnindex file does not match its segment, which the next start recovers after the unclean "
    "stop.",
    "The broker rebuilds the file from the log in recovery.",
    "Let the broker start, or run kdump reindex first.",
    check=17,
    cure=Cure.REINDEX,
)

SNAPSHOT_DISAGREES: Final = FindingCode(
    "snapshot-disagrees",
    Severity.ERROR,
    "A producer snapshot contradicts the log up to its offset.",
    "The broker trusts the snapshot. It may accept batches twice, refuse a producer's next batch, "
    "or treat an open transaction as ended.",
    "While the broker is stopped, kdump reindex rewrites the snapshot from the log, if the log "
    "reaches back far enough. Otherwise delete the snapshot: the broker then uses an older "
    "snapshot and reads the log after it.",
    check=20,
    cure=Cure.REINDEX,
)

LEADER_EPOCH_FALLS: Final = FindingCode(
    "leader-epoch-falls",
    Severity.WARNING,
    "A batch has a lower leader epoch than the batches before it. The epoch, which no checksum "
    "covers, was changed, or this log is from another cluster.",
    "The broker ignores the lower epoch. After a change of leader, followers may truncate to a "
    "wrong offset.",
    "No repair changes the epoch of a batch. Compare the leader epochs with another replica: "
    "kdump dump shows them. If they differ and that replica is in sync, move this partition "
    "directory out of the log directory: the broker then fetches the whole partition from the "
    "leader.",
    check=23,
)
LEADER_EPOCH_NEGATIVE: Final = FindingCode(
    "leader-epoch-negative",
    Severity.ERROR,
    "A batch has a leader epoch below -1, which no broker writes. No checksum covers the epoch.",
    "The broker serves the batch. A follower that fetches it refuses the epoch, and replication "
    "stops there.",
    REPLICA_FIRST,
    check=23,
)
LEADER_EPOCH_ABSENT: Final = FindingCode(
    "leader-epoch-absent",
    Severity.WARNING,
    "A batch of magic 2 has no leader epoch. The cleaner of 4.0 and later omits the epoch when it "
    "rewrites messages of magic 0 or 1. No checksum covers the epoch.",
    "The broker serves the batch. A follower of 3.9 or later refuses its epoch of -1, and "
    "replication stops there: a new replica never gets in sync. Replicas that have the batch "
    "continue.",
    "While the broker is stopped, kdump convert-v0-v2 sets the leader epoch that belongs to the "
    "offset.",
    check=23,
    cure=Cure.CONVERT,
)
EPOCHS_MISMATCH: Final = FindingCode(
    "epochs-mismatch",
    Severity.ERROR,
    "Batches have a different leader epoch than leader-epoch-checkpoint gives for their offsets.",
    "The broker trusts the checkpoint: after a change of leader, replicas may truncate to a wrong "
    "offset and diverge.",
    "If another replica is in sync, move this partition directory out of the log directory: the "
    "broker then fetches the whole partition from the leader. Otherwise, while the broker is "
    "stopped, kdump reindex writes the file from the leader epochs of the batches.",
    check=23,
    cure=Cure.EPOCHS,
)
EPOCHS_MISSING: Final = FindingCode(
    "epochs-missing",
    Severity.WARNING,
    "The leader-epoch-checkpoint lacks leader epochs that batches have.",
    "A follower whose last leader epoch is missing here may truncate more of its log than "
    "necessary. Recovery adds the epochs above the last epoch in the file.",
    "While the broker is stopped, kdump reindex adds the leader epochs of the batches.",
    check=23,
    cure=Cure.EPOCHS,
)
