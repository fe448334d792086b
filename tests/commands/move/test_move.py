"""``move``: its plan, what it refuses, what is left after starts of a broker amid it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from commands.move.two_directories import (
    CLEANED,
    MARKER,
    NAME,
    POINT,
    contents,
    lines,
    start,
    write,
)
from kdump.repair.relocation import move
from kdump.ui import exits
from support.commands import kdump
from support.crashing.places import fill, small_disk
from support.crashing.running import Run, run
from support.crashing.seam import Call
from support.crashing.trees import put, take
from support.fixtures_loader import copy_fixture

pytestmark = pytest.mark.once

LOCKS: Final = {"a/.lock", "b/.lock"}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log directories count as those of two file systems."""
    monkeypatch.setattr(move, "shares_mount", lambda *_: False)


def moved(top: Path, *more: str, name: str = NAME, around: Any = None) -> Run:
    return run(["move", "--to", str(top / "b"), str(top / "a" / name), *more], around)


def left(top: Path) -> dict[str, Any]:
    return {name: node for name, node in take(top).items() if name not in LOCKS}


def before_it_arrives(call: Call, make: Any) -> Any:
    """The process ends before the copy gets the name of the partition."""
    if call.method == "rename" and call.paths[0].endswith("-stray"):
        raise KeyboardInterrupt
    return make(*call.arguments)


def before_set_aside(call: Call, make: Any) -> Any:
    """The process ends before it sets the old directory aside."""
    if call.method == "rename" and call.paths[1].endswith("-stray"):
        raise KeyboardInterrupt
    return make(*call.arguments)


def test_a_plan_changes_nothing_and_is_carried_out_as_printed(top: Path) -> None:
    before = take(top)
    ran = moved(top)
    assert ran.code == exits.PROBLEMS
    assert take(top) == before
    assert "one file system" in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines() if str(top) not in line)
    *_, command = ran.out.strip().splitlines()
    assert run(shlex.split(command.removeprefix("apply"))[1:]).code == exits.OK
    assert start(top).directories == ("b",)


