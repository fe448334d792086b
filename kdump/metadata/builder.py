"""ImageBuilder: applies one record after the other, by the rules of a broker.

Spec: ``MetadataDelta.replay`` and the ``*Delta`` classes of ``org.apache.kafka.image``,
``PartitionRegistration.merge``, ``BrokerRegistration.cloneWith``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final

from kdump.metadata.image import (
    TOPIC_RESOURCE,
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
from kdump.metadata.voters import VoterHistory

#: ``DirectoryId.MIGRATING``: the replica has no directory id yet.
_MIGRATING: Final = 22 * "A"
_NO_LEADER_CHANGE: Final = -2
_NO_RECOVERY_CHANGE: Final = -1
_KRAFT_VERSION: Final = "kraft.version"


class RecordType(IntEnum):
    """The types of metadata records, by number (``MetadataRecordType``)."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    REMOVE_FEATURE_LEVEL = 16
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


class InapplicableError(Exception):
    """A broker cannot apply a record. ``lost`` says that the image lacks what the record says."""

    def __init__(self, reason: str, *, lost: bool = True) -> None:
        super().__init__(reason)
        self.lost = lost


@dataclass(slots=True)
class ImageBuilder:
    """A MetadataImage while its records are applied.

    ``names`` has the names of topics by id, ``topics`` ids by name, ``partitions`` those of each
    topic id by number, and ``deleted`` the ids of topics that were removed.
    """

    topics: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    partitions: dict[str, dict[int, PartitionRegistration]] = field(default_factory=dict)
    configs: dict[ConfigResource, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)
    acls: dict[str, AccessControlEntry] = field(default_factory=dict)
    quotas: dict[QuotaEntity, dict[str, float]] = field(default_factory=dict)
    scram: dict[ScramUser, int] = field(default_factory=dict)
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    next_producer_id: int = -1
    zk_migration: int | None = None

    def apply(self, type_id: int, fields: dict[str, Any]) -> None:
        """Apply the record of a type other than those of transactions.

        Raises InapplicableError.
        """
        apply = _APPLY.get(type_id)
        if apply is None:
            raise InapplicableError(f"expected a type that brokers replay, found {type_id}")
        apply(self, fields)

    def freeze(self, history: VoterHistory) -> MetadataImage:
        """Return the image, with the newest voters and kraft version of ``history``."""
        ids = self.names.keys() | self.partitions.keys()
        topics = (
            TopicImage(
                topic_id,
                self.names.get(topic_id),
                {
                    number: _with_directories(partition)
                    for number, partition in sorted(self.partitions.get(topic_id, {}).items())
                },
            )
            for topic_id in ids
        )
        return MetadataImage(
            features=dict(sorted(self.features.items())),
            kraft_version=history.kraft_versions[-1][1] if history.kraft_versions else 0,
            voters=history.voters[-1][1] if history.voters else None,
            controllers=dict(sorted(self.controllers.items())),
            brokers=dict(sorted(self.brokers.items())),
            topics=tuple(sorted(topics, key=lambda topic: (topic.name or "", topic.id))),
            configs={
                resource: dict(sorted(values.items()))
                for resource, values in sorted(self.configs.items())
                if values
            },
            acls=dict(sorted(self.acls.items(), key=lambda item: _acl_order(item[1]))),
            quotas={
                entity: dict(sorted(values.items()))
                for entity, values in sorted(self.quotas.items(), key=lambda item: repr(item[0]))
                if values
            },
            scram=dict(sorted(self.scram.items())),
            tokens=dict(sorted(self.tokens.items())),
            next_producer_id=self.next_producer_id,
            zk_migration=self.zk_migration,
        )

    # --- topics

    def _add_topic(self, fields: dict[str, Any]) -> None:
        self.topics[fields["name"]] = fields["topicId"]
        self.names[fields["topicId"]] = fields["name"]

    def _add_partition(self, fields: dict[str, Any]) -> None:
        topic_id = fields["topicId"]
        found = PartitionRegistration(
            replicas=tuple(fields["replicas"]),
            in_sync=tuple(fields["isr"]),
            removing=tuple(fields["removingReplicas"]),
            adding=tuple(fields["addingReplicas"]),
            leader=fields["leader"],
            leader_epoch=fields["leaderEpoch"],
            partition_epoch=fields["partitionEpoch"],
            recovering=fields["leaderRecoveryState"] == 1,
            directories=tuple(fields.get("directories") or ()),
            eligible=tuple(fields.get("eligibleLeaderReplicas") or ()),
            last_known_eligible=tuple(fields.get("lastKnownElr") or ()),
        )
        _check_partition(found, fields, fields["leaderRecoveryState"])
        self.partitions.setdefault(topic_id, {})[fields["partitionId"]] = found
        if topic_id not in self.names:
            raise InapplicableError(f"expected a known topic, found the id {topic_id}", lost=False)

    def _change_partition(self, fields: dict[str, Any]) -> None:
        topic_id, number = fields["topicId"], fields["partitionId"]
        partitions = self.partitions.get(topic_id, {})
        before = partitions.get(number)
        if before is None:
            raise InapplicableError(
                f"expected a known partition, found partition {number} of the topic id {topic_id}"
            )
        changes: dict[str, Any] = {
            name: tuple(fields[key])
            for key, name in _CHANGES.items()
            if fields.get(key) is not None
        }
        if fields["leader"] != _NO_LEADER_CHANGE:
            changes.update(leader=fields["leader"], leader_epoch=before.leader_epoch + 1)
        recovery = fields["leaderRecoveryState"]
        if recovery == _NO_RECOVERY_CHANGE:
            recovery = int(before.recovering)
        epoch = before.partition_epoch + 1
        found = before._replace(partition_epoch=epoch, recovering=recovery == 1, **changes)
        _check_partition(found, fields, recovery)
        partitions[number] = found

    def _remove_topic(self, fields: dict[str, Any]) -> None:
        topic_id = fields["topicId"]
        self.deleted.add(topic_id)
        name = self.names.pop(topic_id, None)
        if name is not None:
            self.configs.pop(ConfigResource(TOPIC_RESOURCE, name), None)
            if self.topics.get(name) == topic_id:
                del self.topics[name]
        self.partitions.pop(topic_id, None)
        if name is None:
            raise InapplicableError(f"expected a known topic, found the id {topic_id}", lost=False)

    def _clear_eligible(self, fields: dict[str, Any]) -> None:
        name = fields["topicName"]
        if name and name not in self.topics:
            raise InapplicableError(f"expected a known topic, found {name}", lost=False)
        for topic_id in [self.topics[name]] if name else list(self.names):
            partitions = self.partitions.get(topic_id, {})
            for number, before in partitions.items():
                if before.eligible or before.last_known_eligible:
                    partitions[number] = before._replace(
                        eligible=(),
                        last_known_eligible=(),
                        partition_epoch=before.partition_epoch + 1,
                    )

    def _configure(self, fields: dict[str, Any]) -> None:
        resource = ConfigResource(fields["resourceType"], fields["resourceName"])
        values = self.configs.setdefault(resource, {})
        if fields["value"] is None:
            values.pop(fields["name"], None)
        else:
            values[fields["name"]] = fields["value"]

    # --- nodes

    def _register_broker(self, fields: dict[str, Any]) -> None:
        cordoned = fields.get("cordonedLogDirs")
        self.brokers[fields["brokerId"]] = BrokerRegistration(
            id=fields["brokerId"],
            epoch=fields["brokerEpoch"],
            incarnation_id=fields["incarnationId"],
            endpoints=_endpoints(fields["endPoints"]),
            features=_features(fields["features"]),
            rack=fields["rack"],
            fenced=fields["fenced"],
            controlled_shutdown=fields.get("inControlledShutdown", False),
            migrating_zk_broker=fields.get("isMigratingZkBroker", False),
            directories=tuple(sorted(fields.get("logDirs") or ())),
            cordoned_directories=None if cordoned is None else tuple(cordoned),
        )

    def _unregister_broker(self, fields: dict[str, Any]) -> None:
        self.brokers.pop(fields["brokerId"], None)

    def _fence(self, fields: dict[str, Any]) -> None:
        before = self._registered(fields["id"], fields["epoch"])
        self.brokers[before.id] = replace(before, fenced=True)

    def _unfence(self, fields: dict[str, Any]) -> None:
        before = self._registered(fields["id"], fields["epoch"])
        self.brokers[before.id] = replace(before, fenced=False)

    def _change_broker(self, fields: dict[str, Any]) -> None:
        before = self._registered(fields["brokerId"], fields["brokerEpoch"])
        fenced, shutdown = fields["fenced"], fields.get("inControlledShutdown", 0)
        if fenced not in (-1, 0, 1):
            raise InapplicableError(f"expected -1, 0 or 1 in fenced, found {fenced}")
        if shutdown not in (0, 1):
            raise InapplicableError(f"expected 0 or 1 in inControlledShutdown, found {shutdown}")
        cordoned = fields.get("cordonedLogDirs")
        self.brokers[before.id] = replace(
            before,
            fenced=fenced == 1 if fenced else before.fenced,
            controlled_shutdown=bool(shutdown) or before.controlled_shutdown,
            directories=tuple(sorted(fields.get("logDirs") or ())) or before.directories,
            cordoned_directories=(
                before.cordoned_directories if cordoned is None else tuple(cordoned)
            ),
        )

    def _registered(self, broker: int, epoch: int) -> BrokerRegistration:
        found = self.brokers.get(broker)
        if found is None:
            raise InapplicableError(f"expected a registered broker, found {broker}")
        if found.epoch != epoch:
            raise InapplicableError(
                f"expected the epoch {found.epoch} of broker {broker}, found {epoch}"
            )
        return found

    def _register_controller(self, fields: dict[str, Any]) -> None:
        self.controllers[fields["controllerId"]] = ControllerRegistration(
            id=fields["controllerId"],
            incarnation_id=fields["incarnationId"],
            zk_migration_ready=fields["zkMigrationReady"],
            endpoints=_endpoints(fields["endPoints"]),
            features=_features(fields["features"]),
        )

    def _unregister_controller(self, fields: dict[str, Any]) -> None:
        self.controllers.pop(fields["controllerId"], None)

    def _set_feature(self, fields: dict[str, Any]) -> None:
        name, level = fields["name"], fields["featureLevel"]
        if name == _KRAFT_VERSION:
            return  # a mistake of older releases (KAFKA-18979): its control record counts
        if level:
            self.features[name] = level
        else:
            self.features.pop(name, None)

    def _remove_feature(self, fields: dict[str, Any]) -> None:
        self.features.pop(fields["name"], None)

    # --- access, quotas and the rest

    def _add_acl(self, fields: dict[str, Any]) -> None:
        self.acls[fields["id"]] = AccessControlEntry(
            id=fields["id"],
            resource_type=fields["resourceType"],
            resource=fields["resourceName"],
            pattern_type=fields["patternType"],
            principal=fields["principal"],
            host=fields["host"],
            operation=fields["operation"],
            permission_type=fields["permissionType"],
        )

    def _remove_acl(self, fields: dict[str, Any]) -> None:
        if self.acls.pop(fields["id"], None) is None:
            raise InapplicableError(f"expected the id of an ACL, found {fields['id']}", lost=False)

    def _set_quota(self, fields: dict[str, Any]) -> None:
        names = {each["entityType"]: each["entityName"] for each in fields["entity"]}
        values = self.quotas.setdefault(tuple(sorted(names.items())), {})
        if fields["remove"]:
            values.pop(fields["key"], None)
        else:
            values[fields["key"]] = fields["value"]

    def _set_scram(self, fields: dict[str, Any]) -> None:
        self.scram[ScramUser(fields["name"], fields["mechanism"])] = fields["iterations"]

    def _remove_scram(self, fields: dict[str, Any]) -> None:
        self.scram.pop(ScramUser(fields["name"], fields["mechanism"]), None)

    def _add_token(self, fields: dict[str, Any]) -> None:
        self.tokens[fields["tokenId"]] = DelegationToken(
            id=fields["tokenId"],
            owner=fields["owner"],
            requester=fields["requester"],
            renewers=tuple(fields["renewers"]),
            issue_ms=fields["issueTimestamp"],
            expiry_ms=fields["expirationTimestamp"],
            max_ms=fields["maxTimestamp"],
        )

    def _remove_token(self, fields: dict[str, Any]) -> None:
        self.tokens.pop(fields["tokenId"], None)

    def _set_producer_id(self, fields: dict[str, Any]) -> None:
        self.next_producer_id = fields["nextProducerId"]

    def _set_zk_migration(self, fields: dict[str, Any]) -> None:
        self.zk_migration = fields["zkMigrationState"]

    def _do_nothing(self, _: dict[str, Any]) -> None:
        pass


