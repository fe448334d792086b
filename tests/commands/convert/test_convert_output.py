"""``convert-v0-v2 --output``: the new directory, what is proved of it, and when there is none."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.facts.settings import Overrides
from kdump.audit.targets.context import Context
from kdump.audit.targets.target import Target, assign, open_roots
from kdump.commands.convert import segments
from kdump.commands.convert.output import convert_to
from kdump.commands.convert.receipt import ConvertedCopy, encode
from kdump.errors import KdumpError, Refused, SourceError
from kdump.format.codecs import Codec
from kdump.repair.rewrite import conversion
from kdump.repair.rewrite.conversion import Conversion, Rules
from kdump.repair.rewrite.read_back import LogReader, ReadBack
from kdump.repair.transaction import disk
from kdump.storage.paths import as_local
from support import forge
from support.crashing.trees import take
from support.failing import NO_ROOM, Failing
from support.forge import message, wrapper

NAME = "orders-7"
FIVE = [message(offset, b"value %d" % offset) for offset in range(5)]
ZIPPED = wrapper(9, [message(delta, b"inner") for delta in range(5)], codec="gzip")
OLD = b"".join([*FIVE, ZIPPED])
NEW = [
    forge.batch(10, [forge.record(b"ten"), forge.record(b"eleven")], leader_epoch=1),
    forge.batch(12, [forge.record(b"twelve")], leader_epoch=1, codec="lz4"),
]


def name(base_offset: int, extension: str = ".log") -> str:
    return f"{base_offset:020d}{extension}"


def converted(messages: Sequence[bytes], first: int = 0, epoch: int = 0) -> bytes:
    """The batch of magic 2 that messages with the values ``messages`` are in."""
    records = [forge.record(value) for value in messages]
    return forge.batch(first, records, leader_epoch=epoch)


FIVE_CONVERTED = converted([b"value %d" % offset for offset in range(5)])


def write(
    top: Path,
    logs: Mapping[int, bytes],
    files: Mapping[str, bytes] | None = None,
    directory: str = NAME,
) -> Path:
    """Write a partition in no log directory, whose logs are old."""
    contents = {name(base): data for base, data in logs.items()} | dict(files or {})
    origin = forge.write_partition(top / "in", "orders", 7, {}, files=contents)
    for log in origin.glob("*.log"):
        os.utime(log, (1_500_000_000, 1_500_000_000))
    return origin.rename(origin.with_name(directory))


def group_of(origin: Path) -> Target:
    (root,) = open_roots([origin])
    (target,) = assign(root)
    return target


@dataclass
class Convert:
    """Converts partitions to ``output``; ``read`` is how many bytes it has said to have read."""

    output: Path
    rules: Rules = field(default_factory=Rules)
    jobs: int = 1
    context: Context = field(default_factory=lambda: Context(0))
    read: list[int] = field(default_factory=list)

    @property
    def destination(self) -> Path:
        return self.output / NAME

    def __call__(self, origin: Path | Target) -> ConvertedCopy:
        """Convert it; assert that it was only read, and that the receipt is right."""
        target = origin if isinstance(origin, Target) else group_of(origin)
        before = take(as_local(target.path))
        try:
            copy = convert_to(
                target,
                self.context,
                self.output,
                self.rules,
                jobs=self.jobs,
                report=self.read.append,
            )
        finally:
            assert take(as_local(target.path)) == before
        if not copy.nothing:
            self._check(copy, target)
        return copy

    def refused(self, origin: Path | Target, kind: type[Exception] = Refused) -> str:
        """What is said by one that fails; it leaves nothing behind."""
        there = take(self.output) if self.output.exists() else None
        with pytest.raises(kind) as caught:
            self(origin)
        assert (take(self.output) if self.output.exists() else None) == there
        return str(caught.value)

    def _check(self, copy: ConvertedCopy, target: Target) -> None:
        assert copy.destination == self.destination
        files = {
            path.name: path.read_bytes() for path in copy.destination.iterdir() if path.is_file()
        }
        assert copy.files == {
            name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in files.items()
        }
        for part in copy.parts:
            assert part.digest_before == part.digest_after
            assert part.size == len(files[part.name])
        assert sum(self.read) == sum(segment.log.stat().st_size for segment in target.segments)
        receipt = json.loads((copy.destination / ".kdump" / copy.id / "receipt.json").read_text())
        expected = {"source": str(target.path), "target": str(copy.destination), **encode(copy)}
        assert receipt == expected


@pytest.fixture
def convert(tmp_path: Path) -> Convert:
    return Convert(tmp_path / "out")


# --- what is written


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_partition_is_rewritten(tmp_path: Path, convert: Convert, jobs: int) -> None:
    companions = {
        name(13, ".snapshot"): forge.snapshot([(9, 1, 3, 12, 0, forge.TIMESTAMP, -1, -1)]),
        name(10, ".snapshot"): forge.snapshot(),
        name(10, ".txnindex"): forge.txn_index([(9, 10, 11, 12)]),
        "leader-epoch-checkpoint": forge.checkpoint([(0, 4), (1, 10)]),
    }
    # The old indexes are not read.
    odd = {name(base, end): b"odd" for base in (0, 10) for end in (".index", ".timeindex")}
    origin = write(tmp_path, {0: OLD, 10: b"".join(NEW)}, companions | odd)
    convert.jobs = jobs
    copy = convert(origin)
    written = {
        path.name: path.read_bytes() for path in convert.destination.glob("*") if path.is_file()
    }
    assert written.pop(name(0)).startswith(FIVE_CONVERTED)
    assert written == {
        **companions,
        "partition.metadata": forge.partition_metadata(),
        name(10): b"".join(NEW),
        name(0, ".index"): b"",
        name(10, ".index"): b"",
        name(0, ".timeindex"): forge.time_index([(forge.TIMESTAMP, 4)]),
        name(10, ".timeindex"): forge.time_index([(forge.TIMESTAMP, 11)], 10),
    }
    assert (copy.problems, copy.has_errors) == (0, False)
    (log,) = copy.logs
    (part,) = log.parts
    assert (log.name, log.legacy, log.copied) == (name(0), 6, 0)
    assert (part.name, part.batches, part.records) == (name(0), 2, 10)
    assert copy.untouched == (name(10),)
    assert (copy.log_start, copy.log_end) == (0, 13)
    assert (copy.bytes_before, copy.bytes_after) == (len(OLD), part.size)
    assert (copy.legacy, copy.records) == (6, 10)
    assert {log.stat().st_mtime for log in convert.destination.glob("*.log")} == {1_500_000_000}


def test_workers_write_what_one_process_writes(tmp_path: Path, convert: Convert) -> None:
    bases = range(0, 70, 10)
    logs = {base: b"".join(message(base + delta) for delta in range(5)) for base in bases}
    origin = write(tmp_path, logs)
    single = convert(origin)
    several = replace(convert, output=tmp_path / "other", jobs=3, read=[])(origin)
    assert several.files == single.files
    assert several.logs == single.logs
    assert [log.name for log in single.logs] == [name(base) for base in logs]


def test_batches_of_magic_2_among_others_stay(tmp_path: Path, convert: Convert) -> None:
    batch = forge.batch(0, [forge.record(b"new")], leader_epoch=3)
    origin = write(tmp_path, {0: b"".join([batch, message(1, b"one"), message(2, b"two")])})
    copy = convert(origin)
    log = (convert.destination / name(0)).read_bytes()
    assert log == batch + converted([b"one", b"two"], 1, epoch=3)
    assert (copy.logs[0].legacy, copy.logs[0].copied, copy.records) == (2, 1, 3)


@pytest.mark.parametrize(
    ("rules", "arguments", "batches"),
    [
        (Rules(), [], 2),
        (Rules(batch_bytes=0), ["--batch-bytes", "0"], 6),
        (Rules(Codec.ZSTD), ["--codec", "zstd"], 2),
        (Rules(Codec.NONE, 5), ["--batch-bytes", "5", "--codec", "none"], 6),
    ],
)
def test_rules_are_followed_and_reported(
    tmp_path: Path, convert: Convert, rules: Rules, arguments: list[str], batches: int
) -> None:
    origin = write(tmp_path, {0: OLD})
    convert.rules = rules
    copy = convert(origin)
    assert copy.parts[0].batches == batches
    plan = json.loads((convert.destination / ".kdump" / copy.id / "plan.json").read_text())
    assert plan["command"] == "convert-v0-v2"
    assert plan["arguments"] == [str(origin), *arguments]
    release = "2.1" if rules.codec is Codec.ZSTD else "0.11"
    assert f"brokers before {release} cannot read the result" in copy.notes


def test_what_was_converted_needs_no_conversion(tmp_path: Path, convert: Convert) -> None:
    convert(write(tmp_path, {0: OLD, 10: b"".join(NEW)}))
    again = replace(convert, output=tmp_path / "again", read=[])
    assert again(convert.destination).nothing
    assert not again.output.exists()


def test_owner_and_permissions_are_those_of_the_origin(place: Path, convert: Convert) -> None:
    convert.output = place / "out"
    origin = write(place, {0: OLD})
    origin.chmod(0o2750)
    (origin / name(0)).chmod(0o640)
    if os.geteuid() == 0:
        for path in (origin, *origin.iterdir()):
            os.chown(path, 4_321, 1_234)
    convert(origin)
    for mine, other in (
        (convert.destination, origin),
        (convert.destination / name(0), origin / name(0)),
    ):
        ours, theirs = mine.stat(), other.stat()
        assert (ours.st_mode, ours.st_uid, ours.st_gid) == (
            theirs.st_mode,
            theirs.st_uid,
            theirs.st_gid,
        )
    assert {path.stat().st_uid for path in convert.destination.iterdir()} == {origin.stat().st_uid}


# --- a log that becomes too large


def test_a_log_is_split_with_its_transactions(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MAX_LOG_BYTES", 210)
    marks = [
        forge.batch(
            offset,
            [forge.record(bytes(60))],
            producer_id=9,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        for sequence, offset in enumerate((5, 7, 9))
    ]
    ends = [forge.marker(offset, 9, commit=False) for offset in (6, 8, 10)]
    pairs = [batch for pair in zip(marks, ends, strict=True) for batch in pair]
    aborted = [(9, 5, 6, 7), (9, 7, 8, 9), (9, 9, 10, 11)]
    files = {name(0, ".txnindex"): forge.txn_index(aborted)}
    origin = write(tmp_path, {0: b"".join([*FIVE, *pairs]), 11: b""}, files)
    copy = convert(origin)
    target = convert.destination
    logs = {path.stem: path.read_bytes() for path in sorted(target.glob("*.log"))}
    # A batch and the marker behind it fit together.
    assert b"".join(logs.values()) == b"".join([FIVE_CONVERTED, *pairs])
    assert max(map(len, logs.values())) <= 210
    bases = [int(stem) for stem in logs]
    assert bases == [0, 5, 7, 9, 11]
    assert [part.name for part in copy.parts] == [name(base) for base in bases[:-1]]
    assert {path.name: path.read_bytes() for path in target.glob("*.txnindex")} == {
        name(base, ".txnindex"): forge.txn_index([entry])
        for base, entry in zip((5, 7, 9), aborted, strict=True)
    }
    assert any("it is split into 4 logs" in note for note in copy.notes)
    assert {log.stat().st_mtime for log in target.glob("*.log")} == {1_500_000_000}
    assert copy.problems == 0


def test_a_transaction_index_that_cannot_be_read_is_not_split(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MAX_LOG_BYTES", 1)
    origin = write(tmp_path, {0: OLD}, {name(0, ".txnindex"): b""})
    os.truncate(origin / name(0, ".txnindex"), (64 << 20) + 1)
    assert "expected at most" in convert.refused(origin, SourceError)


def test_a_transaction_index_stays_as_it_is_beside_a_whole_log(
    tmp_path: Path, convert: Convert
) -> None:
    files = {name(0, ".txnindex"): forge.txn_index([(9, 1, 2, 3)]) + b"tail"}
    convert(write(tmp_path, {0: OLD}, files))
    assert (convert.destination / name(0, ".txnindex")).read_bytes() == files[name(0, ".txnindex")]


def test_a_part_never_takes_the_place_of_the_next_log(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversion, "MAX_LOG_BYTES", 1)
    origin = write(tmp_path, {0: OLD, 5: message(10)})
    said = convert.refused(origin)
    assert f"{name(0)}: expected offsets below 5, where the next log begins, found 5" in said


# --- notes on what is left out


def test_leftovers_are_not_copied(tmp_path: Path, convert: Convert) -> None:
    left = [
        name(90, ".log.deleted"),
        name(91, ".log.cleaned"),
        name(92, ".index"),  # without a log
        "7.log",
        "notes.txt",
        "partition.metadata.tmp",
    ]
    origin = write(tmp_path, {0: OLD}, dict.fromkeys([*left, ".kdump.left"], b""))
    (origin / ".kdump" / "some").mkdir(parents=True)
    copy = convert(origin)
    (note,) = (note for note in copy.notes if note.startswith("not copied"))
    assert note == f"not copied: {', '.join(sorted(left)[:5])} and 1 more"
    assert not {*left, ".kdump.left"}.intersection(copy.files)
    assert [path.name for path in (convert.destination / ".kdump").iterdir()] == [copy.id]


def test_a_broker_beside_the_copy_is_reported(tmp_path: Path, convert: Convert) -> None:
    origin = write(tmp_path, {0: OLD})
    (tmp_path / "in" / "meta.properties").write_text("version=1\n")
    starts = forge.checkpoint([("orders", 7, 3)])
    (tmp_path / "in" / "log-start-offset-checkpoint").write_bytes(starts)
    copy = convert(replace(group_of(origin), stopped=False))
    notes = " ".join(copy.notes)
    assert "a broker may be writing to the source" in notes
    assert "the log start offset was 3" in notes


@pytest.mark.parametrize("legacy", [True, False])
def test_an_index_without_room_is_reported(tmp_path: Path, convert: Convert, legacy: bool) -> None:
    convert.rules = Rules(batch_bytes=0)
    convert.context = replace(Context(0), wanted=Overrides(1, 24))
    batches = [forge.batch(10 + offset, [forge.record()]) for offset in range(9)]
    messages = [message(offset) for offset in range(9)]
    logs = {0: b"".join(messages)} if legacy else {0: message(0), 10: b"".join(batches)}
    copy = convert(write(tmp_path, logs))
    (note,) = (note for note in copy.notes if "index entries" in note)
    assert note.startswith(name(0 if legacy else 10))
    # The time index has room for two entries, and then that is all.
    assert copy.files[name(0 if legacy else 10, ".index")][0] == 16


@pytest.mark.parametrize("suffix", ["stray", "future"])
def test_a_directory_that_was_set_aside_gets_its_name_back(
    tmp_path: Path, convert: Convert, suffix: str
) -> None:
    directory = f"{NAME}.{'0' * 32}-{suffix}"
    copy = convert(write(tmp_path, {0: OLD}, directory=directory))
    assert f"the directory was called {directory}" in copy.notes


# --- where there is nothing to do


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("logs", [{}, {10: b"".join(NEW), 13: b""}, {0: b"\xff" * 70, 10: b""}])
def test_without_old_batches_nothing_is_written(
    tmp_path: Path, convert: Convert, logs: Mapping[int, bytes], jobs: int
) -> None:
    convert.jobs = jobs
    copy = convert(write(tmp_path, logs, {name(20, ".log.swap"): b""}))
    assert copy.nothing
    assert (copy.id, copy.files, copy.notes, copy.log_end) == ("", {}, (), None)
    assert sum(convert.read) == sum(map(len, logs.values()))
    assert not convert.output.exists()


def test_a_directory_that_is_deleted_is_not_converted(tmp_path: Path, convert: Convert) -> None:
    copy = convert(write(tmp_path, {0: OLD}, directory=f"{NAME}.{'0' * 32}-delete"))
    assert copy.nothing
    (note,) = copy.notes
    assert "a broker deletes this directory" in note
    assert not convert.output.exists()


# --- what is refused


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", ["torn", "flipped", "room"])
def test_damage_is_refused(
    tmp_path: Path, convert: Convert, damage: str, number: int, jobs: int
) -> None:
    logs = [OLD, b"".join(NEW)]
    spoilt = {"torn": logs[number][:-1], "flipped": forge.flip(logs[number], -1)}
    logs[number] = spoilt.get(damage, logs[number] + bytes(100))
    convert.jobs = jobs
    said = convert.refused(write(tmp_path, {0: logs[0], 10: logs[1]}))
    assert name(10 * number) in said
    assert "kdump truncate-to-valid" in said
    assert "kdump salvage" in said


def test_a_copied_log_whose_offsets_do_not_rise_is_refused(
    tmp_path: Path, convert: Convert
) -> None:
    said = convert.refused(write(tmp_path, {0: OLD, 10: b"".join(reversed(NEW))}))
    assert f"{tmp_path / 'in' / NAME / name(10)}: expected offsets that rise" in said


def test_logs_that_overlap_are_refused(tmp_path: Path, convert: Convert) -> None:
    said = convert.refused(write(tmp_path, {0: OLD, 9: b"".join(NEW)}))
    assert f"{tmp_path / 'in' / NAME / name(0)}: expected the log to end before {name(9)}" in said


def test_a_swap_that_waits_is_refused(tmp_path: Path, convert: Convert) -> None:
    said = convert.refused(write(tmp_path, {0: OLD}, {name(20, ".log.swap"): b""}))
    assert "let a broker finish it first" in said


def test_a_target_that_is_there_is_refused(tmp_path: Path, convert: Convert) -> None:
    convert.destination.mkdir(parents=True)
    assert "nothing is overwritten" in convert.refused(write(tmp_path, {0: OLD}))


@pytest.mark.parametrize("link", [True, False])
def test_a_file_with_the_name_of_a_leftover_stays(
    tmp_path: Path, convert: Convert, link: bool
) -> None:
    """Another user may have put it there, so that kdump empties another directory."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_bytes(b"theirs")
    convert.output.mkdir()
    leftover = convert.output / f".kdump.{NAME}.tmp"
    if link:
        leftover.symlink_to(theirs)
    else:
        leftover.write_bytes(b"theirs")
    assert "move it away first" in convert.refused(write(tmp_path, {0: OLD}))
    assert (theirs / "file").read_bytes() == b"theirs"
    assert leftover.exists()


