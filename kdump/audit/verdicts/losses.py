"""Losses of a whole run: now, and further at the next start.

KOD 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kdump.audit import codes
from kdump.audit.codes import Outcome, Severity
from kdump.audit.startup.forecast import Forecast, worst_outcome
from kdump.audit.startup.outcome import Cause
from kdump.audit.survey.recovery import Span
from kdump.audit.verdicts.verdict import Verdict

#: Offsets are missing, and nothing decides whether records are lost.
_UNDECIDED: Final = frozenset({codes.OFFSETS_MISSING, codes.EPOCHS_BEYOND_END})


@dataclass(frozen=True, slots=True)
class Losses:
    """What is lost in all partitions of a run: today, and further at the next start.

    ``now_partitions`` and ``further_partitions`` count those that lose something. ``outcome`` is
    the worst of the next starts; ``strays`` are partitions with records that it renames, so that
    they are not served any more. ``now_exact`` and ``further_exact`` are False where something was
    not read that may make it worse. ``undecided``: offsets are missing of which nothing decides
    whether records are lost. ``stopped``: no broker runs, so that a start comes next.
    """

    now: Span
    now_partitions: int
    now_exact: bool
    further: Span
    further_partitions: int
    further_exact: bool
    outcome: Outcome
    strays: int
    undecided: bool
    stopped: bool

    @property
    def any(self) -> bool:
        """Whether something is lost, or will be at a start that comes next."""
        return bool(self.now) or (self.stopped and self.at_start)

    @property
    def at_start(self) -> bool:
        """Whether the next start does further harm."""
        return self.outcome is not Outcome.STARTS or bool(self.further or self.strays)

    @property
    def start_is_worse(self) -> bool:
        """Whether the next start does more harm than is there already."""
        if self.outcome is not Outcome.STARTS or self.further.count > self.now.count:
            return True
        return bool(self.strays) and not self.now


def losses_of(
    partitions: Iterable[tuple[Verdict, Forecast | None]],
    causes: Iterable[Cause] = (),
    *,
    whole: bool = True,
) -> Losses:
    """Add up what ``partitions`` lose; ``whole``: these are all that there are.

    ``causes`` are what else stands in the way of a start.
    """
    now, further, every = list[Span](), list[Span](), list(causes)
    now_exact = further_exact = whole
    stopped, undecided, strays = True, False, 0
    for verdict, forecast in partitions:
        stopped &= verdict.target.stopped
        undecided |= any(one.code in _UNDECIDED for one in verdict.findings)
        now_exact &= not verdict.quick
        if verdict.lost.records:
            now.append(verdict.lost.records)
        if forecast is None:
            continue
        further_exact &= forecast.exact
        every += forecast.causes
        strays += forecast.set_aside is not None and forecast.set_aside.severity is Severity.ERROR
        if forecast.lost.sound:
            further.append(forecast.lost.sound)
    return Losses(
        sum(now, Span()),
        len(now),
        now_exact,
        sum(further, Span()),
        len(further),
        further_exact,
        worst_outcome(every),
        strays,
        undecided,
        stopped,
    )
