"""What a controller refuses to replay, though a broker applies it to its image.

Spec: ``replay`` of ``ReplicationControlManager``, ``ClusterControlManager``,
``ProducerIdControlManager``, ``ScramControlManager``.
"""

from __future__ import annotations

from typing import Any

from kdump.metadata.builder import ImageBuilder, RecordType
from kdump.metadata.image import ScramUser


def refusal(known: ImageBuilder, type_id: int, fields: dict[str, Any]) -> str | None:
    """Return why a controller with the image ``known`` stops at a record; None if it does not."""
    match type_id:
        case RecordType.TOPIC if fields["name"] in known.topics:
            found = f"{fields['name']} with the id {known.topics[fields['name']]}"
            return f"expected a topic that does not exist yet, found {found}"
        case RecordType.REGISTER_BROKER:
            return _registered_elsewhere(known, fields)
        case RecordType.UNREGISTER_BROKER:
            broker, epoch = fields["brokerId"], fields["brokerEpoch"]
            before = known.brokers.get(broker)
            if before is None or before.epoch != epoch:
                return f"expected a registered broker, found {broker} with the epoch {epoch}"
        case RecordType.PRODUCER_IDS if fields["nextProducerId"] <= known.next_producer_id:
            found = f"{fields['nextProducerId']}"
            return f"expected a producer id above {known.next_producer_id}, found {found}"
        case RecordType.REMOVE_USER_SCRAM_CREDENTIAL:
            user = ScramUser(fields["name"], fields["mechanism"])
            if user not in known.scram:
                return f"expected a credential of {fields['name']}, found none"
    return None


def _registered_elsewhere(known: ImageBuilder, fields: dict[str, Any]) -> str | None:
    directories = set(fields.get("logDirs") or ())
    for owner in known.brokers.values():
        shared = directories.intersection(owner.directories)
        if shared and owner.id != fields["brokerId"]:
            return f"expected log directories of its own, found {min(shared)} of broker {owner.id}"
    return None