def test_an_interrupted_repair_comes_first(tmp_path: Path, convert: Convert) -> None:
    origin = write(tmp_path, {0: OLD})
    (origin / ".kdump" / "0123abcd").mkdir(parents=True)
    (origin / ".kdump" / "0123abcd" / "begun.json").write_text("{}")
    said = convert.refused(origin)
    assert "expected no interrupted repair, found 0123abcd" in said
    assert "kdump undo" in said


@pytest.mark.parametrize("tail", [bytes(500), message(14, b"half")[:-3]], ids=["zeros", "torn"])
def test_what_a_broker_has_not_written_whole_is_left_out(
    tmp_path: Path, convert: Convert, tail: bytes
) -> None:
    origin = write(tmp_path, {0: OLD + tail})
    assert "kdump truncate-to-valid" in convert.refused(origin)
    copy = convert(replace(group_of(origin), stopped=False))
    assert (copy.records, copy.log_end) == (10, 10)
    sealed = write(tmp_path / "sealed", {0: OLD + tail, 20: message(20)})
    convert.output = tmp_path / "other"
    assert "expected only" in convert.refused(replace(group_of(sealed), stopped=False))


def test_a_log_directory_is_no_place_for_it(tmp_path: Path, convert: Convert) -> None:
    origin = write(tmp_path, {0: OLD})
    (tmp_path / "in" / "meta.properties").write_text("version=1\n")
    convert.output = tmp_path / "in" / "out"
    assert "expected a place outside of log directories" in convert.refused(origin)


