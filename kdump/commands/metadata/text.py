"""The image in sections for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from kdump.commands.metadata.entries import acl_name, feature_levels, protocol_name
from kdump.commands.metadata.problems import ending, problem_text, problems
from kdump.format.lines.text import printable, time_text
from kdump.format.messages.forms import REDACTED, enum_name, is_secret_setting
from kdump.metadata.image import (
    TOPIC_RESOURCE,
    BrokerRegistration,
    ConfigResource,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    QuotaEntity,
    TopicImage,
)
from kdump.metadata.replay import MetadataState
from kdump.ui.table import NONE, table
from kdump.ui.units import count_text

Row = Sequence[str]

#: ``DirectoryId``: what stands for a directory that has no id.
_RESERVED: Final = {
    22 * "A": "migrating",
    21 * "A" + "Q": "unassigned",
    21 * "A" + "g": "lost",
}
_PARTITION_HEAD: Final = (
    "PARTITION", "LEADER", "LEADER-EPOCH", "PARTITION-EPOCH", "REPLICAS", "ISR", "ELR",
    "DIRECTORIES", "NOTE",
)  # fmt: skip
_BROKER_HEAD: Final = (
    "ID", "EPOCH", "STATE", "RACK", "ENDPOINTS", "DIRECTORIES", "INCARNATION-ID",
)  # fmt: skip
_ACL_HEAD: Final = (
    "RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION",
)  # fmt: skip
_TOKEN_HEAD: Final = ("TOKEN-ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAXIMUM")


def print_image(emit: Callable[[str], None], state: MetadataState) -> int:
    """Print an image, and return the exit code."""
    image = state.image
    found = list(problems(state))
    emit(printable(_title(state)))
    for problem in found:
        emit(printable(problem_text(problem)))
    _print_sections(emit, _sections(image))
    for topic in image.topics:
        emit("")
        for line in _topic_lines(topic, image):
            emit(line)
    _print_sections(emit, _later_sections(image))
    emit("")
    emit(_summary(state))
    return ending(found).exit_code


def _print_sections(emit: Callable[[str], None], sections: Iterable[tuple[str, list[Row]]]) -> None:
    for name, rows in sections:
        if len(rows) > 1:
            emit("")
            emit(name)
            for line in table(rows[0], rows[1:]):
                emit(line)


def _title(state: MetadataState) -> str:
    snapshot = state.snapshot
    start = "without a snapshot" if snapshot is None else f"from {snapshot.path.name}"
    title = f"METADATA {state.path}, before offset {state.end_offset}, {start}"
    if state.transaction is not None:
        title += f"; an open transaction begins at offset {state.transaction}, and does not count"
    return title


def _sections(image: MetadataImage) -> Iterator[tuple[str, list[Row]]]:
    levels = feature_levels(image).items()
    yield "FEATURES", [("NAME", "LEVEL"), *((name, str(level)) for name, level in levels)]
    yield (
        "VOTERS",
        [
            ("ID", "DIRECTORY-ID", "ENDPOINTS", "KRAFT-VERSIONS"),
            *(
                (
                    str(voter.id),
                    voter.directory_id,
                    " ".join(f"{each.name}://{each.host}:{each.port}" for each in voter.endpoints),
                    f"{voter.min_kraft_version}..{voter.max_kraft_version}",
                )
                for voter in image.voters or ()
            ),
        ],
    )
    yield (
        "CONTROLLERS",
        [
            ("ID", "ENDPOINTS", "INCARNATION-ID"),
            *(
                (str(each.id), _endpoints(each.endpoints), each.incarnation_id)
                for each in image.controllers.values()
            ),
        ],
    )
    yield "BROKERS", [_BROKER_HEAD, *map(_broker_row, image.brokers.values())]


def _broker_row(broker: BrokerRegistration) -> Row:
    states = ["fenced" if broker.fenced else "unfenced"]
    if broker.controlled_shutdown:
        states.append("in controlled shutdown")
    if broker.migrating_zk_broker:
        states.append("migrating from ZooKeeper")
    return (
        str(broker.id),
        str(broker.epoch),
        ", ".join(states),
        broker.rack or NONE,
        _endpoints(broker.endpoints),
        _directories(broker.directories),
        broker.incarnation_id,
    )


def _topic_lines(topic: TopicImage, image: MetadataImage) -> Iterator[str]:
    name = "without a name" if topic.name is None else topic.name
    count = count_text(len(topic.partitions), "partition")
    yield printable(f"TOPIC {name}: id {topic.id}, {count}")
    configs = image.configs.get(ConfigResource(TOPIC_RESOURCE, name), {})
    if configs and topic.name is not None:
        texts = (f"{name}={_config_text(name, value)}" for name, value in configs.items())
        yield printable(f"  {', '.join(texts)}")
    rows = [_partition_row(number, each) for number, each in topic.partitions.items()]
    if rows:
        yield from table(_PARTITION_HEAD, rows)


def _partition_row(number: int, partition: PartitionRegistration) -> Row:
    notes = []
    for word, nodes in (
        ("adding", partition.adding),
        ("removing", partition.removing),
        ("last known ELR", partition.last_known_eligible),
    ):
        if nodes:
            notes.append(f"{word} {_nodes(nodes)}")
    if partition.recovering:
        notes.append("recovering from an unclean election")
    return (
        str(number),
        "none" if partition.leader < 0 else str(partition.leader),
        str(partition.leader_epoch),
        str(partition.partition_epoch),
        _nodes(partition.replicas),
        _nodes(partition.in_sync),
        _nodes(partition.eligible),
        _directories(partition.directories),
        "; ".join(notes) or NONE,
    )


def _later_sections(image: MetadataImage) -> Iterator[tuple[str, list[Row]]]:
    topics = {topic.name for topic in image.topics}
    configs = [
        (
            enum_name("ConfigRecord", "resourceType", resource.type),
            resource.name or "(default)",
            name,
            _config_text(name, value),
        )
        for resource, values in image.configs.items()
        if resource.type != TOPIC_RESOURCE or resource.name not in topics
        for name, value in values.items()
    ]
    yield "CONFIGS", [("RESOURCE", "NAME", "SETTING", "VALUE"), *configs]
    acls = [
        (
            acl_name("resourceType", acl.resource_type),
            acl.resource,
            acl_name("patternType", acl.pattern_type),
            acl.principal,
            acl.host,
            acl_name("operation", acl.operation),
            acl_name("permissionType", acl.permission_type),
        )
        for acl in image.acls.values()
    ]
    yield "ACLS", [_ACL_HEAD, *acls]
    quotas = [
        (_entity_text(entity), name, str(value))
        for entity, values in image.quotas.items()
        for name, value in values.items()
    ]
    yield "QUOTAS", [("ENTITY", "QUOTA", "VALUE"), *quotas]
    users = [
        (
            user.name,
            enum_name("UserScramCredentialRecord", "mechanism", user.mechanism),
            str(iterations),
        )
        for user, iterations in image.scram.items()
    ]
    yield "SCRAM USERS", [("USER", "MECHANISM", "ITERATIONS"), *users]
    tokens = [
        (
            token.id,
            token.owner,
            token.requester,
            " ".join(token.renewers) or NONE,
            *map(time_text, (token.issue_ms, token.expiry_ms, token.max_ms)),
        )
        for token in image.tokens.values()
    ]
    yield "DELEGATION TOKENS", [_TOKEN_HEAD, *tokens]


def _summary(state: MetadataState) -> str:
    image = state.image
    partitions = sum(len(topic.partitions) for topic in image.topics)
    parts = [
        f"{count_text(len(image.topics), 'topic')} with {count_text(partitions, 'partition')}",
        count_text(len(image.brokers), "broker"),
        count_text(sum(map(len, image.configs.values())), "config"),
        count_text(len(image.acls), "ACL"),
        count_text(sum(map(len, image.quotas.values())), "quota"),
        count_text(len(image.scram), "SCRAM credential"),
        count_text(len(image.tokens), "delegation token"),
    ]
    if image.next_producer_id >= 0:
        parts.append(f"next producer id {image.next_producer_id}")
    if image.zk_migration is not None:
        migration = enum_name("ZkMigrationStateRecord", "zkMigrationState", image.zk_migration)
        parts.append(f"ZooKeeper migration {migration}")
    return f"{', '.join(parts)}; the log before offset {state.end_offset}"


def _config_text(name: str, value: str) -> str:
    return REDACTED if is_secret_setting(name) else value


def _endpoints(endpoints: Iterable[Endpoint]) -> str:
    texts = (
        f"{each.name}://{each.host}:{each.port}"
        + (
            f" ({protocol})"
            if (protocol := protocol_name(each.security_protocol)) != each.name
            else ""
        )
        for each in endpoints
    )
    return " ".join(texts) or NONE


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or NONE


def _directories(directories: Iterable[str]) -> str:
    return ",".join(_RESERVED.get(each, each) for each in directories) or NONE


def _entity_text(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)
