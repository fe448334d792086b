"""Damage as recipes: a partition with one thing wrong with it, and the findings that it must give.

Each recipe is of a stopped log directory. What is right and only looks odd is among them, with
no findings. Imports nothing of kdump.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support import forge
from support.forge import TIMESTAMP, batch, flip, record
from support.forge_groups import commit_key

FIRST, LAST = 0, 100  # base offsets of the two segments
_LOG, _INDEX, _TIMES = ".log", ".index", ".timeindex"


@dataclass(frozen=True)
class Recipe:
    """``expected`` are the codes in the order of their names, once a finding; notes included.

    ``top`` has what else stands in the log directory, by path; what maps to None is a directory.
    """

    name: str
    expected: Sequence[str]
    first: Sequence[bytes]
    last: Sequence[bytes]
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    deep: bool = False
    top: Mapping[str, bytes | None] = field(default_factory=dict)

    def write(self, log_directory: Path) -> Path:
        """Write the partition ``<name>-0`` and return its directory."""
        pieces = {FIRST: self.first, LAST: self.last}
        # Where there is no header there is nothing to be indexed.
        headed = {base: [data for data in pieces[base] if data[16:17] == b"\2"] for base in pieces}
        logs = {name(base, _LOG): b"".join(pieces[base]) for base in pieces}
        for path, data in self.top.items():
            directory = log_directory / path if data is None else (log_directory / path).parent
            directory.mkdir(parents=True, exist_ok=True)
            if data is not None:
                (log_directory / path).write_bytes(data)
        return forge.write_partition(
            log_directory, self.name, 0, headed, interval=300, files={**logs, **self.files}
        )


def name(base: int, extension: str) -> str:
    """The name of a segment's file."""
    return f"{base:020d}{extension}"


def batches(base: int, count: int = 10, each: int = 10) -> list[bytes]:
    """Sound batches one behind the other, of ``each`` records, a second apart."""
    return [
        batch(
            base + number * each,
            [record(b"value %d" % place, b"key") for place in range(each)],
            base_timestamp=TIMESTAMP + 1000 * (base + number),
        )
        for number in range(count)
    ]


def _with(base: int, number: int, *instead: bytes) -> list[bytes]:
    """Sound batches, of which one is replaced."""
    sound = batches(base)
    return [*sound[:number], *instead, *sound[number + 1 :]]


def _log(
    title: str, expected: str, first: Sequence[bytes] = (), last: Sequence[bytes] = ()
) -> Recipe:
    return Recipe(title, expected.split(), first or batches(FIRST), last or batches(LAST))


def _deep(title: str, expected: str, *instead: bytes) -> Recipe:
    """``instead`` stands for the fourth batch of the first segment: offsets 30 to 39."""
    return Recipe(title, expected.split(), _with(FIRST, 3, *instead), batches(LAST), deep=True)


def _files(title: str, expected: str, **files: bytes) -> Recipe:
    """``files`` are named as ``first_index``: which segment, and which of its files."""
    bases = {"first": FIRST, "last": LAST}
    named: dict[str, bytes | None] = {}
    for key, data in files.items():
        which, _, kind = key.partition("_")
        named[name(bases[which], f".{kind}")] = data
    return Recipe(title, expected.split(), batches(FIRST), batches(LAST), named)