def test_a_directory_of_another_name_is_refused(tmp_path: Path, convert: Convert) -> None:
    said = convert.refused(write(tmp_path, {0: OLD}, directory="backup"))
    assert "<topic>-<partition>" in said


def test_a_segment_alone_is_refused(tmp_path: Path, convert: Convert) -> None:
    origin = write(tmp_path, {0: OLD})
    assert "expected a partition directory" in convert.refused(group_of(origin / name(0)))


def test_a_directory_that_cannot_be_listed_is_reported(tmp_path: Path, convert: Convert) -> None:
    target = group_of(write(tmp_path, {0: OLD}))
    error = SourceError(target.path, "no")
    assert convert.refused(replace(target, error=error), SourceError) == "no"


@pytest.mark.parametrize(
    ("codec", "compressible", "refused"),
    [(None, True, True), ("NONE", True, True), ("LZ4", True, False), ("LZ4", False, True)],
)
def test_too_little_room_is_refused(
    tmp_path: Path,
    convert: Convert,
    monkeypatch: pytest.MonkeyPatch,
    codec: str | None,
    compressible: bool,
    refused: bool,
) -> None:
    value = bytes(1 << 20)
    logs = {0: message(0, value)} if compressible else {0: message(0)}
    # What is copied stays as large as it is, what is compressed may become small.
    logs[10] = b"".join(NEW) if compressible else forge.batch(10, [forge.record(value)])
    origin = write(tmp_path, logs)
    real = os.statvfs(tmp_path)
    blocks = (1 << 20) // real.f_frsize + 1
    little = os.statvfs_result([*real[:4], blocks, *real[5:10]])
    monkeypatch.setattr(os, "statvfs", lambda _: little)
    convert.rules = Rules(None if codec is None else Codec[codec])
    if refused:
        assert "free bytes" in convert.refused(origin)
    else:
        assert convert(origin).bytes_after < len(value)