#: The fields of a PartitionChangeRecord that are lists, and what they replace.
_CHANGES: Final = {
    "replicas": "replicas",
    "isr": "in_sync",
    "removingReplicas": "removing",
    "addingReplicas": "adding",
    "directories": "directories",
    "eligibleLeaderReplicas": "eligible",
    "lastKnownElr": "last_known_eligible",
}

_APPLY: Final[Mapping[int, Callable[[ImageBuilder, dict[str, Any]], None]]] = {
    RecordType.REGISTER_BROKER: ImageBuilder._register_broker,
    RecordType.UNREGISTER_BROKER: ImageBuilder._unregister_broker,
    RecordType.TOPIC: ImageBuilder._add_topic,
    RecordType.PARTITION: ImageBuilder._add_partition,
    RecordType.CONFIG: ImageBuilder._configure,
    RecordType.PARTITION_CHANGE: ImageBuilder._change_partition,
    RecordType.FENCE_BROKER: ImageBuilder._fence,
    RecordType.UNFENCE_BROKER: ImageBuilder._unfence,
    RecordType.REMOVE_TOPIC: ImageBuilder._remove_topic,
    RecordType.DELEGATION_TOKEN: ImageBuilder._add_token,
    RecordType.USER_SCRAM_CREDENTIAL: ImageBuilder._set_scram,
    RecordType.FEATURE_LEVEL: ImageBuilder._set_feature,
    RecordType.CLIENT_QUOTA: ImageBuilder._set_quota,
    RecordType.PRODUCER_IDS: ImageBuilder._set_producer_id,
    RecordType.REMOVE_FEATURE_LEVEL: ImageBuilder._remove_feature,
    RecordType.BROKER_REGISTRATION_CHANGE: ImageBuilder._change_broker,
    RecordType.ACCESS_CONTROL_ENTRY: ImageBuilder._add_acl,
    RecordType.REMOVE_ACCESS_CONTROL_ENTRY: ImageBuilder._remove_acl,
    RecordType.NO_OP: ImageBuilder._do_nothing,
    RecordType.ZK_MIGRATION_STATE: ImageBuilder._set_zk_migration,
    RecordType.REMOVE_USER_SCRAM_CREDENTIAL: ImageBuilder._remove_scram,
    RecordType.REMOVE_DELEGATION_TOKEN: ImageBuilder._remove_token,
    RecordType.REGISTER_CONTROLLER: ImageBuilder._register_controller,
    RecordType.CLEAR_ELR: ImageBuilder._clear_eligible,
    RecordType.UNREGISTER_CONTROLLER: ImageBuilder._unregister_controller,
}


