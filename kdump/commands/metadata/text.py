"""The image in sections for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kdump.commands.metadata.entries import CONFIGS, PARTITIONS, TOPICS, EntryKind, image_rows
from kdump.commands.metadata.problems import ending, problem_text, problems
from kdump.format.lines.text import printable
from kdump.format.messages.forms import REDACTED, enum_name, is_secret_setting
from kdump.metadata.image import TOPIC_RESOURCE, ConfigResource, MetadataImage, TopicImage
from kdump.metadata.replay import MetadataState
from kdump.ui.paragraphs import wrap
from kdump.ui.units import count_text

_TITLES: Final[dict[str, str]] = {
    EntryKind.FEATURE: "FEATURES",
    EntryKind.VOTER: "VOTERS",
    EntryKind.CONTROLLER: "CONTROLLERS",
    EntryKind.BROKER: "BROKERS",
    EntryKind.CONFIG: "CONFIGS",
    EntryKind.ACL: "ACLS",
    EntryKind.QUOTA: "QUOTAS",
    EntryKind.SCRAM: "SCRAM USERS",
    EntryKind.TOKEN: "DELEGATION TOKENS",
}


def print_image(emit: Callable[[str], None], state: MetadataState, *, wide: bool) -> int:
    """Print an image, with tables that may be ``wide``; return the exit code."""
    found = list(problems(state))
    emit(printable(_title(state)))
    for problem in found:
        emit(printable(problem_text(problem)))
    for line in (*_lines(state.image, wide=wide), "", *wrap(_summary(state), 0)):
        emit(line)
    return ending(found).exit_code


def _title(state: MetadataState) -> str:
    snapshot = state.snapshot
    start = "without a snapshot" if snapshot is None else f"from {snapshot.path.name}"
    title = f"METADATA {state.path}, before offset {state.end_offset}, {start}"
    if state.transaction is not None:
        title += f"; an open transaction begins at offset {state.transaction}, and does not count"
    return title


def _lines(image: MetadataImage, *, wide: bool) -> Iterator[str]:
    topics = {topic.name for topic in image.topics}
    for table, rows in image_rows(image):
        if table is TOPICS:
            yield from _topic_lines(rows[0], image)
        elif table is CONFIGS:
            rows = [of for of in rows if of[0].type != TOPIC_RESOURCE or of[0].name not in topics]
        if rows and table.kind in _TITLES:
            yield from ("", _TITLES[table.kind])
        if rows and (table is PARTITIONS or table.kind in _TITLES):
            yield from table.text(rows, wide=wide)


def _topic_lines(topic: TopicImage, image: MetadataImage) -> Iterator[str]:
    name = "without a name" if topic.name is None else topic.name
    count = count_text(len(topic.partitions), "partition")
    yield ""
    yield from wrap(printable(f"TOPIC {name}: id {topic.id}, {count}"), 0)
    configs = image.configs.get(ConfigResource(TOPIC_RESOURCE, name), {})
    if configs and topic.name is not None:
        texts = (
            f"{name}={REDACTED if is_secret_setting(name) else value}"
            for name, value in configs.items()
        )
        yield from wrap(printable(", ".join(texts)), 2)


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
