"""``verify --state`` on Spark: what was read is not read again, and what is found is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from fleet.remembering import (
    DAY_S,
    Killed,
    World,
    assert_same,
    codes,
    kill_after,
    left_out,
    summary,
    world,
)
from kdump.cli.main import main
from kdump.commands.verify import engine as verify_engine
from kdump.history.evidence.rows import EvidenceRow, decode_rows, encode_rows
from kdump.storage.liveness import BrokerState, Liveness
from kdump.ui import exits
from support.fixtures_loader import ROOT
from support.fleet_reports import Verified, verified
from support.restless import changing
from support.run_rows import rows, without
from support.scrubs import rewrite

pytestmark = pytest.mark.once
__all__ = ["verified"]  # a fixture

#: The partitions of a fixture that are in the log directory, with one to five segments.
PARTITIONS = (
    "__cluster_metadata-0",
    "codec-none-0",
    "compacted-0",
    "deleted-records-0",
    "never-written-0",
    "transactions-0",
)
#: Sealed segments; those that are their partition's last are read each time.
SEALED = 11


def at_night(*values: object) -> list[object]:
    """Parameters of tests that run at night; a tuple has several."""
    given = (value if isinstance(value, tuple) else (value,) for value in values)
    return [pytest.param(*each, marks=pytest.mark.nightly) for each in given]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    source, target = ROOT / "brokers/4.3.1/clean", tmp_path / "data"
    for path in source.iterdir():
        if path.name in PARTITIONS:
            shutil.copytree(path, target / path.name, copy_function=shutil.copyfile)
    shutil.copyfile(source / "meta.properties", target / "meta.properties")
    (target / ".kafka_cleanshutdown").touch()
    return target


@pytest.fixture
def runs(data: Path, tmp_path: Path, verified: Verified, monkeypatch: pytest.MonkeyPatch) -> World:
    return world(verified, monkeypatch, [data], str(tmp_path / "state"))


def sealed_log(data: Path, partition: str = "codec-none-0") -> Path:
    return sorted((data / partition).glob("*.log"))[0]


def flip(log: Path, position: int = 100, *, silently: bool) -> None:
    content = log.read_bytes()
    changed = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]
    rewrite(log, changed, silently=silently)


def reseal(log: Path, *, silently: bool) -> None:
    """Change a byte that no checksum covers: the leader epoch of the first batch."""
    content = bytearray(log.read_bytes())
    content[15] ^= 1
    rewrite(log, bytes(content), silently=silently)


def change_rows(runs: World, change: Callable[[EvidenceRow], EvidenceRow]) -> None:
    for path in runs.files():
        rows = decode_rows(path.read_bytes())
        path.write_bytes(encode_rows([change(row) for row in rows]))


@pytest.mark.parametrize("depth", [[], *at_night(["--deep"])], ids=["default", "deep"])
def test_a_second_run_reads_last_segments_alone(depth: list[str], runs: World) -> None:
    here = runs.here(*depth)
    first = runs.run(*depth)
    assert_same(here, first)
    assert left_out(first)["segments"] == 0
    assert summary(first)["bytes"] == summary(here)["bytes"]
    files = {path: path.stat().st_mtime_ns for path in runs.files()}
    second = runs.run(*depth)
    assert_same(here, second)
    found = left_out(second)
    assert (found["segments"], found["unusable"], found["unwritten"]) == (SEALED, 0, 0)
    assert summary(second)["bytes"] == summary(here)["bytes"] - found["log_bytes"]
    assert {path: path.stat().st_mtime_ns for path in runs.files()} == files


def test_segments_as_tasks_remember_the_same(runs: World) -> None:
    runs.in_pieces()
    here = runs.here()
    assert_same(here, runs.run())
    folders = [path.parent for path in runs.files()]
    assert len(folders) == len(set(folders)) == 4
    second = runs.run()
    assert_same(here, second)
    assert left_out(second)["segments"] == SEALED


@pytest.mark.slow
@pytest.mark.parametrize("pieces", [False, True], ids=["partitions", "segments"])
def test_a_large_partition_has_files_of_some_segments(
    pieces: bool, runs: World, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is new replaces few of them, and a segment's task reads no other."""
    if pieces:
        runs.in_pieces()
    monkeypatch.setattr("kdump.history.evidence.memory._FULL_ROWS", 2)
    partition = data / "compacted-0"
    runs.paths = [partition]
    logs = sorted(log.name for log in partition.glob("*.log"))
    runs.run()
    files = runs.files()
    assert [name[:20] for name in logs[:-1:2]] == [path.name[:20] for path in files]
    assert [len(decode_rows(path.read_bytes())) for path in files] == [2, 2]
    assert left_out(runs.run())["segments"] == len(logs) - 1
    assert runs.files() == files
    touched(partition / logs[0])
    assert left_out(runs.run())["segments"] == len(logs) - 2
    first, second = runs.files()
    assert (first.name[:20], second) == (files[0].name[:20], files[1])
    assert first != files[0]
    assert left_out(runs.run())["segments"] == len(logs) - 1
    first.write_bytes(b"")
    assert left_out(runs.run())["segments"] == len(logs) - 3
    assert left_out(runs.run())["segments"] == len(logs) - 1
    # A file that another run has left beside a full one.
    third = runs.files()[0]
    third.with_name(f"{third.name[:42]}0.parquet").write_bytes(third.read_bytes())
    touched(partition / logs[2])
    runs.run()
    assert left_out(runs.run())["segments"] == len(logs) - 1
    assert len(runs.files()) == 2


