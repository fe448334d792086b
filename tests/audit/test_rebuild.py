"""The rebuilt indexes: by the rule of recovery, with damage and disorder left out."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.surveys import of, write
from kdump.audit.facts.small_files import TopicSettings
from kdump.audit.run.verify import verify
from kdump.audit.survey import rebuilt_indexes
from kdump.audit.survey.rebuilt_indexes import Rebuild, RebuiltIndexes
from kdump.audit.survey.survey import survey
from kdump.audit.targets.target import Root, assign
from kdump.format.batch import BatchTable, RecordBatch
from kdump.format.kernel import recovery as _recovery
from kdump.repair.transaction.plan import RebuiltIndex
from kdump.repair.transaction.preparation import make
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import open_path, read_partition
from kdump.storage.paths import as_local
from kdump.storage.source import WindowedFile
from kdump.storage.walk import Damage, walk
from support import forge
from support.damaged import FIRST, batches, name
from support.fixtures_loader import FIXTURES, partitions, topic_configs
from support.forge import TIMESTAMP, batch, flip, record
from support.kernel_builds import load_plain
from support.recipes_indexes import positions

# Any: what is called here is a module that mypy cannot know.
PLAIN: Any = load_plain("kdump.format.kernel.recovery")
ROOM = 1 << 30
INTERVAL = 300

Entries = list[tuple[int, int]]


@pytest.fixture(params=["installed", "plain"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery's loop as it is installed, and as plain Python."""
    monkeypatch.setattr(
        rebuilt_indexes,
        "_recovery",
        _recovery if request.param == "installed" else PLAIN,
    )


def pieces_of(log: Path, base: int) -> list[BatchTable | Damage]:
    with WindowedFile(log) as source:
        return list(walk(source, base))


def built(
    pieces: Sequence[BatchTable | Damage],
    base: int,
    *,
    interval: int = INTERVAL,
    index_bytes: int = 1 << 20,
    room: int = ROOM,
) -> RebuiltIndexes:
    topic = TopicSettings(index_interval_bytes=interval, segment_index_bytes=index_bytes)
    building = Rebuild(base, topic, room=room)
    for piece in pieces:
        building.add(piece)
    return building.finish()


def of_log(log: Path, base: int = 0, *, interval: int = INTERVAL) -> RebuiltIndexes:
    return built(pieces_of(log, base), base, interval=interval)


def model(batches: Iterator[RecordBatch], base: int, interval: int) -> tuple[bytes, bytes, int]:
    """KOD 4.2 batch by batch, leaving out what does not rise: both files, and how many."""
    offsets: Entries = []
    times: Entries = []
    newest, written, indexed, left_out = (-1, base), (-1, base), 0, 0
    for record_batch in batches:
        if not 0 <= record_batch.last_offset - base <= 2**31 - 1:
            left_out += 1
            continue
        if record_batch.max_timestamp > newest[0]:
            newest = record_batch.max_timestamp, record_batch.last_offset
        if record_batch.position - indexed <= interval:
            continue
        if offsets and record_batch.last_offset <= offsets[-1][0]:
            left_out += 1
            continue
        offsets.append((record_batch.last_offset, record_batch.position))
        indexed = record_batch.position
        if times and newest[1] < written[1]:
            left_out += 1
        elif newest[0] > written[0]:
            times.append(newest)
            written = newest
    if times and newest[1] < written[1]:
        left_out += 1
    elif newest[0] > written[0]:
        times.append(newest)
    return forge.offset_index(offsets, base), forge.time_index(times, base), left_out


def sound(pieces: Sequence[BatchTable | Damage]) -> Iterator[RecordBatch]:
    return (batch for piece in pieces if isinstance(piece, BatchTable) for batch in piece)


def check(found: RebuiltIndexes, index: bytes, times: bytes) -> None:
    for file, content in ((found.index, index), (found.time_index, times)):
        assert file.content == content
        assert (file.size, file.sha256) == (len(content), sha256(content).hexdigest())


# --- without damage


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize("interval", [0, 300, 4096])
def test_a_sound_segment_has_what_recovery_writes(tmp_path: Path, interval: int) -> None:
    data = batches(FIRST, 90, 3)
    offsets, times = forge.index_entries(data, FIRST, interval)
    found = of_log(write(tmp_path, *data), interval=interval)
    check(found, forge.offset_index(offsets), forge.time_index(times))
    assert (found.damaged, found.disorder, found.doubtful, found.full) == (False, 0, False, False)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.usefixtures("build")
def test_an_empty_segment_has_empty_indexes() -> None:
    found = built([], 7)
    check(found, b"", b"")


