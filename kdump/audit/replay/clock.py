"""The time by which the age of an open transaction is measured."""

from __future__ import annotations

from collections.abc import Mapping

from kdump.audit.replay.replay import OpenTransaction, Replay
from kdump.values import frozen


@frozen
class Clock:
    """The times, in ms, by which the age of a transaction is measured.

    Markers and files have the time of a broker's clock: ``markers_ms`` and ``files_ms`` are the
    latest times, by each of the two, at which a transaction could have ended. Beside a running
    broker both are the present; for a stopped broker, its last write. ``modified_ms`` are the
    modification times of segments by base offset. Times of markers and of files of a stopped broker
    are not compared with each other, because the files may be copies.
    """

    markers_ms: int
    files_ms: int
    modified_ms: Mapping[int, int]

    def age_ms(self, replay: Replay, transaction: OpenTransaction) -> int:
        """Return a lower bound of the time since a transaction's last batch was written, in ms.

        Timestamps of records do not count: a producer may set any time.
        """
        last = transaction.last_offset
        base = replay.survey_at(last).segment.base_offset
        surveys = [
            segment.survey
            for segment in replay.segments
            if segment.survey.segment.base_offset >= base
        ]
        markers = (marker for survey in surveys for marker in survey.events.markers())
        later = next((marker.timestamp for marker in markers if marker.offset > last), None)
        ages = [0]
        if later is not None:
            ages.append(self.markers_ms - later)
        if base in self.modified_ms:
            ages.append(self.files_ms - self.modified_ms[base])
        return max(ages)
