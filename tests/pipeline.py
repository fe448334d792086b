"""Judges log directories as ``verify`` does, but in this process and without liveness being asked.

What was read is kept, so that the same directory can be judged again with other checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdump.audit.context import Context, read_context
from kdump.audit.facts import PartitionFacts, read_directory
from kdump.audit.findings import Finding
from kdump.audit.gathering import gather
from kdump.audit.groups import Group, Root, assign
from kdump.audit.judge import judge, judge_directories
from kdump.audit.survey import Survey, survey
from kdump.storage.liveness import Liveness, State
from kdump.storage.logdir import LogDirectory, open_path

NOW_MS = 1_795_000_000_000
"""The present of the tests: November 2026."""


@dataclass(frozen=True)
class Read:
    """What was read of one log directory."""

    context: Context
    groups: Sequence[tuple[Group, Sequence[Survey], PartitionFacts | None]]

    def findings(self) -> list[Finding]:
        """All findings, by the checks that there are now."""
        found = list(judge_directories(self.context))
        for group, surveys, facts in self.groups:
            found += judge(group, surveys, facts, self.context).findings
        return found

    def codes(self) -> list[str]:
        """Their codes by name."""
        return sorted(finding.code.name for finding in self.findings())


def read(
    path: Path,
    *,
    state: State = State.STOPPED,
    config: Mapping[str, str] | None = None,
    deep: bool = False,
    now_ms: int = NOW_MS,
) -> Read:
    """Read the log directory at ``path`` whole, or a partition that stands in none."""
    target = open_path(path)
    liveness = Liveness(state, "a test says so")
    directory = read_directory(target, liveness) if isinstance(target, LogDirectory) else None
    context = read_context([directory] if directory else [], config, now_ms)
    groups = assign(Root(path, target, liveness, directory))
    return Read(
        context, [(one, _surveys(one, context, deep), gather(one, context)) for one in groups]
    )


def _surveys(group: Group, context: Context, deep: bool) -> list[Survey]:
    settings = context.settings(group)
    return [
        survey(
            one,
            lambda _: None,
            mapped=False,
            sealed=one is not group.segments[-1],
            deep=deep,
            settings=settings,
        )
        for one in group.segments
    ]
