"""What is repaired while it crashes: log directories with one damaged partition and a sound one.

The damaged one has three segments with transactions, an aborted one in each, snapshots, epochs,
lines in all checkpoint files, an owner, permissions and an extended attribute of its own. Where it
is to be converted, it begins with messages of magic 0 and 1. Imports nothing of kdump.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from support import forge
from support.damaged import name
from support.forge import TIMESTAMP, batch, flip, marker, message, record, wrapper

INTERVAL = 300
BASES = (0, 100, 200)
END = 300
PARTITION = "orders-0"
OTHER = "orders-1"
#: Where the copy of the partition is.
COPY = "copy"
MARKER = ".kafka_cleanshutdown"
POINT = "recovery-point-offset-checkpoint"
MARK = "replication-offset-checkpoint"
CHECKPOINTS = (
    POINT,
    MARK,
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
)
#: Whose the files are, if we may give them away; their group is the next number.
OWNER = 4321
#: When the files were written; each file of a subject at another time.
_WRITTEN_NS = 1_700_000_000_123_456_789

Files = dict[str, bytes | None]


@dataclass(frozen=True)
class Subject:
    """``command`` repairs the partition; ``files`` are the damage, as ``forge`` takes them.

    ``linked``: all files have a second name elsewhere. ``alone``: the partition stands in no log
    directory. ``moved``: it is a link to another place. No log that is converted passes
    ``most_bytes``. ``as_owner``: kdump runs as the ``owner`` of the files, not as root. ``copied``:
    there is a sound copy beside, from which the command takes what is missing, and no cleaner has
    ever cleaned the partition.
    """

    title: str
    command: Sequence[str]
    files: Files
    segments: Mapping[int, Sequence[bytes]] = field(default_factory=lambda: SEGMENTS)
    lossy: bool = False
    clean: bool = True
    linked: bool = False
    alone: bool = False
    moved: bool = False
    point: int = END
    most_bytes: int = 2**31 - 1
    owner: int = OWNER
    as_owner: bool = False
    copied: bool = False

    def __str__(self) -> str:
        return self.title

    def log_directory(self, root: Path) -> Path:
        return root / "data"

    def partition(self, root: Path) -> Path:
        return root / "data" / PARTITION

    @property
    def home(self) -> str:
        """Where the partition really is, from the root on."""
        return f"elsewhere/{PARTITION}" if self.moved else f"data/{PARTITION}"

    @property
    def folders(self) -> str:
        """Where the folders of its repairs are; what is in them is nobody's business here."""
        return f"{self.home}/.kdump"

    def become_user(self) -> None:
        """Take the user that kdump runs as, for good, if this process may."""
        if self.as_owner and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(self.owner + 1)
            os.setuid(self.owner)

    def argv(self, root: Path, *more: str) -> list[str]:
        """The command with its options, on this tree."""
        config = ["--config", str(root / "server.properties")]
        copy = ["--from", str(root / COPY / PARTITION)] if self.copied else []
        return [*self.command, *config, *copy, *more, str(self.partition(root))]

    def undo(self, root: Path, *more: str) -> list[str]:
        """The command that takes the repair back."""
        return ["undo", *more, str(self.partition(root))]

    def write(self, root: Path) -> None:
        """Write the tree at ``root``, which holds nothing yet but, maybe, ``elsewhere``."""
        (root / "server.properties").write_text(f"log.index.interval.bytes={INTERVAL}\n")
        top = self.log_directory(root)
        top.mkdir()
        files = companions() | self.files
        forge.write_partition(
            top, "orders", 0, self._segments_left(), interval=INTERVAL, files=files
        )
        if self.copied:
            copy = root / COPY
            forge.write_partition(
                copy, "orders", 0, self.segments, interval=INTERVAL, files=companions()
            )
        if not self.alone:
            self._write_log_directory(top)
        if self.moved:
            (root / "elsewhere").mkdir(exist_ok=True)
            shutil.move(top / PARTITION, root / self.home)
            (top / PARTITION).symlink_to(root / self.home)
        for number, path in enumerate(sorted(root.rglob("*"))):
            _belong(path, number, self.owner)
        if self.linked:
            kept = root / "kept"
            kept.mkdir()
            for path in sorted(self.partition(root).iterdir()):
                os.link(path, kept / path.name)

    def _segments_left(self) -> Mapping[int, Sequence[bytes]]:
        """The segments without those whose log is damaged by being gone."""
        gone = {base for base in self.segments if self.files.get(name(base, ".log"), b"") is None}
        return {base: data for base, data in self.segments.items() if base not in gone}

    def _write_log_directory(self, top: Path) -> None:
        forge.write_partition(top, "orders", 1, {0: batches(0)}, interval=INTERVAL)
        (top / OTHER / name(100, ".snapshot")).write_bytes(snapshot(100))
        (top / OTHER / name(0, ".txnindex")).write_bytes(aborted(0))
        (top / "meta.properties").write_bytes(b"version=0\nbroker.id=1\n")
        rows = {
            POINT: self.point,
            MARK: END,
            "cleaner-offset-checkpoint": 250,
            "log-start-offset-checkpoint": 5,
        }
        if self.copied:
            del rows["cleaner-offset-checkpoint"]
        for checkpoint, offset in rows.items():
            known = [("orders", 1, min(offset, 100)), ("orders", 0, offset), ("gone", 7, 1)]
            (top / checkpoint).write_bytes(forge.checkpoint(known))
        if self.clean:
            (top / MARKER).write_bytes(b'{"version":0,"brokerEpoch":12}')


