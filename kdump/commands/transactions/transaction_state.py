"""The state of a transactional id, from the last records of ``__transaction_state``.

Spec: ``TransactionStateManager``, ``TransactionLog`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kdump.audit.facts.coordinator import TopicPartition, TransactionStatus
from kdump.coordinators.log import CoordinatorLog, Undecodable
from kdump.errors import DecodeError
from kdump.format.messages.payloads import UnknownTypeError, decoder_of
from kdump.storage.names import TRANSACTION_TOPIC
from kdump.values import frozen

#: In these states the coordinator has a transaction to end.
OPEN_STATES: Final = frozenset(
    {TransactionStatus.ONGOING, TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT}
)


@frozen
class TransactionState:
    """A transactional id as its coordinator loads it from partition ``partition`` of the topic.

    ``partitions`` are those of its transaction that have no marker yet. ``start_ms`` is None
    without a transaction. ``status`` is a number that is not known if a later release wrote it.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    status: int
    timeout_ms: int
    start_ms: int | None
    update_ms: int
    partitions: frozenset[TopicPartition]
    partition: int

    @property
    def state(self) -> str:
        """The name of the state, as Kafka's tools print it."""
        try:
            return TransactionStatus(self.status).name.title().replace("_", "")
        except ValueError:
            return str(self.status)


def read_states(
    log: CoordinatorLog, partition: int
) -> tuple[list[TransactionState], list[Undecodable]]:
    """Return the states in a partition of the topic by transactional id, and what is undecodable.

    A record of a type that is not known is passed over.
    """
    decoder = decoder_of(TRANSACTION_TOPIC)
    assert decoder is not None
    states: list[TransactionState] = []
    undecodable: list[Undecodable] = []
    for record in log.records:
        if record.value is None:
            continue
        try:
            key, value = decoder.decode(record.key, record.value)
        except UnknownTypeError:
            continue
        except DecodeError as error:
            undecodable.append(Undecodable(record.offset, str(error)))
            continue
        assert key is not None and value is not None
        states.append(_state(str(key.fields["transactionalId"]), value.fields, partition))
    return sorted(states, key=lambda state: state.transactional_id), undecodable


def _state(transactional_id: str, fields: Mapping[str, Any], partition: int) -> TransactionState:
    start = fields["transactionStartTimestampMs"]
    status = fields["transactionStatus"]
    return TransactionState(
        transactional_id,
        fields["producerId"],
        fields["producerEpoch"],
        status,
        fields["transactionTimeoutMs"],
        start if start >= 0 and status in OPEN_STATES else None,
        fields["transactionLastUpdateTimestampMs"],
        frozenset(
            (topic["topic"], number)
            for topic in fields["transactionPartitions"] or ()
            for number in topic["partitionIds"]
        ),
        partition,
    )
