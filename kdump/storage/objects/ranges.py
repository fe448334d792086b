"""Ranges of objects that were read last, or were asked for ahead of their use.

Small files, and the ends of logs and indexes, are used several times in a run, and asked for once.
A range belongs to one version of an object.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from kdump.storage.objects.address import Address
from kdump.storage.objects.client import Ticket, collect, drop, send
from kdump.storage.objects.status import ObjectStatus
from kdump.values import frozen

#: The smallest request, unless the object is smaller: reading as much takes as long as a request.
LEAST_BYTES: Final = 128 << 10
#: The bytes of all ranges that are remembered or asked for, and of one of them.
_BYTES: Final = 24 << 20
LARGEST_BYTES: Final = 1 << 20
#: The bytes that are asked for ahead at a time.
_AHEAD_BYTES: Final = 8 << 20
_OPERATION: Final = "read"


@frozen
class Range:
    """A range of the object at ``path`` with ``status``; an empty version is not remembered."""

    path: Address
    status: ObjectStatus
    start: int
    length: int

    @property
    def version(self) -> tuple[Address, str]:
        """What the bytes belong to."""
        return self.path, self.status.version

    def has(self, other: Range) -> bool:
        """Return whether all of ``other`` lies in the range."""
        end = self.start + self.length
        return self.start <= other.start <= other.start + other.length <= end


#: The bytes of each range, or the request for them; the one that was used last is the last.
_ranges: OrderedDict[Range, Ticket | bytes] = OrderedDict()
_by_version: dict[tuple[Address, str], list[Range]] = {}
#: The bytes of all of them.
_total = 0


def read(wanted: Range, memory: memoryview) -> int:
    """Fill ``memory`` with the bytes of a range, and return their number.

    Raises OSError, ESTALE if the object has another status.
    """
    for known in _by_version.get(wanted.version, ()):
        if known.has(wanted):
            data = _bytes(known)
            found = memoryview(data)[wanted.start - known.start :][: wanted.length]
            memory[: len(found)] = found
            return len(found)
    count: int = collect(ask_later(wanted), memory)
    if count == wanted.length <= LARGEST_BYTES and wanted.status.version:
        _remember(wanted, bytes(memory))
    return count


def read_ahead(ranges: Iterable[Range]) -> None:
    """Ask the store for ``ranges``, which ``read`` then has; those that are too many are not."""
    asked = 0
    for wanted in ranges:
        asked += wanted.length
        if asked > _AHEAD_BYTES:
            return
        is_known = any(known.has(wanted) for known in _by_version.get(wanted.version, ()))
        if not is_known and 0 < wanted.length <= LARGEST_BYTES and wanted.status.version:
            _remember(wanted, ask_later(wanted))


def ask_later(wanted: Range) -> Ticket:
    """Ask the store for the bytes of a range, which ``collect`` returns."""
    return send(wanted.path, _OPERATION, wanted.start, wanted.length, wanted.status)


def _bytes(known: Range) -> bytes:
    data = _ranges[known]
    if isinstance(data, bytes):
        _ranges.move_to_end(known)
        return data
    _forget(known)
    answer = bytes(collect(data))
    if len(answer) == known.length:
        _remember(known, answer)
    return answer


def _remember(stored: Range, data: Ticket | bytes) -> None:
    global _total
    _ranges[stored] = data
    _by_version.setdefault(stored.version, []).append(stored)
    _total += stored.length
    while _total > _BYTES:
        oldest = next(iter(_ranges))
        unused = _ranges[oldest]
        _forget(oldest)
        if isinstance(unused, Ticket):
            drop(unused)


def _forget(stored: Range) -> None:
    global _total
    del _ranges[stored]
    _total -= stored.length
    others = _by_version[stored.version]
    others.remove(stored)
    if not others:
        del _by_version[stored.version]