def batches(base: int) -> list[bytes]:
    """A segment of 100 offsets: plain batches, a transaction that is committed, one aborted."""
    stamp = TIMESTAMP + base * 1000
    start = base // 100 * 10

    def data(offset: int, producer: int = -1, *, transactional: bool = False) -> bytes:
        known = producer >= 0
        return batch(
            base + offset,
            [record(b"value %d" % place, b"key") for place in range(10)],
            base_timestamp=stamp + offset,
            producer_id=producer,
            producer_epoch=0 if known else -1,
            base_sequence=start if known else -1,
            transactional=transactional,
            leader_epoch=base // 100,
        )

    def end(offset: int, producer: int, *, commit: bool) -> bytes:
        return marker(
            base + offset,
            producer,
            commit=commit,
            timestamp=stamp + offset,
            leader_epoch=base // 100,
        )

    return [
        data(0),
        data(10, 7, transactional=True),
        end(20, 7, commit=True),
        data(21, 8),
        data(31, 9, transactional=True),
        end(41, 9, commit=False),
        data(42),
        data(52),
        data(62),
        data(72),
        batch(
            base + 82,
            [record(b"last %d" % place) for place in range(18)],
            base_timestamp=stamp + 82,
            leader_epoch=base // 100,
        ),
    ]


