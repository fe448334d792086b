"""``kdump metadata``: the metadata image of a KRaft node, from its disk.

Spec: ``MetadataImage``; KIP-500, KIP-630.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from kdump.ui.command import Command
from kdump.ui.options.reports import format_option, wide_option
from kdump.ui.options.targets import LogPath, TargetOptions, path_options
from kdump.ui.units import LARGEST_LONG

if TYPE_CHECKING:
    from kdump.metadata.replay import MetadataState
    from kdump.storage.logdir import Partition
    from kdump.storage.paths import AnyPath


class _OffsetOrPath(LogPath):
    """An offset, which is digits alone, or what ``LogPath`` is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the offset or the path. Raise UsageError, and Click's error."""
        if isinstance(value, str) and value.isascii() and value.isdigit():
            if len(value) > len(str(LARGEST_LONG)):
                self.fail(f"expected an offset up to {LARGEST_LONG}", param, ctx)
            return int(value)
        return super().convert(value, param, ctx)


@click.command(
    cls=Command,
    short_help="Show topics, brokers, configs, ACLs and quotas.",
    epilog="Exit codes: 0 shown; 2 wrong usage; 4 the log is corrupt, or brokers cannot apply a "
    "record of it; 5 something could not be read, which comes before 4; 130, 143 ended by a "
    "signal; 141 the reader of the output went away.",
)
@click.option(
    "--at",
    "last",
    metavar="OFFSET",
    type=click.IntRange(0, LARGEST_LONG),
    help="Replay the records up to this offset, instead of all of them.",
)
@click.option(
    "--diff",
    "other",
    metavar="OTHER",
    type=_OffsetOrPath(),
    help="Show the differences from OTHER: the directory of another node, or an offset up to which "
    "the same log is replayed.",
)
@format_option(
    "Tables for people; JSON Lines; or commands of Kafka's tools that create topics, "
    "configs, quotas and ACLs in an empty cluster.",
    "commands",
)
@wide_option
@path_options
def metadata(
    targets: TargetOptions,
    last: int | None,
    other: AnyPath | int | None,
    form: Literal["text", "json", "commands"],
    wide: bool,
) -> int:
    """Show the cluster as the metadata log at PATH has it.

    PATH is a log directory with __cluster_metadata-0, or that directory. Like a broker, kdump
    replays the newest whole snapshot and the records after it: features, voters, controllers,
    brokers, topics with their partitions, configs, ACLs, quotas, SCRAM users and delegation tokens.
    A broker does not replay records above the high watermark. The high watermark is not on disk, so
    kdump replays all records, except those of a metadata transaction that has not ended.

    kdump lists records that brokers cannot apply. It reads up to the first corruption, where a
    startup truncates the log. It never shows secrets. It changes nothing, and can run while a
    broker is running.
    """
    from kdump.errors import UsageError
    from kdump.metadata.replay import read_state

    if other is not None and form == "commands":
        raise UsageError("--diff: expected --format text or json, found commands")
    partition = _find_partition(targets)
    state = read_state(partition, last)
    if other is None:
        return _print_image(state, form, wide)
    if isinstance(other, int):
        before = read_state(partition, other)
    else:
        before = read_state(_metadata_log([other]), last)
    return _print_differences(before, state, form)


def _print_image(state: MetadataState, form: str, wide: bool) -> int:
    from kdump.commands.metadata.json_lines import emit_image
    from kdump.commands.metadata.kafka_commands import print_commands
    from kdump.commands.metadata.text import print_image

    if form == "text":
        return print_image(click.echo, state, wide=wide)
    return (emit_image if form == "json" else print_commands)(click.echo, state)


def _print_differences(before: MetadataState, after: MetadataState, form: str) -> int:
    from kdump.commands.metadata.difference import print_differences
    from kdump.commands.metadata.json_lines import emit_differences

    report = emit_differences if form == "json" else print_differences
    return report(click.echo, before, after)


def _find_partition(targets: TargetOptions) -> Partition:
    from kdump.ui.options.targets import named_paths

    paths, _ = named_paths(targets)
    return _metadata_log(paths, each=bool(targets.paths))


def _metadata_log(paths: Sequence[AnyPath], *, each: bool = True) -> Partition:
    """Return the one metadata log at ``paths``. Raises UsageError, SourceError.

    Without ``each``, paths that cannot be read are passed over if another one has the log.
    """
    from kdump.errors import SourceError, UsageError
    from kdump.metadata.log import metadata_partition
    from kdump.storage.logdir import (
        LogDirectory,
        Partition,
        is_metadata_log,
        open_path,
        read_partition,
    )

    found: list[Partition] = []
    errors: list[SourceError] = []
    for path in paths:
        try:
            content = open_path(path)
        except SourceError as error:
            errors.append(error)
            continue
        if isinstance(content, Partition) and is_metadata_log(content):
            found.append(content)
        elif isinstance(content, LogDirectory):
            inside = metadata_partition(content)
            found += [] if inside is None else [read_partition(inside)]
    if errors and (each or not found):
        raise errors[0]
    if len(found) == 1:
        return found[0]
    number = "none" if not found else f"{len(found)} of them"
    named = ", ".join(map(str, paths))
    raise UsageError(f"{named}: expected one directory __cluster_metadata-0, found {number}")
