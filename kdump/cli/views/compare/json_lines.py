"""JSON Lines: a line for each copy, leader and difference.

Scripts rely on it: fields may be added, but none is changed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kdump.cli.ui import jsonl
from kdump.cli.views.compare.summary import Summary
from kdump.copies.comparison import Comparison, Cut, Difference, Leadership, State
from kdump.copies.copy import LostOffsets
from kdump.storage.objects.address import AnyPath


class JsonComparisons:
    """Emits the header at once, and the lines of each partition as soon as it is compared.

    Copies are numbered from 1 in each partition.
    """

    def __init__(self, emit: Callable[[str], None], paths: Iterable[AnyPath]) -> None:
        self._emit = emit
        self._summary = Summary()
        emit(jsonl.line("header", jsonl.header("compare", paths)))

    def add(self, found: Comparison) -> None:
        """Emit the lines of a partition."""
        self._summary.add(found)
        name: dict[str, object] = {"topic": found.topic, "partition": found.partition}
        for index in range(len(found.copies)):
            self._emit(jsonl.line("copy", name | _copy_fields(found, index)))
        for leadership in found.leaderships:
            self._emit(jsonl.line("leader", name | _leader_fields(leadership)))
        for difference in found.differences:
            self._emit(jsonl.line("difference", name | _difference_fields(difference)))
        self._emit(jsonl.line("partition", name | _partition_fields(found)))

    def finish(self) -> int:
        """Emit the last line, and return the exit code."""
        summary = self._summary
        fields: dict[str, object] = {
            "exit": summary.exit_code,
            "partitions": summary.partitions,
            **{state.value: summary.states[state] for state in State},
            "copies": summary.copies,
            "log_bytes": summary.log_bytes,
            "batches": summary.batches,
        }
        self._emit(jsonl.line("summary", fields))
        return summary.exit_code


def _copy_fields(found: Comparison, index: int) -> dict[str, object]:
    copy = found.copies[index]
    return {
        "topic_id": copy.topic_id,
        "copy": index + 1,
        **jsonl.path_field(copy.path),
        "node_id": copy.node_id,
        "live": copy.live,
        "starts": copy.starts,
        "stray": copy.stray,
        "start_loses": copy.start_loses,
        "leader_epochs": [
            {"epoch": entry.epoch, "start_offset": entry.start_offset}
            for entry in copy.epochs.entries
        ],
        "log_start_offset": copy.start,
        "log_end_offset": copy.end if copy.starts else None,
        "end_offset": copy.end_offset,
        "high_watermark": copy.high_watermark,
        "size": copy.size,
        "batches": copy.batches,
        "records": copy.records,
        "in_sync": found.in_sync(index),
        "eligible": found.eligible(index),
        "preference": found.order.index(index) + 1,
        "damages": [
            _lost_fields(lost, sound_in)
            for lost, sound_in in zip(copy.lost, found.sound_in[index], strict=True)
        ],
    }


def _lost_fields(lost: LostOffsets, sound_in: Iterable[int]) -> dict[str, object]:
    return {
        **jsonl.path_field(lost.path),
        "position": lost.position,
        "size": lost.size,
        "first_offset": lost.first,
        "last_offset": None if lost.end is None else lost.end - 1,
        "reason": lost.reason,
        "sound_in": [number + 1 for number in sound_in],
    }


def _leader_fields(leadership: Leadership) -> dict[str, object]:
    return {
        "copy": leadership.leader + 1,
        "truncations": [_cut_fields(cut) for cut in leadership.cuts],
    }


def _difference_fields(difference: Difference) -> dict[str, object]:
    return {
        "kind": difference.kind.value,
        "copies": [index + 1 for index in difference.copies],
        "offset": difference.offset,
        "detail": difference.detail,
    }


def _partition_fields(found: Comparison) -> dict[str, object]:
    return {
        "state": found.state.value,
        "copies": len(found.copies),
        "first": found.first + 1,
        "unclean": found.unclean,
        "alone": [
            {"copy": index + 1, "first_offset": first, "last_offset": end - 1}
            for index, (first, end) in found.alone
        ],
        "uncompared": [
            {"copies": [index + 1, beside + 1], "batches": batches}
            for index, beside, batches in found.uncompared
        ],
        "missing_nodes": list(found.missing),
        "unread": list(found.unread),
    }


def _cut_fields(cut: Cut) -> dict[str, object]:
    truncation, lost = cut.truncation, cut.lost
    return {
        "copy": cut.copy + 1,
        "offset": None if truncation is None else truncation.offset,
        "restart": truncation is not None and truncation.restart,
        "first_offset": None if lost is None else lost.first,
        "last_offset": None if lost is None else lost.end - 1,
        "records": cut.records,
    }
