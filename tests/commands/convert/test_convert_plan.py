"""plan_convert() and its plans carried out: steps, refusals, what is read back, and undo."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kdump.audit.facts.small_files import Read, TopicSettings
from kdump.audit.run.verify import verify
from kdump.audit.survey.survey import ReadFailure
from kdump.audit.verdicts.verdict import Verdict
from kdump.commands.convert import plan as convert
from kdump.commands.convert.plan import plan_convert
from kdump.errors import Refused, SourceError, Unfinished, UsageError
from kdump.format.codecs import Codec
from kdump.format.index import TransactionIndex
from kdump.repair.rewrite import conversion as conversions
from kdump.repair.rewrite import measure
from kdump.repair.rewrite.conversion import Rules
from kdump.repair.rewrite.read_back import LogReader, ReadBack
from kdump.repair.transaction import disk
from kdump.repair.transaction.apply import apply, resume
from kdump.repair.transaction.folder import Folder
from kdump.repair.transaction.plan import (
    ConvertedPart,
    Plan,
    Put,
    RebuiltIndex,
    Remove,
    decode,
    encode,
)
from kdump.storage.repair_record import RepairState, repair_records
from kdump.ui.options.targets import TargetOptions, find_scope
from support import forge
from support.by_hand import carry_out
from support.commands import kdump
from support.converting import COMMAND, above_info, legacy_batches, logs, split
from support.crashing.seam import Call
from support.crashing.subjects import CONVERT, INTERVAL, OTHER, SPLIT
from support.damaged import name
from support.forge import TIMESTAMP, batch, flip, marker, message, record, wrapper
from support.planning import (
    by_hand,
    calling,
    conversion,
    failing_at,
    interrupt,
    left,
    restored,
    undone,
)

pytestmark = pytest.mark.usefixtures("unsearched")

Segments = Mapping[int, Iterable[bytes]]

LOG, INDEX, TIMES, ABORTS = ".log", ".index", ".timeindex", ".txnindex"
OLD = [message(number, b"value %d" % number, magic=0) for number in range(20)]
NEW = [batch(100 + number, [record()]) for number in range(3)]
SEGMENTS: Segments = {0: OLD, 20: [message(20), batch(21, [record()])], 100: NEW}


def partition(place: Path, segments: Segments = SEGMENTS, **files: bytes | None) -> Path:
    """A partition in a log directory, ``topic-0``; files are by their names without dots."""
    top = place / "data"
    top.mkdir()
    (top / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (place / "server.properties").write_text("")
    lists = {base: list(segment) for base, segment in segments.items()}
    named = {file.replace("_", "."): content for file, content in files.items()}
    return forge.write_partition(top, "topic", 0, lists, files=named)


@pytest.fixture
def old(place: Path) -> Path:
    """A partition of one segment of magic 0, one of magic 1 and 2, and one of magic 2."""
    return partition(place)


@pytest.fixture
def crowded(place: Path) -> Path:
    """One with companions, wrappers and a transaction in a log directory with another."""
    CONVERT.write(place)
    return CONVERT.partition(place)


@pytest.fixture
def full(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same where a log becomes several."""
    SPLIT.write(place)
    monkeypatch.setattr(conversions, "MAX_LOG_BYTES", SPLIT.most_bytes)
    return SPLIT.partition(place)


def verdict(path: Path) -> Verdict:
    scope = find_scope(TargetOptions([path]))
    targets = [replace(target, stopped=True) for target in scope.targets]
    (found,) = verify(targets, deep=False, jobs=1, context=scope.context)
    return found


def plan_of(found: Verdict) -> Plan:
    assert found.facts is not None
    return plan_convert(
        found,
        Rules(),
        settings=found.facts.settings,
        arguments=(),
        jobs=1,
        report=lambda _: None,
    )


def steps(plan: Plan) -> list[str]:
    """Which files are put (+) or removed (-), in order."""
    assert all(isinstance(step, Put | Remove) for step in plan.steps)
    return [
        f"{'-' if isinstance(step, Remove) else '+'}{step.name}"
        for step in plan.steps
        if isinstance(step, Put | Remove)
    ]


