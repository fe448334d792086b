"""Recipes of producers, transactions and leader epochs: what is wrong, and what only looks so.

Each is a partition of a cleanly stopped log directory unless its files say otherwise. Transactions
that look open are judged an hour after ``forge.TIMESTAMP``. Imports nothing of kdump.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from support import forge
from support.damaged import FIRST, LAST, Recipe, name
from support.forge import TIMESTAMP, batch, flip, marker, record

#: What a log directory has beside its partitions.
TOP: Mapping[str, bytes | None] = {
    ".kafka_cleanshutdown": b"",
    "meta.properties": b"version=0\nbroker.id=1\n",
}
UNCLEAN: Mapping[str, bytes | None] = {"meta.properties": TOP["meta.properties"]}
EPOCHS = "leader-epoch-checkpoint"

Entry = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True)
class History(Recipe):
    """``compacted`` is what is known of the topic, ``top`` the files of the log directory.

    Both segments are filled, the first one up to the second, so that no offsets are missing: that
    would be a finding of its own.
    """

    compacted: bool | None = False
    top: Mapping[str, bytes | None] = field(default_factory=lambda: TOP)

    def write(self, log_directory: Path) -> Path:
        """Write the partition and what stands beside it."""
        whole = replace(self, first=_filled(self.first, LAST), last=_filled(self.last))
        return Recipe.write(whole, log_directory)


def _filled(pieces: Sequence[bytes], end: int | None = None) -> list[bytes]:
    """``pieces`` with batches between them, and up to ``end``, where offsets are missing."""
    bases = [int.from_bytes(piece[:8], "big", signed=True) for piece in pieces]
    found: list[bytes] = []
    for piece, following in zip(pieces, [*bases[1:], end], strict=True):
        found.append(piece)
        if piece[16:17] != b"\2" or following is None:
            continue
        offset, _, epoch = struct.unpack_from(">qii", piece)
        missing = following - (offset + struct.unpack_from(">i", piece, 23)[0] + 1)
        if 0 < missing <= LAST:
            found.append(batch(following - missing, [record()] * missing, leader_epoch=epoch))
    return found


def data(
    offset: int,
    producer: int,
    sequence: int,
    *,
    epoch: int = 0,
    transactional: bool = True,
    leader: int = 0,
    count: int = 5,
) -> bytes:
    """A batch of a producer: five records."""
    return batch(
        offset,
        [record()] * count,
        base_timestamp=TIMESTAMP + offset,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        leader_epoch=leader,
    )


def plain(offset: int, *, leader: int = 0) -> bytes:
    """A batch of five records of no known producer."""
    return data(offset, -1, -1, epoch=-1, transactional=False, leader=leader)


def end(offset: int, producer: int, *, commit: bool = False, epoch: int = 0) -> bytes:
    return marker(offset, producer, epoch, commit=commit, timestamp=TIMESTAMP + offset)


def one(offset: int, **fields: object) -> bytes:
    """A control batch with a producer, and with something else about it."""
    given: dict[str, object] = {
        "producer_id": 9,
        "producer_epoch": 0,
        "transactional": True,
        "control": True,
        **fields,
    }
    records = given.pop("records", [record(b"\0\0\0\0\0\0", b"\0\0\0\1")])
    return batch(offset, records, **given)  # type: ignore[arg-type]


def filled(first: Sequence[bytes]) -> list[bytes]:
    """A first segment with one more batch, so that the next one begins right behind it."""
    if first[-1][16:17] != b"\2":
        return [*first, forge.message(LAST - 1)]
    leader = int.from_bytes(first[-1][12:16], "big", signed=True)
    return [*first, plain(LAST - 5, leader=leader)]


# Producers 7 and 8 write transactions, 9 is only idempotent. Producer 7 aborts twice.
SOUND_FIRST = (
    plain(0),
    data(10, 7, 0),
    data(15, 8, 0),
    end(20, 7),
    data(21, 9, 0, transactional=False),
    data(26, 8, 5),
    end(31, 8, commit=True),
    data(32, 9, 5, transactional=False),
    data(40, 7, 5),
)
SOUND_LAST = (
    data(100, 8, 10),
    end(105, 7),
    end(106, 8, commit=True),
    data(107, 9, 10, transactional=False),
)
#: Their aborted transactions: producer, first and last offset, last stable offset.
ABORTS = ((7, 10, 20, 15), (7, 40, 105, 100))


def entry(
    producer: int,
    offset: int,
    sequence: int,
    *,
    epoch: int = 0,
    begun: int = -1,
    coordinator: int = -1,
) -> Entry:
    """What a snapshot says of a producer whose last batch ends at ``offset``."""
    delta = 4 if offset >= 0 else 0
    return producer, epoch, sequence, offset, delta, TIMESTAMP, coordinator, begun


#: The producers before 100, and at the end.
AT_100 = (
    entry(7, 44, 9, begun=40, coordinator=0),
    entry(8, 30, 9, coordinator=0),
    entry(9, 36, 9),
)
AT_END = (entry(7, 44, 9, coordinator=0), entry(8, 104, 14, coordinator=0), entry(9, 111, 14))
END = 112


def txns(*entries: tuple[int, int, int, int], version: int = 0) -> bytes:
    return forge.txn_index(entries, version=version)


def snap(offset: int) -> str:
    return name(offset, ".snapshot")


TXN_FIRST, TXN_LAST = name(FIRST, ".txnindex"), name(LAST, ".txnindex")
SOUND_FILES: Mapping[str, bytes | None] = {
    TXN_FIRST: txns(ABORTS[0]),
    TXN_LAST: txns(ABORTS[1]),
    snap(LAST): forge.snapshot(AT_100),
    snap(END): forge.snapshot(AT_END),
}


def _files(
    title: str,
    expected: str,
    files: Mapping[str, bytes | None],
    *,
    compacted: bool | None = False,
    top: Mapping[str, bytes | None] = TOP,
) -> History:
    """The sound log, with other files beside it."""
    return History(
        title,
        expected.split(),
        filled(SOUND_FIRST),
        SOUND_LAST,
        {**SOUND_FILES, **files},
        compacted=compacted,
        top=top,
    )


def _log(
    title: str,
    expected: str,
    first: Sequence[bytes],
    last: Sequence[bytes] = (plain(100),),
    files: Mapping[str, bytes | None] | None = None,
    *,
    compacted: bool | None = False,
    top: Mapping[str, bytes | None] = TOP,
) -> History:
    """Another log; without snapshots or transaction indexes unless they are given."""
    return History(
        title, expected.split(), filled(first), last, files or {}, compacted=compacted, top=top
    )


def _at_end(*instead: Entry) -> dict[str, bytes | None]:
    """The snapshot of the end with other entries for some producers."""
    changed = {each[0]: each for each in (*AT_END, *instead)}
    return {snap(END): forge.snapshot(list(changed.values()))}


def _epochs(title: str, expected: str, *rows: tuple[int, int], **more: object) -> History:
    """Epoch 0 up to 39, epoch 2 up to 104, epoch 3 behind; and a checkpoint of ``rows``."""
    first = [plain(0), plain(35), plain(40, leader=2)]
    last = [plain(100, leader=2), plain(105, leader=3)]
    files = {EPOCHS: forge.checkpoint(rows)}
    return _log(title, expected, first, last, files, **more)  # type: ignore[arg-type]


def _start(topic: str, offset: int) -> dict[str, bytes | None]:
    """A log directory whose checkpoint moves the log start of a recipe's partition up."""
    return {**TOP, "log-start-offset-checkpoint": forge.checkpoint([(topic, 0, offset)])}


