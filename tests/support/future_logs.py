"""Two log directories of one node, and logs of a partition that moves between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from support import forge, forge_metadata
from support.damaged import FIRST, LAST, batches
from support.forge import TOPIC_ID
from support.recipes_directory import DIRECTORY_ID, OTHER_ID, meta_properties

TOPIC = "moved"
UNIQUE = "0123456789abcdef0123456789abcdef"
FUTURE = f"{TOPIC}-0.{UNIQUE}-future"


def node(
    tmp_path: Path,
    assigned: str | None,
    nodes: Sequence[int] = (1,),
    topic_id: str = TOPIC_ID,
    configs: Mapping[str, str] | None = None,
) -> tuple[Path, Path]:
    """Two log directories of one node, whose metadata log assigns the partition to ``assigned``."""
    first, second = tmp_path / "a", tmp_path / "b"
    directories = [] if assigned is None else [assigned] + [OTHER_ID] * (len(nodes) - 1)
    known = [
        forge_metadata.topic(TOPIC, topic_id),
        forge_metadata.partition(topic_id, nodes=nodes, directories=directories),
        *(forge_metadata.config(TOPIC, name, value) for name, value in (configs or {}).items()),
    ]
    for path, directory_id in ((first, DIRECTORY_ID), (second, OTHER_ID)):
        path.mkdir()
        (path / "meta.properties").write_bytes(meta_properties(directory=directory_id))
        (path / ".kafka_cleanshutdown").touch()
    metadata = first / forge_metadata.segment_name()
    metadata.parent.mkdir()
    metadata.write_bytes(forge_metadata.log(known))
    return first, second


def log(directory: Path, name: str, *, whole: bool = True, named: bool = True) -> None:
    """Write a log of 200 records, or of the first 100 of them."""
    pieces = {FIRST: batches(FIRST), LAST: batches(LAST)} if whole else {FIRST: batches(FIRST)}
    files = {f"{base:020}.log": b"".join(data) for base, data in pieces.items()}
    written = forge.write_partition(directory.parent, TOPIC, 0, pieces, interval=300, files=files)
    if named:
        (written / "partition.metadata").write_bytes(forge.partition_metadata(TOPIC_ID))
    else:
        (written / "partition.metadata").unlink()
    written.rename(directory / name)
