"""The logs whose records are read, and the origin of these records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.audit.targets.target import Target, log_bytes, without_nested
from kdump.storage.logdir import directory_name
from kdump.storage.objects.address import AnyPath
from kdump.storage.selection import Selection
from kdump.values import frozen


@frozen
class Origin:
    """The origin of records; ``topic`` and ``partition`` are None outside partition directories."""

    topic: str | None
    partition: int | None
    source_file: str


@frozen
class Log:
    """The log of a segment; ``size`` is its size in bytes when it was listed.

    ``selection`` has the offsets that are read of it; ``index`` is its offset index, which says
    from where they are read.
    """

    path: AnyPath
    base_offset: int
    sealed: bool
    size: int
    index: AnyPath | None = None
    selection: Selection = Selection()

    @property
    def origin(self) -> Origin:
        """The origin of its records."""
        name = directory_name(self.path.parent)
        topic = None if name is None else utf8(name.topic)
        partition = None if name is None else name.partition
        return Origin(topic, partition, utf8(str(self.path)))


def list_logs(targets: Iterable[Target], *, strict: bool = False) -> Iterator[Log]:
    """Yield the logs of partitions that a broker would load, in order, each log once.

    A partition that cannot be listed yields none, or with ``strict`` raises SourceError.
    """
    for target in without_nested(targets):
        listed = target.with_listing()
        if listed.error is not None and strict:
            raise listed.error
        yield from logs_of(listed)


def logs_of(target: Target, selection: Selection | None = None) -> Iterator[Log]:
    """Yield the logs of a partition that is listed, those that may hold selected offsets."""
    selected = selection or Selection()
    for segment in selected.segments(target.segments):
        sealed = target.is_sealed(segment)
        size = log_bytes(segment)
        yield Log(segment.log, segment.base_offset, sealed, size, segment.index, selected)


def utf8(text: str) -> str:
    """Return ``text`` with escapes for bytes that are not UTF-8, which no column can hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
