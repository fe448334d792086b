"""An image as rows of tables, its entries of plain values, and the differences between two images.

Secret configs are among the values: what shows an entry leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from kdump.format.lines.text import time_text
from kdump.format.messages.forms import REDACTED, enum_name, is_secret_setting
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
from kdump.ui.table import NONE, Column, ReportTable
from kdump.values import frozen

Fields: TypeAlias = dict[str, object]
"""Values for JSON by name."""

#: ``DirectoryId``: what stands for a directory that has no id.
_RESERVED: Final = {
    22 * "A": "migrating",
    21 * "A" + "Q": "unassigned",
    21 * "A" + "g": "lost",
}
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


def _protocol_name(number: int) -> str:
    """Return the name of a SecurityProtocol, or the number of an unknown one."""
    return _PROTOCOLS.get(number, str(number))


def _endpoint_fields(endpoints: tuple[Endpoint, ...]) -> list[Fields]:
    return [
        {
            "name": each.name,
            "host": each.host,
            "port": each.port,
            "security_protocol": _protocol_name(each.security_protocol),
        }
        for each in endpoints
    ]


def _feature_fields(features: tuple[SupportedFeature, ...]) -> list[Fields]:
    return [
        {"name": each.name, "min_level": each.min_level, "max_level": each.max_level}
        for each in features
    ]


def acl_name(field: str, number: int) -> str:
    """Return the name of a number in a field of an ACL's record."""
    return enum_name("AccessControlEntryRecord", field, number)


def _entity_fields(entity: QuotaEntity) -> list[Fields]:
    return [{"type": kind, "name": name} for kind, name in entity]


def _finite(number: float) -> float | str:
    """Return a number that JSON has, or the name of another."""
    return number if number - number == 0 else str(number)


def feature_levels(image: MetadataImage) -> dict[str, int]:
    """Return the finalized levels of features by name, ``kraft.version`` too if it is not 0."""
    kraft = {"kraft.version": image.kraft_version} if image.kraft_version else {}
    return dict(sorted({**image.features, **kraft}.items()))


class PlacedPartition(NamedTuple):
    """A partition with its topic and its number."""

    topic: TopicImage
    number: int
    registration: PartitionRegistration


def _endpoints(endpoints: Iterable[Mapping[str, Any]]) -> str:
    texts = []
    for each in endpoints:
        protocol = each.get("security_protocol", each["name"])
        more = "" if protocol == each["name"] else f" ({protocol})"
        texts.append(f"{each['name']}://{each['host']}:{each['port']}{more}")
    return " ".join(texts) or NONE


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or NONE


def _directories(directories: Iterable[str]) -> str:
    return ",".join(_RESERVED.get(each, each) for each in directories) or NONE


def _state(broker: BrokerRegistration) -> str:
    states = ["fenced" if broker.fenced else "unfenced"]
    if broker.controlled_shutdown:
        states.append("in controlled shutdown")
    if broker.migrating_zk_broker:
        states.append("migrating from ZooKeeper")
    return ", ".join(states)


def _notes(row: PlacedPartition) -> str:
    partition = row.registration
    named = {
        "adding": partition.adding,
        "removing": partition.removing,
        "last known ELR": partition.last_known_eligible,
    }
    notes = [f"{word} {_nodes(nodes)}" for word, nodes in named.items() if nodes]
    if partition.recovering:
        notes.append("recovering from an unclean election")
    return "; ".join(notes) or NONE


def _entity_text(entity: Iterable[Fields]) -> str:
    return ", ".join(
        f"{each['type']} {'(default)' if each['name'] is None else each['name']}" for each in entity
    )


def _resource_type(row: tuple[ConfigResource, str, str]) -> str:
    return enum_name("ConfigRecord", "resourceType", row[0].type)


def _setting(row: tuple[ConfigResource, str, str]) -> str:
    return REDACTED if is_secret_setting(row[1]) else row[2]