def _recovery(topic: str, offset: int) -> dict[str, bytes | None]:
    """An uncleanly stopped log directory that is known to be flushed up to ``offset``."""
    return {**UNCLEAN, "recovery-point-offset-checkpoint": forge.checkpoint([(topic, 0, offset)])}


_OPEN = [data(10, 7, 0), data(20, 8, 0), end(30, 8, commit=True)]
#: Retention deleted the first segment, and moved the first leader epoch.
_NO_FIRST: dict[str, bytes | None] = {
    name(FIRST, kind): None for kind in (".log", ".index", ".timeindex", ".txnindex")
}
_NO_FIRST["leader-epoch-checkpoint"] = forge.checkpoint([(0, LAST)])
_TWO_ABORTS = [data(10, 7, 0), data(15, 8, 0), end(20, 7), end(25, 8)]
#: A batch that the cleaner has rewritten: it has one record for ten offsets.
_CLEANED = batch(0, [record(offset_delta=9)])
_BACK_TO_BACK = [data(10, 7, 0), end(20, 7), data(21, 7, 5), end(26, 7), data(30, 8, 0), end(40, 8)]

RECIPES = (
    # --- nothing wrong
    _files("history", "", {}),
    _files("history-unknown", "", {}, compacted=None),
    _files("history-unclean", "", {}, top=UNCLEAN),
    _files("snapshots-gone", "", {snap(LAST): None, snap(END): None}),
    _files("snapshots-empty", "", {snap(LAST): forge.snapshot(), snap(END): forge.snapshot()}),
    _files("snapshot-of-0-11", "", {snap(LAST): forge.snapshot([entry(8, 31, 9)])}, compacted=None),
    _files("snapshot-expired", "", {snap(END): forge.snapshot(AT_END[:1])}),
    _files("snapshot-between", "", {snap(50): forge.snapshot([entry(9, 25, 3, begun=21)])}),
    _files(
        "snapshot-times",
        "",
        {snap(END): forge.snapshot([(*each[:5], 7, *each[6:]) for each in AT_END])},
    ),
    _files("first-segment-gone", "", _NO_FIRST),
    _files("log-start-inside", "", {TXN_FIRST: None}, top=_start("log-start-inside", 16)),
    _log(
        "epoch-bumps",
        "",
        [
            data(10, 7, 0),
            end(15, 7, epoch=1),
            data(16, 7, 0, epoch=1),
            data(21, 7, 5, epoch=1),
            end(26, 7, epoch=2),
        ],
        files={
            TXN_FIRST: txns((7, 10, 15, 16), (7, 16, 26, 27)),
            snap(LAST): forge.snapshot([entry(7, -1, -1, epoch=2, coordinator=0)]),
        },
    ),
    _log(
        "sequence-wraps",
        "",
        [
            data(10, 9, 2**31 - 3, transactional=False),
            data(15, 9, 2, transactional=False),
            data(20, 9, 7, transactional=False),
        ],
        [data(100, 9, 12, transactional=False)],
    ),
    _log("sequence-restarts", "", [data(10, 9, 0), data(15, 9, 0), end(20, 9, commit=True)]),
    _log(
        "sequence-compacted",
        "",
        [_CLEANED, data(10, 9, 0, transactional=False), data(16, 9, 9, transactional=False)],
        compacted=None,
    ),
    _log("marker-alone", "", [plain(0), end(20, 7)]),
    _log("marker-emptied", "", [plain(0), one(20, records=[])]),
    _log(
        "begins-before-the-log",
        "",
        SOUND_FIRST,
        SOUND_LAST[1:],
        {**_NO_FIRST, TXN_LAST: txns(ABORTS[1])},
    ),
    _log("abort-cleaned", "", [plain(0)], files={TXN_FIRST: txns(ABORTS[0])}, compacted=None),
    _log("aborted-data-cleaned", "", [plain(0), end(20, 7)], compacted=True),
    _log(
        "snapshot-cleaned",
        "",
        [plain(0), end(20, 7)],
        files={
            snap(LAST): forge.snapshot([entry(7, 44, 9, begun=40, coordinator=0), entry(5, 30, 2)])
        },
        compacted=None,
    ),
    _log(
        "stable-below-first",
        "",
        [data(10, 8, 0), data(15, 7, 0), end(20, 7), end(25, 8, commit=True)],
        files={TXN_FIRST: txns((7, 15, 20, 10))},
    ),
    _log(
        "stable-of-follower",
        "",
        _BACK_TO_BACK,
        files={TXN_FIRST: txns((7, 10, 20, 30), (7, 21, 26, 30), (8, 30, 40, 41))},
    ),
    _epochs("epochs", "", (0, 0), (2, 40), (3, 105)),
    _epochs("epochs-at-the-end", "", (0, 0), (2, 40), (3, 105), (4, 110)),
    _epochs(
        "epochs-from-log-start",
        "",
        (0, 36),
        (2, 40),
        (3, 105),
        top=_start("epochs-from-log-start", 36),
    ),
    _epochs("epochs-dropped", "", (3, 105), top=_start("epochs-dropped", 105)),
    _epochs("epochs-unknown", "", (3, 105), compacted=None),
    _log(
        "epochs-converted",
        "leader-epoch-absent",
        [plain(0, leader=1), plain(5, leader=-1), plain(10, leader=1)],
        [plain(100, leader=1)],
    ),
    _log(
        "epochs-none-at-first",
        "leader-epoch-absent",
        [plain(0, leader=-1), plain(5, leader=-1), plain(10, leader=1)],
        [plain(100, leader=1)],
    ),
    _log(
        "epoch-sign-flipped",
        "leader-epoch-negative",
        [plain(0, leader=1), plain(5, leader=1 - (1 << 31)), plain(10, leader=1)],
        [plain(100, leader=1)],
    ),
    _log(
        "epochs-cleared",
        "",
        [plain(0, leader=1), *map(forge.message, range(5, 10)), plain(10, leader=1)],
        [plain(100, leader=2)],
        {
            EPOCHS: forge.checkpoint([(1, 10), (2, 100)]),
            name(FIRST, ".index"): b"",
            name(FIRST, ".timeindex"): forge.time_index([(TIMESTAMP + 95, 99)]),
        },
    ),
    _log(
        "epochs-of-legacy",
        "",
        [*map(forge.message, range(99))],
        [forge.message(100)],
        {EPOCHS: b""},
    ),
    # --- damage that is told by itself
    _log(
        "marker-lost",
        "batch-crc-mismatch transaction-end-lost",
        [
            data(10, 7, 0),
            flip(end(20, 7, commit=True), -1),
            data(21, 7, 5, transactional=False),
        ],
    ),
    _log(
        "batch-lost",
        "batch-crc-mismatch",
        [*SOUND_FIRST[:4], flip(SOUND_FIRST[4], -1), *SOUND_FIRST[5:]],
        SOUND_LAST,
        SOUND_FILES,
    ),
    _log(
        "epoch-doubled",
        "offsets-not-increasing",
        [plain(0, leader=1), plain(5, leader=2), plain(0, leader=1), plain(20, leader=2)],
        [plain(100, leader=2)],
    ),
    # --- transactions
    _log(
        "mixed",
        "transaction-mixed",
        [*_OPEN, data(40, 7, 5, transactional=False), end(45, 7, commit=True)],
    ),
    _log(
        "mixed-later",
        "transaction-mixed",
        _OPEN,
        [data(100, 7, 5, transactional=False), end(105, 7, commit=True)],
    ),
    _log("marker-type", "marker-unknown", [one(20, records=[record(bytes(6), b"\0\0\0\7")])]),
    _log("marker-null", "marker-unknown", [one(20, records=[record(bytes(6), None)])]),
    _log("marker-short", "marker-unknown", [one(20, records=[record(bytes(5), b"\0\0\0\1")])]),
    _log("marker-codec", "marker-unknown", [one(20, codec="gzip", block=end(20, 9)[61:])]),
    _log("marker-cut", "marker-unreadable", [one(20, records=[], block=b"\x20\0", count=1)]),
    _log("marker-key", "marker-unreadable", [one(20, records=[record(bytes(6), b"\0\0")])]),
    _log("marker-count", "marker-unreadable", [one(20, count=-1)]),
    _log(
        "marker-rest",
        "marker-unreadable",
        [one(20, records=[record(bytes(6), bytes(4)), b"\0"], count=1)],
    ),
    _log(
        "marker-version",
        "marker-unreadable",
        [one(20, records=[record(b"\xff\xff\0\0\0\0", bytes(4))])],
    ),
    _log("marker-twice", "marker-odd", [one(20, records=[record(bytes(6), bytes(4))] * 2)]),
    _log("marker-plain", "marker-odd", [one(20, transactional=False)]),
    _log("marker-sequence", "marker-odd", [one(20, base_sequence=3)]),
    _log(
        "epoch-of-data",
        "producer-epoch-falls",
        [data(10, 9, 0, epoch=1, transactional=False), data(15, 9, 5, transactional=False)],
    ),
    _log(
        "epoch-of-marker",
        "producer-epoch-falls",
        [data(10, 7, 0, epoch=2), end(15, 7, commit=True, epoch=1)],
    ),
    _log(
        "sequence-skips",
        "sequence-gap",
        [data(10, 9, 0, transactional=False), data(15, 9, 7, transactional=False)],
    ),
    _log(
        "sequence-skips-later",
        "sequence-gap",
        [data(10, 9, 0, transactional=False)],
        [data(100, 9, 3, transactional=False)],
    ),
    _log(
        "sequence-skips-unknown",
        "sequence-gap",
        [data(10, 9, 0, transactional=False)],
        [data(100, 9, 7, transactional=False)],
        compacted=None,
    ),
    _log(
        "sequence-skips-cleaned",
        "sequence-gap",
        [_CLEANED, data(10, 9, 0, transactional=False), data(15, 9, 7, transactional=False)],
        compacted=None,
    ),
    _log(
        "hanging",
        "transaction-late",
        [data(10, 7, 0), *_BACK_TO_BACK[4:5], end(40, 8, commit=True)],
    ),
    _log("open", "transaction-open", [plain(0)], [data(100, 7, 0)]),
    _log(
        "horizon",
        "delete-horizon-odd",
        [batch(0, [record(None, b"key")], base_timestamp=TIMESTAMP, delete_horizon=True)],
    ),
    _log(
        "horizon-zero",
        "delete-horizon-odd",
        [batch(0, [record(None, b"key")], base_timestamp=0, delete_horizon=True)],
        compacted=True,
    ),
    _log(
        "horizon-compacted",
        "",
        [batch(0, [record(None, b"key")], base_timestamp=TIMESTAMP, delete_horizon=True)],
        compacted=True,
    ),
    # --- transaction indexes
    _files("txnindex-cut", "txnindex-length", {TXN_FIRST: txns(ABORTS[0]) + bytes(5)}),
    _files("txnindex-newer", "txnindex-version", {TXN_FIRST: txns(ABORTS[0], version=1)}),
    _files(
        "txnindex-below",
        "txnindex-below-segment",
        {TXN_LAST: txns((7, 40, 99, 100), ABORTS[1])},
    ),
    _files("txnindex-twice", "txnindex-order", {TXN_LAST: txns(ABORTS[1], ABORTS[1])}),
    _files(
        "txnindex-backwards",
        "txnindex-order",
        {TXN_LAST: txns(ABORTS[1], (7, 103, 102, 103))},
        compacted=None,
    ),
    _files("abort-of-data", "txnindex-unfounded", {TXN_FIRST: txns(ABORTS[0], (7, 21, 25, 26))}),
    _files("abort-of-commit", "txnindex-unfounded", {TXN_FIRST: txns(ABORTS[0], (8, 26, 31, 32))}),
    _files(
        "abort-of-another",
        "txnindex-unfounded",
        {TXN_FIRST: txns(ABORTS[0], (9, 26, 31, 32))},
        compacted=None,
    ),
    _files(
        "abort-beyond-the-end",
        "txnindex-unfounded",
        {TXN_LAST: txns(ABORTS[1], (7, 108, 300, 112))},
        compacted=True,
    ),
    _files("txnindex-gone", "txnindex-missing-entry", {TXN_FIRST: None}),
    _files("txnindex-emptied", "txnindex-missing-entry", {TXN_LAST: b""}, compacted=None),
    _files("txnindex-late", "txnindex-missing-entry", {TXN_LAST: txns((7, 41, 105, 100))}),
    _log(
        "stable-too-high",
        "txnindex-stable-offset",
        _TWO_ABORTS,
        files={TXN_FIRST: txns((7, 10, 20, 21), (8, 15, 25, 26))},
    ),
    _log("stable", "", _TWO_ABORTS, files={TXN_FIRST: txns((7, 10, 20, 15), (8, 15, 25, 26))}),
    _files("stable-beyond", "txnindex-stable-offset", {TXN_LAST: txns((7, 40, 105, 5000))}),
    _files(
        "txnindex-unflushed",
        "txnindex-stale",
        {TXN_LAST: None},
        top=_recovery("txnindex-unflushed", 100),
    ),
    _files(
        "txnindex-flushed",
        "txnindex-missing-entry",
        {TXN_FIRST: None},
        top=_recovery("txnindex-flushed", 100),
    ),
    # --- producer snapshots
    _files("snapshot-sequence", "snapshot-disagrees", _at_end(entry(9, 111, 13))),
    _files(
        "snapshot-epoch", "snapshot-disagrees", _at_end(entry(9, 111, 14, epoch=1)), compacted=None
    ),
    _files("snapshot-old", "snapshot-disagrees", _at_end(entry(9, 36, 9)), compacted=None),
    _files(
        "snapshot-ahead",
        "snapshot-disagrees",
        {snap(LAST): forge.snapshot([*AT_100[:2], entry(9, 39, 12)])},
    ),
    _files("snapshot-future", "snapshot-disagrees", _at_end(entry(9, 120, 23)), compacted=True),
    _files("snapshot-stranger", "snapshot-disagrees", _at_end(entry(77, 50, 4))),
    _files(
        "snapshot-twice", "snapshot-disagrees", {snap(END): forge.snapshot([*AT_END, AT_END[0]])}
    ),
    _files(
        "snapshot-closed",
        "snapshot-disagrees",
        {snap(LAST): forge.snapshot([entry(7, 44, 9, coordinator=0), *AT_100[1:]])},
    ),
    _files(
        "snapshot-opened",
        "snapshot-disagrees",
        _at_end(entry(8, 104, 14, begun=100, coordinator=0)),
    ),
    _files("snapshot-forgets", "snapshot-disagrees", {snap(LAST): forge.snapshot(AT_100[1:])}),
    # --- leader epochs
    _log(
        "epoch-falls",
        "leader-epoch-falls",
        [plain(0, leader=5), plain(5, leader=3)],
        [plain(100, leader=5)],
    ),
    _log(
        "epoch-falls-later",
        "leader-epoch-falls",
        [plain(0, leader=5)],
        [plain(100, leader=3)],
        {EPOCHS: forge.checkpoint([(3, 100)])},
    ),
    _log(
        "epoch-rises-once",
        "leader-epoch-falls",
        [plain(0, leader=5), plain(5, leader=7), plain(10, leader=5)],
        [plain(100, leader=5)],
        {EPOCHS: forge.checkpoint([(5, 0)])},
    ),
    _epochs("epochs-beyond", "epochs-beyond-end", (0, 0), (2, 40), (3, 105), (4, 500)),
    _epochs("epochs-late", "epochs-mismatch", (0, 0), (2, 60), (3, 105)),
    _epochs("epochs-early", "epochs-mismatch", (0, 0), (2, 20), (3, 105), compacted=None),
    _epochs("epochs-skipped", "epochs-mismatch", (0, 0), (3, 105)),
    _epochs("epochs-behind", "epochs-mismatch", (0, 0), (2, 40)),
    _epochs(
        "epochs-unflushed",
        "epochs-missing",
        (0, 0),
        (2, 40),
        top=_recovery("epochs-unflushed", 100),
    ),
    _epochs("epochs-forgotten", "epochs-missing", (3, 105)),
    replace(_epochs("epochs-gone", "epochs-missing"), files={"leader-epoch-checkpoint": None}),
)
