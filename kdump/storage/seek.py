"""The position from which to read a segment for an offset, by its offset index.

Spec: ``OffsetIndex.lookup``, ``LogSegment.translateOffset``.
"""

from __future__ import annotations

from typing import Final

from kdump.errors import SourceError
from kdump.format.index import OffsetIndex
from kdump.storage.access import open_source
from kdump.storage.objects.address import AnyPath
from kdump.storage.source import Source
from kdump.storage.walk import sound_batch

#: The size of the largest index that is read: an entry for every 256 bytes of the largest segment.
_INDEX_BYTES: Final = 64 << 20


def entry_position(source: Source, index: AnyPath | None, base_offset: int, offset: int) -> int:
    """Return the position of a batch before which no batch reaches ``offset``.

    The ``index`` of the segment gives the position. It is 0 without an index, if the index cannot
    be read, or if it does not point to a sound batch with a base offset up to ``offset``.

    Raises SourceError if ``source`` cannot be read.
    """
    if index is None:
        return 0
    try:
        with open_source(index, mapped=False) as file:
            if file.size > _INDEX_BYTES:
                return 0
            entries = OffsetIndex.decode(file.window(0, file.size), base_offset)
    except SourceError:
        return 0
    _, position = entries.lookup(offset)
    batch = sound_batch(source, base_offset, position)
    return position if batch is not None and batch.base_offset <= offset else 0
