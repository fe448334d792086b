"""Arguments that do not fit are refused, in both builds, and nothing is written beyond a view.

Of each function there is one call that it accepts; in each case one argument is spoiled.
"""

from __future__ import annotations

from array import array
from importlib import import_module
from typing import Any

import pytest

from kdump.format.kernel import columns as _columns
from kdump.format.kernel import compacted as _compacted
from kdump.format.kernel import digest as _digest
from kdump.format.kernel import entries as _entries
from kdump.format.kernel import events as _events
from kdump.format.kernel import headers as _headers
from kdump.format.kernel import lines as _lines
from kdump.format.kernel import producers as _producers
from kdump.format.kernel import records as _records
from kdump.format.kernel import recovery as _recovery
from kdump.format.kernel import replay as _replay
from kdump.format.kernel import select as _select
from support.forge import batch, message, record
from support.kernel_builds import BUILT, PACKAGE, RECORD_WIDTH, WIDTH, columns, load_plain, rows_of

BATCHES = [batch(0, [record(b"value", b"key")]), batch(1, [record(b"value", b"key")])]
DATA = b"".join(BATCHES)
BLOCK = record(b"value", b"key", [(b"name", b"x")]).encode(0, 0)
OLD = message(0, b"value", magic=1)
HUGE = 2**62


def zeros(length: int) -> array[int]:
    return array("q", bytes(8 * length))


def rows() -> array[int]:
    return rows_of(BATCHES)


def record_rows() -> array[int]:
    row = columns(RECORD_WIDTH)
    assert _records.read_records(BLOCK, 0, 1, 0, 0, False, 0, -1, row)[0] == 1
    return row


def changed(numbers: array[int], place: int, number: int) -> array[int]:
    """A copy with one number changed."""
    copy = array(numbers.typecode, numbers)
    copy[place] = number
    return copy


def old_rows() -> array[int]:
    row = columns(RECORD_WIDTH)
    assert _records.read_messages(OLD, 0, True, 0, False, 0, -1, row)[0] == 1
    return row


EVENTS = len(_producers.EVENT_FIELDS)
STATE = len(_replay.STATE_FIELDS)
FORM = b"form", array("q", [1, 0, 2, 3])
PIECES = [b"piece"] * 8
KEY, VALUE, HEADERS = 2, 4, 6


def gathering() -> list[Any]:
    state = zeros(_events.GATHER_FIELDS)
    state[_events.G_LAST] = -1
    return [
        rows(), 0, DATA, 0, state, zeros(4 * 4), zeros(8), zeros(10 * 4), zeros(EVENTS * 4),
        zeros(4 * 4), zeros(7 * _producers.LISTED), zeros(3 + RECORD_WIDTH),
    ]  # fmt: skip


def folding() -> list[Any]:
    state = zeros(_replay.FOLD_FIELDS)
    state[_replay.F_OLDEST] = state[_replay.F_NEWEST] = -1
    return [
        zeros(EVENTS), zeros(10), 0, state, zeros(STATE * 4), zeros(8), zeros(4 * 4),
        zeros(8 * _producers.KINDS * _producers.LISTED),
    ]  # fmt: skip


def writing(*, lines_of: bytes, rows_of: array[int], timed: bool) -> list[Any]:
    return [
        rows()[:WIDTH], array("q", [0, 1]), rows_of, lines_of, 0, 0, timed, PIECES, *FORM,
        bytearray(900),
    ]  # fmt: skip


def judging() -> list[Any]:
    offsets, state = array("i", [0, 1]), zeros(_entries.STATE_FIELDS)
    state[_entries.J_STOP] = 2
    return [rows(), 0, offsets, array("i", [0, 90]), state, zeros(_entries.FOUND_NUMBERS)]


def keeping() -> list[Any]:
    width = len(_compacted.ENTRY_FIELDS)
    return [
        record_rows(), 0, BLOCK, zeros(2 * width), zeros(4), bytearray(99),
        zeros(len(_compacted.STATE_FIELDS)),
    ]  # fmt: skip


