"""plan_reindex(): which files are rebuilt, with which content, and the notes on the others."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kdump.audit.codes import CODES
from kdump.audit.facts.cluster import Node
from kdump.audit.facts.settings import Overrides
from kdump.audit.facts.small_files import TopicSettings, read_directory
from kdump.audit.finding_code import Cure
from kdump.audit.judge import judge
from kdump.audit.run.gather import gather
from kdump.audit.survey.survey import ReadFailure, Survey, survey
from kdump.audit.targets.context import Context, read_context
from kdump.audit.targets.target import Root, Target, assign
from kdump.audit.verdicts.verdict import Verdict
from kdump.errors import Refused, SourceError, UsageError, VanishedError
from kdump.format.index import TransactionIndex
from kdump.format.snapshot import ProducerEntry, decode_snapshot
from kdump.repair.side_files.plan import plan_reindex
from kdump.repair.transaction.plan import (
    Line,
    Plan,
    Put,
    RebuiltIndex,
    Remove,
    Stamp,
    decode,
    encode,
)
from kdump.repair.transaction.preparation import make
from kdump.storage.access import open_source
from kdump.storage.liveness import BrokerState, Liveness
from kdump.storage.logdir import LogDirectory, open_path
from kdump.storage.source import Source
from support import forge
from support.all_recipes import RECIPES, RUNNING
from support.damaged import FIRST, LAST, Recipe, batches, name
from support.fixtures_loader import copy_fixture, few_first
from support.forge import batch, flip, record
from support.pipeline import NOW_MS
from support.planning import reindexing
from support.recipes_indexes import RECIPES as INDEX_RECIPES
from support.recipes_producers import (
    ABORTS,
    AT_100,
    AT_END,
    END,
    EPOCHS,
    SOUND_FILES,
    SOUND_FIRST,
    SOUND_LAST,
    TXN_FIRST,
    TXN_LAST,
    Entry,
    History,
    data,
    end,
    entry,
    filled,
    plain,
    snap,
    txns,
)

pytestmark = pytest.mark.loops

INTERVAL, ROOM = 300, 1 << 30
INDEX, TIMES = ".index", ".timeindex"
REINDEXED = {code for code in CODES.values() if code.cure is Cure.REINDEX}
HEALED = {code.name for code in REINDEXED}


def verdict(
    path: Path,
    *,
    interval: int | None = INTERVAL,
    room: int | None = None,
    compacted: bool | None = None,
) -> list[Verdict]:
    """What ``verify`` finds at ``path``, with all that a plan needs, but in this process."""
    content, liveness = open_path(path), Liveness(BrokerState.STOPPED, "a test says so")
    above = content
    if not isinstance(content, LogDirectory) and (path.parent / "meta.properties").exists():
        above = open_path(path.parent)
    directory = read_directory(above, liveness) if isinstance(above, LogDirectory) else None
    context = read_context([] if directory is None else [directory], None, NOW_MS)
    context = replace(context, wanted=Overrides(interval, room))
    found = []
    for assigned in assign(Root(path, content, liveness, directory)):
        target = assigned.with_listing()
        facts = gather(target, context)
        if facts is not None:
            facts = replace(facts, settings=replace(facts.settings, compacted=compacted))
        found.append(judge(target, surveys(target, context), facts, context))
    return found


def surveys(target: Target, context: Context) -> list[Survey]:
    return [
        survey(
            segment,
            lambda _: None,
            mapped=False,
            sealed=target.is_sealed(segment),
            deep=False,
            settings=context.settings(target),
            rebuild_room=ROOM,
        )
        for segment in target.segments
    ]


def plan(
    path: Path, *, every: bool = False, interval: int | None = INTERVAL, room: int | None = None
) -> Plan:
    """The plan of the one partition at ``path``."""
    (found,) = verdict(path, interval=interval, room=room)
    return plan_of(found, every=every)


def plan_of(found: Verdict, *, every: bool = False) -> Plan:
    assert found.facts is not None
    return plan_reindex(
        found, every=every, settings=found.facts.settings, node=Node(), arguments=()
    )


def carry_out(planned: Plan) -> None:
    """Do the steps of a plan without journal and backup."""
    for step in planned.steps:
        path = planned.partition / getattr(step, "name", "")
        if isinstance(step, Remove):
            path.unlink()
            continue
        if isinstance(step, Line):
            assert step.after is None
            (planned.partition.parent / step.checkpoint).write_bytes(forge.checkpoint([]))
            continue
        assert isinstance(step, Put)
        assert path.exists() == step.replaces
        assert step.content is not None
        path.write_bytes(step.content)


def names(planned: Plan) -> list[str]:
    return [step.name for step in planned.steps if isinstance(step, Put | Remove)]


def content(planned: Plan, file: str) -> bytes:
    (put,) = [put for put in planned.puts if put.name == file]
    assert put.content is not None
    return put.content


def producers(planned: Plan, offset: int) -> set[ProducerEntry]:
    return set(decode_snapshot(content(planned, snap(offset))))


def timeless(entries: tuple[Entry, ...]) -> set[tuple[int, ...]]:
    return {(*entry[:5], *entry[6:]) for entry in entries}


def recipe(title: str) -> Recipe:
    (found,) = [recipe for recipe in RECIPES if recipe.name == title]
    return found


# --- all recipes and fixtures


@pytest.mark.parametrize(
    "recipe",
    [recipe for recipe in RECIPES if recipe.name not in RUNNING and HEALED & {*recipe.expected}],
    ids=lambda recipe: recipe.name,
)
def test_what_a_recipe_breaks_is_rebuilt(recipe: Recipe, tmp_path: Path) -> None:
    """After the plan nothing is found that it should have healed, and there is nothing to do."""
    recipe.write(tmp_path)
    (tmp_path / "meta.properties").touch()
    compacted = recipe.compacted if isinstance(recipe, History) else None
    before = verdict(tmp_path, compacted=compacted)
    assert HEALED & {finding.code.name for found in before for finding in found.findings}
    for found in before:
        planned = plan_of(found)
        assert planned.steps or not REINDEXED & {finding.code for finding in found.findings}
        logs = {path: path.read_bytes() for path in planned.partition.glob("*.log")}
        carry_out(planned)
        assert logs == {path: path.read_bytes() for path in planned.partition.glob("*.log")}
    for after in verdict(tmp_path, compacted=compacted):
        assert not REINDEXED & {finding.code for finding in after.findings}
        assert not plan_of(after).steps


@pytest.mark.parametrize("recipe", INDEX_RECIPES, ids=lambda recipe: recipe.name)
def test_the_indexes_of_a_recipe(recipe: Recipe, tmp_path: Path) -> None:
    """Only files that the recipe wrote or left out, and they become what recovery writes."""
    planned = plan(recipe.write(tmp_path))
    assert set(names(planned)) <= set(recipe.files)
    codes = [code for code in recipe.expected if not code.startswith(("batch", "torn", "offsets"))]
    assert bool(planned.steps) == bool(set(codes) - {"timeindex-unmatched"})
    for put in planned.puts:
        base, suffix = int(Path(put.name).stem), Path(put.name).suffix
        pieces = [piece for piece in (recipe.first if base == FIRST else recipe.last) if piece]
        if all(piece[16] == 2 for piece in pieces):
            entries = forge.index_entries(pieces, base, INTERVAL)
            expected = (forge.offset_index, forge.time_index)[suffix == TIMES]
            assert put.content == expected(entries[suffix == TIMES], base)
        assert put.recipe == RebuiltIndex(name(base, ".log"), suffix, INTERVAL)
        assert put.content == make(put.recipe, planned.partition)


def test_what_differs_and_keeps_its_promises_is_left_alone(tmp_path: Path) -> None:
    for title in ("groups", "first-offsets", "restarted", "no-entries", "the-start"):
        path = recipe(title).write(tmp_path)
        assert not plan(path).steps
        assert names(plan(path, every=True))


@pytest.mark.parametrize("fixture", few_first())
def test_sound_fixtures_need_nothing(fixture: str, tmp_path: Path) -> None:
    path = copy_fixture(fixture, tmp_path / "data")
    for found in verdict(path, interval=None):
        planned = plan_of(found)
        assert (planned.steps, planned.notes) == ((), ())
        carry_out(plan_of(found, every=True))
    for found in verdict(path, interval=None):
        assert not plan_of(found, every=True).steps
        assert not {finding.code for finding in found.findings} & REINDEXED


# --- offset and time indexes


def test_the_order_of_steps(tmp_path: Path) -> None:
    """While an .index is missing a start builds all that belongs to the segment."""
    missing = dict.fromkeys([name(FIRST, INDEX), name(FIRST, TIMES), name(LAST, INDEX)])
    path = History("orders", [], filled(SOUND_FIRST), SOUND_LAST, missing).write(tmp_path)
    path.joinpath(name(LAST, TIMES)).write_bytes(b"odd")
    assert names(plan(path)) == [
        TXN_FIRST,
        TXN_LAST,
        snap(LAST),
        name(FIRST, TIMES),
        name(FIRST, INDEX),
        name(LAST, TIMES),
        name(LAST, INDEX),
    ]


def test_what_a_plan_says_of_its_partition(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    (tmp_path / "meta.properties").write_bytes(b"version=0\nbroker.id=1\n")
    planned = plan(path)
    status = path.stat()
    assert (planned.command, planned.partition, planned.log_directory) == (
        "reindex",
        path,
        tmp_path,
    )
    assert planned.identity == (status.st_dev, status.st_ino)
    assert not planned.lossy
    assert (planned.log_start, planned.log_end) == (0, (200, 200))
    found = path.joinpath(name(FIRST, ".log")).stat()
    assert planned.files[name(FIRST, ".log")] == Stamp(found.st_size, found.st_mtime_ns)
    assert planned.files.keys() == {file.name for file in path.iterdir()}
    assert decode(encode(planned)) == planned
    assert plan(path).id == planned.id


def test_without_a_log_directory_there_is_none(tmp_path: Path) -> None:
    assert plan(recipe("no-index").write(tmp_path)).log_directory is None


def test_an_active_index_with_room_is_left_alone(tmp_path: Path) -> None:
    path = recipe("index-zeros-last").write(tmp_path)
    assert not plan(path, every=True).steps
    stale = recipe("index-stale-last").write(tmp_path)
    assert not plan(stale).steps
    assert names(plan(stale, every=True)) == [name(LAST, INDEX)]
    index = path / name(LAST, INDEX)
    index.write_bytes(bytes(8) + index.read_bytes()[8:])
    assert names(plan(path, every=True)) == [name(LAST, INDEX)]
    assert not plan(path).steps


def test_all_trims_both_active_indexes_or_neither(tmp_path: Path) -> None:
    path = recipe("index-stale-last").write(tmp_path)
    times = path / name(LAST, TIMES)
    times.write_bytes(times.read_bytes() + bytes(12 * 20))
    assert not plan(path).steps
    assert names(plan(path, every=True)) == [name(LAST, TIMES), name(LAST, INDEX)]


def test_a_padded_index_of_a_sealed_segment_is_trimmed(tmp_path: Path) -> None:
    planned = plan(recipe("index-zeros").write(tmp_path))
    assert names(planned) == [name(FIRST, INDEX)]


def test_both_sides_of_damage_and_a_word_about_it(tmp_path: Path) -> None:
    pieces = batches(FIRST)
    pieces[3] = flip(pieces[3], -1)
    path = Recipe("orders", [], pieces, batches(LAST), {name(FIRST, INDEX): None}).write(tmp_path)
    planned = plan(path)
    assert names(planned) == [name(FIRST, INDEX)]
    assert planned.notes == (
        f"{name(FIRST, '.log')} is corrupt at position {sum(map(len, pieces[:3]))}: its indexes "
        "cover the batches before and after the corruption",
    )
    last = content(planned, name(FIRST, INDEX))[-8:]
    assert int.from_bytes(last[4:], "big") > sum(map(len, pieces[:4]))


def test_batches_that_may_lie_in_a_value_are_reported(tmp_path: Path) -> None:
    nested = batch(40, [record(b"".join(batches(41, 8, 1)))], length=1 << 20)
    pieces = [*batches(FIRST)[:4], nested, *batches(FIRST)[5:]]
    path = Recipe("orders", [], pieces, batches(LAST), {name(FIRST, INDEX): None}).write(tmp_path)
    assert any("be part of a record's value" in note for note in plan(path).notes)


def test_disorder_is_reported(tmp_path: Path) -> None:
    pieces = [*batches(FIRST)[:6], *batches(FIRST)[:6], *batches(FIRST)[6:]]
    path = Recipe("orders", [], pieces, batches(LAST), {name(FIRST, INDEX): b"odd"}).write(tmp_path)
    planned = plan(path)
    assert names(planned) == [name(FIRST, INDEX)]
    (note,) = planned.notes
    assert "batches that an index cannot point to" in note


def test_entries_without_room_are_reported(tmp_path: Path) -> None:
    planned = plan(recipe("no-index").write(tmp_path), room=16)
    assert not planned.steps
    (note,) = planned.notes
    assert note == (
        f"{name(FIRST, '.log')} needs more index entries than 16 bytes hold, with an entry every "
        "300 bytes of the log: its indexes stay as they are"
    )


def test_a_log_that_cannot_be_read_keeps_its_indexes(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    (found,) = verdict(path)
    unread = replace(
        found.surveys[0], unread=(ReadFailure(path / name(FIRST, ".log"), False, "odd"),)
    )
    found = replace(found, surveys=(replace(unread, rebuilt=None), found.surveys[1]), replay=None)
    planned = plan_of(found)
    assert not planned.steps
    assert planned.notes == (
        f"{name(FIRST, '.log')} could not be read to its end: its indexes stay as they are",
    )


def test_an_index_that_cannot_be_read_is_rebuilt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recipe("sound").write(tmp_path)
    monkeypatch.setattr("kdump.audit.survey.index_promises._INDEX_BYTES", 1)
    (found,) = verdict(path)
    assert not plan_of(found).steps  # they are only too large to be checked
    failing = [path / name(FIRST, TIMES)]
    error: type[SourceError] = SourceError

    def failing_open(file: Path, *, mapped: bool) -> Source:
        if file in failing:
            raise error(file, f"{file}: cannot be read")
        return open_source(file, mapped=mapped)

    monkeypatch.setattr("kdump.repair.content.indexes.open_source", failing_open)
    assert names(plan_of(found)) == [name(FIRST, TIMES)]
    error = VanishedError
    with pytest.raises(VanishedError):
        plan_of(found)


def test_an_empty_segment_needs_no_index_unless_all_are_asked_for(tmp_path: Path) -> None:
    path = recipe("nothing-to-index").write(tmp_path)
    assert not plan(path).steps
    assert names(plan(path, every=True)) == [name(LAST, TIMES), name(LAST, INDEX)]


def test_a_metadata_log_lacks_no_index(tmp_path: Path) -> None:
    path = recipe("neither").write(tmp_path).rename(tmp_path / "__cluster_metadata-0")
    (path / "partition.metadata").unlink(missing_ok=True)  # it has the id of a topic
    assert not plan(path).steps
    path.joinpath(name(LAST, INDEX)).write_bytes(b"odd")
    assert names(plan(path)) == [name(LAST, INDEX)]


def test_a_directory_that_a_broker_deletes_is_left_alone(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path).rename(tmp_path / f"orders-0.{'a' * 32}-delete")
    planned = plan(path, every=True)
    assert not planned.steps
    assert len(planned.notes) == 1


# --- transaction indexes


def test_transaction_indexes_are_as_recovery_writes_them(tmp_path: Path) -> None:
    path = recipe("history").write(tmp_path)
    for file in (TXN_FIRST, TXN_LAST):
        (path / file).unlink()
    planned = plan(path)
    assert names(planned) == [TXN_FIRST, TXN_LAST]
    assert content(planned, TXN_FIRST) == txns(ABORTS[0])
    assert content(planned, TXN_LAST) == txns(ABORTS[1])


def test_one_that_should_have_no_entry_becomes_empty(tmp_path: Path) -> None:
    files = {TXN_FIRST: b"odd", TXN_LAST: None}
    path = History("orders", [], filled([plain(0)]), [plain(100)], files).write(tmp_path)
    assert content(plan(path), TXN_FIRST) == b""
    assert names(plan(path, every=True)) == [TXN_FIRST]


def test_one_that_differs_is_rebuilt_where_all_are(tmp_path: Path) -> None:
    path = recipe("stable-of-follower").write(tmp_path)
    assert TXN_FIRST not in names(plan(path))
    found = TransactionIndex.decode(content(plan(path, every=True), TXN_FIRST))
    assert [entry.last_stable_offset for entry in found.entries] == [21, 27, 41]


def test_the_state_before_the_first_segment_is_from_a_snapshot_there(tmp_path: Path) -> None:
    """An aborted transaction that began in a segment which is gone."""
    path = recipe("first-segment-gone").write(tmp_path)
    assert not plan(path).steps
    assert not plan(path, every=True).steps
    (path / TXN_LAST).write_bytes(b"odd")
    (path / snap(END)).write_bytes(b"odd")
    planned = plan(path)
    assert content(planned, TXN_LAST) == txns(ABORTS[1])
    assert timeless(tuple(producers(planned, END))) == timeless(AT_END)


@pytest.mark.parametrize("stands", [None, b"odd", forge.snapshot([entry(9, 136, 9)])])
def test_without_one_the_state_is_unknown_and_reported(
    tmp_path: Path, stands: bytes | None
) -> None:
    path = recipe("first-segment-gone").write(tmp_path)
    # Not deleted by retention, which moves the first leader epoch to the new log start.
    (path / EPOCHS).write_bytes(forge.checkpoint([(0, 0)]))
    (path / snap(LAST)).unlink()
    if stands is not None:
        (path / snap(LAST)).write_bytes(stands)
    (path / TXN_LAST).write_bytes(b"odd")
    planned = plan(path)
    assert not planned.steps
    assert planned.notes == (
        "transaction indexes and producer snapshots stay as they are: the segments before offset "
        "100 are gone, and no valid snapshot holds the producers and open transactions at that "
        "offset",
    )


@pytest.mark.parametrize("moved", ["log-start-offset-checkpoint", EPOCHS])
def test_where_the_log_starts_nothing_was_before(tmp_path: Path, moved: str) -> None:
    path = recipe("first-segment-gone").write(tmp_path)
    (tmp_path / "meta.properties").touch()
    (path / snap(LAST)).unlink()
    (path / TXN_LAST).write_bytes(b"odd")
    if moved == EPOCHS:
        (path / EPOCHS).write_bytes(forge.checkpoint([(0, LAST)]))
    else:
        (tmp_path / moved).write_bytes(forge.checkpoint([("first-segment-gone", 0, LAST)]))
    planned = plan(path)
    assert content(planned, TXN_LAST) == b""
    assert not any("stay as they are" in note for note in planned.notes)


# --- producer snapshots


@pytest.mark.parametrize("offset", [LAST, END])
@pytest.mark.parametrize("stands", [b"odd", forge.snapshot([entry(9, 500, 9)])])
def test_snapshots_are_as_a_replay_has_them(tmp_path: Path, offset: int, stands: bytes) -> None:
    path = recipe("history").write(tmp_path)
    (path / snap(offset)).write_bytes(stands)
    planned = plan(path)
    assert names(planned) == [snap(offset)]
    expected = AT_100 if offset == LAST else AT_END
    assert timeless(tuple(producers(planned, offset))) == timeless(expected)
    assert any("would have expired" in note for note in planned.notes)


def test_where_no_producer_writes_snapshots_are_empty_and_say_nothing(tmp_path: Path) -> None:
    files = {snap(LAST): b"odd"}
    path = Recipe("orders", [], batches(FIRST), batches(LAST), files).write(tmp_path)
    planned = plan(path)
    assert content(planned, snap(LAST)) == forge.snapshot()
    assert planned.notes == ()


def test_a_snapshot_at_the_first_base_is_what_was_before(tmp_path: Path) -> None:
    path = recipe("history").write(tmp_path)
    (path / snap(FIRST)).write_bytes(b"odd")
    assert content(plan(path), snap(FIRST)) == forge.snapshot()


def test_the_last_segment_needs_one_if_there_is_none(tmp_path: Path) -> None:
    path = recipe("history").write(tmp_path)
    (path / snap(END)).unlink()
    assert not plan(path).steps
    (path / snap(LAST)).unlink()
    assert names(plan(path)) == [snap(LAST)]
    (path / snap(END)).write_bytes(forge.snapshot(AT_END))
    assert not plan(path).steps  # from which a start goes on
    assert names(plan(path, every=True)) == [snap(LAST)]


def test_one_that_is_missing_between_others_is_put_there(tmp_path: Path) -> None:
    three = {base: [data(base, 9, base, transactional=False)] for base in (0, 100, 200, 300)}
    path = forge.write_partition(tmp_path, "orders", 0, three, interval=INTERVAL)
    for base in (100, 300):
        (path / snap(base)).write_bytes(forge.snapshot([entry(9, base - 96, base - 96)]))
    assert names(plan(path)) == [snap(200)]
    (path / snap(100)).unlink()
    assert not plan(path).steps  # brokers before 2.8 keep the newest
    assert names(plan(path, every=True)) == [snap(100), snap(200)]


def test_none_is_put_where_the_log_has_not_started(tmp_path: Path) -> None:
    three = {base: [data(base, 9, base, transactional=False)] for base in (0, 100, 200)}
    path = forge.write_partition(tmp_path, "orders", 0, three)
    (tmp_path / "log-start-offset-checkpoint").write_bytes(forge.checkpoint([("orders", 0, 100)]))
    (tmp_path / "meta.properties").touch()
    assert names(plan(path, every=True, interval=None)) == [snap(200)]


def test_an_unusable_one_is_removed(tmp_path: Path) -> None:
    path = recipe("history").write(tmp_path)
    (path / snap(50)).write_bytes(b"odd")
    assert plan(path).steps == (Remove(snap(50)),)


def test_what_damage_hides_is_not_written_down(tmp_path: Path) -> None:
    path = recipe("batch-lost").write(tmp_path)
    for file in (TXN_FIRST, TXN_LAST, snap(LAST)):
        (path / file).write_bytes(b"odd")
    planned = plan(path)
    assert not planned.steps
    note, *ends = planned.notes
    assert all(end.startswith("transaction-end-lost: ") for end in ends)
    assert note == (
        f"not rebuilt: {TXN_FIRST}, {TXN_LAST}, {snap(LAST)}: the state from offset 21 on is "
        "unknown, because the log is corrupt or lacks records there"
    )


TXN = ".txnindex"


def test_what_evidence_decides_after_a_lost_marker_is_written(tmp_path: Path) -> None:
    """The snapshot has the transaction ended, and no index has it aborted: so 17 ends the next."""
    first = [data(0, 7, 0), end(5, 7), data(6, 7, 5), flip(end(11, 7, commit=True), -1)]
    last = [data(12, 7, 10), end(17, 7), plain(18)]
    entry_at_12 = (7, 0, 9, 10, 4, forge.TIMESTAMP, 0, -1)
    files: dict[str, bytes | None] = {
        name(0, ".txnindex"): txns((7, 0, 5, 6)),
        name(12, ".snapshot"): forge.snapshot([entry_at_12]),
    }
    path = forge.write_partition(tmp_path / "a", "known", 0, {0: first, 12: last}, files=files)
    planned = plan(path, every=True)
    (put,) = [step for step in planned.steps if isinstance(step, Put) and TXN in step.name]
    assert (put.name, put.content) == (name(12, TXN), txns((7, 12, 17, 18)))
    del files[name(12, ".snapshot")]
    path = forge.write_partition(tmp_path / "b", "unknown", 0, {0: first, 12: last}, files=files)
    planned = plan(path, every=True)
    assert not any(TXN in name for name in names(planned))
    assert any("not rebuilt" in note and TXN in note for note in planned.notes)
    assert (
        "transaction-end-lost: nothing shows whether the transaction of producer 7 from offset 6 "
        "on was committed: a broker that replays the log takes the next marker for its end; the "
        "last stable offset is then 23"
    ) in planned.notes


def test_not_all_transactions_whose_end_is_lost_are_named(tmp_path: Path) -> None:
    running = [data(5 * at, 7 + at, 0) for at in range(5)]
    log = [*running, flip(plain(25), -1), *(end(26 + at, 7 + at) for at in range(5))]
    path = forge.write_partition(tmp_path, "orders", 0, {0: log}, files={name(0, TXN): b"odd"})
    notes = [note for note in plan(path).notes if note.startswith("transaction-end-lost")]
    assert len(notes) == 4
    assert "the transaction of producer 9 from offset 10 on" in notes[2]
    assert notes[3] == "transaction-end-lost: 2 more transactions"


@pytest.mark.parametrize("inside", [True, False])
def test_an_abort_ends_no_transaction_whose_end_is_missing(inside: bool, tmp_path: Path) -> None:
    """The end at 11 of the transaction from 6 on is gone; the settings are unknown."""
    first, last = [data(0, 7, 0), end(5, 7), data(6, 7, 5)], [data(12, 7, 10), end(17, 7)]
    aborts = (7, 0, 5, 6), (7, 12, 17, 18)
    logs = {0: first, 12: last}
    files = {name(0, TXN): txns(aborts[0]), name(12, TXN): txns(aborts[1])}
    if inside:
        logs, files = {0: first + last}, {name(0, TXN): txns(*aborts)}
    path = forge.write_partition(tmp_path, "orders", 0, logs, files=files)
    assert not any(TXN in name for name in names(plan(path, every=True)))
    (found,) = verdict(path)
    codes = {finding.code.name for finding in found.findings}
    assert ("transaction-end-lost" in codes) is not inside  # the index of the log names all aborts
    assert not any(code.startswith("txnindex") for code in codes)


def test_damage_after_them_hides_nothing(tmp_path: Path) -> None:
    last = [SOUND_LAST[0], flip(SOUND_LAST[1], -1), *SOUND_LAST[2:]]
    path = replace(recipe("history"), last=last).write(tmp_path)
    for file in (TXN_FIRST, TXN_LAST, snap(LAST)):
        (path / file).write_bytes(b"odd")
    planned = plan(path)
    assert names(planned) == [TXN_FIRST, snap(LAST)]
    assert planned.notes[0].startswith(f"not rebuilt: {TXN_LAST}: ")


def test_many_that_cannot_be_known_are_counted(tmp_path: Path) -> None:
    many = {base: [data(base, 9, base, transactional=False)] for base in range(0, 100, 10)}
    many[0] = [flip(many[0][0], -1)]
    files = {snap(base): b"odd" for base in many}
    path = forge.write_partition(tmp_path, "orders", 0, many, files=files)
    planned = plan(path)
    assert names(planned) == [snap(0)]
    assert planned.notes[0].startswith(f"not rebuilt: {snap(10)}, {snap(20)}, {snap(30)} and 6 ")


def test_a_state_that_cannot_be_is_not_written_down(tmp_path: Path) -> None:
    """No checksum covers a base offset, and the last one of a segment is above none."""
    first = [*SOUND_FIRST, plain(95), data(5000, 9, 10, transactional=False)]
    files = {**SOUND_FILES, snap(LAST): b"odd"}
    path = Recipe("orders", [], first, SOUND_LAST, files).write(tmp_path)
    planned = plan(path)
    assert not planned.steps
    assert planned.notes == (
        f"not rebuilt: {snap(LAST)}: the segments before it hold offsets above its base offset",
    )


def test_a_partition_that_was_not_read_keeps_its_snapshots(tmp_path: Path) -> None:
    (found,) = verdict(recipe("history").write(tmp_path))
    planned = plan_of(replace(found, replay=None))
    assert not planned.steps
    assert "not all of the log could be read" in planned.notes[0]


# --- what no plan can be made of


def test_a_swap_goes_first(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    shutil.copyfile(path / name(FIRST, ".log"), path / f"{name(FIRST, '.log')}.swap")
    with pytest.raises(Refused, match="let a broker finish it first"):
        plan(path)
    whole = recipe("sound").write(tmp_path)
    shutil.copyfile(whole / name(FIRST, ".log"), whole / f"{name(FIRST, '.log')}.swap")
    assert not plan(whole).steps


def test_a_lone_segment_is_no_partition(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    (found,) = verdict(path / name(FIRST, ".log"))
    with pytest.raises(UsageError, match="expected a partition directory"):
        plan_reindex(found, every=False, settings=TopicSettings(), node=Node(), arguments=())


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    (found,) = verdict(path)
    shutil.rmtree(path)
    with pytest.raises(VanishedError):
        plan_of(found)
    gone = Target(path, (), None, stopped=True, size=0, error=VanishedError(path, "gone"))
    with pytest.raises(VanishedError, match="gone"):
        plan_of(replace(found, target=gone))


def test_a_log_that_changed_since_it_was_read(tmp_path: Path) -> None:
    path = recipe("no-index").write(tmp_path)
    (found,) = verdict(path)
    with (path / name(LAST, ".log")).open("ab") as log:
        log.write(batch(200, [record()]))
    with pytest.raises(SourceError, match="found that it changed"):
        plan_of(found)


# --- leader epochs and topic ids


def written(title: str, path: Path) -> Path:
    """The partition of a recipe, which is written to a log directory."""
    (recipe,) = [recipe for recipe in RECIPES if recipe.name == title]
    (path / "data").mkdir()
    (path / "server.properties").touch()
    return recipe.write(path / "data")


@pytest.mark.parametrize(
    "title", ["epochs-late", "epochs-skipped", "epochs-behind", "epochs-forgotten", "epochs-gone"]
)
def test_leader_epochs_are_those_of_the_batches(title: str, tmp_path: Path) -> None:
    (found,) = verdict(written(title, tmp_path).parent, compacted=False)
    made = plan_of(found)
    (put,) = made.puts
    assert put.name == "leader-epoch-checkpoint"
    assert put.content == forge.checkpoint([(0, 0), (2, 40), (3, 105)])
    assert put.replaces == (title != "epochs-gone")
    assert any("any other epoch without a batch is lost" in note for note in made.notes)


def test_a_first_offset_above_all_others_changes_no_leader_epoch(tmp_path: Path) -> None:
    path = written("epochs-late", tmp_path)
    epochs = path / "leader-epoch-checkpoint"
    epochs.write_bytes(forge.checkpoint([(0, 0), (2, 40), (3, 105)]))
    with min(path.glob("*.log")).open("r+b") as log:
        log.write((1 << 53).to_bytes(8, "big"))
    (found,) = verdict(path.parent, compacted=False)
    names = {finding.code.name for finding in found.findings}
    assert "offsets-not-increasing" in names
    assert "epochs-mismatch" not in names
    assert [put.name for put in plan_of(found).puts if put.name == epochs.name] == []


@pytest.mark.parametrize("title", ["id-none", "id-spoilt"])
def test_the_topic_id_is_that_of_the_metadata_log(title: str, tmp_path: Path) -> None:
    (put,) = reindexing(written(title, tmp_path)).puts
    assert (put.name, put.content) == ("partition.metadata", forge.partition_metadata())


def test_a_topic_id_that_nothing_has_stays_unknown(tmp_path: Path) -> None:
    made = reindexing(written("id-empty", tmp_path))
    assert made.steps == ()
    assert any("no metadata log in reach has the topic" in note for note in made.notes)