def stale(path: Path) -> list[str]:
    """The indexes that are not as recovery would write them."""
    wrong = []
    for log in logs(path):
        base = int(log.stem)
        offsets, times = forge.index_entries(split(log.read_bytes()), base, INTERVAL)
        for extension, content in (
            (INDEX, forge.offset_index(offsets, base)),
            (TIMES, forge.time_index(times, base)),
        ):
            if log.with_suffix(extension).read_bytes() != content:
                wrong.append(name(base, extension))
    return wrong


# --- what is planned


@pytest.mark.parametrize(
    ("checkpoint", "epoch", "expected"),
    [
        ([(2, 3), (3, 12)], 3, [(0, 0), (3, 2), (10, 2), (12, 3), (15, 3), (20, 3)]),
        # A broker clears it when it appends old messages.
        ([(5, 21)], 4, [(0, 0), (10, 0), (15, 4), (20, 4)]),
        ([], 0, [(0, 0), (10, 0), (15, 0), (20, 0)]),
    ],
)
def test_old_messages_get_the_leader_epochs_of_their_offsets(
    place: Path,
    tmp_path: Path,
    checkpoint: list[tuple[int, int]],
    epoch: int,
    expected: list[tuple[int, int]],
) -> None:
    old = partition(
        place,
        {
            0: [message(offset) for offset in range(10)],
            10: [*map(message, range(10, 15)), batch(15, [record()], leader_epoch=epoch)],
            20: [message(20)],
        },
        **{"leader-epoch-checkpoint": forge.checkpoint(checkpoint)},
    )
    output = tmp_path / "out"
    assert kdump(COMMAND, old, "--output", output, searching=False).code == 0
    apply(conversion(old))
    for made in (old, output / old.name):
        found = [batch for log in logs(made) for batch in split(log.read_bytes())]
        assert [
            (int.from_bytes(each[:8]), int.from_bytes(each[12:16])) for each in found
        ] == expected
        assert "leader-epoch-falls" not in {line["code"] for line in above_info(made)}


def test_only_logs_with_something_old_are_touched(old: Path) -> None:
    before = left(old.parent)
    plan = conversion(old)
    assert left(old.parent) == before
    assert steps(plan) == [
        f"{sign}{name(base, extension)}"
        for base in (0, 20)
        for sign, extension in (("-", INDEX), ("+", LOG), ("+", TIMES), ("+", INDEX))
    ]
    assert not plan.lossy
    assert plan.log_start == 0
    assert plan.log_end == (103, 103)
    first, *_ = plan.puts
    assert first.replaces
    assert isinstance(first.recipe, ConvertedPart)
    assert (first.recipe.log, first.recipe.codec, first.recipe.part) == (name(0, LOG), None, 0)
    assert (first.recipe.batch_bytes, first.recipe.records) == (16384, 20)
    assert first.mtime_ns == (old / name(0, LOG)).stat().st_mtime_ns
    notes = " ".join(plan.notes)
    assert "brokers before 0.11 cannot read the result" in notes
    assert "the old logs go into the backup" in notes