#: The functions with arguments that they accept.
ACCEPTED: dict[str, list[Any]] = {
    "headers.read_header": [DATA, 0, columns(WIDTH)],
    "headers.scan_headers": [
        DATA, 0, len(DATA), columns(WIDTH * 2), columns(2), columns(_headers.USUAL_FIELDS),
    ],
    "headers.touch": [DATA, 0, len(DATA)],
    "headers.skip_sound": [DATA, rows(), array("q", [0, 1]), 0, lambda _: 0, lambda _: 0],
    "headers.tally": [rows(), zeros(_headers.TALLY_FIELDS)],
    "headers.next_candidate": [DATA, 0, len(DATA), len(DATA), -1, 100],
    "records.read_records": [BLOCK, 0, 1, 0, 0, False, 0, -1, columns(RECORD_WIDTH)],
    "records.records_match": [rows(), 0, DATA[61 : len(BATCHES[0])], columns(RECORD_WIDTH)],
    "records.skip_matching": [rows(), 0, DATA, columns(RECORD_WIDTH)],
    "columns.read_headers": [BLOCK, record_rows()[HEADERS], 1],
    "columns.fill_headers": [BLOCK, record_rows(), zeros(3), columns(4)],
    "records.read_messages": [OLD, 0, True, 0, False, 0, -1, columns(RECORD_WIDTH)],
    "records.read_neighbours": [rows(), 0, DATA, columns(RECORD_WIDTH * 2), columns(3)],
    "records.read_block": [rows(), 0, DATA[61 : len(BATCHES[0])], columns(RECORD_WIDTH)],
    "digest.fold_records": [BLOCK, record_rows(), 0, False, False, bytearray(200)],
    "digest.copy_headers": [DATA, 0, rows(), 0, bytearray(200)],
    "digest.subtract_expected": [rows(), columns(2 * WIDTH), zeros(2 * _digest.PRODUCERS)],
    "digest.add_expected": [
        zeros(2 * WIDTH), 0, 2, 0, len(DATA), zeros(2 * _digest.PRODUCERS + 5),
    ],
    "digest.put_planes": [rows(), 1, WIDTH, bytearray(16)],
    "digest.add_plane": [bytes(2), 0, 1, WIDTH, zeros(2 * WIDTH)],
    "recovery.recover": [rows(), 0, zeros(len(_recovery.RECOVERY_FIELDS)), columns(4), columns(4)],
    "recovery.close_times": [zeros(len(_recovery.RECOVERY_FIELDS)), columns(2)],
    "recovery.count": [rows(), 0, 2, zeros(len(_recovery.COUNT_FIELDS))],
    "recovery.follow": [DATA, 0, len(DATA), zeros(len(_recovery.FOLLOW_FIELDS))],
    "recovery.take": [zeros(len(_recovery.FOLLOW_FIELDS)), 0, 0],
    "entries.disorder_of_offsets": [array("i", [0, 1]), array("i", [0, 1]), columns(2)],
    "entries.disorder_of_times": [array("q", [0, 1]), array("i", [0, 1]), columns(2)],
    "entries.judge_offsets": judging(),
    "entries.pass_over": [judging()[3], 100, *judging()[4:]],
    "entries.judge_times": [rows(), 0, array("q", [0, 1]), array("i", [0, 1]), *judging()[4:]],
    "entries.fold_index": [rows(), bytes(8), 0, zeros(_entries.INDEX_FIELDS), columns(2)],
    "entries.unfold_index": [rows(), zeros(2), 0, zeros(_entries.INDEX_FIELDS), bytearray(8)],
    "entries.fold_times": [rows(), bytes(12), 0, zeros(_entries.INDEX_FIELDS), columns(2)],
    "entries.unfold_times": [rows(), zeros(2), 0, zeros(_entries.INDEX_FIELDS), bytearray(12)],
    "events.hash_producers": [array("q", [1, 2, 3]), 1, 3, zeros(4)],
    "events.read_marker": [rows(), rows(), 0, 0, 70, columns(RECORD_WIDTH), columns(3)],
    "events.gather": gathering(),
    "replay.fold": folding(),
    "replay.touched": [zeros(STATE * 2), 2, 0, columns(STATE)],
    "columns.fill": [
        rows(), array("q", [0, 1, 1]), record_rows(), _columns.OWN_MAGIC, 0, columns(4),
        array("i", [0] * 2), array("h", [0]), array("b", [0] * 3), bytearray(3),
    ],
    "columns.gather": [
        record_rows(), RECORD_WIDTH, KEY, BLOCK, 0, array("i", [0, 0]), bytearray(1), bytearray(9),
    ],
    "columns.count_headers": [record_rows(), 0, array("i", [0, 0])],
    "select.keep_records": [record_rows(), BLOCK, 0, 9, 0, 9, b"key"],
    "select.sum_batches": [rows(), zeros(_select.SUM_FIELDS)],
    "compacted.keep_latest": keeping(),
    "compacted.skip_commits": [record_rows(), 0, BLOCK],
    "compacted.fill_slots": [keeping()[3], 0, zeros(4)],
    "compacted.entry_rows": [keeping()[3], 2, columns(2 * RECORD_WIDTH)],
    "ranges.keep_in_ranges": [
        record_rows(), array("q", [0, 1, 1]), rows(), 9, array("q", [0, 9]), 9,
    ],
    "ranges.offset_bounds": [record_rows()],
    "ranges.join_hours": [record_rows(), 9, columns(3)],
    "ranges.count_dense": [rows(), 0, 2],
    "ranges.join_batches": [rows(), columns(6)],
    "ranges.join_records": [record_rows(), array("q", [0, 1, 1]), rows(), columns(3)],
    "encode.encode_records": [BLOCK, record_rows(), 0, False, 99, array("q", [0] * 3 + [-1, 0, 0]),
                              bytearray(99)],
    "encode.kind_end": [rows(), 0],
    "lines.batch_lines": [rows(), 0, *FORM, bytearray(900)],
    "lines.json_lines": writing(lines_of=BLOCK, rows_of=changed(record_rows(), 7, 0), timed=True),
    "lines.text_lines": writing(lines_of=BLOCK, rows_of=changed(record_rows(), 7, 0), timed=True),
}  # fmt: skip
# Its bytes are any: what is looked at is where they lie.
ACCEPTED["events.read_marker"][0] = DATA

