"""Exceptions whose cause is not a disk: refused requests, other services.

Spec: org.apache.kafka.common.errors and the exceptions of ZooKeeper's client. A message above them
often names a partition, as if its log had failed. Exceptions that follow from a log directory
that went offline, such as NotLeaderOrFollowerException, are not here.
"""

from __future__ import annotations

from typing import Final

from kdump.commands.explain.broker_log.message import Subject, answer_alike

_LOG: Final = "The log is valid: kdump cannot help here."

ROWS: Final = (
    *answer_alike(
        "Too few replicas were in sync. The broker refused the batch and wrote nothing.",
        "Start the brokers of the other replicas, or find out why they lag. " + _LOG,
        (
            ".NotEnoughReplicasException: ",
            ".NotEnoughReplicasAfterAppendException: ",
            "Number of insync replicas for partition {partition} is",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "A producer used an identity or a sequence number that the broker does not accept: a newer "
        "instance replaced it, or retention deleted its records. The broker wrote nothing.",
        "See the producer's own log. " + _LOG,
        (
            "is no longer valid in partition {partition}: {} (request epoch)",
            "is smaller than the last seen epoch",
            ".ProducerFencedException: ",
            ".InvalidProducerEpochException: ",
            ".UnknownProducerIdException: ",
            ".InvalidTxnStateException: ",
            ".InvalidPidMappingException: ",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The request went to a broker that does not, or no longer, host the partition.",
        "Nothing to do while a topic is created or deleted, or replicas move. " + _LOG,
        (
            ".UnknownTopicOrPartitionException: ",
            ".UnknownTopicIdException: ",
            ".InconsistentTopicIdException: ",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "Authorization or authentication of a client or another broker failed.",
        "Check the listeners, users and permissions (super.users, ACLs). " + _LOG,
        (
            ".ClusterAuthorizationException:",
            ".TopicAuthorizationException:",
            ".SaslAuthenticationException:",
            ".SslAuthenticationException:",
            "KeeperErrorCode = NoAuth",
            "KeeperErrorCode = AuthFailed",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The broker could not connect to ZooKeeper, to a controller or to another broker.",
        "Check that the other service runs, its address, and the network. " + _LOG,
        (
            ".ZooKeeperClientTimeoutException: ",
            ".ConnectException: Connection refused",
            ".ConnectException: Connection timed out",
            ".UnknownHostException: ",
            "KeeperErrorCode = ConnectionLoss",
            "KeeperErrorCode = Session expired",
        ),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "Another broker with this id is registered, or the last registration has not expired yet.",
        "Stop the other broker, or wait until ZooKeeper's session or the registration expires. "
        + _LOG,
        ("KeeperErrorCode = NodeExists", ".DuplicateBrokerRegistrationException: "),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "Another process uses the port of a listener.",
        "Stop it, or change the listeners. " + _LOG,
        (".BindException: Address already in use", "Socket server failed to bind to"),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "The broker ran out of heap memory.",
        "Increase the heap (KAFKA_HEAP_OPTS), then start the broker again; after a crash it "
        "recovers its logs first. " + _LOG,
        (".OutOfMemoryError: Java heap space", ".OutOfMemoryError: GC overhead limit exceeded"),
        kind=Subject.ELSEWHERE,
    ),
    *answer_alike(
        "A config is missing or wrong, or names a class that is not installed.",
        "Correct the config. " + _LOG,
        (
            ".ConfigException: ",
            ".ClassNotFoundException: ",
            ".IllegalArgumentException: requirement failed: {} must ",
        ),
        kind=Subject.ELSEWHERE,
    ),
)
