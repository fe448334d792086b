"""What a store says of an object, and how long it is waited for."""

from __future__ import annotations

from typing import Final

from kdump.values import frozen

#: The longest time to connect, the longest time without data, and the number of attempts.
CONNECT_SECONDS: Final = 5
SILENT_SECONDS: Final = 15
ATTEMPTS: Final = 3
#: The number of requests that a child works on at a time.
REQUESTS: Final = 16
#: The text of the error of an object that is not the one that was expected.
REPLACED: Final = (
    "expected the object that was listed, found another one: it was replaced while it was read"
)


@frozen
class ObjectStatus:
    """The status of an object, or of a prefix with objects below it (``directory``).

    ``version`` changes with the content; it is empty where the store has no versions.
    """

    directory: bool
    size: int = 0
    mtime_ns: int = 0
    version: str = ""


@frozen
class ListedName:
    """A name in a listing."""

    name: str
    status: ObjectStatus
