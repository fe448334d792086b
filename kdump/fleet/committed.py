"""Committed: which batches of a partition a consumer gets that reads committed records alone.

What a transaction came to, its marker in the log says; no transaction index is believed.

Spec: ``CompletedFetch`` with ``isolation.level=read_committed`` (KIP-98). A transaction without a
marker is open, and nothing from the first of these on is stable, unless damage behind its begin
may have taken the marker: then it is undecided, and its records alone are left out.
It must never give a record of a transaction whose marker it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kdump.audit.events import Events
from kdump.fleet.ranges import Ranges, within
from kdump.format import _events, _kernel
from kdump.format.batch import CONTROL, TRANSACTIONAL, BatchTable
from kdump.storage.selection import HIGHEST

_EVENT: Final = len(_events.EVENT_FIELDS)
_MAGIC: Final = _kernel.BATCH_FIELDS.index("magic")
_ATTRIBUTES: Final = _kernel.BATCH_FIELDS.index("attributes")
_PRODUCER_ID: Final = _kernel.BATCH_FIELDS.index("producer_id")
_BASE_OFFSET: Final = _kernel.BATCH_FIELDS.index("base_offset")
_ENDS: Final = (_events.COMMIT, _events.ABORT)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one copy of a partition shows of transactions.

    ``damaged_after`` has the last offset before each damage.
    """

    events: tuple[Events, ...]
    damaged_after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """``left_out`` has, by producer, the first and last offsets of transactions, ascending.

    ``end`` is the last stable offset, which is the first one that is not. ``undecided`` are the
    producers and first offsets of transactions whose markers damage may have taken.
    """

    left_out: Mapping[int, Ranges]
    end: int
    undecided: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, copies: Sequence[Seen]) -> Committed:
        """From all that is seen of a partition, in one copy or in several."""
        running: dict[int, int] = {}
        left_out: dict[int, list[tuple[int, int]]] = {}
        end, undecided = HIGHEST, []
        for offset, kind, producer in sorted(set(_marks(copies))):
            if kind == _events.BEGIN:
                running.setdefault(producer, offset)
            else:
                first = running.pop(producer, None)
                if first is None:
                    continue
                hidden = _hidden(copies, first, offset)
                if hidden is not None:
                    undecided.append((producer, first))
                if kind == _events.ABORT:
                    left_out.setdefault(producer, []).append((first, offset))
                elif hidden is not None:
                    # What is behind the damage is of the transaction that ends here.
                    left_out.setdefault(producer, []).append((first, hidden))
        for producer, first in running.items():
            if _hidden(copies, first, HIGHEST) is not None:
                left_out.setdefault(producer, []).append((first, HIGHEST))
                undecided.append((producer, first))
            else:
                end = min(end, first)
        ranges = {producer: tuple(pairs) for producer, pairs in left_out.items()}
        return cls(ranges, end, tuple(undecided))

    def batches(self, table: BatchTable) -> BatchTable:
        """Those of ``table`` with records that are committed."""
        rows = np.frombuffer(table.rows, np.int64).reshape(-1, BatchTable.WIDTH)
        modern = rows[:, _MAGIC] > 1
        control = modern & (rows[:, _ATTRIBUTES] & CONTROL != 0)
        transactional = modern & (rows[:, _ATTRIBUTES] & TRANSACTIONAL != 0) & ~control
        drop = control | (modern & (rows[:, _BASE_OFFSET] >= self.end))
        producers = rows[:, _PRODUCER_ID]
        for producer in self.left_out.keys() & set(producers[transactional].tolist()):
            inside = within(rows[:, _BASE_OFFSET], self.left_out[producer])
            drop |= transactional & (producers == producer) & inside
        if not drop.any():
            return table
        kept = memoryview(bytearray(rows[~drop].tobytes())).cast("q")
        return BatchTable(kept, hunted=table.hunted)


def _hidden(copies: Sequence[Seen], first: int, end: int) -> int | None:
    """The last offset before damage from ``first`` on that may have taken a marker below ``end``.

    None where some copy is whole there, and has all markers.
    """
    lasts = []
    for copy in copies:
        inside = [at for at in copy.damaged_after if first <= at < end]
        if not inside:
            return None
        lasts.append(max(inside))
    return max(lasts)


def _marks(copies: Iterable[Seen]) -> Iterable[tuple[int, int, int]]:
    """Offset, kind and producer of what begins and ends transactions."""
    for copy in copies:
        for events in copy.events:
            rows = events.rows
            for at in range(0, len(rows), _EVENT):
                kind, producer, _, offset = rows[at : at + 4]
                if kind == _events.BEGIN or kind in _ENDS:
                    yield offset, kind, producer
