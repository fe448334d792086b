"""What the paths and options of a command lead to: directories, partitions, what is legal.

Spec: none of Kafka's. It must never print.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kdump.audit.context import Context
    from kdump.audit.groups import Group, Root


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


def selecting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its PATH arguments, and the options that go with them."""
    for option in (
        click.argument("paths", nargs=-1, metavar="[PATH...]", type=click.Path(path_type=Path)),
        click.option(
            "--exclude",
            "excluded",
            metavar="GLOB",
            multiple=True,
            help="Leave out topics that match this pattern; repeatable.",
        ),
        click.option(
            "--topic",
            "topics",
            metavar="GLOB",
            multiple=True,
            help="Of a log directory take only topics that match this pattern; repeatable.",
        ),
        click.option(
            "--config",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Take log directories (without PATH) and the settings of topics from this "
            "server.properties.",
        ),
    ):
        command = option(command)
    return command


def find_targets(
    paths: Sequence[Path], config: Path | None, topics: Sequence[str], excluded: Sequence[str]
) -> Targets:
    """List what there is to judge. Raises UsageError, Click's too, and SourceError."""
    from kdump.audit.context import read_context
    from kdump.audit.groups import Selection, assign, open_roots, unmatched
    from kdump.audit.settings import log_directories, read_config
    from kdump.errors import UsageError
    from kdump.storage.logdir import LogDirectory

    settings = None if config is None else read_config(config)
    if not paths and settings is None:
        here = click.get_current_context()
        raise click.UsageError("Missing argument 'PATH...', or --config with a file.", here)
    named = paths or log_directories(settings or {})
    selection = Selection(tuple(topics), tuple(excluded))
    roots = tuple(open_roots(named))
    for pattern in unmatched(roots, selection):
        raise UsageError(f"--topic {pattern}: expected a pattern that some topic matches here")
    # What a root is goes first: by its spelling its findings are told.
    ordered = sorted(roots, key=lambda root: not isinstance(root.target, LogDirectory))
    directories = {
        root.directory.directory.path: root.directory for root in ordered if root.directory
    }
    context = read_context(tuple(directories.values()), settings, time.time_ns() // 1_000_000)
    return Targets(roots, tuple(assign(root, selection) for root in roots), context)
