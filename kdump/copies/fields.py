"""The fields of JSON Lines and of table rows about copies.

Copies are numbered from 1 in each partition, and ranges have their last offset. ``path_fields``
gives a path its form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kdump.copies.comparison import Comparison, Difference, FollowerCut, Held, Leadership, Unordered
from kdump.copies.copy import LostOffsets
from kdump.storage.paths import AnyPath

PathFields = Callable[[AnyPath], Mapping[str, object]]
"""Returns the fields of a path."""


def copy_fields(found: Comparison, index: int, path_fields: PathFields) -> dict[str, object]:
    """Return the fields of the copy with this index."""
    copy = found.copies[index]
    return {
        "topic_id": copy.topic_id,
        "copy": index + 1,
        **path_fields(copy.path),
        "node_id": copy.node_id,
        "live": copy.live,
        "starts": copy.starts,
        "stray": copy.stray,
        "start_loses": copy.start_loses,
        "leader_epochs": [
            {"epoch": entry.epoch, "start_offset": entry.start_offset}
            for entry in copy.epochs.entries
        ],
        "log_start_offset": copy.log_start,
        "remote": [{"first_offset": first, "last_offset": last} for first, last in copy.remote],
        "log_end_offset": copy.end if copy.starts else None,
        "end_offset": copy.end_offset,
        "high_watermark": copy.high_watermark,
        "size": copy.size,
        "batches": copy.batches,
        "records": copy.records,
        "in_sync": found.in_sync(index),
        "eligible": found.eligible(index),
        "preference": found.order.index(index) + 1,
        "heal_from": [number + 1 for number in found.heal_sources(index)],
        "unordered": _unordered_fields(found.unordered[index]),
        "damages": [
            _lost_fields(lost, sound_in, held, path_fields)
            for lost, sound_in, held in zip(
                copy.lost, found.sound_in[index], found.held[index], strict=True
            )
        ],
    }


def leader_fields(leadership: Leadership) -> dict[str, object]:
    """Return the fields of a leader and its effects."""
    return {
        "copy": leadership.leader + 1,
        "truncations": [_cut_fields(cut) for cut in leadership.cuts],
    }


def difference_fields(difference: Difference) -> dict[str, object]:
    """Return the fields of a difference."""
    return {
        "kind": difference.kind.value,
        "copies": [index + 1 for index in difference.copies],
        "offset": difference.offset,
        "detail": difference.detail,
    }


def partition_fields(found: Comparison) -> dict[str, object]:
    """Return the fields of the partition as a whole."""
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


def _unordered_fields(found: Unordered | None) -> dict[str, object] | None:
    return None if found is None else {"offset": found.offset, "copy": found.source + 1}


def _lost_fields(
    lost: LostOffsets, sound_in: Iterable[int], held: Iterable[Held], path_fields: PathFields
) -> dict[str, object]:
    return {
        **path_fields(lost.path),
        "position": lost.position,
        "size": lost.size,
        "first_offset": lost.first,
        "last_offset": None if lost.end is None else lost.end - 1,
        "reason": lost.reason,
        "sound_in": [number + 1 for number in sound_in],
        "held": [
            {"copy": number + 1, "first_offset": first, "last_offset": end - 1}
            for number, (first, end) in held
            if first < end
        ],
    }


def _cut_fields(cut: FollowerCut) -> dict[str, object]:
    truncation, lost = cut.truncation, cut.lost
    return {
        "copy": cut.copy + 1,
        "offset": None if truncation is None else truncation.offset,
        "restart": truncation is not None and truncation.restart,
        "first_offset": None if lost is None else lost.first,
        "last_offset": None if lost is None else lost.end - 1,
        "records": cut.records,
        "deleted_first_offset": None if cut.deleted is None else cut.deleted.first,
        "deleted_last_offset": None if cut.deleted is None else cut.deleted.end - 1,
        "deleted_records": cut.deleted_records,
    }