def _check_partition(found: PartitionRegistration, fields: dict[str, Any], recovery: int) -> None:
    """Raise InapplicableError if a record with ``fields`` cannot make a partition ``found``."""
    if recovery not in (0, 1):
        raise InapplicableError(f"expected 0 or 1 as leader recovery state, found {recovery}")
    replicas, directories = fields["replicas"], fields.get("directories")
    recorded = replicas is not None and directories
    if len(found.directories) != len(found.replicas) and (
        recorded or not _migrating(found.directories)
    ):
        raise InapplicableError(
            f"expected a directory for each of {len(found.replicas)} replicas, found "
            f"{len(found.directories)}"
        )


def _migrating(directories: tuple[str, ...]) -> bool:
    return all(directory == _MIGRATING for directory in directories)


def _with_directories(partition: PartitionRegistration) -> PartitionRegistration:
    if not _migrating(partition.directories):
        return partition
    return partition._replace(directories=len(partition.replicas) * (_MIGRATING,))


def _endpoints(found: Iterable[dict[str, Any]]) -> tuple[Endpoint, ...]:
    endpoints = {
        each["name"]: Endpoint(each["name"], each["host"], each["port"], each["securityProtocol"])
        for each in found
    }
    if "" in endpoints:
        raise InapplicableError("expected listeners with a name, found one without")
    return tuple(endpoints[name] for name in sorted(endpoints))


def _features(found: Iterable[dict[str, Any]]) -> tuple[SupportedFeature, ...]:
    features = {
        each["name"]: SupportedFeature(
            each["name"], each["minSupportedVersion"], each["maxSupportedVersion"]
        )
        for each in found
    }
    return tuple(features[name] for name in sorted(features))


def _acl_order(acl: AccessControlEntry) -> tuple[object, ...]:
    return (
        acl.resource_type, acl.resource, acl.pattern_type, acl.principal, acl.host, acl.operation,
        acl.permission_type, acl.id,
    )  # fmt: skip
