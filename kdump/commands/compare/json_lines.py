"""JSON Lines: a line for each copy, leader and difference.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.commands.compare.summary import CompareSummary
from kdump.copies.comparison import Comparison, ComparisonState
from kdump.copies.fields import copy_fields, difference_fields, leader_fields, partition_fields
from kdump.storage.paths import AnyPath
from kdump.ui import jsonl


class JsonComparisons:
    """Emits the header at once, and the lines of each partition as soon as it is compared.

    Copies are numbered from 1 in each partition.
    """

    def __init__(self, emit: Callable[[str], None], paths: Iterable[AnyPath]) -> None:
        self._emit = emit
        self._summary = CompareSummary()
        emit(jsonl.line("header", jsonl.header("compare", paths)))

    def add(self, found: Comparison) -> None:
        """Emit the lines of a partition."""
        self._summary.add(found)
        name: dict[str, object] = {"topic": found.topic, "partition": found.partition}
        for index in range(len(found.copies)):
            self._emit(jsonl.line("copy", name | copy_fields(found, index, jsonl.path_field)))
        for leadership in found.leaderships:
            self._emit(jsonl.line("leader", name | leader_fields(leadership)))
        for difference in found.differences:
            self._emit(jsonl.line("difference", name | difference_fields(difference)))
        self._emit(jsonl.line("partition", name | partition_fields(found)))

    def finish(self) -> int:
        """Emit the last line, and return the exit code."""
        summary = self._summary
        fields: dict[str, object] = {
            "exit": summary.exit_code,
            "partitions": summary.partitions,
            **{state.value: summary.states[state] for state in ComparisonState},
            "copies": summary.copies,
            "log_bytes": summary.log_bytes,
            "batches": summary.batches,
        }
        self._emit(jsonl.line("summary", fields))
        return summary.exit_code
