"""How far share groups have acknowledged, from the records of ``__share_group_state``.

The topic is not compacted: a snapshot says everything, an update only what has changed since. So
the last record that says where a partition starts counts; how many records behind the start are
acknowledged, each record says (since 4.2).

Spec: ``ShareCoordinatorShard.replay`` (KIP-932).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kdump.coordinators.latest import LastRecord
from kdump.errors import DecodeError
from kdump.format.batch import RecordTable
from kdump.format.messages.payloads import decoder_of
from kdump.storage.names import SHARE_TOPIC
from kdump.values import frozen

_WIDTH: Final = RecordTable.WIDTH
#: The start offset of an update that does not change it, and of a partition that was not read.
_NONE: Final = -1
#: Stands for a partition that was removed.
_GONE: Final = -2

_Place = tuple[str, str, int]


@frozen
class ShareOffset:
    """The share-partition start offset of a group: records below it are acknowledged.

    ``offset`` is None before the first fetch. ``complete`` is the number of records from the start
    on whose delivery is complete, None if it is unknown, as up to 4.1.
    """

    group_id: str
    topic_id: str
    partition: int
    offset: int | None
    complete: int | None


def rows_with_start(rows: memoryview, block: memoryview) -> memoryview:
    """Return the rows of the records that say where a partition starts, or that it is gone.

    ``rows`` are flat, of ``RECORD_FIELDS``, with positions in ``block``.
    """
    found = array("q")
    for at in range(0, len(rows), _WIDTH):
        _, _, key, key_size, start, size = rows[at : at + 6]
        if key_size < 0:
            continue
        value = None if size < 0 else bytes(block[start : start + size])
        if value is None or _start(bytes(block[key : key + key_size]), value) is not None:
            found.extend(rows[at : at + _WIDTH])
    return memoryview(found)


def read_share_offsets(
    starts: Iterable[LastRecord], last: Iterable[LastRecord]
) -> list[ShareOffset]:
    """Return the start offsets.

    ``starts`` are the last records of each key that have a start, ``last`` the last ones of all.
    """
    offsets = dict(_by_place(starts, "startOffset"))
    complete = dict(_by_place(last, "deliveryCompleteCount"))
    return [
        ShareOffset(*place, offsets.get(place), complete.get(place))
        for place in sorted(complete.keys() | offsets.keys())
        if complete.get(place, _GONE) != _GONE
    ]


def _by_place(records: Iterable[LastRecord], field: str) -> Iterator[tuple[_Place, int | None]]:
    """Yield a field of the values by group, topic id and partition, in order of offsets.

    It is None where the value has none, and ``_GONE`` for a tombstone.
    """
    decoder = decoder_of(SHARE_TOPIC)
    assert decoder is not None
    for record in sorted(records, key=lambda each: each.offset):
        try:
            key, _ = decoder.decode(record.key, None)
        except DecodeError:
            continue
        assert key is not None
        fields: Mapping[str, Any] = key.fields
        place = fields["groupId"], fields["topicId"], fields["partition"]
        yield place, _GONE if record.value is None else _number(record.key, record.value, field)


def _start(key: bytes, value: bytes) -> int | None:
    """Return the start offset in a value; None without one, or if it cannot be decoded."""
    return _number(key, value, "startOffset")


def _number(key: bytes, value: bytes, field: str) -> int | None:
    decoder = decoder_of(SHARE_TOPIC)
    assert decoder is not None
    try:
        payload = decoder.decode(key, value)[1]
    except DecodeError:
        return None
    assert payload is not None
    number = payload.fields.get(field, _NONE)
    assert isinstance(number, int)
    return None if number == _NONE else number
