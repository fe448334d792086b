"""The offset of a stream in a checkpoint: the next offset of each partition, by topic id.

As JSON: ``{"version": 1, "offsets": {"orders": {"1oFTkYcaRVG1zRrRHzYkGg": {"0": 2041}}}}``. A topic
without an id, of a broker before 2.8, has an empty one. A partition that joined has two numbers in
the batch with which it joined, ``[17, 2041]``: the first offset that is read, and the next one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kdump.errors import UsageError
from kdump.values import frozen

VERSION: Final = 1
_NUMBER: Final = re.compile(r"\d{1,10}", re.ASCII)

Key = tuple[str, str, int]
"""A topic, its id, empty if unknown, and the number of a partition."""


@frozen
class Position:
    """The ``next`` offset of a partition; ``first`` is set in the batch with which it joined."""

    next: int
    first: int | None = None


Positions = Mapping[Key, Position]
"""The positions of a stream."""


def encode_positions(positions: Positions) -> dict[str, Any]:
    """Return positions for JSON; equal ones give equal text."""
    topics: dict[str, dict[str, dict[str, object]]] = defaultdict(lambda: defaultdict(dict))
    for (topic, topic_id, number), position in sorted(positions.items(), key=lambda pair: pair[0]):
        value = position.next if position.first is None else [position.first, position.next]
        topics[topic][topic_id][str(number)] = value
    offsets = {topic: dict(ids) for topic, ids in topics.items()}
    return {"version": VERSION, "offsets": offsets}


def decode_positions(offset: object) -> dict[Key, Position]:
    """Return the positions in the JSON of an offset. Raise UsageError for other JSON."""
    version = offset.get("version") if isinstance(offset, dict) else None
    if version != VERSION:
        raise UsageError(
            f"offset of the checkpoint: expected version {VERSION}, found "
            f"{offset if version is None else version}; a newer kdump may have written it"
        )
    assert isinstance(offset, dict)
    return dict(_entries(offset.get("offsets")))


def _entries(topics: object) -> Iterator[tuple[Key, Position]]:
    for topic, ids in _items(topics):
        for topic_id, numbers in _items(ids):
            for number, value in _items(numbers):
                if not _NUMBER.fullmatch(number):
                    raise _unexpected(number)
                yield (topic, topic_id, int(number)), _position(value)


def _position(value: object) -> Position:
    numbers = value if isinstance(value, list) else [None, value]
    match numbers:
        case [int() | None as first, int() as after]:
            return Position(after, first)
    raise _unexpected(value)


def _items(value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, dict):
        raise _unexpected(value)
    yield from value.items()


def _unexpected(found: object) -> UsageError:
    return UsageError(
        "offset of the checkpoint: expected offsets by topic, topic id and partition, found "
        f"{found}"
    )