FAR_KEY = changed(record_rows(), KEY, len(BLOCK))
FAR_HEADERS = changed(record_rows(), HEADERS, -1)
PLAIN_FAR_KEY = changed(FAR_KEY, 7, 0)


def state(function: str, place: int, number: int, argument: int) -> array[int]:
    """The state that a function accepts, with one number changed."""
    return changed(ACCEPTED[function][argument], place, number)


#: A function, the number of an argument, and what does not fit there.
REFUSED: list[tuple[str, int, Any]] = [
    ("headers.read_header", 2, columns(WIDTH - 1)),
    ("headers.scan_headers", 1, -1),
    ("headers.scan_headers", 2, -1),
    ("headers.scan_headers", 5, columns(_headers.USUAL_FIELDS - 1)),
    ("headers.touch", 1, -1),
    ("headers.touch", 2, len(DATA) + 1),
    ("headers.skip_sound", 2, array("q", [2])),
    ("headers.skip_sound", 2, array("q", [-1])),
    ("headers.skip_sound", 3, -1),
    ("headers.tally", 1, zeros(_headers.TALLY_FIELDS - 1)),
    ("compacted.keep_latest", 0, FAR_KEY),
    ("compacted.keep_latest", 0, changed(record_rows(), VALUE, len(BLOCK))),
    ("compacted.keep_latest", 1, -1),
    ("compacted.keep_latest", 1, 2),
    ("compacted.keep_latest", 4, zeros(3)),
    ("compacted.keep_latest", 4, zeros(5)),
    ("compacted.keep_latest", 6, zeros(len(_compacted.STATE_FIELDS) - 1)),
    ("compacted.keep_latest", 6, state("compacted.keep_latest", _compacted.S_ENTRIES, 3, 6)),
    ("compacted.keep_latest", 6, state("compacted.keep_latest", _compacted.S_USED, 100, 6)),
    ("compacted.skip_commits", 0, FAR_KEY),
    ("compacted.skip_commits", 0, changed(record_rows(), VALUE, len(BLOCK))),
    ("compacted.skip_commits", 1, -1),
    ("compacted.skip_commits", 1, 2),
    ("compacted.fill_slots", 1, -1),
    ("compacted.fill_slots", 1, 3),
    ("compacted.fill_slots", 2, zeros(3)),
    ("compacted.entry_rows", 1, 3),
    ("compacted.entry_rows", 2, columns(2 * RECORD_WIDTH - 1)),
    ("headers.next_candidate", 1, -1),
    ("records.read_records", 1, -1),
    ("records.records_match", 1, 2),
    ("records.records_match", 1, -1),
    ("records.records_match", 3, columns(RECORD_WIDTH - 1)),
    ("records.skip_matching", 1, -1),
    ("records.skip_matching", 3, columns(RECORD_WIDTH - 1)),
    ("columns.read_headers", 1, -1),
    ("columns.read_headers", 1, len(BLOCK)),
    ("columns.read_headers", 2, 2),
    ("columns.fill_headers", 1, FAR_HEADERS),
    ("columns.fill_headers", 1, changed(record_rows(), HEADERS, len(BLOCK))),
    ("columns.fill_headers", 2, zeros(2)),
    ("columns.fill_headers", 2, array("q", [-1, 0, 0])),
    ("columns.fill_headers", 2, array("q", [0, -1, 0])),
    ("records.read_messages", 1, -1),
    ("records.read_neighbours", 1, -1),
    ("records.read_neighbours", 1, 3),
    ("records.read_neighbours", 4, columns(0)),
    ("records.read_block", 1, 2),
    ("records.read_block", 1, -1),
    ("digest.fold_records", 1, FAR_HEADERS),
    ("digest.fold_records", 1, changed(record_rows(), HEADERS, len(BLOCK))),
    ("digest.fold_records", 2, -1),
    ("digest.copy_headers", 1, -1),
    ("digest.copy_headers", 3, -1),
    ("digest.subtract_expected", 1, columns(2 * WIDTH - 1)),
    ("digest.subtract_expected", 2, zeros(2 * _digest.PRODUCERS - 1)),
    ("digest.add_expected", 0, zeros(2 * WIDTH - 1)),
    ("digest.add_expected", 1, -1),
    ("digest.add_expected", 2, 3),
    ("digest.add_expected", 3, -1),
    ("digest.add_expected", 4, -1),
    ("digest.add_expected", 5, zeros(2 * _digest.PRODUCERS + 4)),
    ("digest.put_planes", 1, WIDTH),
    ("digest.put_planes", 1, -1),
    ("digest.put_planes", 2, 0),
    ("digest.put_planes", 3, bytearray(15)),
    ("digest.add_plane", 1, 8),
    ("digest.add_plane", 1, -1),
    ("digest.add_plane", 2, WIDTH),
    ("digest.add_plane", 2, -1),
    ("digest.add_plane", 3, 0),
    ("digest.add_plane", 4, zeros(2 * WIDTH - 1)),
    ("recovery.recover", 1, -1),
    ("recovery.recover", 2, zeros(len(_recovery.RECOVERY_FIELDS) - 1)),
    ("recovery.close_times", 0, zeros(len(_recovery.RECOVERY_FIELDS) - 1)),
    ("recovery.count", 1, -1),
    ("recovery.count", 1, 3),
    ("recovery.count", 2, 3),
    ("recovery.count", 3, zeros(len(_recovery.COUNT_FIELDS) - 1)),
    ("recovery.follow", 1, -1),
    ("recovery.follow", 2, -1),
    ("recovery.follow", 3, zeros(len(_recovery.FOLLOW_FIELDS) - 1)),
    ("recovery.take", 0, zeros(len(_recovery.FOLLOW_FIELDS) - 1)),
    ("entries.disorder_of_offsets", 1, array("i", [0])),
    ("entries.disorder_of_times", 1, array("i", [0])),
    ("entries.judge_offsets", 2, array("i", [0])),
    ("entries.judge_offsets", 3, array("i", [0])),
    ("entries.judge_offsets", 4, zeros(_entries.STATE_FIELDS - 1)),
    ("entries.judge_offsets", 4, state("entries.judge_offsets", _entries.J_NEXT, -1, 4)),
    ("entries.judge_offsets", 5, zeros(_entries.FOUND_NUMBERS - 1)),
    ("entries.pass_over", 0, array("i", [0])),
    ("entries.pass_over", 2, zeros(_entries.STATE_FIELDS - 1)),
    ("entries.pass_over", 3, zeros(_entries.FOUND_NUMBERS - 1)),
    ("entries.judge_times", 2, array("q", [0])),
    ("entries.judge_times", 3, array("i", [0])),
    ("entries.judge_times", 4, zeros(_entries.STATE_FIELDS - 1)),
    ("entries.judge_times", 5, zeros(_entries.FOUND_NUMBERS - 1)),
    *(
        (f"entries.{function}", place, wrong)
        for function, room in (
            ("fold_index", columns(1)),
            ("unfold_index", bytearray(7)),
            ("fold_times", columns(1)),
            ("unfold_times", bytearray(11)),
        )
        for place, wrong in (
            (3, zeros(_entries.INDEX_FIELDS - 1)),
            (3, array("q", [-1, 0, 0, 0])),
            (4, room),
        )
    ),
    ("events.hash_producers", 1, 0),
    ("events.hash_producers", 2, 4),
    ("events.hash_producers", 2, -1),
    ("events.hash_producers", 3, zeros(3)),
    ("events.hash_producers", 3, zeros(2)),
    ("events.read_marker", 2, WIDTH + 1),
    ("events.read_marker", 2, -1),
    ("events.read_marker", 3, -1),
    ("events.read_marker", 4, len(DATA) + 1),
    ("events.read_marker", 5, columns(RECORD_WIDTH - 1)),
    ("events.read_marker", 6, columns(2)),
    ("events.gather", 1, -1),
    ("events.gather", 4, zeros(_events.GATHER_FIELDS - 1)),
    *(
        ("events.gather", 4, state("events.gather", place, number, 4))
        for place, number in (
            (_events.G_PRODUCERS, 5),
            (_events.G_PRODUCERS, -1),
            (_events.G_RUNS, 5),
            (_events.G_EVENTS, 5),
            (_events.G_EPOCHS, 5),
            (_events.G_BREAKS, -1),
            (_events.G_LAST, 0),
            (_events.G_LAST, -2),
        )
    ),
    ("events.gather", 6, zeros(7)),
    ("events.gather", 10, zeros(7 * _producers.LISTED - 1)),
    ("events.gather", 11, zeros(2 + RECORD_WIDTH)),
    ("replay.fold", 0, zeros(EVENTS - 1)),
    ("replay.fold", 0, changed(zeros(EVENTS), 0, _producers.KINDS)),
    ("replay.fold", 0, changed(zeros(EVENTS), 0, -1)),
    ("replay.fold", 1, zeros(9)),
    ("replay.fold", 3, zeros(_replay.FOLD_FIELDS - 1)),
    *(
        ("replay.fold", 3, state("replay.fold", place, number, 3))
        for place, number in (
            (_replay.F_PRODUCERS, 5),
            (_replay.F_EVENT, -1),
            (_replay.F_RUN, -1),
            (_replay.F_ABORTED, 5),
            (_replay.F_VIOLATIONS, -1),
            (_replay.F_VIOLATIONS, 99),
            (_replay.F_OLDEST, 0),
            (_replay.F_NEWEST, -2),
        )
    ),
    ("replay.fold", 5, zeros(6)),
    ("replay.fold", 7, zeros(8 * _producers.KINDS * _producers.LISTED - 1)),
    ("replay.touched", 1, 3),
    ("replay.touched", 1, -1),
    ("columns.fill", 1, array("q", [0, 1])),
    ("columns.fill", 1, array("q", [-1, 0, 0])),
    ("columns.fill", 1, array("q", [1, 0, 0])),
    ("columns.fill", 1, array("q", [0, 2, 2])),
    ("columns.fill", 4, -1),
    ("columns.fill", 5, columns(3)),
    ("columns.fill", 6, array("i", [0])),
    ("columns.fill", 8, array("b", [0] * 2)),
    ("columns.fill", 9, bytearray(2)),
    ("columns.gather", 1, 1),
    ("columns.gather", 2, RECORD_WIDTH - 1),
    ("columns.gather", 2, -1),
    ("columns.gather", 4, 2),
    ("columns.gather", 4, -1),
    ("columns.gather", 5, array("i", [-1, 0])),
    ("columns.gather", 5, array("i", [10, 0])),
    ("columns.gather", 6, bytearray(0)),
    ("columns.count_headers", 1, -1),
    ("select.keep_records", 0, FAR_KEY),
    ("select.sum_batches", 1, zeros(_select.SUM_FIELDS - 1)),
    *(
        (function, 1, array("q", starts))
        for function in ("ranges.keep_in_ranges", "ranges.join_records")
        for starts in ([0, 1], [-1, 0, 0], [1, 0, 0], [0, 2, 2])
    ),
    ("ranges.offset_bounds", 0, columns(0)),
    ("ranges.join_hours", 2, columns(2)),
    ("ranges.count_dense", 1, -1),
    ("ranges.count_dense", 1, 2),
    ("ranges.count_dense", 2, 0),
    ("ranges.count_dense", 2, 3),
    ("ranges.join_batches", 1, columns(5)),
    ("ranges.join_records", 3, columns(2)),
    ("encode.encode_records", 2, -1),
    ("encode.encode_records", 5, zeros(5)),
    ("encode.encode_records", 5, state("encode.encode_records", 0, 100, 5)),
    ("encode.encode_records", 5, state("encode.encode_records", 0, -1, 5)),
    ("encode.kind_end", 1, 2),
    ("encode.kind_end", 1, -1),
    ("lines.batch_lines", 1, -1),
    *(
        (f"lines.{function}", argument, marks)
        for function, argument in (("batch_lines", 3), ("json_lines", 9), ("text_lines", 9))
        for marks in (
            array("q", [1]),
            array("q", [5, 0]),
            array("q", [2, 0, 1, 0]),
            array("q", [1, len(_lines.FORM_FIELDS)]),
            array("q", [1, -1]),
        )
    ),
    *(
        (f"lines.{function}", argument, value)
        for function in ("json_lines", "text_lines")
        for argument, value in (
            (1, array("q", [0])),
            (1, array("q", [0, 2])),
            (2, PLAIN_FAR_KEY),
            (2, changed(changed(record_rows(), 7, 0), KEY + 3, HUGE)),
            (4, -1),
            (5, -1),
        )
    ),
]


