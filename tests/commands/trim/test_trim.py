"""``trim`` removes the oldest segments, and nothing else: whole, in order, never too many."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.audit.sizes import measure
from kdump.errors import SourceError
from kdump.storage.access import read_end
from kdump.storage.paths import AnyPath
from kdump.ui import exits
from support.commands import kdump
from support.crashing.places import small_disk
from support.crashing.running import Run, run
from support.crashing.seam import Call, failing, full_until_removal, killed_before
from support.crashing.trees import put, take
from support.fixtures_loader import copy_fixture
from support.long_samples import first_of, wrong_seeds

pytestmark = pytest.mark.once

NAME: Final = "codec-lz4-0"  # 0..47, 48..99, and the active segment


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_fixture("4.3.1/clean", tmp_path / "data")


@pytest.fixture(autouse=True)
def _config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no topic sets itself is Kafka's default."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text("node.id=1\n")


def trim(*arguments: object, around: Any = None, config: bool = True) -> Run:
    given = ["--config", "server.properties"] if config else []
    return run(["trim", *given, *map(str, arguments)], around)


def lines(ran: Run, kind: str) -> list[dict[str, Any]]:
    return [each for each in map(json.loads, ran.out.splitlines()) if each["type"] == kind]


def plan(*arguments: object) -> tuple[dict[str, list[str]], str]:
    """The files that go by partition, and the id."""
    ran = trim(*arguments, "--format", "json")
    (summary,) = lines(ran, "summary")
    files = {Path(each["path"]).name: each["files"] for each in lines(ran, "trim")}
    assert ran.code == (exits.PROBLEMS if files else exits.OK), ran
    return files, summary["id"]


def apply(*arguments: object, around: Any = None) -> Run:
    ran = trim(*arguments, "--format", "json")
    (summary,) = lines(ran, "summary")
    return trim(*arguments, "--apply", "--confirm", summary["id"], around=around)


def bases(partition: Path) -> list[int]:
    return sorted(int(log.stem) for log in partition.glob("*.log"))


def test_a_plan_changes_nothing_and_needs_consent(data: Path) -> None:
    before = take(data)
    ran = trim("--before", "48", data / NAME)
    assert ran.code == exits.PROBLEMS
    assert "NO BACKUP" in ran.out
    *_, command = ran.out.strip().splitlines()
    assert trim("--before", "48", data / NAME, "--apply").code == exits.REFUSED
    wrong = trim("--before", "48", data / NAME, "--apply", "--confirm", "00000000")
    assert wrong.code == exits.REFUSED
    assert take(data) == before
    assert run(shlex.split(command)[1:]).code == exits.OK
    assert bases(data / NAME) == [48, 100]


def test_what_goes_are_the_files_that_the_plan_names(data: Path) -> None:
    before = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    arguments = "--free", "250KiB", data
    files, _ = plan(*arguments)
    wanted = {f"{partition}/{name}" for partition, names in files.items() for name in names}
    ran = apply(*arguments)
    assert ran.code == exits.OK, ran
    after = {str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()}
    assert before - after == wanted
    assert after - before <= {".lock"}
    again = kdump("verify", data, searching=False)
    assert [each for each in again.of("finding") if each["severity"] != "info"] == []
    assert plan(*arguments)[0].keys().isdisjoint({"compacted-0", "__consumer_offsets-0"})


def test_leader_epochs_begin_with_the_log(data: Path) -> None:
    apply("--before", "100", data / NAME)
    assert (data / NAME / "leader-epoch-checkpoint").read_text() == "0\n1\n2 100\n"


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("0", [0, 48, 100]),
        ("47", [0, 48, 100]),
        ("48", [48, 100]),
        ("99", [48, 100]),
        ("100", [100]),
        ("2000-01-01", [0, 48, 100]),
        ("2026-09-24T00:00:00Z", [48, 100]),
        ("1s", [100]),
    ],
)
def test_an_offset_or_a_time_bounds(bound: str, expected: list[int], data: Path) -> None:
    apply("--before", bound, data / NAME)
    assert bases(data / NAME) == expected


def test_a_segment_that_stays_keeps_all_later_ones(data: Path) -> None:
    """A timestamp in the future holds what follows, as it holds retention."""
    index = data / NAME / f"{0:020}.timeindex"
    entries = index.read_bytes()
    index.write_bytes(entries[:-12] + (2**50).to_bytes(8, "big") + entries[-4:])
    assert plan("--before", "1d", data / NAME)[0] == {}


def test_by_retention_takes_what_is_due_in_space(data: Path) -> None:
    due = {
        each["topic"]: each["due_bytes"]
        for each in kdump("space", data, searching=False).of("topic")
        if each["due_bytes"]
    }
    ran = trim("--by-retention", data, "--format", "json")
    found: dict[str, int] = {}
    for each in lines(ran, "trim"):
        topic = Path(each["path"]).name.rpartition("-")[0]
        found[topic] = found.get(topic, 0) + each["bytes"]
    assert found == due
    assert due


def test_as_much_as_is_wished_for_of_the_oldest(data: Path) -> None:
    every = lines(trim("--free", "1GB", data, "--format", "json"), "trim")
    times = {each["newest_ms"] for each in every}
    ran = trim("--free", "60KiB", data, "--format", "json")
    some = lines(ran, "trim")
    gone = sum(each["bytes"] for each in some)
    assert 60 * 1024 <= gone < 60 * 1024 + max(each["bytes"] for each in every)
    assert max(each["newest_ms"] for each in some) < max(times)
    short = trim("--free", "1GB", data)
    assert "SHORT" in short.out
    assert "nothing more may go" in short.out
    assert plan("--free", "1GB", "--keep", "9999d", data)[0] == {}


# --- by chance, beside a function that knows nothing of kdump


def largest_ms(log: Path) -> int:
    """The last entry of its time index, or else when it was written."""
    entries = log.with_suffix(".timeindex").read_bytes()
    time_ms = int.from_bytes(entries[-12:-4], "big", signed=True) if len(entries) >= 12 else -1
    return time_ms if time_ms >= 0 else log.stat().st_mtime_ns // 1_000_000


def expected(data: Path, name: str, bound: str, now_ms: int) -> list[int]:
    """The base offsets of the segments that are left."""
    topic, _, number = name.rpartition("-")
    text = (data / "replication-offset-checkpoint").read_text()
    lines = (line.split() for line in text.splitlines()[2:])
    (mark,) = (int(offset) for *of, offset in lines if of == [topic, number])
    logs = sorted((data / name).glob("*.log"))
    while len(logs) > 1:
        end = int(logs[1].stem)
        if bound.endswith("s"):
            goes = largest_ms(logs[0]) < now_ms - 1000 * int(bound[:-1])
        else:
            goes = end <= int(bound)
        if not goes or end > mark:
            break
        del logs[0]
    return [int(log.stem) for log in logs]


def wrong(seed: int, top: Path) -> list[str]:
    """What ``trim`` leaves wrongly of a partition, by a bound and a high watermark of chance."""
    chance = random.Random(seed)
    data, now_ms = copy_fixture("4.3.1/replicas", top / "data") / "1", time.time_ns() // 1_000_000
    names = "behind-0", "in-turn-0", "parted-0", "restored-0", "within-0"
    name = chance.choice(names)
    marks = data / "replication-offset-checkpoint"
    topic = name.rpartition("-")[0]
    reach = chance.randrange(120)
    text = re.sub(rf"^{topic} 0 \d+$", f"{topic} 0 {reach}", marks.read_text(), flags=re.MULTILINE)
    marks.write_text(text)
    offset = chance.randrange(reach + 1)
    age_s = (now_ms - chance.choice([*map(largest_ms, (data / name).glob("*.log"))])) // 1000
    bound = chance.choice([str(offset), f"{age_s + chance.choice([-1000, 1000])}s"])
    left = expected(data, name, bound, now_ms)
    before = sorted(path.name for path in (data / name).iterdir())
    ran = apply("--before", bound, data / name)
    found = bases(data / name)
    stems = {f"{base:020}" for base in {int(Path(each).stem) for each in before if each[0] == "0"}}
    kept = {f"{base:020}" for base in left}
    names_left = {path.name for path in (data / name).iterdir()}
    lost = {each for each in before if each not in names_left}
    allowed = {each for each in before if Path(each).stem in stems - kept}
    said = [] if found == left else [f"{name} --before {bound} ({reach}): {found}, expected {left}"]
    said += [f"{name} --before {bound}: {lost - allowed} are gone"] if lost - allowed else []
    return said + ([] if ran.code == exits.OK else [f"{name} --before {bound}: {ran}"])


@pytest.mark.parametrize("seed", first_of(range(20), 7, every=1))
def test_by_chance_what_may_go_goes(seed: int, tmp_path: Path) -> None:
    assert wrong(seed, tmp_path) == []


@pytest.mark.nightly
def test_by_chance_what_may_go_goes_many_times(tmp_path: Path) -> None:
    assert wrong_seeds(wrong, tmp_path, 20, 3000) == {}


# --- what stays


def metadata_gone(data: Path) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")


def renamed(data: Path) -> None:
    (data / NAME).rename(data / f"{NAME[:-2]}-0.{'0' * 32}-delete")


@pytest.mark.parametrize(
    ("change", "reason"),
    [(metadata_gone, "no whole metadata log"), (renamed, "no broker serves")],
)
def test_what_is_unknown_stays(change: Callable[[Path], None], reason: str, data: Path) -> None:
    change(data)
    ran = trim("--before", "1d", data, "--topic", NAME[:-2], "--format", "json")
    kept = [each for each in lines(ran, "kept") if NAME[:-2] in each["path"]]
    assert [reason in each["reason"] for each in kept] == [True]
    assert lines(ran, "trim") == []


def test_nothing_goes_from_the_high_watermark_on(tmp_path: Path) -> None:
    """Of a partition with other replicas, as retention does."""
    data = copy_fixture("4.3.1/replicas", tmp_path / "data") / "1"
    assert len(plan("--before", "1s", data / "in-turn-0")[0]["in-turn-0"]) > 5
    marks = data / "replication-offset-checkpoint"
    text = marks.read_text()
    (line,) = (each for each in text.splitlines() if each.startswith("in-turn 0 "))
    marks.write_text(text.replace(line, "in-turn 0 40"))
    files = plan("--before", "1s", data / "in-turn-0")[0]["in-turn-0"]
    assert {Path(name).stem for name in files} == {f"{0:020}"}
    ran = trim("--before", "41", data / "in-turn-0")
    assert ran.code == exits.USAGE
    assert "expected an offset up to the high watermark, 40, found 41" in ran.err
    marks.write_text("0\n0\n")
    ran = trim("--before", "1s", data / "in-turn-0")
    assert ran.code == exits.OK
    assert "no checkpoint has its high watermark" in ran.out


def test_a_high_watermark_that_no_checkpoint_has_can_be_given(tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/replicas", tmp_path / "data") / "1"
    marks, partition = data / "replication-offset-checkpoint", data / "in-turn-0"
    given = "--before", "1s", "--high-watermark"
    ran = trim(*given, "40", partition)
    assert ran.code == exits.USAGE
    assert "has its own, 101: leave the option out" in ran.err
    marks.write_text("0\n0\n")
    files = plan(*given, "40", partition)[0]["in-turn-0"]
    assert {Path(name).stem for name in files} == {f"{0:020}"}
    ran = trim(*given, "102", partition)
    assert ran.code == exits.USAGE
    assert "expected an offset up to the log end" in ran.err
    ran = trim(*given, "40", data)
    assert ran.code == exits.USAGE
    assert "expected one partition" in ran.err
    ran = trim(*given, "40", partition)
    assert run(shlex.split(ran.out.strip().splitlines()[-1])[1:]).code == exits.OK
    assert bases(partition)[0] > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compacted-0", "newest values of keys"),
        ("__consumer_offsets-0", "a topic of Kafka itself"),
        ("__cluster_metadata-0", "the metadata log"),
        ("groups-0", "no segment but the active one"),
    ],
)
def test_what_may_not_go_is_named(name: str, reason: str, data: Path) -> None:
    ran = trim("--before", "1s", data / name, "--format", "json")
    (kept,) = lines(ran, "kept")
    assert reason in kept["reason"]
    assert ran.code == exits.OK


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--before", "5", "--by-retention"),
        ("--free", "1GB", "--before", "5"),
        ("--before", "yesterday"),
        ("--free", "much"),
        ("--before", "-5"),
        ("--before", "9" * 5000),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], data: Path) -> None:
    before = take(data)
    ran = trim(*arguments, data / NAME)
    assert ran.code == exits.USAGE, ran
    assert take(data) == before


def test_only_the_file_system_that_is_full_is_freed(data: Path, tmp_path: Path) -> None:
    """Of several it is not known which one that is."""
    with small_disk(tmp_path / "other", "4m") as other:
        copied = shutil.copytree(data, other / "data")
        ran = trim("--free", "10KiB", data, copied)
        assert plan("--free", "10KiB", copied)[0]
    assert ran.code == exits.USAGE
    assert "give the directory that is full" in ran.err


def test_an_offset_is_for_one_partition(data: Path) -> None:
    ran = trim("--before", "48", data)
    assert ran.code == exits.USAGE
    assert "expected one partition, found 22" in ran.err


def test_the_policy_of_the_broker_is_not_guessed(data: Path) -> None:
    ran = trim("--free", "1GB", data, config=False)
    assert ran.code == exits.OK
    assert "give its server.properties with --config" in " ".join(ran.out.split())
    Path("server.properties").write_text("log.cleanup.policy=compact\n")
    assert plan("--free", "1GB", data)[0] == {}
    assert plan("--by-retention", data)[0] == {}


def test_a_link_stays(data: Path) -> None:
    log = data / NAME / f"{0:020}.log"
    log.rename(data / "elsewhere")
    log.symlink_to(data / "elsewhere")
    ran = trim("--before", "48", data / NAME)
    assert ran.code == exits.OK
    assert "is a symbolic link" in ran.out


def test_files_with_other_names_free_nothing(data: Path, tmp_path: Path) -> None:
    """A snapshot by hard links: they go only where a bound asks for it."""
    shutil.copytree(data / NAME, tmp_path / "snapshot", copy_function=os.link)
    assert NAME not in plan("--free", "1GB", data)[0]
    assert NAME in plan("--before", "48", data / NAME)[0]


def test_the_time_of_a_file_is_not_that_of_its_records(data: Path) -> None:
    """Brokers rebuild a time index that is missing, and do not go by the time of the file."""
    for log in (data / NAME).glob("*.log"):
        log.with_suffix(".timeindex").unlink()
        os.utime(log, (0, 0))
    assert plan("--before", "1d", data / NAME)[0] == {}
    assert NAME not in plan("--free", "1GB", data)[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes owners")
def test_a_partition_of_another_owner_is_refused(data: Path) -> None:
    """Its log directory decides what goes, and may be another user's."""
    with tempfile.TemporaryDirectory() as top:
        Path(top).chmod(0o755)
        moved = shutil.copytree(data, Path(top, "data"))
        for path in (moved / NAME, *(moved / NAME).iterdir()):
            os.chown(path, 12345, 12345)
        ran = apply("--before", "48", moved / NAME)
        assert ran.code == exits.REFUSED
        assert "expected user 0, who owns" in ran.err
        assert bases(moved / NAME) == [0, 48, 100]


