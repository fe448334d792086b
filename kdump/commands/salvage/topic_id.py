"""The topic id of the new partition, and what a broker does with it.

Spec: ``PartitionMetadataFile``, ``LogManager.isStrayKraftReplica`` (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterator

from kdump.audit.facts.cluster import Node
from kdump.audit.facts.small_files import PartitionFacts
from kdump.errors import Refused
from kdump.format.properties import encode_partition_metadata
from kdump.storage.logdir import is_metadata_log
from kdump.values import frozen

_ASK = "kafka-topics.sh --describe prints it; then add --topic-id ID"


@frozen
class TopicId:
    """The topic id: ``content`` of partition.metadata, None if no file is written.

    ``notes`` are sentences on the origin of the id, and on what a broker does with the directory.
    """

    content: bytes | None
    notes: tuple[str, ...]


def topic_id_for(facts: PartitionFacts, node: Node, given: str | None) -> TopicId:
    """Return the topic id of a partition.

    The ``given`` id has priority over that of the partition's own file, which has priority over
    that in the metadata log of ``node``. Raises Refused if a KRaft node needs an id and none is
    known.
    """
    if is_metadata_log(facts.partition):
        return TopicId(None, ())
    read, known = facts.metadata, _known(facts, node)
    own = None if read is None or read.value is None else read.value.topic_id
    why = "is missing" if read is None else f"cannot be used ({read.error})"
    topic_id = given or own or known
    if topic_id is None:
        if node.kraft:
            raise Refused(
                f"{facts.partition.path}: expected a topic id, found that partition.metadata "
                f"{why}, and that no metadata log in reach has the topic: {_ASK}"
            )
        note = (
            f"partition.metadata {why}, so the result has no topic id. A broker in KRaft mode "
            f"renames it to -stray, a broker with ZooKeeper accepts it. {_ASK}"
        )
        return TopicId(None, (note,))
    notes = tuple(_notes(facts, node, topic_id, known))
    if given is None and own is None:
        notes = (f"partition.metadata {why}: topic id {topic_id} is from the metadata log", *notes)
    return TopicId(encode_partition_metadata(topic_id), notes)


def _known(facts: PartitionFacts, node: Node) -> str | None:
    """Return the id of the topic in the metadata log, None if it has none."""
    name = facts.partition.name
    return None if node.image is None or name is None else node.image.topics.get(name.topic)


def _notes(facts: PartitionFacts, node: Node, topic_id: str, known: str | None) -> Iterator[str]:
    name = facts.partition.name
    if name is None or node.image is None:
        return
    stray = "a broker renames it to -stray, and does not serve it"
    if known is not None and known != topic_id:
        yield (
            f"topic {name.topic} was deleted and created again: its id is now {known}, the result "
            f"has {topic_id}. In the log directory {stray}; the new topic continues without these "
            f"records. With --topic-id {known} they replace the records of the new topic"
        )
    elif node.sets_aside(topic_id, name.partition):
        yield (
            f"the metadata log has no replica of this partition on this node: in the log directory "
            f"{stray}"
        )
