"""The sums of a ``compare`` run, its verdict, and its exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kdump.audit.verdicts.state import RunState
from kdump.copies.comparison import Comparison, ComparisonState
from kdump.ui.exits import Ending
from kdump.ui.units import count_text


@dataclass(slots=True)
class CompareSummary:
    """The number of partitions by their state, and what was read.

    ``remote`` counts those with offsets in remote storage only, ``missing`` those of which a node
    with a replica has no log.
    """

    states: Counter[ComparisonState] = field(default_factory=Counter)
    copies: int = 0
    log_bytes: int = 0
    batches: int = 0
    uncompared: int = 0
    remote: int = 0
    missing: int = 0

    def add(self, found: Comparison) -> None:
        """Count a partition."""
        self.states[found.state] += 1
        self.copies += len(found.copies)
        self.log_bytes += sum(copy.size for copy in found.copies)
        self.batches += sum(copy.batches for copy in found.copies)
        self.uncompared += sum(batches for _, _, batches in found.uncompared)
        self.remote += any(copy.remote for copy in found.copies)
        self.missing += bool(found.missing)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.states.total()

    @property
    def state(self) -> RunState:
        """The first word of the report: ERROR comes before what is unread."""
        if self.states[ComparisonState.DIFFERENT]:
            return RunState.ERROR
        if self.states[ComparisonState.UNREAD]:
            return RunState.INCOMPLETE
        if self.missing:
            return RunState.WARNING
        compared = self.partitions - self.states[ComparisonState.ALONE]
        return RunState.OK if compared else RunState.NOT_CHECKED

    @property
    def verdict(self) -> str:
        """Sentences on the partitions, those with the worst state first."""
        states = self.states
        texts = (
            (states[ComparisonState.DIFFERENT], "The replicas of {} differ or are corrupt."),
            (self.missing, "Of {}, a node with a replica has no log."),
            (states[ComparisonState.UNREAD], "Of {}, not all could be read."),
            (states[ComparisonState.LAGGING], "In {} a replica has fewer records than another."),
            (states[ComparisonState.EQUAL], "The replicas of {} are equal."),
            (states[ComparisonState.ALONE], "Of {}, one replica is here: nothing was compared."),
        )
        sentences = [text.format(count_text(count, "partition")) for count, text in texts if count]
        return " ".join(sentences) or "No partition was compared."

    @property
    def exit_code(self) -> int:
        """The exit code: lag and partitions with one copy are no difference."""
        return Ending(
            unread=bool(self.states[ComparisonState.UNREAD]),
            problems=bool(self.states[ComparisonState.DIFFERENT]),
        ).exit_code