#: What finds out in a row that it does not fit, behind others that it wrote already.
MIDWAY = {"digest.fold_records", "lines.json_lines", "lines.text_lines", "replay.fold"}


def copied(arguments: list[Any]) -> list[Any]:
    """Arguments of a call; what is filled is filled in a copy."""
    return [
        type(each)(each) if isinstance(each, bytearray)
        else array(each.typecode, each) if isinstance(each, array)
        else each
        for each in arguments
    ]  # fmt: skip


@pytest.fixture(params=["installed", "plain"])
def build(request: pytest.FixtureRequest) -> Any:
    """What gives a function by the name of its module and its own, compiled and plain."""

    def function(name: str) -> Any:
        module, _, called = name.partition(".")
        full = f"{PACKAGE}.{module}"
        loaded: Any = import_module(full) if request.param == "installed" else load_plain(full)
        return getattr(loaded, called)

    return function


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_fits_is_accepted(build: Any, name: str) -> None:
    build(name)(*copied(ACCEPTED[name]))


@pytest.mark.parametrize(("name", "argument", "value"), REFUSED)
def test_what_does_not_fit_is_refused(build: Any, name: str, argument: int, value: Any) -> None:
    arguments = copied(ACCEPTED[name])
    arguments[argument] = value
    before = copied(arguments)
    with pytest.raises(ValueError, match=r"^expected .*, found "):
        build(name)(*arguments)
    assert all(
        new == old
        for new, old in zip(arguments, before, strict=True)
        if isinstance(new, bytearray | array) and name not in MIDWAY
    )


