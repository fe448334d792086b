"""``kdump salvage``: sound batches copied to a new partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from kdump.ui.command import Command
from kdump.ui.exits import Ending
from kdump.ui.options.reports import format_option
from kdump.ui.options.targets import LogPath, SomePath
from kdump.ui.progress import progress_option

if TYPE_CHECKING:
    from kdump.audit.targets.scope import Scope
    from kdump.audit.targets.target import Target
    from kdump.commands.salvage.backup import Backup
    from kdump.commands.salvage.receipt import Salvaged
    from kdump.storage.paths import AnyPath
    from kdump.ui.progress import Mode


def _topic_id(_: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return the topic id. Raise Click's error for wrong usage if it is malformed."""
    if text is not None:
        from kdump.errors import DecodeError
        from kdump.format.properties import encode_partition_metadata

        try:
            encode_partition_metadata(text)
        except DecodeError as error:
            raise click.BadParameter(
                f"expected a topic id as kafka-topics.sh prints it, found {text!r}", param=parameter
            ) from error
    return text


@click.command(
    cls=Command,
    short_help="Copy all valid batches to a new directory: no --apply.",
    epilog="Exit codes: 0 done; 2 wrong usage; 4 done, and verify finds errors in the result; 5 "
    "something could not be read, or the name of the complete directory could not be synced: the "
    "last line on standard error is then the command that checks it; 6 refused, or too little "
    "space, nothing written; 130, 143 ended by a signal, no file left unless the error names a "
    "directory; 141 the reader of the output went away.",
)
@click.argument("paths", nargs=-1, metavar="PATH...", required=True, type=LogPath())
@click.option(
    "--output",
    metavar="DIR",
    required=True,
    type=SomePath(),
    help="Write to DIR/TOPIC-PARTITION, which must not exist yet. DIR is made if need be; it must "
    "not lie in a log directory.",
)
@click.option(
    "--hunted",
    is_flag=True,
    help="Also take batches that a search found after corruption. They may be values of records "
    "that hold batches.",
)
@click.option(
    "--topic-id",
    metavar="ID",
    callback=_topic_id,
    help="Write this topic id to partition.metadata. Default: the id in the partition's own file, "
    "else the id of the topic in the metadata log.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Take topic configs from this server.properties, and topic ids from the metadata log in "
    "its log directories.",
)
@format_option(
    "Print for people, or JSON Lines: a header, a receipt for each partition, a summary."
)
@progress_option
def salvage(
    paths: tuple[Path, ...],
    output: Path,
    hunted: bool,
    topic_id: str | None,
    config: Path | None,
    form: Literal["text", "json"],
    progress: Mode,
) -> int:
    """Copy every valid batch of a partition, before and after corruption, to a new directory.

    Several PATHs of the same partition are its replicas. The result is the log of the replica that
    an unclean election prefers, by its last leader epoch and its end offset. Valid batches of other
    replicas of its lineage complete it. The receipt says which bytes came from which replica.

    PATH is a partition directory. A broker may have renamed it to delete it (-delete), or because
    the cluster does not assign it to the broker (-stray). salvage also reads segments that a broker
    has renamed to delete them (.deleted). PATH may also be the backup of a repair,
    PARTITION/.kdump/ID. Then salvage reads the records that the repair removed, even if a broker
    has since written other records at their offsets. Batches and offsets stay as they are. Indexes,
    producer snapshots, transaction indexes and leader epochs are made to fit.

    If the marker of a transaction is lost, other files can show the outcome: transaction indexes,
    producer snapshots, and __transaction_state in the node's log directories. salvage writes a new
    marker for it. If no file shows the outcome, salvage commits the transaction, so that its
    records can be read, and reports it (transaction-end-lost).

    The output ends with the commands that put the result in the place of the partition. A receipt
    in the result lists the missing records. The source is not changed, and a broker may be running.
    """
    from kdump.commands.salvage.backup import partition_of
    from kdump.commands.salvage.merging import merge_copies
    from kdump.commands.salvage.report import start_report
    from kdump.commands.salvage.salvage import salvage as salvage_partition
    from kdump.errors import Refused
    from kdump.repair.newdir.output import check_targets
    from kdump.storage.paths import as_local
    from kdump.ui.options.targets import TargetOptions, find_scope
    from kdump.ui.progress import Progress
    from kdump.ui.repairs.outputs import write_all

    partitions = [partition_of(path) or path for path in paths]
    scope = find_scope(TargetOptions(partitions, config), stores=False)
    targets = _targets(scope)
    _check_topics(targets, topic_id)
    output_report = start_report(form, paths)
    unread = False
    try:
        backups = _backups(paths)
        groups = _copies(targets, backups)
        check_targets([copies[0] for copies in groups.values()], output)
    except Refused as error:
        output_report.error(error)
        ending = Ending.of(error)
        output_report.finish(ending.exit_code)
        return ending.exit_code
    with Progress(progress) as meter:

        def write(target: Target) -> Salvaged:
            nonlocal unread
            copies, merged = groups[target.path], None
            if len(copies) > 1:
                merged = merge_copies(copies, scope.context, report=meter.advance)
                target = merged.target
            receipt = salvage_partition(
                target,
                scope.context,
                output,
                hunted=hunted,
                backup=backups.get(as_local(target.path)),
                topic_id=topic_id,
                merged=merged,
                report=meter.advance,
            )
            unread |= bool(receipt.selection.errors)
            return receipt

        first = [copies[0] for copies in groups.values()]
        ending = write_all(first, write, output_report, meter)
    ending |= Ending(unread=unread)
    output_report.finish(ending.exit_code)
    return ending.exit_code


