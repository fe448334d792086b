"""The logs whose records are read, and the origin of these records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kdump.audit.targets.target import Target, log_bytes, without_nested
from kdump.storage.logdir import directory_name
from kdump.storage.objects.address import AnyPath
from kdump.values import frozen


@frozen
class Origin:
    """The origin of records; ``topic`` and ``partition`` are None outside partition directories."""

    topic: str | None
    partition: int | None
    source_file: str


@frozen
class Log:
    """The log of a segment; ``size`` is its size in bytes when it was listed."""

    path: AnyPath
    base_offset: int
    sealed: bool
    size: int

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
        for segment in listed.segments:
            sealed = listed.is_sealed(segment)
            yield Log(segment.log, segment.base_offset, sealed, log_bytes(segment))


def utf8(text: str) -> str:
    """Return ``text`` with escapes for bytes that are not UTF-8, which no column can hold."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