def _entries(base: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    return forge.index_entries(batches(base), base, 300)


def _index(base: int, *, slots: int = 0, swapped: bool = False, cut: int = 0) -> bytes:
    entries = _entries(base)[0]
    if swapped:
        entries[1], entries[2] = entries[2], entries[1]
    data = forge.offset_index(entries, base, slots=slots)
    return data[: len(data) - cut]


def _times(base: int, *, slots: int = 0, swapped: bool = False, cut: int = 0) -> bytes:
    entries = _entries(base)[1]
    if swapped:
        entries[1], entries[2] = entries[2], entries[1]
    data = forge.time_index(entries, base, slots=slots)
    return data[: len(data) - cut]


_TORN = batches(LAST)[-1][:-5]
_MESSAGES = [forge.message(offset, b"value " * 8, b"key") for offset in range(10)]
_BOMB = batch(30, [record(bytes(80 << 20))], codec="zstd", last_offset_delta=9)


def _old(title: str, expected: str, *messages: bytes) -> Recipe:
    """A first segment of magic 1, without indexes."""
    files = {name(FIRST, _INDEX): b"", name(FIRST, _TIMES): b""}
    return Recipe(f"old-{title}", expected.split(), messages, batches(LAST), files, deep=True)


RECIPES = (
    # --- nothing wrong
    _log("sound", ""),
    _log("gaps", "", [*batches(FIRST)[:3], *batches(FIRST)[5:]], batches(LAST)[2:]),
    _log("empty-last", "", last=[b""]),
    Recipe("all-empty", [], [b""], [b""]),
    # --- batches
    _log("crc-sealed", "batch-crc-mismatch", _with(FIRST, 3, flip(batches(FIRST)[3], -1))),
    _log("crc-last", "batch-crc-mismatch", last=_with(LAST, 9, flip(batches(LAST)[9], -1))),
    _log("size-small", "batch-size-impossible", _with(FIRST, 3, batch(30, length=3))),
    _log(
        "size-large",
        "batch-size-impossible",
        _with(FIRST, 3, batch(30, [record()], length=1 << 20)),
    ),
    _log("torn-last", "torn-tail", last=_with(LAST, 9, _TORN)),
    _log("torn-header", "torn-tail", last=_with(LAST, 9, _TORN[:9])),
    _log("torn-sealed", "torn-tail-sealed", _with(FIRST, 9, batches(FIRST)[9][:-5])),
    _log("zeros-last", "preallocated-tail", last=[*batches(LAST), bytes(500)]),
    _log("zeros-only", "preallocated-tail", last=[bytes(500)]),
    _log("zeros-sealed", "preallocated-tail-sealed", [*batches(FIRST), bytes(500)]),
    _log("twice", "offsets-not-increasing", _with(FIRST, 3, *batches(FIRST)[3:4] * 2)),
    _log("below", "batch-below-segment", last=_with(LAST, 0, batch(50, [record()]))),
    _log(
        "inverted",
        "batch-offsets-inverted",
        _with(FIRST, 3, batch(30, [record()], last_offset_delta=-1)),
    ),
    _log("overflow", "offset-overflow", last=_with(LAST, 9, batch(LAST + 2**31, [record()]))),
    _log("highest", "", last=_with(LAST, 9, batch(LAST + 2**31 - 1, [record()]))),
    _log("overlap", "segments-overlap", [*batches(FIRST), batch(100, [record()])]),
    _log("magic", "batch-magic-unknown", last=_with(LAST, 9, batch(190, [record()], magic=77))),
    _log(
        "magic-negative",
        "batch-magic-unknown",
        last=_with(LAST, 9, forge.message(190, b"value " * 9, magic=-1)),
    ),
    _log("codec-5", "batch-codec-unknown", _with(FIRST, 3, batch(30, [record()], attributes=5))),
    _log("codec-7", "batch-codec-unknown", _with(FIRST, 3, batch(30, [record()], attributes=7))),
    _log(
        "codec-old",
        "batch-codec-unknown",
        last=_with(LAST, 9, forge.message(190, bytes(40), attributes=4)),
    ),
    _log(
        "bits", "batch-attributes-unknown", _with(FIRST, 3, batch(30, [record()], attributes=16384))
    ),
    _log(
        "bits-sign",
        "batch-attributes-unknown",
        _with(FIRST, 3, batch(30, [record()], attributes=-32768)),
    ),
    _log(
        "bits-old",
        "batch-attributes-unknown",
        last=_with(LAST, 9, forge.message(190, bytes(40), attributes=16)),
    ),
    # --- indexes
    _files("index-cut", "index-length", first_index=_index(FIRST, cut=3)),
    _files("index-cut-last", "index-length", last_index=_index(LAST, cut=3)),
    _files("index-swapped", "index-order", first_index=_index(FIRST, swapped=True)),
    _files("index-swapped-last", "index-order", last_index=_index(LAST, swapped=True)),
    _files("index-zeros", "index-padded", first_index=_index(FIRST, slots=50)),
    _files("index-zeros-last", "", last_index=_index(LAST, slots=50)),
    _files("index-stale-last", "", last_index=_index(LAST, swapped=True, slots=50)),
    _files(
        "index-stale-to-the-end",
        "",
        last_index=_index(LAST) + b"\0\0\0\5\0\0\0\5" * (1_310_720 - len(_entries(LAST)[0])),
    ),
    _files(
        "indexes-empty", "timeindex-too-low", first_index=b"", first_timeindex=b"", last_index=b""
    ),
    _files("times-cut", "timeindex-length timeindex-too-low", first_timeindex=_times(FIRST, cut=3)),
    _files("times-swapped", "timeindex-order", first_timeindex=_times(FIRST, swapped=True)),
    _files("times-zeros", "timeindex-padded", first_timeindex=_times(FIRST, slots=50)),
    _files("times-zeros-last", "", last_timeindex=_times(LAST, slots=50)),
    _files("times-stale-last", "", last_timeindex=_times(LAST, swapped=True, slots=50)),
    # --- records
    *(
        _deep(
            f"codec-{codec}",
            "",
            batch(30, [record(b"value " * 9, None, [(b"name", None)])] * 3, codec=codec),
        )
        for codec in forge.CODECS
    ),
    # Of type 1, a commit, whose value ends behind its version; other types are unknown here.
    _deep(
        "__consumer_offsets",
        "records-undecodable",
        batch(30, [record(b"\0\3", commit_key("group", "topic", 0)), *[record(key=b"key")] * 9]),
    ),
    _deep("emptied", "", batch(30, base_timestamp=-1, max_timestamp=7, last_offset_delta=9)),
    _deep(
        "delete-horizon",
        "",
        batch(
            30,
            [record(None, b"key", timestamp=TIMESTAMP)],
            base_timestamp=TIMESTAMP + 86_400_000,
            max_timestamp=TIMESTAMP,
            delete_horizon=True,
        ),
    ),
    _deep(
        "log-append-time",
        "",
        batch(
            30,
            [record(timestamp=TIMESTAMP + 50)],
            max_timestamp=TIMESTAMP,
            timestamp_type="LogAppendTime",
        ),
    ),
    _deep("no-timestamp", "", batch(30, [record()], base_timestamp=-1, max_timestamp=-1)),
    _deep("compacted", "", batch(30, [record(offset_delta=2)], last_offset_delta=9)),
    _deep("marker", "", forge.marker(30, 7, commit=True)),
    _deep("fewer", "records-unreadable", batch(30, [record()] * 3, count=5)),
    _deep("nulls", "records-null-sizes", batch(30, [record(None, key_length=-2)] * 3)),
    _deep("more", "records-unreadable", batch(30, [record()] * 3, count=2)),
    _deep("negative", "records-unreadable", batch(30, [record()], count=-1)),
    _deep("no-gzip", "records-unreadable", batch(30, [record()], codec="gzip", block=b"plain")),
    _deep("bad-length", "records-unreadable", batch(30, [record(length=9000)])),
    _deep(
        "disorder",
        "records-offsets",
        batch(30, [record(offset_delta=1), record(offset_delta=1)], last_offset_delta=9),
    ),
    _deep("beyond", "records-offsets", batch(30, [record(offset_delta=5)], last_offset_delta=4)),
    _deep(
        "late",
        "records-timestamps",
        batch(30, [record(timestamp=TIMESTAMP + 1)], max_timestamp=TIMESTAMP),
    ),
    _deep("bomb", "limit", _BOMB),
    _old("messages", "", *_MESSAGES),
    _old("wrapper", "", *_MESSAGES, forge.wrapper(19, _MESSAGES, codec="gzip")),
    _old(
        "wrapper-back",
        "offsets-not-increasing",
        *_MESSAGES,
        forge.wrapper(10, _MESSAGES[:3], codec="lz4"),
    ),
    _old("wrapper-empty", "records-unreadable", forge.wrapper(9, [], codec="snappy")),
    _old(
        "wrapper-cut",
        "records-cut-off",
        *_MESSAGES,
        forge.wrapper(12, [*_MESSAGES[:3], _MESSAGES[3][:-1]], codec="gzip"),
    ),
    _old("nulls", "records-null-sizes", *_MESSAGES, forge.null_message(10)),
    _old("wrapper-low", "records-unreadable", forge.wrapper(8, _MESSAGES, codec="gzip")),
    _old(
        "inner-crc",
        "records-unreadable",
        forge.wrapper(1, [flip(_MESSAGES[0], -1), _MESSAGES[1]], codec="gzip"),
    ),
    # --- several at once
    _log(
        "several",
        "batch-crc-mismatch batch-crc-mismatch torn-tail",
        [*_with(FIRST, 3, flip(batches(FIRST)[3], -1))[:7], flip(batches(FIRST)[7], -1)],
        _with(LAST, 9, _TORN),
    ),
)
