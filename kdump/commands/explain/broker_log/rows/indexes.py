"""Messages about offset, time and transaction indexes and producer snapshots.

Spec: AbstractIndex, ProducerStateManager, ProducerAppendInfo and LeaderEpochFileCache of 3.9 to
4.4.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import (
    batches,
    file_names,
    indexes,
    missing_offsets,
    partition_files,
    producers,
    read_errors,
    segments,
    transactions,
    txn_indexes,
)
from kdump.audit.startup import room
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import BAD_BATCH, NOTHING

_REPLAY: Final = (
    "The broker found this when it replayed the log to rebuild its producer state, and did not "
    "start."
)

ROWS: Final = (
    BrokerMessage(
        "Offset index file {path} does not exist",
        "A segment had no .index file. The broker read the whole segment and rebuilt its indexes.",
        "Nothing is lost unless a line about invalid messages follows.",
        (indexes.INDEX_MISSING,),
        outer=True,
    ),
    BrokerMessage(
        "Integer overflow for offset: {offset} ({path})",
        "An offset is too far above the base offset in its index file's name. The append failed.",
        "Verify the partition.",
        (batches.OFFSET_OVERFLOW, batches.BATCH_BELOW_SEGMENT),
    ),
    *answer_alike(
        "An index has fewer entries than the broker tried to read.",
        "Find out which other process writes to the directory.",
        (
            "Attempt to fetch the {}th entry from index {path}, which has size {}",
            "Attempt to fetch the {}th entry from time index {path} which has size {}",
        ),
        (read_errors.CHANGED_WHILE_READ,),
    ),
    BrokerMessage(
        "unsafe memory access operation",
        "The broker could not read or write a page of a mapped index. The file system is full, the "
        "disk failed, or another process truncated the file. The broker did not start, or it "
        "exited.",
        "Check the free space and the system log first. If neither shows a problem, verify the log "
        "directory while the broker is stopped.",
        (room.DISK_FULL, read_errors.UNREADABLE),
        quoted=True,
        unquoted=(read_errors.UNREADABLE,),
    ),
    BrokerMessage(
        "Attempted to complete transaction {} on partition {partition} which was not started",
        "A producer snapshot and the log contradict each other: the log ends a transaction that "
        "did not begin.",
        "Verify the partition. While the broker is stopped, kdump reindex rebuilds the snapshots.",
        (producers.SNAPSHOT_DISAGREES,),
    ),
    # Indexes.
    BrokerMessage(
        "Could not find offset index file corresponding to log file {path}, recovering segment",
        "A segment had no .index file. The broker read the whole segment and rebuilt its indexes.",
        "Nothing is lost unless a line about invalid messages follows.",
        (indexes.INDEX_MISSING,),
        quoted=True,
    ),
    BrokerMessage(
        "Found a corrupted index file corresponding to log file {path} due to {}",
        "An index failed its check. The broker read the whole segment and rebuilt its indexes.",
        "Nothing is lost unless a line about invalid messages follows.",
        (
            indexes.INDEX_LENGTH,
            indexes.INDEX_ORDER,
            indexes.TIMEINDEX_LENGTH,
            indexes.TIMEINDEX_ORDER,
            txn_indexes.TXNINDEX_BELOW_SEGMENT,
        ),
        quoted=True,
        unquoted=(txn_indexes.TXNINDEX_BELOW_SEGMENT,),
    ),
    BrokerMessage(
        "Index file {path} is corrupt, found {} bytes which is neither positive nor a multiple",
        "The last entry of an .index file is incomplete.",
        "Nothing is lost: recovery or kdump reindex rebuilds the file.",
        (indexes.INDEX_LENGTH,),
        quoted=True,
    ),
    BrokerMessage(
        "Time index file {path} is corrupt, found {} bytes which is neither positive nor a "
        "multiple",
        "The last entry of a .timeindex file is incomplete.",
        "Nothing is lost: recovery or kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_LENGTH,),
        quoted=True,
    ),
    BrokerMessage(
        "Corrupt index found, index file {path} has non-zero size but the last offset",
        "The last entry of an .index file is below the base offset in its segment's name.",
        "Nothing is lost: recovery or kdump reindex rebuilds the file.",
        (indexes.INDEX_ORDER,),
        quoted=True,
    ),
    BrokerMessage(
        "Corrupt time index found, time index file ({path}) has non-zero size but the",
        "The entries of a .timeindex file do not rise.",
        "Nothing is lost: recovery or kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_ORDER,),
        quoted=True,
    ),
    BrokerMessage(
        "Found an orphaned index file {path}, with no corresponding log file.",
        "An index file existed without the .log of its segment. The broker deleted the index file.",
        "If the .log was not deleted on purpose, a segment is missing: verify the partition.",
        (file_names.INDEX_ORPHAN, missing_offsets.SEGMENT_MISSING),
        quoted=True,
    ),
    *answer_alike(
        "A new entry of an .index file was not above the last entry. The index extends past the "
        "end of the log, or offsets occur twice. The append failed, or recovery emptied the "
        "segment.",
        "Verify the partition. While the broker is stopped, kdump reindex rebuilds the index.",
        (
            "Attempt to append an offset ({offset}) to position {} no larger than the last offset "
            "appended ({}) to {path}",
        ),
        (batches.OFFSETS_NOT_INCREASING, indexes.INDEX_BEYOND_LOG),
        quoted=(
            "Attempt to append an offset {offset} to position {} no larger than the last offset "
            "appended ({}) to {path}",
        ),
        unquoted=(indexes.INDEX_BEYOND_LOG,),
    ),
    BrokerMessage(
        "Attempt to append an offset ({offset}) to slot {} no larger than the last offset appended "
        "({}) to {path}",
        "A new entry of a .timeindex file was not above the last entry: the index extends past the "
        "end of the log. The append failed.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_BEYOND_LOG,),
        quoted=True,
    ),
    BrokerMessage(
        "Attempt to append a timestamp ({}) to slot {} no larger than the last timestamp appended",
        "A new entry of a .timeindex file had a lower timestamp than the last entry. The append "
        "failed.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (indexes.TIMEINDEX_BEYOND_LOG, indexes.TIMEINDEX_TOO_HIGH),
    ),
    *answer_alike(
        "An index is full although its segment is not. This happens after an unclean shutdown with "
        "a very small segment.index.bytes, or with a padded index. The append or the recovery "
        "failed.",
        "While the broker is stopped, kdump reindex rebuilds the file. Raise segment.index.bytes.",
        (
            "Attempt to append to a full index (size = {})",
            "Attempt to append to a full time index (size = {})",
        ),
        (segments.INDEX_PADDED_CLEAN, segments.TIMEINDEX_PADDED_CLEAN),
    ),
    BrokerMessage(
        "entries but file position in index is {}",
        "An index file changed while the broker had it mapped.",
        "Find out which other process writes to the directory.",
        (read_errors.CHANGED_WHILE_READ,),
    ),
    BrokerMessage(
        "Unexpected aborted transaction version {} in transaction index {path}",
        "An entry of a .txnindex file has a version other than 0. The broker did not start.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (txn_indexes.TXNINDEX_VERSION,),
        quoted=True,
    ),
    BrokerMessage(
        "Last offset of aborted transaction {} in index {path} is less than start offset {offset}",
        "An entry of a .txnindex file ends below the base offset in its segment's name. The broker "
        "recovered the segment and rebuilt its indexes.",
        "Nothing is lost unless a line about invalid messages follows.",
        (txn_indexes.TXNINDEX_BELOW_SEGMENT,),
        quoted=True,
    ),
    BrokerMessage(
        "The last offset of appended transactions must increase sequentially, but {} is not "
        "greater than current last offset {offset} of index {path}",
        "The entries of a .txnindex file do not rise: the file extends past the end of the log.",
        "While the broker is stopped, kdump reindex rebuilds the file.",
        (txn_indexes.TXNINDEX_ORDER,),
        quoted=True,
    ),
    *answer_alike(
        "The broker could not read a .txnindex file from the disk.",
        "Check the system log for disk errors.",
        (
            "Failed read position from the transaction index {path}",
            "Failed to read from the transaction index {path}",
        ),
        (read_errors.UNREADABLE,),
    ),
    *answer_alike(
        "The broker could not unmap an index.",
        NOTHING,
        ("Error unmapping index {path}", "Unable to unmap the mapped buffer: {path}"),
        kind=Subject.NOTE,
    ),
    # Snapshots and producers.
    BrokerMessage(
        "Failed to load producer snapshot from '{path}':",
        "The broker could not read a producer snapshot and deleted it. It loaded the next older "
        "snapshot, and read all batches after that snapshot.",
        "Nothing is lost.",
        (partition_files.SNAPSHOT_UNREADABLE,),
    ),
    *answer_alike(
        "A producer snapshot is corrupt. The broker deleted it.",
        "Nothing is lost.",
        ("Snapshot failed schema validation: {}",),
        (partition_files.SNAPSHOT_UNREADABLE,),
        quoted=(
            "Snapshot is corrupt (CRC is no longer valid). Stored crc: {}. Computed crc: {}",
            "Snapshot contained an unknown file version {}",
        ),
    ),
    BrokerMessage(
        "Deleted producer state snapshot {path}",
        "The broker deleted a producer snapshot that no segment needs, or that recovery writes "
        "again.",
        NOTHING,
        (partition_files.SNAPSHOT_STRAY,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Expected transactional write from producer {} at offset {offset} in partition {partition}",
        "A non-transactional batch is inside an open transaction of its producer. " + _REPLAY,
        BAD_BATCH,
        (transactions.TRANSACTION_MIXED,),
        quoted=True,
    ),
    BrokerMessage(
        "Invalid control record type for end transaction marker",
        "A control batch holds a record that does not end a transaction. " + _REPLAY,
        BAD_BATCH,
        (transactions.MARKER_UNKNOWN,),
        quoted=True,
    ),
    *answer_alike(
        "A control batch holds a record that cannot be read. " + _REPLAY,
        BAD_BATCH,
        (
            "Invalid value size found for end control record key",
            "Invalid value size found for end transaction marker",
        ),
        (transactions.MARKER_UNREADABLE,),
        quoted=(
            "Invalid value size found for control record key",
            "Invalid version found for control record",
            "Invalid version found for end transaction marker",
        ),
    ),
    BrokerMessage(
        "Epoch of producer {} at offset {offset} in {partition} is {}, which is",
        "A log that the broker replayed has a batch with a lower producer epoch than an earlier "
        "batch of that producer.",
        NOTHING,
        (transactions.PRODUCER_EPOCH_FALLS,),
        kind=Subject.NOTE,
        quoted=True,
    ),
    BrokerMessage(
        "Detected invalid coordinator epoch for producerId {} at offset {offset} in partition "
        "{partition}:",
        "A log that the broker replayed has a transaction marker of an older coordinator.",
        NOTHING,
        kind=Subject.NOTE,
    ),
    # Leader epochs.
    BrokerMessage(
        "New epoch entry {} caused truncation of conflicting entries {}",
        "The epochs or offsets of leader-epoch-checkpoint did not rise, or the epoch of a new "
        "leader contradicts them. The broker dropped the earlier lines.",
        "Nothing is lost. If the broker logged this line at startup, verify the partition. If the "
        "broker was running, check whether brokers of two clusters share the topic.",
        (partition_files.EPOCHS_ORDER,),
        quoted=True,
    ),
    BrokerMessage(
        "Cleared entries {} from epoch cache after truncating to end offset {offset}",
        "leader-epoch-checkpoint had epochs that start after the log end offset. The broker "
        "dropped them.",
        "The end of the log may be lost, as after a power failure. Compare this replica with "
        "another replica.",
        (partition_files.EPOCHS_BEYOND_END,),
        quoted=True,
    ),
    BrokerMessage(
        "Clearing leader epoch cache after unexpected append with message format v{}",
        "A message of an old format was appended. The broker dropped the leader epochs of the log.",
        "kdump convert-v0-v2 converts old messages to message format v2.",
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Deleting non-empty leader epoch cache due to incompatible message format {}",
        "The topic's message format is old. The broker dropped the leader epochs of the log.",
        "kdump convert-v0-v2 converts old messages to message format v2.",
        kind=Subject.NOTE,
    ),
)