def test_what_was_read_deep_counts_for_a_plain_run_and_not_vice_versa(runs: World) -> None:
    runs.run()
    assert left_out(runs.run("--deep"))["segments"] == 0
    assert left_out(runs.run("--deep"))["segments"] == SEALED
    assert left_out(runs.run())["segments"] == SEALED


def test_tables_of_runs_have_what_this_run_read(runs: World, tmp_path: Path) -> None:
    to = ("--to", str(tmp_path / "tables"))
    runs.run()
    here = runs.here(*to)
    second = runs.run(*to)
    by_run: dict[str, int] = {}
    for row in rows(tmp_path / "tables", "ledger"):
        by_run[row["run_id"]] = by_run.get(row["run_id"], 0) + row["bytes"]
    assert sorted(by_run.values()) == sorted((summary(here)["bytes"], summary(second)["bytes"]))
    statistics: dict[str, list[str]] = {}
    for row in rows(tmp_path / "tables", "statistics"):
        statistics.setdefault(row["run_id"], []).append(without(row, "read_bytes"))
    one, other = map(sorted, statistics.values())
    assert one == other


@pytest.mark.parametrize(
    ("pieces", "tasks"),
    [
        (False, 4),
        (True, 11),
        *at_night((False, 0), (True, 18)),
    ],
    ids=str,
)
def test_a_killed_run_goes_on_where_it_was(
    pieces: bool,
    tasks: int,
    runs: World,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    if pieces:
        runs.in_pieces()
    here = runs.here()
    with monkeypatch.context() as killing:
        kill_after(killing, tasks)
        with pytest.raises(Killed):
            runs.run()
    capfdbinary.readouterr()
    known = sum(len(decode_rows(path.read_bytes())) for path in runs.files())
    assert (known > 0) == (tasks > 0)
    again = runs.run()
    assert_same(here, again)
    assert left_out(again)["segments"] == known
    assert left_out(runs.run())["segments"] == SEALED


@pytest.mark.slow
def test_what_was_read_too_long_ago_is_read_again(runs: World) -> None:
    runs.run()
    assert left_out(runs.run(later_s=30 * DAY_S - 1))["segments"] == SEALED
    assert left_out(runs.run(later_s=1))["segments"] == 0
    assert left_out(runs.run("--max-age", "2h", later_s=7199))["segments"] == SEALED
    assert left_out(runs.run("--max-age", "2h", later_s=1))["segments"] == 0
    # The clock was set back.
    assert left_out(runs.run(later_s=-60))["segments"] == 0


@pytest.mark.nightly
def test_the_oldest_reading_is_named(runs: World, data: Path) -> None:
    runs.run()
    oldest = runs.now_s
    rewrite(sealed_log(data), sealed_log(data).read_bytes(), silently=False)
    assert left_out(runs.run())["segments"] == SEALED - 1
    found = left_out(runs.run())
    assert found["segments"] == SEALED
    assert found["oldest_ms"] // 1000 % 100_000_000 == (1_795_900_000 + oldest) % 100_000_000


def touched(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def copied(path: Path) -> None:
    status = path.stat()
    other = path.with_name("other")
    shutil.copyfile(path, other)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        (".log", touched),
        (".timeindex", copied),
        *at_night((".log", copied), (".index", touched), (".index", copied)),
    ],
)
def test_a_changed_file_is_read_again(
    ending: str, change: Callable[[Path], None], runs: World, data: Path
) -> None:
    runs.run()
    change(sealed_log(data).with_suffix(ending))
    again = runs.run()
    assert left_out(again)["segments"] == SEALED - 1
    assert codes(again) == []
    assert left_out(runs.run())["segments"] == SEALED