def legacy(base: int) -> list[bytes]:
    """Messages and wrappers at 100 offsets, some of them compacted away: magic 0, then magic 1."""
    stamp = TIMESTAMP + base * 1000

    def messages(first: int, last: int, magic: int) -> list[bytes]:
        return [
            message(
                base + offset,
                b"value %d" % offset if offset % 9 else None,
                b"key" if offset % 7 else None,
                magic=magic,
                timestamp=stamp + offset,
            )
            for offset in range(first, last + 1)
        ]

    def inner(*relative: int) -> list[bytes]:
        return [message(each, b"inner %d" % each, timestamp=stamp + 50 + each) for each in relative]

    return [
        *messages(0, 14, magic=0),
        wrapper(base + 24, messages(16, 24, magic=0), codec="gzip", magic=0),
        *messages(25, 39, magic=1),
        wrapper(base + 49, inner(0, 1, 3, 4, 9), codec="gzip", timestamp=stamp + 59),
        *(
            message(base + offset, b"late", timestamp=stamp + offset // 60 * 60, attributes=8)
            for offset in range(50, 70)
        ),
        wrapper(base + 89, inner(0, 2, 19), codec="gzip", timestamp=stamp + 90, attributes=8),
        *messages(90, 99, magic=1),
    ]


def aborted(base: int) -> bytes:
    return forge.txn_index([(9, base + 31, base + 41, base + 42)])


def snapshot(offset: int) -> bytes:
    """What is known of the producers before ``offset``, where a segment begins."""
    base = offset - 100
    stamp = TIMESTAMP + base * 1000
    last = base // 100 * 10 + 9
    return forge.snapshot(
        [
            (7, 0, last, base + 19, 9, stamp + 20, 0, -1),
            (8, 0, last, base + 30, 9, stamp + 21, -1, -1),
            (9, 0, last, base + 40, 9, stamp + 41, 0, -1),
        ]
    )


def companions() -> Files:
    """Transaction indexes and snapshots of the sound partition."""
    files: Files = {name(base, ".txnindex"): aborted(base) for base in BASES}
    return files | {name(offset, ".snapshot"): snapshot(offset) for offset in (100, 200, 300)}


def _belong(path: Path, number: int, owner: int) -> None:
    if path.is_symlink():
        return
    if path.is_file():
        path.chmod(0o640)
        with suppress(OSError):  # not every file system has them
            os.setxattr(path, "user.kdump.test", b"kept %d" % (number % 3))
    else:
        path.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(path, owner, owner + 1)
    moment = _WRITTEN_NS + number * 1_000_000_007
    os.utime(path, ns=(moment, moment))


SEGMENTS: Mapping[int, Sequence[bytes]] = {base: batches(base) for base in BASES}


def _log(base: int, *instead: tuple[int, bytes]) -> Files:
    """The log of a segment with some of its batches replaced, by their numbers."""
    pieces = batches(base)
    for number, data in instead:
        pieces[number] = data
    return {name(base, ".log"): b"".join(pieces)}


_BROKEN = _log(100, (7, flip(batches(100)[7], -1)))
_TORN = _log(200, (10, batches(200)[10][:-30]))
_TRUNCATE = ("truncate-to-valid",)
_INDEXES: Files = {
    name(0, ".index"): None,
    name(100, ".index"): forge.offset_index([(152, 100)], 100, slots=40),
    name(100, ".timeindex"): None,
    name(200, ".timeindex"): b"\1\2\3",
    name(100, ".txnindex"): None,
    name(200, ".snapshot"): None,
}

#: An older broker has written the first segment and where the second begins.
_OLD = {
    0: legacy(0),
    100: [message(100 + offset, b"value %d" % offset, b"key") for offset in range(10)]
    + batches(100)[1:],
    200: batches(200),
}
_OLD_FILES: Files = {name(0, ".txnindex"): None, name(100, ".snapshot"): forge.snapshot()}
#: In this process, where its calls are seen; several batches of what comes one behind the other.
_CONVERT = ("convert-v0-v2", "--jobs", "1", "--batch-bytes", "200")

LOSSY = Subject("lossy", _TRUNCATE, _BROKEN, lossy=True)
UNCLEAN = Subject("lossy-unclean", _TRUNCATE, _BROKEN, lossy=True, clean=False, point=120)
TORN = Subject("torn", _TRUNCATE, _TORN, clean=False, point=200)
REINDEX = Subject("reindex", ("reindex",), _INDEXES)
REINDEX_DAMAGED = Subject("reindex-damaged", ("reindex", "--all"), {**_BROKEN, **_INDEXES})
LINKED = Subject("linked", _TRUNCATE, _BROKEN, lossy=True, linked=True)
ALONE = Subject("alone", _TRUNCATE, _BROKEN, lossy=True, alone=True)
MOVED = Subject("moved", _TRUNCATE, _BROKEN, lossy=True, moved=True)
CONVERT = Subject("convert", _CONVERT, _OLD_FILES, _OLD)
#: Both logs become several; the end of the aborted transaction is no longer in the log of its data.
SPLIT = replace(CONVERT, title="convert-split", most_bytes=1100)
_GONE: Files = {
    name(100, suffix): None for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
}
_FLIPPED = _log(0, (3, flip(batches(0)[3], -1)), (7, flip(batches(0)[7], 9)))
#: A stretch is damaged, a segment is gone, and the end is torn.
HEAL = Subject("heal", ("heal",), {**_FLIPPED, **_GONE, **_TORN}, copied=True)
HEAL_UNCLEAN = Subject("heal-unclean", ("heal",), _BROKEN, clean=False, point=0, copied=True)
AS_OWNER = tuple(
    replace(subject, title=f"{subject}-as-owner", as_owner=True)
    for subject in (LOSSY, REINDEX, CONVERT)
)
HEAL_AS_OWNER = replace(HEAL, title="heal-as-owner", as_owner=True)
#: All that is repaired as root belongs to another user, but this.
OF_ROOT = replace(LOSSY, title="lossy-of-root", owner=0)
SUBJECTS = (
    LOSSY,
    UNCLEAN,
    TORN,
    REINDEX,
    REINDEX_DAMAGED,
    LINKED,
    ALONE,
    MOVED,
    CONVERT,
    SPLIT,
    HEAL,
    HEAL_UNCLEAN,
    *AS_OWNER,
    HEAL_AS_OWNER,
    OF_ROOT,
)
