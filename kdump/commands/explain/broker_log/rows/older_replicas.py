"""Messages about replicas that only brokers before 3.0 log.

Spec: the classes of kafka.server and kafka.cluster of 0.8.2.2, 0.10.2.2, 1.1.1 and 2.8.2.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.checks import batches, epochs, partition_files, read_errors, topic, transactions
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import BAD_BATCH, DISK, FIRST

_READ: Final = "The stack trace below the line names the cause. Verify the partition."

ROWS: Final = (
    # Replicas.
    *answer_alike(
        "This follower's log is longer than its leader's log: the leader lost records, as after a "
        "power failure or on an empty disk. The broker exited rather than truncate its log.",
        "Compare the replicas before you start this broker again or allow an unclean leader "
        "election: this replica may hold records that the leader lost.",
        (
            "Exiting because log truncation is not allowed for partition {partition}, current "
            "leader's latest offset {offset} is less than replica's latest offset {}",
            "Exiting because log truncation is not allowed for topic {}",
            "Current leader {}'s latest offset {offset} is less than replica {}'s latest offset {}",
        ),
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
    ),
    BrokerMessage(
        "Current offset {offset} for partition {partition} out of range; reset offset to {}",
        "A follower asked for an offset that its leader does not have, and continued at another "
        "offset.",
        "Nothing to do after a change of leader or a long downtime. The next lines say whether the "
        "follower lagged or was ahead of its leader.",
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "A follower was ahead of its leader, and truncated its log to the leader's log end offset.",
        "After an unclean leader election, or if the leader lost its disk, records are lost: "
        "compare the replicas.",
        (
            "for partition {partition} reset its fetch offset from {offset} to current leader {}'s "
            "latest offset {}",
            "Future replica for partition {partition} reset its fetch offset from {offset} to "
            "current replica's latest offset",
        ),
        (partition_files.HIGH_WATERMARK_BEYOND_END,),
        kind=Subject.NOTE,
    ),
    *answer_alike(
        "The log of a follower ended before its leader's log start offset. The follower dropped "
        "its log and fetches all records again.",
        "Nothing to do if retention deleted the records while the replica was down for a long "
        "time.",
        (
            "for partition {partition} reset its fetch offset from {offset} to current leader {}'s "
            "start offset {}",
            "Reset fetch offset for partition {partition} from {offset} to current leader's start",
            "Future replica for partition {partition} reset its fetch offset from {offset} to "
            "current replica's start offset",
        ),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Based on follower's leader epoch, leader replied with an unknown offset in {partition}",
        "A follower compared leader epochs with its leader and found no common epoch. It truncated "
        "its log by offsets instead.",
        "Nothing to do after a change of leader. If the line recurs, verify the partition's "
        "leader-epoch-checkpoint on the follower and on the leader.",
        (epochs.EPOCHS_MISSING,),
        kind=Subject.NOTE,
    ),
    BrokerMessage(
        "Offset mismatch: fetched offset = {offset}, log end offset = {}",
        "The records that a follower fetched did not continue its log. The follower did not append "
        "them.",
        "Verify the partition here and on the leader.",
        (batches.OFFSETS_NOT_INCREASING,),
    ),
    *answer_alike(
        "A request for this partition failed while the broker read or wrote the log.",
        _READ,
        (
            "error processing data for partition {partition} offset {offset}",
            "Error processing data for partition {partition} offset {offset}",
            "Error while processing data for partition {partition}",
            "Error processing fetch operation on partition {partition}, offset {offset}",
            "Error processing ProducerRequest with correlation id {} from client {} on partition "
            "{partition}",
            "while processing LeaderAndIsr request correlationId {} received from controller {} "
            "epoch {} for partition {partition}",
            "Error on broker {} while processing LeaderAndIsr request",
            "Error while making broker the follower for partition {partition} {}in dir {dir}",
            "Error while making broker the follower with leader {} in dir {dir}",
            "Error while making broker the leader for partition {partition} in dir {dir}",
            "Error while making broker the leader for partition Topic: {topic}; Partition: "
            "{number};",
            "Error while making broker the follower for partition Topic: {topic}; Partition: "
            "{number};",
            "Fetch request with correlation id {} from client {} on partition {partition} failed",
            "Produce request with correlation id {} from client {} on partition {partition} failed",
            ": error while processing batch",
        ),
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    *answer_alike(
        "The replica is in a log directory that went offline.",
        FIRST,
        (
            "Partition {partition} is on an offline disk",
            "is in an offline log directory for partition {partition}",
            "for partition {partition} due to storage exception",
            "unable to delete {partition} as the local replica for the partition is in an offline",
            "The log dir {dir} is offline due to a previous IO exception",
            "Failed to delete log for {partition} because it may be in one of the offline "
            "directories {dir}",
            "for partition {partition} (last update controller epoch {}){} since the replica for "
            "the partition is offline due to disk error",
            "{partition}: unable to make leader because the replica for the partition is offline",
            "{partition}: unable to complete the become-follower state change since the replica",
        ),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
    BrokerMessage(
        "Leader for partition {partition} does not have a local log",
        "The replica is not open on this broker.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "No checkpointed highwatermark is found for partition {partition}",
        "replication-offset-checkpoint has no line for this partition, as for a new replica.",
        "Nothing to do for a new replica. Otherwise, verify the log directory.",
        kind=Subject.NOTE,
    ),
    # Leader epochs.
    *answer_alike(
        "A batch has a lower leader epoch or offset than the last line of leader-epoch-checkpoint: "
        "the file contradicts the log, or replicas of two lineages share the topic.",
        "Verify the partition, and compare it with the other replicas.",
        (
            "Received a PartitionLeaderEpoch assignment for an epoch < latestEpoch. {} for "
            "Partition: {partition}",
            "Received a PartitionLeaderEpoch assignment for an offset < latest offset {} for "
            "Partition: {partition}",
            "Received a PartitionLeaderEpoch assignment for an epoch < latestEpoch",
            "Received a PartitionLeaderEpoch assignment for an offset < latest offset",
        ),
        (partition_files.EPOCHS_ORDER, epochs.EPOCHS_MISMATCH, epochs.LEADER_EPOCH_FALLS),
    ),
    BrokerMessage(
        "Received a PartitionLeaderEpoch assignment for an epoch < 0",
        "A batch or a line of leader-epoch-checkpoint has a negative leader epoch.",
        "Verify the partition.",
        (epochs.LEADER_EPOCH_NEGATIVE, partition_files.EPOCHS_NUMBER),
    ),
    BrokerMessage(
        "Topic Id in memory: {} does not match the topic Id for partition {partition} provided in",
        "The topic id in a partition.metadata differs from the cluster's id for the topic of this "
        "name. The file or directory was copied, or the topic was created again.",
        "Find out where the directory came from before you change the file.",
        (topic.TOPIC_ID_MISMATCH,),
    ),
    BrokerMessage(
        "Error while writing to partition metadata file {path}",
        "The broker could not write a partition.metadata. The log directory went offline.",
        DISK,
        (read_errors.UNREADABLE,),
        outer=True,
    ),
    BrokerMessage(
        "Unable to propagate log dir failure via Zookeeper in KRaft mode",
        "A log directory went offline.",
        FIRST,
        kind=Subject.CONSEQUENCE,
    ),
    BrokerMessage(
        "Expected transactional write from producer {}",
        "A non-transactional batch is inside an open transaction of its producer. The broker "
        "refused it, or found it when it replayed the log.",
        BAD_BATCH,
        (transactions.TRANSACTION_MIXED,),
        outer=True,
    ),
    BrokerMessage(
        "The message contents does not match the message CRC or the message is otherwise corrupt",
        "A broker answered that a message is corrupt.",
        "If the broker answered a fetch, verify the partition on its leader.",
        (batches.BATCH_CRC_MISMATCH,),
        outer=True,
    ),
)