@pytest.mark.parametrize("ending", [".index", *at_night(".timeindex")])
def test_a_lost_index_is_found(ending: str, runs: World, data: Path) -> None:
    runs.run()
    sealed_log(data).with_suffix(ending).unlink()
    again = runs.run()
    assert_same(runs.here(), again)
    assert left_out(again)["segments"] == SEALED - 1


def test_evidence_of_something_else_does_not_count(runs: World) -> None:
    """Each row is of something else in another way."""

    def reading(row: EvidenceRow, **other: Any) -> EvidenceRow:
        changed = replace(row.reading, **other)
        return replace(row, record=replace(row.record, reading=changed))

    changes: Iterator[Callable[[EvidenceRow], EvidenceRow]] = cycle(
        (
            lambda row: replace(row, form="0" * 16),
            lambda row: replace(row, settings="[true,1,2]"),
            lambda row: reading(row, version="0.0.1"),
            lambda row: reading(row, digest_form=0),
            lambda row: replace(row, record=replace(row.record, base_offset=-1)),
        )
    )
    here = runs.here()
    runs.run()
    change_rows(runs, lambda row: next(changes)(row))
    again = runs.run()
    assert_same(here, again)
    assert left_out(again) == {
        "segments": 0, "log_bytes": 0, "oldest_ms": None, "unusable": 0, "unwritten": 0, "text": "",
    }  # fmt: skip
    assert left_out(runs.run())["segments"] == SEALED


@pytest.mark.nightly
def test_a_topic_that_was_made_again_is_another_one(runs: World, data: Path) -> None:
    runs.run()
    metadata = data / "codec-none-0" / "partition.metadata"
    metadata.write_text(metadata.read_text()[:-2] + "A\n")
    found = left_out(runs.run())["segments"]
    assert found == SEALED - len(list((data / "codec-none-0").glob("*.log"))) + 1


def test_a_moved_log_directory_is_the_same(runs: World, data: Path) -> None:
    runs.run()
    moved = data.rename(data.with_name("moved"))
    runs.paths = [moved]
    again = runs.run()
    assert_same(runs.here(), again)
    assert left_out(again)["segments"] == SEALED