def test_what_could_not_be_read_does_not_hide_what_is_done(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = data / "codec-zstd-0" / f"{0:020}.timeindex"

    def failing(read: AnyPath, most: int) -> tuple[int, bytes]:
        if read == index:
            raise SourceError(read, f"{read}: Input/output error")
        return read_end(read, most)

    given = "--config", "server.properties", "--before", "1d", str(data), "--topic", "codec-*"
    monkeypatch.setattr(measure, "read_end", failing)
    (summary,) = lines(run(["trim", *given, "--format", "json"]), "summary")
    ran = run(["trim", *given, "--apply", "--confirm", summary["id"]])
    assert ran.code == exits.INCOMPLETE
    assert "Input/output error" in ran.out
    assert "DONE" in ran.out
    assert bases(data / NAME) == [100]


def test_a_partition_with_an_interrupted_repair_stays(data: Path) -> None:
    log = data / NAME / f"{100:020}.log"
    log.write_bytes(log.read_bytes()[:-5])
    (data / NAME / f"{100:020}.index").unlink()
    planned = run(["truncate-to-valid", str(data / NAME), "--format", "json"])
    (found,) = lines(planned, "plan")
    confirm = "--apply", "--confirm", found["id"]
    killed = run(
        ["truncate-to-valid", str(data / NAME), *confirm],
        lambda call, make: make(*call.arguments) if call.method != "truncate" else os._exit(9),
    )
    assert killed.code == 9
    ran = trim("--before", "48", data / NAME)
    assert ran.code == exits.OK
    assert "interrupted repair" in ran.out


@pytest.mark.parametrize("changed", [f"{NAME}/{0:020}.index", "replication-offset-checkpoint"])
def test_what_changed_since_the_plan_is_refused(changed: str, data: Path) -> None:
    """The high watermark and the files are looked at again, once the lock is held."""

    def touch(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "open" and call.paths[0].endswith(".lock"):
            os.utime(data / changed, ns=(1, 1))
        return make(*call.arguments)

    ran = apply("--before", "48", data / NAME, around=touch)
    assert ran.code == exits.REFUSED
    assert "plan again" in ran.err
    assert bases(data / NAME) == [0, 48, 100]


# --- crashes, faults, and a disk without room


def calls_of(data: Path) -> int:
    made: list[int] = []

    def counted(call: Call, make: Callable[..., Any]) -> Any:
        made.append(call.number)
        Path(data.parent / "calls").write_text(str(len(made)))
        return make(*call.arguments)

    assert apply("--before", "100", data / NAME, around=counted).code == exits.OK
    return int(Path(data.parent / "calls").read_text())


def is_a_log(partition: Path) -> bool:
    """Whether no log is missing between others, and each that is left is whole."""
    return bases(partition) in ([0, 48, 100], [48, 100], [100])


@pytest.mark.slow
def test_killed_at_any_call_a_shorter_log_is_left(data: Path) -> None:
    original = take(data)
    count = calls_of(data)
    complete = take(data / NAME)
    for number in range(count):
        put(data, original)
        ran = apply("--before", "100", data / NAME, around=killed_before(number))
        assert ran.code == -9
        assert is_a_log(data / NAME)
        verified = kdump("next-start", "--scan", data, "--topic", NAME[:-2], searching=False)
        # Until the next start the leader epochs may still tell that the log began below.
        codes = {each["code"] for each in verified.of("finding") if each["severity"] == "error"}
        assert codes <= {"first-segment-missing"}
        (forecast,) = verified.of("forecast")
        assert forecast["outcome"] == "starts"
        again = apply("--before", "100", data / NAME)
        assert again.code == exits.OK, again
        assert bases(data / NAME) == [100]
        # What is left of a segment whose log is gone, the next start deletes.
        left = {Path(name) for name in {*take(data / NAME)} - {*complete}}
        assert {path.suffix for path in left} <= {".index", ".timeindex", ".snapshot", ".tmp"}


@pytest.mark.slow
def test_a_call_that_fails_ends_with_the_command_that_goes_on(data: Path) -> None:
    original = take(data)
    count = calls_of(data)
    finished = 0
    for number in range(count):
        put(data, original)
        around = failing(partial(eq, number), errno.EIO)
        ran = apply("--free", "30KiB", data / NAME, around=around)
        assert is_a_log(data / NAME)
        if bases(data / NAME) == [0, 48, 100] and ran.code == exits.REFUSED:
            continue
        if ran.code == exits.OK:
            finished += 1
            continue
        assert ran.code == exits.INCOMPLETE, ran
        assert "was interrupted" in ran.err
        verified = kdump("next-start", "--scan", data, "--topic", NAME[:-2], searching=False)
        assert [each for each in verified.of("finding") if each["severity"] == "error"] == []
        program, *argv = shlex.split(ran.last_line)
        assert program == "kdump"
        assert run(argv).code in (exits.OK, exits.PROBLEMS)
    assert finished < count


def test_no_room_for_a_lock_file(data: Path) -> None:
    """The first log makes room; a broker could not have locked the directory either."""
    (data / ".lock").unlink(missing_ok=True)
    ran = apply("--before", "100", data / NAME, around=full_until_removal())
    assert ran.code == exits.OK, ran
    assert bases(data / NAME) == [100]
    assert (data / ".lock").exists()


def test_leader_epochs_stay_where_no_file_can_be_written(data: Path) -> None:
    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "write":
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return make(*call.arguments)

    ran = apply("--before", "100", data / NAME, around=around)
    assert ran.code == exits.OK, ran
    assert "could not be written" in " ".join(ran.out.split())
    assert bases(data / NAME) == [100]
    assert sorted(path.name for path in (data / NAME).glob("*.tmp")) == []