FEATURES: Final = ReportTable[tuple[str, int]](
    EntryKind.FEATURE,
    (
        Column("NAME", "name", lambda row: row[0]),
        Column("LEVEL", "level", lambda row: row[1]),
    ),
)
VOTERS: Final = ReportTable[Voter](
    EntryKind.VOTER,
    (
        Column("ID", "id", lambda row: row.id),
        Column("DIRECTORY-ID", "directory_id", lambda row: row.directory_id),
        Column(
            "ENDPOINTS", "endpoints",
            lambda row: [{"name": e.name, "host": e.host, "port": e.port} for e in row.endpoints],
            _endpoints,
        ),
        Column(
            "KRAFT-VERSIONS", None, lambda row: f"{row.min_kraft_version}..{row.max_kraft_version}"
        ),
        Column(None, "min_kraft_version", lambda row: row.min_kraft_version),
        Column(None, "max_kraft_version", lambda row: row.max_kraft_version),
    ),
)  # fmt: skip
CONTROLLERS: Final = ReportTable[ControllerRegistration](
    EntryKind.CONTROLLER,
    (
        Column("ID", "id", lambda row: row.id),
        Column("INCARNATION-ID", "incarnation_id", lambda row: row.incarnation_id),
        Column(None, "zk_migration_ready", lambda row: row.zk_migration_ready),
        Column("ENDPOINTS", "endpoints", lambda row: _endpoint_fields(row.endpoints), _endpoints),
        Column(None, "features", lambda row: _feature_fields(row.features)),
    ),
    heads=("ID", "ENDPOINTS"),
)
BROKERS: Final = ReportTable[BrokerRegistration](
    EntryKind.BROKER,
    (
        Column("ID", "id", lambda row: row.id),
        Column("EPOCH", "epoch", lambda row: row.epoch),
        Column("INCARNATION-ID", "incarnation_id", lambda row: row.incarnation_id),
        Column("ENDPOINTS", "endpoints", lambda row: _endpoint_fields(row.endpoints), _endpoints),
        Column(None, "features", lambda row: _feature_fields(row.features)),
        Column("RACK", "rack", lambda row: row.rack, lambda rack: rack or NONE),
        Column("STATE", None, _state),
        Column(None, "fenced", lambda row: row.fenced),
        Column(None, "in_controlled_shutdown", lambda row: row.controlled_shutdown),
        Column(None, "migrating_zk_broker", lambda row: row.migrating_zk_broker),
        Column("DIRECTORIES", "log_dirs", lambda row: list(row.directories), _directories),
        Column(
            None, "cordoned_log_dirs",
            lambda row: row.cordoned_directories and list(row.cordoned_directories),
        ),
    ),
    heads=("ID", "EPOCH", "STATE", "RACK", "ENDPOINTS", "DIRECTORIES"),
)  # fmt: skip
TOPICS: Final = ReportTable[TopicImage](
    EntryKind.TOPIC,
    (
        Column(None, "topic", lambda row: row.name),
        Column(None, "topic_id", lambda row: row.id),
        Column(None, "partitions", lambda row: len(row.partitions)),
    ),
)
PARTITIONS: Final = ReportTable[PlacedPartition](
    EntryKind.PARTITION,
    (
        Column(None, "topic", lambda row: row.topic.name),
        Column("PARTITION", "partition", lambda row: row.number),
        Column(None, "topic_id", lambda row: row.topic.id),
        Column("REPLICAS", "replicas", lambda row: list(row.registration.replicas), _nodes),
        Column("ISR", "isr", lambda row: list(row.registration.in_sync), _nodes),
        Column(None, "removing_replicas", lambda row: list(row.registration.removing)),
        Column(None, "adding_replicas", lambda row: list(row.registration.adding)),
        Column(
            "LEADER", "leader", lambda row: row.registration.leader,
            lambda leader: "none" if leader < 0 else str(leader),
        ),
        Column("LEADER-EPOCH", "leader_epoch", lambda row: row.registration.leader_epoch),
        Column("PARTITION-EPOCH", "partition_epoch", lambda row: row.registration.partition_epoch),
        Column(
            None, "leader_recovery_state",
            lambda row: "RECOVERING" if row.registration.recovering else "RECOVERED",
        ),
        Column("ELR", "elr", lambda row: list(row.registration.eligible), _nodes),
        Column(None, "last_known_elr", lambda row: list(row.registration.last_known_eligible)),
        Column(
            "DIRECTORIES", "directories", lambda row: list(row.registration.directories),
            _directories,
        ),
        Column("NOTE", None, _notes),
    ),
    key=2,
    heads=("PARTITION", "LEADER", "LEADER-EPOCH", "PARTITION-EPOCH"),
)  # fmt: skip
CONFIGS: Final = ReportTable[tuple[ConfigResource, str, str]](
    EntryKind.CONFIG,
    (
        Column("RESOURCE", "resource_type", _resource_type),
        Column("NAME", "resource", lambda row: row[0].name, lambda name: name or "(default)"),
        Column("CONFIG", "name", lambda row: row[1]),
        Column("VALUE", None, _setting),
        Column(None, "value", lambda row: row[2]),
    ),
    key=3,
)
ACLS: Final = ReportTable[AccessControlEntry](
    EntryKind.ACL,
    (
        Column(
            "RESOURCE", "resource_type", lambda row: acl_name("resourceType", row.resource_type)
        ),
        Column("NAME", "resource", lambda row: row.resource),
        Column("PATTERN", "pattern_type", lambda row: acl_name("patternType", row.pattern_type)),
        Column("PRINCIPAL", "principal", lambda row: row.principal),
        Column("HOST", "host", lambda row: row.host),
        Column("OPERATION", "operation", lambda row: acl_name("operation", row.operation)),
        Column(
            "PERMISSION", "permission_type",
            lambda row: acl_name("permissionType", row.permission_type),
        ),
        Column(None, "id", lambda row: row.id),
    ),
    key=7,
)  # fmt: skip
QUOTAS: Final = ReportTable[tuple[QuotaEntity, str, float]](
    EntryKind.QUOTA,
    (
        Column("ENTITY", "entity", lambda row: _entity_fields(row[0]), _entity_text),
        Column("QUOTA", "name", lambda row: row[1]),
        Column("VALUE", "value", lambda row: _finite(row[2])),
    ),
    key=2,
)
SCRAM_USERS: Final = ReportTable[tuple[ScramUser, int]](
    EntryKind.SCRAM,
    (
        Column("USER", "user", lambda row: row[0].name),
        Column(
            "MECHANISM", "mechanism",
            lambda row: enum_name("UserScramCredentialRecord", "mechanism", row[0].mechanism),
        ),
        Column("ITERATIONS", "iterations", lambda row: row[1]),
    ),
    key=2,
)  # fmt: skip
TOKENS: Final = ReportTable[DelegationToken](
    EntryKind.TOKEN,
    (
        Column("TOKEN-ID", "token_id", lambda row: row.id),
        Column("OWNER", "owner", lambda row: row.owner),
        Column("REQUESTER", "requester", lambda row: row.requester),
        Column(
            "RENEWERS", "renewers", lambda row: list(row.renewers),
            lambda renewers: " ".join(renewers) or NONE,
        ),
        Column("ISSUED", "issue_ms", lambda row: row.issue_ms, time_text),
        Column("EXPIRES", "expiry_ms", lambda row: row.expiry_ms, time_text),
        Column("MAXIMUM", "max_ms", lambda row: row.max_ms, time_text),
    ),
)  # fmt: skip
_PRODUCER_IDS: Final = ReportTable[int](
    EntryKind.PRODUCER_IDS, (Column(None, "next_producer_id", lambda row: row),), key=0
)
_ZK_MIGRATION: Final = ReportTable[int](
    EntryKind.ZK_MIGRATION,
    (
        Column(
            None, "state",
            lambda row: enum_name("ZkMigrationStateRecord", "zkMigrationState", row),
        ),
    ),
    key=0,
)  # fmt: skip


