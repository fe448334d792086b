"""Indexes that a plan does not contain: rebuilt from the log when their step is done.

Spec: ``LogSegment.recover``; KOD 4.2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.survey.rebuilt_indexes import Rebuild
from kdump.repair.transaction.plan import RebuiltIndex
from kdump.storage.access import open_source
from kdump.storage.names import parse_file_name
from kdump.storage.walk import walk

#: More than any index needs; the plan has checked that the index fits segment.index.bytes.
_ROOM: Final = 2**31 - 1


def make(recipe: RebuiltIndex, partition: Path) -> bytes:
    """Rebuild the index of a segment of ``partition``; return its content.

    Raises SourceError if the log cannot be read; ValueError if the recipe names no index.
    """
    base_offset = parse_file_name(recipe.log).base_offset
    if base_offset is None or recipe.extension not in (".index", ".timeindex"):
        raise ValueError(
            f"expected an index of a segment, found {recipe.extension} of {recipe.log}"
        )
    settings = TopicSettings(index_interval_bytes=recipe.interval_bytes, segment_index_bytes=_ROOM)
    rebuild = Rebuild(base_offset, settings, room=_ROOM)
    with open_source(partition / recipe.log, mapped=False, sealed=True) as source:
        for piece in walk(source, base_offset):
            rebuild.add(piece)
    rebuilt = rebuild.finish()
    file = rebuilt.index if recipe.extension == ".index" else rebuilt.time_index
    if file.content is None:
        raise ValueError(
            f"{recipe.log}: expected at most {_ROOM} bytes of indexes, found more bytes"
        )
    return file.content
