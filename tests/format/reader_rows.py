"""Each throw and each leniency of Kafka's readers of batches, as bytes, and what they do.

Of ``DefaultRecord``, ``DefaultRecordBatch``, ``LegacyRecord`` and ``AbstractLegacyRecordBatch``,
which are the same in 3.9.1 and 4.3.1, in the order of their lines, and of what they call. Imports
nothing of kdump.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from gzip import compress as gzip_compress

from lz4.frame import compress as lz4_frame
from snappy import compress as snappy_block
from zstandard import ZstdCompressor

from format.batch_cases import uvarint_padded
from support import forge
from support.forge import Record, batch, compressed, flip, message, record, varint, wrapper

LOG_APPEND = 8
LAST = record(b"last")


@dataclass(frozen=True)
class Row:
    """``java`` is the class of what is thrown, empty for nothing; ``count`` are the records read
    before.

    ``found`` are the findings of ``verify --deep`` that say so, in the words of
    ``java_batches.Reading``.
    """

    name: str
    data: bytes
    java: str = ""
    found: str = ""
    count: int = 2


def _body(inner: bytes, length: int | None = None) -> bytes:
    return varint(len(inner) if length is None else length) + inner


def _fields(
    *,
    attributes: bytes = b"\0",
    time: bytes = varint(0),
    offset: bytes = varint(0),
    key: bytes = varint(1) + b"k",
    value: bytes = varint(1) + b"v",
    headers: bytes = varint(0),
) -> bytes:
    """The fields of a record, encoded one by one."""
    return attributes + time + offset + key + value + headers


def _two(first: bytes | Record, codec: str = "none") -> bytes:
    return batch(7, [first, LAST], codec=codec)


def _records() -> list[Row]:
    """``DefaultRecord``: of the same bytes, uncompressed and compressed."""
    bad = "InvalidRecordException"
    long_size = b"\x80" * 5 + b"\0"
    h = varint(1) + b"h"
    fine = {
        "attributes": _fields(attributes=b"\xff"),
        "padded size": b"",
        "time wraps": _fields(time=varint(2**63 - 1)),
        "time of 10 bytes": _fields(time=uvarint_padded(varint(1), 8)),
        "bits of a varint beyond 32": _fields(key=b"\x82\x80\x80\x80\x70k"),
        "offset delta below 0": _fields(offset=varint(-5)),
        "key of size -2": _fields(key=varint(-2)),
        "key of the least size": _fields(key=varint(-(2**31))),
        "value of size -2": _fields(value=varint(-2)),
        "value of size -1000": _fields(value=varint(-1000)),
        "header value of size -1": _fields(headers=varint(1) + h + varint(-1)),
        "header value of size -2": _fields(headers=varint(1) + h + varint(-2)),
        "header key not UTF-8": _fields(headers=varint(1) + varint(2) + b"\xff\xc0" + varint(0)),
        "header key empty": _fields(headers=varint(1) + varint(0) + varint(0)),
    }
    thrown = {
        "time of 11 bytes": _fields(time=uvarint_padded(varint(1), 10)),
        "offset of 6 bytes": _fields(offset=uvarint_padded(varint(0), 5)),
        "key too long": _fields(key=varint(99) + b"k"),
        "key of the largest size": _fields(key=varint(2**31 - 1) + b"k"),
        "value too long": _fields(value=varint(99) + b"v"),
        "value into the next record": _fields(value=varint(4) + b"v"),
        "headers -1": _fields(headers=varint(-1)),
        "more headers than bytes": _fields(headers=varint(2**31 - 1)),
        "more headers than there are": _fields(headers=varint(2) + h + varint(0)),
        "fewer headers than there are": _fields(headers=varint(1) + h + varint(0) + h + varint(0)),
        "header key of size -1": _fields(headers=varint(1) + varint(-1) + varint(0)),
        "header key too long": _fields(headers=varint(1) + varint(99) + b"h" + varint(0)),
        "header value too long": _fields(headers=varint(1) + h + varint(99)),
        "bytes behind the headers": _fields() + b"x",
        "no headers": _fields(headers=b""),
    }
    rows = []
    for codec in ("none", "gzip"):
        for name, inner in fine.items():
            first = uvarint_padded(varint(len(_fields())), 3) + _fields() if not inner else b""
            odd = "nulls" if name.split(" size ")[-1] in ("-2", "-1000") or "least" in name else ""
            data = _two(first or _body(inner), codec)
            rows.append(Row(f"{codec}: {name}", data, "", odd))
        for name, inner in thrown.items():
            data = _two(_body(inner), codec)
            rows.append(Row(f"{codec}: {name}", data, bad, "unreadable", 0))
        sizes = {"below 0": _body(_fields(), -1), "0": _body(_fields(), 0)}
        sizes |= {"too large": _body(_fields(), 999), "too small": _body(_fields(), 3)}
        for name, first in sizes.items():
            data = _two(first, codec)
            rows.append(Row(f"{codec}: size {name}", data, bad, "unreadable", 0))
        # The size stands outside of what catches the exception, but for a stream.
        of_size = bad if codec == "gzip" else "IllegalArgumentException"
        data = _two(long_size, codec)
        rows.append(Row(f"{codec}: size of 6 bytes", data, of_size, "unreadable", 0))
        rows.append(
            Row(
                f"{codec}: size cut off",
                batch(7, [LAST, b"\xff"], codec=codec),
                bad,
                "unreadable",
                1,
            )
        )
    return rows


def _batches() -> list[Row]:
    """``DefaultRecordBatch``, ``ByteBufferLogInputStream`` and the codecs."""
    bad, corrupt, kafka = "InvalidRecordException", "CorruptRecordException", "KafkaException"
    both = [record(), LAST]
    block = b"".join(item.encode(place, forge.TIMESTAMP) for place, item in enumerate(both))
    gzip, lz4 = compressed("gzip", block), compressed("lz4", block)
    snappy, zstd = compressed("snappy", block), compressed("zstd", block)
    rows = [
        Row("checksum", flip(batch(7, both), -1), corrupt, "bad-checksum", 0),
        Row("magic 3", batch(7, both, magic=3), corrupt, "magic", 0),
        Row("magic 127", batch(7, both, magic=127), corrupt, "magic", 0),
        Row("unused bits", batch(7, both, attributes=-32768 | 16384 | 128)),
        Row("delete horizon", batch(7, both, attributes=64)),
        Row("last offset below the first", batch(7, both, last_offset_delta=-1)),
        Row("last offset beyond the records", batch(7, both, last_offset_delta=99)),
        Row("log append time", batch(7, both, timestamp_type="LogAppendTime", max_timestamp=5)),
        Row("largest timestamp too small", batch(7, both, max_timestamp=5)),
        Row("codec 5", batch(7, both, attributes=5), "IllegalArgumentException", "codec", 0),
        Row("codec 7", batch(7, both, attributes=7), "IllegalArgumentException", "codec", 0),
        Row("no records", batch(7), count=0),
        Row("no records, and bytes", batch(7, block=b"left over"), count=0),
        Row("no records, codec 5", batch(7, attributes=5), "IllegalArgumentException", "codec", 0),
        Row("no records, no zstd", batch(7, attributes=4, block=b"plain"), count=0),
    ]
    starts = {
        "gzip": (gzip, {"cut behind its header": gzip[:12], "reserved flag": flip(gzip, 3, 0x80)}),
        "snappy": (snappy, {"cut behind its header": snappy[:18], "version 0": flip(snappy, 11)}),
        "lz4": (lz4, {"cut behind its header": lz4[:7]}),
    }
    name_and_comment = gzip[:3] + b"\x18" + gzip[4:10] + b"name\0comment\0" + gzip[10:]
    starts["gzip"][1]["name and comment"] = name_and_comment
    extra = gzip[:3] + b"\x04" + gzip[4:10] + b"\3\0abc" + gzip[10:]
    starts["gzip"][1]["extra field"] = extra
    head = gzip[:3] + b"\x02" + gzip[4:10]
    checked = head + struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    starts["gzip"][1]["header with a checksum"] = checked
    stopped = {
        "gzip": {
            "empty": b"", "other magic": b"plain", "cut header": gzip[:9],
            "method 7": flip(gzip, 2, 0x0F), "cut extra field": extra[:13],
            "cut name": name_and_comment[:12], "wrong header checksum": flip(checked, -1),
        },
        "snappy": {"empty": b"", "no block": b"\x40abc"},
        "lz4": {
            "empty": b"", "other magic": b"plain", "cut header": lz4[:6],
            "wrong header checksum": flip(lz4, 6), "linked blocks": flip(lz4, 4, 0x20),
        },
    }  # fmt: skip
    for codec, (whole, others) in starts.items():
        number = forge.CODECS.index(codec)
        for name, content in {"whole": whole, **others}.items():
            data = batch(7, attributes=number, block=content)
            rows.append(Row(f"no records, {codec} {name}", data, count=0))
        for name, content in stopped[codec].items():
            data = batch(7, attributes=number, block=content)
            rows.append(Row(f"no records, {codec} {name}", data, kafka, "unreadable", 0))
            data = batch(7, both, codec=codec, block=content)
            rows.append(Row(f"{codec} {name}", data, kafka, "unreadable", 0))
    for codec in forge.CODECS:
        rows += [
            Row(f"{codec}: count -1", batch(7, both, codec=codec, count=-1), bad, "unreadable", 0),
            Row(f"{codec}: too few", batch(7, both, codec=codec, count=1), bad, "unreadable", 0),
            Row(f"{codec}: too many", batch(7, both, codec=codec, count=3), bad, "unreadable"),
        ]
    member = compressed("gzip", LAST.encode(1, forge.TIMESTAMP))
    first = compressed("gzip", record().encode(0, forge.TIMESTAMP))
    # Java reads record by record, and has read some where the end of the block is bad.
    late, fine = (kafka, 1), ("", 2)
    tails = {
        "gzip bytes behind": (1, gzip + b"left over, more than a header has", fine),
        "gzip two members": (1, first + member, fine),
        "gzip no trailer": (1, gzip[:-8], late),
        "gzip wrong trailer": (1, flip(gzip, -8), late),
        "gzip name and comment": (1, name_and_comment, fine),
        "gzip extra field": (1, extra, fine),
        "snappy raw": (2, snappy_block(block), fine),
        "snappy bytes behind": (2, snappy + b"abc", fine),
        "snappy negative chunk": (2, snappy + b"\xff\xff\0\0", ("SnappyError", 0)),
        "snappy cut chunk": (2, snappy[:-1], (kafka, 0)),
        "lz4 bytes behind": (3, lz4 + b"left over", fine),
        "lz4 no end mark": (3, lz4[:-4], late),
        "lz4 block checksum": (3, lz4_frame(
            block, block_size=4, block_linked=False, store_size=False, block_checksum=True), fine),
        "lz4 content size": (3, lz4_frame(
            block, block_size=4, block_linked=False, store_size=True), fine),
        "lz4 content checksum wrong": (3, flip(lz4_frame(
            block, block_size=4, block_linked=False, content_checksum=True), -1), fine),
        "zstd bytes behind": (4, zstd + b"left over", late),
        "zstd cut": (4, zstd[:-1], late),
        "zstd empty frame behind": (4, zstd + compressed("zstd", b""), fine),
        **_tails_of_gzip(gzip),
        **_tails_of_snappy(snappy),
        **_tails_of_lz4(lz4),
        **_tails_of_zstd(zstd, block),
    }  # fmt: skip
    rows += [
        _gzip_in_buffers("gzip cut member behind, in two buffers", 8192 - 18, 15, late),
        _gzip_in_buffers("gzip cut member behind, in one buffer", 8192 - 40, 15, fine),
        _gzip_in_buffers("gzip member behind, in one buffer", 8192 - 40, 20, fine),
    ]
    wrong = bytearray(tails["lz4 block checksum"][1])
    wrong[-5] ^= 1
    tails["lz4 wrong block checksum"] = (3, bytes(wrong), (kafka, 0))
    for name, (number, content, (java, count)) in tails.items():
        data = batch(7, both, attributes=number, block=content)
        rows.append(Row(name, data, java, "unreadable" if java else "", count))
    return rows


_Tails = dict[str, tuple[int, bytes, tuple[str, int]]]
"""By name: the number of the codec, the block, what Java throws, after how many records."""
_FINE, _LATE = ("", 2), ("KafkaException", 1)


def _tails_of_gzip(block: bytes) -> _Tails:
    """``GZIPInputStream.readTrailer``: it looks for one more member, and ignores what is none."""
    member = compressed("gzip", b"")
    head = member[:3] + b"%c" + member[4:10]
    named = head % 8 + b"name\0" + member[10:]
    return {
        "gzip empty member behind": (1, block + member, _FINE),
        "gzip 18 bytes of a member behind": (1, block + member[:18], _FINE),
        "gzip 19 bytes of a member behind": (1, block + member[:19], _LATE),
        "gzip member with content behind": (
            1, block + compressed("gzip", b"x"), ("InvalidRecordException", 1)),
        "gzip magic and zeros behind": (1, block + member[:2] + bytes(40), _FINE),
        "gzip wrong header checksum behind": (1, block + head % 2 + b"xx" + member[10:], _FINE),
        "gzip endless name behind": (1, block + head % 8 + b"name" * 9, _FINE),
        "gzip named member behind": (1, block + named, _FINE),
        "gzip extra field cut behind": (1, block + head % 4 + b"\xff\xff" + bytes(30), _FINE),
        "gzip bad content behind": (1, block + head % 0 + b"\xff" * 30, _LATE),
        "gzip zeros behind two members": (1, block + member + bytes(40), _FINE),
    }  # fmt: skip


def _gzip_in_buffers(name: str, size: int, behind: int, java: tuple[str, int]) -> Row:
    """Records of ``size`` bytes, stored as they are, and ``behind`` bytes of a second member.

    Java fills a buffer of 8 KiB behind the header of 10 bytes: 5 more, the records, a trailer of 8.
    """
    last, used = LAST.encode(1, forge.TIMESTAMP), len(record().encode(0, forge.TIMESTAMP))
    first = record(bytes(size - used - len(last)))
    surplus = len(first.encode(0, forge.TIMESTAMP)) + len(last) - size
    first = record(bytes(size - used - len(last) - surplus))
    content = first.encode(0, forge.TIMESTAMP) + last
    assert len(content) == size
    block = gzip_compress(content, 0, mtime=0) + compressed("gzip", b"")[:behind]
    return Row(
        name, batch(7, [first, LAST], attributes=1, block=block), java[0],
        "unreadable" if java[0] else "", java[1],
    )  # fmt: skip


def _tails_of_snappy(block: bytes) -> _Tails:
    """``SnappyInputStream.hasNextChunk``: a header whose end is wrong ends a call of it, once."""
    header = block[:16]
    almost = header[:4] + b"x" * 12
    return {
        "snappy header behind": (2, block + header, _FINE),
        "snappy header cut behind": (2, block + header[:15], ("KafkaException", 0)),
        "snappy almost a header behind": (2, block + almost, _FINE),
        "snappy twice almost a header behind": (2, block + 2 * almost + b"x" * 40, _FINE),
        "snappy bytes behind almost a header": (2, block + almost + b"x" * 40, ("SnappyError", 1)),
        "snappy almost a header first": (
            2, header + almost + block[16:], ("InvalidRecordException", 0)),
        "snappy empty chunk behind": (2, block + b"\0\0\0\1\0", _FINE),
    }  # fmt: skip


def _tails_of_lz4(block: bytes) -> _Tails:
    """``Lz4BlockInputStream.read``: a block without content is the end for who reads bytes."""
    empty, stored, huge = b"\1\0\0\0\0", b"\1\0\0\x80x", b"\xff\xff\xff\x7f"
    return {
        "lz4 block behind": (3, block[:-4] + stored + bytes(4), ("InvalidRecordException", 1)),
        "lz4 bytes behind, no end mark": (3, block[:-4] + huge, _LATE),
        "lz4 empty block behind": (3, block[:-4] + empty + bytes(4), _FINE),
        "lz4 empty block behind, no end mark": (3, block[:-4] + empty, _FINE),
        "lz4 bytes behind an empty block": (3, block[:-4] + empty + huge, _FINE),
        "lz4 empty block first": (
            3, block[:7] + empty + block[7:], ("InvalidRecordException", 0)),
    }  # fmt: skip


def _tails_of_zstd(block: bytes, content: bytes) -> _Tails:
    """``ZstdInputStreamNoFinalizer.readInternal``: its input may end amid a frame, if one has ended
    since it last filled its buffer."""
    magic, buffer = block[:4], 128 * 1024 + 3
    empty = compressed("zstd", b"")
    with_checksum = ZstdCompressor(write_checksum=True, write_content_size=False).compress
    fine = {f"zstd {size} bytes of a magic behind": magic[:size] for size in (1, 2, 3)}
    fine |= {
        "zstd magic behind": magic,
        "zstd frame header cut behind": empty[:5],
        "zstd frame cut behind its header": empty[:6],
        "zstd empty frame cut behind": empty[:-1],
        "zstd frame cut in its content behind": compressed("zstd", b"x")[:-2],
        "zstd frame cut in its checksum behind": with_checksum(b"")[:-1],
        "zstd frame cut behind an empty one": empty + empty[:-1],
        "zstd skippable frame behind": _skippable(20),
        "zstd skippable frame cut behind": _skippable(20)[:-1],
        "zstd skippable header cut behind": _skippable(20)[:7],
    }
    late = {
        "zstd byte that begins no magic behind": b"x",
        "zstd bytes that begin no magic behind": magic[:2] + b"x",
        "zstd bad frame cut behind": magic + b"\x08\x58",
        "zstd reserved block behind": magic + b"\0\x58\7\0\0",
        "zstd wrong checksum behind": flip(with_checksum(b""), -1),
        "zstd frame cut in another buffer": _skippable(buffer - len(block)) + magic,
        "zstd long frame cut behind": _skippable(buffer)[:-1],
    }
    rows: _Tails = {name: (4, block + tail, _FINE) for name, tail in fine.items()}
    rows |= {name: (4, block + tail, _LATE) for name, tail in late.items()}
    half, two = len(content) // 2, with_checksum(content)
    return rows | {
        "zstd cut frame of the buffer's last byte": (
            4, block + _skippable(buffer - len(block) - 1) + magic[:1], _FINE),
        "zstd frame with a record's end, no checksum": (
            4, compressed("zstd", content[:half]) + with_checksum(content[half:])[:-4], _FINE),
        "zstd records in a frame without its checksum": (4, empty + two[:-4], _FINE),
        "zstd content behind in a frame that is cut": (
            4, block + with_checksum(b"x")[:-4], ("InvalidRecordException", 1)),
    }  # fmt: skip


def _skippable(size: int) -> bytes:
    """A frame of ``size`` bytes that readers skip."""
    return struct.pack("<II", 0x184D2A50, size - 8) + bytes(size - 8)


def _sealed(body: bytes, offset: int = 7) -> bytes:
    """A message of these bytes behind its checksum."""
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def _messages() -> list[Row]:
    """``LegacyRecord`` and ``AbstractLegacyRecordBatch``."""
    bad, corrupt, kafka = "InvalidRecordException", "CorruptRecordException", "KafkaException"
    outside, illegal = "IndexOutOfBoundsException", "IllegalArgumentException"
    rows = []
    for magic in (0, 1):
        head = struct.pack(">bb", magic, 0) + bytes(8 * magic)
        other = 1 - magic
        run = [message(place, b"v", b"k", magic=magic) for place in range(3)]

        def put(
            name: str, data: bytes, java: str = "", found: str = "", count: int = 1, m: int = magic
        ) -> None:
            rows.append(Row(f"magic {m}: {name}", data, java, found, count))

        def packed(
            inner: list[bytes], offset: int = 2, codec: str = "gzip", m: int = magic, **more: int
        ) -> bytes:
            return wrapper(offset, inner, codec=codec, magic=m, **more)

        sizes = struct.Struct(">i")
        put("sound", message(7, b"v", b"k", magic=magic))
        put("checksum", flip(message(7, magic=magic), -1), corrupt, "bad-checksum", 0)
        put("key of size -7", _sealed(head + sizes.pack(-7) + sizes.pack(1) + b"v"), "", "nulls")
        put("value of size -7", _sealed(head + sizes.pack(0) + sizes.pack(-7)), "", "nulls")
        put("bytes behind the value", _sealed(head + sizes.pack(-1) + sizes.pack(1) + b"v tail"))
        put("key too long", _sealed(head + sizes.pack(9) + b"keys"), illegal, "unreadable", 0)
        put(
            "value too long",
            _sealed(head + sizes.pack(-1) + sizes.pack(9)),
            illegal,
            "unreadable",
            0,
        )
        put("key of the largest size", _sealed(head + sizes.pack(2**31 - 1) + b"kkkk"), illegal,
            "unreadable", 0)  # fmt: skip
        put("no size of a value", _sealed(head + sizes.pack(4) + b"keys"), outside, "unreadable", 0)
        put("unused bits", message(7, magic=magic, attributes=-16))
        put("log append time", message(7, magic=magic, attributes=LOG_APPEND))
        put("codec 4", message(7, magic=magic, attributes=4), bad, "codec", 0)
        put("codec 5", message(7, magic=magic, attributes=5), illegal, "codec", 0)
        put("null wrapper", message(7, None, magic=magic, attributes=1), bad, "unreadable", 0)
        put("plain wrapper", message(7, b"v", magic=magic, attributes=1), kafka, "unreadable", 0)
        put("empty wrapper", packed([]), bad, "unreadable", 0)
        put("wrapper", packed(run), count=3)
        put("wrapper with a key", message(2, compressed("gzip", b"".join(run)), b"key", magic=magic,
            attributes=1), count=3)  # fmt: skip
        put("size 13 inside", packed([run[0], message(1, magic=magic, size=13)]), corrupt,
            "unreadable", 0)  # fmt: skip
        put("size below 0 inside", packed([run[0], message(1, magic=magic, size=-1)]), corrupt,
            "unreadable", 0)  # fmt: skip
        put("largest size inside", packed([run[0], message(1, magic=magic, size=2**31 - 1)]),
            "OutOfMemoryError", "cut", 0)  # fmt: skip
        put("last cut in its header", packed([*run, run[0][:11]]), "", "cut", 3)
        put("last cut", packed([*run, run[0][:-1]]), "", "cut", 3)
        put("last cut behind its size", packed([*run, run[0][:12]]), "", "cut", 3)
        put("all cut", packed([run[0][:-1]]), bad, "unreadable", 0)
        put("wrapper inside", packed([run[0], packed(run[:1], 1)], 1), bad, "unreadable", 1)
        put("codec 5 inside", packed([run[0], message(1, magic=magic, attributes=5)], 1), illegal,
            "unreadable", 1)  # fmt: skip
        put("checksum inside", packed([run[0], flip(run[1], -1), run[2]]), corrupt, "unreadable", 1)
        put("key too long inside", packed([run[0], _sealed(head + sizes.pack(9) + b"keys", 1)], 1),
            illegal, "unreadable", 1)  # fmt: skip
        nulls = _sealed(head + sizes.pack(-2) + sizes.pack(-3), 0)
        put("null sizes inside", packed([nulls], 0), "", "nulls", 1)
        put("other magic inside", packed([run[0], message(1, magic=other)], 1), count=2)
        put("magic 2 inside", packed([run[0], message(1, magic=2)], 1), count=2)
        unknown = struct.pack(">bb", -1, 0) + bytes(8) + 2 * sizes.pack(-1)
        put("magic -1 inside", packed([run[0], _sealed(unknown, 1)], 1), count=2)
        put("offset 0", packed([message(5, magic=magic), message(6, magic=magic)], 0), count=2)
        low = (bad, "unreadable", 0) if magic else ("", "", 3)
        put("offset below the last one inside", packed(run, 1), *low)
        put("offset above", packed(run, 100), count=3)
        put("offsets below 0 inside", packed([message(-9, magic=magic)], 3), count=1)
        put("append time of a wrapper", packed(run, attributes=LOG_APPEND, timestamp=5), count=3)
        cut = message(2, compressed("gzip", b"".join(run))[:-9], magic=magic, attributes=1)
        put("cut gzip", cut, kafka, "unreadable", 0)
        lz4 = flip(compressed("lz4", b"".join(run)), 6)
        wrong = (kafka, "unreadable", 0) if magic else ("", "", 3)
        put("wrong lz4 header checksum", message(2, lz4, magic=magic, attributes=3), *wrong)
    short = _sealed(struct.pack(">bb", 1, 0) + bytes(8))
    rows += [
        Row("magic 1: 14 bytes", short, outside, "unreadable", 0),
        Row("magic -1", message(7, magic=-1), corrupt, "magic unreadable", 0),
        Row("magic -128", message(7, magic=-128), corrupt, "magic unreadable", 0),
    ]
    return rows


ROWS = (*_records(), *_batches(), *_messages())