def test_two_file_systems_are_told_apart(top: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        shutil.copytree(top / "b", disk / "b")
        (plan,) = kdump("move", "--to", disk / "b", top / "a" / NAME, searching=False).of("move")
        assert plan["copied"]
        assert plan["backup"].startswith(f"{top}/a/__cluster_metadata-0.kdump-{plan['id']}")
        ran = run(["move", "--to", str(disk / "b"), str(top / "a" / NAME), "--apply"])
        assert ran.code == exits.OK, ran
        assert contents(disk / "b" / NAME) == contents(Path(plan["backup"]))
    (plan,) = kdump("move", "--to", top / "b", top / "a" / "codec-lz4-0", searching=False).of(
        "move"
    )
    assert not plan["copied"]


def test_two_mounts_of_one_file_system_are_copied(tmp_path: Path) -> None:
    """A rename from one to the other fails, although the device is the same."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        write(disk)
        bound = tmp_path / "bound"
        bound.mkdir()
        if os.system(f"mount --bind {disk}/b {bound}"):
            pytest.skip("may not mount")
        try:
            ran = run(["move", "--to", str(bound), str(disk / "a" / NAME), "--apply"])
            assert ran.code == exits.OK, ran
            assert "two file systems" in ran.out
        finally:
            os.system(f"umount {bound}")
        assert start(disk).directories == ("b",)


def test_a_full_disk_is_left(tmp_path: Path) -> None:
    """Nothing is written there but names; the lines of the log stay, and no broker reads them."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        write(disk, clean=(False, True), name="codec-lz4-0")
        shutil.move(disk / "b", tmp_path / "b")
        cleaned = disk / "a" / CLEANED
        cleaned.write_text("0\n0\n")
        (disk / "a" / ".lock").touch()
        fill(disk)
        argv = ["move", "--to", str(tmp_path / "b"), str(disk / "a" / "codec-lz4-0"), "--apply"]
        ran = run(argv)
        assert ran.code == exits.OK, ran
        assert not (disk / "a" / "codec-lz4-0").exists()
        assert not (tmp_path / "b" / MARKER).exists()
        before = os.statvfs(disk).f_bavail
        free = re.search(r"kdump (undo /.* --discard)$", ran.out, re.MULTILINE)
        assert free is not None, ran
        assert run(shlex.split(free[1])).code == exits.OK
        assert os.statvfs(disk).f_bavail > before
        assert not [*(disk / "a").glob(".kdump*")]


def test_a_full_disk_keeps_what_the_cleaner_would_find_twice(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        write(disk)
        shutil.move(disk / "b", tmp_path / "b")
        (disk / "a" / ".lock").touch()
        fill(disk)
        argv = ["move", "--to", str(tmp_path / "b"), str(disk / "a" / NAME), "--apply"]
        ran = run(argv)
        assert ran.code == exits.INCOMPLETE, ran
        assert "No space left" in ran.err
        assert contents(disk / "a" / NAME)
        (disk / "filler").unlink()
        _, *resume = shlex.split(ran.last_line)
        assert run(resume).code == exits.OK
        assert lines(tmp_path / "b" / CLEANED)[NAME] == 466


def test_several_partitions_and_their_earlier_repairs(top: Path, copied: None) -> None:
    names = NAME, "codec-lz4-0", "deleted-records-0"
    for name in names[:2]:
        (top / "a" / name / ".kdump" / "0000aaaa" / "old").mkdir(parents=True, mode=0o700)
        (top / "a" / name / ".kdump").chmod(0o700)
        for file in ("plan.json", "begun.json", "receipt.json", "old/x"):
            (top / "a" / name / ".kdump" / "0000aaaa" / file).write_text('{"begun_ns": 1}')
    argv = ["move", "--to", str(top / "b"), *(str(top / "a" / name) for name in names)]
    ran = run([*argv, "--apply", "--format", "json"])
    assert ran.code == exits.OK, ran
    done = [json.loads(line) for line in ran.out.splitlines()]
    assert [each["path"] for each in done if each["type"] == "done"] == [
        str(top / "b" / name) for name in names
    ]
    for name in names[:2]:
        assert (top / "b" / name / ".kdump" / "0000aaaa" / "old" / "x").exists()
    assert lines(top / "b" / "log-start-offset-checkpoint")[NAME] == 470
    listed = kdump("undo", top / "b", searching=False)
    assert {each["command"] for each in listed.of("backup")} == {"move", None}
    assert run(["undo", str(top / "b" / NAME), "--apply"]).code == exits.OK
    assert contents(top / "a" / NAME)
    shown = kdump("verify", top / "a", top / "b", searching=False)
    errors = {each["code"] for each in shown.of("finding") if each["severity"] == "error"}
    assert errors == {"replica-missing-only"}  # of partitions that the node here lacks


def to_new_directory(tmp_path: Path, *names: str) -> tuple[Path, Path]:
    """A node, and a log directory that was formatted and has never run, with its partitions."""
    old, new = copy_fixture("4.3.1/clean", tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    meta = (old / "meta.properties").read_text()
    named = re.sub("directory.id=.*", "directory.id=q2Y3hBDoQ1mDkd8pO5sTgA", meta)
    (new / "meta.properties").write_text(named)
    paths = (str(old / name) for name in names)
    ran = run(["move", "--to", str(new), *paths, "--apply"])
    assert ran.code == exits.OK, ran
    return old, new


def of_replicas(*arguments: str | Path) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit code of a check, and what it finds of replicas: code, path, found."""
    ran = kdump(*arguments, searching=False)
    found = [each for each in ran.of("finding") if each["code"].startswith("replica-")]
    return ran.code, [(each["code"], each["path"], each["detail"]["found"]) for each in found]


DOTTED = "a.b_c-1-0"


@pytest.mark.parametrize("mode", [("verify",), ("verify", "--quick"), ("next-start", "--scan")])
def test_the_backup_explains_a_replica_that_is_elsewhere(
    mode: tuple[str, ...], tmp_path: Path, copied: None
) -> None:
    old, new = to_new_directory(tmp_path, "codec-none-0", DOTTED)
    backups = sorted(str(path) for path in old.glob("*-stray"))
    code, found = of_replicas(*mode, old)
    assert code == exits.OK
    if mode[0] == "verify":
        assert sorted(each[:2] for each in found) == [("replica-moved", each) for each in backups]
        assert all("not in sight" in each[2] for each in found)
    assert of_replicas(*mode, old, new) == (exits.OK, [])
    # The broker's configuration does not name the other log directory.
    config = tmp_path / "server.properties"
    config.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={old}\n")
    code, found = of_replicas("verify", "--config", config)
    assert (code, {each[0] for each in found}) == (exits.PROBLEMS, {"replica-missing-only"})
    config.write_text(f"node.id=1\nprocess.roles=broker,controller\nlog.dirs={old},{new}\n")
    assert of_replicas("verify", "--config", config) == (exits.OK, [])


def test_without_a_backup_a_replica_may_be_in_a_directory_that_is_not_in_sight(
    tmp_path: Path,
) -> None:
    """One file system has both log directories: nothing is left in the old one."""
    old, _ = to_new_directory(tmp_path, "codec-none-0")
    code, found = of_replicas("verify", old)
    assert (code, found[0][:2]) == (
        exits.PROBLEMS,
        ("replica-missing-only", str(old / "codec-none-0")),
    )
    assert "an unknown directory id" in found[0][2]


def test_the_copy_of_a_move_that_has_not_ended_explains_nothing(
    tmp_path: Path, copied: None
) -> None:
    old, new = to_new_directory(tmp_path, "codec-none-0")
    (backup,) = old.glob("*-stray")
    shutil.rmtree(backup)
    shutil.copytree(new / "codec-none-0", backup)  # with the record of its move
    code, found = of_replicas("verify", old)
    assert (code, found[0][0]) == (exits.PROBLEMS, "replica-missing-only")


def test_an_interrupted_move_is_found(top: Path, copied: None) -> None:
    """In reports, and by other repairs in both log directories."""
    ran = moved(top, "--apply", around=before_set_aside)
    assert ran.code == exits.INTERRUPTED, ran
    assert start(top).directories == ("a", "b")
    found = kdump("verify", "--quick", top / "b" / NAME, searching=False)
    (pending,) = [each for each in found.of("finding") if each["code"] == "repair-pending"]
    remedy = pending["remedy"]
    other = run(["reindex", "--all", "--apply", str(top / "b" / NAME)])
    assert other.code == exits.REFUSED
    assert "expected no interrupted repair" in other.err
    again = moved(top)
    assert again.code == exits.PROBLEMS
    assert "INTERRUPTED" in again.out
    assert run(remedy[1:]).code == exits.OK
    assert start(top).directories == ("b",)


def test_an_interrupted_copy_is_found(top: Path, copied: None) -> None:
    """Before it has the name of the partition: the log directory has it, and no partition has."""
    shutil.copytree(top / "a" / "codec-lz4-0", top / "b" / "codec-lz4-0")
    shutil.rmtree(top / "a" / "codec-lz4-0")
    (top / "a" / NAME / ".kdump" / "0000aaaa").mkdir(parents=True, mode=0o700)
    (top / "a" / NAME / ".kdump").chmod(0o700)
    for file in ("plan.json", "begun.json", "receipt.json"):
        (top / "a" / NAME / ".kdump" / "0000aaaa" / file).write_text('{"begun_ns": 1}')
    assert moved(top, "--apply", around=before_it_arrives).code == exits.INTERRUPTED
    interrupted = take(top)
    for command in (("verify", "--quick"), ("next-start",)):
        shown = kdump(*command, top / "a", top / "b", searching=False)
        (pending,) = [each for each in shown.of("finding") if each["code"] == "repair-pending"]
        assert f"of {NAME}, begun and not finished" in str(pending), shown
    text = " ".join(run(["next-start", str(top / "a"), str(top / "b")]).out.split())
    assert f"of {NAME}, begun and not finished" in text
    for name in ("codec-lz4-0", NAME):
        other = ["reindex", "--all", "--apply", str(top / "b" / "codec-lz4-0")]
        if name == NAME:
            other = ["move", "--to", str(top / "a"), str(top / "b" / "codec-lz4-0"), "--apply"]
        ran = run(other)
        assert ran.code == exits.REFUSED, ran
        assert f"of {NAME}, which holds checkpoint lines" in ran.err
    (listed,) = kdump("undo", top / "b", searching=False).of("backup")
    assert (listed["command"], listed["state"]) == ("move", "pending")
    assert f"move {NAME}: " in run(["undo", str(top / "b")]).out
    assert run(["undo", str(top / "b"), "--apply"]).code == exits.OK
    assert not [*(top / "b").glob("*kdump*")]
    assert contents(top / "a" / NAME)
    put(top, interrupted)
    assert run(pending["remedy"][1:]).code == exits.OK
    assert start(top).directories == ("b",)


@pytest.mark.parametrize("way", ["resume", "undo"])
def test_a_start_that_failed_amid_it(way: str, top: Path, copied: None) -> None:
    """A broker loads both logs before it ends: indexes have their full size, lines are gone."""
    moved(top, "--apply", around=before_set_aside)
    for directory in ("a", "b"):
        with (top / directory / NAME / f"{466:020}.index").open("ab") as index:
            index.write(bytes(800))
        (top / directory / MARKER).unlink(missing_ok=True)
        (top / directory / POINT).write_text("0\n0\n")
    (top / "b" / MARKER).touch()
    if way == "resume":
        assert moved(top, "--apply").code == exits.OK
        assert start(top).directories == ("b",)
        assert lines(top / "b" / POINT) == {NAME: 486}
        assert not start(top).believed  # the zeros would be taken for entries
    else:
        assert run(["undo", str(top / "b" / NAME), "--apply"]).code == exits.OK
        assert start(top).directories == ("a",)
        assert lines(top / "a" / POINT) == {NAME: 486}


@pytest.mark.parametrize("directory", ["a", "b"])
def test_a_broker_that_wrote_to_one_of_both(directory: str, top: Path, copied: None) -> None:
    """Neither is given up: a person decides."""
    moved(top, "--apply", around=before_set_aside)
    with (top / directory / NAME / f"{466:020}.log").open("ab") as log:
        log.write(b"records")
    before = left(top)
    for argv in (
        ["move", "--to", str(top / "b"), str(top / "a" / NAME)],
        ["undo", str(top / "b" / NAME)],
    ):
        ran = run([*argv, "--apply"])
        assert ran.code == exits.REFUSED, ran
        assert "differ" in ran.err
    assert left(top) == before


def test_a_broker_that_ran_before_the_copy_had_its_name(top: Path, copied: None) -> None:
    original = take(top)
    ran = moved(top, "--apply", around=before_it_arrives)
    assert ran.code == exits.INTERRUPTED
    assert start(top).directories == ("a",)
    with (top / "a" / NAME / f"{466:020}.log").open("ab") as log:
        log.write(b"records")
    written = contents(top / "a" / NAME)
    ran = moved(top, "--apply")
    assert ran.code == exits.REFUSED
    found = re.search(r"undo it with (kdump undo .*), and plan again", ran.err)
    assert found is not None, ran
    assert run(shlex.split(found[1])[1:]).code == exits.OK
    assert {name for name in take(top) if name not in LOCKS} == {*original}
    assert moved(top, "--apply").code == exits.OK
    assert contents(top / "b" / NAME) == written


def test_an_undo_after_a_start_is_refused(top: Path, copied: None) -> None:
    moved(top, "--apply")
    (top / "b" / NAME / "leader-epoch-checkpoint").write_text("0\n1\n9 486\n")
    before = left(top)
    ran = run(["undo", str(top / "b" / NAME), "--apply"])
    assert ran.code == exits.REFUSED
    assert "a broker has run here" in ran.err
    assert left(top) == before
    listed = kdump("undo", top / "b" / NAME, searching=False)
    (record,) = listed.of("backup")
    (shown,) = kdump("undo", top / "b" / NAME, "--plan", record["id"], searching=False).of("backup")
    assert "a broker has run here" in shown["undo_refused"]
    argv = ["undo", str(top / "b" / NAME), "--plan", record["id"]]
    assert "refused" in run(argv).out
    # The way back is another move, once the old directory is gone.
    assert run([*argv, "--discard"]).code == exits.OK
    assert not [*(top / "a").glob("*kdump*")]
    assert run(["move", "--to", str(top / "a"), str(top / "b" / NAME), "--apply"]).code == exits.OK
    assert (top / "a" / NAME / "leader-epoch-checkpoint").read_text() == "0\n1\n9 486\n"


def test_back_and_forth_is_one_undo_after_the_other(top: Path) -> None:
    before = contents(top / "a" / NAME)
    assert moved(top, "--apply").code == exits.OK
    assert run(["move", "--to", str(top / "a"), str(top / "b" / NAME), "--apply"]).code == exits.OK
    assert run(["undo", str(top / "a" / NAME), "--apply"]).code == exits.OK
    assert start(top).directories == ("b",)
    assert run(["undo", str(top / "b" / NAME), "--apply"]).code == exits.OK
    assert start(top).directories == ("a",)
    assert contents(top / "a" / NAME) == before


def test_a_backup_survives_the_way_back(top: Path, copied: None) -> None:
    assert moved(top, "--apply").code == exits.OK
    (kept,) = (top / "a").glob("*-stray")
    before = contents(kept)
    assert run(["move", "--to", str(top / "a"), str(top / "b" / NAME), "--apply"]).code == exits.OK
    assert contents(kept) == before


def test_an_interrupted_move_is_not_finished_after_another(top: Path, copied: None) -> None:
    """The copy is older than what the other log directory has now."""
    shutil.copytree(top / "b", top / "c")
    ran = moved(top, "--apply", around=before_it_arrives)
    assert ran.code == exits.INTERRUPTED
    other = ["move", "--to", str(top / "c"), str(top / "a" / NAME), "--apply"]
    assert run(other).code == exits.OK
    again = run(shlex.split(ran.last_line)[1:])
    assert again.code == exits.REFUSED
    found = re.search(r"undo it with (kdump undo .*), and plan again", again.err)
    assert found is not None, again
    assert not (top / "b" / NAME).exists()
    assert run(shlex.split(found[1])[1:]).code == exits.OK
    assert not [*(top / "b").glob("*kdump*")]
    assert (top / "c" / NAME).exists()


def test_an_interrupted_move_does_not_go_elsewhere(top: Path) -> None:
    """It is finished with its own command alone."""

    def at_the_rename(call: Call, make: Any) -> Any:
        if call.method == "rename" and call.paths[1] == str(top / "b" / NAME):
            raise KeyboardInterrupt
        return make(*call.arguments)

    shutil.copytree(top / "b", top / "c")
    assert moved(top, "--apply", around=at_the_rename).code == exits.INTERRUPTED
    before = left(top)
    ran = run(["move", "--to", str(top / "c"), str(top / "a" / NAME), "--apply"])
    assert ran.code == exits.REFUSED, ran
    found = re.search(r"finish it with (kdump move .*), or undo it with kdump undo", ran.err)
    assert found is not None, ran
    assert left(top) == before
    assert run(shlex.split(found[1])[1:]).code == exits.OK
    assert start(top).directories == ("b",)


@pytest.mark.parametrize("interrupted", [False, True])
def test_an_undo_does_not_vouch_for_a_log_that_came_since(
    interrupted: bool, tmp_path: Path
) -> None:
    """A repair has put the marker back. The move of a log that needs recovery took it for good."""
    write(tmp_path, clean=(False, True))
    shutil.copytree(tmp_path / "a" / "codec-lz4-0", tmp_path / "b" / "codec-lz4-0")
    shutil.rmtree(tmp_path / "a" / "codec-lz4-0")
    repaired = tmp_path / "b" / "codec-lz4-0"
    with max(repaired.glob("*.log")).open("ab") as log:
        log.write(b"x")
    ran = run(["truncate-to-valid", str(repaired), "--apply"])
    assert ran.code == exits.OK, ran
    assert (tmp_path / "b" / MARKER).exists()
    assert moved(tmp_path, "--apply").code == exits.OK
    assert not (tmp_path / "b" / MARKER).exists()

    def at_the_log(call: Call, make: Any) -> Any:
        if interrupted and call.method == "pwrite":
            raise KeyboardInterrupt
        return make(*call.arguments)

    ran = run(["undo", str(repaired), "--apply"], at_the_log)
    assert ran.code == (exits.INTERRUPTED if interrupted else exits.OK), ran
    if interrupted:
        assert run(shlex.split(ran.last_line)[1:]).code == exits.OK
    assert not (tmp_path / "b" / MARKER).exists()


# --- what is refused


def no_meta(top: Path) -> None:
    (top / "b" / "meta.properties").unlink()


def another_node(top: Path) -> None:
    meta = (top / "b" / "meta.properties").read_text()
    (top / "b" / "meta.properties").write_text(meta.replace("node.id=1", "node.id=2"))


def another_cluster(top: Path) -> None:
    meta = (top / "b" / "meta.properties").read_text()
    (top / "b" / "meta.properties").write_text(re.sub("cluster.id=.*", "cluster.id=x", meta))


def there_already(top: Path) -> None:
    (top / "b" / NAME).mkdir()


def a_future_there(top: Path) -> None:
    (top / "b" / f"{NAME}.{32 * '0'}-future").mkdir()


def a_link_inside(top: Path) -> None:
    (top / "a" / NAME / "x.txt").symlink_to("/etc/passwd")


def a_link(top: Path) -> None:
    (top / "a" / NAME).rename(top / "elsewhere")
    (top / "a" / NAME).symlink_to(top / "elsewhere")


def an_interrupted_repair(top: Path) -> None:
    folder = top / "a" / NAME / ".kdump" / "0000aaaa"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text('{"command": "reindex"}')
    (folder / "begun.json").write_text('{"begun_ns": 1}')


def a_bad_checkpoint(top: Path) -> None:
    (top / "b" / POINT).write_text("x\n")


def cordoned(top: Path) -> None:
    (top / "server.properties").write_text(f"node.id=1\ncordoned.log.dirs=/x,{top}/b\n")


def all_cordoned(top: Path) -> None:
    (top / "server.properties").write_text("node.id=1\ncordoned.log.dirs=*\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (no_meta, "expected a meta.properties"),
        (another_node, "node 2 of cluster"),
        (another_cluster, "cluster x"),
        (there_already, "expected nothing of this name"),
        (a_future_there, "expected no move by a broker"),
        (a_link_inside, "found a symbolic link"),
        (a_link, "found a symbolic link"),
        (an_interrupted_repair, "expected no interrupted repair"),
        (a_bad_checkpoint, "expected an offset checkpoint"),
        (cordoned, "cordoned.log.dirs="),
        (all_cordoned, "cordoned.log.dirs=*"),
    ],
)
def test_it_refuses(change: Callable[[Path], None], reason: str, top: Path) -> None:
    (top / "server.properties").write_text("node.id=1\n")
    change(top)
    before = left(top)
    ran = moved(top, "--config", str(top / "server.properties"), "--apply")
    assert ran.code == exits.REFUSED, ran
    (line,) = ran.err.splitlines()
    assert reason in line
    assert left(top) == before


@pytest.mark.parametrize(
    ("name", "to", "code", "reason"),
    [
        ("__cluster_metadata-0", "b", exits.REFUSED, "the metadata log of the cluster"),
        (NAME, "a", exits.REFUSED, "expected another log directory"),
        (NAME, "a/codec-lz4-0", exits.REFUSED, "expected a log directory"),
        (NAME, "nothing", exits.INCOMPLETE, "No such file"),
        ("nothing-0", "b", exits.INCOMPLETE, "No such file"),
        (".", "b", exits.USAGE, "expected the directory of a partition, found a log directory"),
        (POINT, "b", exits.USAGE, "expected the directory of a partition, found a file"),
    ],
)
def test_what_cannot_be_moved_is_one_line(
    name: str, to: str, code: int, reason: str, top: Path
) -> None:
    before = left(top)
    ran = run(["move", "--to", str(top / to), str(top / "a" / name), "--apply"])
    assert ran.code == code, ran
    (line,) = ran.err.splitlines()
    assert reason in line
    assert left(top) == before


def test_a_renamed_directory_is_refused(top: Path) -> None:
    name = f"{NAME}.{32 * '0'}-stray"
    (top / "a" / NAME).rename(top / "a" / name)
    ran = moved(top, "--apply", name=name)
    assert ran.code == exits.REFUSED
    assert "expected a partition that a broker serves" in ran.err


@pytest.mark.parametrize("size", ["1m", "4m"])
def test_no_room_is_refused(size: str, top: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        shutil.copytree(top / "b", disk / "b")
        with (top / "a" / NAME / f"{466:020}.log").open("r+b") as log:
            log.truncate(4 << 20)
        ran = run(["move", "--to", str(disk / "b"), str(top / "a" / NAME), "--apply"])
        assert ran.code == exits.REFUSED, ran
        assert "free bytes, found" in ran.err
        assert [path.name for path in (disk / "b").iterdir() if path.is_dir()] == []


def test_no_inodes_are_refused(top: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m,nr_inodes=16") as disk:
        shutil.copytree(top / "b", disk / "b")
        ran = run(["move", "--to", str(disk / "b"), str(top / "a" / NAME), "--apply"])
        assert ran.code == exits.REFUSED, ran
        assert "free inodes" in ran.err


def test_copies_of_earlier_attempts_count_as_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        write(tmp_path)
        shutil.copytree(tmp_path / "b", disk / "b")
        with (tmp_path / "a" / NAME / f"{466:020}.log").open("r+b") as log:
            log.truncate(2 << 20)
        old = disk / "b" / f"__cluster_metadata-0.kdump-0000aaaa-{NAME}-stray"
        old.mkdir()
        (old / "x").write_bytes(bytes(3 << 20))
        (old / ".kdump" / "0000aaaa").mkdir(parents=True)
        (old / ".kdump" / "0000aaaa" / "plan.json").write_text('{"command": "move"}')
        ran = run(["move", "--to", str(disk / "b"), str(tmp_path / "a" / NAME), "--apply"])
        assert ran.code == exits.OK, ran
        assert not old.exists()


def test_a_file_that_changes_after_the_plan(top: Path, copied: None) -> None:
    """It was read before the lock was held."""

    def around(call: Call, make: Any) -> Any:
        if call.method == "open" and call.paths[0].endswith(".lock"):
            path = top / "a" / NAME / "partition.metadata"
            os.utime(path, ns=(1, 1))
        return make(*call.arguments)

    ran = moved(top, "--apply", around=around)
    assert ran.code == exits.REFUSED
    assert "partition.metadata" in ran.err
    assert start(top).directories == ("a",)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """A process holds the lock of a log directory, as a broker does."""
    code = (
        "import fcntl, sys, time\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", code, str(directory / ".lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def reassigned(partition: Path, target: Path) -> dict[str, Any]:
    """What a running broker takes."""
    ran = kdump("move", "--to", target, partition, searching=False)
    assert ran.code == exits.PROBLEMS, ran
    (found,) = ran.of("reassignment")
    (only,) = found["json"]["partitions"]
    assert isinstance(only, dict)
    return only


def test_beside_a_broker_the_plan_is_for_its_tool(top: Path) -> None:
    with locked(top / "a"):
        before = left(top)
        assert reassigned(top / "a" / "codec-lz4-0", top / "b") == {
            "topic": "codec-lz4",
            "partition": 0,
            "replicas": [1],
            "log_dirs": [str(top / "b")],
        }
        shown = moved(top, name="codec-lz4-0")
        assert "kafka-reassign-partitions.sh" in shown.out
        refused = moved(top, "--apply", name="codec-lz4-0")
        assert refused.code == exits.REFUSED
        assert "found a running broker" in refused.err
        assert left(top) == before
        shutil.rmtree(top / "a" / "__cluster_metadata-0")
        unknown = moved(top, name="codec-lz4-0")
        assert unknown.code == exits.REFUSED
        assert "expected its replicas in a metadata log" in unknown.err


def test_the_other_replicas_stay_where_they_are(tmp_path: Path) -> None:
    """Of three replicas, the log directory of one changes."""
    data, target = copy_fixture("4.3.1/replicas", tmp_path / "data") / "1", tmp_path / "b"
    target.mkdir()
    meta = (data / "meta.properties").read_text()
    meta = re.sub(r"directory\.id=\S+", "directory.id=q2Y3hBDoQ1mDkd8pO5sTgA", meta)
    (target / "meta.properties").write_text(meta)
    with locked(target):
        found = reassigned(data / "behind-0", target)
    places = dict(zip(found["replicas"], found["log_dirs"], strict=True))
    assert places == {1: str(target), 2: "any", 3: "any"}
