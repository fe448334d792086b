"""Damage to the small files, names and checkpoints of a log directory, and what only looks like it.

Each recipe is of a stopped node's only log directory; ``pipeline.judge`` runs the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from support import forge, forge_metadata
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.forge import TIMESTAMP, TOPIC_ID, batch, checkpoint, record
from support.forge_metadata import segment_name, snapshot_name

OTHER_ID = "b3RoZXItdG9waWMtMTIzNA"
CLUSTER_ID = "Y2x1c3Rlci0xMjM0NTY3OA"
DIRECTORY_ID = "ZGlyZWN0b3J5LTEyMzQ1Ng"
CLEAN = {".kafka_cleanshutdown": b""}
END = 200  # the end offset of the log that recipes start from
DAY_MS = 86_400_000
_UNIQUE = "0123456789abcdef0123456789abcdef"
_START, _POINT, _MARK, _CLEANER = (
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
_EPOCHS = "leader-epoch-checkpoint"

_ID_FILE = {"partition.metadata": forge.partition_metadata(TOPIC_ID)}

Files = Mapping[str, bytes | None]


def meta_properties(
    *, node: int = forge_metadata.NODE, cluster: str = CLUSTER_ID, directory: str = DIRECTORY_ID
) -> bytes:
    return (
        f"#\nversion=1\nnode.id={node}\ncluster.id={cluster}\ndirectory.id={directory}\n".encode()
    )


_FEATURE = forge_metadata.feature("metadata.version", 21)


def _quorum_state(*voters: int) -> bytes:
    listed = ",".join(f'{{"voterId":{voter}}}' for voter in voters)
    return (
        '{"clusterId":"","leaderId":2,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        f'"currentVoters":[{listed}],"data_version":0}}'
    ).encode()


META = {"meta.properties": meta_properties()}


def _top(title: str, expected: str = "", top: Files | None = None) -> Recipe:
    return Recipe(title, expected.split(), batches(FIRST), batches(LAST), top=top or {})


def _files(title: str, expected: str = "", files: Files | None = None, **top: bytes) -> Recipe:
    return Recipe(
        title, expected.split(), batches(FIRST), batches(LAST), files or {}, top=dict(top)
    )


def _line(title: str, expected: str, file: str, offset: int) -> Recipe:
    return _top(title, expected, {file: checkpoint([(title, 0, offset)])})


def sent(base: int, count: int, sequence: int) -> list[bytes]:
    """Batches of ten records of a producer, from an offset and a sequence number on."""
    return [
        batch(
            base + 10 * number,
            [record() for _ in range(10)],
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence + 10 * number,
        )
        for number in range(count)
    ]


def kraft(
    title: str,
    expected: str = "",
    *values: bytes,
    files: Files | None = None,
    top: Files | None = None,
    first: Sequence[bytes] | None = None,
    last: Sequence[bytes] | None = None,
) -> Recipe:
    """A node whose metadata log knows the topic, and ``values`` beyond that."""
    known = [forge_metadata.topic(title, TOPIC_ID), forge_metadata.partition(TOPIC_ID), *values]
    return Recipe(
        title,
        expected.split(),
        batches(FIRST) if first is None else first,
        batches(LAST) if last is None else last,
        files or {},
        top=META | {segment_name(): forge_metadata.log(known)} | dict(top or {}),
    )


def _metadata(
    title: str,
    expected: str,
    files: Callable[[Sequence[bytes]], Files] = lambda _: {},
    *,
    base: int = 0,
) -> Recipe:
    """A metadata log of six records from ``base`` on, and ``files`` made of the first two of them.

    These are the topic and its partition, so that whole snapshots of them lose nothing.
    """
    known = [forge_metadata.topic(title, TOPIC_ID), forge_metadata.partition(TOPIC_ID)]
    log = forge_metadata.log([*known, *[forge_metadata.NO_OP] * 4], base)
    top = META | {segment_name(base): log} | dict(files(known))
    return _top(title, expected, top)


def _checkpoint(
    end_offset: int, *, header: bool = True, footer: bool = True, ending: str = ""
) -> Callable[[Sequence[bytes]], Files]:
    def files(known: Sequence[bytes]) -> Files:
        data = forge_metadata.snapshot(known, header=header, footer=footer)
        return {snapshot_name(end_offset) + ending: data}

    return files


def _compacted(title: str, expected: str, first: Sequence[bytes]) -> Recipe:
    policy = forge_metadata.config(title, "cleanup.policy", "compact")
    return kraft(title, expected, policy, first=first)


def _gone(title: str, expected: str, partition: bytes, **top: bytes | None) -> Recipe:
    """A line of another topic, of which there is no directory; ``partition`` is its replicas."""
    line = {_POINT: checkpoint([("other", 0, 5)])}
    values = forge_metadata.topic("other", OTHER_ID), partition
    return kraft(title, expected, *values, top=line | top)


def _wiped(title: str, expected: str, top: Files, files: Files | None = None) -> Recipe:
    endings = (".log", ".index", ".timeindex")
    gone: dict[str, bytes | None] = {
        name(base, ending): None for base in (FIRST, LAST) for ending in endings
    }
    return Recipe(
        title, expected.split(), batches(FIRST), batches(LAST), gone | dict(files or {}), top=top
    )


def _headless(
    title: str,
    expected: str,
    *values: bytes,
    epochs: bytes = checkpoint([(0, 0)]),
    files: Files | None = None,
    top: Files | None = None,
) -> Recipe:
    """A node of one topic, with ``values`` in its metadata log, that lacks its first segment."""
    gone: dict[str, bytes | None] = {
        name(FIRST, ending): None for ending in (".log", ".index", ".timeindex")
    }
    return kraft(
        title, expected, *values, files={**gone, _EPOCHS: epochs, **(files or {})}, top=top
    )


def _sent_at(timestamp: int, last_offset: int = 99) -> dict[str, bytes | None]:
    """The snapshot after the first segment, of a producer with this last batch."""
    state = forge.snapshot([(7, 0, 3, last_offset, 0, timestamp, -1, -1)])
    return {name(LAST, ".snapshot"): state}


def _swap(base: int, pieces: Sequence[bytes]) -> dict[str, bytes | None]:
    return {
        name(base, ".log.swap"): b"".join(pieces),
        name(base, ".index.swap"): b"",
        name(base, ".timeindex.swap"): b"",
    }


def _opened(title: str, suffix: str, *, zeros: int = 0) -> dict[str, bytes | None]:
    """A partition of another kind with one segment, as it is while it is open; closed cleanly."""
    directory = f"{title}-0.{_UNIQUE}-{suffix}"
    return {
        **CLEAN,
        f"{directory}/{name(FIRST, '.log')}": b"".join(batches(FIRST)) + bytes(zeros),
        f"{directory}/{name(FIRST, '.index')}": bytes(8 * 50),
        f"{directory}/{name(FIRST, '.timeindex')}": bytes(12 * 50),
    }


def _snapshot(base: int, *, damage: int = 0) -> dict[str, bytes | None]:
    data = forge.snapshot([(7, 0, 3, 90, 0, TIMESTAMP, -1, -1)])
    return {name(base, ".snapshot"): forge.flip(data, -1) if damage else data}


def _retention(title: str, expected: str, stamps: Sequence[int], retention_ms: int) -> Recipe:
    """The first segment's largest timestamp, then the last one's; a third is between them."""
    first, middle, last = stamps
    return kraft(
        title,
        expected,
        forge_metadata.config(title, "retention.ms", str(retention_ms)),
        first=[batch(0, [record()] * 50, base_timestamp=first)],
        last=[batch(100, [record()] * 100, base_timestamp=last)],
        files={
            name(50, ".log"): batch(50, [record()] * 50, base_timestamp=middle),
            name(50, ".index"): b"",
            name(50, ".timeindex"): forge.time_index([(middle, 99)], 50),
        },
    )


#: Later than any time at which this runs, and the last segment with it.
_FAR = 9_999_999_999_999
_FAR_FILES: dict[str, bytes | None] = {
    name(LAST, ".log"): batch(LAST, [record()] * 100, base_timestamp=_FAR),
    name(LAST, ".index"): b"",
    name(LAST, ".timeindex"): forge.time_index([(_FAR, END - 1)], LAST),
}
#: Longer than the records of the recipes are old.
_LONG_MS = 200_000 * DAY_MS


def _kept(title: str, retention_ms: int = -1) -> tuple[bytes, ...]:
    """The configs of a topic whose log retention keeps for so long."""
    return (forge_metadata.config(title, "retention.ms", str(retention_ms)),)


def _size_limit(title: str, limit: int) -> bytes:
    return forge_metadata.config(title, "retention.bytes", str(limit))


_OLD, _PRESENT, _FUTURE = 1_700_000_000_000, 1_794_999_000_000, 1_900_000_000_000
_META_LOG = forge_metadata.log([forge_metadata.NO_OP] * 5)
_ID_OF_OTHER = forge.partition_metadata(OTHER_ID)
_QUORUM_STATE = f"{forge_metadata.METADATA}/quorum-state"
_QUORUM = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)
_OTHER = (forge_metadata.topic("other", OTHER_ID), forge_metadata.partition(OTHER_ID))

RECIPES = (
    # --- a metadata log that is gone
    _top(
        "metadata-gone",
        "metadata-log-missing-only",
        META | {"bootstrap.checkpoint": forge_metadata.log([_FEATURE])},
    ),
    _top("metadata-not-copied", "", META),
    _top(
        "metadata-blank",
        "metadata-log-missing-only",
        META | {segment_name(): b"", snapshot_name(0, 0): forge_metadata.snapshot([])},
    ),
    _top(
        "metadata-without-segments",
        "metadata-log-missing",
        META | {f"{forge_metadata.METADATA}/quorum-state": _quorum_state(1, 2, 3)},
    ),
    # --- replicas in a directory that is not in sight
    kraft(
        "left-behind",
        "replica-directory-missing-only",
        forge_metadata.topic("elsewhere", OTHER_ID),
        forge_metadata.partition(OTHER_ID, directories=[OTHER_ID]),
    ),
    # --- the top of a log directory
    _top("plain"),
    _top("lost-found", "foreign-directory", {"lost+found": None}),
    _top("hidden-directory", "foreign-directory", {".snapshots": None}),
    _top("no-number", "foreign-directory", {"orders-x": None}),
    _top("remote-cache", "", {"remote-log-index-cache": None}),
    _top("notes", "foreign-file", {"notes.txt": b"do not touch"}),
    _top("segment-at-top", "foreign-file", {name(0, ".log"): b"", _POINT: b""}),
    _top("kdumps-own", "", {".kdump.notes": b""}),
    _top("half-checkpoint", "leftover-temporary", {f"{_POINT}.tmp": b"0\n"}),
    _top("spelled-twice", "partition-twice", {"spelled-twice-00": None}),
    _top("moving", "directory-future future-unused", {f"moving-0.{_UNIQUE}-future": None}),
    _top("deleting", "directory-deleted", {f"deleting-0.{_UNIQUE}-delete": None}),
    _top("set-aside", "directory-stray", {f"set-aside-0.{_UNIQUE}-stray": None}),
    # Loading leaves room in their indexes, and a clean stop does not close them.
    _top("set-aside-open", "directory-stray", _opened("set-aside-open", "stray")),
    _top("deleting-open", "directory-deleted", _opened("deleting-open", "delete")),
    _top(
        "moving-open",
        "directory-future future-unused index-padded-clean timeindex-padded-clean",
        _opened("moving-open", "future"),
    ),
    _top(
        "set-aside-zeros",
        "directory-stray preallocated-tail",
        _opened("set-aside-zeros", "stray", zeros=500),
    ),
    _top(
        "deleting-half",
        "directory-deleted",
        {
            f"deleting-half-0.{_UNIQUE}-delete/{name(FIRST, ending)}": data
            for ending, data in ((".index", b""), (".timeindex", b""))
        }
        | {f"deleting-half-0.{_UNIQUE}-delete/{name(LAST, '.log')}": b"".join(batches(LAST))},
    ),
    # --- checkpoints and meta.properties
    _top("checkpoints-empty", "", dict.fromkeys((_START, _POINT, _MARK, _CLEANER), b"")),
    _top("start-malformed", "checkpoint-malformed", {_START: b"0\n1\nt 0\n"}),
    _top("point-version", "checkpoint-malformed", {_POINT: b"1\n0\n"}),
    _top("mark-count", "checkpoint-malformed", {_MARK: b"0\n2\nmark-count 0 9\n"}),
    _top("cleaner-text", "checkpoint-malformed", {_CLEANER: b"\xff"}),
    _top("start-number", "checkpoint-number", {_START: b"0\n1\nt 0 x\n"}),
    _top("point-number", "checkpoint-number", {_POINT: b"0\n1\nt x 0\n"}),
    _top("cleaner-number", "checkpoint-number", {_CLEANER: b"0\n1\nt 0 1e3\n"}),
    _top("mark-number", "high-watermark-number", {_MARK: b"0\n1\nt 0 99999999999999999999\n"}),
    _top("line-unknown", "checkpoint-line-unknown", {_POINT: checkpoint([("gone", 3, 5)])}),
    _top("line-twice", "", {_START: checkpoint([("line-twice", 0, 900), ("line-twice", 0, 5)])}),
    _top("meta-version", "meta-properties-unreadable", {"meta.properties": b"version=7\n"}),
    _top("meta-node", "meta-properties-unreadable", {"meta.properties": b"version=1\n"}),
    _top("meta-zookeeper", "", {"meta.properties": b"broker.id=1\n"}),
    # --- log start, recovery point, high watermark, cleaner
    _line("start-beyond", "log-start-beyond-end", _START, END + 1),
    _line("start-at-end", "", _START, END),
    _line("start-in-batch", "", _START, 55),
    _line("start-in-last", "", _START, 150),
    _line("point-beyond", "recovery-point-beyond-end", _POINT, END + 1),
    _line("point-at-end", "", _POINT, END),
    _line("point-low", "", _POINT, 0),
    _line("mark-beyond", "high-watermark-beyond-end", _MARK, END + 1),
    _line("mark-at-end", "", _MARK, END),
    _top(
        "mark-below",
        "high-watermark-below-start",
        {_START: checkpoint([("mark-below", 0, 55)]), _MARK: checkpoint([("mark-below", 0, 54)])},
    ),
    _line("cleaner-beyond", "cleaner-offset-beyond-end", _CLEANER, END + 1),
    _line("cleaner-inside", "", _CLEANER, 100),
    _top(
        "cleaner-below",
        "cleaner-offset-below-start",
        {
            _START: checkpoint([("cleaner-below", 0, 55)]),
            _CLEANER: checkpoint([("cleaner-below", 0, 54)]),
        },
    ),
    # What is not there to be served has no ends to keep.
    _top(
        "future-short",
        "directory-future future-unused",
        {
            f"future-short-0.{_UNIQUE}-future": None,
            _START: checkpoint([("future-short", 0, 100)]),
        },
    ),
    # --- future logs
    *(
        kraft(
            f"future-{title}",
            f"directory-future {expected}",
            forge_metadata.partition(TOPIC_ID, directories=[assigned]),
            files={"partition.metadata": forge.partition_metadata(TOPIC_ID)},
            top={f"future-{title}-0.{_UNIQUE}-future/{file}": data for file, data in held.items()},
        )
        for title, expected, assigned, held in (
            ("here", "future-beside-current", DIRECTORY_ID, _ID_FILE),
            ("elsewhere", "future-unused", OTHER_ID, _ID_FILE),
            ("unnamed", "future-stray", DIRECTORY_ID, {"leader-epoch-checkpoint": b"0\n0\n"}),
        )
    ),
    # --- partition.metadata and the cluster
    kraft(
        "metadata-id",
        "metadata-topic-id",
        top={f"{forge_metadata.METADATA}/partition.metadata": forge.partition_metadata(OTHER_ID)},
    ),
    _files(
        "id-zero",
        "partition-metadata-malformed",
        {"partition.metadata": forge.partition_metadata("A" * 22)},
    ),
    _files("id-empty", "partition-metadata-fatal", {"partition.metadata": b""}),
    _files(
        "id-short",
        "partition-metadata-fatal",
        {"partition.metadata": forge.partition_metadata("abc")},
    ),
    _files("id-none-zookeeper", "", {"partition.metadata": None}),
    _files("id-line", "partition-metadata-fatal", {"partition.metadata": b"version: 0\n"}),
    _files("id-words", "partition-metadata-malformed", {"partition.metadata": b"version 0\n"}),
    kraft("id-known"),
    kraft("id-none", "topic-id-missing", files={"partition.metadata": None}),
    kraft("id-spoilt", "partition-metadata-fatal", files={"partition.metadata": b"version: 0\n"}),
    kraft(
        "id-none-empty",
        "topic-id-missing-empty",
        files={"partition.metadata": None, _EPOCHS: None}
        | {name(LAST, ending): None for ending in (".log", ".index", ".timeindex")},
        first=[b""],
    ),
    # preallocate=true: the log has its full size before the first record.
    kraft(
        "id-none-preallocated",
        "preallocated-tail topic-id-missing-empty",
        files={"partition.metadata": None, _EPOCHS: None}
        | {name(LAST, ending): None for ending in (".log", ".index", ".timeindex")},
        first=[bytes(500)],
    ),
    kraft("id-unknown", "partition-stray-only", files={"partition.metadata": _ID_OF_OTHER}),
    kraft(
        "id-unknown-shared",
        "partition-stray",
        forge_metadata.change(TOPIC_ID, 0, [1, 2], in_sync=[1, 2]),
        files={"partition.metadata": _ID_OF_OTHER},
    ),
    kraft(
        "id-unknown-leads",
        "partition-stray-only",
        forge_metadata.change(TOPIC_ID, 0, [1, 2], in_sync=[1]),
        files={"partition.metadata": _ID_OF_OTHER},
    ),
    kraft(
        "id-deleted",
        "partition-stray",
        forge_metadata.topic("id-deleted-old", OTHER_ID),
        forge_metadata.remove(OTHER_ID),
        files={"partition.metadata": _ID_OF_OTHER},
    ),
    kraft("id-removed", "partition-stray", forge_metadata.remove(TOPIC_ID)),
    kraft(
        "id-of-other",
        "topic-id-mismatch",
        *_OTHER,
        files={"partition.metadata": _ID_OF_OTHER},
    ),
    kraft("moved-away", "partition-stray", forge_metadata.change(TOPIC_ID, 0, [2, 3])),
    kraft(
        "moved-back", "", *(forge_metadata.change(TOPIC_ID, 0, nodes) for nodes in ([2], [1, 2]))
    ),
    kraft(
        "removal-aborted",
        "",
        forge_metadata.BEGIN,
        forge_metadata.remove(TOPIC_ID),
        forge_metadata.ABORT,
    ),
    kraft("removal-open", "", forge_metadata.BEGIN, forge_metadata.remove(TOPIC_ID)),
    kraft(
        "removal-ended",
        "partition-stray",
        forge_metadata.BEGIN,
        forge_metadata.remove(TOPIC_ID),
        forge_metadata.END,
    ),
    kraft(
        "metadata-damaged",
        "batch-crc-mismatch partition-stray-cut",
        files={"partition.metadata": _ID_OF_OTHER},
        top={segment_name(): forge.flip(_META_LOG, -1)},
    ),
    kraft(
        "metadata-newer",
        "metadata-replay-stops",
        b"\1\2\x63newer",
        files={"partition.metadata": _ID_OF_OTHER},
    ),
    kraft(
        "metadata-torn",
        "torn-tail partition-stray",
        files={"partition.metadata": _ID_OF_OTHER},
        top={segment_name(): _META_LOG[:-3]},
    ),
    kraft(
        "segment-bytes",
        "segment-bytes-small",
        forge_metadata.config("segment-bytes", "segment.bytes", "1048575"),
    ),
    kraft(
        "segment-bytes-least",
        "",
        forge_metadata.config("segment-bytes-least", "segment.bytes", "1048576"),
    ),
    kraft(
        "segment-bytes-internal",
        "",
        forge_metadata.config("segment-bytes-internal", "internal.segment.bytes", "3000"),
    ),
    # --- names
    _files("name-text", "file-name-refused", {"abc.log": b""}),
    _files("name-text-index", "file-name-refused", {"abc.timeindex": b""}),
    _files("name-text-snapshot", "file-name-refused", {"abc.snapshot": b""}),
    _files("name-large", "file-name-refused", {"99999999999999999999.log": b""}),
    _files("name-cleaned", "file-name-refused leftover-cleaned", {"x.cleaned": b""}),
    _files("name-swap", "file-name-refused swap-pending", {f"{_EPOCHS}.swap": b""}),
    _files("name-unpadded", "file-name-unpadded", {"7.log": b""}),
    _files("name-negative", "file-name-unpadded", {"-5.log": b""}),
    _files("name-deleted", "leftover-deleted", {"abc.deleted": b""}),
    _files("name-unpadded-snapshot", "snapshot-stray", {"7.snapshot": b""}),
    _files("name-foreign", "foreign-file", {"notes.txt": b""}),
    _files("name-checkpoint", "", {"abc.checkpoint": b""}),
    # --- leader epochs and producer snapshots
    _files("epochs-text", "epochs-malformed", {_EPOCHS: b"0\n1\n0\n"}),
    _files("epochs-empty", "", {_EPOCHS: b""}),
    _files("epochs-none", "", {_EPOCHS: None}),
    _files("epochs-number", "epochs-number", {_EPOCHS: b"0\n1\nx 0\n"}),
    _files("epochs-negative", "epochs-number", {_EPOCHS: checkpoint([(-1, 0), (0, 5)])}),
    _files("epochs-back", "epochs-order", {_EPOCHS: checkpoint([(0, 0), (2, 50), (3, 20)])}),
    _files("epochs-twice", "epochs-order", {_EPOCHS: checkpoint([(2, 0), (2, 50)])}),
    _files("epochs-one-start", "", {_EPOCHS: checkpoint([(0, 0), (1, 50), (2, 50)])}),
    _files("epochs-at-end", "", {_EPOCHS: checkpoint([(0, 0), (3, END)])}),
    _files("epochs-beyond", "epochs-beyond-end", {_EPOCHS: checkpoint([(0, 0), (3, END + 1)])}),
    _files("snapshots", "", _snapshot(LAST) | _snapshot(END)),
    _files("snapshot-crc", "snapshot-unreadable", _snapshot(LAST, damage=1)),
    _files("snapshot-empty", "snapshot-unreadable", {name(END, ".snapshot"): b""}),
    _files("snapshot-between", "snapshot-stray", _snapshot(50)),
    # --- leftovers
    _files(
        "deleted",
        "leftover-deleted",
        {name(0, ".log.deleted"): b"", name(0, ".index.deleted"): b""},
    ),
    _files("cleaned", "leftover-cleaned", {name(0, ".log.cleaned"): batches(0)[0]}),
    _files("temporary", "leftover-temporary", {"partition.metadata.tmp": b""}),
    _files("swap", "swap-pending", _swap(FIRST, batches(FIRST))),
    _files(
        "swap-of-a-log-that-is-gone",
        "leftover-deleted swap-pending",
        {
            **_swap(FIRST, batches(FIRST)),
            name(FIRST, ".log"): None,
            name(FIRST, ".log.deleted"): b"".join(batches(FIRST)),
            name(FIRST, ".index"): b"",
            name(FIRST, ".timeindex"): b"",
            name(FIRST + 10, ".index"): b"",
        },
    ),
    _files(
        "swap-split-beside-an-orphan",
        "index-orphan leftover-cleaned swap-discarded",
        _swap(50, batches(50)[:5]) | {name(FIRST, ".log.cleaned"): b"", name(50, ".index"): b""},
    ),
    _files("swap-unknown-short", "swap-deletes", _swap(FIRST, batches(FIRST)[:5])),
    _files(
        "swap-unknown-torn",
        "swap-deletes",
        _swap(FIRST, [*batches(FIRST)[:9], batches(FIRST)[9][:-1]]),
    ),
    _files("swap-unknown-empty", "swap-shortened", _swap(LAST, [])),
    _files(
        "swap-unknown-rare",
        "swap-shortened",
        _swap(FIRST, [*batches(FIRST)[:3], *batches(FIRST)[4:]]),
    ),
    _files("swap-unknown-begins", "swap-shortened", _swap(FIRST, batches(FIRST)[1:])),
    _files(
        "swap-unknown-cleaned",
        "swap-pending",
        _swap(FIRST, [*batches(FIRST)[:3], batch(90, [record(offset_delta=9)])]),
    ),
    kraft(
        "swap-rare",
        "swap-deletes",
        files=_swap(FIRST, [*batches(FIRST)[:3], *batches(FIRST)[4:]]),
    ),
    _files("swap-index", "swap-pending", {name(FIRST, ".index.swap"): b""}),
    _files(
        "swap-split",
        "leftover-cleaned swap-discarded",
        _swap(50, batches(50)[:5]) | {name(FIRST, ".log.cleaned"): b""},
    ),
    kraft("swap-whole", "swap-pending", files=_swap(FIRST, batches(FIRST))),
    kraft("swap-short", "swap-deletes", files=_swap(FIRST, batches(FIRST)[:5])),
    kraft("swap-empty", "swap-deletes", files=_swap(LAST, [])),
    kraft(
        "swap-over-both", "swap-deletes", files=_swap(FIRST, [*batches(FIRST), *batches(LAST)[:5]])
    ),
    Recipe(
        "swap-compacted",
        ["swap-pending"],
        batches(FIRST),
        batches(LAST),
        _swap(FIRST, batches(FIRST)[:5]),
        top={_CLEANER: checkpoint([("swap-compacted", 0, 100)])},
    ),
    _files("swap-inside", "swap-overlaps", _swap(50, batches(50)[:5])),
    # --- an index that the next start rebuilds
    _files("no-times-unclean", "index-rebuilt", {name(LAST, ".timeindex"): None}),
    Recipe(
        "no-times-clean",
        ["timeindex-missing"],
        batches(FIRST),
        batches(LAST),
        {name(LAST, ".timeindex"): None},
        top=CLEAN,
    ),
    # --- what somebody removed
    _wiped(
        "wiped",
        "high-watermark-beyond-end recovery-point-beyond-end segments-gone",
        {_POINT: checkpoint([("wiped", 0, END)]), _MARK: checkpoint([("wiped", 0, END)])},
    ),
    _wiped(
        "wiped-marked",
        "high-watermark-beyond-end segments-gone",
        {_MARK: checkpoint([("wiped-marked", 0, END)])},
    ),
    _wiped(
        "wiped-at-start",
        "",
        {file: checkpoint([("wiped-at-start", 0, END)]) for file in (_START, _POINT, _MARK)},
    ),
    _wiped("never-written", "", {}),
    _wiped(
        "wiped-epochs",
        "epochs-beyond-end segments-gone",
        {},
        {_EPOCHS: checkpoint([(0, 0), (1, 90)])},
    ),
    _wiped(
        "wiped-snapshot",
        "segments-gone",
        {},
        {name(END, ".snapshot"): forge.snapshot([])},
    ),
    _wiped(
        "wiped-but-swap",
        "swap-pending",
        {_POINT: checkpoint([("wiped-but-swap", 0, END)])},
        _swap(FIRST, batches(FIRST)),
    ),
    # --- the first segment is missing: retention, DeleteRecords, or something else
    _headless("headless", "first-segment-missing", *_kept("headless")),
    _headless("headless-unknown", ""),
    _headless(
        "headless-unknown-young",
        "log-start-unexplained timestamps-future",
        files=_FAR_FILES,
    ),
    _headless(
        "headless-compacted",
        "first-segment-missing",
        forge_metadata.config("headless-compacted", "cleanup.policy", "compact"),
    ),
    # Its largest timestamp is that of the last record of the last segment, a second before.
    _headless(
        "headless-young",
        "first-segment-missing",
        *_kept("headless-young", retention_ms=_LONG_MS),
        files=_sent_at(_PRESENT),
    ),
    _headless(
        "headless-old",
        "",
        *_kept("headless-old", retention_ms=DAY_MS),
        files=_sent_at(_OLD),
    ),
    _headless(
        "headless-old-unsent",
        "",
        *_kept("headless-old-unsent", retention_ms=DAY_MS),
    ),
    _headless(
        "headless-young-unsent",
        "log-start-unexplained",
        *_kept("headless-young-unsent", retention_ms=_LONG_MS),
    ),
    _headless("headless-large", "", *_kept("headless-large"), _size_limit("headless-large", 500)),
    _headless(
        "headless-small",
        "first-segment-missing",
        *_kept("headless-small"),
        _size_limit("headless-small", 1 << 30),
    ),
    _headless(
        "headless-line-after",
        "log-start-raised",
        *_kept("headless-line-after"),
        epochs=checkpoint([(0, 100)]),
    ),
    _headless(
        "headless-line-after-old",
        "",
        *_kept("headless-line-after-old", retention_ms=DAY_MS),
        epochs=checkpoint([(0, 100)]),
    ),
    _headless(
        "headless-lineless",
        "log-start-raised",
        *_kept("headless-lineless"),
        files={_EPOCHS: None},
    ),
    _headless(
        "headless-past-start",
        "log-start-raised",
        *_kept("headless-past-start"),
        epochs=checkpoint([(0, 100)]),
        top={_START: checkpoint([("headless-past-start", 0, 40)])},
    ),
    _headless(
        "headless-log-start",
        "",
        *_kept("headless-log-start"),
        top={_START: checkpoint([("headless-log-start", 0, 100)])},
    ),
    _headless(
        "headless-deleting",
        "leftover-deleted",
        *_kept("headless-deleting"),
        files={name(FIRST, ".log.deleted"): b"".join(batches(FIRST))},
    ),
    _headless(
        "headless-remote",
        "",
        *_kept("headless-remote"),
        forge_metadata.config("headless-remote", "remote.storage.enable", "true"),
    ),
    _headless(
        "headless-orphan",
        "first-segment-missing index-orphan",
        *_kept("headless-orphan", retention_ms=DAY_MS),
        epochs=b"0\n0\n",
        files={name(FIRST, ".index"): b""},
    ),
    _headless(
        "headless-half-renamed",
        "index-orphan leftover-deleted",
        *_kept("headless-half-renamed"),
        files={
            name(FIRST, ".log.deleted"): b"".join(batches(FIRST)),
            name(FIRST, ".index"): b"",
        },
    ),
    _gone(
        "gone-alone",
        "checkpoint-line-unknown replica-missing-only",
        forge_metadata.partition(OTHER_ID),
    ),
    _gone(
        "gone-here",
        "checkpoint-line-unknown replica-missing",
        forge_metadata.partition(OTHER_ID, 0, [3, 1], [OTHER_ID, DIRECTORY_ID]),
    ),
    _gone(
        "gone-to-other-directory",
        "checkpoint-line-unknown replica-directory-missing",
        forge_metadata.partition(OTHER_ID, 0, [3, 1], [DIRECTORY_ID, OTHER_ID]),
    ),
    _gone(
        "gone-to-other-node",
        "checkpoint-line-unknown",
        forge_metadata.partition(OTHER_ID, 0, [2, 3]),
    ),
    _gone(
        "gone-but-moving-in",
        "directory-future future-alone",
        forge_metadata.partition(OTHER_ID),
        **{f"other-0.{_UNIQUE}-future": None},
    ),
    kraft("never-made", "", *_OTHER),
    kraft(
        "aside-alone",
        "directory-stray replica-set-aside-only",
        *_OTHER,
        top={f"other-0.{_UNIQUE}-stray": None},
    ),
    kraft(
        "aside-shared",
        "directory-deleted replica-set-aside",
        forge_metadata.topic("other", OTHER_ID),
        forge_metadata.partition(OTHER_ID, 0, [3, 1], [OTHER_ID, DIRECTORY_ID]),
        top={f"other-0.{_UNIQUE}-delete": None},
    ),
    # --- holes
    kraft("hole", "segments-hole", first=batches(FIRST)[:8]),
    kraft(
        "hole-orphan",
        "segment-missing",
        first=batches(FIRST)[:8],
        files={name(80, ".index"): b"", name(80, ".timeindex"): b""},
    ),
    kraft("hole-inside", "batches-hole", first=[*batches(FIRST)[:3], *batches(FIRST)[4:]]),
    kraft(
        "records-removed",
        "batch-count-mismatch",
        first=[*batches(FIRST)[:9], batch(90, [record(offset_delta=9)])],
    ),
    _compacted("hole-inside-compacted", "", first=[*batches(FIRST)[:3], *batches(FIRST)[4:]]),
    _compacted(
        "records-compacted", "", first=[*batches(FIRST)[:9], batch(90, [record(offset_delta=9)])]
    ),
    _compacted("hole-compacted", "segments-gap", first=batches(FIRST)[:8]),
    Recipe("hole-unknown", ["offsets-missing"], batches(FIRST)[:8], batches(LAST)),
    Recipe("hole-unknown-jump", ["records-missing"], sent(0, 8, 0), sent(100, 10, 100)),
    Recipe("hole-unknown-goes-on", ["batch-offset-changed"], sent(0, 8, 0), sent(100, 10, 80)),
    Recipe("hole-unknown-begins", ["offsets-missing"], sent(0, 8, 0), sent(100, 10, 0)),
    Recipe(
        "hole-unknown-inside",
        ["records-missing"],
        [*sent(0, 5, 0), *sent(60, 4, 60)],
        sent(100, 10, 100),
    ),
    Recipe(
        "holes-unknown-inside",
        ["offsets-missing", "offsets-missing"],
        [*sent(0, 5, 0), *sent(60, 2, 60), *sent(90, 1, 90)],
        sent(100, 10, 100),
    ),
    Recipe(
        "hole-unknown-cleaned",
        ["segments-gap"],
        [*batches(FIRST)[:7], batch(70, [record(offset_delta=9)])],
        batches(LAST),
    ),
    Recipe(
        "last-offset-moved",
        ["batch-offset-changed"],
        sent(0, 10, 0),
        [*sent(100, 2, 100), *sent(120 + (1 << 20), 1, 120)],
    ),
    kraft("hole-jump", "segments-hole", first=sent(0, 8, 0), last=sent(100, 10, 100)),
    kraft("hole-goes-on", "batch-offset-changed", first=sent(0, 8, 0), last=sent(100, 10, 80)),
    kraft(
        "last-offset-moved-known",
        "batch-offset-changed",
        first=sent(0, 10, 0),
        last=[*sent(100, 2, 100), *sent(120 + (1 << 20), 1, 120)],
    ),
    kraft(
        "hole-once-compacted",
        "segments-gap",
        first=batches(FIRST)[:8],
        top={_CLEANER: checkpoint([("hole-once-compacted", 0, 100)])},
    ),
    # --- timestamps in the future
    _retention("held", "timestamps-hold-retention", [_FUTURE, _OLD, _PRESENT], DAY_MS),
    _retention("held-not-due", "timestamps-future", [_FUTURE, _PRESENT, _PRESENT], DAY_MS),
    _retention("held-forever", "timestamps-future", [_FUTURE, _OLD, _PRESENT], -1),
    _retention("future-last", "timestamps-future", [_PRESENT, _PRESENT, _FUTURE], DAY_MS),
    _retention("clocks-differ", "", [_PRESENT + 1_800_000, _OLD, _PRESENT], DAY_MS),
    # --- the clean marker
    _top("clean", "", CLEAN),
    Recipe(
        "clean-torn",
        ["torn-tail-clean"],
        batches(FIRST),
        [*batches(LAST)[:9], batches(LAST)[9][:-5]],
        top=CLEAN,
    ),
    Recipe(
        "clean-zeros",
        ["preallocated-tail-clean"],
        batches(FIRST),
        [*batches(LAST), bytes(500)],
        top=CLEAN,
    ),
    Recipe(
        "clean-padded",
        ["index-padded-clean"],
        batches(FIRST),
        batches(LAST),
        {name(LAST, ".index"): bytes(8 * 50)},
        top=CLEAN,
    ),
    Recipe(
        "clean-padded-times",
        ["timeindex-padded-clean"],
        batches(FIRST),
        batches(LAST),
        {name(LAST, ".timeindex"): bytes(10_485_756)},
        top=CLEAN,
    ),
    _files("unclean-padded", "", {name(LAST, ".index"): bytes(10_485_760)}),
    # --- the metadata log
    _metadata("metadata", ""),
    _metadata(
        "bootstrap", "bootstrap-malformed", lambda _: {"bootstrap.checkpoint": b"no batch" * 9}
    ),
    _metadata("meta-empty", "meta-properties-unreadable", lambda _: {"meta.properties": b""}),
    _metadata("meta-migrating", "", lambda _: {"meta.properties": b"broker.id=1\ncluster.id=x\n"}),
    replace(
        kraft("metadata-unknown", "metadata-unreplayable", forge_metadata.change(OTHER_ID, 0)),
        deep=True,
    ),
    _metadata("snapshot-whole", "", _checkpoint(3)),
    _metadata("snapshot-at-start", "", _checkpoint(3), base=3),
    _metadata(
        "snapshot-before",
        "",
        lambda known: {**_checkpoint(2)(known), **_checkpoint(4)(known)},
        base=3,
    ),
    _metadata("snapshot-none", "metadata-snapshot-missing", base=3),
    _metadata("snapshot-low", "metadata-snapshot-missing", _checkpoint(2), base=3),
    _metadata("snapshot-headless", "metadata-snapshot-damaged", _checkpoint(3, header=False)),
    _metadata("snapshot-unended", "metadata-snapshot-torn", _checkpoint(3, footer=False)),
    _metadata("snapshot-nothing", "metadata-snapshot-damaged", lambda _: {snapshot_name(3): b""}),
    _metadata(
        "snapshot-flipped",
        "metadata-snapshot-damaged",
        lambda known: {snapshot_name(3): forge.flip(forge_metadata.snapshot(known), 200)},
    ),
    _metadata(
        "snapshot-flipped-old",
        "metadata-snapshot-damaged-old",
        lambda known: {**_checkpoint(4)(known), snapshot_name(3): b""},
    ),
    _metadata("snapshot-beyond", "metadata-snapshot-beyond-end", _checkpoint(7)),
    _metadata("snapshot-at-end", "", _checkpoint(6)),
    _metadata(
        "end-gone",
        "metadata-end-missing",
        lambda _: {f"{forge_metadata.METADATA}/{9:020}.snapshot": forge.snapshot()},
    ),
    _metadata(
        "end-gone-epoch",
        "epochs-beyond-end metadata-end-missing",
        lambda _: {f"{forge_metadata.METADATA}/{_EPOCHS}": b"0\n2\n0 0\n1 9\n"},
    ),
    _metadata(
        "end-in-snapshot",
        "metadata-snapshot-beyond-end",
        lambda known: {
            **_checkpoint(9)(known),
            f"{forge_metadata.METADATA}/{9:020}.snapshot": forge.snapshot(),
        },
    ),
    _metadata("snapshot-partial", "leftover-temporary", _checkpoint(9, ending=".part")),
    _metadata("snapshot-deleted", "leftover-deleted", _checkpoint(2, ending=".deleted")),
    _metadata(
        "snapshot-name",
        "file-name-refused",
        lambda _: {f"{forge_metadata.METADATA}/abc.checkpoint": b""},
    ),
    _metadata(
        "end-gone-observer",
        "metadata-end-behind",
        lambda _: {
            f"{forge_metadata.METADATA}/{9:020}.snapshot": forge.snapshot(),
            _QUORUM_STATE: b'{"clusterId":"","leaderId":9,"leaderEpoch":2,"votedId":-1,'
            b'"appliedOffset":0,"currentVoters":[{"voterId":9}],"data_version":0}',
        },
    ),
    _metadata("quorum", "", lambda _: {_QUORUM_STATE: _QUORUM}),
    _metadata("quorum-fields", "quorum-state-malformed", lambda _: {_QUORUM_STATE: b"{}"}),
    _metadata("quorum-empty", "quorum-state-malformed", lambda _: {_QUORUM_STATE: b""}),
)