def image_rows(image: MetadataImage) -> Iterator[tuple[ReportTable[Any], Sequence[Any]]]:
    """Yield tables and their rows: the cluster and its nodes, topics, and what is set for them.

    ``kraft.version`` is a feature, as in Kafka's tools.
    """
    yield FEATURES, list(feature_levels(image).items())
    yield VOTERS, image.voters or ()
    yield CONTROLLERS, list(image.controllers.values())
    yield BROKERS, list(image.brokers.values())
    for topic in image.topics:
        yield TOPICS, [topic]
        yield PARTITIONS, [PlacedPartition(topic, *placed) for placed in topic.partitions.items()]
    yield CONFIGS, [(of, *pair) for of, values in image.configs.items() for pair in values.items()]
    yield ACLS, list(image.acls.values())
    yield QUOTAS, [(of, *pair) for of, limits in image.quotas.items() for pair in limits.items()]
    yield SCRAM_USERS, list(image.scram.items())
    yield TOKENS, list(image.tokens.values())
    yield _PRODUCER_IDS, [image.next_producer_id] if image.next_producer_id >= 0 else []
    yield _ZK_MIGRATION, [] if image.zk_migration is None else [image.zk_migration]


def image_entries(image: MetadataImage) -> Iterator[ImageEntry]:
    """Yield the entries of an image, in the order of its rows."""
    for table, rows in image_rows(image):
        for row in rows:
            yield ImageEntry(EntryKind(table.kind), *table.key_and_rest(row))


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