# --- what goes wrong


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    origin = write(tmp_path, {0: OLD, 10: b"".join(NEW)})
    convert.jobs = jobs
    before, failed, count = take(tmp_path), 0, 0
    while True:
        failing = Failing(count)
        monkeypatch.setattr(disk, "SYSTEM", failing)
        convert.read = []
        try:
            convert(origin)
            break
        except (OSError, Refused) as error:
            assert NO_ROOM in str(error), count
            failed += 1
        assert take(tmp_path) == before, count
        count += 2
    assert failed > 4


def test_a_signal_leaves_nothing_behind(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(disk.System):
        def rename(self, source: Path, target: Path) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(disk, "SYSTEM", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        convert(write(tmp_path, {0: OLD}))
    assert not convert.output.exists()


def in_workers(act: Callable[[], None]) -> Callable[..., Conversion]:
    """A conversion before which workers ``act``, and this process does not."""
    here = os.getpid()

    def begin(*arguments: Any, **options: Any) -> Conversion:
        if os.getpid() != here:
            act()
        return Conversion(*arguments, **options)

    return begin


def test_a_worker_that_is_killed_is_reported(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = in_workers(lambda: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(segments, "Conversion", kill)
    convert.jobs = 2
    said = convert.refused(write(tmp_path, {0: OLD, 10: b"".join(NEW)}), SourceError)
    assert name(0) in said
    assert "SIGKILL" in said


def test_workers_do_not_hold_the_lock(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_lock() -> None:
        for path in Path("/proc/self/fdinfo").iterdir():
            with suppress(FileNotFoundError):  # the one that has listed them is closed by now
                if "FLOCK" in path.read_text():
                    raise Refused("held")

    monkeypatch.setattr(segments, "Conversion", in_workers(check_lock))
    convert.jobs = 2
    assert not convert(write(tmp_path, {0: OLD, 10: b"".join(NEW)})).nothing


@pytest.mark.parametrize("changed", ["size", "xxh3", "batches", "records", "digest"])
def test_what_is_read_back_must_be_what_was_written(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    finish = LogReader.finish

    def other(reader: LogReader) -> ReadBack:
        found = finish(reader)
        was = getattr(found, changed)
        fields: dict[str, Any] = {changed: was + 1 if isinstance(was, int) else was[::-1]}
        return replace(found, **fields)

    monkeypatch.setattr(LogReader, "finish", other)
    said = convert.refused(write(tmp_path, {0: OLD}))
    assert "expected to read back what was written, 10 records with digest" in said


def test_records_that_the_disk_has_changed_are_noticed(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = converted([b"VALUE %d" % offset for offset in range(5)])
    assert len(others) == len(FIVE_CONVERTED)

    class Changing(disk.System):
        def write(self, descriptor: int, data: memoryview) -> int:
            whole = bytes(data).replace(FIVE_CONVERTED, others)
            return super().write(descriptor, memoryview(whole))

    monkeypatch.setattr(disk, "SYSTEM", Changing())
    assert "expected to read back" in convert.refused(write(tmp_path, {0: OLD}))


def test_a_log_that_vanishes_is_reported(
    tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = group_of(write(tmp_path, {0: OLD, 10: message(10)}))

    def vanished(*arguments: Any, **options: Any) -> Conversion:
        raise SourceError(arguments[1], "gone")

    monkeypatch.setattr(segments, "Conversion", vanished)
    with pytest.raises(KdumpError, match="gone"):
        convert(target)
    assert not convert.output.exists()