def test_a_message_of_which_no_checksum_is_there_is_refused(build: Any) -> None:
    old_batch = rows_of([OLD])
    arguments = writing(lines_of=OLD, rows_of=old_rows(), timed=False)
    arguments[0] = old_batch
    build("lines.text_lines")(*copied(arguments))
    for start in (-1, len(OLD) - 25):
        arguments[2] = changed(old_rows(), HEADERS, start)
        with pytest.raises(ValueError, match="expected a message from"):
            build("lines.text_lines")(*copied(arguments))


def test_a_size_that_no_header_says_is_counted_with_the_largest(build: Any) -> None:
    state = zeros(_select.SUM_FIELDS)
    build("select.sum_batches")(changed(rows(), 1, HUGE), state)
    assert state[_select.S_SIZES :][-1] == 1


def test_rows_before_the_first_batch_are_not_read(build: Any) -> None:
    turned = rows()[WIDTH:] + rows()[:WIDTH]
    assert build("records.skip_matching")(turned, 1, DATA, columns(RECORD_WIDTH)) == 1
    room = columns(RECORD_WIDTH * 2)
    assert build("records.read_neighbours")(turned, 1, DATA, room, columns(3)) == 0


def test_every_function_with_views_is_called_here() -> None:
    functions = {
        f"{module}.{name}"
        for module in BUILT
        for name, value in vars(load_plain(f"{PACKAGE}.{module}")).items()
        if getattr(value, "__module__", "") == f"plain_{module}" and name[0] != "_"
    }
    # These read within the views that they get, whatever is in them, and fill nothing.
    safe = {
        "records.count_messages",
        "columns.measure",
        "select.keep_batches",
        "ranges.keep_committed",
    }
    assert functions - safe == set(ACCEPTED)