def test_a_segment_without_timestamps_has_an_empty_time_index(tmp_path: Path) -> None:
    data = [forge.message(offset, b"value " * 9, magic=0) for offset in range(30)]
    found = of_log(write(tmp_path, *data))
    assert found.time_index.size == 0
    assert found.index.size > 0


@pytest.mark.parametrize("fixture", FIXTURES)
def test_of_all_fixtures_the_model_says_the_same(fixture: str) -> None:
    for path in partitions(fixture):
        config = topic_configs(fixture).get(path.name.rpartition("-")[0], {})
        interval = int(config.get("index.interval.bytes", 4096))
        for segment in read_partition(path).segments:
            pieces = pieces_of(as_local(segment.log), segment.base_offset)
            index, times, left_out = model(sound(pieces), segment.base_offset, interval)
            found = built(pieces, segment.base_offset, interval=interval)
            check(found, index, times)
            assert left_out == found.disorder == 0


offsets = st.integers(-3, 60) | st.sampled_from([2**31 - 1, 2**31, 2**31 + 5, 2**63 - 1])
rows = st.lists(
    st.tuples(st.integers(26, 200), offsets, st.integers(-1, 30), st.booleans()), max_size=40
)


@pytest.mark.usefixtures("build")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, st.sampled_from([0, 100, 300]), st.sampled_from([0, 1, 20]))
def test_of_any_batches_the_model_says_the_same(
    numbers: list[tuple[int, int, int, bool]], interval: int, base: int
) -> None:
    tables: list[BatchTable] = []
    position = 0
    made: list[RecordBatch] = []
    for size, last, stamp, apart in numbers:
        fields = (position, size, last, last, 0, 2, 0, 0, stamp, stamp, -1, -1, -1, 1)
        made.append(RecordBatch(*fields))
        position += size
        if apart or not tables:
            tables.append(BatchTable.of(made[-1]))
        else:
            joined = memoryview(bytes(tables[-1].rows) + bytes(BatchTable.of(made[-1]).rows))
            tables[-1] = BatchTable(joined.cast("q"))
    index, times, left_out = model(iter(made), base, interval)
    found = built(tables, base, interval=interval)
    check(found, index, times)
    assert found.disorder == left_out


# --- what recovery stops at


@pytest.mark.usefixtures("build")
def test_both_sides_of_damage_are_indexed(tmp_path: Path) -> None:
    data = batches(FIRST)
    data[4] = flip(data[4], -1)
    pieces = pieces_of(write(tmp_path, *data), FIRST)
    found = built(pieces, FIRST)
    assert found.damaged
    index, times, _ = model(sound(pieces), FIRST, INTERVAL)
    check(found, index, times)
    entries = [int.from_bytes(index[at + 4 : at + 8], "big") for at in range(0, len(index), 8)]
    assert set(entries) < set(positions(data))
    assert max(entries) > positions(data)[5]


def test_a_lost_page_has_an_index_after_it(tmp_path: Path) -> None:
    data = b"".join(batches(FIRST))
    log = write(tmp_path, data[:700], bytes(300), data[1000:])
    pieces = pieces_of(log, FIRST)
    assert any(piece.hunted for piece in pieces if isinstance(piece, BatchTable))
    found = built(pieces, FIRST)
    check(found, *model(sound(pieces), FIRST, INTERVAL)[:2])
    assert (found.damaged, found.doubtful) == (True, False)


def test_what_may_lie_in_a_value_is_left_out(tmp_path: Path) -> None:
    nested = batch(40, [record(b"".join(batches(41, 8, 1)))], length=1 << 20)
    data = [*batches(FIRST)[:4], nested, *batches(FIRST)[5:]]
    pieces = pieces_of(write(tmp_path, *data), FIRST)
    assert sum(isinstance(piece, Damage) for piece in pieces) == 2
    found = built(pieces, FIRST)
    assert found.doubtful
    tables = [piece for piece in pieces if isinstance(piece, BatchTable)]
    check(found, *model(sound([tables[0], tables[-1]]), FIRST, INTERVAL)[:2])


def test_zeros_after_hunted_batches_change_nothing(tmp_path: Path) -> None:
    data = b"".join(batches(FIRST))
    with_zeros = of_log(write(tmp_path / "a", data[:700], bytes(300), data[1000:], bytes(5000)))
    assert with_zeros == of_log(write(tmp_path / "b", data[:700], bytes(300), data[1000:]))


