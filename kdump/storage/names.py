"""The grammar of file and directory names in a log directory.

Spec: LogFileUtils, UnifiedLog.parseTopicPartitionName, Snapshots.parse, Topic.validate. A broker
goes by the ending of a file's name and takes everything before the first dot as a number, so that
``7.log`` is a segment to it, whose file it then looks for under the padded name. This module parses
strings: it must never look at a file system, and no string makes it raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
TRANSACTION_TOPIC = "__transaction_state"
REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""A directory of the tiered storage that brokers skip when they load a log directory."""

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
QUORUM_STATE = "quorum-state"
META_PROPERTIES = "meta.properties"
CLEAN_MARKER = ".kafka_cleanshutdown"
LOCK = ".lock"
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"


class FileKind(StrEnum):
    """What a file is for, told by its name. The value says it in words."""

    LOG = "log"
    INDEX = "offset index"
    TIME_INDEX = "time index"
    TXN_INDEX = "transaction index"
    SNAPSHOT = "producer snapshot"
    METADATA_SNAPSHOT = "metadata snapshot"
    LEADER_EPOCHS = "leader epoch checkpoint"
    PARTITION_METADATA = "partition metadata"
    QUORUM_STATE = "quorum state"
    OFFSET_CHECKPOINT = "offset checkpoint"
    META_PROPERTIES = "meta properties"
    CLEAN_MARKER = "clean shutdown marker"
    LOCK = "lock"
    BOOTSTRAP_SNAPSHOT = "bootstrap snapshot"
    KDUMP = "file of kdump"
    UNKNOWN = "unknown"


Suffix = Literal["", ".deleted", ".cleaned", ".swap", ".tmp", ".part"]
"""What follows a name while its file is on the way in or out."""

DirectorySuffix = Literal["", "delete", "stray", "future"]
"""What a broker is doing with a partition directory."""


@dataclass(frozen=True, slots=True)
class FileName:
    """A file's name, taken apart.

    ``base_offset`` is the number that a broker reads: a segment's base, the offset of a snapshot.
    None for names that carry none, and for those whose number a broker cannot read; the latter
    stop its start. ``epoch`` belongs to metadata snapshots.
    """

    name: str
    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    suffix: Suffix = ""

    @property
    def canonical(self) -> bool:
        """Is this the one spelling under which a broker finds the file again?"""
        if self.base_offset is None:
            return self.kind not in EXTENSIONS and self.kind is not FileKind.METADATA_SNAPSHOT
        if self.base_offset < 0:
            return False
        if self.kind is FileKind.METADATA_SNAPSHOT:
            # The name of one being written carries a random number.
            stem = self.name[:_SNAPSHOT_ID_LENGTH]
            return stem == f"{self.base_offset:020d}-{self.epoch:010d}"
        return self.name == format_file_name(self.kind, self.base_offset, self.suffix)


@dataclass(frozen=True, slots=True)
class DirectoryName:
    """A partition directory's name, taken apart.

    The topic of a ``delete`` or ``stray`` directory may be cut short. ``unique_id`` is what a
    broker put between partition and suffix, normally 32 hex digits, empty without a suffix.
    """

    topic: str
    partition: int
    suffix: DirectorySuffix = ""
    unique_id: str = ""


EXTENSIONS = {
    FileKind.LOG: ".log",
    FileKind.INDEX: ".index",
    FileKind.TIME_INDEX: ".timeindex",
    FileKind.TXN_INDEX: ".txnindex",
    FileKind.SNAPSHOT: ".snapshot",
}
"""The files of a segment, each with the ending of its name."""

_KINDS_BY_EXTENSION = {extension: kind for kind, extension in EXTENSIONS.items()}

_KINDS_BY_NAME = {
    RECOVERY_POINT_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    LOG_START_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    CLEANER_CHECKPOINT: FileKind.OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT: FileKind.LEADER_EPOCHS,
    PARTITION_METADATA: FileKind.PARTITION_METADATA,
    QUORUM_STATE: FileKind.QUORUM_STATE,
    META_PROPERTIES: FileKind.META_PROPERTIES,
    CLEAN_MARKER: FileKind.CLEAN_MARKER,
    LOCK: FileKind.LOCK,
    BOOTSTRAP_SNAPSHOT: FileKind.BOOTSTRAP_SNAPSHOT,
}

