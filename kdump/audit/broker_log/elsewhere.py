"""What brokers log often that is no matter of log directories.

Spec: brokers and controllers of 3.9 to 4.3. What is here was met in logs of sound directories.
"""

from __future__ import annotations

from typing import Final

from kdump.audit.broker_log.message import Kind, Message

_NOTHING: Final = "Nothing to do for the disks: kdump cannot help here."


def _rows(happened: str, *patterns: str) -> tuple[Message, ...]:
    return tuple(Message(pattern, Kind.ELSEWHERE, happened, _NOTHING) for pattern in patterns)


ROWS: Final = (
    *_rows("A controller became the active one.", "Performing controller activation."),
    *_rows(
        "A connection was closed, or could not be made.",
        "Attempting to close NetworkClient that has already been closed",
        "Connection to node {} could not be established",
        "Unable to send broker heartbeat for {}",
        "sent a heartbeat request but received error",
        "Unable to register broker {}",
        "Timed out waiting for the controller to approve controlled shutdown",
        "failed due to authentication error",
        "failed due to unsupported version error",
        "Error in response for fetch request",
    ),
    *_rows(
        "The lock of a log directory was released twice at the end of the broker.",
        "Exception while execution the action",
    ),
    *_rows(
        "A setting is old, or has no effect.",
        "is deprecated",
        "rebalance protocol is enabled along",
        "Invalid value for `log.cleaner",
    ),
    *_rows(
        "A topic was just being made or deleted.",
        "This error may be returned transiently when the partition is being created or deleted",
    ),
    *_rows(
        "A message is larger than replica.fetch.max.bytes or max.message.bytes allow.",
        "Replication is failing due to a message that is greater than replica.fetch.max.bytes",
        "which exceeds the maximum configured",
    ),
    *_rows(
        "A producer sent what its state does not allow.",
        "Out of order sequence number for producer",
        "Invalid sequence number for new epoch of producer",
    ),
)
