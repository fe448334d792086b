"""Rows of the table of copies.

A row has the fields of the lines of ``kdump compare --format json`` about one copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

import pyarrow as pa

from kdump.copies.comparison import Comparison
from kdump.copies.fields import copy_fields, leader_fields, partition_fields
from kdump.storage.objects.address import AnyPath
from kdump.tables.logs import utf8
from kdump.tables.schema import COPIES

#: How many partitions are in a batch.
_PARTITIONS: Final = 256


def copy_batches(comparisons: Iterable[Comparison]) -> Iterator[pa.RecordBatch]:
    """Yield the table ``COPIES``: a row for each copy of each partition."""
    left = iter(comparisons)
    while part := list(islice(left, _PARTITIONS)):
        rows = [row for found in part for row in _rows(found)]
        yield pa.RecordBatch.from_pylist(rows, schema=COPIES)


def _rows(found: Comparison) -> Iterator[dict[str, object]]:
    truncations = {each.leader: leader_fields(each)["truncations"] for each in found.leaderships}
    partition = partition_fields(found) | {
        "topic": utf8(found.topic),
        "partition": found.partition,
        "unread": [utf8(text) for text in found.unread],
    }
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
            yield {
                "copy": sum(difference.copies) - index + 1,
                "kind": difference.kind.value,
                "offset": difference.offset,
                "detail": utf8(difference.detail),
            }


def _path_fields(path: AnyPath) -> Mapping[str, object]:
    return {"path": utf8(str(path))}