_SUFFIXES: tuple[Suffix, ...] = (".deleted", ".cleaned", ".swap", ".tmp", ".part")
_DIRECTORY_SUFFIXES: tuple[DirectorySuffix, ...] = ("delete", "stray", "future")

# Java's parseLong and parseInt: a sign is allowed, and so are the decimal digits of any script.
_NUMBER = re.compile(r"[+-]?\d{1,255}")
_SEGMENT_FILE = re.compile(r"(\d{20})(\.(?:log|index|timeindex|txnindex|snapshot))", re.ASCII)
_SUFFIXED_DIRECTORY = re.compile(r"\S+-\S+\.(\S+)-(?:delete|stray|future)", re.ASCII)
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_OFFSET_DIGITS = 20
_SNAPSHOT_ID_LENGTH = _OFFSET_DIGITS + 1 + 10


def parse_file_name(name: str) -> FileName:
    """Take the name of a file in a log directory or partition directory apart."""
    usual = _SEGMENT_FILE.fullmatch(name)
    if usual is not None:
        return FileName(name, _KINDS_BY_EXTENSION[usual[2]], _parse_long(usual[1]))
    if name.startswith(".kdump") and name[6:7] in ("", "."):
        return FileName(name, FileKind.KDUMP)
    stem, suffix = _split_suffix(name)
    fixed = _KINDS_BY_NAME.get(stem)
    if fixed is not None:
        return FileName(name, fixed, suffix=suffix)
    dot = stem.rfind(".")
    extension = stem[dot:] if dot >= 0 else ""
    if extension == ".checkpoint":
        base_offset = _parse_long(stem[:_OFFSET_DIGITS])
        epoch = _parse_int(stem[_OFFSET_DIGITS + 1 : _SNAPSHOT_ID_LENGTH])
        if base_offset is None or epoch is None:
            base_offset = epoch = None
        return FileName(name, FileKind.METADATA_SNAPSHOT, base_offset, epoch, suffix)
    kind = _KINDS_BY_EXTENSION.get(extension, FileKind.UNKNOWN)
    base_offset = None
    if kind is not FileKind.UNKNOWN:
        base_offset = _parse_long(stem[: stem.index(".")])
    return FileName(name, kind, base_offset, suffix=suffix)


def parse_directory_name(name: str) -> DirectoryName | None:
    """Take a partition directory's name apart; None for a name on which a broker stops its start.

    A topic that could not be created is accepted, as brokers do: see ``is_legal_topic``.
    """
    suffix: DirectorySuffix = ""
    unique_id = ""
    for candidate in _DIRECTORY_SUFFIXES:
        if name.endswith(f"-{candidate}"):
            if not _SUFFIXED_DIRECTORY.fullmatch(name):
                return None
            suffix = candidate
            name, _, rest = name.rpartition(".")
            unique_id = rest[: -len(candidate) - 1]
    topic, _, digits = name.rpartition("-")
    partition = _parse_int(digits)
    if not topic or partition is None:
        return None
    return DirectoryName(topic, partition, suffix, unique_id)


def is_legal_topic(topic: str) -> bool:
    """Say whether a broker would create a topic of this name."""
    return topic not in (".", "..") and _LEGAL_TOPIC.fullmatch(topic) is not None


def format_file_name(kind: FileKind, base_offset: int, suffix: Suffix = "") -> str:
    """Spell the name of a segment's file; ``kind`` is one of ``EXTENSIONS``."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{EXTENSIONS[kind]}{suffix}"


def format_snapshot_name(end_offset: int, epoch: int) -> str:
    """Spell the name of a metadata snapshot; ``end_offset`` is the first offset it leaves out."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def format_directory_name(topic: str, partition: int) -> str:
    """Spell the name of a partition directory."""
    return f"{topic}-{partition}"


def _split_suffix(name: str) -> tuple[str, Suffix]:
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name[: -len(suffix)], suffix
    return name, ""


def _parse_long(digits: str) -> int | None:
    return _parse_number(digits, 63)


def _parse_int(digits: str) -> int | None:
    return _parse_number(digits, 31)


def _parse_number(digits: str, bits: int) -> int | None:
    if not _NUMBER.fullmatch(digits):
        return None
    number = int(digits)
    return number if -(1 << bits) <= number < 1 << bits else None
