"""What a run did not read, because an earlier run did and left its evidence in a state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kdump.audit.survey.survey import Survey
from kdump.values import frozen


@frozen
class Remembered:
    """Sums over the segments that earlier runs read, and what went wrong with the state.

    ``log_bytes`` is the size of their logs. ``oldest_ms`` is the time in ms of the earliest of
    these runs, None without segments. ``unusable`` counts files of the state that could not be
    used, ``unwritten`` those that could not be written; ``text`` is the message about one of them.
    """

    segments: int = 0
    log_bytes: int = 0
    oldest_ms: int | None = None
    unusable: int = 0
    unwritten: int = 0
    text: str = ""

    @classmethod
    def of(cls, surveys: Iterable[Survey]) -> Remembered:
        """Return the sums over those of ``surveys`` that earlier runs made."""
        made = [(survey.read_ms, survey.size) for survey in surveys if survey.read_ms is not None]
        if not made:
            return NOTHING_REMEMBERED
        return cls(len(made), sum(size for _, size in made), min(read_ms for read_ms, _ in made))

    def __add__(self, other: Remembered) -> Remembered:
        if other is NOTHING_REMEMBERED:
            return self
        times = [each for each in (self.oldest_ms, other.oldest_ms) if each is not None]
        return Remembered(
            self.segments + other.segments,
            self.log_bytes + other.log_bytes,
            min(times, default=None),
            self.unusable + other.unusable,
            self.unwritten + other.unwritten,
            self.text or other.text,
        )


NOTHING_REMEMBERED: Final = Remembered()
