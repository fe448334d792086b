"""Messages about the partitions of coordinators: what was read when the broker became the leader.

Spec: OffsetManager of 0.8, GroupMetadataManager of 0.9 to 3.9, TransactionStateManager of 0.11 to
4.4, CoordinatorLoaderImpl, CoordinatorRuntime and SharePartition of 3.6 to 4.4. After a failure,
the first three serve what they have read. The last does not serve the partition.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, read_errors
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import FIRST, NOTHING

_READ: Final = (
    batches.BATCH_CRC_MISMATCH,
    batches.RECORDS_UNREADABLE,
    batches.BATCH_SIZE_IMPOSSIBLE,
    batches.RECORDS_UNDECODABLE,
)
#: The findings whose entries do not quote the lines.
_UNQUOTED: Final = _READ[:3]
_DECODED: Final = (batches.RECORDS_UNREADABLE, batches.BATCH_CRC_MISMATCH)
_DEEP: Final = (
    "Run kdump verify --deep on the partition, and kdump groups or kdump transactions: they read "
    "the records after it too. If another replica is in sync, make that replica the leader first."
)
_SHARE_STATE: Final = (
    "Run kdump verify on the partitions of __share_group_state, and read the log of the broker "
    "that leads them."
)

ROWS: Final = (
    *answer_alike(
        "A group coordinator could not read its partition to the end. It serves the groups with "
        "older committed offsets, or with none: consumers then start where auto.offset.reset says.",
        "Stop the consumers of these groups: what they commit replaces their offsets. Run kdump "
        "verify on the partition, then kdump groups: it shows the offsets after the fault too. If "
        "another replica is in sync, make that replica the leader.",
        ("Error in loading offsets from {partition}",),
        _READ,
        outer=True,
        quoted=("Error loading offsets from {partition}",),
        unquoted=_UNQUOTED,
    ),
    *answer_alike(
        "A transaction coordinator could not read its partition to the end. It does not know the "
        "transactional ids after the fault. Their producers begin anew, and what they left open "
        "stays open: consumers of committed records stop there.",
        "Run kdump verify on the partition, then kdump transactions on the log directory: it lists "
        "open transactions. If another replica is in sync, make that replica the leader.",
        (),
        _READ,
        outer=True,
        quoted=("Error loading transactions from transaction log {partition}",),
        unquoted=_UNQUOTED,
    ),
    *answer_alike(
        "A coordinator could not read its partition, and does not serve its groups or share "
        "groups: clients get NOT_COORDINATOR until another broker leads the partition, or this "
        "broker has read it again.",
        "Run kdump verify on the partition. Of __consumer_offsets, kdump groups shows the offsets "
        "after the fault too. If another replica is in sync, make that replica the leader first.",
        (),
        _READ,
        outer=True,
        quoted=(
            "Failed to load metadata from {partition} with epoch {} due to",
            "Deserializing record {} from {partition} failed",
        ),
        unquoted=_UNQUOTED,
    ),
    # Why it could not.
    *answer_alike(
        "The broker no longer served the partition when its coordinator read it.",
        "Nothing to do after a change of leader. If an earlier line says why the broker does not "
        "serve the partition, that line names the cause.",
        (
            "from {partition} because the partition is not online or is no longer the leader",
            "Could not load records from {partition} because the log does not exist.",
            "Cannot load coordinator {partition} in state {}",
            "Transaction expiration for partition {partition} failed because the log config was",
            "Attempted to load offsets and group metadata from {partition}, but found no log",
            "Attempted to load transaction metadata from {partition}, but found no log",
            "No log found for {partition}",
        ),
        kind=Subject.CONSEQUENCE,
        decides=True,
    ),
    BrokerMessage(
        "Coordinator loader is closed.",
        "The broker shut down while a coordinator read its partition.",
        NOTHING,
        kind=Subject.NOTE,
        decides=True,
    ),
    BrokerMessage(
        "Control batches are not supported yet.",
        "The group coordinator of this release cannot read offsets that transactions committed.",
        "Run a later release, or turn the new group coordinator off.",
        kind=Subject.ELSEWHERE,
        decides=True,
    ),
    *answer_alike(
        "A coordinator could not decode a record of its partition. The record is corrupt, or from "
        "a later release.",
        _DEEP,
        (
            "Could not read version from {}'s buffer.",
            "Could not read record with version {} from {}'s buffer due to",
            "from the transaction log message key",
            "from the transaction log message value",
            "Unknown version {} from the transaction log message",
            "Unknown transaction log message {} schema version {}",
            "Unknown message key schema version {}",
            "Unknown group metadata message version",
            "Unknown group metadata version {}",
            "Unknown version {} for group metadata message",
            "Unknown offset message version",
            "Unknown offset schema version {}",
            "Unexpected message key {} while loading offsets and group metadata",
            "Group metadata/offset entry key should not be null",
            "Offset entry key should not be null",
            "Transaction state log's key should not be null",
            "Unknown transaction state id {} from the transaction status message",
            "Received an unknown record type {} in {}",
            "record for an unknown group type: {}",
        ),
        _DECODED,
    ),
    *answer_alike(
        "The offsets of a coordinator's partition did not rise.",
        "Verify the partition.",
        (
            "New last written offset {} of {partition} must be {} than {offset}",
            "New committed offset {} of {partition} must be",
            "New committed offset {} of {partition}must be",
            "New offset {} of {partition} must be smaller than {offset}",
        ),
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        "A record of a coordinator's partition contradicts those before it. One of them is corrupt "
        "(coordinators check no checksums), records between them are missing, or a defect of the "
        "release wrote them that way. The groups of the partition get no answer.",
        "Run kdump verify on the partition, then kdump groups: it names the groups. If another "
        "replica is in sync, make that replica the leader first.",
        (
            "Replaying record {} from {partition} at offset {offset} with producer id",
            "Received a tombstone record to delete ",
        ),
        (batches.BATCH_CRC_MISMATCH, batches.RECORDS_UNREADABLE),
    ),
    # Share groups. Their state is in a partition of __share_group_state, often of another broker.
    *answer_alike(
        "The broker could not get the state of a share group, which is in __share_group_state.",
        f"{FIRST} {_SHARE_STATE}",
        (
            "Failed to initialize the share partition",
            "Share partition failed to load ",
        ),
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Invalid state batch found for the share partition",
        "The state of a share group in __share_group_state contradicts itself.",
        _SHARE_STATE,
    ),
    # Nothing that a disk does.
    *answer_alike(
        "A coordinator found a record that this release does not know, and ignored it, as after a "
        "downgrade.",
        NOTHING,
        (
            "while loading offsets and group metadata from {partition}. Ignoring it.",
            "while loading transaction state from {partition}. Ignoring it.",
            "Loaded group {} with an unknown group type",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A batch of a coordinator's partition is larger than the coordinator's read buffer. The "
        "coordinator enlarged the buffer.",
        NOTHING,
        (
            "Loaded metadata from {partition} with buffer larger ({} bytes) than",
            "Loaded offsets and group metadata from {partition} with buffer larger",
            "Loaded transaction metadata from {partition} with buffer larger",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A coordinator found its partition changed under it, as after a change of leader.",
        "Nothing to do, unless the line recurs: in that case, verify the partition.",
        (
            "Unexpected unload of active group {} while loading partition {partition}",
            "Unexpected unload of acitve group {} while loading partition {partition}",
            "Failed to mark {} stale offsets for deletion in {partition}",
            "Failed to mark {} expired offsets for deletion in {partition}",
        ),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "The state of a coordinator did not match its partition, or was no longer needed. The "
        "coordinator reads the partition again, or already did.",
        NOTHING,
        (
            "The state machine of the coordinator {partition} is out of sync with the underlying",
            "Unloaded transaction metadata {} from {partition} as part of loading metadata",
            "Failed to unload metadata for {partition}",
            "Failed to unload coordinator for {partition} due to",
        ),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "The metadata cache for txn partition {} has already exist with epoch",
        "A transaction coordinator read its partition twice, by a defect of the release.",
        "Restart the broker: until then, producers of the partition get no answer.",
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "A coordinator reads its partition, as after a change of leader. Clients try again.",
        "If it lasts for minutes, look for a line about a failure in the log of the partition's "
        "leader, and run kdump space on its log directory: it shows a partition that the cleaner "
        "no longer cleans, which takes long to read.",
        (
            "The coordinator is loading and hence can't process requests",
            "Broker: Coordinator load in progress",
            "CoordinatorLoadInProgressException",
            "CoordinatorLoadInProgressError",
            "GroupLoadInProgressError",
        ),
        kind=Subject.NOTE,
        outer=True,
    ),
    *answer_alike(
        "A coordinator could not write to its partition. Its clients try again.",
        "The stack trace below the line names the cause.",
        (
            "Failed to write records to {partition} due to an unexpected error: {}",
            "Failed to write the transaction marker to {partition} due to an unexpected error: {}",
            "Writing records to {partition} failed due to: {}",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
)
