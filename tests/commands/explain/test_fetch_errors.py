"""What ``explain`` says of the error with which a leader answers the fetch of a follower.

Spec: the exceptions of kafka.common.ErrorMapping of 0.8.2.2 and of
org.apache.kafka.common.protocol.Errors of 0.9 to 4.4, and what ReplicaManager.readFromLocalLog can
answer a fetch with.
"""

from __future__ import annotations

import pytest

from kdump.commands.explain.broker_log.message import Subject
from kdump.commands.explain.broker_log.table import recognize

ELECTION = (
    "NotLeaderForPartitionException", "NotLeaderOrFollowerException", "LeaderNotAvailableException",
    "ReplicaNotAvailableException", "BrokerNotAvailableException", "ControllerMovedException",
    "FencedLeaderEpochException", "UnknownLeaderEpochException", "OffsetNotAvailableException",
)  # fmt: skip
DATA = ("InvalidMessageException", "InvalidMessageSizeException", "CorruptRecordException")
SIZE = (
    "MessageSizeTooLargeException", "MessageSetSizeTooLargeException", "RecordTooLargeException",
    "RecordBatchTooLargeException", "InvalidFetchSizeException",
)  # fmt: skip
RANGE = ("OffsetOutOfRangeException",)
ELSEWHERE = (
    "RequestTimedOutException", "TimeoutException", "NetworkException", "DisconnectException",
    "TopicAuthorizationException", "ClusterAuthorizationException",
    "UnsupportedForMessageFormatException", "UnsupportedVersionException",
    "UnknownTopicOrPartitionException", "UnknownTopicIdException", "InconsistentTopicIdException",
)  # fmt: skip
LEADER = ("KafkaStorageException", "UnknownServerException", "UnknownException")

#: As brokers of 0.8, of 0.9 and 0.10, of 0.11 and 1.0, and later ones write the line.
FORMS = (
    "ERROR [ReplicaFetcherThread-0-2], Error for partition [orders,3] to broker 2:"
    "class kafka.common.{} (kafka.server.ReplicaFetcherThread)",
    "ERROR [ReplicaFetcherThread-0-2], Error for partition [orders,3] to broker 2:"
    "org.apache.kafka.common.errors.{}: so it is. (kafka.server.ReplicaFetcherThread)",
    "ERROR [ReplicaFetcherThread-0-2]: Error for partition orders-3 to broker 2:"
    "org.apache.kafka.common.errors.{}: so it is. (kafka.server.ReplicaFetcherThread)",
    "ERROR [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Error for partition orders-3 from "
    "broker 2 (kafka.server.ReplicaFetcherThread)\norg.apache.kafka.common.errors.{}: so it is.",
    "ERROR [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Error for partition orders-3 at "
    "offset 7 (kafka.server.ReplicaFetcherThread)\norg.apache.kafka.common.errors.{}: so it is.",
)


def subject(form: str, name: str, *says: str) -> Subject:
    found = recognize(form.format(name))
    assert found is not None
    assert found.location.partition == "orders-3"
    for word in says:
        assert word in found.message.happened
    return found.message.kind


@pytest.mark.parametrize("form", FORMS)
def test_the_exception_decides(form: str) -> None:
    for name in (*ELECTION, *RANGE):
        assert subject(form, name) is Subject.NOTE, name
    for name in DATA:
        assert subject(form, name, "leader") is Subject.DISK, name
    for name in (*SIZE, *ELSEWHERE):
        assert subject(form, name) is Subject.ELSEWHERE, name
    for name in LEADER:
        assert subject(form, name, "leader") is Subject.CONSEQUENCE, name


@pytest.mark.parametrize("form", FORMS)
def test_no_answer_says_that_the_directory_of_the_follower_is_offline(form: str) -> None:
    for name in (*ELECTION, *DATA, *SIZE, *RANGE, *ELSEWHERE, "UnknownServerException", "Unheard"):
        found = recognize(form.format(name))
        assert found is not None
        assert "offline" not in found.message.happened, name


def test_the_size_of_a_batch_is_told_from_its_checksum() -> None:
    found = recognize(FORMS[0].format("InvalidMessageSizeException"))
    assert found is not None
    assert found.codes[0].name == "batch-size-impossible"
