"""The losses of a whole run: now, and further ones at the next start.

Spec: KOD 5.
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

#: The codes of missing offsets where no evidence decides whether records are lost.
_UNDECIDED: Final = frozenset({codes.OFFSETS_MISSING, codes.EPOCHS_BEYOND_END})


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses in all partitions of a run: now, and further ones at the next start.

    ``now_partitions`` and ``further_partitions`` count the partitions that lose records.
    ``outcome`` is the worst outcome of the next start. ``strays`` counts the partitions with
    records that it renames, so that they are no longer served. ``now_exact`` and ``further_exact``
    are False if a part that was not read may increase the loss. ``undecided``: no evidence decides
    whether some missing offsets held records. ``stopped``: no broker runs, so that a start follows.
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
        """Whether records are lost, or will be lost at a start that follows."""
        return bool(self.now) or (self.stopped and self.at_start)

    @property
    def at_start(self) -> bool:
        """Whether the next start does further harm."""
        return self.outcome is not Outcome.STARTS or bool(self.further or self.strays)

    @property
    def start_is_worse(self) -> bool:
        """Whether the next start loses more than is lost already."""
        if self.outcome is not Outcome.STARTS or self.further.count > self.now.count:
            return True
        return bool(self.strays) and not self.now


def losses_of(
    partitions: Iterable[tuple[Verdict, Forecast | None]],
    causes: Iterable[Cause] = (),
    *,
    whole: bool = True,
) -> Losses:
    """Return the sum of the losses of ``partitions``; ``whole``: no partition is left out.

    ``causes`` are further reasons that keep a broker from starting.
    """
    now, further, all_causes = list[Span](), list[Span](), list(causes)
    now_exact = further_exact = whole
    stopped, undecided, strays = True, False, 0
    for verdict, forecast in partitions:
        stopped &= verdict.target.stopped
        undecided |= any(finding.code in _UNDECIDED for finding in verdict.findings)
        now_exact &= not verdict.quick
        if verdict.lost.records:
            now.append(verdict.lost.records)
        if forecast is None:
            continue
        further_exact &= forecast.exact
        all_causes += forecast.causes
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
        worst_outcome(all_causes),
        strays,
        undecided,
        stopped,
    )
