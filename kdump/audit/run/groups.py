"""A run over groups of targets, described as stages, and its runner in this process.

The stages do not know where they run: ``GroupWorkers`` carries them out here, and
``fleet.verify.groups`` on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Protocol, TypeVar

from kdump.audit.run.verify import verify
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target
from kdump.audit.verdicts.verdict import Verdict
from kdump.storage.throttle import Pace
from kdump.values import frozen

T = TypeVar("T")
W = TypeVar("W")
G = TypeVar("G", bound="TargetGroup")
G_contra = TypeVar("G_contra", bound="TargetGroup", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class TargetGroup(Protocol):
    """Targets whose results belong together; at least one."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The indices, in the order in which results are combined."""


class Stages(Protocol[G_contra, T, W, R_co]):
    """What is done with the verdicts of a group; values and results are pickled, if they travel.

    The verdicts are of default depth, with digests of headers.
    """

    def conclude(self, verdict: Verdict, pace: Pace | None = None) -> T:
        """Return what the second stage needs of a verdict; what is read is read at ``pace``."""

    def weight(self, value: T) -> W:
        """Return what the cost of the second stage depends on."""

    def cost(self, weights: Sequence[W]) -> int:
        """Return the bytes that the second stage reads for a group with these ``weights``."""

    def combine(
        self,
        group: G_contra,
        values: Sequence[T],
        pace: Pace | None = None,
        lost: str | None = None,
    ) -> R_co:
        """Return the result of a group; ``values`` are in the order of its numbers.

        If ``lost`` says what was found in the place of a result, nothing more is read.
        """


@frozen
class GroupWorkers:
    """Reads targets in at most ``jobs`` workers, and combines each group in this process.

    The targets of one group are read one after the other, so that its result is known early and
    memory does not grow with groups. ``targets`` has those of the groups, by number; the rest is as
    for ``verify``.
    """

    targets: Mapping[int, Target] | Sequence[Target]
    context: Context
    jobs: int
    pace: Pace | None = None

    def __call__(
        self,
        stages: Stages[G, T, W, R],
        groups: Sequence[G],
        on_progress: Callable[[int], None] | None = None,
    ) -> Generator[R, None, None]:
        """Yield the result of each group, in order.

        ``on_progress`` gets counts of bytes of logs that were read since its last call. Closing the
        iterator ends the run.
        """
        verdicts = verify(
            [self.targets[number] for group in groups for number in group.numbers],
            deep=False,
            jobs=self.jobs,
            digest=True,
            context=self.context,
            pace=self.pace,
            on_progress=on_progress,
        )
        with closing(verdicts):
            for group in groups:
                values = [stages.conclude(next(verdicts), self.pace) for _ in group.numbers]
                yield stages.combine(group, values, self.pace)
