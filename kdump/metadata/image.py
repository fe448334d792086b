"""The state of the cluster at an offset, as frozen values.

Ids are uuids as text. Numbers of enumerations are those of the records.

Spec: ``MetadataImage`` and the images in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kdump.metadata.voters import Voter
from kdump.values import frozen

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4


class PartitionRegistration(NamedTuple):
    """The state of a partition: its replicas, by node, and its leader.

    ``directories`` are the ids of the replicas' log directories, in their order. ``eligible`` are
    the eligible leader replicas (KIP-966). ``recovering`` says that the leader was elected
    uncleanly, and recovers from that. ``leader`` is -1 for none.
    """

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovering: bool
    directories: tuple[str, ...]
    eligible: tuple[int, ...]
    last_known_eligible: tuple[int, ...]


@frozen
class TopicImage:
    """A topic; ``partitions`` by number. ``name`` is None if no record names it."""

    id: str
    name: str | None
    partitions: Mapping[int, PartitionRegistration]


@frozen
class Endpoint:
    """A listener; ``security_protocol`` is the number of a SecurityProtocol."""

    name: str
    host: str
    port: int
    security_protocol: int


@frozen
class SupportedFeature:
    """The levels of a feature that a node supports."""

    name: str
    min_level: int
    max_level: int


@frozen
class BrokerRegistration:
    """A broker. ``cordoned_directories`` are None if they are not known."""

    id: int
    epoch: int
    incarnation_id: str
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]
    rack: str | None
    fenced: bool
    controlled_shutdown: bool
    migrating_zk_broker: bool
    directories: tuple[str, ...]
    cordoned_directories: tuple[str, ...] | None


@frozen
class ControllerRegistration:
    """A controller that has registered itself (KIP-919)."""

    id: int
    incarnation_id: str
    zk_migration_ready: bool
    endpoints: tuple[Endpoint, ...]
    features: tuple[SupportedFeature, ...]


@frozen
class AccessControlEntry:
    """An ACL; numbers are those of ResourceType, PatternType, AclOperation, AclPermissionType."""

    id: str
    resource_type: int
    resource: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@frozen
class DelegationToken:
    """A delegation token; times in ms. The log does not hold its HMAC."""

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int


class ConfigResource(NamedTuple):
    """What configs are about: a type, the number of a ConfigResource.Type, and a name.

    The name is empty for the defaults of all resources of the type.
    """

    type: int
    name: str


class ScramUser(NamedTuple):
    """A user with a SCRAM credential; ``mechanism`` is the number of a ScramMechanism."""

    name: str
    mechanism: int


QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The types and names that a quota is about, by type; a name is None for the default."""


@frozen
class MetadataImage:
    """The state of the cluster, each part in the order of its keys.

    ``features`` are finalized levels. ``acls`` are by id, ``scram`` has iterations by user,
    ``quotas`` values by entity and name of the quota. ``next_producer_id`` is -1 if none was given
    out. ``zk_migration`` is the number of a ZkMigrationState, None without a record. ``voters`` are
    None, and ``kraft_version`` is 0, where no control record says otherwise.
    """

    features: Mapping[str, int]
    kraft_version: int
    voters: tuple[Voter, ...] | None
    controllers: Mapping[int, ControllerRegistration]
    brokers: Mapping[int, BrokerRegistration]
    topics: tuple[TopicImage, ...]
    configs: Mapping[ConfigResource, Mapping[str, str]]
    acls: Mapping[str, AccessControlEntry]
    quotas: Mapping[QuotaEntity, Mapping[str, float]]
    scram: Mapping[ScramUser, int]
    tokens: Mapping[str, DelegationToken]
    next_producer_id: int
    zk_migration: int | None
