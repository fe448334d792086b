"""Rows of the table of copies.

A row has the fields of the lines of ``kdump compare --format json`` about one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from kdump.copies.comparison import Comparison
from kdump.copies.fields import copy_fields, difference_fields, leader_fields, partition_fields
from kdump.storage.paths import AnyPath
from kdump.tables.logs import utf8
from kdump.tables.schema import COPIES

#: How many partitions are in a batch.
_PARTITIONS: Final = 256
_LAST_OFFSET: Final = (1 << 63) - 1


def copy_batches(comparisons: Iterable[Comparison]) -> Iterator[pa.RecordBatch]:
    """Yield the table ``COPIES``: a row for each copy of each partition."""
    left = iter(comparisons)
    while part := list(islice(left, _PARTITIONS)):
        rows = [_storable(row) for found in part for row in _rows(found)]
        yield pa.RecordBatch.from_pylist(rows, schema=COPIES)


def _rows(found: Comparison) -> Iterator[dict[str, object]]:
    truncations = {each.leader: leader_fields(each)["truncations"] for each in found.leaderships}
    name = {"topic": found.topic, "partition": found.partition}
    partition = name | partition_fields(found)
    for index in range(len(found.copies)):
        yield {
            **partition,
            **copy_fields(found, index, _path_fields),
            "alone": [
                {"first_offset": first, "last_offset": end - 1}
                for number, (first, end) in found.alone
                if number == index
            ],
            "differences": list(_differences(found, index)),
            "truncations": truncations.get(index),
        }


def _differences(found: Comparison, index: int) -> Iterator[dict[str, object]]:
    """Yield the differences of a copy from each other one."""
    for difference in found.differences:
        if index in difference.copies:
            fields = difference_fields(difference)
            del fields["copies"]
            yield {"copy": sum(difference.copies) - index + 1, **fields}


def _path_fields(path: AnyPath) -> Mapping[str, object]:
    return {"path": str(path)}


def _storable(value: Any) -> Any:
    """Return a value as columns can hold it: UTF-8, and an end offset of 2**63 as the one before.

    Such an offset is that after a batch with the last offset that there is.
    """
    match value:
        case dict():
            return {name: _storable(each) for name, each in value.items()}
        case list():
            return [_storable(each) for each in value]
        case str():
            return utf8(value)
        case int():
            return min(value, _LAST_OFFSET)
    return value
