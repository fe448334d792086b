"""The picture of a quorum: the logs of its controllers on one scale of offsets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

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
    if replica.errors:
        return Kind.UNREAD.value
    if replica.partition is None:
        return "no log"
    return f"ends at offset {replica.end.offset}, epoch {replica.end.epoch}"


def _parts(replica: MetadataReplica) -> Iterator[Part]:
    end, log = replica.end.offset, replica.log
    kind = Kind.UNREAD if replica.errors else Kind.VALID
    starts = [n for n in range(len(log)) if not n or log.bases[n] != log.lasts[n - 1] + 1]
    for first, following in pairwise([*starts, len(log)]):  # runs of batches without a gap
        base, last = log.bases[first], min(log.lasts[following - 1], end - 1)
        if base <= last:
            yield Part(base, last + 1, kind, f"offsets {base}..{last}")
    on_disk = log.lasts[-1] + 1 if len(log) else end
    if replica.damage is not None:
        first = replica.damage_offset
        text = f"corrupt from offset {first} on ({replica.damage.reason.value})"
        if first < on_disk:
            yield Part(first, on_disk, Kind.REMOVED, text)
        yield Part(first, first + 1, Kind.CORRUPT, text)
