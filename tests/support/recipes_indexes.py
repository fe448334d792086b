"""Damage to index files as recipes, and what looks like damage to them but is none.

Where nothing else is said, the indexes are those that recovery writes. Imports nothing of kdump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from support import forge
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.forge import TIMESTAMP, batch, flip, message, record, wrapper

Entries = list[tuple[int, int]]

_INDEX, _TIMES = ".index", ".timeindex"
_INTERVAL = 300


def positions(pieces: Sequence[bytes]) -> list[int]:
    """Where each of ``pieces`` starts, and where the last one ends."""
    return list(accumulate(map(len, pieces), initial=0))


def _files(**entries: Entries | bytes | None) -> dict[str, bytes | None]:
    """Files by ``first_index`` and the like, from their entries."""
    files: dict[str, bytes | None] = {}
    for key, content in entries.items():
        which, _, kind = key.partition("_")
        base = {"first": FIRST, "last": LAST}[which]
        if isinstance(content, list):
            write = forge.offset_index if kind == "index" else forge.time_index
            content = write(content, base)
        files[name(base, f".{kind}")] = content
    return files


def _sound(title: str, expected: str = "", **entries: Entries | bytes | None) -> Recipe:
    """Two sound segments with other index files."""
    return Recipe(title, expected.split(), batches(FIRST), batches(LAST), _files(**entries))


def _first(
    title: str, expected: str, pieces: Sequence[bytes], **entries: Entries | bytes | None
) -> Recipe:
    """Another first segment, with other index files."""
    return Recipe(title, expected.split(), pieces, batches(LAST), _files(**entries))


def _changed(
    base: int,
    number: int,
    change: Callable[[tuple[int, int]], tuple[int, int]],
    times: bool = False,
) -> Entries:
    """The entries of an index, one of them changed."""
    entries = forge.index_entries(batches(base), base, _INTERVAL)[times]
    entries[number] = change(entries[number])
    return entries


def _moved(base: int, number: int, offset: int, position: int) -> Entries:
    return _changed(base, number, lambda entry: (entry[0] + offset, entry[1] + position))


def _retimed(base: int, number: int, timestamp: int, offset: int = 0) -> Entries:
    return _changed(base, number, lambda entry: (entry[0] + timestamp, entry[1] + offset), True)


_SIZES = [len(piece) for piece in batches(FIRST)]
_END = sum(_SIZES)
_OFFSETS, _STAMPS = forge.index_entries(batches(FIRST), FIRST, _INTERVAL)
_LAST_OFFSETS, _LAST_STAMPS = forge.index_entries(batches(LAST), LAST, _INTERVAL)

#: What makes the first position -4096, as 32 bits without a sign.
_BELOW_ZERO = 2**32 - 4096 - _OFFSETS[0][1]

# One call of a follower's append holds three batches: last offset of the third, first position.
_GROUPS = [(10 * last + 29, positions(batches(FIRST))[last]) for last in (2, 5)]
# Up to 1.1: the first offset.
_FIRST_OFFSETS = [(offset - 9, position) for offset, position in _OFFSETS]

# --- batches that a cleaner or an old producer wrote

_CLEANED = [
    batch(
        10 * number,
        [record(b"value", b"key", offset_delta=3)],
        base_timestamp=TIMESTAMP + 1000 * number,
        last_offset_delta=9,
    )
    for number in range(10)
]
_EMPTIED = [
    *batches(FIRST)[:4],
    batch(40, base_timestamp=-1, max_timestamp=TIMESTAMP + 90_000, last_offset_delta=9),
    *batches(FIRST)[5:],
]
_UNTIMED = [
    batch(10 * number, [record(b"value " * 9)], base_timestamp=-1, last_offset_delta=9)
    for number in range(10)
]
_APPENDED_AT_ONCE = [
    batch(10 * number, [record(b"value " * 9)], last_offset_delta=9) for number in range(10)
]
_MESSAGES = [message(offset, b"value " * 9, timestamp=TIMESTAMP + offset) for offset in range(30)]
_MESSAGE_BYTES = len(_MESSAGES[0])
_MESSAGE_STAMPS = [(TIMESTAMP + 10, 10), (TIMESTAMP + 20, 20), (TIMESTAMP + 29, 29)]
_OLDEST = [message(offset, b"value " * 9, magic=0) for offset in range(30)]
_WRAPPERS = [
    wrapper(
        10 * number + 9,
        [message(delta, b"%d" % number * 90, timestamp=TIMESTAMP + number) for delta in range(10)],
        codec="gzip",
        timestamp=TIMESTAMP + number,
    )
    for number in range(4)
]
_WRAPPER_AT = positions(_WRAPPERS)

# --- batches with damage

_BAD = [*batches(FIRST)[:4], flip(batches(FIRST)[4], -1), *batches(FIRST)[5:]]
_TORN = [*batches(FIRST)[:8], batches(FIRST)[8][:-5]]
#: The header's size is wrong, and the value of its record holds a batch, as mirrors do.
_NESTED = [
    *batches(FIRST)[:4],
    batch(40, [record(batch(41, [record()]))], length=1 << 20),
    *batches(FIRST)[5:],
]
#: No checksum covers the base offset.
_FLIPPED = [*batches(FIRST)[:4], flip(batches(FIRST)[4], 4), *batches(FIRST)[5:]]
_ROOM = forge.offset_index([*_LAST_OFFSETS, (LAST + 5000, 700)], LAST, slots=512)

RECIPES = (
    # --- nothing wrong: conventions of releases, cleaner, followers and restarts
    _sound("groups", first_index=_GROUPS),
    _sound("first-offsets", first_index=_FIRST_OFFSETS, last_index=_LAST_OFFSETS[:2]),
    _sound("of-many-releases", first_index=[*_FIRST_OFFSETS[:2], *_OFFSETS[2:]]),
    _sound("offset-too-large", first_index=_moved(FIRST, 1, 15, 0)),
    _sound("position-too-low", first_index=_moved(FIRST, 2, 0, -_SIZES[0])),
    _sound("the-start", first_index=[(FIRST + 9, 0), *_OFFSETS]),
    _sound("no-entries", first_index=b"", last_index=b""),
    _sound("restarted", last_timeindex=[(TIMESTAMP + 101_000, 119), *_LAST_STAMPS]),
    _sound("of-records", first_timeindex=[(stamp, offset - 9) for stamp, offset in _STAMPS]),
    _sound("below-its-batch", first_timeindex=_retimed(FIRST, 1, -500)),
    _sound("last-without-times", last_timeindex=b""),
    _first("cleaned", "", _CLEANED, first_index=[(33, len(_CLEANED[0]) * 3)]),
    _first("cleaned-away", "timeindex-unmatched", _CLEANED, first_timeindex=[
        (TIMESTAMP + 2500, 25), (TIMESTAMP + 9000, 93),
    ]),
    _first("emptied", "", _EMPTIED),
    _first("emptied-without", "", _EMPTIED, first_timeindex=[(TIMESTAMP + 9000, 99)]),
    _first("untimed", "", _UNTIMED),
    _first("untimed-missing", "", _UNTIMED, first_timeindex=None),
    _first("appended-at-once", "", _APPENDED_AT_ONCE, first_timeindex=[(TIMESTAMP, 49)]),
    _first("messages", "", _MESSAGES, first_index=[(10, 10 * _MESSAGE_BYTES)],
           first_timeindex=_MESSAGE_STAMPS),
    _first("messages-of-0-10-0", "", _MESSAGES, first_index=[(10, 10 * _MESSAGE_BYTES)],
           first_timeindex=b""),
    _first("lost-times", "", _OLDEST, first_index=b"", first_timeindex=_MESSAGE_STAMPS),
    _first("wrappers", "", _WRAPPERS,
           first_index=[(10, _WRAPPER_AT[1]), (29, _WRAPPER_AT[2]), (30, _WRAPPER_AT[3])],
           first_timeindex=[(TIMESTAMP + 1, 19), (TIMESTAMP + 2, 20), (TIMESTAMP + 3, 39)]),
    Recipe("never-any-times", [], _MESSAGES[:10], [
        message(LAST + offset, b"value", magic=0) for offset in range(9)
    ], _files(first_index=b"", first_timeindex=None, last_index=b"", last_timeindex=None)),
    Recipe("nothing-to-index", [], batches(FIRST), [b""], _files(
        last_index=None, last_timeindex=None,
    )),
    _sound("stale", last_index=_ROOM),
    _sound("stale-times", last_timeindex=forge.time_index(
        [*_LAST_STAMPS, (TIMESTAMP, LAST), (TIMESTAMP * 2, 1 << 20)], LAST, slots=340,
    )),
    # --- damage of the log alone: what leads into it is no more than that
    _first("into-damage", "batch-crc-mismatch", _BAD),
    _first("into-a-torn-tail", "torn-tail-sealed", _TORN),
    _first("hunted", "batch-size-impossible", _NESTED, first_index=_OFFSETS,
           first_timeindex=_STAMPS),
    _first("flipped-base", "offsets-not-increasing", _FLIPPED, first_index=_OFFSETS,
           first_timeindex=_STAMPS),
    # --- offset entries
    _sound("misplaced", "index-misplaced", first_index=_moved(FIRST, 2, 0, 5)),
    _sound("misplaced-last", "index-misplaced", last_index=_moved(LAST, 2, 0, -5)),
    _sound("negative", "index-misplaced", first_index=_moved(FIRST, 0, 0, _BELOW_ZERO)),
    _sound("all-misplaced", "index-misplaced " * len(_OFFSETS), first_index=[
        (offset, position + 3) for offset, position in _OFFSETS
    ]),
    _sound("skips", "index-skips", first_index=_moved(FIRST, 1, 0, _SIZES[0])),
    _sound("offset-too-low", "index-skips", last_index=_moved(LAST, 2, -15, 0)),
    _sound("below-the-base", "index-skips", last_index=_moved(LAST, 0, -500, 0)),
    _sound("leads-to-the-end", "index-beyond-log-sealed", first_index=[*_OFFSETS, (99, _END)]),
    _sound("leads-beyond", "index-beyond-log", last_index=[*_LAST_OFFSETS, (199, 9999)]),
    _sound("speaks-of-the-future", "index-beyond-log", last_index=_moved(LAST, -1, 5000, 0)),
    Recipe("log-cut", ["index-beyond-log-sealed", "timeindex-too-high"], batches(FIRST)[:8],
           batches(LAST), _files(first_index=_OFFSETS, first_timeindex=_STAMPS)),
    Recipe("log-cut-last", ["index-beyond-log", "timeindex-beyond-log"], batches(FIRST),
           batches(LAST)[:8], _files(last_index=_LAST_OFFSETS, last_timeindex=_LAST_STAMPS)),
    Recipe("log-emptied", ["index-beyond-log"] * len(_LAST_OFFSETS) + ["timeindex-beyond-log"],
           batches(FIRST), [b""], _files(last_index=_LAST_OFFSETS, last_timeindex=_LAST_STAMPS)),
    _sound("raised", "index-order", first_index=_moved(FIRST, 1, 0, 1 << 20)),
    # --- time entries
    _sound("times-skip", "timeindex-skips", first_timeindex=_retimed(FIRST, 1, -1500)),
    _sound("times-name-later", "timeindex-skips", last_timeindex=_retimed(LAST, 1, 0, 20)),
    _sound("times-unmatched", "timeindex-unmatched", first_timeindex=_retimed(FIRST, 1, 500)),
    _sound("times-too-low", "timeindex-too-low", first_timeindex=_STAMPS[:-1]),
    _sound("times-too-high", "timeindex-too-high", first_timeindex=_retimed(FIRST, -1, 1 << 40)),
    _sound("times-of-another", "timeindex-too-high" + " timeindex-unmatched" * (len(_STAMPS) - 1),
           first_timeindex=[(stamp, offset - LAST) for stamp, offset in _LAST_STAMPS]),
    _sound("times-beyond", "timeindex-beyond-log", last_timeindex=_retimed(LAST, -1, 0, 500)),
    _sound("times-empty", "timeindex-too-low", first_timeindex=b""),
    _first("messages-too-low", "timeindex-too-low", _MESSAGES, first_index=b"",
           first_timeindex=_MESSAGE_STAMPS[:2]),
    _first("messages-skip", "timeindex-skips", _MESSAGES, first_index=b"",
           first_timeindex=[(TIMESTAMP + 10, 20), _MESSAGE_STAMPS[-1]]),
    # --- missing
    _sound("no-index", "index-missing", first_index=None),
    _sound("no-index-last", "index-missing", last_index=None),
    _sound("neither", "index-missing", first_index=None, first_timeindex=None),
    _sound("no-index-bad-times", "index-missing", first_index=None, first_timeindex=b""),
    _sound("no-times", "timeindex-missing", first_timeindex=None),
    _sound("no-times-last", "timeindex-missing", last_timeindex=None),
    _first("no-times-of-messages", "timeindex-missing", _MESSAGES, first_index=b"",
           first_timeindex=None),
)  # fmt: skip
