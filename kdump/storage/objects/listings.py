"""The last listings of prefixes in S3: a listing has the status of each object.

What a listing says holds for some minutes, until the prefix is listed again, or a read fails. Reads
are on the condition that it still does, so that an old status leads to an error, never to other
bytes.
"""

from __future__ import annotations

import errno
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from kdump.storage.objects.address import Address
from kdump.storage.objects.client import (
    Ticket,
    collect,
    count_writes,
    drop,
    send,
)
from kdump.storage.objects.status import ListedName, ObjectStatus
from kdump.values import frozen

#: The number of names in the listings that are remembered, the newest one aside.
_NAMES: Final = 50_000
#: How long a listing says what is there; processes that run Spark's tasks live long.
_SECONDS: Final = 300.0
#: How long it says what is not there: no read would notice that it came into being.
_ABSENT_SECONDS: Final = 60.0
_OPERATION: Final = "entries"


@frozen
class _Listing:
    """When a prefix was listed, how many requests to write there had been, and what was found."""

    time: float
    writes: int
    names: Mapping[str, ObjectStatus]


_listings: OrderedDict[Address, _Listing] = OrderedDict()
_ahead: dict[Address, Ticket] = {}


def list_prefix(path: Address) -> Mapping[str, ObjectStatus]:
    """Ask the store for what is directly below ``path``, by name. Raises OSError."""
    _listings.pop(path, None)
    listed: list[ListedName] = collect(
        _ahead.pop(path) if path in _ahead else Ticket(path, _OPERATION, ())
    )
    names = {entry.name: entry.status for entry in listed}
    if path.scheme == "s3":
        _listings[path] = _Listing(time.monotonic(), count_writes(), names)
        count = sum(len(listing.names) for listing in _listings.values())
        while count > _NAMES and len(_listings) > 1:
            count -= len(_listings.popitem(last=False)[1].names)
    return names


def list_ahead(paths: Iterable[Address]) -> None:
    """Ask the store for what is below each of ``paths``, which ``list_prefix`` then returns.

    What was asked before and not returned is given up.
    """
    while _ahead:
        drop(_ahead.popitem()[1])
    _ahead.update((path, send(path, _OPERATION)) for path in paths)


def listed_status(path: Address) -> ObjectStatus | None:
    """Return the status of ``path`` by the last listings, None if they do not have it.

    Raises FileNotFoundError if there is nothing by a listing of this minute.
    """
    below = _last(path)
    if below is not None and below.names:
        return ObjectStatus(directory=True)
    around = _last(path.parent)
    if around is None:
        return None
    status = around.names.get(path.name)
    if status is None and time.monotonic() < around.time + _ABSENT_SECONDS:
        raise FileNotFoundError(
            errno.ENOENT, f"expected an object of that name, found none in {path.parent}"
        )
    return status


def forget_listing(path: Address) -> None:
    """Forget the listing that has ``path``: the object is another one now, or is gone."""
    _listings.pop(path.parent, None)


def _last(path: Address) -> _Listing | None:
    """Return the last listing of ``path``, None if it is old or this process wrote since."""
    listing = _listings.get(path)
    if listing is None or listing.writes != count_writes():
        return None
    return listing if time.monotonic() < listing.time + _SECONDS else None
