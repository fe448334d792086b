"""The hot loops over records of compacted topics: the last of each key, and commits of offsets.

Entries are rows of ``ENTRY_FIELDS``. Their keys and values are bytes of one arena. ``slots`` is a
hash table with open addressing: each slot holds the number of an entry and 1, or 0.

Spec: ``Cleaner.shouldRetainRecord``: of the records of a key the one with the highest offset stays.
``OffsetCommitKey`` and ``OffsetCommitValue`` of the group coordinator for commits.
It must never make an object per record.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from kdump.format import nocython as cython

from kdump.format.kernel.prelude import (
    HEADER_COUNT,
    HEADERS,
    KEY,
    KEY_SIZE,
    MAX_32,
    OFFSET,
    RECORD_WIDTH,
    TIMESTAMP,
    VALUE,
    VALUE_SIZE,
    i16,
    need,
    need_field,
    put_bytes,
    within,
)
from kdump.format.kernel.producers import need_slots

# The row of a key: its hash, its bytes in the arena, the offset of its last record, and the bytes
# of that record's value, for which the arena has ``capacity`` bytes. The size of null is -1.
ENTRY_FIELDS = ("hash", "key", "key_size", "offset", "value", "value_size", "capacity")
ENTRY_WIDTH = 7
E_HASH = 0
E_KEY = 1
E_KEY_SIZE = 2
E_OFFSET = 3
E_VALUE = 4
E_VALUE_SIZE = 5
E_CAPACITY = 6
# What a table counts: its entries, the bytes of the arena that are in use, those that the next
# record needs beyond them; and the number that all hashes begin with.
STATE_FIELDS = ("entries", "used", "needed", "seed")
STATE_WIDTH = 4
S_ENTRIES = 0
S_USED = 1
S_NEEDED = 2
S_SEED = 3


def keep_latest(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
    entries: cython.longlong[::1],
    slots: cython.longlong[::1],
    arena: cython.uchar[::1],
    state: cython.longlong[::1],
) -> int:
    """Add the records from row ``first`` on; of each key the one with the highest offset stays.

    ``rows`` are of ``RECORD_FIELDS``, with positions in ``block``; records without a key are left
    out. The number of ``slots`` is a power of 2, at least twice that of ``entries``. Return the row
    that was reached: less than all rows if there is no room for another entry, or for ``needed``
    bytes in the arena. The caller guarantees that entries and slots are those of earlier calls, for
    the same arena.
    """
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    room: cython.Py_ssize_t = len(entries) // ENTRY_WIDTH
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    key: cython.longlong
    key_size: cython.longlong
    value_size: cython.longlong
    value_hash: cython.longlong
    missing: cython.longlong
    need(STATE_WIDTH, len(state), "numbers of state")
    within(0, first, n, "the first row")
    within(0, state[S_ENTRIES], room, "the count of entries")
    within(0, state[S_USED], len(arena), "the used bytes")
    need(2 * room, len(slots), "slots")
    need_slots(slots)
    state[S_NEEDED] = 0
    for row in range(first, n):
        at = row * RECORD_WIDTH
        key = rows[at + KEY]
        key_size = rows[at + KEY_SIZE]
        value_size = rows[at + VALUE_SIZE]
        if key_size < 0:
            continue
        need_field(len(block), key, key_size)
        need_field(len(block), rows[at + VALUE], value_size)
        value_hash = _hash(block, key, key_size, state[S_SEED])
        slot = _slot(block, key, key_size, value_hash, entries, slots, arena)
        if slots[slot]:
            entry = (slots[slot] - 1) * ENTRY_WIDTH
            if rows[at + OFFSET] <= entries[entry + E_OFFSET]:
                continue
            if value_size > entries[entry + E_CAPACITY]:
                # Twice as much, so that values that grow do not leave more behind than they need.
                missing = 2 * value_size
                if missing > len(arena) - state[S_USED]:
                    state[S_NEEDED] = missing
                    return row
                entries[entry + E_VALUE] = state[S_USED]
                entries[entry + E_CAPACITY] = missing
                state[S_USED] += missing
        else:
            missing = key_size + (value_size if value_size > 0 else 0)
            if state[S_ENTRIES] == room:
                return row
            if missing > len(arena) - state[S_USED]:
                state[S_NEEDED] = missing
                return row
            entry = state[S_ENTRIES] * ENTRY_WIDTH
            state[S_ENTRIES] += 1
            slots[slot] = state[S_ENTRIES]
            entries[entry + E_HASH] = value_hash
            entries[entry + E_KEY] = state[S_USED]
            entries[entry + E_KEY_SIZE] = key_size
            entries[entry + E_VALUE] = put_bytes(arena, state[S_USED], block, key, key_size)
            entries[entry + E_CAPACITY] = missing - key_size
            state[S_USED] += missing
        entries[entry + E_OFFSET] = rows[at + OFFSET]
        entries[entry + E_VALUE_SIZE] = value_size
        put_bytes(arena, entries[entry + E_VALUE], block, rows[at + VALUE], value_size)
    return n


def skip_commits(
    rows: cython.const[cython.longlong][::1],
    first: cython.Py_ssize_t,
    block: cython.const[cython.uchar][::1],
) -> int:
    """Return the first row from ``first`` on that is no commit in the usual form.

    In that form are keys of type 1, and values that are null or of versions 0 to 4, of which
    nothing is left behind their fields; texts are not looked at. ``rows`` are of ``RECORD_FIELDS``,
    with positions in ``block``.
    """
    n: cython.Py_ssize_t = len(rows) // RECORD_WIDTH
    row: cython.Py_ssize_t
    at: cython.Py_ssize_t
    within(0, first, n, "the first row")
    for row in range(first, n):
        at = row * RECORD_WIDTH
        need_field(len(block), rows[at + KEY], rows[at + KEY_SIZE])
        need_field(len(block), rows[at + VALUE], rows[at + VALUE_SIZE])
        if not _is_commit_key(block, rows[at + KEY], rows[at + KEY_SIZE]) or not (
            rows[at + VALUE_SIZE] < 0
            or _is_commit_value(block, rows[at + VALUE], rows[at + VALUE_SIZE])
        ):
            return row
    return n


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_commit_key(
    block: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.longlong
) -> cython.bint:
    """Return whether a key holds its type 1, the texts of a group and a topic, and a partition."""
    group: cython.longlong
    topic: cython.longlong
    if size < 10 or i16(block, start) != 1:
        return False
    group = i16(block, start + 2)
    if group < 0 or group + 10 > size:
        return False
    topic = i16(block, start + 4 + group)
    return topic >= 0 and group + topic + 10 == size


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_commit_value(
    block: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.longlong
) -> cython.bint:
    """Return whether a value holds its version and the fields of that version."""
    version: cython.longlong
    at: cython.longlong = 10
    text: cython.longlong
    if size < 2:
        return False
    version = i16(block, start)
    if version < 0 or version > 4:
        return False
    if version > 2:
        at = 14  # with a leader epoch
    if version == 4:
        # A text of up to 126 bytes, a time, and no tags or the topic id alone.
        if size < at + 10:
            return False
        text = block[start + at]
        at += text + 8
        if text == 0 or text > 127 or at >= size:
            return False
        if block[start + at] == 0:
            return at + 1 == size
        return (
            at + 19 == size
            and block[start + at] == 1
            and block[start + at + 1] == 0
            and block[start + at + 2] == 16
        )
    if size < at + 2:
        return False
    text = i16(block, start + at)
    if text < 0:
        return False
    at += 2 + text + 8
    if version == 1:
        at += 8  # with the time at which it expires
    return at == size


def fill_slots(
    entries: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    slots: cython.longlong[::1],
) -> None:
    """Fill ``slots``, all of them 0, with the first ``count`` entries, which have distinct keys."""
    mask: cython.Py_ssize_t = len(slots) - 1
    entry: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    within(0, count, len(entries) // ENTRY_WIDTH, "the count of entries")
    need(2 * count, len(slots), "slots")
    need_slots(slots)
    for entry in range(count):
        slot = entries[entry * ENTRY_WIDTH + E_HASH] & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = entry + 1


def entry_rows(
    entries: cython.const[cython.longlong][::1],
    count: cython.Py_ssize_t,
    rows: cython.longlong[::1],
) -> None:
    """Fill ``rows``, of ``RECORD_FIELDS``, with the first ``count`` entries as records.

    Their positions are those in the arena. They have no timestamps and no headers.
    """
    entry: cython.Py_ssize_t
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    within(0, count, len(entries) // ENTRY_WIDTH, "the count of entries")
    need(count * RECORD_WIDTH, len(rows), "room for records")
    for entry in range(count):
        at = entry * ENTRY_WIDTH
        row = entry * RECORD_WIDTH
        rows[row + OFFSET] = entries[at + E_OFFSET]
        rows[row + TIMESTAMP] = -1
        rows[row + KEY] = entries[at + E_KEY]
        rows[row + KEY_SIZE] = entries[at + E_KEY_SIZE]
        rows[row + VALUE] = entries[at + E_VALUE]
        rows[row + VALUE_SIZE] = entries[at + E_VALUE_SIZE]
        rows[row + HEADERS] = 0
        rows[row + HEADER_COUNT] = 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _hash(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    seed: cython.longlong,
) -> cython.longlong:
    """Return the 32 bits of FNV-1a, begun with ``seed``."""
    value: cython.longlong = seed & MAX_32
    i: cython.Py_ssize_t
    for i in range(start, start + size):
        value = ((value ^ block[i]) * 16777619) & MAX_32
    return value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slot(
    block: cython.const[cython.uchar][::1],
    key: cython.Py_ssize_t,
    key_size: cython.longlong,
    value_hash: cython.longlong,
    entries: cython.longlong[::1],
    slots: cython.longlong[::1],
    arena: cython.uchar[::1],
) -> cython.Py_ssize_t:
    """Return the slot of a key, or the empty one where it belongs."""
    mask: cython.Py_ssize_t = len(slots) - 1
    slot: cython.Py_ssize_t = value_hash & mask
    entry: cython.Py_ssize_t
    while slots[slot]:
        entry = (slots[slot] - 1) * ENTRY_WIDTH
        if (
            entries[entry + E_HASH] == value_hash
            and entries[entry + E_KEY_SIZE] == key_size
            and _equal(block, key, arena, entries[entry + E_KEY], key_size)
        ):
            return slot
        slot = (slot + 1) & mask
    return slot


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _equal(
    block: cython.const[cython.uchar][::1],
    start: cython.Py_ssize_t,
    arena: cython.uchar[::1],
    origin: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.bint:
    i: cython.Py_ssize_t = 0
    if not cython.compiled:
        return block[start : start + size] == arena[origin : origin + size]
    while i < size and block[start + i] == arena[origin + i]:
        i += 1
    return i == size
