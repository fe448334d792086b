"""Conversion: what old batches become, where a batch and a log end, and what is refused."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import xxhash

from kdump.audit.facts.small_files import TopicSettings
from kdump.errors import Refused, SourceError
from kdump.format.checkpoint import EpochEntry
from kdump.format.codecs import Codec, decompress
from kdump.format.record_digest import RecordDigest
from kdump.format.records import RecordReader
from kdump.repair.rewrite import conversion
from kdump.repair.rewrite.conversion import Conversion, NewPart, Rules
from kdump.repair.rewrite.measure import measure
from kdump.repair.rewrite.read_back import LogReader
from kdump.storage.access import open_source
from kdump.storage.source import Source, WindowedFile
from support import forge
from support.converting import outline, split, wanted
from support.forge import TIMESTAMP, batch, flip, marker, message, record, wrapper
from support.legacy_partitions import forged

APPENDED = 8
SETTINGS = TopicSettings(index_interval_bytes=300)
LATER = TIMESTAMP + 5
DEFAULT = Rules()
#: The leader epoch is 0 where batches before have no higher one.
new = partial(batch, leader_epoch=0)

Convert = Callable[..., tuple[dict[int, bytes], Conversion]]


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    """``convert(content, base_offset, rules)``: the new logs by number, and what made them."""

    def run(
        content: bytes | Iterable[bytes],
        base_offset: int = 0,
        rules: Rules = DEFAULT,
        opened: Callable[[Path], Source] = lambda path: open_source(path, mapped=False),
        epochs: Sequence[EpochEntry] | None = None,
    ) -> tuple[dict[int, bytes], Conversion]:
        path = tmp_path / f"{base_offset:020d}.log"
        path.write_bytes(content if isinstance(content, bytes) else b"".join(content))
        counts: list[int] = []
        with opened(path) as source:
            known = [EpochEntry(0, base_offset)] if epochs is None else epochs
            made = Conversion(source, path, base_offset, rules, counts.append, epochs=known)
            logs: dict[int, bytes] = {}
            for number, data in made.pieces():
                assert number >= max(logs, default=0)
                logs[number] = logs.get(number, b"") + data
        assert sum(counts) == path.stat().st_size
        assert [len(logs[number]) for number in range(len(logs))] == [
            part.size for part in made.parts
        ]
        return logs, made

    return run


def convert_batches(
    convert: Convert,
    content: Iterable[bytes],
    rules: Rules = DEFAULT,
    epochs: Sequence[EpochEntry] | None = None,
) -> list[bytes]:
    """The batches of the one new log."""
    logs, made = convert(content, 0, rules, epochs=epochs)
    assert list(logs) == [0]
    assert made.parts[0].batches == len(split(logs[0]))
    return split(logs[0])


def messages(first: int, count: int, magic: int = 1, **fields: int) -> list[bytes]:
    return [
        message(first + number, b"value %d" % (first + number), b"key", magic=magic, **fields)
        for number in range(count)
    ]


def as_records(first: int, count: int) -> list[forge.Record]:
    return [record(b"value %d" % (first + number), b"key") for number in range(count)]


# --- what becomes one batch


def test_messages_of_magic_1(convert: Convert) -> None:
    times = [TIMESTAMP, TIMESTAMP - 7, -1, TIMESTAMP + 3, -5]
    fields = [(b"v", b"k"), (None, b"k"), (b"", b""), (b"v", None), (None, None)]
    old = [
        message(5 * number, value, key, timestamp=stamp)
        for number, ((value, key), stamp) in enumerate(zip(fields, times, strict=True))
    ]
    records = [
        record(value, key, timestamp=stamp, offset_delta=5 * number)
        for number, ((value, key), stamp) in enumerate(zip(fields, times, strict=True))
    ]
    assert convert_batches(convert, old) == [new(0, records, max_timestamp=TIMESTAMP + 3)]


def test_messages_of_magic_0_have_no_timestamp(convert: Convert) -> None:
    expected = new(0, as_records(0, 3), base_timestamp=-1)
    assert convert_batches(convert, messages(0, 3, magic=0)) == [expected]


def test_append_time_stays_and_another_one_begins_a_batch(convert: Convert) -> None:
    old = messages(0, 2, attributes=APPENDED)
    old += messages(2, 1, attributes=APPENDED, timestamp=LATER)
    old += messages(3, 2, attributes=APPENDED)
    appended = partial(new, timestamp_type="LogAppendTime")
    assert convert_batches(convert, old) == [
        appended(0, as_records(0, 2)),
        appended(2, as_records(2, 1), base_timestamp=LATER),
        appended(3, as_records(3, 2)),
    ]


def test_a_run_ends_where_anything_else_stands(convert: Convert) -> None:
    modern = batch(5, as_records(5, 2), leader_epoch=7, producer_id=3, producer_epoch=0)
    gzipped = wrapper(9, messages(0, 2), codec="gzip")
    old = [
        *messages(0, 2, magic=0),
        *messages(2, 1, magic=1),
        *messages(3, 2, attributes=APPENDED),
        modern,
        marker(7, 3, commit=True),
        gzipped,
        *messages(10, 1),
        batch(11, as_records(11, 1)),
        *messages(12, 1),
    ]
    found = convert_batches(convert, old)
    assert [int.from_bytes(batch[:8], "big") for batch in found] == [0, 2, 3, 5, 7, 8, 10, 11, 12]
    assert found[3] == modern
    assert found[4] == marker(7, 3, commit=True)
    assert found[7] == old[-2]
    _, made = convert(old)
    assert (made.legacy, made.copied) == (8, 3)
    assert made.parts[0].records == 13


def test_new_batches_have_the_leader_epochs_that_are_known(convert: Convert) -> None:
    epochs = [EpochEntry(0, 0), EpochEntry(2, 3), EpochEntry(5, 7), EpochEntry(6, 12)]
    old = [
        *messages(0, 5),
        wrapper(9, messages(0, 5), codec="gzip"),
        *messages(10, 1),
        batch(11, as_records(11, 1), leader_epoch=9),
        *messages(12, 2),
    ]
    found = convert_batches(convert, old, epochs=epochs)
    assert [(int.from_bytes(batch[:8]), int.from_bytes(batch[12:16])) for batch in found] == [
        *((0, 0), (3, 2)),
        *((5, 2), (7, 5)),
        *((10, 5), (11, 9), (12, 9)),
    ]


def test_batches_of_magic_2_without_a_leader_epoch_get_one(convert: Convert) -> None:
    epochs = [EpochEntry(1, 0), EpochEntry(2, 3)]
    given = [-1, 1, -1, -1, 4, -1]
    old = [
        batch(
            number, as_records(number, 1), leader_epoch=epoch, producer_id=7, base_sequence=number
        )
        for number, epoch in enumerate(given)
    ]
    assert convert_batches(convert, old, epochs=epochs) == [
        batch(
            number, as_records(number, 1), leader_epoch=epoch, producer_id=7, base_sequence=number
        )
        for number, epoch in enumerate([1, 1, 1, 2, 4, 4])
    ]
    _, made = convert(old, epochs=epochs)
    assert (made.legacy, made.stamped, made.copied) == (0, 4, 2)


def test_a_plan_of_an_earlier_release_makes_batches_without_leader_epochs(convert: Convert) -> None:
    modern = [batch(1, as_records(1, 1), leader_epoch=epoch) for epoch in (-1, 7)]
    for modern_batch in modern:
        found = convert_batches(
            convert, [*messages(0, 1), modern_batch, *messages(2, 1)], epochs=()
        )
        assert found == [
            batch(0, as_records(0, 1), leader_epoch=-1),
            modern_batch,
            batch(2, as_records(2, 1), leader_epoch=-1),
        ]


def test_batches_of_at_most_so_many_bytes(convert: Convert) -> None:
    old = messages(0, 9)
    three = len(new(0, as_records(0, 3)))
    sizes = {three: [3, 3, 3], three - 1: [2, 2, 2, 2, 1], three + 1: [3, 3, 3], 0: [1] * 9}
    for limit, counts in sizes.items():
        found = convert_batches(convert, old, Rules(batch_bytes=limit))
        assert [struct.unpack_from(">i", batch, 57)[0] for batch in found] == counts
        assert all(len(batch) <= max(limit, three - 20) for batch in found)
    (all_of_them,) = convert_batches(convert, old, Rules(batch_bytes=1 << 20))
    assert all_of_them == new(0, as_records(0, 9))


def test_a_message_that_is_larger_alone_gets_a_batch_of_its_own(convert: Convert) -> None:
    large = bytes(range(256)) * 40_000
    old = [*messages(0, 2), message(2, large, b"key"), *messages(3, 2)]
    assert convert_batches(convert, old) == [
        new(0, as_records(0, 2)),
        new(2, [record(large, b"key")]),
        new(3, as_records(3, 2)),
    ]


def test_runs_go_on_from_window_to_window(convert: Convert) -> None:
    """However the file is read, the batches are the same."""
    old = [*messages(0, 400), message(400, bytes(90_000)), *messages(401, 400)]
    expected, _ = convert(old)
    small, _ = convert(old, opened=partial(WindowedFile, window_bytes=4096))
    assert small == expected
    assert len(split(expected[0])) > 2


# --- wrappers


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_a_wrapper_becomes_one_batch_of_the_same_codec(convert: Convert, codec: str) -> None:
    old = wrapper(29, messages(0, 30), codec=codec)
    (found,) = convert_batches(convert, [old], Rules(batch_bytes=0))
    expected = new(0, as_records(0, 30), codec=codec)
    assert outline(found) == outline(expected)
    block = b"".join(
        record.encode(place, TIMESTAMP) for place, record in enumerate(as_records(0, 30))
    )
    assert bytes(decompress(Codec[codec.upper()], found[61:])) == block


@pytest.mark.parametrize("piece_bytes", [1, 300, 1 << 20])
def test_wrappers_beside_each_other(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Among them one that is read in turns, and messages before and behind; few bytes a piece."""
    monkeypatch.setattr(conversion, "_PIECE_BYTES", piece_bytes)
    parts = [messages(0, 2)]
    for first in range(2, 20, 3):
        mixed = first == 8
        inner = messages(first, 2) + messages(first + 2, 1, magic=0 if mixed else 1)
        parts.append([wrapper(first + 2, inner, codec="gzip")])
    parts += [messages(20, 2), [wrapper(23, messages(22, 2), codec="lz4")]]
    alone = [batch for part in parts for batch in convert_batches(convert, part)]
    assert convert_batches(convert, [old for part in parts for old in part]) == alone


