"""``kdump convert-v0-v2`` on forged partitions: the same records, in just the batches expected.

The records before and after are compared as ``kdump dump`` tells of them, the batches with those
that ``converting`` works out from what was forged.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
import xxhash

from support.commands import kdump
from support.consumer_records import as_bytes
from support.converting import (
    BATCH_BYTES,
    COMMAND,
    JsonObject,
    above_info,
    convert,
    first_difference,
    legacy_batches,
    logs,
    misfits,
    nothing_to_do,
    records,
    stale_indexes,
    tree,
    write,
)
from support.forge import CODECS, TIMESTAMP, batch, flip, message, record, wrapper
from support.legacy_partitions import WRAPPING, Partition, Piece, WrittenRecord, forged
from support.long_samples import first_of

pytestmark = pytest.mark.loops

SEEDS = 200
#: So many partitions are converted by one command.
BLOCK = 20
#: Where one option is like another.
FEW = 6

every_block = pytest.mark.parametrize(
    "first",
    [
        pytest.param(0, marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.nightly) for n in range(BLOCK, SEEDS, BLOCK)),
    ],
)


def block(first: int, count: int = BLOCK) -> dict[str, Partition]:
    return {f"seed-{seed}": forged(seed) for seed in range(first, first + count)}


def times(top: Path) -> dict[str, int]:
    """When the logs were written, in ns."""
    paths = sorted(top.glob("*/*.log"))
    return {str(path.relative_to(top)): path.stat().st_mtime_ns for path in paths}


# --- the seeds


def test_seeds_hold_what_they_are_there_to_show() -> None:
    """``test_in_place`` compares what was forged with what kdump reads of it before."""
    seen = Counter[object]()
    for seed in range(SEEDS):
        partition = forged(seed)
        seen["several segments"] += len(partition.segments) > 1
        seen["aborted transactions"] += bool(partition.files)
        for piece in partition.pieces():
            seen.update(piece.shown)
            seen[piece.magic, piece.codec] += 1
            for forged_record in piece.records:
                contents = forged_record.key, forged_record.value
                seen.update(part for part in contents if not part)
                seen["alone too large"] += any(len(part or b"") > BATCH_BYTES for part in contents)
                seen["no timestamp in magic 1"] += (
                    piece.magic == 1 and forged_record.timestamp == -1
                )
        for magics in (
            {piece.magic for piece in partition.segments[b]} for b in partition.segments
        ):
            seen[frozenset(magics)] += 1
    codecs = {(magic, codec) for magic in (0, 1) for codec in ("none", *WRAPPING)}
    codecs |= {(2, codec) for codec in CODECS}
    odd = {
        "at zero",
        "gaps",
        "first cleaned away",
        "append time, bit set inside",
        "append time, bit clear inside",
        "append time over magic 0",
        "create time",
        "other magic inside",
    }
    mixed = {frozenset(magics) for magics in ((), (0,), (1,), (0, 1), (0, 1, 2), (2,))}
    others = {
        "several segments",
        "aborted transactions",
        "alone too large",
        "no timestamp in magic 1",
        *(None, b""),
    }
    few = {what: seen[what] for what in codecs | odd | mixed | others if seen[what] < 10}
    assert not few


def as_forged(partition: Partition, lines: Sequence[JsonObject]) -> bool:
    """Whether kdump reads of the old formats just what was forged."""
    written = [
        WrittenRecord(
            line["offset"],
            -1 if line["timestamp"] is None else line["timestamp"],
            line["timestamp_type"] == "LogAppendTime",
            as_bytes(line, "key"),
            as_bytes(line, "value"),
        )
        for line in lines
        if line["magic"] < 2
    ]
    return written == [record for piece in partition.pieces() for record in piece.records]


# --- both ways


@every_block
def test_in_place(first: int, place: Path) -> None:
    partitions = block(first)
    top = write(place, partitions)
    before, files, written = records(top), tree(top), times(top)
    for topic, partition in partitions.items():
        assert as_forged(partition, before[f"{topic}-0"]), topic
    ran = convert(top)
    assert ran.code == 0, ran.said
    assert first_difference(before, records(top)) is None
    receipts = {Path(receipt["partition"]).name: receipt for receipt in ran.of("receipt")}
    for topic, partition in partitions.items():
        name = f"{topic}-0"
        assert misfits(top / name, partition) == [], topic
        sizes = {
            path.name: (len(files[f"{name}/{path.name}"]), path.stat().st_size)
            for path in logs(top / name)
        }
        assert misinformed(receipts[name], partition, before[name], sizes) == [], topic
    changed = {name for name, data in tree(top).items() if files.get(name) != data}
    # A new log differs from the old one in its size or its time.
    as_long = {
        name for name in changed & written.keys() if len(files[name]) == (top / name).stat().st_size
    }
    assert times(top) == written | {name: written[name] + 10**9 for name in as_long}
    assert {Path(name).suffix for name in changed} == {".log", ".index", ".timeindex"}
    assert tree(top).keys() == files.keys()
    assert above_info(top) == []
    assert legacy_batches(top) == []
    assert nothing_to_do(top)
    for topic in partitions:
        undone = kdump("undo", top / f"{topic}-0", "--apply", searching=False)
        assert undone.code == 0, undone.said
    assert tree(top) == files
    assert times(top) == written


@every_block
def test_output(first: int, place: Path) -> None:
    partitions = block(first)
    top = write(place, partitions)
    before, files, written = records(top), tree(top), times(top)
    output = place / "new"
    ran = kdump(COMMAND, top, "--output", output, searching=False)
    assert ran.code == 0, ran.said
    assert first_difference(before, records(output)) is None
    for topic, partition in partitions.items():
        assert misfits(output / f"{topic}-0", partition) == [], topic
    assert times(output) == written
    # All files except logs and their indexes are copied, and there are no others.
    made = tree(output)
    assert made.keys() == files.keys() - {"meta.properties"}
    changed = {Path(name).suffix for name, data in made.items() if files[name] != data}
    assert changed == {".log", ".index", ".timeindex"}
    assert stale_indexes(output.glob("*/*.log")) == []
    assert above_info(output) == []
    assert legacy_batches(output) == []
    assert nothing_to_do(output)
    assert (tree(top), times(top)) == (files, written)
    assert not list(top.rglob(".kdump"))


@pytest.mark.parametrize(
    ("batch_bytes", "codec"),
    [
        (300, None),
        pytest.param(0, None, marks=pytest.mark.slow),
        pytest.param(1_000_000, None, marks=pytest.mark.slow),
        *(pytest.param(BATCH_BYTES, codec, marks=pytest.mark.slow) for codec in CODECS),
    ],
)
def test_sizes_and_codecs_that_were_asked_for(
    batch_bytes: int, codec: str | None, place: Path
) -> None:
    partitions = block(0, FEW)
    top, output = write(place, partitions), place / "new"
    options = ["--batch-bytes", str(batch_bytes), *(("--codec", codec) if codec else ())]
    ran = kdump(COMMAND, top, "--output", output, *options, searching=False)
    assert ran.code == 0, ran.said
    assert first_difference(records(top), records(output), codec) is None
    for topic, partition in partitions.items():
        assert misfits(output / f"{topic}-0", partition, batch_bytes, codec) == [], topic


# --- large ones


@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        (0, "none"),
        # In pure Python a wrapper of this size takes long.
        pytest.param(1, "gzip", marks=pytest.mark.slow),
        *(pytest.param(0, codec, marks=pytest.mark.nightly) for codec in WRAPPING),
        *(pytest.param(1, codec, marks=pytest.mark.nightly) for codec in ("none", "snappy", "lz4")),
    ],
)
def test_a_value_of_10_mb(magic: int, codec: str, place: Path) -> None:
    value = Random(magic).randbytes(5_000_000) + bytes(5_000_000)
    contents = [b"small", value, b"", None]
    written = tuple(
        WrittenRecord(offset, TIMESTAMP if magic else -1, False, None, content)
        for offset, content in enumerate(contents)
    )
    messages = [message(record.offset, record.value, magic=magic) for record in written]
    if codec == "none":
        pieces = [
            Piece(data, magic, codec, (message,))
            for data, message in zip(messages, written, strict=True)
        ]
    else:
        pieces = [Piece(wrapper(3, messages, codec=codec, magic=magic), magic, codec, written)]
    partition = Partition({0: pieces})
    top, output = write(place, {"large": partition}), place / "new"
    before = records(top)
    assert before["large-0"][1]["value_base64"]
    assert kdump(COMMAND, top, "--output", output, searching=False).code == 0
    assert convert(top).code == 0
    for directory in (top, output):
        assert first_difference(before, records(directory)) is None
        assert misfits(directory / "large-0", partition) == []
        assert above_info(directory) == []


def test_runs_go_on_beyond_windows_and_tables(place: Path) -> None:
    """Files are read a MiB and some thousand batches at a time: that ends no batch."""
    random = Random(1)
    pieces = []
    for offset in range(18_000):
        record = WrittenRecord(
            offset, TIMESTAMP + offset, False, None, random.randbytes(20 + offset % 90)
        )
        data = message(offset, record.value, timestamp=record.timestamp)
        pieces.append(Piece(data, 1, "none", (record,)))
    assert sum(len(piece.data) for piece in pieces) > 3 << 19
    partition = Partition({0: pieces})
    top = write(place, {"long": partition})
    assert convert(top).code == 0
    assert misfits(top / "long-0", partition) == []


def test_a_log_is_split_where_offsets_pass_what_its_indexes_can_say(place: Path) -> None:
    """Old brokers took no care of that; 2,147,483,647 above its name is the last one."""
    pieces = [
        Piece(message(5, magic=0), 0),
        Piece(message(2**31 + 4, magic=0), 0),
        Piece(message(2**31 + 5, magic=0), 0),
        Piece(batch(2**31 + 6, [record()], base_timestamp=-1), 2),
    ]
    top, output = write(place, {"far": Partition({5: pieces})}), place / "new"
    before, files = records(top), tree(top)
    assert kdump(COMMAND, top, "--output", output, searching=False).code == 0
    assert convert(top).code == 0
    for directory in (top, output):
        bases = [int(log.stem) for log in logs(directory / "far-0")]
        assert bases == [5, 2**31 + 5]
        assert first_difference(before, records(directory)) is None
        assert stale_indexes(directory.glob("*/*.log")) == []
        assert above_info(directory) == []
        assert nothing_to_do(directory)
    assert kdump("undo", top / "far-0", "--apply", searching=False).code == 0
    assert tree(top) == files


# --- the receipt


@pytest.mark.slow
def test_as_many_processes_as_one_likes_make_the_same_of_it(place: Path) -> None:
    top = write(place, block(0, FEW))
    ids = [kdump(COMMAND, top, "--jobs", str(jobs), searching=False).ids for jobs in (1, 2)]
    assert ids[0] == ids[1]
    made = []
    for jobs in (1, 2):
        output = place / f"by {jobs}"
        assert (
            kdump(COMMAND, top, "--output", output, "--jobs", str(jobs), searching=False).code == 0
        )
        made.append(tree(output))
    assert made[0] == made[1]
    assert kdump(COMMAND, top, "--apply", "--jobs", "2", searching=False).code == 0
    assert {name: data for name, data in tree(top).items() if name in made[0]} == made[0]


def misinformed(
    receipt: JsonObject,
    partition: Partition,
    before: Sequence[JsonObject],
    sizes: Mapping[str, tuple[int, int]],
) -> list[str]:
    """The converted logs whose facts in the receipt are wrong.

    ``before`` are the records as they were, ``sizes`` those of logs before and after.
    """
    bases = sorted(partition.segments)
    wrong = []
    for base, end in zip(bases, [*bases[1:], 2**63], strict=True):
        name = f"{base:020d}.log"
        converted = receipt["converted"].get(name)
        if not any(piece.is_legacy for piece in partition.segments[base]):
            wrong += [name] if converted else []
            continue
        lines = [line for line in before if base <= line["offset"] < end]
        facts = {
            "records": len(lines),
            "digest_before": digest(lines),
            "digest_after": digest(lines),
            "bytes_before": sizes[name][0],
            "bytes_after": sizes[name][1],
        }
        if not converted or converted | facts != converted:
            wrong.append(name)
    return wrong


def digest(lines: Sequence[JsonObject]) -> str:
    """The digest over records by its definition, from a dump of them."""
    hashed = xxhash.xxh3_128()
    for line in lines:
        timestamp = -1 if line["timestamp"] is None else line["timestamp"]
        key, value = as_bytes(line, "key"), as_bytes(line, "value")
        headers = [
            (as_bytes(header, "key"), as_bytes(header, "value")) for header in line["headers"]
        ]
        appended = line["timestamp_type"] == "LogAppendTime"
        hashed.update(struct.pack(">qqB", line["offset"], timestamp, appended))
        hashed.update(struct.pack(">iii", size(key), size(value), len(headers)))
        hashed.update((key or b"") + (value or b""))
        for pair in headers:
            hashed.update(struct.pack(">ii", *map(size, pair)))
            hashed.update(b"".join(part or b"" for part in pair))
    return hashed.hexdigest()


def size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


# --- what is refused

_SOUND = [message(offset, b"value %d" % offset) for offset in range(6)]
_INNER = [message(offset) for offset in range(3)]


@pytest.mark.parametrize(
    "pieces",
    first_of(
        [
            [*_SOUND[:3], flip(_SOUND[3], -1), *_SOUND[4:]],
            [*_SOUND, _SOUND[0][:-5]],
            [*_SOUND, bytes(300)],
            [*_SOUND[:3], *_SOUND[2:]],
            [*_SOUND, wrapper(8, [*_INNER[:2], flip(_INNER[2], -1)], codec="gzip")],
            [*_SOUND, wrapper(8, [*_INNER[:2], _INNER[2][:-1]], codec="lz4")],
            [*_SOUND, wrapper(8, [_INNER[0], _INNER[2], _INNER[1], _INNER[2]], codec="lz4")],
            [*_SOUND, wrapper(8, [wrapper(2, _INNER, codec="gzip")], codec="gzip")],
            [*_SOUND, message(8, b"no codec", attributes=2)],
            [*_SOUND, wrapper(6, _INNER, codec="snappy")],
        ],
        count=5,
        every=1,
    ),
    ids=[
        "bad checksum",
        "torn tail",
        "preallocated",
        "offset twice",
        "bad checksum inside",
        "cut off inside",
        "backwards inside",
        "nested",
        "not snappy",
        "wrapper reaches back",
    ],
)
def test_damage_is_refused_with_the_way_out(pieces: list[bytes], place: Path) -> None:
    top = write(
        place, {"sound": forged(1), "damaged": Partition({0: [Piece(d, 1) for d in pieces]})}
    )
    files = tree(top)
    ran = kdump(COMMAND, top, "--output", place / "new", searching=False)
    assert ran.code == 6, ran
    assert "truncate-to-valid" in ran.said
    assert "salvage" in ran.said
    assert [path.name for path in (place / "new").iterdir()] == ["sound-0"]
    ran = kdump(COMMAND, top, "--apply", searching=False)
    assert ran.code == 6, ran
    assert "truncate-to-valid" in ran.said
    assert "salvage" in ran.said
    assert [Path(receipt["partition"]).name for receipt in ran.of("receipt")] == ["sound-0"]
    left = {name: data for name, data in tree(top).items() if name.startswith("damaged")}
    assert left == {name: data for name, data in files.items() if name.startswith("damaged")}
    assert not (top / "damaged-0/.kdump").exists()