@pytest.mark.slow
def test_copies_of_a_log_directory_do_not_meet(runs: World, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    shutil.copytree(data, other)
    reseal(sealed_log(other), silently=False)
    runs.paths = [data, other]
    here = runs.here()
    for expected in (0, 2 * SEALED):
        ran = runs.run()
        assert_same(here, ran)
        assert left_out(ran)["segments"] == expected


@pytest.mark.slow
def test_a_flip_in_old_evidence_is_found_within_the_age(runs: World, data: Path) -> None:
    runs.run()
    flip(sealed_log(data), silently=True)
    young = runs.run(later_s=29 * DAY_S)
    assert (young[0], codes(young)) == (exits.OK, [])
    due = runs.run(later_s=DAY_S)
    assert due[0] == exits.PROBLEMS
    assert codes(due) == ["batch-crc-mismatch", "segment-changed-silently"]
    # It stays until the content is back.
    again = runs.run()
    assert codes(again) == codes(due)
    assert left_out(again)["segments"] == SEALED - 1
    flip(sealed_log(data), silently=True)
    assert codes(runs.run()) == []
    assert left_out(runs.run())["segments"] == SEALED


@pytest.mark.parametrize(("pieces", "tasks"), [(True, 16), *at_night((False, 3))], ids=str)
def test_a_change_that_no_checksum_covers_is_found(
    pieces: bool,
    tasks: int,
    runs: World,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    if pieces:
        runs.in_pieces()
    runs.run()
    log = sealed_log(data)
    reseal(log, silently=True)
    with monkeypatch.context() as killing:
        # What a task has found is found again after a kill.
        kill_after(killing, tasks)
        with pytest.raises(Killed):
            runs.run("--max-age", "1s")
    capfdbinary.readouterr()
    for _ in range(2):
        ran = runs.run("--max-age", "30d")
        assert "segment-changed-silently" in codes(ran)
        (finding,) = [line for line in ran[1] if line.get("code") == "segment-changed-silently"]
        assert finding["path"] == str(log)
        assert "header digest" in finding["detail"]["found"]


def test_a_rewritten_segment_is_found_once(runs: World, data: Path) -> None:
    runs.run()
    reseal(sealed_log(data), silently=False)
    assert "segment-rewritten" in codes(runs.run())
    assert "segment-rewritten" not in codes(runs.run())
    # An undo brings back what was there before.
    reseal(sealed_log(data), silently=False)
    assert "segment-rewritten" not in codes(runs.run())


def test_damage_is_read_each_time(runs: World, data: Path) -> None:
    runs.in_pieces()
    flip(sealed_log(data), silently=False)
    here = runs.here()
    assert here[0] == exits.PROBLEMS
    for expected in (0, SEALED - 1, SEALED - 1):
        ran = runs.run()
        assert_same(here, ran)
        assert left_out(ran)["segments"] == expected


@pytest.mark.nightly
def test_removed_segments_are_forgotten(runs: World, data: Path) -> None:
    runs.run()
    log = sealed_log(data, "deleted-records-0")
    assert len(list(log.parent.glob("*.log"))) > 2
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    ran = runs.run()
    assert left_out(ran)["segments"] == SEALED - 1
    known = [row for path in runs.files() for row in decode_rows(path.read_bytes())]
    assert len(known) == SEALED - 1


@pytest.mark.parametrize(
    "content",
    [
        None,
        *(pytest.param(each, marks=pytest.mark.nightly) for each in (b"", b"PAR1", b"\x80\x04.")),
    ],
)
def test_a_damaged_file_is_no_evidence(content: bytes | None, runs: World) -> None:
    here = runs.here()
    runs.run()
    path = runs.files()[0]
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    ran = runs.run()
    assert_same(here, ran)
    found = left_out(ran)
    assert found["unusable"] == 1
    assert str(path) in found["text"]
    assert 0 < found["segments"] < SEALED
    after = left_out(runs.run())
    assert (after["segments"], after["unusable"]) == (SEALED, 0)


@pytest.mark.slow
def test_a_survey_that_is_none_is_no_evidence(runs: World) -> None:
    here = runs.here()
    runs.run()
    change_rows(runs, lambda row: replace(row, survey=b"\x80\x04cos\nsystem\n."))
    ran = runs.run()
    assert_same(here, ran)
    assert (left_out(ran)["segments"], left_out(ran)["unusable"]) == (0, SEALED)
    assert left_out(runs.run())["segments"] == SEALED


def test_a_text_report_says_what_it_did_not_read(
    runs: World, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    runs.run()
    runs.files()[0].write_bytes(b"")
    arguments = ["verify", "--master", "local[2]", "--state", runs.state, str(runs.paths[0])]
    capfdbinary.readouterr()
    assert main(arguments) == exits.OK
    text = " ".join(capfdbinary.readouterr().out.decode().split())
    assert "unchanged since they were read, the first of them at 20" in text
    assert "state 1 file could not be used: segments were read again" in text


def test_what_cannot_be_written_is_said(
    runs: World, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (code, _), run = runs.here(), runs.run
    assert code == exits.OK
    Path(runs.state).mkdir()
    real = os.fchmod

    def full(descriptor: int, mode: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if name.rpartition("/")[2].startswith(".") and "partition=" in name:
            raise OSError(28, "No space left on device")
        real(descriptor, mode)

    monkeypatch.setattr("os.fchmod", full)
    ran = run()
    assert ran[0] == exits.INCOMPLETE
    assert left_out(ran)["unwritten"] > 0
    assert "No space left" in left_out(ran)["text"]
    assert not runs.files()
    assert not [path for path in Path(runs.state).rglob("*") if path.name.startswith(".")]


@pytest.mark.nightly
def test_an_executor_that_does_not_see_the_state_says_so(
    runs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kdump.fleet.verify import verify

    real = verify.verify

    def gone(*arguments: object, **options: object) -> object:
        shutil.rmtree(runs.state)
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(verify, "verify", gone)
    ran = runs.run()
    assert ran[0] == exits.INCOMPLETE
    assert "executors must see it" in left_out(ran)["text"]
    assert not Path(runs.state).exists()


@pytest.mark.nightly
def test_a_partition_and_a_segment_by_name(runs: World, data: Path) -> None:
    runs.run()
    log = sealed_log(data)
    runs.paths = [log.parent]
    ran = runs.run()
    assert_same(runs.here(), ran)
    assert left_out(ran)["segments"] == len(list(log.parent.glob("*.log"))) - 1
    runs.paths = [log]
    ran = runs.run()
    assert_same(runs.here(), ran)
    assert left_out(ran)["segments"] == 0


@pytest.mark.nightly
def test_directories_without_ids_are_known_by_their_paths(runs: World, data: Path) -> None:
    meta = data / "meta.properties"
    lines = [line for line in meta.read_text().splitlines() if "directory.id" not in line]
    meta.write_text("\n".join(lines) + "\n")
    runs.run()
    assert left_out(runs.run())["segments"] == SEALED
    lone = data.parent / "lone-0"
    shutil.copytree(data / "codec-none-0", lone)
    runs.paths = [lone]
    for expected in (0, len(list(lone.glob("*.log"))) - 1):
        assert left_out(runs.run())["segments"] == expected
    assert len(list(Path(runs.state).glob("directory=*"))) == 2


@pytest.mark.nightly
def test_long_names_have_a_place(runs: World, data: Path) -> None:
    (data / "codec-none-0").rename(data / f"{'x' * 247}-0")
    runs.run()
    assert left_out(runs.run())["segments"] > SEALED // 2
    assert all(len(part) < 256 for path in runs.files() for part in path.parts)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--state", "x", "--master", "local[2]", "--quick"], "--state: expected no --quick"),
        (["--max-age", "1d", "--master", "local[2]"], "--max-age: expected --state"),
        (["--max-age", "1d"], "kdump scrub"),
        (["--state", "x"], "kdump scrub"),
        (
            ["--state", "x", "--changed-since-last", "--master", "local[2]"],
            "--changed-since-last: expected no --quick, --deep and Spark",
        ),
        (["--state", "s3://b/x", "--changed-since-last"], "expected a path in the file system"),
        (["--state", "x", "--master", "spark://h:1"], "x: expected an absolute path"),
        (["--state", "x", "--master", "local[0]"], "--master local[0]: expected local[N]"),
    ],
)
def test_what_does_not_go_together(
    arguments: list[str],
    text: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["verify", *arguments, str(tmp_path)]) == exits.USAGE
    assert text in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_places_that_are_no_state(
    runs: World, data: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    full, file, later = (tmp_path / name for name in ("full", "file", "later"))
    full.mkdir()
    (full / "other").touch()
    file.touch()
    later.mkdir()
    (later / "_kdump_state.json").write_text('{"kdump_state": 2}')
    odd = tmp_path / "odd"
    odd.mkdir()
    (odd / "_kdump_state.json").write_text("[]")
    for place, code, text in (
        (full, exits.INCOMPLETE, "found another directory"),
        (file, exits.INCOMPLETE, "found no directory"),
        (later, exits.INCOMPLETE, "found version 2"),
        (odd, exits.INCOMPLETE, "found another directory"),
        (tmp_path / "none" / "deep", exits.INCOMPLETE, "found none"),
        (tmp_path / ("x" * 300), exits.INCOMPLETE, "File name too long"),
        (data / "state", exits.USAGE, "outside of log directories"),
        (data, exits.USAGE, "outside of log directories"),
    ):
        before = sorted(tmp_path.rglob("*"))
        capfdbinary.readouterr()
        arguments = ["verify", "--master", "local[2]", "--state", str(place), str(data)]
        assert main(arguments) == code
        assert text in capfdbinary.readouterr().err.decode()
        assert sorted(tmp_path.rglob("*")) == before


def test_no_spark_starts_for_a_place_that_is_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started: list[object] = []

    @contextmanager
    def starting(*asked: object) -> Iterator[None]:
        started.append(asked)
        yield

    monkeypatch.setattr(verify_engine, "spark_session", starting)
    file = tmp_path / "file"
    file.touch()
    arguments = ["verify", "--master", "local[2]", "--state", str(file), str(tmp_path)]
    assert main(arguments) == exits.INCOMPLETE
    assert "found no directory" in capfd.readouterr().err
    assert not started


@pytest.mark.root
def test_root_writes_with_the_rights_of_the_owner(runs: World, place: Path) -> None:
    """Whoever owns the directory of the state can redirect nothing."""
    secret, state = place / "secret", place / "of-nobody"
    secret.mkdir(mode=0o700)
    state.mkdir()
    os.chown(state, 65534, 65534)
    runs.state = str(state)
    runs.run()
    assert {path.stat().st_uid for path in state.rglob("*")} == {65534}
    assert left_out(runs.run())["segments"] == SEALED
    folder = runs.files()[0].parent
    shutil.rmtree(folder)
    folder.symlink_to(secret)
    ran = runs.run()
    assert ran[0] == exits.INCOMPLETE
    assert "Permission denied" in left_out(ran)["text"]
    assert not list(secret.iterdir())


@pytest.mark.root
def test_a_state_of_root_is_where_only_root_can_put_links(
    runs: World, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    state = Path(runs.state)
    state.parent.chmod(0o777)
    state.mkdir()
    arguments = ["verify", "--master", "local[2]", "--state", str(state), str(runs.paths[0])]
    assert main(arguments) == exits.REFUSED
    assert b"expected a path that only root can change" in capfdbinary.readouterr().err
    assert not list(state.iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("pieces", [False, True], ids=["partitions", "segments"])
def test_files_that_change_all_the_time_give_no_false_alarm(
    pieces: bool, runs: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence stands beside a broker that rolls, cleans and deletes."""
    if pieces:
        runs.in_pieces()
    directory = tmp_path / "restless"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    running = Liveness(BrokerState.LIVE, "as the test says")
    monkeypatch.setattr("kdump.audit.targets.target.liveness", lambda _: running)
    runs.paths = [directory]
    monkeypatch.setattr("support.restless._PAUSE_SECONDS", 0.2)  # some segments stay a while
    known = 0
    with changing(directory, seed=7):
        for _ in range(60):
            ran = runs.run()
            assert not [line for line in ran[1] if line.get("severity") == "error"]
            assert left_out(ran)["unusable"] == left_out(ran)["unwritten"] == 0
            known += left_out(ran)["segments"]
    assert known > 0
    for _ in range(2):
        ran = runs.run()
        assert_same(runs.here("--limit-rate", "none"), ran)
    assert left_out(ran)["segments"] == len(list(directory.glob("*/*.log"))) - 1
