"""Scrubs over what a real broker left: what is read again, what is reported, what is remembered."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kdump.commands.scrub import scrub
from kdump.history import due as kdump_due
from kdump.storage.source import Identity
from support.commands import kdump, repair
from support.crashing.running import run
from support.directory_state import state as state_of
from support.forge import batch, checkpoint, partition_metadata, record
from support.scrubs import World, change_state, codes, rewrite, status, summary

pytestmark = pytest.mark.once

DAY_MS = 86_400_000
PLAIN = "codec-none-0"  # not compacted, two segments
THREE = "codec-zstd-0"  # not compacted, three segments


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World.make(tmp_path)


def batches(data: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        found.append(data[at : at + 12 + size])
        at += 12 + size
    return found


def age(state: Path, days: int) -> None:
    """Let all of the state be older by some days."""
    for table, column in (
        ("segments", "read_ms"), ("segments", "seen_ms"), ("runs", "begin_ms"), ("runs", "end_ms"),
    ):  # fmt: skip
        change_state(state, f"UPDATE {table} SET {column} = {column} - ?", (days * DAY_MS,))


def forget_write(state: Path, log: Path) -> None:
    """Let the state take the last write of a file for one before the scrub: a disk writes none."""
    status = log.stat()
    changed = status.st_ctime_ns, status.st_ino
    change_state(state, "UPDATE segments SET ctime_ns = ? WHERE inode = ?", changed)


def test_what_reads_logs_goes_into_the_idle_class(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker does, before it reads; the process that waits for them does not."""
    pids = tmp_path / "pids"

    def note() -> None:
        with pids.open("a") as file:
            file.write(f"{os.getpid()}\n")

    def finish() -> None:
        with pids.open("a") as file:
            file.write(f"parent {os.getpid()}\n")

    monkeypatch.setattr(scrub, "use_idle_cpu", note)
    assert run(["scrub", "--state", str(world.state), str(world.data)], finish=finish).code == 0
    *workers, parent = pids.read_text().splitlines()
    assert workers
    assert parent.removeprefix("parent ") not in workers


