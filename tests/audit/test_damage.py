"""What damage is seen, for each magic and codec: cuts at every byte, and every bit flipped.

No checksum covers the first 17 bytes of a batch of magic 2, nor the first 12 of a message of magic
0 or 1. Which flips there nothing in one segment tells is pinned below; ``pytest -s`` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kdump.audit.run.verify import verify
from kdump.audit.targets.context import read_context
from kdump.audit.targets.target import assign, open_roots
from kdump.format.batch import BatchTable
from kdump.storage.walk import Damage, Reason
from support.forge import CODECS, batch, checkpoint, flip, message, record, segment, wrapper
from support.long_samples import first_of
from support.memory import assert_tiles, batches, pieces

pytestmark = pytest.mark.loops

BASE = 1000
COUNT = 5
EACH = 3
UNCOVERED = {0: 12, 1: 12, 2: 17}


def values(index: int) -> list[bytes]:
    return [b"value %d.%d " % (index, number) * 3 for number in range(EACH)]


def batch_of_magic_2(index: int, codec: str, stride: int = EACH) -> bytes:
    parts = [record(value, b"key") for value in values(index)]
    return batch(BASE + stride * index, parts, codec=codec, leader_epoch=5)


def numbered_batch(index: int) -> bytes:
    """A batch of an idempotent producer."""
    return batch(
        BASE + EACH * index,
        [record(value, b"key") for value in values(index)],
        leader_epoch=5,
        producer_id=7,
        producer_epoch=0,
        base_sequence=EACH * index,
    )


def single_message(index: int, magic: int) -> bytes:
    return message(BASE + index, values(index)[0], b"key", magic=magic)


def wrapped_messages(index: int, codec: str, magic: int) -> bytes:
    first = BASE + EACH * index
    inner = [
        message(number if magic else first + number, value, b"key", magic=magic)
        for number, value in enumerate(values(index))
    ]
    return wrapper(first + EACH - 1, inner, codec=codec, magic=magic)


#: Small segments by magic and codec, of which one has gaps in its offsets.
FORMS: Mapping[str, tuple[int, Sequence[bytes]]] = {
    **{
        f"magic 2, {codec}": (2, [batch_of_magic_2(index, codec) for index in range(COUNT)])
        for codec in CODECS
    },
    **{
        f"magic {magic}, none": (magic, [single_message(index, magic) for index in range(COUNT)])
        for magic in (0, 1)
    },
    **{
        f"magic {magic}, {codec}": (
            magic,
            [wrapped_messages(index, codec, magic) for index in range(COUNT)],
        )
        for magic in (0, 1)
        for codec in ("gzip", "snappy", "lz4")
    },
    "magic 2, none, numbered": (2, [numbered_batch(index) for index in range(COUNT)]),
    "magic 2, compacted": (2, [batch_of_magic_2(index, "none", 32) for index in range(COUNT)]),
}
EVERY_FORM = pytest.mark.parametrize("form", FORMS)


@EVERY_FORM
def test_the_segments_are_sound(form: str) -> None:
    magic, parts = FORMS[form]
    found = batches(segment(parts), BASE)
    assert [batch.size for batch in found] == [len(part) for part in parts]
    assert {batch.magic for batch in found} == {magic}
    assert {batch.codec.label for batch in found} <= {form.split(", ")[1], "none"}


@EVERY_FORM
def test_cut_at_every_byte(form: str) -> None:
    """The sound prefix is exactly the batches before the cut; the rest is one torn tail."""
    _, parts = FORMS[form]
    data = segment(parts)
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    for cut in range(len(data)):
        found = pieces(data[:cut], BASE)
        assert_tiles(data[:cut], found)
        whole = [end for end in ends if end <= cut]
        assert [b.position + b.size for p in found if isinstance(p, BatchTable) for b in p] == whole
        torn = [piece for piece in found if isinstance(piece, Damage)]
        left = cut - (whole[-1] if whole else 0)
        assert [piece.size for piece in torn] == ([left] if left else [])
        # An offset begins with zeros, so a tail of few bytes may be nothing but zeros.
        expected = {Reason.TORN_TAIL} if left > 6 else {Reason.TORN_TAIL, Reason.PREALLOCATED}
        assert {piece.reason for piece in torn} <= expected


@EVERY_FORM
def test_every_bit_flip_in_checksummed_bytes_is_found(form: str) -> None:
    """And it costs the one batch that it is in: the next follows at the end that it claims."""
    magic, parts = FORMS[form]
    data = segment(parts)
    start, end = len(parts[0]), len(parts[0]) + len(parts[1])
    for position in range(start + UNCOVERED[magic], end):  # the checksum too
        for bit in range(8):
            found = pieces(flip(data, position, 1 << bit), BASE)
            assert_tiles(data, found)
            (damage,) = [piece for piece in found if isinstance(piece, Damage)]
            assert (damage.position, damage.size) == (start, len(parts[1]))
            if damage.reason is Reason.BAD_CHECKSUM:
                assert damage.stored_crc != damage.computed_crc
            else:
                # A message whose magic has become 2 or more is too small for a batch.
                assert (damage.reason, position) == (Reason.IMPOSSIBLE_SIZE, start + 16)
                assert magic < 2


@EVERY_FORM
def test_a_wrong_size_costs_the_one_batch_too(form: str) -> None:
    """The next is found by hunting."""
    _, parts = FORMS[form]
    data = segment(parts)
    start = len(parts[0])
    for position in range(start + 8, start + 12):
        for bit in range(8):
            found = pieces(flip(data, position, 1 << bit), BASE)
            assert_tiles(data, found)
            (damage,) = [piece for piece in found if isinstance(piece, Damage)]
            assert (damage.position, damage.size) == (start, len(parts[1]))


# --- what no checksum covers

#: How each finding is drawn below, a dot where there is none; of several on one flip the first is.
DRAWN = {
    "batch-crc-mismatch": "c",
    "batch-size-impossible": "s",
    "torn-tail": "t",
    "batch-below-segment": "b",
    "batch-offsets-inverted": "i",
    "offset-overflow": "h",
    "offsets-not-increasing": "o",
    "records-unreadable": "u",
    "records-offsets": "r",
    "batch-offset-changed": "g",
    "records-missing": "j",
    "leader-epoch-negative": "n",
    "leader-epoch-absent": "a",
    "leader-epoch-falls": "f",
    "offsets-missing": "m",
}
PLACES = {"first": 0, "middle": COUNT // 2, "last": COUNT - 1}
FIELDS = {0: "offset", 8: "size", 12: "leader epoch", 16: "magic"}


def drawn(
    directory: Path, parts: Sequence[bytes], uncovered: int, *, compacted: bool = False
) -> str:
    """A table: a line for each byte, and for each place of a batch a column for each bit.

    The highest bit comes first. A capital letter is a finding that only ``--deep`` has.
    ``compacted``: the cleaner's checkpoint has the partitions; else their settings are unknown.
    """
    directory.mkdir()
    cleaned: list[tuple[str, int, int]] = []
    (directory / "meta.properties").write_text("version=1\nnode.id=1\n")
    starts = {name: sum(map(len, parts[:index])) for name, index in PLACES.items()}
    for name, start in starts.items():
        for byte in range(uncovered):
            for bit in range(8):
                partition = directory / f"{name}.{byte}.{bit}-0"
                partition.mkdir()
                cleaned.append((f"{name}.{byte}.{bit}", 0, BASE))
                flipped = flip(segment(parts), start + byte, 1 << bit)
                (partition / f"{BASE:020d}.log").write_bytes(flipped)
                for extension in ("index", "timeindex"):
                    (partition / f"{BASE:020d}.{extension}").touch()
    if compacted:
        (directory / "cleaner-offset-checkpoint").write_bytes(checkpoint(cleaned))
    quick, deep = found(directory, deep=False), found(directory, deep=True)

    def letter(name: str) -> str:
        assert quick[name] <= deep[name]
        for code, shown in DRAWN.items():
            if code in deep[name]:
                return shown if quick[name] else shown.upper()
        return "."

    lines = [f"{'':16}" + "".join(f"{name:10}" for name in PLACES)]
    for byte in range(uncovered):
        bits = [
            "".join(letter(f"{name}.{byte}.{bit}-0") for bit in reversed(range(8)))
            for name in PLACES
        ]
        lines.append(f"{byte:2} {FIELDS.get(byte, ''):13}" + "  ".join(bits))
    return "".join(f"{line.rstrip()}\n" for line in lines)


def found(directory: Path, *, deep: bool) -> dict[str, set[str]]:
    """The codes of the findings in each partition."""
    roots = open_roots([directory])
    targets = [target for root in roots for target in assign(root)]
    directories = [root.directory for root in roots if root.directory is not None]
    context = read_context(directories, None, 0)
    return {
        verdict.target.path.name: {finding.code.name for finding in verdict.findings}
        for verdict in verify(targets, deep=deep, jobs=1, context=context)
    }


#: As ``drawn`` gives it.
PINNED = {
    "magic 2, none": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  hmmmmmmm
 5              oooooooo  oooooooo  mmmmmmmm
 6              oooooobb  oooooobb  mmmmmmbb
 7              bbbobooo  bbbobooo  bbbbmomm
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssscc  sssssssc  tttttttt
11              sccccccc  sccccccc  stctcttc
12 leader epoch nfffffff  nfffffff  n.......
13              ffffffff  ffffffff  ........
14              ffffffff  ffffffff  ........
15              fffff.f.  ffffffff  .....f.f
16 magic        c.....c.  c.....c.  c.....c.
""",
    "magic 2, none, numbered": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  hggggggg
 5              oooooooo  oooooooo  gggggggg
 6              oooooobb  oooooobb  ggggggbb
 7              bbbobooo  bbbobooo  bbbbgogg
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssscc  sssssssc  tttttttt
11              sccccccc  sccccccc  stctcttc
12 leader epoch nfffffff  nfffffff  n.......
13              ffffffff  ffffffff  ........
14              ffffffff  ffffffff  ........
15              fffff.f.  ffffffff  .....f.f
16 magic        c.....c.  c.....c.  c.....c.
""",
    "magic 2, compacted": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  h.......
 5              oooooooo  oooooooo  ........
 6              oooooobb  oooooboo  .....b..
 7              bbb.b...  ooo.....  .oo.....
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssscc  sssssssc  tttttttt
11              sccccccc  sccccccc  stctcttc
12 leader epoch nfffffff  nfffffff  n.......
13              ffffffff  ffffffff  ........
14              ffffffff  ffffffff  ........
15              fffff.f.  ffffffff  .....f.f
16 magic        c.....c.  c.....c.  c.....c.
""",
    "magic 1, none": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  hmmmmmmm
 5              oooooooo  oooooooo  mmmmmmmm
 6              oooooobb  oooooobb  mmmmmmbb
 7              bbbobooo  bbbobooo  bbbmbomm
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssssc  ssssssss  tttttttt
11              cccccccc  cccccccc  ttcctccc
""",
    "magic 1, lz4": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  h.......
 5              oooooooo  oooooooo  ........
 6              oooooobb  oooooobb  ......bb
 7              bbbobobo  bbbboooo  bbbb.oo.
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssscc  sssssssc  tttttttt
11              sccccccc  sccccccc  stttcttt
""",
    "magic 0, none": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  hmmmmmmm
 5              oooooooo  oooooooo  mmmmmmmm
 6              oooooobb  oooooobb  mmmmmmbb
 7              bbbobooo  bbbobooo  bbbmbomm
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              ssssssss  ssssssss  tttttttt
11              cccccccc  sccccccc  ttctcccc
""",
    "magic 0, lz4": """\
                first     middle    last
 0 offset       booooooo  booooooo  bhhhhhhh
 1              oooooooo  oooooooo  hhhhhhhh
 2              oooooooo  oooooooo  hhhhhhhh
 3              oooooooo  oooooooo  hhhhhhhh
 4              oooooooo  oooooooo  hRRRRRRR
 5              oooooooo  oooooooo  RRRRRRRR
 6              oooooobb  oooooobb  RRRRRRbb
 7              bbboboRO  bbbbooOO  bbbbRoRR
 8 size         ssssssss  ssssssss  sttttttt
 9              ssssssss  ssssssss  tttttttt
10              sssssscc  sssssssc  tttttttt
11              cccccccc  cccccccc  tcccccct
""",
}


@pytest.mark.parametrize("form", first_of(PINNED, 2))
def test_which_flips_outside_the_checksum_are_seen(form: str, tmp_path: Path) -> None:
    magic, parts = FORMS[form]
    table = drawn(tmp_path / "data", parts, UNCOVERED[magic], compacted="compacted" in form)
    print(f"\n{form}\n{table}")
    assert table == PINNED[form]