def test_offsets_inside_a_wrapper(convert: Convert) -> None:
    """Relative in magic 1, absolute in magic 0 and where the wrapper's own was left at 0."""
    gaps = [*messages(3, 1), *messages(7, 2)]
    old = [
        wrapper(0, messages(0, 5), codec="gzip"),
        wrapper(108, gaps, codec="gzip"),
        wrapper(
            208, [*messages(203, 1, magic=0), *messages(207, 2, magic=0)], codec="gzip", magic=0
        ),
    ]
    found = convert_batches(convert, old, Rules(Codec.NONE))
    assert [struct.unpack_from(">q", batch)[0] for batch in found] == [0, 103, 203]
    assert [struct.unpack_from(">i", batch, 23)[0] for batch in found] == [4, 5, 5]
    assert [struct.unpack_from(">i", batch, 57)[0] for batch in found] == [5, 3, 3]


@pytest.mark.parametrize("bit", [0, APPENDED])
def test_append_time_of_a_wrapper_counts_for_all_inside(convert: Convert, bit: int) -> None:
    inner = [message(n, b"value %d" % n, b"key", timestamp=n, attributes=bit) for n in range(3)]
    old = wrapper(2, inner, codec="gzip", attributes=APPENDED)
    (found,) = convert_batches(convert, [old], Rules(Codec.NONE))
    assert found == new(0, as_records(0, 3), timestamp_type="LogAppendTime")