def test_everything_is_read_once_and_nothing_is_changed(world: World) -> None:
    before = state_of(world.data)
    first, second = world.scrub(), world.scrub()
    assert (first.code, second.code) == (0, 0)
    assert summary(first)["bytes"] == status(first)["log_bytes"] == world.bytes_of()
    assert summary(second)["bytes"] == summary(second)["segments"] == 0
    assert [status(ran)["reason"] for ran in (first, second)] == ["done", "done"]
    assert status(second)["due_bytes"] == 0
    assert state_of(world.data) == before
    assert sorted(path.name for path in world.top.iterdir()) == [
        "data", "scrub.db", "scrub.db.lock",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_is_too_old_is_read_again(world: World) -> None:
    world.scrub()
    age(world.state, 29)
    assert summary(world.scrub())["bytes"] == 0
    assert summary(world.scrub("--max-age", "29d"))["bytes"] == world.bytes_of()
    age(world.state, 30)
    assert status(world.scrub())["bytes"] == world.bytes_of()


@pytest.mark.slow
def test_a_clock_that_was_set_back_makes_all_due(world: World) -> None:
    world.scrub()
    age(world.state, -1)
    assert summary(world.scrub())["bytes"] == world.bytes_of()


def test_new_segments_are_read_and_those_that_are_gone_are_forgotten(world: World) -> None:
    world.scrub()
    first = world.log(THREE)
    segments = status(world.scrub())["segments"]
    for path in first.parent.glob(f"{first.stem}.*"):
        path.unlink()
    # A broker that deletes a segment moves the first leader epoch.
    start = int(world.log(THREE).stem)
    (first.parent / "leader-epoch-checkpoint").write_bytes(checkpoint([(0, start)]))
    # Records were deleted, up to one of the segment that follows.
    lines = world.data / "log-start-offset-checkpoint"
    lines.write_bytes(checkpoint([(THREE[:-2], 0, start + 1)]))
    (world.data / THREE / f"{900:020}.log").write_bytes(batch(900, [record(b"value")]))
    ran = world.scrub()
    # The one that was the last is sealed now, and the new one was never read.
    read = world.log(THREE, 1).stat().st_size + world.log(THREE, 2).stat().st_size
    assert (summary(ran)["segments"], summary(ran)["bytes"]) == (2, read)
    assert status(ran)["segments"] == segments
    shutil.rmtree(world.data / THREE)
    assert status(world.scrub())["segments"] == segments - 3


@pytest.mark.slow
def test_the_last_segment_is_due_when_it_is_sealed(world: World) -> None:
    world.scrub()
    last = world.log(PLAIN, -1)
    offset = struct.unpack(">q", batches(last.read_bytes())[-1][:8])[0] + 100
    with last.open("ab") as log:
        log.write(batch(offset, [record(b"appended")]))
    assert summary(world.scrub())["bytes"] == 0
    (last.parent / f"{offset + 1:020}.log").write_bytes(batch(offset + 1, [record(b"next")]))
    ran = world.scrub()
    assert summary(ran)["segments"] == 2
    assert codes(ran) == codes(world.scrub())
    assert not {"segment-rewritten", "segment-changed-silently"} & set(codes(ran))


def flipped_value(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


def changed_offset(data: bytes) -> bytes:
    """The base offset of the second batch, one higher: no checksum covers it."""
    first, second, *others = batches(data)
    (offset,) = struct.unpack(">q", second[:8])
    return b"".join([first, struct.pack(">q", offset + 1) + second[8:], *others])


def changed_epoch(data: bytes) -> bytes:
    first, second, *others = batches(data)
    (epoch,) = struct.unpack(">i", second[12:16])
    return b"".join([first, second[:12] + struct.pack(">i", epoch + 1) + second[16:], *others])


def exchanged(data: bytes) -> bytes:
    first, second, *others = batches(data)
    return b"".join([second, first, *others])


@pytest.mark.parametrize(
    ("partition", "change", "also"),
    [
        (PLAIN, flipped_value, {"batch-crc-mismatch"}),
        (PLAIN, changed_offset, set[str]()),
        pytest.param(PLAIN, changed_epoch, set[str](), marks=pytest.mark.nightly),
        pytest.param(PLAIN, exchanged, {"offsets-not-increasing"}, marks=pytest.mark.nightly),
        pytest.param("compacted-0", changed_epoch, set[str](), marks=pytest.mark.slow),
    ],
    ids=["value", "base-offset", "leader-epoch", "exchanged", "compacted"],
)
@pytest.mark.slow
def test_a_silent_change_is_found_within_the_age(
    world: World, partition: str, change: object, also: set[str]
) -> None:
    """Once what was read is as old as it may be, and not before: nothing else shows it."""
    assert world.scrub().code == 0
    log = world.log(partition)
    good = log.read_bytes()
    rewrite(log, change(good), silently=True)  # type: ignore[operator]
    forget_write(world.state, log)
    assert world.scrub().code == 0
    age(world.state, 30)
    for _ in range(2):  # it stands until the segment is as before
        ran = world.scrub()
        assert ran.code == 4
        assert {"segment-changed-silently", *also} <= set(codes(ran, ("error",)))
        (line,) = (each for each in ran.of("finding") if each["code"] == "segment-changed-silently")
        assert line["path"] == str(log)
        assert "header digest" in line["detail"]["expected"]
    assert status(ran)["oldest_ms"] > time.time() * 1000 - DAY_MS
    rewrite(log, good, silently=True)
    assert world.scrub().code == 0
    assert codes(world.scrub(), ("error",)) == []


@pytest.mark.slow
def test_a_rewritten_segment_is_a_warning_until_it_is_read_again(world: World) -> None:
    world.scrub()
    log = world.log(PLAIN)
    rewrite(log, changed_epoch(log.read_bytes()), silently=False)
    first, second = world.scrub(), world.scrub()
    assert codes(first) == codes(second)
    assert codes(first).count("segment-rewritten") == 1
    assert (summary(first)["segments"], summary(second)["segments"]) == (1, 0)
    (line,) = (each for each in second.of("finding") if each["code"] == "segment-rewritten")
    assert "; read at 20" in line["detail"]["found"]
    assert world.scrub("--fail-on", "warning").code == 4
    age(world.state, 30)
    assert "segment-rewritten" not in codes(world.scrub())


def test_what_explains_another_content(world: World) -> None:
    """A touched file, a copy, a compacted topic."""
    world.scrub()
    touched, copied, compacted = world.log(PLAIN), world.log(THREE), world.log("compacted-0")
    os.utime(touched)
    data = copied.read_bytes()
    copied.unlink()
    copied.write_bytes(data)
    rewrite(compacted, changed_epoch(compacted.read_bytes()), silently=False)
    ran = world.scrub()
    assert summary(ran)["segments"] == 3
    assert not {"segment-rewritten", "segment-changed-silently"} & set(codes(ran))


@pytest.mark.slow
def test_a_conversion_and_its_undo_explain_it(tmp_path: Path) -> None:
    world = World.make(tmp_path, "0.10.2.2/clean")
    world.scrub()
    old = next(
        log.parent
        for log in sorted(world.data.rglob("*.log"))
        if len(list(log.parent.glob("*.log"))) > 1 and log.read_bytes()[16] < 2
    )
    digest_before = sorted(log.read_bytes() for log in old.glob("*.log"))
    assert repair("convert-v0-v2", old, searching=False).code == 0
    ran = world.scrub()
    assert summary(ran)["bytes"] > 0
    assert "segment-rewritten" not in codes(ran)
    assert kdump("undo", old, "--apply", searching=False).code == 0
    assert sorted(log.read_bytes() for log in old.glob("*.log")) == digest_before
    assert "segment-rewritten" not in codes(world.scrub())


def test_damage_stands_until_it_is_gone(world: World) -> None:
    log = world.log(PLAIN)
    good = log.read_bytes()
    rewrite(log, flipped_value(good), silently=False)
    for _ in range(3):
        ran = world.scrub()
        assert (ran.code, codes(ran, ("error",))) == (4, ["batch-crc-mismatch"])
    assert summary(ran)["segments"] == 1  # it alone is read again
    assert status(ran)["last_success_ms"] is None
    rewrite(log, good, silently=False)
    ran = world.scrub()
    assert (ran.code, codes(ran, ("error",))) == (0, [])
    assert status(ran)["last_success_ms"] == status(ran)["end_ms"]


def test_a_moved_mount_is_the_same_directory(world: World, tmp_path: Path) -> None:
    world.scrub()
    moved = World(tmp_path / "moved")
    moved.top.mkdir()
    shutil.move(world.data, moved.data)
    shutil.move(world.state, moved.state)
    ran = moved.scrub()
    assert summary(ran)["bytes"] == 0
    assert status(ran)["path"] == str(moved.data)


@pytest.mark.slow
def test_one_state_for_several_directories(world: World, tmp_path: Path) -> None:
    other = World(tmp_path / "other")
    World.make(other.top, "4.3.1/clean")
    ran = kdump("scrub", world.data, other.data, "--state", world.state, searching=False)
    lines = list(ran.of("scrub"))
    assert sorted(line["path"] for line in lines) == sorted(map(str, (world.data, other.data)))
    assert [line["bytes"] for line in sorted(lines, key=lambda line: line["path"])] == [
        world.bytes_of(), other.bytes_of(),
    ]  # fmt: skip
    assert (
        summary(kdump("scrub", other.data, "--state", world.state, searching=False))["bytes"] == 0
    )
    shown = kdump("scrub", "--status", "--state", world.state)
    assert len(list(shown.of("scrub"))) == 2


@pytest.mark.slow
def test_a_partition_is_a_directory_of_its_own(world: World) -> None:
    partition = world.data / PLAIN
    ran = kdump("scrub", partition, "--state", world.state, searching=False)
    assert summary(ran)["bytes"] == world.bytes_of(PLAIN)
    assert status(ran)["path"] == str(partition)


@pytest.mark.slow
def test_a_deleted_and_created_topic_is_another_one(world: World) -> None:
    """Its segments have the same offsets, and are new."""
    world.scrub()
    (world.data / PLAIN / "partition.metadata").write_bytes(
        partition_metadata("AAAAAAAAAAAAAAAAAAAAZg")
    )
    log = world.log(PLAIN)
    rewrite(log, changed_epoch(log.read_bytes()), silently=True)
    ran = world.scrub()
    assert summary(ran)["bytes"] == world.bytes_of(PLAIN)
    assert not {"segment-rewritten", "segment-changed-silently"} & set(codes(ran))


@pytest.mark.slow
def test_without_a_topic_id_the_history_goes_on(world: World) -> None:
    world.scrub()
    metadata = world.data / PLAIN / "partition.metadata"
    content = metadata.read_bytes()
    metadata.unlink()
    assert summary(world.scrub())["bytes"] == 0
    metadata.write_bytes(content)
    assert summary(world.scrub())["bytes"] == 0


@pytest.mark.slow
def test_time_passes(world: World) -> None:
    """The oldest read, and the pace, by the state alone."""
    world.scrub()
    age(world.state, 3)
    shown = status(kdump("scrub", "--status", "--state", world.state))
    assert abs(time.time() * 1000 - shown["oldest_ms"] - 3 * DAY_MS) < 600_000
    assert (shown["due_bytes"], shown["due_seconds"]) == (0, 0)
    age(world.state, 27)
    shown = status(kdump("scrub", "--status", "--state", world.state))
    assert shown["due_bytes"] == shown["log_bytes"] == world.bytes_of()


@pytest.mark.slow
def test_what_cannot_be_opened_is_not_forgotten(world: World) -> None:
    world.scrub()
    inode = world.log(THREE).stat().st_ino

    def broken(before: Any) -> Any:
        def of(status: os.stat_result) -> Identity:
            if status.st_ino == inode:
                raise OSError(errno.EIO, "Input/output error")
            found: Identity = before.of(status)
            return found

        return SimpleNamespace(of=of)

    def prepare() -> None:
        due.Identity = broken(due.Identity)

    due: Any = kdump_due
    asked = ["scrub", str(world.data), "--state", str(world.state)]
    assert run(asked, prepare=prepare).code == 0
    assert summary(world.scrub())["bytes"] == 0


@pytest.mark.slow
def test_two_cleanings_may_bring_the_inode_back(world: World) -> None:
    """With the same size and modification time: the inode has changed since, and no disk."""
    world.scrub()
    log = world.log("compacted-0")
    rewrite(log, changed_epoch(log.read_bytes()), silently=True)
    ran = world.scrub("--max-age", "0s")
    assert not {"segment-rewritten", "segment-changed-silently"} & set(codes(ran))


@pytest.mark.slow
def test_a_truncated_log_that_grows_again_is_no_rewriting(world: World) -> None:
    """A follower truncates to its leader's log, also where the run that sees it reads nothing."""
    world.scrub()
    first, second, *others = sorted((world.data / THREE).glob("*.log"))
    for path in (*others, second):
        for file in path.parent.glob(f"{path.stem}.*"):
            file.unlink()
    whole = first.read_bytes()
    first.write_bytes(batches(whole)[0])
    with_nothing = world.scrub("--max-duration", "5s", "--limit-rate", "10")
    assert status(with_nothing)["reason"] == "duration"
    data = changed_epoch(whole)
    first.write_bytes(data)
    second.write_bytes(batch(int(second.stem), [record(b"value")]))
    assert "segment-rewritten" not in codes(world.scrub())


@pytest.mark.slow
def test_directories_of_one_node_before_they_had_ids(tmp_path: Path) -> None:
    """They are scrubbed alone or together; each keeps its history, also where it moves."""
    world = World.make(tmp_path, "2.8.2/clean")
    other = World(tmp_path / "other")
    other.data.mkdir(parents=True)
    shutil.copy(world.data / "meta.properties", other.data)
    moving = sorted(world.data.glob("*-0"))[:5]
    for path in moving:
        path.rename(other.data / path.name)

    def read(*paths: Path) -> int:
        ran = kdump("scrub", *paths, "--state", world.state, searching=False)
        found: int = summary(ran)["bytes"]
        return found

    assert read(world.data) == world.bytes_of()
    assert read(other.data) == other.bytes_of()
    assert read(world.data) == read(world.data, other.data) == read(other.data) == 0
    moved = other.data.rename(tmp_path / "moved")
    assert read(moved) == read(world.data, moved) == 0
    assert len(list(kdump("scrub", "--status", "--state", world.state).of("scrub"))) == 2


@pytest.mark.slow
def test_ids_or_a_mount_that_are_missing_for_once_lose_nothing(tmp_path: Path) -> None:
    for fixture, lost in (("4.3.1/clean", "meta.properties"), ("0.8.2.2/clean", None)):
        top = tmp_path / fixture.replace("/", "-")
        world = World.make(top, fixture)
        world.scrub()
        if lost is not None:
            ids = (world.data / lost).rename(top / "ids")
            assert summary(world.scrub())["bytes"] == 0
            ids.rename(world.data / lost)
        hidden = world.data.rename(top / "hidden")
        world.data.mkdir()
        world.scrub()
        world.data.rmdir()
        hidden.rename(world.data)
        ran = world.scrub()
        assert (summary(ran)["bytes"], status(ran)["due_bytes"]) == (0, 0)