def test_a_plan_says_exactly_what_comes_of_it(crowded: Path) -> None:
    plan = conversion(crowded)
    apply(plan)
    for put in plan.puts:
        content = (crowded / put.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (put.size, put.sha256)
        assert put.content in (None, content)
    assert stale(crowded) == []
    assert legacy_batches(crowded) == []
    assert above_info(crowded) == []
    again = conversion(crowded)
    assert (again.steps, again.notes) == ((), ())


def test_a_partition_of_magic_2_needs_nothing(place: Path) -> None:
    plan = conversion(partition(place, {0: [batch(0, [record()])], 1: []}))
    assert (plan.steps, plan.notes, plan.log_end) == ((), (), (1, 1))


def test_a_partition_without_a_segment_needs_nothing(place: Path) -> None:
    plan = conversion(partition(place, {}))
    assert (plan.steps, plan.log_start, plan.log_end) == ((), None, (None, None))


def test_the_rules_are_in_the_plan(old: Path) -> None:
    plans = [conversion(old, rules) for rules in (Rules(), Rules(batch_bytes=0), Rules(Codec.ZSTD))]
    assert len({plan.id for plan in plans}) == 3
    assert [plan.conversions[0][1].codec for plan in plans] == [None, None, "zstd"]
    assert [plan.conversions[0][1].batch_bytes for plan in plans] == [16384, 0, 16384]
    assert "before 2.1" in plans[2].notes[0]
    assert len({plan.conversions[0][1].digest for plan in plans}) == 1


def test_two_workers_plan_the_same(crowded: Path) -> None:
    assert conversion(crowded, jobs=2) == conversion(crowded)


def test_indexes_that_find_no_room_in_a_plan_are_built_when_it_is_carried_out(
    crowded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = conversion(crowded)
    monkeypatch.setattr(convert, "_REBUILD_BYTES", 0)
    bare = conversion(crowded)
    assert bare == plan
    of_indexes = [put for put in bare.puts if isinstance(put.recipe, RebuiltIndex)]
    assert of_indexes
    assert all(put.content is None for put in of_indexes if put.size)
    apply(bare)
    for put in plan.puts:
        found = (crowded / put.name).read_bytes()
        assert hashlib.sha256(found).hexdigest() == put.sha256
    # They belong to whom the ones before belonged to.
    for put in of_indexes:
        before = crowded / ".kdump" / plan.id / "old" / put.name
        if before.exists():
            mine, theirs = (crowded / put.name).stat(), before.stat()
            assert (mine.st_uid, mine.st_gid, mine.st_mode) == (
                theirs.st_uid,
                theirs.st_gid,
                theirs.st_mode,
            )


def test_a_log_that_looks_the_same_gets_another_time(place: Path) -> None:
    """Without another time the file does not show whether it is converted."""
    far = 2**62 + TIMESTAMP
    alike = [
        message(0, b"v" * 5, timestamp=0),
        message(1, b"v" * 60, timestamp=far),
        message(2, b"v" * 60, timestamp=far),
    ]
    path = partition(place, {0: alike, 3: [message(3)]})
    before = (path / name(0, LOG)).stat()
    plan = conversion(path)
    (put, _), (other, _) = plan.conversions
    assert put.size == before.st_size
    assert put.mtime_ns == before.st_mtime_ns + 10**9
    assert other.mtime_ns == (path / name(3, LOG)).stat().st_mtime_ns
    tree = left(path.parent)
    apply(plan)
    assert legacy_batches(path) == []
    undone(path, plan)
    assert restored(path.parent, tree)


def test_the_log_end_is_that_of_the_records(place: Path) -> None:
    """Where old librdkafka left the wrapper's offset at 0, brokers go on behind that."""
    path = partition(place, {0: [wrapper(0, [message(n) for n in range(5)], codec="gzip")]})
    assert conversion(path).log_end == (1, 5)


def test_too_many_entries_for_an_index(old: Path) -> None:
    found = verdict(old)
    assert found.facts is not None
    tight = replace(found.facts.settings, index_interval_bytes=1, segment_index_bytes=24)
    many = [message(number, bytes(20_000)) for number in range(20)]
    (old / name(0, LOG)).write_bytes(b"".join(many))
    plan = plan_convert(
        verdict(old), Rules(), settings=tight, arguments=(), jobs=1, report=lambda _: None
    )
    assert any("more index entries than 24 bytes hold" in note for note in plan.notes)
    apply(plan)
    assert 0 < (old / name(0, INDEX)).stat().st_size <= 24


def test_too_many_entries_for_an_index_and_for_a_plan(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdict(old)
    assert found.facts is not None
    monkeypatch.setattr(convert, "_REBUILD_BYTES", 0)
    (old / name(0, LOG)).write_bytes(b"".join(message(n, bytes(20_000)) for n in range(20)))
    tight = replace(found.facts.settings, index_interval_bytes=1, segment_index_bytes=24)
    with pytest.raises(Refused, match=r"expected indexes that fit into segment\.index\.bytes"):
        plan_convert(
            verdict(old), Rules(), settings=tight, arguments=(), jobs=1, report=lambda _: None
        )


# --- a log that becomes several


def test_parts_come_from_the_last_to_the_first(full: Path) -> None:
    plan = conversion(full)
    assert plan.steps[0] == Remove(name(0, INDEX))
    parts = [recipe.part for _, recipe in plan.conversions if recipe.log == name(0, LOG)]
    assert len(parts) > 1
    assert parts == sorted(parts, reverse=True)
    assert [put.replaces for put, _ in plan.conversions] == [
        recipe.part == 0 for _, recipe in plan.conversions
    ]
    for put, _ in plan.conversions:
        order = steps(plan)
        place = order.index(f"+{put.name}")
        wanted = [
            f"+{put.name.removesuffix(LOG)}{extension}" for extension in (LOG, ABORTS, TIMES, INDEX)
        ]
        found = [each for each in order[place : place + 4] if each in wanted]
        assert found in (wanted, [wanted[0], *wanted[2:]])
    assert any("it is split into" in note for note in plan.notes)
    before = left(full.parent)
    receipt = apply(plan)
    assert len(receipt["converted"]) == len(plan.conversions)
    assert legacy_batches(full) == []
    assert above_info(full) == []
    assert stale(full) == []
    assert all((full / put.name).stat().st_size == put.size for put in plan.puts)
    undone(full, plan)
    assert restored(full.parent, before)


def test_aborted_transactions_go_with_their_ends(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [
        batch(n, [record(bytes(200))], producer_id=9, producer_epoch=0, transactional=True)
        for n in (1, 3, 5)
    ]
    markers = [marker(n, 9, commit=False) for n in (2, 4, 6)]
    pieces = [message(0), *(batch for pair in zip(data, markers, strict=True) for batch in pair)]
    entries = [(9, 1, 2, 3), (9, 3, 4, 5), (9, 5, 6, 7)]
    path = partition(place, {0: pieces})
    (path / name(0, ABORTS)).write_bytes(forge.txn_index(entries))
    # Of a segment that is gone: a broker removes them at its next start.
    (path / name(3, ABORTS)).write_bytes(forge.txn_index(entries[:1]))
    (path / name(3, INDEX)).write_bytes(bytes(8))
    monkeypatch.setattr(conversions, "MAX_LOG_BYTES", 450)
    plan = conversion(path)
    assert steps(plan)[:2] == [f"-{name(0, INDEX)}", f"-{name(3, INDEX)}"]
    apply(plan)
    found = {
        base: TransactionIndex.decode((path / name(base, ABORTS)).read_bytes()).entries
        for base in (0, 3, 5)
    }
    assert {base: [batch.last_offset for batch in batches] for base, batches in found.items()} == {
        0: [2],
        3: [4],
        5: [6],
    }


def test_a_transaction_index_that_cannot_be_read_is_not_split(full: Path) -> None:
    found = verdict(full)
    assert found.facts is not None
    aborts = full / name(100, ABORTS)
    unread: Read[TransactionIndex] = Read(aborts, None, SourceError(aborts, "a disk error"))
    facts = replace(found.facts, txn_indexes={100: unread})
    with pytest.raises(
        Refused, match=("expected a transaction index, found another file: rebuild it")
    ):
        plan_of(replace(found, facts=facts))


# --- what is refused


def damage(log: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def harm(path: Path) -> None:
        (path / log).write_bytes(change((path / log).read_bytes()))

    return harm


REFUSALS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a checksum": (damage(name(0, LOG), lambda data: flip(data, 30)), "corruption \\(bad-checksum"),
    "a transaction's marker": (
        lambda path: (path / name(100, LOG)).write_bytes(
            batch(100, [record()], producer_id=7, producer_epoch=0, transactional=True)
            + flip(marker(101, 7, commit=True), -1)
        ),
        "corruption \\(bad-checksum",
    ),
    "a torn tail elsewhere": (damage(name(100, LOG), lambda data: data[:-1]), "torn-tail"),
    "all behind damage": (
        damage(name(0, LOG), lambda data: bytes(10) + data),
        "corruption \\(impossible-size",
    ),
    "order": (damage(name(0, LOG), lambda data: data * 2), "rise from batch to batch"),
    "overlap": (
        damage(name(20, LOG), lambda data: data + batch(100, [record()])),
        "to end before",
    ),
    "inside": (
        damage(name(20, LOG), lambda _: wrapper(22, [flip(message(0), -1)], codec="gzip")),
        "to match their checksums",
    ),
    "a swap": (
        lambda path: shutil.copy(path / name(0, LOG), path / name(0, LOG + ".swap")),
        "let a broker finish it first",
    ),
}


@pytest.mark.parametrize("title", REFUSALS)
def test_what_is_refused(old: Path, title: str) -> None:
    harm, why = REFUSALS[title]
    harm(old)
    before = left(old.parent)
    with pytest.raises(Refused, match=why) as refused:
        conversion(old)
    if title != "a swap":
        assert "kdump truncate-to-valid" in str(refused.value)
        assert "kdump salvage" in str(refused.value)
    assert left(old.parent) == before


@pytest.mark.parametrize("last", [9, 2**31 + 5])
def test_a_wrapper_that_reaches_into_the_next_segment(place: Path, last: int) -> None:
    """With offset 0, as old clients left it, it does not say how far it reaches."""
    inner = [message(0, magic=0), message(last, magic=0)]
    path = partition(
        place, {0: [wrapper(0, inner, codec="gzip", magic=0)], last: [batch(last, [record()])]}
    )
    with pytest.raises(Refused, match=f"end before {name(last, LOG)} begins, found offset {last}"):
        plan_of(verdict(path))


def test_a_log_that_is_a_link(old: Path, place: Path) -> None:
    real = (old / name(0, LOG)).rename(place / "real.log")
    (old / name(0, LOG)).symlink_to(real)
    with pytest.raises(Refused, match="found a symbolic link"):
        plan_of(verdict(old))


def test_where_records_cannot_be_read_is_reported(place: Path) -> None:
    first, inner = message(0), [message(0), flip(message(1), -1)]
    path = partition(place, {0: [first, wrapper(2, inner, codec="gzip")]})
    with pytest.raises(Refused, match=f"from position {len(first)} on: .* verify --deep"):
        plan_of(verdict(path))


def test_damage_where_nothing_is_old_is_no_matter(place: Path) -> None:
    path = partition(place, {0: [batch(0, [record()])]})
    damage(name(0, LOG), lambda data: data + b"torn")(path)
    assert conversion(path).steps == ()


def test_batches_that_all_follow_damage_may_be_old(place: Path) -> None:
    path = partition(place, {0: OLD})
    damage(name(0, LOG), lambda data: bytes(10) + data)(path)
    with pytest.raises(Refused, match=r"found corruption \(impossible-size"):
        conversion(path)


def test_a_directory_that_is_to_be_deleted(old: Path) -> None:
    doomed = old.rename(old.with_name(f"topic-0.{'a' * 32}-delete"))
    plan = conversion(doomed)
    assert plan.steps == ()
    assert "a broker deletes this directory" in plan.notes[0]


def test_a_lone_segment_is_no_partition(old: Path) -> None:
    found = verdict(old / name(0, LOG))
    with pytest.raises(UsageError, match="expected a partition directory"):
        plan_convert(
            found, Rules(), settings=TopicSettings(), arguments=(), jobs=1, report=lambda _: None
        )


def test_a_log_that_could_not_be_read(old: Path) -> None:
    found = verdict(old)
    first, *others = found.surveys
    unread = ReadFailure(first.segment.log, vanished=False, text="a disk error")
    with pytest.raises(SourceError, match="a disk error"):
        plan_of(replace(found, surveys=(replace(first, unread=(unread,)), *others)))
    with pytest.raises(SourceError, match="could not be read"):
        plan_of(replace(found, surveys=tuple(others)))
    assert found.facts is not None
    index = ReadFailure(first.segment.log.with_suffix(INDEX), vanished=False, text="a disk error")
    assert plan_of(replace(found, surveys=(replace(first, unread=(index,)), *others))).steps
    error = SourceError(old, "gone")
    with pytest.raises(SourceError, match="gone"):
        plan_of(replace(found, target=replace(found.target, error=error)))


def test_a_log_that_changed_since_it_was_read(old: Path) -> None:
    found = verdict(old)
    os.utime(old / name(0, LOG))
    with pytest.raises(SourceError, match="found that it changed"):
        plan_of(found)


def test_a_worker_that_is_killed(crowded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: Any) -> None:
        os.kill(os.getpid(), 9)

    monkeypatch.setattr(measure, "sha256", die)
    with pytest.raises(SourceError, match="SIGKILL killed the process"):
        conversion(crowded, jobs=2)


# --- carried out, and taken back


def test_the_receipt_has_the_records_before_and_after(crowded: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in crowded.glob("*.log")}
    counts: list[int] = []
    plan = conversion(crowded)
    receipt = apply(plan, report=counts.append)
    assert set(receipt["converted"]) == {name(0, LOG), name(100, LOG)}
    for log, converted in receipt["converted"].items():
        assert converted["from"] == log
        assert converted["bytes_before"] == sizes[log]
        assert converted["bytes_after"] == (crowded / log).stat().st_size
        assert converted["digest_before"] == converted["digest_after"]
        assert converted["records"] > 0
        after = LogReader(crowded / log, int(log[:20]), TopicSettings(), 0).finish()
        assert (after.digest, after.records) == (converted["digest_after"], converted["records"])
        assert receipt["files"][log]["after"] == after.sha256
    read = sum(log["bytes_before"] + log["bytes_after"] for log in receipt["converted"].values())
    assert sum(counts) == read
    assert receipt == json.loads((crowded / ".kdump" / plan.id / "receipt.json").read_text())


def test_other_receipts_do_not_speak_of_it(place: Path) -> None:
    path = partition(place, {0: [batch(0, [record()])]})
    assert "converted" not in apply(by_hand(path, Put.of("new", b"content", replaces=False)))


@pytest.mark.parametrize("fixture", ["crowded", "full"])
def test_undo_brings_all_back(fixture: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(fixture)
    before = left(path.parent)
    plan = conversion(path)
    apply(plan)
    changed = {file for file, node in left(path.parent).items() if before.get(file) != node}
    assert not any(file.startswith(OTHER) for file in changed)
    undone(path, plan)
    assert restored(path.parent, before)
    assert conversion(path).id == plan.id


@pytest.mark.parametrize("fixture", ["crowded", "full"])
def test_an_interrupted_conversion_is_finished_or_taken_back(
    fixture: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: Path = request.getfixturevalue(fixture)
    before = left(path.parent)
    plan = conversion(path)
    renames = 1 + 2 * len(plan.steps)
    finished = None
    for place in range(2, renames):
        try:
            with failing_at("rename", place):
                apply(plan)
        except Unfinished:
            pass
        else:
            break
        (repair,) = repair_records(path)
        assert repair.state is RepairState.PENDING
        if place % 2:
            undone(path, plan)
        else:
            receipt = resume(Folder(path, plan.id), path.parent)
            digests = [log["digest_after"] for log in receipt["converted"].values()]
            assert finished in (None, digests)
            finished = digests
            for put in plan.puts:
                content = (path / put.name).read_bytes()
                assert hashlib.sha256(content).hexdigest() == put.sha256
            undone(path, plan)
        assert restored(path.parent, before)
    assert finished


def test_a_plan_from_json_does_the_same(crowded: Path) -> None:
    plan = conversion(crowded)
    read = decode(json.loads(json.dumps(encode(plan))))
    assert read == plan
    apply(read)
    for put in plan.puts:
        content = (crowded / put.name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == put.sha256


def test_carried_out_by_hand_it_is_the_same(crowded: Path, place: Path) -> None:
    plan = conversion(crowded)
    apply(plan)
    after = {put.name: (crowded / put.name).read_bytes() for put in plan.puts}
    undone(crowded, plan)
    whole = tuple(
        replace(step, content=after[step.name]) if isinstance(step, Put) else step
        for step in plan.steps
    )
    carry_out(replace(plan, steps=whole))
    assert {put.name: (crowded / put.name).read_bytes() for put in plan.puts} == after


# --- what is read back


def written_as(change: Callable[[bytes], bytes]) -> Callable[..., None]:
    """Has the logs that are written changed on their way."""
    write = disk.write_file

    def other(path: Path, pieces: Iterable[bytes], *more: Any) -> None:
        write(path, [change(b"".join(pieces))], *more)

    return other


def another_value(data: bytes) -> bytes:
    """The same with another value in the first batch, which is sound."""
    first, *rest = split(data)
    changed = bytearray(first)
    changed[-2] ^= 1  # before the number of headers
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4)
    return b"".join((changed, *rest))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: flip(data, -1), "found bad-checksum at position"),
        (lambda data: data[:-1], "found torn-tail at position"),
        (another_value, "planned bytes to be read back, found other bytes"),
        (lambda data: data + batch(5000, [record()]), "planned bytes to be read back"),
    ],
)
@pytest.mark.parametrize("jobs", [1, 2])
def test_another_log_than_planned_is_not_put_in_place(
    old: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
    why: str,
    jobs: int,
) -> None:
    before = left(old.parent)
    plan = conversion(old)
    monkeypatch.setattr(disk, "write_file", written_as_logs(change))
    with pytest.raises(Refused, match=why):
        apply(plan, jobs=jobs)
    monkeypatch.undo()
    assert left(old.parent) == before


def written_as_logs(change: Callable[[bytes], bytes]) -> Callable[..., None]:
    write, changed = disk.write_file, written_as(change)

    def either(path: Path, *more: Any) -> None:
        (changed if path.suffix == LOG else write)(path, *more)

    return either


@pytest.mark.parametrize("field", ["records", "digest"])
def test_other_records_than_planned_are_not_put_in_place(
    old: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    before = left(old.parent)
    plan = conversion(old)

    finish = LogReader.finish

    def other(reader: LogReader) -> ReadBack:
        found = finish(reader)
        if field == "records":
            return replace(found, records=19)
        return replace(found, digest="ab" * 16)

    monkeypatch.setattr(LogReader, "finish", other)
    with pytest.raises(Refused, match=r"expected the 20 records of .* to be read back"):
        apply(plan)
    monkeypatch.undo()
    assert left(old.parent) == before


@pytest.mark.parametrize("part", [0, 1])
def test_a_plan_that_says_otherwise_than_the_conversion(old: Path, part: int) -> None:
    before = left(old.parent)
    plan = conversion(old)
    (put, recipe), *_ = plan.conversions
    others = [step for step in plan.steps if step != put]
    wrong = replace(put, recipe=replace(recipe, digest="ab" * 16))
    changed: tuple[Any, ...] = (wrong, *others)
    if part:  # or one that knows of fewer parts than there are
        changed = (replace(put, recipe=replace(recipe, records=1)), *others)
    with pytest.raises(Refused, match="expected the result to match the plan"):
        apply(replace(plan, steps=changed))
    assert left(old.parent) == before


@pytest.mark.parametrize("others", [True, False], ids=["fewer", "more"])
def test_other_logs_than_planned(full: Path, monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    before = left(full.parent)
    bounds = SPLIT.most_bytes, 2**31 - 1
    planned, carried_out = bounds if others else reversed(bounds)
    monkeypatch.setattr(conversions, "MAX_LOG_BYTES", planned)
    plan = conversion(full)
    monkeypatch.setattr(conversions, "MAX_LOG_BYTES", carried_out)
    with pytest.raises(Refused, match="expected the result to match the plan"):
        apply(plan)
    assert left(full.parent) == before


def test_a_log_that_changed_since_it_was_planned(old: Path) -> None:
    plan = conversion(old)
    os.utime(old / name(0, LOG))
    with pytest.raises(Refused, match="plan again"):
        apply(plan)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_disk_that_fails(old: Path, error: int, jobs: int) -> None:
    before = left(old.parent)
    plan = conversion(old)

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "write" and call.paths and call.paths[0].endswith(LOG):
            raise OSError(error, os.strerror(error))
        return make(*call.arguments)

    with calling(around), pytest.raises(Refused, match=os.strerror(error)):
        apply(plan, jobs=jobs)
    assert left(old.parent) == before


def test_digests_of_another_plan_are_refused(old: Path) -> None:
    plan = conversion(old)
    interrupt(plan, "link")
    begun = old / ".kdump" / plan.id / "begun.json"
    fields = json.loads(begun.read_text())
    assert set(fields["digests"]) == {put.name for put, _ in plan.conversions}
    for digests in ({}, dict.fromkeys(fields["digests"], "ab" * 16), 5):
        begun.write_text(json.dumps({**fields, "digests": digests}))
        with pytest.raises(Refused, match="the digests of the converted logs differ"):
            resume(Folder(old, plan.id), old.parent)
    begun.write_text(json.dumps(fields))
    resume(Folder(old, plan.id), old.parent)
    assert legacy_batches(old) == []
