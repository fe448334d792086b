"""The time by which the age of an open transaction is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdump.audit.replay.replay import OpenTransaction, Replay


@dataclass(frozen=True, slots=True)
class Clock:
    """By what the age of a transaction is measured, in ms.

    Markers have the time of a broker's clock, and so have files: ``markers_ms`` and ``files_ms``
    are the times up to which somebody could have ended a transaction, by each. Beside a running
    broker both are now; of a stopped one, when it last wrote. ``modified_ms`` are the modification
    times of segments by base offset. Times of markers and of files are not compared with each
    other where a broker is stopped, for the files may be copies.
    """

    markers_ms: int
    files_ms: int
    modified_ms: Mapping[int, int]

    def age_ms(self, replay: Replay, transaction: OpenTransaction) -> int:
        """How long ago the last batch of a transaction was written, at the least.

        Timestamps of records do not count: a producer may give its records any time.
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
