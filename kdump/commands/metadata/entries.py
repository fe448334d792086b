"""An image as entries of plain values, and the differences between two images.

Secret configs are among the values: what shows an entry leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from kdump.format.messages.forms import enum_name
from kdump.metadata.image import (
    AccessControlEntry,
    BrokerRegistration,
    ConfigResource,
    ControllerRegistration,
    DelegationToken,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    QuotaEntity,
    ScramUser,
    SupportedFeature,
    TopicImage,
)
from kdump.metadata.voters import Voter
from kdump.values import frozen

Fields: TypeAlias = dict[str, object]
"""Values for JSON by name."""

_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


class EntryKind(StrEnum):
    """The kinds of entries, in the order in which differences are shown."""

    TOPIC = "topic"
    PARTITION = "partition"
    CONFIG = "config"
    BROKER = "broker"
    CONTROLLER = "controller"
    ACL = "acl"
    QUOTA = "quota"
    SCRAM = "scram"
    FEATURE = "feature"
    VOTER = "voter"
    TOKEN = "token"
    PRODUCER_IDS = "producer_ids"
    ZK_MIGRATION = "zk_migration"


@frozen
class ImageEntry:
    """A part of an image: ``key`` is what distinguishes it from others of its kind."""

    kind: EntryKind
    key: Fields
    fields: Fields


@frozen
class EntryDifference:
    """An entry that is in one of two images alone, or in both with other ``fields``.

    The fields before and after are None where the entry is not there. Otherwise they are those that
    differ.
    """

    kind: EntryKind
    key: Fields
    before: Fields | None
    after: Fields | None


def image_entries(image: MetadataImage) -> Iterator[ImageEntry]:
    """Yield the entries of an image: the cluster and its nodes, topics, and what is set for them.

    ``kraft.version`` is a feature, as in Kafka's tools.
    """
    for name, level in feature_levels(image).items():
        yield ImageEntry(EntryKind.FEATURE, {"name": name}, {"level": level})
    for voter in image.voters or ():
        yield ImageEntry(EntryKind.VOTER, {"id": voter.id}, _voter_fields(voter))
    for controller in image.controllers.values():
        key: Fields = {"id": controller.id}
        yield ImageEntry(EntryKind.CONTROLLER, key, _controller_fields(controller))
    for broker in image.brokers.values():
        yield ImageEntry(EntryKind.BROKER, {"id": broker.id}, _broker_fields(broker))
    for topic in image.topics:
        yield ImageEntry(EntryKind.TOPIC, {"topic": topic.name}, _topic_fields(topic))
        for number, partition in topic.partitions.items():
            key = {"topic": topic.name, "partition": number}
            yield ImageEntry(EntryKind.PARTITION, key, _partition_fields(topic, partition))
    for resource, values in image.configs.items():
        for name, value in values.items():
            key = {**_resource_fields(resource), "name": name}
            yield ImageEntry(EntryKind.CONFIG, key, {"value": value})
    for acl in image.acls.values():
        yield ImageEntry(EntryKind.ACL, _acl_fields(acl), {"id": acl.id})
    for entity, limits in image.quotas.items():
        for name, limit in limits.items():
            key = {"entity": _entity_fields(entity), "name": name}
            yield ImageEntry(EntryKind.QUOTA, key, {"value": _finite(limit)})
    for user, iterations in image.scram.items():
        yield ImageEntry(EntryKind.SCRAM, _user_fields(user), {"iterations": iterations})
    for token in image.tokens.values():
        yield ImageEntry(EntryKind.TOKEN, {"token_id": token.id}, _token_fields(token))
    if image.next_producer_id >= 0:
        fields: Fields = {"next_producer_id": image.next_producer_id}
        yield ImageEntry(EntryKind.PRODUCER_IDS, {}, fields)
    if image.zk_migration is not None:
        state = enum_name("ZkMigrationStateRecord", "zkMigrationState", image.zk_migration)
        yield ImageEntry(EntryKind.ZK_MIGRATION, {}, {"state": state})


def differences(before: MetadataImage, after: MetadataImage) -> Iterator[EntryDifference]:
    """Yield what differs between two images, by kind; the removed first, then as in ``after``."""
    old, new = _by_kind(before), _by_kind(after)
    for kind in EntryKind:
        earlier, later = old.get(kind, {}), new.get(kind, {})
        for key, entry in earlier.items():
            if key not in later:
                yield EntryDifference(kind, entry.key, entry.fields, None)
        for key, entry in later.items():
            if key not in earlier:
                yield EntryDifference(kind, entry.key, None, entry.fields)
                continue
            fields = earlier[key].fields
            changed = [name for name, value in entry.fields.items() if fields[name] != value]
            if changed:
                yield EntryDifference(
                    kind,
                    entry.key,
                    {name: fields[name] for name in changed},
                    {name: entry.fields[name] for name in changed},
                )


def _by_kind(image: MetadataImage) -> Mapping[EntryKind, dict[str, ImageEntry]]:
    found: dict[EntryKind, dict[str, ImageEntry]] = {}
    for entry in image_entries(image):
        found.setdefault(entry.kind, {})[repr(entry.key)] = entry
    return found


def feature_levels(image: MetadataImage) -> dict[str, int]:
    """Return the finalized levels of features by name, ``kraft.version`` too if it is not 0."""
    kraft = {"kraft.version": image.kraft_version} if image.kraft_version else {}
    return dict(sorted({**image.features, **kraft}.items()))


def protocol_name(number: int) -> str:
    """Return the name of a SecurityProtocol, or the number of an unknown one."""
    return _PROTOCOLS.get(number, str(number))


def _voter_fields(voter: Voter) -> Fields:
    return {
        "directory_id": voter.directory_id,
        "endpoints": [
            {"name": each.name, "host": each.host, "port": each.port} for each in voter.endpoints
        ],
        "min_kraft_version": voter.min_kraft_version,
        "max_kraft_version": voter.max_kraft_version,
    }


def _controller_fields(controller: ControllerRegistration) -> Fields:
    return {
        "incarnation_id": controller.incarnation_id,
        "zk_migration_ready": controller.zk_migration_ready,
        "endpoints": _endpoint_fields(controller.endpoints),
        "features": _feature_fields(controller.features),
    }


def _broker_fields(broker: BrokerRegistration) -> Fields:
    cordoned = broker.cordoned_directories
    return {
        "epoch": broker.epoch,
        "incarnation_id": broker.incarnation_id,
        "endpoints": _endpoint_fields(broker.endpoints),
        "features": _feature_fields(broker.features),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "in_controlled_shutdown": broker.controlled_shutdown,
        "migrating_zk_broker": broker.migrating_zk_broker,
        "log_dirs": list(broker.directories),
        "cordoned_log_dirs": None if cordoned is None else list(cordoned),
    }


def _endpoint_fields(endpoints: tuple[Endpoint, ...]) -> list[Fields]:
    return [
        {
            "name": each.name,
            "host": each.host,
            "port": each.port,
            "security_protocol": protocol_name(each.security_protocol),
        }
        for each in endpoints
    ]


def _feature_fields(features: tuple[SupportedFeature, ...]) -> list[Fields]:
    return [
        {"name": each.name, "min_level": each.min_level, "max_level": each.max_level}
        for each in features
    ]


def _topic_fields(topic: TopicImage) -> Fields:
    return {"topic_id": topic.id, "partitions": len(topic.partitions)}


def _partition_fields(topic: TopicImage, partition: PartitionRegistration) -> Fields:
    return {
        "topic_id": topic.id,
        "replicas": list(partition.replicas),
        "isr": list(partition.in_sync),
        "removing_replicas": list(partition.removing),
        "adding_replicas": list(partition.adding),
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "leader_recovery_state": "RECOVERING" if partition.recovering else "RECOVERED",
        "elr": list(partition.eligible),
        "last_known_elr": list(partition.last_known_eligible),
        "directories": list(partition.directories),
    }


def _resource_fields(resource: ConfigResource) -> Fields:
    return {
        "resource_type": enum_name("ConfigRecord", "resourceType", resource.type),
        "resource": resource.name,
    }


def _acl_fields(acl: AccessControlEntry) -> Fields:
    return {
        "resource_type": acl_name("resourceType", acl.resource_type),
        "resource": acl.resource,
        "pattern_type": acl_name("patternType", acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl_name("operation", acl.operation),
        "permission_type": acl_name("permissionType", acl.permission_type),
    }


def acl_name(field: str, number: int) -> str:
    """Return the name of a number in a field of an ACL's record."""
    return enum_name("AccessControlEntryRecord", field, number)


def _entity_fields(entity: QuotaEntity) -> list[Fields]:
    return [{"type": kind, "name": name} for kind, name in entity]


def _finite(number: float) -> float | str:
    """Return a number that JSON has, or the name of another."""
    return number if number - number == 0 else str(number)


def _user_fields(user: ScramUser) -> Fields:
    mechanism = enum_name("UserScramCredentialRecord", "mechanism", user.mechanism)
    return {"user": user.name, "mechanism": mechanism}


def _token_fields(token: DelegationToken) -> Fields:
    return {
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_ms": token.issue_ms,
        "expiry_ms": token.expiry_ms,
        "max_ms": token.max_ms,
    }
