"""Errors with which a leader answers the fetch of a follower, by their exceptions.

Spec: AbstractFetcherThread of 0.8.2 to 4.4, kafka.common.ErrorMapping of 0.8.2.2, and
org.apache.kafka.common.protocol.Errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kdump.audit.checks import batches, indexes
from kdump.audit.finding_code import FindingCode
from kdump.commands.explain.broker_log.message import BrokerMessage, Subject, answer_alike
from kdump.commands.explain.broker_log.rows.answers import FETCHED, FETCHED_FROM, LEADER_LOG


def _rows(
    kind: Subject, happened: str, advice: str, *names: str, codes: tuple[FindingCode, ...] = ()
) -> Iterator[BrokerMessage]:
    """Yield rows for these exceptions in the line, as before 0.11, and in the line below it."""
    patterns = (
        f"Error for partition {{partition}} {between}.{name}"
        for between in ("{}", "{}\n{}")
        for name in names
    )
    yield from answer_alike(happened, advice, tuple(patterns), codes, kind)


ROWS: Final = (
    *_rows(
        Subject.NOTE,
        "The broker that a follower fetched from did not lead the partition at that moment, as "
        "during an election, the restart of a broker or a move of replicas. The follower tries "
        "again.",
        "Nothing to do. If the line recurs for minutes, no broker leads the partition: read the "
        "log of the controller.",
        "NotLeaderForPartitionException",
        "NotLeaderOrFollowerException",
        "LeaderNotAvailableException",
        "ReplicaNotAvailableException",
        "BrokerNotAvailableException",
        "ControllerMovedException",
        "FencedLeaderEpochException",
        "UnknownLeaderEpochException",
        "OffsetNotAvailableException",
    ),
    *_rows(
        Subject.ELSEWHERE,
        "The leader does not, or no longer, host the partition that a follower fetched.",
        "Nothing to do while a topic is created or deleted, or replicas move.",
        "UnknownTopicOrPartitionException",
        "UnknownTopicIdException",
        "InconsistentTopicIdException",
    ),
    *_rows(
        Subject.DISK,
        "The leader answered that a message of its log is corrupt. This follower wrote nothing and "
        "fetches again: the replica makes no progress.",
        FETCHED_FROM,
        "InvalidMessageException",
        "CorruptRecordException",
        codes=FETCHED,
    ),
    *_rows(
        Subject.DISK,
        "The leader answered that a message of its log has an impossible size. This follower wrote "
        "nothing and fetches again: the replica makes no progress.",
        FETCHED_FROM,
        "InvalidMessageSizeException",
        codes=(batches.BATCH_SIZE_IMPOSSIBLE, indexes.INDEX_MISPLACED),
    ),
    *_rows(
        Subject.NOTE,
        "A follower asked for an offset that its leader does not have, and continues at another "
        "offset.",
        "Nothing to do after a change of leader or a long downtime. The next lines say whether the "
        "follower lagged or was ahead of its leader.",
        "OffsetOutOfRangeException",
    ),
    *_rows(
        Subject.ELSEWHERE,
        "A message is larger than the follower may fetch.",
        "Set replica.fetch.max.bytes of the brokers at least as high as message.max.bytes, and as "
        "max.message.bytes of the topics.",
        "MessageSizeTooLargeException",
        "MessageSetSizeTooLargeException",
        "RecordTooLargeException",
        "RecordBatchTooLargeException",
        "InvalidFetchSizeException",
    ),
    *_rows(
        Subject.ELSEWHERE,
        "The leader did not answer the fetch of a follower in time, or the connection failed.",
        "Check that the leader runs, and the network.",
        "RequestTimedOutException",
        "TimeoutException",
        "NetworkException",
        "DisconnectException",
    ),
    *_rows(
        Subject.ELSEWHERE,
        "The leader does not allow this broker to fetch.",
        "Check the listeners, users and permissions of the brokers (super.users, ACLs).",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
    ),
    *_rows(
        Subject.ELSEWHERE,
        "The release of the leader does not support the fetch of this follower.",
        "Check inter.broker.protocol.version and the message format of the topic.",
        "UnsupportedForMessageFormatException",
        "UnsupportedVersionException",
    ),
    *_rows(
        Subject.CONSEQUENCE,
        "The log directory of the leader's replica went offline. The leader cannot send this "
        "follower its records.",
        LEADER_LOG,
        "KafkaStorageException",
    ),
    *answer_alike(
        "The leader could not answer the fetch of this follower.",
        LEADER_LOG,
        (
            "Error for partition {partition} to broker",
            "Error for partition {partition} from broker",
            "Error for partition {partition} at offset {offset}",
        ),
        kind=Subject.CONSEQUENCE,
        outer=True,
    ),
)
