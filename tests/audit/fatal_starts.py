"""The catalogue of starts that fail because of files on disk, or of the configuration about them.

A row makes one state from a whole log directory of a node that is broker and controller, and says
what a broker logs, what kdump forecasts, and what heals it. Imports nothing of kdump.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support import forge, forge_metadata
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA

Settings = Mapping[str, str]
"""Settings of the broker beyond, or instead of, those of the fixture."""

NEXT_START, SCAN, QUICK, VERIFY = (
    ("next-start",),
    ("next-start", "--scan"),
    ("verify", "--quick"),
    ("verify",),
)
#: The releases to which newer rows apply alone.
RECENT = ("4.4.0", "4.3.1")
MODES = (NEXT_START, SCAN, QUICK, VERIFY)
#: The release whose log directories rows change.
VERSION = "4.3.1"
NAME = "codec-none-0"
TRANSACTIONS = "transactions-0"
OTHER_ID = "AAABBBCCCDDDEEEFFFGGGw"
_UNIQUE = "0123456789abcdef0123456789abcdef"
_FIRST, _LAST = "00000000000000000000", "00000000000000000060"


@dataclass(frozen=True)
class FatalStart:
    """One row.

    source     The class and the method of Kafka that ends the start.
    make       Makes the state in a log directory, and returns settings that belong to it.
    message    What the broker logs.
    code       The finding code, which ``verify`` prints and whose outcome ``next-start`` has.
    outcome    ``refuses``, or ``offline``: the log directory fails, here with all of the broker.
    heal       Does what the advice says, in the log directory. None where the advice is a choice.
    by_config  Only a configuration shows it.
    older      What a broker of 3.9.1 logs instead.
    continues  The broker goes on with its other log directories, or ends soon after its start.
    locked     Another process holds the lock of the log directory.
    remote     The broker has remote storage.
    confirmed  The releases whose brokers show the message.
    unseen     Modes that cannot see it, with the reason; in all others it is forecast.
    unnamed    Modes that forecast it without the finding, with the reason.
    """

    name: str
    source: str
    make: Callable[[Path], Settings | None]
    message: str
    code: str
    outcome: str = "refuses"
    heal: Callable[[Path], None] | None = None
    by_config: bool = False
    older: str | None = None
    continues: bool = False
    locked: bool = False
    remote: bool = False
    confirmed: tuple[str, ...] = (*RECENT, "3.9.1")
    unseen: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    unnamed: Mapping[tuple[str, ...], str] = field(default_factory=dict)

    def logged(self, version: str) -> str:
        """What a broker of this release logs."""
        return self.older if version == "3.9.1" and self.older is not None else self.message


# --- makers


def _write(path: str, content: bytes) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        (data / path).parent.mkdir(exist_ok=True)
        (data / path).write_bytes(content)

    return make


def _remove(path: str) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        target = data / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    return make


def _directory(path: str) -> Callable[[Path], None]:
    """A directory that has the name of a file."""

    def make(data: Path) -> None:
        (data / path).unlink(missing_ok=True)
        (data / path).mkdir()

    return make


def _dangling(path: str) -> Callable[[Path], None]:
    """A symbolic link to nothing, in the place of a file."""

    def make(data: Path) -> None:
        (data / path).unlink()
        (data / path).symlink_to(data.parent / "not mounted")

    return make


def _unmounted(path: str) -> Callable[[Path], None]:
    """A symbolic link to a file in a directory that is not there, in the place of a file."""

    def make(data: Path) -> None:
        (data / path).unlink(missing_ok=True)
        (data / path).symlink_to(data.parent / "not mounted" / "file")

    return make


def _full_directory(path: str) -> Callable[[Path], None]:
    """A directory that has the name of a file, and is not empty."""
    return _all(_directory(path), _write(f"{path}/x", b""))


def _edit(path: str, pattern: str, text: str) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        before = (data / path).read_text()
        after = re.sub(pattern, text, before)
        assert before != after
        (data / path).write_text(after)

    return make


def _copy(source: str, target: str) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        shutil.copytree(data / source, data / target)

    return make


def _all(*makers: Callable[[Path], object]) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        for each in makers:
            each(data)

    return make


def _settings(**values: str) -> Callable[[Path], Settings]:
    return lambda _: {name.replace("_", "."): value for name, value in values.items()}


def _second(change: Callable[[Path], object] = lambda _: None) -> Callable[[Path], Settings]:
    """A second log directory of the node, with ids of its own, and a change of it."""

    def make(data: Path) -> Settings:
        other = data.parent / "b"
        other.mkdir()
        text = (data / "meta.properties").read_text()
        (other / "meta.properties").write_text(
            re.sub("directory.id=.*", f"directory.id={OTHER_ID}", text)
        )
        change(other)
        return {"log.dirs": f"{data},{other}"}

    return make


def _same_id(other: Path) -> None:
    shutil.copyfile(other.parent / "data" / "meta.properties", other / "meta.properties")


def _second_first(data: Path) -> Settings:
    """The second directory is named first: the metadata log is expected there."""
    _second()(data)
    return {"log.dirs": f"{data.parent / 'b'},{data}"}


def _named_twice(data: Path) -> Settings:
    (data.parent / "link").symlink_to(data)
    return {"log.dirs": f"{data},{data.parent / 'link'}"}


def _newest_snapshot(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        newest = max((data / METADATA).glob("*.checkpoint"))
        newest.chmod(0o644)
        newest.write_bytes(change(newest.read_bytes()))

    return make


def _too_large(data: Path) -> None:
    with (data / NAME / f"{_FIRST}.log").open("r+b") as file:
        file.truncate(1 << 31)


def _torn_before_records(data: Path) -> None:
    """The newest snapshot ends early, and the log after it changes what is gone."""
    _, newest, *later = sorted((data / METADATA).glob("*.checkpoint"))
    for path in later:
        path.unlink()
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])


def _snapshot_directory(data: Path) -> None:
    newest = max((data / METADATA).glob("*.checkpoint"))
    newest.unlink()
    newest.mkdir()


def _quorum_state(**fields: object) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        known = json.loads((data / _STATE).read_text())
        (data / _STATE).write_text(json.dumps(known | fields))

    return make


def _flip(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) // 2] ^= 1
    return bytes(changed)


def _file(path: str) -> Callable[[Path], None]:
    """A file in the place of a directory."""

    def make(data: Path) -> None:
        shutil.rmtree(data / path)
        (data / path).touch()

    return make


def _link_to_nothing(path: str) -> Callable[[Path], None]:
    def make(data: Path) -> None:
        shutil.rmtree(data / path)
        (data / path).symlink_to(data.parent / "not mounted")

    return make


def _file_beside(**settings: str) -> Callable[[Path], Settings]:
    """A file, and the configuration that takes it for a log directory."""

    def make(data: Path) -> Settings:
        other = data.parent / "b"
        other.touch()
        values = {name.replace("_", "."): value for name, value in settings.items()}
        return {name: value.format(data=data, file=other) for name, value in values.items()}

    return make


def _metadata_elsewhere(data: Path) -> Settings:
    """The metadata log is expected in a directory of its own."""
    _second()(data)
    return {"log.dirs": str(data), "metadata.log.dir": str(data.parent / "b")}


def _first_unreadable(data: Path) -> Settings:
    settings = _second()(data)
    _edit("meta.properties", "version=1", "version=x")(data)
    return settings


def _no_snapshot(data: Path) -> None:
    """The metadata log begins past offset 0, and no snapshot reaches that offset."""
    log = data / METADATA
    for path in log.glob("*.checkpoint"):
        path.unlink()
    for path in log.glob(f"{_FIRST}.*"):
        path.unlink()
    (log / "00000000000000000303.log").touch()


def give(data: Path, user: int) -> None:
    """Give a log directory and all that is in it to a user."""
    for path in (data, *data.rglob("*")):
        os.chown(path, user, user)


def _extended(make_batches: Callable[[int, int], bytes]) -> Callable[[Path], None]:
    """More batches at the end of the metadata log, from its end offset and last leader epoch."""

    def make(data: Path) -> None:
        newest = max((data / METADATA).glob("*.log"))
        content, position, end, epoch = newest.read_bytes(), 0, int(newest.stem), 0
        while content[position + 16 : position + 17] == b"\2":
            base, size, epoch = struct.unpack_from(">qii", content, position)
            (last,) = struct.unpack_from(">i", content, position + 23)
            end, position = base + last + 1, position + 12 + size
        newest.write_bytes(content[:position] + make_batches(end, epoch))

    return make


def appended(*records: bytes) -> Callable[[Path], None]:
    """Records at the end of the metadata log, each in a batch."""
    return _extended(
        lambda end, epoch: b"".join(
            forge.batch(end + place, [forge.record(value)], leader_epoch=epoch)
            for place, value in enumerate(records)
        )
    )


def bootstrap(level: int) -> bytes:
    """A bootstrap.checkpoint with this level of metadata.version."""
    return forge.batch(0, [forge.record(forge_metadata.feature("metadata.version", level))])


def _registered_by_other(data: Path) -> Settings:
    """The meta.properties is a copy of that of another broker, but for the node id."""
    _edit("meta.properties", "directory.id=.*", f"directory.id={OTHER_ID}")(data)
    appended(forge_metadata.register(2, [OTHER_ID]))(data)
    return {"initial.broker.registration.timeout.ms": "5000"}


def _cached(files: Mapping[str, bytes] | None) -> Callable[[Path], Settings]:
    """The index cache of remote storage with these files, None for a file in its place."""

    def make(data: Path) -> Settings:
        cache = data / "remote-log-index-cache"
        if files is None:
            cache.touch()
        else:
            cache.mkdir()
            for name, content in files.items():
                (cache / name).write_bytes(content)
        return {"remote.log.storage.system.enable": "true"}

    return make


def _indexes(offsets: bytes, times: bytes, aborted: bytes = b"") -> dict[str, bytes]:
    """The three files of a segment in the index cache."""
    name = f"9_{OTHER_ID}"
    return {f"{name}.index": offsets, f"{name}.timeindex": times, f"{name}.txnindex": aborted}


def _restored(path: str, mode: int) -> Callable[[Path], None]:
    """What a restore by root leaves: a path that belongs to root."""

    def make(data: Path) -> None:
        os.chown(data / path, 0, 0)
        (data / path).chmod(mode)

    return make


_TORN_ID = b"version: 0\ntopic_id: cSIfB_6LTm"
_POINTS, _STARTS = "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"
_MARKS, _CLEANED = "replication-offset-checkpoint", "cleaner-offset-checkpoint"
_EPOCHS, _ID = f"{NAME}/leader-epoch-checkpoint", f"{NAME}/partition.metadata"
_STATE, _BOOTSTRAP = f"{METADATA}/quorum-state", "bootstrap.checkpoint"
_BAD = b"0\n1\nno offset here at all\n"

ROWS: tuple[FatalStart, ...] = (
    # --- meta.properties
    FatalStart(
        "meta-empty",
        "KafkaRaftServer.initializeLogDirs",
        _write("meta.properties", b""),
        "node ID not found in",
        "meta-properties-unreadable",
    ),
    FatalStart(
        "meta-version",
        "MetaProperties.Builder",
        _edit("meta.properties", "version=1", "version=x"),
        "Invalid meta.properties version string 'x'",
        "meta-properties-unreadable",
    ),
    FatalStart(
        "meta-no-cluster",
        "MetaProperties.Builder.build",
        _edit("meta.properties", "cluster.id=.*", ""),
        "cluster.id was not found",
        "meta-properties-unreadable",
    ),
    FatalStart(
        "meta-no-node",
        "MetaProperties.Builder.build",
        _edit("meta.properties", "node.id=.*", ""),
        "Failed to find node.id",
        "meta-properties-unreadable",
    ),
    FatalStart(
        "meta-directory-id",
        "MetaProperties.Builder",
        _edit("meta.properties", "directory.id=.*", "directory.id=no uuid"),
        "Unable to read directory.id as a Uuid",
        "meta-properties-unreadable",
    ),
    FatalStart(
        "meta-reserved-id",
        "MetaPropertiesEnsemble.verify",
        _edit("meta.properties", "directory.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAEQ"),
        "Invalid reserved directory ID AAAAAAAAAAAAAAAAAAAAEQ found in",
        "directory-id-reserved",
        heal=_edit("meta.properties", "directory.id=.*", ""),
        older="Invalid resrved directory ID AAAAAAAAAAAAAAAAAAAAEQ found in",
    ),
    FatalStart(
        "meta-missing",
        "MetaPropertiesEnsemble.verify",
        _remove("meta.properties"),
        "No readable meta.properties files found.",
        "meta-properties-missing",
    ),
    FatalStart(
        "meta-is-dangling-link",
        "MetaPropertiesEnsemble.verify",
        _dangling("meta.properties"),
        "No readable meta.properties files found.",
        "meta-properties-missing",
    ),
    FatalStart(
        "meta-is-directory",
        "MetaPropertiesEnsemble.verify",
        _directory("meta.properties"),
        "No readable meta.properties files found.",
        "foreign-directory",
    ),
    FatalStart(
        "node-id",
        "MetaPropertiesEnsemble.verify",
        _settings(node_id="7", controller_quorum_voters="7@127.0.0.1:1"),
        "Stored node id 1 doesn't match previous node id 7",
        "node-id-mismatch",
        by_config=True,
    ),
    # --- several log directories
    FatalStart(
        "second-without-meta",
        "KafkaRaftServer.initializeLogDirs",
        _second(_all(_remove("meta.properties"), _write(_POINTS, b"0\n0\n"))),
        "No `meta.properties` found in",
        "meta-properties-missing",
        by_config=True,
    ),
    FatalStart(
        "second-of-other-cluster",
        "MetaPropertiesEnsemble.verify",
        _second(_edit("meta.properties", "cluster.id=.*", "cluster.id=kdumpFixturesCluster0B")),
        "Invalid cluster.id in",
        "meta-properties-mismatch",
        by_config=True,
    ),
    FatalStart(
        "second-of-other-node",
        "MetaPropertiesEnsemble.verify",
        _second(_edit("meta.properties", "node.id=.*", "node.id=2")),
        "Stored node id 2 doesn't match previous node id 1",
        "meta-properties-mismatch",
        by_config=True,
    ),
    FatalStart(
        "second-with-same-id",
        "MetaPropertiesEnsemble.verify",
        _second(_same_id),
        "Duplicate directory ID",
        "meta-properties-mismatch",
        by_config=True,
    ),
    FatalStart(
        "second-empty",
        "KafkaRaftServer.initializeLogDirs",
        _second(_write("meta.properties", b"")),
        "node ID not found in",
        "meta-properties-unreadable",
        by_config=True,
    ),
    FatalStart(
        "second-unreadable",
        "MetaPropertiesEnsemble.Loader.load",
        _second(_edit("meta.properties", "version=1", "version=x")),
        "during broker startup",
        "meta-properties-offline",
        "offline",
        by_config=True,
        continues=True,
    ),
    FatalStart(
        "first-unreadable",
        "MetaPropertiesEnsemble.verify",
        _first_unreadable,
        "Encountered I/O error in metadata log directory",
        "meta-properties-unreadable",
        by_config=True,
    ),
    FatalStart(
        "second-is-file",
        "LogManager.createAndValidateLogDirs",
        _file_beside(log_dirs="{data},{file}"),
        "during broker startup",
        "log-directory-file",
        "offline",
        by_config=True,
        continues=True,
    ),
    FatalStart(
        "only-is-file",
        "MetaPropertiesEnsemble.verify",
        _file_beside(log_dirs="{file}"),
        "No readable meta.properties files found.",
        "log-directory-missing",
        by_config=True,
    ),
    FatalStart(
        "metadata-directory-is-file",
        "MetaPropertiesEnsemble.verify",
        _file_beside(log_dirs="{data}", metadata_log_dir="{file}"),
        "Encountered I/O error in metadata log directory",
        "log-directory-missing",
        by_config=True,
    ),
    FatalStart(
        "second-missing",
        "KafkaRaftServer.initializeLogDirs",
        lambda data: {"log.dirs": f"{data},{data.parent / 'gone'}"},
        "No `meta.properties` found in",
        "log-directory-missing",
        by_config=True,
    ),
    FatalStart(
        "metadata-log-misplaced",
        "KafkaRaftServer.initializeLogDirs",
        _second_first,
        "Found unexpected metadata location in data directory",
        "metadata-log-misplaced",
        by_config=True,
    ),
    FatalStart(
        "metadata-log-elsewhere",
        "KafkaRaftServer.initializeLogDirs",
        _metadata_elsewhere,
        "Found unexpected metadata location in data directory",
        "metadata-log-misplaced",
        by_config=True,
    ),
    FatalStart(
        "named-twice",
        "LogManager.createAndValidateLogDirs",
        _named_twice,
        "Duplicate directory ID",
        "log-directory-twice",
        by_config=True,
    ),
    # --- the top of a log directory
    *(
        FatalStart(
            f"directory-{name}",
            "LocalLog.parseTopicPartitionName",
            _directory(name),
            "is not in the form of topic-partition",
            "foreign-directory",
            heal=_remove(name),
        )
        for name in ("lost+found", ".snapshot", f"{NAME}-delete", "topic-9999999999")
    ),
    FatalStart(
        "marker-is-directory",
        "LogManager.loadLogs",
        _full_directory(".kafka_cleanshutdown"),
        "DirectoryNotEmptyException",
        "clean-marker-directory",
        "offline",
        heal=_remove(".kafka_cleanshutdown"),
    ),
    FatalStart(
        "lock-is-directory",
        "LogManager.lockLogDirs",
        _directory(".lock"),
        "Disk error while locking directory",
        "foreign-directory",
        heal=_remove(".lock"),
    ),
    FatalStart(
        "lock-is-held",
        "LogManager.lockLogDirs",
        _write(".lock", b""),
        "Failed to acquire lock on file .lock in",
        "",
        locked=True,
        unseen=dict.fromkeys(
            MODES, "who holds the lock is named as a broker that runs, and has ended before a start"
        ),
    ),
    FatalStart(
        "bootstrap-empty",
        "BootstrapDirectory.readFromBinaryFile",
        _write(_BOOTSTRAP, b""),
        "No FeatureLevelRecord for metadata.version was found",
        "bootstrap-malformed",
        heal=_remove(_BOOTSTRAP),
    ),
    FatalStart(
        "bootstrap-garbage",
        "BootstrapDirectory.readFromBinaryFile",
        _write(_BOOTSTRAP, b"garbage" * 60),
        "Exiting Kafka due to fatal exception",
        "bootstrap-malformed",
        heal=_remove(_BOOTSTRAP),
    ),
    FatalStart(
        "bootstrap-is-directory",
        "BootstrapDirectory.readFromBinaryFile",
        _directory(_BOOTSTRAP),
        "Exiting Kafka due to fatal exception",
        "foreign-directory",
        heal=_remove(_BOOTSTRAP),
    ),
    FatalStart(
        "bootstrap-later",
        "MetadataVersion.fromFeatureLevel",
        _write(_BOOTSTRAP, bootstrap(100)),
        "No MetadataVersion with feature level 100",
        "feature-unsupported",
        heal=_remove(_BOOTSTRAP),
        confirmed=("3.9.1",),
        unseen=dict.fromkeys(MODES, "brokers from 4.1 on read the level with a new log alone"),
    ),
    *(
        FatalStart(
            f"{file}-malformed",
            "CheckpointFile.CheckpointReadBuffer.read",
            _write(file, _BAD),
            "Malformed line in checkpoint file",
            "checkpoint-malformed",
            "offline",
        )
        for file in (_POINTS, _STARTS, _MARKS, _CLEANED)
    ),
    *(
        FatalStart(
            f"recovery-point-{title}",
            "CheckpointFile.CheckpointReadBuffer.read",
            _write(_POINTS, content),
            message,
            "checkpoint-malformed",
            "offline",
        )
        for title, content, message in (
            ("zeros", bytes(40), "Malformed line in checkpoint file"),
            ("version", b"7\n0\n", "Unrecognised version:7"),
            ("short", b"0\n3\nt 0 0\n", "Expected [3] entries in checkpoint file"),
        )
    ),
    FatalStart(
        "recovery-point-is-directory",
        "LogManager.loadLogs",
        _directory(_POINTS),
        "Error while reading checkpoint file",
        "foreign-directory",
    ),
    *(
        FatalStart(
            f"remote-cache-{title}",
            "RemoteIndexCache.init",
            _cached(files),
            message,
            "remote-cache-damaged",
            heal=_remove("remote-log-index-cache"),
            by_config=files is None,
            remote=True,
            confirmed=RECENT,
        )
        for title, files, message in (
            ("is-file", None, "NotDirectoryException"),
            ("foreign", {"readme.txt": b""}, "is not equal to the expected 16 bytes"),
            ("no-extension", {"notes": b""}, "StringIndexOutOfBoundsException"),
            ("torn", _indexes(bytes(13), bytes(12)), "CorruptIndexException"),
            ("aborted", _indexes(b"", b"", bytes(34)), "CorruptIndexException"),
            ("torn-times", _indexes(bytes(8), bytes(13)), "CorruptIndexException"),
            (
                "falling-times",
                _indexes(bytes(8), struct.pack(">qiqi", 7, 0, 5, 1)),
                "CorruptIndexException",
            ),
        )
    ),
    # --- partition directories
    FatalStart(
        "partition-is-file",
        "LogManager.createLogDirectory",
        _file(NAME),
        "FileAlreadyExistsException",
        "partition-is-file",
        "offline",
    ),
    FatalStart(
        "partition-is-dangling-link",
        "LogManager.createLogDirectory",
        _link_to_nothing(NAME),
        "FileAlreadyExistsException",
        "partition-is-file",
        "offline",
    ),
    FatalStart(
        "partition-twice",
        "LogManager.loadLog",
        _copy(NAME, "codec-none-00"),
        "Duplicate log directories for codec-none-0 are found in both",
        "partition-twice",
        heal=_remove("codec-none-00"),
    ),
    FatalStart(
        "future-beside-current",
        "LogManager.recoverAbandonedFutureLogs",
        _copy(NAME, f"{NAME}.{_UNIQUE}-future"),
        "Error while renaming dir for codec-none-0",
        "future-beside-current",
        heal=_remove(f"{NAME}.{_UNIQUE}-future"),
    ),
    FatalStart(
        "two-futures",
        "LogManager.loadLog",
        _all(
            _copy(NAME, f"{NAME}.{_UNIQUE}-future"),
            _copy(NAME, f"{NAME}.{_UNIQUE[::-1]}-future"),
        ),
        "Duplicate log directories found",
        "partition-twice",
    ),
    # --- partition.metadata
    *(
        FatalStart(
            f"topic-id-{title}",
            "PartitionMetadataFile.read",
            _write(_ID, content),
            message,
            f"partition-metadata-{code}",
            outcome,
        )
        for code, outcome, contents in (
            (
                "fatal",
                "refuses",
                {
                    "empty": (b"", "java.lang.NullPointerException"),
                    "first-line": (b"version: 0\n", "java.lang.NullPointerException"),
                    "torn": (_TORN_ID, "which is not equal to the expected 16 bytes"),
                    "zeros-behind": (
                        b"version: 0\ntopic_id: " + bytes(22),
                        "Illegal base64 character 0",
                    ),
                },
            ),
            (
                "malformed",
                "offline",
                {
                    "zeros": (bytes(43), "Malformed line in "),
                    "torn-name": (
                        b"version: 0\ntopic_",
                        "Malformed line in ",
                    ),
                    "of-zero": (
                        b"version: 0\ntopic_id: " + b"A" * 22,
                        "Invalid topic ID in partition metadata file",
                    ),
                    "not-utf8": (
                        b"version: 0\ntopic_id: \xff\xfe",
                        "Error while reading partition metadata file",
                    ),
                },
            ),
        )
        for title, (content, message) in contents.items()
    ),
    FatalStart(
        "topic-id-is-directory",
        "PartitionMetadataFile.read",
        _directory(_ID),
        "Error while reading partition metadata file",
        "file-is-directory",
        "offline",
    ),
    # --- files of a partition
    *(
        FatalStart(
            f"epochs-{title}",
            "CheckpointFile.CheckpointReadBuffer.read",
            _write(_EPOCHS, content),
            message,
            "epochs-malformed",
            "offline",
        )
        for title, content, message in (
            ("malformed", b"0\n1\n0 0 0\n", "Malformed line in checkpoint file"),
            ("zeros", bytes(20), "Malformed line in checkpoint file"),
            ("version", b"3\n0\n", "Unrecognised version:3"),
            ("short", b"0\n4\n0 0\n", "Expected [4] entries in checkpoint file"),
        )
    ),
    FatalStart(
        "epochs-number",
        "LeaderEpochCheckpointFile.Formatter.fromString",
        _write(_EPOCHS, b"0\n1\n-1 0\n"),
        "Received invalid partition leader epoch entry",
        "epochs-number",
    ),
    FatalStart(
        "epochs-is-directory",
        "CheckpointFile.read",
        _directory(_EPOCHS),
        "Error while reading checkpoint file",
        "file-is-directory",
        "offline",
    ),
    FatalStart(
        "epochs-is-dangling-link",
        "CheckpointFile.read",
        _dangling(_EPOCHS),
        "Error while reading checkpoint file",
        "file-is-directory",
        "offline",
    ),
    *(
        FatalStart(
            f"{title}-is-dangling-link",
            "AbstractIndex.createAndAssignMmap",
            _unmounted(path),
            f"{path} (No such file or directory)",
            "file-is-directory",
            outcome,
            heal=_remove(path),
        )
        for title, path, outcome in (
            ("first-index", f"{NAME}/{_FIRST}.index", "offline"),
            ("index", f"{NAME}/{_LAST}.index", "offline"),
            ("timeindex", f"{NAME}/{_LAST}.timeindex", "offline"),
            ("metadata-index", f"{METADATA}/{_FIRST}.index", "refuses"),
            ("metadata-timeindex", f"{METADATA}/{_FIRST}.timeindex", "refuses"),
        )
    ),
    FatalStart(
        "only-log-is-dangling-link",
        "FileRecords.openChannel",
        _unmounted(f"groups-0/{_FIRST}.log"),
        "java.nio.file.NoSuchFileException",
        "file-is-directory",
        "offline",
    ),
    *(
        FatalStart(
            f"name{file}",
            "LogFileUtils.offsetFromFile",
            _write(f"{NAME}/abc{file}", b""),
            "NumberFormatException",
            "file-name-refused",
            heal=_remove(f"{NAME}/abc{file}"),
        )
        for file in (".log", ".index", ".snapshot", ".log.swap", ".log.cleaned")
    ),
    *(
        FatalStart(
            f"{extension}-is-directory",
            "AbstractIndex.createAndAssignMmap",
            _directory(f"{NAME}/{_LAST}.{extension}"),
            "Is a directory",
            "index-is-directory",
            "offline",
            heal=_remove(f"{NAME}/{_LAST}.{extension}"),
        )
        for extension in ("index", "timeindex")
    ),
    FatalStart(
        "timeindex-is-directory-recovered",
        "LogSegment.recover",
        _all(_remove(f"{NAME}/{_FIRST}.index"), _directory(f"{NAME}/{_FIRST}.timeindex")),
        "Is a directory",
        "index-is-directory",
        "offline",
        heal=_remove(f"{NAME}/{_FIRST}.timeindex"),
    ),
    FatalStart(
        "txnindex-is-directory",
        "TransactionIndex.openChannel",
        _directory(f"{NAME}/{_FIRST}.txnindex"),
        "Is a directory",
        "file-is-directory",
        "offline",
        heal=_remove(f"{NAME}/{_FIRST}.txnindex"),
    ),
    FatalStart(
        "log-too-large",
        "FileRecords.<init>",
        _too_large,
        "is larger than the maximum allowed segment size of 2147483647",
        "log-too-large",
    ),
    FatalStart(
        "txnindex-version",
        "TransactionIndex.iterator",
        _write(f"{NAME}/{_FIRST}.txnindex", b"\1\0" + bytes(32)),
        "Unexpected aborted transaction version",
        "txnindex-version",
        unnamed={QUICK: "transaction indexes are compared with the log once it is read"},
    ),
    # --- the metadata log
    *(
        FatalStart(
            f"quorum-state-{title}",
            "FileQuorumStateStore.readStateFromFile",
            _write(_STATE, content),
            message,
            "quorum-state-malformed",
        )
        for title, content, message in (
            ("empty", b"", "File ended prematurely"),
            ("zeros", bytes(120), "Error while reading the Quorum status"),
            ("array", b"[]", "is not an object node"),
            ("no-version", b'{"leaderId":1}', "does not have data_version field"),
            ("later", b'{"data_version":7}', "is not within the min (0) and max (1)"),
            ("fields", b'{"data_version":1}', "QuorumStateData"),
        )
    ),
    *(
        FatalStart(
            f"quorum-state-{title}",
            "ElectionState.fromQuorumStateData",
            _quorum_state(**fields),
            message,
            "quorum-state-malformed",
        )
        for title, fields, message in (
            ("leader", {"leaderId": -5}, "Illegal leader Id -5: must be non-negative"),
            ("voted", {"leaderId": -1, "votedId": -5}, "Illegal voted Id -5: must be non-negative"),
            (
                "directory",
                {"votedDirectoryId": "xx"},
                "which is not equal to the expected 16 bytes",
            ),
        )
    ),
    FatalStart(
        "quorum-state-last-epoch",
        "LeaderEpochFileCache.validateAndMaybeWarn",
        _quorum_state(leaderId=-1, leaderEpoch=(1 << 31) - 1),
        "Received invalid partition leader epoch entry",
        "quorum-state-malformed",
    ),
    FatalStart(
        "metadata-log-is-file",
        "KafkaRaftManager.createLogDirectory",
        _file(METADATA),
        "FileAlreadyExistsException",
        "metadata-log-file",
    ),
    FatalStart(
        "epochs-temporary-is-directory",
        "CheckpointFile.write",
        _directory(f"{_EPOCHS}.tmp"),
        "leader-epoch-checkpoint.tmp (Is a directory)",
        "file-is-directory",
        "offline",
        heal=_remove(f"{_EPOCHS}.tmp"),
        continues=True,
    ),
    FatalStart(
        "epochs-temporary-is-dangling-link",
        "CheckpointFile.write",
        _unmounted(f"{_EPOCHS}.tmp"),
        "leader-epoch-checkpoint.tmp (No such file or directory)",
        "file-is-directory",
        "offline",
        heal=_remove(f"{_EPOCHS}.tmp"),
        continues=True,
    ),
    FatalStart(
        "metadata-epochs-temporary-is-directory",
        "CheckpointFile.write",
        _directory(f"{METADATA}/leader-epoch-checkpoint.tmp"),
        "leader-epoch-checkpoint.tmp (Is a directory)",
        "file-is-directory",
        heal=_remove(f"{METADATA}/leader-epoch-checkpoint.tmp"),
    ),
    FatalStart(
        "metadata-id-temporary-is-directory",
        "PartitionMetadataFile.maybeFlush",
        _all(
            _remove(f"{METADATA}/partition.metadata"),
            _directory(f"{METADATA}/partition.metadata.tmp"),
        ),
        "Error while writing partition metadata file",
        "file-is-directory",
        heal=_remove(f"{METADATA}/partition.metadata.tmp"),
    ),
    *(
        FatalStart(
            f"metadata-{title}-is-full-directory",
            source,
            _full_directory(f"{METADATA}/{name}"),
            "java.nio.file.DirectoryNotEmptyException",
            "file-is-directory",
            heal=_remove(f"{METADATA}/{name}"),
        )
        for title, source, name in (
            (
                "state-temporary",
                "FileQuorumStateStore.writeElectionStateToFile",
                "quorum-state.tmp",
            ),
            (
                "snapshot-part",
                "KafkaRaftLog.recoverSnapshots",
                "00000000000000000999-0000000002-123.checkpoint.part",
            ),
            (
                "snapshot-deleted",
                "KafkaRaftLog.recoverSnapshots",
                "00000000000000000999-0000000002.checkpoint.deleted",
            ),
        )
    ),
    FatalStart(
        "quorum-state-is-directory",
        "FileQuorumStateStore.readStateFromFile",
        _directory(_STATE),
        "Error while reading the Quorum status",
        "file-is-directory",
    ),
    FatalStart(
        "snapshot-name",
        "Snapshots.parse",
        _write(f"{METADATA}/short.checkpoint", b""),
        "StringIndexOutOfBoundsException",
        "file-name-refused",
        heal=_remove(f"{METADATA}/short.checkpoint"),
    ),
    FatalStart(
        "snapshot-name-of-directory",
        "Snapshots.parse",
        _directory(f"{METADATA}/short.checkpoint"),
        "StringIndexOutOfBoundsException",
        "file-name-refused",
        heal=_remove(f"{METADATA}/short.checkpoint"),
    ),
    FatalStart(
        "snapshot-torn",
        "MetadataLoader.handleCommit",
        _torn_before_records,
        "Error loading metadata log record from offset",
        "metadata-snapshot-damaged",
    ),
    FatalStart(
        "snapshot-empty",
        "RecordsSnapshotReader",
        _newest_snapshot(lambda _: b""),
        "Unhandled fault in MetadataLoader#handleLoadSnapshot",
        "metadata-snapshot-damaged",
    ),
    FatalStart(
        "snapshot-start",
        "RecordsIterator.createMemoryRecords",
        _newest_snapshot(lambda data: data[:10]),
        "java.lang.NullPointerException",
        "metadata-snapshot-damaged",
    ),
    FatalStart(
        "snapshot-zeros",
        "RecordsIterator.readBatch",
        _newest_snapshot(lambda data: data[: len(data) // 2].ljust(len(data), b"\0")),
        "Record is corrupt",
        "metadata-snapshot-damaged",
    ),
    FatalStart(
        "snapshot-flipped",
        "RecordsIterator.readBatch",
        _newest_snapshot(_flip),
        "Record is corrupt",
        "metadata-snapshot-damaged",
    ),
    FatalStart(
        "snapshot-is-directory",
        "FileRecords.open",
        _snapshot_directory,
        "Is a directory",
        "file-is-directory",
    ),
    FatalStart(
        "snapshot-missing",
        "KafkaRaftLog.recoverSnapshots",
        _no_snapshot,
        "Inconsistent snapshot state",
        "metadata-snapshot-missing",
    ),
    # --- what the records of the metadata log say
    *(
        FatalStart(
            f"record-{title}",
            "QuorumController.replay",
            appended(*records),
            "Encountered fatal fault",
            "metadata-replay-stops",
        )
        for title, records in (
            ("type", (b"\1\x63\0\0",)),
            ("version", (b"\1\x02\x63\0",)),
            ("short", (b"\1\x02\0\x05a",)),
            ("empty", (b"",)),
            ("no-partition", (forge_metadata.change(OTHER_ID, 0, [1]),)),
            ("no-topic", (forge_metadata.remove(OTHER_ID),)),
            ("no-broker", (forge_metadata.framed(7, 0, struct.pack(">iq", 99, 0) + b"\0"),)),
            ("topic-twice", (forge_metadata.topic("codec-none", OTHER_ID),)),
            ("unregistered-broker", (forge_metadata.framed(1, 0, struct.pack(">iqx", 99, 0)),)),
            ("producer-ids-again", (forge_metadata.framed(15, 0, struct.pack(">iqqx", 1, 0, 0)),)),
            ("no-credential", (forge_metadata.framed(22, 0, b"\x02u\1\0"),)),
            (
                "directory-twice",
                tuple(forge_metadata.register(node, [OTHER_ID]) for node in (2, 3)),
            ),
            ("begin-twice", (forge_metadata.BEGIN, forge_metadata.BEGIN)),
            ("end-alone", (forge_metadata.END,)),
        )
    ),
    FatalStart(
        "record-control",
        "KRaftControlRecordStateMachine.handleBatch",
        _extended(lambda end, epoch: forge.control_batch(end, 77, bytes(2), leader_epoch=epoch)),
        "Unknown control record type",
        "metadata-replay-stops",
    ),
    *(
        FatalStart(
            f"feature-{title}",
            "FeatureControlManager.replay",
            appended(forge_metadata.feature(name, level)),
            "Encountered fatal fault",
            "feature-unsupported",
        )
        for title, name, level in (
            ("metadata-version-later", "metadata.version", 1000),
            ("later", "transaction.version", 99),
            ("unknown", "no.such.feature", 1),
        )
    ),
    FatalStart(
        "feature-kraft-version",
        "KRaftVersion.fromFeatureLevel",
        _extended(
            lambda end, epoch: forge.control_batch(
                end, 5, struct.pack(">hhx", 0, 99), leader_epoch=epoch
            )
        ),
        "Unknown KRaft feature level: 99",
        "feature-unsupported",
    ),
    FatalStart(
        "feature-metadata-version-old",
        "FeaturesDelta.replay",
        appended(forge_metadata.feature("metadata.version", 6)),
        "Encountered fatal fault",
        "feature-unsupported",
        confirmed=RECENT,
    ),
    FatalStart(
        "feature-after-downgrade",
        "FeatureControlManager.replay",
        appended(forge_metadata.feature("metadata.version", 30)),
        "Encountered fatal fault",
        "feature-unsupported",
        confirmed=("3.9.1",),
        unseen=dict.fromkeys(MODES, "which release will start is on no disk"),
    ),
    FatalStart(
        "segment-bytes",
        "LogConfig.fromProps",
        appended(forge_metadata.config("codec-none", "segment.bytes", "1048575")),
        "Invalid value 1048575 for configuration segment.bytes",
        "setting-refused",
        confirmed=RECENT,
    ),
    *(
        FatalStart(
            f"{name}.segment.bytes",
            "KafkaConfig",
            _settings(**{f"{name}.segment.bytes": str(size)}),
            f"Invalid value {size} for configuration {name}.segment.bytes",
            "setting-refused",
            heal=lambda _: None,
            by_config=True,
            confirmed=RECENT,
        )
        for name, size in (("log", (1 << 20) - 1), ("metadata.log", (8 << 20) - 1))
    ),
    FatalStart(
        "log-dirs-comma",
        "KafkaConfig",
        lambda data: {"log.dirs": f"{data},"},
        "Configuration 'log.dirs' values must not be empty.",
        "setting-refused",
        heal=lambda _: None,
        by_config=True,
        confirmed=RECENT,
    ),
    FatalStart(
        "directory-id-of-other-broker",
        "ClusterControlManager.registerBroker",
        _registered_by_other,
        "unable to register with the controller quorum",
        "directory-id-taken",
        heal=_edit("meta.properties", "directory.id=.*", ""),
    ),
    FatalStart(
        "metadata-id-other",
        "UnifiedLog.initializeTopicId",
        _write(f"{METADATA}/partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}".encode()),
        "Tried to assign topic ID",
        "metadata-topic-id",
        heal=_remove(f"{METADATA}/partition.metadata"),
    ),
    FatalStart(
        "metadata-id-empty",
        "PartitionMetadataFile.read",
        _write(f"{METADATA}/partition.metadata", b""),
        "java.lang.NullPointerException",
        "partition-metadata-fatal",
        heal=_remove(f"{METADATA}/partition.metadata"),
    ),
    FatalStart(
        "metadata-id-zeros",
        "PartitionMetadataFile.read",
        _write(f"{METADATA}/partition.metadata", bytes(43)),
        "Malformed line in ",
        "partition-metadata-malformed",
        heal=_remove(f"{METADATA}/partition.metadata"),
    ),
    FatalStart(
        "metadata-epochs",
        "CheckpointFile.CheckpointReadBuffer.read",
        _write(f"{METADATA}/leader-epoch-checkpoint", b"0\n1\n0 0 0\n"),
        "Malformed line in checkpoint file",
        "epochs-malformed",
    ),
    FatalStart(
        "metadata-name",
        "LogFileUtils.offsetFromFile",
        _write(f"{METADATA}/abc.log", b""),
        "NumberFormatException",
        "file-name-refused",
        heal=_remove(f"{METADATA}/abc.log"),
    ),
)

#: Rows of log directories that belong to an ordinary user, who runs the broker. The brokers of the
#: tests may read all files, as Java's are: a file that may not be read has no row.
RESTORED: tuple[FatalStart, ...] = tuple(
    FatalStart(
        f"restored-{title}",
        source,
        make,
        message,
        "broker-denied",
        outcome,
        continues=title == "log-directory",
        confirmed=confirmed,
    )
    for title, source, make, message, outcome, confirmed in (
        (
            "log-directory",
            "CheckpointFile.write",
            _restored(".", 0o755),
            f"{_MARKS}.tmp (Permission denied)",
            "offline",
            RECENT,
        ),
        (
            "partition",
            "ProducerStateManager.truncateAndReload",
            _restored(NAME, 0o755),
            "AccessDeniedException",
            "offline",
            (*RECENT, "3.9.1"),
        ),
        (
            "metadata-log",
            "ProducerStateManager.truncateAndReload",
            _restored(METADATA, 0o755),
            "AccessDeniedException",
            "refuses",
            RECENT,
        ),
        (
            "lock",
            "LogManager.lockLogDirs",
            _all(_write(".lock", b""), _restored(".lock", 0o600)),
            "Disk error while locking directory",
            "offline",
            RECENT,
        ),
        (
            "log",
            "FileRecords.openChannel",
            _restored(f"{NAME}/{_FIRST}.log", 0o644),
            "AccessDeniedException",
            "offline",
            RECENT,
        ),
    )
)


def states(row: FatalStart, state: str, tmp_path: Path, user: int = 0) -> tuple[Path, Path]:
    """The log directory in the state of a row, and the configuration of its broker."""
    data = copy_fixture(f"{VERSION}/{state}", tmp_path / "data")
    if user:
        give(data, user)
    settings = {"node.id": "1", "process.roles": "broker,controller", "log.dirs": str(data)}
    settings |= row.make(data) or {}
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return data, config
