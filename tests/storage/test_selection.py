"""Selected records of a walk, beside those that are picked one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kdump.format.batch import Record
from kdump.format.records import RecordReader
from kdump.storage.access import open_source
from kdump.storage.record_runs import Unread, record_runs
from kdump.storage.selection import Selection, entry_position
from kdump.storage.walk import Damage
from support import forge

BATCHES = [
    forge.batch(
        4 * number,
        [forge.record(b"v", key=b"k%d" % row, timestamp=forge.TIMESTAMP + row) for row in range(4)],
        producer_id=number % 2,
        producer_epoch=0,
        base_sequence=0,
        max_timestamp=forge.TIMESTAMP + 3,
        codec=codec,
    )
    for number, codec in enumerate(("none", "none", "lz4", "zstd", "none", "none"))
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return forge.write_partition(tmp_path, "t", 0, {0: BATCHES}) / f"{0:020}.log"


def selected(selection: Selection, log: Path, *, to_end: bool = True) -> tuple[list[Record], int]:
    """The selected records, and the bytes of the log that were walked."""
    reader, walked = RecordReader(), 0
    found: list[Record] = []
    with open_source(log, mapped=False) as source:
        index = log.with_suffix(".index")
        for size, piece in selection.pieces(source, 0, index, records=True, to_end=to_end):
            walked += size
            assert not isinstance(piece, Damage)
            for run in record_runs(piece, source, reader):
                assert not isinstance(run, Unread)
                for part in selection.runs(run):
                    for number in range(len(part)):
                        found += part.table(number)
    return found, walked


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (Selection(), lambda _: True),
        (Selection(first_offset=3, last_offset=21), lambda each: 3 <= each.offset <= 21),
        (Selection(first_offset=9, last_offset=9), lambda each: each.offset == 9),
        (Selection(last_offset=-1), lambda _: False),
        (Selection(key=b"k2"), lambda each: each.key == b"k2"),
        (
            Selection(first_timestamp=forge.TIMESTAMP + 1, last_timestamp=forge.TIMESTAMP + 2),
            lambda each: 1 <= each.timestamp - forge.TIMESTAMP <= 2,
        ),
        (Selection(producer_id=1), lambda each: each.offset // 4 % 2 == 1),
        (
            Selection(first_offset=6, producer_id=1, key=b"k3"),
            lambda each: each.offset in (7, 15, 23),
        ),
    ],
)
def test_the_selected_records(
    selection: Selection, wanted: Callable[[Record], bool], log: Path
) -> None:
    everything, walked = selected(Selection(), log)
    assert [record.offset for record in everything] == list(range(24))
    assert walked == log.stat().st_size
    assert selected(selection, log)[0] == [record for record in everything if wanted(record)]
    assert selected(selection, log, to_end=False)[0] == selected(selection, log)[0]


def test_a_walk_ends_where_the_selected_offsets_end(log: Path) -> None:
    ends = [sum(map(len, BATCHES[: number + 1])) for number in range(len(BATCHES))]
    _, walked = selected(Selection(last_offset=5), log, to_end=False)
    assert walked in ends[1:]
    with open_source(log, mapped=False) as source:
        position = entry_position(source, log.with_suffix(".index"), 0, 23)
    assert position in (0, *ends)


def test_an_index_that_misleads_is_not_followed(log: Path) -> None:
    index = log.with_suffix(".index")
    good = len(BATCHES[0]) + len(BATCHES[1])
    with open_source(log, mapped=False) as source:
        index.write_bytes(forge.offset_index([(11, good)]))
        assert entry_position(source, index, 0, 20) == good
        index.write_bytes(forge.offset_index([(11, good + 1)]))
        assert entry_position(source, index, 0, 20) == 0
        with index.open("wb") as huge:
            huge.truncate((64 << 20) + 8)
        assert entry_position(source, index, 0, 20) == 0
        index.unlink()
        assert entry_position(source, index, 0, 20) == 0
        assert entry_position(source, None, 0, 20) == 0
