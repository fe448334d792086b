"""Judges log directories as ``verify`` does, but in this process and without liveness being asked.

What was read is kept, so that the same directory can be judged again with other checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kdump.audit import judge as judging
from kdump.audit.evidence import Evidence, replay_of
from kdump.audit.facts.small_files import (
    DirectoryFacts,
    PartitionFacts,
    TopicSettings,
    read_directory,
    read_partition_facts,
)
from kdump.audit.findings import Finding
from kdump.audit.run.gather import gather
from kdump.audit.survey.survey import Survey, survey
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.target import Root, Target, assign
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, Segment, open_path, read_partition

NOW_MS = 1_795_000_000_000
"""The present of the tests: November 2026."""


@dataclass(frozen=True)
class Read:
    """What was read of log directories."""

    context: Context
    targets: Sequence[tuple[Target, Sequence[Survey], PartitionFacts | None]]

    def findings(self) -> list[Finding]:
        """All findings, by the checks that there are now."""
        found = list(judging.judge_directories(self.context))
        for target, surveys, facts in self.targets:
            found += judging.judge(target, surveys, facts, self.context).findings
        return found

    def codes(self) -> list[str]:
        """Their codes by name."""
        return sorted(finding.code.name for finding in self.findings())


def judge(
    *paths: Path, state: BrokerState = BrokerState.STOPPED, config: Mapping[str, str] | None = None
) -> list[Finding]:
    """All findings in log directories, which a ``config`` says to be of one node."""
    return read(*paths, state=state, config=config).findings()


def read(
    *paths: Path,
    state: BrokerState = BrokerState.STOPPED,
    config: Mapping[str, str] | None = None,
    deep: bool = False,
    compacted: bool | None = None,
    now_ms: int = NOW_MS,
) -> Read:
    """Read the log directories at ``paths`` whole, or a partition that stands in none.

    ``compacted`` is what is known of every topic, None for what the directories themselves say.
    """
    roots = [_root(path, state) for path in paths]
    directories = [root.directory for root in roots if root.directory is not None]
    context = read_context(directories, config, now_ms)
    targets = [target for root in roots for target in map(Target.with_listing, assign(root))]
    return Read(
        context,
        [
            (one, _surveys(one, context, deep), _facts(one, context, compacted, deep))
            for one in targets
        ],
    )


def evidence(
    partition: Path,
    directory: DirectoryFacts | None = None,
    *,
    compacted: bool | None = None,
    live: bool = False,
    deep: bool = False,
    now_ms: int = NOW_MS,
) -> Evidence:
    """What the checks get of a partition, read whole; without ``directory`` it stands in none.

    ``compacted`` is what is known of its topic.
    """
    listed, settings = read_partition(partition), TopicSettings(compacted=compacted)
    target = Target(partition, listed.segments, None, not live, 0, None, listed, directory)
    surveys = tuple(_survey(one, target, settings, deep) for one in target.segments)
    facts = read_partition_facts(listed, directory, settings, stopped=not live)
    replayed = replay_of(target, surveys, facts, quick=False)
    return Evidence(target, surveys, facts, replayed, now_ms=now_ms)


def of_survey(found: Survey, *, sealed: bool, live: bool = False) -> Evidence:
    """What the checks get of one segment alone; ``sealed``: another one follows."""
    next_base = found.segment.base_offset + 10_000 if sealed else None
    target = Target(found.segment.log, (found.segment,), next_base, not live, found.size)
    return Evidence(target, (found,))


def _facts(
    target: Target, context: Context, compacted: bool | None, deep: bool
) -> PartitionFacts | None:
    facts = gather(target, context, deep=deep)
    if facts is None or compacted is None:
        return facts
    return replace(facts, settings=replace(facts.settings, compacted=compacted))


def _root(path: Path, state: BrokerState) -> Root:
    target, liveness = open_path(path), Liveness(state, "a test says so")
    directory = read_directory(target, liveness) if isinstance(target, LogDirectory) else None
    return Root(path, target, liveness, directory)


def _surveys(target: Target, context: Context, deep: bool) -> list[Survey]:
    settings = context.settings(target)
    return [_survey(one, target, settings, deep) for one in target.segments]


def _survey(segment: Segment, target: Target, settings: TopicSettings, deep: bool) -> Survey:
    sealed = segment is not target.segments[-1]
    return survey(
        segment, lambda _: None, mapped=False, sealed=sealed, deep=deep, settings=settings
    )
