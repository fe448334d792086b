"""The sums of a ``compare`` run, and its exit code."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kdump.copies.comparison import Comparison, ComparisonState
from kdump.ui.exits import Ending


@dataclass(slots=True)
class CompareSummary:
    """The number of partitions by their state, and what was read.

    ``remote`` counts those with offsets in remote storage only.
    """

    states: Counter[ComparisonState] = field(default_factory=Counter)
    copies: int = 0
    log_bytes: int = 0
    batches: int = 0
    uncompared: int = 0
    remote: int = 0

    def add(self, found: Comparison) -> None:
        """Count a partition."""
        self.states[found.state] += 1
        self.copies += len(found.copies)
        self.log_bytes += sum(copy.size for copy in found.copies)
        self.batches += sum(copy.batches for copy in found.copies)
        self.uncompared += sum(batches for _, _, batches in found.uncompared)
        self.remote += any(copy.remote for copy in found.copies)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.states.total()

    @property
    def exit_code(self) -> int:
        """The exit code: lag and partitions with one copy are no difference."""
        return Ending(
            unread=bool(self.states[ComparisonState.UNREAD]),
            problems=bool(self.states[ComparisonState.DIFFERENT]),
        ).exit_code
