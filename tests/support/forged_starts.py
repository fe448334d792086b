"""Small forged partitions, one thing about a start in each, and what must come of it.

Three segments of ten batches of ten records: offsets 0 to 299. Index interval 300 bytes. What is
expected here the loaders of real brokers do, too: test_forecast_broker has them start on these.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from support import forge
from support.damaged import batches
from support.forge import batch, flip, marker, message, record, wrapper

INTERVAL = 300
SOUND: Mapping[int, Sequence[bytes]] = {base: batches(base) for base in (0, 100, 200)}
OLDER, NEWER, NEWEST = "3.9.1", "4.3.1", "4.4.0"


@dataclass(frozen=True)
class Forged:
    """A partition, how it is found, and what comes of it.

    ``end`` is None where the broker does not start, or leaves the log directory out (``offline``).
    ``lost`` counts the sound records that are, ``unreadable`` those that damage had taken before.
    ``in_newer`` are the fields that differ in the later releases, ``in_newest`` those of the last.
    """

    name: str
    segments: Mapping[int, Sequence[bytes]] = field(default_factory=lambda: SOUND)
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    clean: bool = False
    log_start: int = 0
    recovery_point: int = 0
    index_bytes: int = 10_485_760
    end: int | None = 300
    start: int = 0
    left: tuple[int, ...] = (0, 100, 200)
    lost: int = 0
    unreadable: int = 0
    offline: bool = False
    in_newer: Mapping[str, object] = field(default_factory=dict)
    in_newest: Mapping[str, object] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, str]:
        return {
            "index.interval.bytes": str(INTERVAL),
            "segment.index.bytes": str(self.index_bytes),
        }

    def by(self, version: str) -> Forged:
        """What comes of it with that release."""
        newer = {} if version == OLDER else self.in_newer
        newest = self.in_newest if version == NEWEST else {}
        return replace(self, **newer, **newest)  # type: ignore[arg-type]

    def write(self, target: Path) -> Path:
        return forge.write_partition(
            target, self.name, 0, self.segments, interval=INTERVAL, files=self.files
        )


def name(base: int, extension: str) -> str:
    return f"{base:020d}{extension}"


def log(*pieces: bytes, base: int = 0) -> dict[str, bytes | None]:
    """A log of these pieces, whatever they are; its indexes are those of the sound one."""
    return {name(base, ".log"): b"".join(pieces)}


def _with(base: int, number: int, *instead: bytes) -> dict[int, Sequence[bytes]]:
    """All segments, one batch of one of them being replaced."""
    sound = SOUND[base]
    return {**SOUND, base: [*sound[:number], *instead, *sound[number + 1 :]]}


_FLIPPED = flip(SOUND[0][4], -1)
_INDEX = ".index"
_FOURTH, _EIGHTH = (sum(map(len, SOUND[200][:number])) for number in (3, 7))
_NINTH = sum(map(len, SOUND[0][:9]))
_INNER = [message(offset, b"value" * 8) for offset in range(5)]
_UNREADABLE = message(9, b"no gzip at all", attributes=1)
_NESTED = wrapper(9, [message(each, b"value", attributes=1) for each in range(5, 10)], codec="gzip")
REFUSED: Mapping[str, object] = {"end": None}


def _one(number: int, *, transactional: bool = False, offset: int | None = None) -> bytes:
    return batch(
        number if offset is None else offset,
        [record(b"v" * 40)],
        transactional=transactional,
        producer_id=7,
        producer_epoch=0,
        base_sequence=number,
    )


def _control(offset: int, key: bytes, value: bytes) -> bytes:
    return batch(
        offset,
        [record(value, key)],
        producer_id=7,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def _only(*pieces: bytes) -> Mapping[int, Sequence[bytes]]:
    return {0: pieces}


FORGED = (
    Forged("sound"),
    Forged("sound-clean", clean=True),
    # --- cuts
    Forged(
        "bad-checksum",
        files=log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]),
        end=40,
        left=(0,),
        lost=250,
        unreadable=10,
    ),
    Forged("bad-checksum-clean", files=log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]), clean=True),
    Forged(
        "bad-checksum-flushed",
        files=log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]),
        recovery_point=100,
    ),
    Forged(
        "bad-checksum-reached-by-the-point",
        files=log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]),
        recovery_point=99,
        end=40,
        left=(0,),
        lost=250,
        unreadable=10,
    ),
    Forged("torn-last", files=log(*SOUND[200], SOUND[0][0][:50], base=200)),
    Forged("torn-last-clean", files=log(*SOUND[200], SOUND[0][0][:50], base=200), clean=True),
    Forged(
        "torn-sealed",
        files=log(*SOUND[0][:9], SOUND[0][9][:50]),
        end=90,
        left=(0,),
        lost=200,
        unreadable=10,
    ),
    Forged("zeros-last", files=log(*SOUND[200], bytes(400), base=200)),
    Forged("zeros-last-clean", files=log(*SOUND[200], bytes(400), base=200), clean=True, end=None),
    Forged("only-zeros", files=log(bytes(400), base=200), end=200),
    # --- indexes
    Forged("index-missing", files={name(100, _INDEX): None}),
    Forged(
        "index-missing-and-damage",  # what is cut while it is rebuilt leaves a hole
        files={**log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]), name(0, _INDEX): None},
        lost=50,
        unreadable=10,
    ),
    Forged(
        "index-beyond-the-end",
        files={name(200, _INDEX): forge.offset_index([(239, _FOURTH), (400, _EIGHTH)], 200)},
        clean=True,
        end=200,
        lost=100,
    ),
    Forged(
        "index-before-the-start",
        files={name(200, _INDEX): struct.pack(">ii", 9, -8)},
        clean=True,
    ),
    Forged(
        "index-of-many-zeros-behind-an-entry",
        files={name(200, _INDEX): forge.offset_index([(239, _FOURTH)], 200, slots=3000)},
        clean=True,
    ),
    Forged(
        "index-into-a-batch",
        files={name(200, _INDEX): forge.offset_index([(209, 7)], 200)},
        clean=True,
        end=200,
        lost=100,
    ),
    Forged(
        "index-into-a-batch-where-a-size-is-none",
        files={name(200, _INDEX): forge.offset_index([(209, 5)], 200)},
        clean=True,
        end=None,
    ),
    Forged(
        "index-of-zeros",
        files={name(200, _INDEX): bytes(8 * 4000)},
        clean=True,
    ),
    Forged("index-empty", files={name(200, _INDEX): b""}, clean=True),
    Forged("index-full", index_bytes=24, end=None),
    Forged("index-longer-than-it-may-be", index_bytes=24, clean=True, end=None),
    # --- offsets
    Forged(
        "twice-at-the-end",
        segments={**SOUND, 200: [*SOUND[200][:9], SOUND[200][2]]},
        end=230,
        lost=60,
        in_newer={"end": 200, "lost": 100},
    ),
    Forged(
        "twice-and-indexed",
        segments={**SOUND, 0: [*SOUND[0][:6], *SOUND[0][:4]]},
        end=0,
        left=(0,),
        lost=300,
    ),
    Forged(
        "below-the-segment",
        segments=_with(100, 5, batch(50, [record(b"v" * 50)])),
        end=None,
    ),
    Forged(
        "out-of-range-inside", segments=_with(100, 5, batch(2**40, [record(b"v" * 50)])), end=None
    ),
    Forged(
        "out-of-range-at-the-end",
        segments=_with(100, 9, batch(2**40, [record(b"v" * 50)])),
        end=2**40 + 1,
        left=(0, 100, 200, 2**40),
    ),
    Forged(
        "highest",
        segments=_with(200, 9, batch(200 + 2**31 - 1, [record(b"v" * 50)])),
        end=200 + 2**31,
    ),
    Forged("log-start-inside", log_start=250, start=250),
    Forged("log-start-at-the-end", log_start=300, start=300),
    Forged("log-start-beyond", log_start=301, start=301, end=301, left=(301,), lost=300),
    Forged(
        "log-start-beyond-clean",
        log_start=400,
        clean=True,
        start=400,
        end=400,
        left=(400,),
        lost=300,
    ),
    Forged("nothing", segments={}, end=0, left=(0,)),
    Forged("nothing-but-a-log-start", segments={}, log_start=9, start=9, end=9, left=(9,)),
    Forged(
        "removed-first",
        segments={base: SOUND[base] for base in (100, 200)},
        start=100,
        left=(100, 200),
    ),
    # --- producers
    Forged(
        "plain-in-a-transaction",
        segments=_only(_one(0, transactional=True), _one(1)),
        end=None,
    ),
    Forged(
        "plain-behind-a-transaction",
        segments=_only(_one(0, transactional=True), marker(1, 7, commit=True), _one(2)),
        end=3,
        left=(0,),
    ),
    Forged(
        "plain-in-a-transaction-clean",
        segments=_only(_one(0, transactional=True), _one(1)),
        files={name(2, ".snapshot"): forge.snapshot()},
        clean=True,
        end=2,
        left=(0,),
    ),
    Forged(
        "plain-in-a-transaction-trusted",
        segments=_only(_one(0, transactional=True), _one(1)),
        clean=True,
        end=2,
        left=(0,),
    ),
    Forged(
        "plain-in-a-transaction-replayed",
        segments=_only(_one(0, transactional=True), _one(1)),
        files={name(1, ".snapshot"): forge.snapshot([(7, 0, 0, 0, 0, 0, -1, 0)])},
        clean=True,
        end=None,
    ),
    Forged(
        "plain-where-a-snapshot-knows-better",  # it does not say that the transaction was open
        segments={0: [_one(0, transactional=True)], 1: [_one(1)]},
        files={name(1, ".snapshot"): forge.snapshot()},
        clean=True,
        end=2,
        left=(0, 1),
    ),
    Forged(
        "plain-where-a-snapshot-knows-worse",
        segments={0: [_one(0)], 1: [_one(1)]},
        files={name(1, ".snapshot"): forge.snapshot([(7, 0, 0, 0, 0, 0, -1, 0)])},
        recovery_point=1,
        end=None,
    ),
    Forged(
        "plain-where-the-log-is-believed",
        segments={0: [_one(0, transactional=True)], 1: [_one(1)]},
        files={name(1, ".snapshot"): forge.snapshot()},
        end=None,
    ),
    Forged(
        "way-to-an-open-transaction",  # which is looked for when all else is done
        segments={0: [*SOUND[0], _one(100, transactional=True)]},
        files={
            **log(*SOUND[0][:9], bytes(100), _one(100, transactional=True)),
            name(0, _INDEX): forge.offset_index([(100, _NINTH + 100)], 0),
            name(101, ".snapshot"): forge.snapshot([(7, 0, 100, 100, 0, 0, -1, 95)]),
        },
        clean=True,
        end=None,
    ),
    Forged(
        "no-way-to-be-gone-to-an-open-transaction",
        segments={0: [*SOUND[0], _one(100, transactional=True)]},
        files={
            **log(*SOUND[0][:9], bytes(100), _one(100, transactional=True)),
            name(0, _INDEX): forge.offset_index([(100, _NINTH + 100)], 0),
            name(101, ".snapshot"): forge.snapshot([(7, 0, 100, 100, 0, 0, -1, 100)]),
        },
        clean=True,
        end=101,
        left=(0,),
    ),
    Forged(
        "zeros-in-what-is-replayed",
        segments={0: SOUND[0], 100: [*SOUND[100], _one(200)], 300: [_one(300)]},
        files={
            **log(*SOUND[100][:4], bytes(300), _one(200), base=100),
            name(100, ".snapshot"): forge.snapshot(),
        },
        recovery_point=300,
        end=None,
    ),
    Forged(
        "marker-of-no-transaction",
        segments=_only(_control(0, struct.pack(">hh", 0, 2), struct.pack(">hi", 0, 0))),
        end=None,
    ),
    Forged(
        "marker-without-a-type",
        segments=_only(
            _one(0, transactional=True),
            _control(1, b"\0\0", struct.pack(">hi", 0, 0)),
            _one(2, transactional=True),
        ),
        end=None,  # recovery cuts behind it, and the replay then stops at it
    ),
    Forged(
        "aborts-swapped",
        segments=_only(
            _one(0, transactional=True),
            batch(
                1, [record()], transactional=True, producer_id=8, producer_epoch=0, base_sequence=0
            ),
            marker(3, 8, commit=False),
            marker(2, 7, commit=False),
        ),
        end=None,
    ),
    # --- old formats
    Forged(
        "wrapper",
        files=log(wrapper(4, _INNER, codec="gzip")),
        segments={0: []},
        end=5,
        left=(0,),
    ),
    Forged(
        "wrapper-unreadable",
        files=log(wrapper(4, _INNER, codec="gzip"), _UNREADABLE),
        segments={0: []},
        end=10,
        left=(0,),
        in_newer=REFUSED,
    ),
    Forged(
        "wrapper-of-wrappers",
        files=log(wrapper(4, _INNER, codec="gzip"), _NESTED),
        segments={0: []},
        end=10,
        left=(0,),
        in_newer=REFUSED,
    ),
    Forged(
        "wrapper-unreadable-clean",
        files=log(wrapper(4, _INNER, codec="gzip"), _UNREADABLE),
        segments={0: []},
        clean=True,
        end=10,
        left=(0,),
    ),
    Forged(
        "wrapper-unreadable-replayed",
        files={
            **log(wrapper(4, _INNER, codec="gzip"), _UNREADABLE),
            name(3, ".snapshot"): forge.snapshot(),
        },
        segments={0: []},
        clean=True,
        end=10,
        left=(0,),
        in_newer=REFUSED,
    ),
    Forged(
        "wrapper-unreadable-first-clean",
        files=log(_UNREADABLE),
        segments={0: []},
        clean=True,
        end=10,
        left=(0,),
        in_newer=REFUSED,
    ),
    # --- files
    Forged(
        "epochs-malformed",
        files={"leader-epoch-checkpoint": b"0\n1\n0 0 0\n"},
        end=None,
        offline=True,
    ),
    Forged("epochs-no-number", files={"leader-epoch-checkpoint": b"0\n1\n0 x\n"}, end=None),
    Forged("epochs-below-zero", files={"leader-epoch-checkpoint": b"0\n1\n-1 0\n"}, end=None),
    Forged(
        "metadata-zero-id",
        files={"partition.metadata": forge.partition_metadata("A" * 22)},
        end=None,
        offline=True,
    ),
    Forged(
        "metadata-short-id", files={"partition.metadata": forge.partition_metadata("abc")}, end=None
    ),
    Forged("metadata-empty", files={"partition.metadata": b""}, end=None),
    Forged("no-offset-in-a-name", files={"abc.log": b""}, end=None),
    Forged("more-than-an-offset-in-a-name", files={f"{2**63:020d}.log": b""}, end=None),
    Forged("no-offset-in-a-swap", files={"abc.swap": b""}, end=None),
    Forged("no-offset-in-what-is-deleted", files={"abc.log.deleted": b""}),
    Forged(
        "txnindex-version",
        files={name(100, ".txnindex"): forge.txn_index([(7, 100, 110, 111)], version=256)},
        end=None,
    ),
    Forged(
        "txnindex-version-in-the-second-byte",
        files={name(100, ".txnindex"): forge.txn_index([(7, 100, 110, 111)], version=1)},
        in_newest={"end": None},
    ),
    Forged(
        "txnindex-version-negative",
        files={name(100, ".txnindex"): forge.txn_index([(7, 100, 110, 111)], version=-256)},
        in_newest={"end": None},
    ),
    Forged(
        "txnindex-below",
        files={
            name(0, ".txnindex"): forge.txn_index([(7, -5, -1, 0)]),
            **log(*SOUND[0][:4], _FLIPPED, *SOUND[0][5:]),
        },
        clean=True,
        lost=50,
        unreadable=10,
    ),
    Forged("orphans", files={name(400, _INDEX): b"", name(400, ".timeindex"): b""}),
    # --- leftovers
    Forged(
        "swap-of-two",  # it ends at offset 200, so that both segments below go
        files={name(0, ".log.swap"): b"".join([SOUND[0][0], SOUND[100][9]])},
        left=(0, 200),
    ),
    Forged(
        "swap-above-a-cleaned",
        files={name(100, ".log.swap"): SOUND[100][0], name(50, ".log.cleaned"): b""},
    ),
    Forged(
        "swap-below-a-cleaned",
        files={name(0, ".log.swap"): SOUND[0][0], name(50, ".log.cleaned"): b""},
    ),
    Forged(
        "swap-of-the-last-clean",
        files={name(200, ".log.swap"): SOUND[200][0]},
        clean=True,
        end=210,
    ),
)
