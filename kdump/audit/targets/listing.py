"""list_scope(): opens the paths of a command and lists them as a Scope.

A path that cannot be opened is a root with the error.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from kdump.audit.facts.cluster import Configs
from kdump.audit.facts.settings import log_directories
from kdump.audit.targets.context import read_context
from kdump.audit.targets.scope import Scope, check_patterns, directories_of
from kdump.audit.targets.target import Root, TopicSelection, assign, open_roots
from kdump.errors import SourceError
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.paths import AnyPath


def list_scope(
    paths: Iterable[AnyPath], settings: Configs | None, selection: TopicSelection
) -> Scope:
    """List the targets at ``paths``; ``settings`` are those of a broker.

    Raises UsageError, also for a pattern that no topic matches.
    """
    roots = tuple(open_roots(paths, log_directories(settings) if settings else ()))
    check_patterns(roots, selection)
    directories = directories_of(roots)
    beyond = _further_directories(settings, {facts.directory.path for facts in directories})
    context = read_context(directories, settings, time_of(roots, time.time_ns()), beyond)
    return Scope(roots, tuple(assign(root, selection) for root in roots), context)


def time_of(roots: Sequence[Root], now_ns: int) -> int:
    """Return the time in ms up to which ages are counted in the content of ``roots``.

    It is now, or for manifests alone the time of the newest one.
    """
    finished = [root.manifest.finished_ns for root in roots if root.manifest is not None]
    newest = max(finished, default=now_ns) if len(finished) == len(roots) else now_ns
    return newest // 1_000_000


def _further_directories(
    settings: Configs | None, known: Collection[AnyPath]
) -> Iterator[LogDirectory]:
    """Yield the log directories of a configuration that are not ``known`` and can be listed."""
    for path in log_directories(settings) if settings else ():
        if path not in known:
            with suppress(SourceError):
                content = open_path(path)
                if isinstance(content, LogDirectory):
                    yield content
