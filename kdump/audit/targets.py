"""Targets: what the paths that somebody named lead to, and what is known around that.

Spec: none of Kafka's. It must never read anything: who opens paths does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kdump.audit.context import Context
from kdump.audit.facts import DirectoryFacts
from kdump.audit.groups import Group, Root, Selection, unmatched
from kdump.errors import UsageError
from kdump.storage.logdir import LogDirectory


@dataclass(frozen=True, slots=True)
class Targets:
    """``parts`` has the groups of each of ``roots``, in their order."""

    roots: tuple[Root, ...]
    parts: tuple[tuple[Group, ...], ...]
    context: Context

    @property
    def groups(self) -> list[Group]:
        """All there is to judge, in order."""
        return [group for part in self.parts for group in part]


def directories_of(roots: Iterable[Root]) -> tuple[DirectoryFacts, ...]:
    """Return the log directories that ``roots`` are or stand in, each path once."""
    # What a root is goes first: by its spelling its findings are told.
    ordered = sorted(roots, key=lambda root: not isinstance(root.target, LogDirectory))
    around = [root.directory for root in ordered if root.directory is not None]
    return tuple({facts.directory.path: facts for facts in around}.values())


def check_patterns(roots: Sequence[Root], selection: Selection) -> None:
    """Raise UsageError for a pattern that no topic matches."""
    for pattern in unmatched(roots, selection):
        raise UsageError(f"--topic {pattern}: expected a pattern that some topic matches here")
