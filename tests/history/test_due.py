"""The order in which due segments are read: nothing that is due again and again starves others."""

from __future__ import annotations

from dataclasses import replace

from kdump.history.due import Item, reading_order
from kdump.history.records import FileState, SegmentReading, SegmentRecord

RECORD = SegmentRecord(0, 1000, FileState(1, 2, 3), True, 2)
DAMAGED = '[{"code":"batch-crc-mismatch"}]'


def item(base: int, read_ms: int | None, findings: str = "", *, sealed: bool = True) -> Item:
    reading = None
    if read_ms is not None:
        reading = SegmentReading(read_ms, 1, bytes(16), read_ms, 1, 5, "1", None, findings)
    return Item(0, 1, base, sealed, replace(RECORD, base_offset=base, reading=reading))


def test_what_was_not_read_for_longest_comes_first() -> None:
    changed = item(5, 900)
    tried = item(6, None)
    items = [
        item(1, 700),
        item(2, 800, DAMAGED),  # damaged ones are due in each run, and have no turn of their own
        item(3, None),
        item(4, None, sealed=False),
        replace(changed, record=replace(changed.record, changed=True)),
        replace(tried, record=replace(tried.record, tried_ms=950)),
    ]
    order = [each.base_offset for each in sorted(items, key=reading_order)]
    assert order == [3, 5, 1, 2, 4, 6]
