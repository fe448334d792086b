"""The last stable offset of a partition, and the transaction that holds it.

The high watermark, which may be lower, is left out: its checkpoint is older than the log.

Spec: ``UnifiedLog.lastStableOffset`` (KIP-98).
"""

from __future__ import annotations

from typing import Final

from kdump.audit.replay.replay import OpenTransaction, Replay
from kdump.format.kernel import producers as _producers
from kdump.values import frozen

_EVENT: Final = len(_producers.EVENT_FIELDS)


@frozen
class StableOffset:
    """The last stable offset, and the log end offset.

    ``holder`` is the oldest transaction without an end, or None; ``since_ms`` is the timestamp of
    its first batch, or else of its last.
    """

    offset: int
    end_offset: int
    holder: OpenTransaction | None
    since_ms: int | None

    @property
    def waiting(self) -> int:
        """The highest possible number of records past the last stable offset."""
        return self.end_offset - self.offset

    @classmethod
    def of(cls, replay: Replay, log_start: int) -> StableOffset:
        """Return the last stable offset by ``replay``."""
        if not replay.open:
            return cls(replay.end_offset, replay.end_offset, None, None)
        holder = replay.open[0]
        offset = max(holder.first_offset, log_start)
        since_ms = _begin_ms(replay, holder)
        return cls(offset, max(replay.end_offset, offset), holder, since_ms)


def _begin_ms(replay: Replay, transaction: OpenTransaction) -> int:
    for segment in reversed(replay.segments):
        rows = segment.survey.events.rows
        if segment.survey.segment.base_offset <= transaction.first_offset:
            for at in range(0, len(rows), _EVENT):
                kind, producer, _, offset = rows[at : at + 4]
                begin = kind == _producers.BEGIN and producer == transaction.producer_id
                if begin and offset == transaction.first_offset:
                    return rows[at + _EVENT - 1]
            break
    return transaction.timestamp
