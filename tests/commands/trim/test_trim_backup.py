"""``trim --backup`` saves what goes, and ``undo --backup`` brings back every byte of it."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from operator import eq
from pathlib import Path
from typing import Any, Final

import pytest

from kdump.ui import exits
from support.commands import kdump
from support.crashing.places import small_disk
from support.crashing.running import Run, run
from support.crashing.seam import failing, killed_before
from support.crashing.trees import put, take
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.once

NAME: Final = "codec-lz4-0"  # 0..47, 48..99, and the active segment


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.properties").write_text("node.id=1\n")
    copied = copy_fixture("4.3.1/clean", tmp_path / "data")
    (copied / ".lock").touch()
    return copied


@pytest.fixture
def saved(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system."""
    with small_disk(tmp_path / "saved", "8m") as directory:
        yield directory


def trim(saved: Path, *arguments: object, around: Any = None, apply: bool = True) -> Run:
    argv = ["trim", "--config", "server.properties", "--backup", str(saved), *map(str, arguments)]
    planned = run([*argv, "--format", "json"])
    if not apply or planned.code != exits.PROBLEMS:
        return planned
    *_, summary = map(json.loads, planned.out.splitlines())
    return run([*argv, "--apply", "--confirm", summary["id"]], around)


def undo(saved: Path, *arguments: object, around: Any = None) -> Run:
    return run(["undo", "--backup", str(saved), "--apply", *map(str, arguments)], around)


def bases(partition: Path) -> list[int]:
    return sorted(int(log.stem) for log in partition.glob("*.log"))


def held(data: Path) -> dict[str, Any]:
    """All of its partition, with times and owners; not the time of the directory."""
    return {name: node for name, node in take(data / NAME).items() if name not in ("", ".")}


def test_undo_brings_back_every_byte(data: Path, saved: Path) -> None:
    before = held(data)
    ran = trim(saved, "--before", "100", data / NAME)
    assert ran.code == exits.OK, ran
    assert bases(data / NAME) == [100]
    listed = run(["undo", "--backup", str(saved), str(data)])
    assert listed.code == exits.OK
    assert f"trim {NAME}: done" in listed.out
    (told,) = (line for line in ran.out.splitlines() if line.endswith("--apply"))
    assert told in listed.out.splitlines()
    _, *argv = shlex.split(told[told.index("kdump") :])
    assert run(argv).code == exits.OK
    assert held(data) == before
    assert list(saved.iterdir()) == []
    assert "no backup" in undo(saved, data).out


def test_of_several_the_newest_comes_back_first(data: Path, saved: Path) -> None:
    before = held(data)
    assert trim(saved, "--before", "48", data / NAME).code == exits.OK
    between = held(data)
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    assert undo(saved, data).code == exits.OK
    assert held(data) == between
    assert undo(saved, data).code == exits.OK
    assert held(data) == before


def test_of_a_log_directory_all_partitions_come_back(data: Path, saved: Path) -> None:
    before = {path.name: take(path) for path in data.iterdir() if path.is_dir()}
    ran = trim(saved, "--before", "1d", data)
    assert ran.code == exits.OK, ran
    gone = {path.name.rpartition(".")[0] for path in saved.iterdir()}
    assert len(gone) > 3
    assert undo(saved, data).code == exits.OK
    for path in before:
        after = take(data / path)
        assert {name: after[name] for name in after if name not in ("", ".")} == {
            name: node for name, node in before[path].items() if name not in ("", ".")
        }


def test_where_a_backup_may_be(data: Path, saved: Path, tmp_path: Path) -> None:
    before = held(data)
    (tmp_path / "beside").mkdir()
    ran = trim(tmp_path / "beside", "--before", "100", data / NAME)
    assert ran.code == exits.REFUSED
    assert "on another file system" in ran.err
    if os.geteuid() == 0:
        other = saved / "other"
        other.mkdir()
        os.chown(other, 12345, 12345)
        ran = trim(other, "--before", "100", data / NAME)
        assert ran.code == exits.REFUSED
        assert "to own it, found user 12345" in ran.err
    (saved / "filler").write_bytes(bytes(7 << 20))
    ran = trim(saved, "--before", "100", data / NAME)
    assert ran.code == exits.REFUSED
    assert "free bytes, found" in ran.err
    assert held(data) == before
    assert trim(saved, "--leftovers", data).code == exits.USAGE
    assert run(["undo", "--backup", str(saved), "--plan", "0", str(data)]).code == exits.USAGE


# --- crashes


@pytest.mark.slow
def test_killed_at_any_call_of_a_trim_all_can_come_back(data: Path, saved: Path) -> None:
    original = take(data)
    before, seen = held(data), set()
    for number in range(0, 300, 2):
        put(data, original)
        ran = trim(saved, "--before", "100", data / NAME, around=killed_before(number))
        seen.add(tuple(bases(data / NAME)))
        listed = list(kdump("undo", "--backup", saved, data, searching=False).of("backup"))
        if bases(data / NAME) != [0, 48, 100]:
            assert len(listed) == 1
        if listed:
            again = undo(saved, data / NAME)
            assert again.code == exits.OK, again
        assert held(data) == before
        for path in saved.iterdir():
            shutil.rmtree(path)
        if ran.code == exits.OK:
            break
        assert ran.code == -9
    assert seen == {(0, 48, 100), (48, 100), (100,)}
    assert number > 20


