"""Scope: the targets of all paths of a command, with their context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from kdump.audit.facts.metadata_log import is_emptied
from kdump.audit.facts.small_files import DirectoryFacts
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import (
    Root,
    Target,
    TopicSelection,
    leaves_nothing,
    unmatched_patterns,
)
from kdump.errors import (
    ForeignDirectoryError,
    ForeignFileError,
    SourceError,
    UsageError,
    VanishedError,
)
from kdump.storage.logdir import LogDirectory
from kdump.values import frozen

_WRONG_PATHS: Final = (ForeignDirectoryError, ForeignFileError, VanishedError)


@frozen
class Scope:
    """The roots of a command; ``parts`` has the targets of each of ``roots``, in their order."""

    roots: tuple[Root, ...]
    parts: tuple[Sequence[Target], ...]
    context: Context

    @property
    def targets(self) -> list[Target]:
        """All targets, in order."""
        return list(chain.from_iterable(self.parts))

    @property
    def count(self) -> int:
        """The number of targets."""
        return sum(map(len, self.parts))


def readable(scope: Scope) -> Scope:
    """Return ``scope``. Raise the SourceError of a root that cannot be opened."""
    for error in errors_of(scope.roots):
        raise error
    return scope


def errors_of(roots: Iterable[Root]) -> list[SourceError]:
    """Return the errors of the roots that cannot be opened."""
    return [root.content for root in roots if isinstance(root.content, SourceError)]


def wrong_paths(roots: Iterable[Root]) -> list[SourceError]:
    """Return the errors of the paths at which there is nothing to check.

    Other errors are findings: something is there and cannot be read, or a log directory that a
    broker's configuration names is missing.
    """
    return [error for error in errors_of(roots) if isinstance(error, _WRONG_PATHS)]


def emptied_errors(roots: Iterable[Root]) -> list[SourceError]:
    """Return an error for each log directory that has lost all its partitions.

    For verify it is a finding. What has only partitions to show would show an empty cluster.
    """
    return [
        SourceError(
            root.path,
            f"{root.path}: expected the partitions that its checkpoints list, found none: kdump "
            "verify says what a broker would do",
        )
        for root in roots
        if isinstance(root.content, LogDirectory)
        and root.directory is not None
        and is_emptied(root.directory)
    ]


def directories_of(roots: Iterable[Root]) -> tuple[DirectoryFacts, ...]:
    """Return the log directories that ``roots`` are or are in, each path once."""
    # Roots that are log directories go first: findings use their spelling.
    ordered = sorted(roots, key=lambda root: not isinstance(root.content, LogDirectory))
    directories = [root.directory for root in ordered if root.directory is not None]
    return tuple({facts.directory.path: facts for facts in directories}.values())


def check_patterns(roots: Sequence[Root], selection: TopicSelection) -> None:
    """Raise UsageError if a pattern matches no topic, or if patterns leave out all partitions."""
    for pattern in unmatched_patterns(roots, selection):
        raise UsageError(f"--topic {pattern}: expected a pattern that some topic matches here")
    if selection.excluded and leaves_nothing(roots, selection):
        patterns = " ".join(f"--exclude {pattern}" for pattern in selection.excluded)
        raise UsageError(
            f"{patterns}: expected patterns that leave some partition to check, found that all are "
            "left out"
        )
