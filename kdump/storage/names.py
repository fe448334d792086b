"""The grammar of file and directory names in a log directory.

Spec: LogFileUtils, UnifiedLog.parseTopicPartitionName, Snapshots.parse, Topic.validate. A broker
tells files apart by their extension and takes everything before the first dot as a number. It lists
``7.log`` as a segment, and then opens that segment under the padded name. This module parses
strings: it reads no file system, and any string is parsed without an error.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from kdump.values import frozen

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
#: Its topic id in every cluster (``Uuid.METADATA_TOPIC_ID``).
CLUSTER_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TRANSACTION_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"
SHARE_TOPIC = "__share_group_state"
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
    """The kind of a file, by its name. The value is its name in reports."""

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
"""The suffix of a file that is being written, swapped in or deleted."""

DirectorySuffix = Literal["", "delete", "stray", "future"]
"""The suffix of a partition directory that a broker deletes, sets aside or moves."""


@frozen
class FileName:
    """The parts of a file's name.

    ``base_offset`` is the number that a broker reads: the base offset of a segment, or the offset
    of a snapshot. It is None for names without a number, and for names whose number a broker cannot
    read: these stop its start. Only metadata snapshots have an ``epoch``.
    """

    name: str
    kind: FileKind
    base_offset: int | None = None
    epoch: int | None = None
    suffix: Suffix = ""

    @property
    def canonical(self) -> bool:
        """Whether a broker opens the file under this spelling of its name."""
        if self.base_offset is None:
            return self.kind not in EXTENSIONS and self.kind is not FileKind.METADATA_SNAPSHOT
        if self.base_offset < 0:
            return False
        if self.kind is FileKind.METADATA_SNAPSHOT:
            # The name of a snapshot that is being written has a random number.
            stem = self.name[:_SNAPSHOT_ID_LENGTH]
            return stem == f"{self.base_offset:020d}-{self.epoch:010d}"
        return self.name == format_file_name(self.kind, self.base_offset, self.suffix)


@frozen
class DirectoryName:
    """The parts of a partition directory's name.

    The topic of a ``delete`` or ``stray`` directory may be cut short. ``unique_id`` is the text
    between partition and suffix, normally 32 hex digits; it is empty without a suffix.
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
"""The kinds of a segment's files, each with the extension of its name."""

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
# Brokers skip directories whose topic is that of the metadata log, whatever their suffix.
_ASIDE_PREFIX = f"{CLUSTER_METADATA_TOPIC}-0.kdump-"
_ASIDE_SUFFIX = "-stray"
_OFFSET_DIGITS = 20
#: The longest name in the file systems of Linux.
_LONGEST_NAME = 255
_SNAPSHOT_ID_LENGTH = _OFFSET_DIGITS + 1 + 10


def parse_file_name(name: str) -> FileName:
    """Parse the name of a file in a log directory or partition directory."""
    segment_file = _SEGMENT_FILE.fullmatch(name)
    if segment_file is not None:
        extension = segment_file[2]
        return FileName(name, _KINDS_BY_EXTENSION[extension], _parse_long(segment_file[1]))
    if name.startswith(".kdump") and name[6:7] in ("", "."):
        return FileName(name, FileKind.KDUMP)
    stem, suffix = _split_suffix(name)
    kind_by_name = _KINDS_BY_NAME.get(stem)
    if kind_by_name is not None:
        return FileName(name, kind_by_name, suffix=suffix)
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
    """Parse the name of a partition directory; return None for a name that stops a broker's start.

    Like brokers, accept a topic that could not be created.
    """
    # A manifest may have thousands of names of 64 KiB.
    parse = _known_directory_name if len(name) <= _LONGEST_NAME else _parse_directory_name
    return parse(name)


def _parse_directory_name(name: str) -> DirectoryName | None:
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


#: Each name is asked for a dozen times.
_known_directory_name = lru_cache(maxsize=8192)(_parse_directory_name)


def format_file_name(kind: FileKind, base_offset: int, suffix: Suffix = "") -> str:
    """Return the name of a segment's file; ``kind`` is one of ``EXTENSIONS``."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{EXTENSIONS[kind]}{suffix}"


def format_directory_name(topic: str, partition: int) -> str:
    """Return the name of a partition directory."""
    return f"{topic}-{partition}"


def format_aside_name(plan_id: str, name: str) -> str:
    """Return the name under which a move sets a partition directory aside in a log directory.

    No broker loads, deletes or refuses it (``LogManager.loadLogs``). A dot of the topic is a plus
    there, and a long name is cut short.
    """
    room = _LONGEST_NAME - len(_ASIDE_PREFIX) - len(plan_id) - 1 - len(_ASIDE_SUFFIX)
    return f"{_ASIDE_PREFIX}{plan_id}-{name.replace('.', '+')[:room]}{_ASIDE_SUFFIX}"


def is_aside_name(name: str) -> bool:
    """Return whether a move gives this name to a directory that it sets aside."""
    return name.startswith(_ASIDE_PREFIX) and name.endswith(_ASIDE_SUFFIX)


def is_aside_of(name: str, partition: str) -> bool:
    """Return whether a move gives this name to the directory ``partition`` that it sets aside."""
    plan_id = name.removeprefix(_ASIDE_PREFIX).partition("-")[0]
    return is_aside_name(name) and name == format_aside_name(plan_id, partition)


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