@pytest.mark.slow
def test_killed_at_any_call_of_an_undo_it_goes_on(data: Path, saved: Path) -> None:
    before = held(data)
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    trimmed, kept = take(data), take(saved)
    seen = set()
    for number in range(0, 300, 2):
        put(data, trimmed)
        put(saved, kept)
        ran = undo(saved, data / NAME, around=killed_before(number))
        found = bases(data / NAME)
        assert found in ([100], [48, 100], [0, 48, 100])
        seen.add(len(found))
        (forecast,) = kdump("next-start", data, "--topic", NAME[:-2], searching=False).of(
            "forecast"
        )
        assert forecast["outcome"] == "starts"
        if ran.code == exits.OK:
            break
        assert ran.code == -9
        assert undo(saved, data / NAME).code == exits.OK
        assert held(data) == before
    assert seen == {1, 2, 3}


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.slow
def test_a_call_of_an_undo_that_fails_is_told(error: int, data: Path, saved: Path) -> None:
    before = held(data)
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    trimmed, kept = take(data), take(saved)
    for number in range(0, 300, 5):
        put(data, trimmed)
        put(saved, kept)
        ran = undo(saved, data / NAME, around=failing(partial(eq, number), error))
        if ran.code == exits.OK:
            break
        if ran.code == exits.REFUSED:
            assert bases(data / NAME) == [100]
            continue
        assert ran.code == exits.INCOMPLETE, ran
        program, *argv = shlex.split(ran.last_line)
        assert program == "kdump"
        again = run(argv)
        assert again.code == exits.OK, again
        if list(saved.iterdir()) == []:
            assert held(data) == before
    assert number > 9


# --- what is refused


def flipped(data: Path, backup: Path) -> None:
    log = backup / f"{48:020}.log"
    content, times = bytearray(log.read_bytes()), log.stat()
    content[100] ^= 1
    log.write_bytes(content)
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))


def renamed(data: Path, backup: Path) -> None:
    record = backup / "saved.json"
    record.write_text(record.read_text().replace(f"{48:020}.log", "../../../etc/passwd"))


def nonsense(data: Path, backup: Path) -> None:
    (backup / "saved.json").write_text("[" * 100_000)


def linked(data: Path, backup: Path) -> None:
    backup.rename(backup.with_name("elsewhere"))
    backup.symlink_to("elsewhere")


def writable(data: Path, backup: Path) -> None:
    backup.chmod(0o777)


def gone(data: Path, backup: Path) -> None:
    (backup / f"{48:020}.index").unlink()


def went_on(data: Path, backup: Path) -> None:
    for path in (data / NAME).glob(f"{100:020}.*"):
        path.rename(path.with_name(path.name.replace(f"{100:020}", f"{105:020}")))


def raised(data: Path, backup: Path) -> None:
    (data / "log-start-offset-checkpoint").write_text("0\n1\ncodec-lz4 0 100\n")


def other_file(data: Path, backup: Path) -> None:
    (data / NAME / f"{48:020}.log").write_bytes(b"x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (flipped, "expected SHA-256"),
        (renamed, "expected the record of a backup"),
        (nonsense, "expected the record of a backup"),
        (linked, "symbolic link"),
        (writable, "other users can change"),
        (gone, "expected the saved file"),
        (went_on, "expected the log to go on at offset 100"),
        (raised, "a broker has raised it"),
        (other_file, "than the saved one"),
    ],
)
def test_what_does_not_fit_is_refused(
    change: Callable[[Path, Path], None], said: str, data: Path, saved: Path
) -> None:
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    (backup,) = saved.iterdir()
    change(data, backup)
    before = held(data)
    ran = undo(saved, data / NAME)
    assert ran.code in (exits.REFUSED, exits.INCOMPLETE)
    assert said in ran.err
    assert {name for name in held(data) if name.endswith(".log")} == {
        name for name in before if name.endswith(".log")
    }


def test_a_backup_of_another_topic_is_none(data: Path, saved: Path) -> None:
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    (data / NAME / "partition.metadata").unlink()
    assert "no backup" in undo(saved, data / NAME).out
    assert bases(data / NAME) == [100]


def test_leader_epochs_go_on_where_a_broker_has_added_some(data: Path, saved: Path) -> None:
    epochs = data / NAME / "leader-epoch-checkpoint"
    before = epochs.read_text().splitlines()[2:]
    assert trim(saved, "--before", "100", data / NAME).code == exits.OK
    count, *lines = epochs.read_text().splitlines()[1:]
    epochs.write_text("\n".join(["0", str(int(count) + 1), *lines, "9 110"]) + "\n")
    assert undo(saved, data / NAME).code == exits.OK
    assert epochs.read_text().splitlines()[2:] == [*before, "9 110"]