def test_messages_of_another_magic_than_their_wrapper(convert: Convert) -> None:
    """By the cleaner of 0.10.0 (KAFKA-4298): those of magic 0 have no append time."""
    inner = [*messages(0, 2, magic=0), *messages(2, 2), *messages(4, 1, magic=0)]
    appended = wrapper(4, inner, codec="gzip", attributes=APPENDED)
    assert convert_batches(convert, [appended], Rules(Codec.NONE)) == [
        new(0, as_records(0, 2), base_timestamp=-1),
        new(2, as_records(2, 2), timestamp_type="LogAppendTime"),
        new(4, as_records(4, 1), base_timestamp=-1),
    ]
    created = wrapper(4, inner, codec="gzip")
    times = [-1, -1, TIMESTAMP, TIMESTAMP, -1]
    records = [
        record(b"value %d" % number, b"key", timestamp=stamp) for number, stamp in enumerate(times)
    ]
    assert convert_batches(convert, [created], Rules(Codec.NONE)) == [
        new(0, records, base_timestamp=-1)
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_codec_for_all_that_is_rewritten(convert: Convert, codec: Codec) -> None:
    modern = batch(9, as_records(9, 1), codec="snappy")
    old = [*messages(0, 5), wrapper(8, messages(0, 4), codec="lz4"), modern]
    first, second, third = convert_batches(convert, old, Rules(codec))
    assert [batch[22] & 7 for batch in (first, second)] == [codec, codec]
    assert third == modern
    plain = convert_batches(convert, old, Rules(Codec.NONE))
    assert [bytes(decompress(codec, batch[61:])) for batch in (first, second)] == [
        each[61:] for each in plain[:2]
    ]


@pytest.mark.parametrize("seed", range(10))
def test_forged_segments(convert: Convert, seed: int) -> None:
    for base, pieces in forged(seed).segments.items():
        for batch_bytes, codec in ((16 << 10, None), (0, None), (300, "none")):
            rules = Rules(None if codec is None else Codec.NONE, batch_bytes)
            logs, _ = convert([piece.data for piece in pieces], base, rules)
            found = split(logs[0])
            expected = list(wanted(pieces, batch_bytes, codec))
            assert len(found) == len(expected)
            assert all(each.fits(data) for each, data in zip(expected, found, strict=True))


# --- where a log ends


@pytest.mark.parametrize("most", [1, 200, 450, 1000, 4000])
@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_is_full_is_split(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    for base, pieces in forged(seed).segments.items():
        old = [piece.data for piece in pieces]
        rules = Rules(batch_bytes=300)
        whole, made = convert(old, base, rules)
        with monkeypatch.context() as patched:
            patched.setattr(conversion, "MAX_LOG_BYTES", most)
            logs, full = convert(old, base, rules)
        assert b"".join(logs.values()) == whole[0]
        assert (full.legacy, full.copied) == (made.legacy, made.copied)
        assert sum(part.records for part in full.parts) == made.parts[0].records
        assert sum(part.batches for part in full.parts) == made.parts[0].batches
        assert full.parts[0].base_offset == base
        for number, part in enumerate(full.parts):
            batches = split(logs[number])
            assert part.size <= most or len(batches) == 1
            assert part.batches == len(batches)
            assert part.digest == digest_of(batches)
            if number:
                assert part.base_offset == struct.unpack_from(">q", batches[0])[0]
                assert full.parts[number - 1].size + len(batches[0]) > most


@pytest.mark.parametrize("modern", [False, True])
def test_a_log_takes_what_just_fits(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    alike = [batch(number, as_records(0, 1)) for number in (1, 2)]
    old = [*messages(0, 1), *(alike if modern else messages(1, 2))]
    size = 2 * len(new(0, as_records(0, 1)))
    for most, counts in ((size, [2, 1]), (size - 1, [1, 1, 1]), (size + 1, [2, 1])):
        monkeypatch.setattr(conversion, "MAX_LOG_BYTES", most)
        _, made = convert(old, 0, Rules(batch_bytes=0))
        assert [part.batches for part in made.parts] == counts


def test_offsets_that_no_index_can_say_begin_a_new_log(convert: Convert) -> None:
    most = 2**31 - 1
    old = [*messages(0, 1), *messages(most, 2), *messages(2 * most, 1)]
    logs, made = convert(old)
    assert [part.base_offset for part in made.parts] == [0, most + 1]
    assert [len(split(data)) for data in logs.values()] == [1, 1]
    # From its first record on a batch fits, but not from the segment's base on.
    _, made = convert([*messages(10, 1), *messages(most + 5, 1)])
    assert [(part.base_offset, part.records) for part in made.parts] == [(0, 0), (10, 2)]
    modern = [*messages(0, 1), batch(most, as_records(0, 2)), batch(most + 2, as_records(0, 1))]
    _, made = convert(modern)
    assert [part.base_offset for part in made.parts] == [0, most]


def test_an_empty_log_stays_one(convert: Convert) -> None:
    logs, made = convert(b"", 17)
    assert logs == {0: b""}
    assert made.parts == (NewPart(17, 0, 0, 0, RecordDigest().hexdigest()),)


def test_a_batch_that_begins_a_log_must_hold_what_was_read(
    convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MAX_LOG_BYTES", 100)
    monkeypatch.setattr(conversion, "add_batch", lambda *_: None)
    with pytest.raises(
        Refused, match=("to hold the same records as the old batches, found other records")
    ):
        convert(messages(0, 9), 0, Rules(batch_bytes=0))


# --- the digest


def digest_of(batches: Sequence[bytes]) -> str:
    """The digest of the records of batches of magic 2, by its definition."""
    digest = xxhash.xxh3_128()
    for data in batches:
        for encoded in _records(data):
            digest.update(encoded)
    return digest.hexdigest()


def _records(data: bytes) -> Iterator[bytes]:
    base, attributes, stamp, latest = (
        struct.unpack_from(form, data, place)[0]
        for form, place in ((">q", 0), (">h", 21), (">q", 27), (">q", 35))
    )
    (left,) = struct.unpack_from(">i", data, 57)
    block = bytes(decompress(Codec(attributes & 7), data[61:])) if left else b""
    place = 0

    def number() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = block[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value >> 1 ^ -(value & 1)

    def content(size: int) -> bytes:
        nonlocal place
        place += max(size, 0)
        return block[place - max(size, 0) : place]

    for _ in range(left):
        number()
        place += 1
        own = stamp + number()
        offset = base + number()
        sizes, parts = [], []
        for _ in range(2):
            sizes.append(number())
            parts.append(content(sizes[-1]))
        count = number()
        appended = attributes >> 3 & 1
        yield struct.pack(">qqBiii", offset, latest if appended else own, appended, *sizes, count)
        yield from parts
        for _ in range(count):
            name = content(number())
            size = number()
            yield struct.pack(">ii", len(name), size) + name + content(size)


def test_the_digest_of_old_records_by_hand(convert: Convert) -> None:
    old = [
        message(4, b"value", None, magic=0),
        message(5, None, b"key", timestamp=LATER),
        message(6, b"", b"", timestamp=LATER, attributes=APPENDED),
    ]
    canonical = (
        struct.pack(">qqBiii", 4, -1, 0, -1, 5, 0) + b"value",
        struct.pack(">qqBiii", 5, LATER, 0, 3, -1, 0) + b"key",
        struct.pack(">qqBiii", 6, LATER, 1, 0, 0, 0),
    )
    _, made = convert(old)
    assert made.parts[0].digest == xxhash.xxh3_128(b"".join(canonical)).hexdigest()
    assert made.parts[0].records == 3


# --- what is refused


def broken(inner: bytes) -> bytes:
    """A message whose checksum does not match."""
    return flip(inner, -1)


def unlike(old: bytes, offset: int) -> bytes:
    """The same with another offset, which no checksum covers."""
    return struct.pack(">q", offset) + old[8:]


def resealed(old: bytes, position: int, instead: bytes) -> bytes:
    """A message with other bytes there, and the checksum for them."""
    changed = old[:position] + instead + old[position + len(instead) :]
    return changed[:12] + struct.pack(">I", zlib.crc32(changed[16:])) + changed[16:]


REFUSED = {
    "a bad checksum": (
        [*messages(0, 2), broken(message(2))],
        "corruption at position .*bad-checksum",
    ),
    "a torn tail": ([*messages(0, 2), message(2)[:-1]], "corruption at position .*torn-tail"),
    "room behind": ([*messages(0, 2), bytes(100)], "corruption at position .*preallocated"),
    "backwards": (messages(5, 1) + messages(5, 1), "begins at or below the last offset before it"),
    "below the base": ([unlike(message(0), -1)], "begins at or below the last offset before it"),
    "an offset below that of the last": (
        [wrapper(1, messages(0, 3), codec="gzip")],
        "expected an offset of 2 or more",
    ),
    "inverted": ([*messages(0, 1), batch(5, as_records(5, 2), last_offset_delta=-1)], "ends below"),
    "magic 3": ([*messages(0, 1), batch(5, as_records(5, 2), magic=3)], "of a message format that"),
    "magic -1": ([message(0, magic=-1)], "of a message format that"),
    "zstd": ([wrapper(1, messages(0, 2), codec="zstd")], "has an unknown compression type"),
    "a codec of magic 2": (
        [*messages(0, 1), batch(1, [record()], attributes=5)],
        "has an unknown compression type",
    ),
    "a wrapper over another": (
        [*messages(0, 4), wrapper(6, messages(0, 4), codec="gzip")],
        "expected an offset above 3, that of the record before, found 3",
    ),
    "a wrapper over a batch": (
        [*messages(0, 1), batch(1, as_records(1, 3)), wrapper(6, messages(0, 4), codec="gzip")],
        "above offset 3, found records from 3 on",
    ),
    "a batch over a wrapper": (
        [wrapper(0, messages(0, 4), codec="gzip"), batch(3, as_records(3, 1))],
        "above offset 3, found records from 3 on",
    ),
    "a checksum inside": (
        [wrapper(1, [message(0), broken(message(1))], codec="gzip")],
        "found 1 that do not",
    ),
    "offsets inside": (
        [wrapper(9, [*messages(5, 1), *messages(3, 1)], codec="gzip", magic=0)],
        "expected an offset above 5",
    ),
    "a wrapper in a wrapper": (
        [wrapper(1, [wrapper(1, messages(0, 2), codec="gzip")], codec="gzip")],
        "a compressed message",
    ),
    "nothing inside": ([wrapper(1, [], codec="gzip")], "a run of messages"),
    "not the offset of the last": (
        [wrapper(9, messages(0, 3, magic=0), codec="gzip", magic=0)],
        "expected the offset of the last message inside, 2",
    ),
    "no gzip": ([message(1, b"value", attributes=1)], "gzip"),
    "a key that does not fit": (
        [*messages(0, 1), resealed(message(1, key=b"key"), 29, b"\x7f")],
        "a key or value that does not fit",
    ),
    "records of magic 2": (
        [*messages(0, 1), batch(1, [record(length=2)])],
        "found",
    ),
    "order in magic 2": (
        [*messages(0, 1), batch(1, [record(offset_delta=1), record(offset_delta=1)])],
        "rise up to the last offset of the batch",
    ),
    "beyond the end in magic 2": (
        [*messages(0, 1), batch(1, [record(), record()], last_offset_delta=0)],
        "rise up to the last offset of the batch",
    ),
}


@pytest.mark.parametrize("title", REFUSED)
def test_what_is_refused(convert: Convert, title: str) -> None:
    pieces, why = REFUSED[title]
    with pytest.raises(Refused, match=why) as refused:
        convert(pieces)
    assert "kdump truncate-to-valid" in str(refused.value)
    assert "kdump salvage" in str(refused.value)


def test_records_below_the_base_are_refused(convert: Convert) -> None:
    """Of a wrapper the header does not say where it begins."""
    old = wrapper(101, messages(0, 4), codec="gzip")
    with pytest.raises(Refused, match="above offset 99, found records from 98 on"):
        convert(old, 100)
    logs, _ = convert(old, 98)
    assert len(split(logs[0])) == 1


def test_odd_but_harmless_is_no_reason(convert: Convert) -> None:
    """Bits that mean nothing, batches of no records, timestamps beyond the largest."""
    odd = batch(1, last_offset_delta=3, base_timestamp=-1, max_timestamp=TIMESTAMP)
    late = batch(5, [record(timestamp=LATER)], max_timestamp=TIMESTAMP)
    first, *rest = convert_batches(convert, [*messages(0, 1, attributes=0x50), odd, late])
    assert first == new(0, as_records(0, 1))
    assert rest == [odd, late]


def test_records_beyond_the_limit_are_not_read(
    convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "RecordReader", partial(RecordReader, 1000))
    with pytest.raises(SourceError, match="more than the limit of 1000 bytes"):
        convert(wrapper(9, messages(0, 40), codec="gzip"))


# --- measured, and read back


@pytest.mark.parametrize("most", [2**31 - 1, 500])
@pytest.mark.parametrize("seed", range(5))
def test_measured_is_what_is_read_back(
    convert: Convert, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, most: int
) -> None:
    monkeypatch.setattr(conversion, "MAX_LOG_BYTES", most)
    for base, pieces in forged(seed).segments.items():
        logs, made = convert([piece.data for piece in pieces], base)
        measured = measure(
            tmp_path / f"{base:020d}.log",
            base,
            Rules(),
            [EpochEntry(0, base)],
            SETTINGS,
            1 << 20,
            lambda _: None,
        )
        assert [part.part for part in measured.parts] == list(made.parts)
        for number, part in enumerate(measured.parts):
            path = tmp_path / "new.log"
            path.write_bytes(logs[number])
            found = LogReader(path, part.part.base_offset, SETTINGS, 1 << 20).finish()
            assert found.rebuilt == part.rebuilt
            assert (found.size, found.sha256) == (part.part.size, part.sha256)
            assert (found.batches, found.records, found.digest) == (
                part.part.batches,
                part.part.records,
                part.part.digest,
            )
        last = split(logs[len(logs) - 1])[-1:]
        end = base if not last else sum(struct.unpack_from(">q15xi", last[0])) + 1
        assert measured.parts[-1].end_offset == end


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (batch(0, as_records(0, 2)) + b"x", "torn-tail at position"),
        (flip(batch(0, as_records(0, 2)), -1), "bad-checksum at position 0"),
        (
            batch(0, as_records(0, 2)) + message(2),
            "batches of another message format after position 0",
        ),
        (batch(0, [record()], magic=3), "batches of another message format after position 0"),
        (batch(0, [record(length=2)]), "in the batch at position 0"),
    ],
)
def test_only_sound_batches_of_magic_2_are_read_back(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "new.log"
    path.write_bytes(content)
    with pytest.raises(
        Refused, match=f"expected to read back valid batches of message format v2, found .*{found}"
    ):
        LogReader(path, 0, SETTINGS, 0).finish()


def test_what_is_read_back_is_limited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdump.repair.rewrite.read_back.RecordReader", partial(RecordReader, 100))
    path = tmp_path / "new.log"
    path.write_bytes(batch(0, as_records(0, 40), codec="gzip"))
    with pytest.raises(SourceError, match="more than the limit of 100 bytes"):
        LogReader(path, 0, SETTINGS, 0).finish()
