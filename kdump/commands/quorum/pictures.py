"""The picture of a quorum: the logs of its controllers on one scale of offsets."""

from __future__ import annotations

from collections.abc import Iterator

from kdump.commands.quorum.state import Quorum
from kdump.format.lines.text import printable
from kdump.quorum.replica import MetadataReplica
from kdump.ui.html.pictures import Bar, Kind, Part, picture


def replicas_picture(quorum: Quorum) -> str:
    """Return the replicas of the metadata log by their offsets, in the order of the report."""
    bars = [
        Bar(printable(f"{number} {replica.path}"), _text(replica), tuple(_parts(replica)))
        for number, replica in enumerate(quorum.replicas, 1)
    ]
    return picture("The metadata log on its replicas, by offsets", bars)


def _text(replica: MetadataReplica) -> str:
    if replica.partition is None:
        return "no log"
    return f"ends at offset {replica.end.offset}, epoch {replica.end.epoch}"


def _parts(replica: MetadataReplica) -> Iterator[Part]:
    start, end = replica.start_offset, replica.end.offset
    if start < end:
        kind = Kind.UNREAD if replica.errors else Kind.VALID
        yield Part(start, end, kind, f"offsets {start}..{end - 1}")
    on_disk = replica.log.lasts[-1] + 1 if len(replica.log) else end
    if replica.damage is not None:
        first = replica.damage_offset
        text = f"corrupt from offset {first} on ({replica.damage.reason.value})"
        if first < on_disk:
            yield Part(first, on_disk, Kind.REMOVED, text)
        yield Part(first, first + 1, Kind.CORRUPT, text)
