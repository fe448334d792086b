"""The commands that findings and reports name, as argument vectors.

Commands that change files name those of a manifest by the paths that they had on its host, and
objects by those of a copy on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kdump.format.lines.shell import operand
from kdump.storage.manifests.path import ManifestPath
from kdump.storage.objects.remote_path import RemotePath
from kdump.storage.paths import AnyPath
from kdump.storage.repair_journal import RepairJournal
from kdump.storage.repair_record import RepairRecord, RepairState

Remedy = tuple[str, ...]
"""A command as an argv."""

#: Stands for a copy of a partition whose path is not known.
COPY: Final = Path("COPY")
#: Stands for a log directory whose path is not known.
_DIRECTORY: Final = Path("DIRECTORY")


def place_of(path: AnyPath) -> AnyPath:
    """Return where a command can change what is at ``path``.

    For a manifest it is the path on its host. An anonymous manifest does not have it: ``DIRECTORY``
    stands for the log directory. No command changes an object store: for an address it is the
    path of a copy below the current directory, whose first part is the bucket.
    """
    if isinstance(path, ManifestPath):
        return path.on_host() or _DIRECTORY.joinpath(*path.parts[2:])
    return Path(*path.parts[1:]) if isinstance(path, RemotePath) else path


def copy_text(path: AnyPath) -> str | None:
    """Return what comes before a command that changes what is at ``path``; None for nothing."""
    if isinstance(path, RemotePath):
        return f"copy {path} to {place_of(path)}: no command changes an object store"
    return None


def verify_command(partition: AnyPath) -> Remedy:
    """Return the command that verifies a partition."""
    return "kdump", "verify", operand(partition)


def space_command(directory: AnyPath) -> Remedy:
    """Return the command that shows what takes the space of a log directory."""
    return "kdump", "space", operand(place_of(directory))


def trim_command(directories: Iterable[AnyPath], free_bytes: int) -> Remedy:
    """Return the command that plans to remove the oldest segments of a stopped broker."""
    places = (operand(place_of(directory)) for directory in directories)
    return "kdump", "trim", "--config", "server.properties", "--free", str(free_bytes), *places


def move_command(target: str, partitions: Iterable[AnyPath]) -> Remedy:
    """Return the command that plans to move partitions of a stopped broker to ``target``."""
    places = (operand(place_of(partition)) for partition in partitions)
    return "kdump", "move", "--to", operand(Path(target)), *places


def leftovers_command(directories: Iterable[AnyPath]) -> Remedy:
    """Return the command that plans to remove what no log of a stopped broker needs."""
    places = (operand(place_of(directory)) for directory in directories)
    return "kdump", "trim", "--leftovers", *places


def reindex_command(partition: AnyPath) -> Remedy:
    """Return the command that rebuilds indexes and producer snapshots."""
    return "kdump", "reindex", operand(place_of(partition))


def salvage_command(partition: AnyPath) -> Remedy:
    """Return the command that copies every sound batch, before and after the damage."""
    return "kdump", "salvage", operand(place_of(partition)), "--output", "DIR"


def truncate_command(partition: AnyPath, at: int | None = None) -> Remedy:
    """Return the command that truncates the log where recovery would, or at an offset."""
    where = () if at is None else ("--at", str(at))
    return "kdump", "truncate-to-valid", operand(place_of(partition)), *where


def compare_command(partition: AnyPath, copies: Iterable[AnyPath]) -> Remedy:
    """Return the command that compares a partition with copies of it."""
    return "kdump", "compare", operand(partition), *map(operand, copies)


def heal_command(partition: AnyPath, copies: Iterable[AnyPath]) -> Remedy:
    """Return the command that takes from copies what is damaged or missing."""
    sources = (word for copy in copies for word in ("--from", operand(copy)))
    return "kdump", "heal", operand(place_of(partition)), *sources


def convert_command(partition: AnyPath) -> Remedy:
    """Return the command that converts batches to magic 2 with a leader epoch."""
    return "kdump", "convert-v0-v2", operand(place_of(partition))


def resume_command(partition: AnyPath, record: RepairRecord) -> Remedy:
    """Return the command that resumes an interrupted repair or undo, with the consent it needs."""
    if record.state is RepairState.UNDOING or record.command is None:
        return undo_command(partition, record.id)
    confirm = ("--confirm", record.id) if record.lossy else ()
    to = () if record.target is None else ("--to", operand(Path(record.target)))
    return "kdump", record.command, *to, operand(place_of(partition)), "--apply", *confirm


def repair_command(directory: AnyPath, *options: str) -> Remedy:
    """Return the command that plans the cures of all partitions of a log directory."""
    return "kdump", "repair", operand(place_of(directory)), *options


def repair_resume_command(directory: AnyPath, journal: RepairJournal) -> Remedy:
    """Return the command that resumes an interrupted repair of a log directory."""
    confirm = ("--confirm", journal.id) if journal.lossy else ()
    return "kdump", "repair", *journal.arguments, operand(place_of(directory)), "--apply", *confirm


def undo_command(partition: AnyPath, plan_id: str) -> Remedy:
    """Return the command that undoes a repair, or finishes an interrupted undo."""
    return "kdump", "undo", operand(place_of(partition)), "--plan", plan_id, "--apply"


def saved_undo_command(directory: AnyPath, partition: AnyPath) -> Remedy:
    """Return the command that brings segments back from a backup in ``directory``."""
    saved, place = operand(place_of(directory)), operand(place_of(partition))
    return "kdump", "undo", place, "--backup", saved, "--apply"


def _of_kafka(tool: str, *words: str) -> Remedy:
    """Return a command of Kafka that asks a broker."""
    return tool, "--bootstrap-server", "HOST:PORT", *words


def abort_command(topic: str, partition: int, start_offset: int) -> Remedy:
    """Return the command of Kafka that aborts a hanging transaction, from Kafka 3.0 on."""
    return _of_kafka(
        "kafka-transactions.sh",
        "abort",
        "--topic",
        topic,
        "--partition",
        str(partition),
        "--start-offset",
        str(start_offset),
    )


def unclean_election_command(topic: str, partition: int) -> Remedy:
    """Return the command of Kafka that elects a replica that is not in sync."""
    return _of_kafka(
        "kafka-leader-election.sh",
        "--election-type",
        "unclean",
        "--topic",
        topic,
        "--partition",
        str(partition),
    )


def reassign_command(file: str, action: str) -> Remedy:
    """Return the command of Kafka that carries out a reassignment: ``--execute``, ``--verify``."""
    tool = "kafka-reassign-partitions.sh"
    return _of_kafka(tool, "--reassignment-json-file", file, action)


def delete_records_command(file: str) -> Remedy:
    """Return the command of Kafka that deletes records before offsets."""
    return _of_kafka("kafka-delete-records.sh", "--offset-json-file", file)


def retention_command(topic: str, retention_ms: int | None) -> Remedy:
    """Return the command of Kafka that sets ``retention.ms`` of a topic, None for no own value."""
    change = ("--add-config", f"retention.ms={retention_ms}")
    if retention_ms is None:
        change = ("--delete-config", "retention.ms")
    return _of_kafka(
        "kafka-configs.sh",
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        *change,
    )
