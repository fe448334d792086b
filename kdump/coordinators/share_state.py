"""How far share groups have acknowledged, from the records of ``__share_group_state``.

The topic is not compacted: a snapshot says everything, an update only what has changed since. So
the last record that says where a partition starts counts.

Spec: ``ShareCoordinatorShard.replay`` (KIP-932).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
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


@frozen
class ShareOffset:
    """The share-partition start offset of a group: records below it are acknowledged."""

    group_id: str
    topic_id: str
    partition: int
    offset: int


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


def read_share_offsets(records: Iterable[LastRecord]) -> list[ShareOffset]:
    """Return the start offsets; ``records`` are the last of each key that have one."""
    decoder = decoder_of(SHARE_TOPIC)
    assert decoder is not None
    found: dict[tuple[str, str, int], int] = {}
    for record in sorted(records, key=lambda each: each.offset):
        try:
            key, _ = decoder.decode(record.key, None)
        except DecodeError:
            continue
        assert key is not None
        fields: Mapping[str, Any] = key.fields
        place = fields["groupId"], fields["topicId"], fields["partition"]
        start = None if record.value is None else _start(record.key, record.value)
        if start is None:
            found.pop(place, None)
        else:
            found[place] = start
    return [ShareOffset(*place, start) for place, start in sorted(found.items())]


def _start(key: bytes, value: bytes) -> int | None:
    """Return the start offset in a value; None without one, or if it cannot be decoded."""
    decoder = decoder_of(SHARE_TOPIC)
    assert decoder is not None
    try:
        payload = decoder.decode(key, value)[1]
    except DecodeError:
        return None
    assert payload is not None
    start = payload.fields["startOffset"]
    assert isinstance(start, int)
    return None if start == _NONE else start