def _backups(paths: tuple[Path, ...]) -> dict[Path, Backup]:
    """Return the backups among ``paths``, by the partition of each.

    Raise UsageError, Refused, SourceError.
    """
    from kdump.commands.salvage.backup import partition_of, read_backup
    from kdump.errors import UsageError

    backups: dict[Path, Backup] = {}
    owners = [partition_of(path) for path in paths]
    for path, owner in zip(paths, owners, strict=True):
        if owner is None:
            continue
        if owners.count(owner) > 1 or owner in paths:
            raise UsageError(
                f"{path}: expected one origin for each partition, found {owner} more than once: "
                "salvage its backups in separate runs, each to its own --output"
            )
        backups[owner] = read_backup(path)
    return backups


def _copies(
    targets: Sequence[Target], backups: Mapping[Path, Backup]
) -> dict[AnyPath, list[Target]]:
    """Return the copies of each partition, by the path of the first; a backup is none."""
    by_name: dict[tuple[str, int], list[Target]] = {}
    groups: dict[AnyPath, list[Target]] = {}
    for target in targets:
        name = None if target.partition is None else target.partition.name
        alone = name is None or bool(name.suffix) or target.path in backups
        if name is None or alone:
            groups[target.path] = [target]
        elif (name.topic, name.partition) in by_name:
            by_name[name.topic, name.partition].append(target)
        else:
            groups[target.path] = by_name[name.topic, name.partition] = [target]
    return groups


def _check_topics(targets: Sequence[Target], topic_id: str | None) -> None:
    """Raise UsageError if ``topic_id`` would go to partitions of several topics."""
    from kdump.errors import UsageError

    names = {
        target.partition.name.topic
        for target in targets
        if target.partition and target.partition.name
    }
    if topic_id is not None and len(names) > 1:
        found = ", ".join(sorted(names))
        raise UsageError(
            f"--topic-id {topic_id}: expected partitions of the same topic, found {found}"
        )


def _targets(scope: Scope) -> list[Target]:
    """Return the partitions of ``scope``. Raise UsageError, SourceError."""
    from kdump.errors import SourceError, UsageError
    from kdump.storage.logdir import Partition

    targets: list[Target] = []
    for root, part in zip(scope.roots, scope.parts, strict=True):
        if isinstance(root.content, SourceError):
            raise root.content
        if not isinstance(root.content, Partition):
            raise UsageError(
                f"{root.path}: expected a partition directory, found something else: give "
                "partition directories"
            )
        targets += part
    return targets