@pytest.mark.usefixtures("build")
def test_offsets_that_do_not_rise_have_no_entries(tmp_path: Path) -> None:
    data = [*batches(FIRST)[:6], *batches(FIRST)[:6], *batches(FIRST)[6:]]
    pieces = pieces_of(write(tmp_path, *data), FIRST)
    found = built(pieces, FIRST)
    index, times, left_out = model(sound(pieces), FIRST, INTERVAL)
    check(found, index, times)
    assert found.disorder == left_out > 0


def test_offsets_of_another_segment_have_no_entries(tmp_path: Path) -> None:
    late = TIMESTAMP + 1_000_000
    strange = [batch(at, [record()], base_timestamp=late) for at in (99, 100 + 2**31)]
    log = tmp_path / name(100, ".log")
    log.write_bytes(b"".join([*batches(100, 5), *strange, *batches(150, 5)]))
    pieces = pieces_of(log, 100)
    found = built(pieces, 100)
    check(found, *model(sound(pieces), 100, INTERVAL)[:2])
    assert found.disorder == 2
    assert late not in _stamps(found)


def _stamps(found: RebuiltIndexes) -> list[int]:
    data = found.time_index.content or b""
    return [int.from_bytes(data[at : at + 8], "big") for at in range(0, len(data), 12)]


def test_positions_that_no_entry_can_say_have_none() -> None:
    fields = (0, 0, 5, -1, 2, 0, 0, 7, 7, -1, -1, -1, 1)
    near, far = (RecordBatch(at, 100, *fields[1:]) for at in (2**31 - 1, 2**31))
    found = built([BatchTable.of(near), BatchTable.of(far)], 0)
    assert found.disorder == 1
    assert found.index.size == 8


@pytest.mark.usefixtures("build")
def test_more_entries_than_an_index_has_room_for(tmp_path: Path) -> None:
    pieces = pieces_of(write(tmp_path, *batches(FIRST)), FIRST)
    offsets, times = forge.index_entries(batches(FIRST), FIRST, INTERVAL)
    # One slot of a time index is for the last entry.
    enough = max(8 * len(offsets), 12 * (len(times) + 1))
    assert not built(pieces, FIRST, index_bytes=enough).full
    assert built(pieces, FIRST, index_bytes=8 * len(offsets) - 1).full


# --- room


def test_content_is_held_up_to_a_size(tmp_path: Path) -> None:
    pieces = pieces_of(write(tmp_path, *batches(FIRST)), FIRST)
    whole = built(pieces, FIRST)
    size = whole.index.size + whole.time_index.size
    assert built(pieces, FIRST, room=size) == whole
    less = built(pieces, FIRST, room=size - 1)
    for with_content, without_content in (
        (whole.index, less.index),
        (whole.time_index, less.time_index),
    ):
        assert without_content.content is None
        assert (without_content.size, without_content.sha256) == (
            with_content.size,
            with_content.sha256,
        )


def test_a_survey_has_them_where_they_are_asked_for(tmp_path: Path) -> None:
    log = write(tmp_path, *batches(FIRST))
    assert of(log).rebuilt is None
    segment = read_partition(log.parent).segments[0]
    topic = TopicSettings(index_interval_bytes=INTERVAL)
    found = survey(
        segment,
        lambda _: None,
        mapped=False,
        sealed=True,
        deep=False,
        settings=topic,
        rebuild_room=ROOM,
    )
    assert found.rebuilt == of_log(log)
    log.unlink()
    found = survey(
        segment, lambda _: None, mapped=False, sealed=True, deep=False, rebuild_room=ROOM
    )
    assert found.rebuilt is None


@pytest.mark.parametrize("rebuilding", [True, False])
def test_verify_passes_it_on(tmp_path: Path, rebuilding: bool) -> None:
    log = write(tmp_path, *batches(FIRST))
    target = open_path(log.parent)
    root = Root(log.parent, target, Liveness(BrokerState.STOPPED, "a test says so"))
    (verdict,) = verify(assign(root), deep=False, jobs=1, rebuild=rebuilding)
    assert [survey.rebuilt is not None for survey in verdict.surveys] == [rebuilding] * 2


def test_a_recipe_makes_the_same(tmp_path: Path) -> None:
    data = batches(FIRST)
    data[4] = flip(data[4], -1)
    log = write(tmp_path, *data)
    found = of_log(log)
    for extension, file in ((".index", found.index), (".timeindex", found.time_index)):
        assert make(RebuiltIndex(log.name, extension, INTERVAL), log.parent) == file.content
    for recipe in (RebuiltIndex(log.name, ".txnindex", 1), RebuiltIndex("orders.log", ".index", 1)):
        with pytest.raises(ValueError, match="expected an index of a segment"):
            make(recipe, log.parent)
    assert log.name == name(FIRST, ".log")
