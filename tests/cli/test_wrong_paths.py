"""Paths with nothing to check: one line on standard error, exit 5, in every command."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from kdump.audit.targets.target import TopicSelection
from kdump.cli.main import cli, main
from kdump.errors import ForeignDirectoryError, ForeignFileError, VanishedError
from kdump.storage import logdir
from kdump.storage.logdir import DirectoryEntry, LogDirectory, Partition, open_path
from kdump.ui import exits
from support.directory_state import state
from support.forge import batch, flip, record, write_partition
from support.long_samples import first_of
from support.reading_commands import READING

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsearched")]

META = "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
LOG = f"{0:020}.log"


def log_directory(path: Path, *, damaged: bool = False) -> Path:
    """One with the partition orders-0."""
    first = batch(0, [record(b"v" * 100)])
    write_partition(path, "orders", 0, {0: [flip(first, 100) if damaged else first]})
    (path / "meta.properties").write_text(META)
    return path


def fill(directory: Path, *names: str) -> Path:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x\n")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def nosuch(top: Path) -> Path:
    return top / "nosuch"


def beside_a_similar_name(top: Path) -> Path:
    log_directory(top / "kafka-logs")
    return top / "kafka-log"


def below_nosuch(top: Path) -> Path:
    return top / "no" / "such"


def no_such_segment(top: Path) -> Path:
    return log_directory(top / "logs") / "orders-0" / f"{99:020}.log"


def no_such_partition(top: Path) -> Path:
    return log_directory(top / "logs") / "ordres-0"


def a_link_to_nowhere(top: Path) -> Path:
    (top / "link").symlink_to("nowhere")
    return top / "link"


def empty(top: Path) -> Path:
    return fill(top / "empty")


def empty_named_like_a_partition(top: Path) -> Path:
    return fill(top / "disk-1")


def an_empty_mount(top: Path) -> Path:
    (top / "disk-1" / "lost+found").mkdir(parents=True)
    return top / "disk-1"


def a_mount_of_strimzi(top: Path) -> Path:
    log_directory(top / "data-0" / "kafka-log0", damaged=True)
    return top / "data-0"


def above_a_mount_of_strimzi(top: Path) -> Path:
    log_directory(top / "kafka" / "data-0" / "kafka-log0", damaged=True)
    return top / "kafka"


def above_several_mounts(top: Path) -> Path:
    for number in range(3):
        log_directory(top / "kafka" / f"data-{number}" / "logs")
        (top / "kafka" / f"data-{number}" / "lost+found").mkdir()
    return top / "kafka"


def above_log_directories(top: Path) -> Path:
    for number in range(5):
        log_directory(top / "mnt" / f"d{number}")
    return top / "mnt"


def above_a_freshly_formatted_one(top: Path) -> Path:
    fill(top / "data-0" / "kafka-log0")
    (top / "data-0" / "kafka-log0" / "meta.properties").write_text(META)
    return top / "data-0"


def partitions_beside_a_log_directory(top: Path) -> Path:
    shutil.move(log_directory(top / "incident") / "orders-0", top / "incident" / "orders-7")
    (top / "incident" / "meta.properties").unlink()
    log_directory(top / "incident" / "backup")
    return top / "incident"


def foreign_named_like_a_partition(top: Path) -> Path:
    return fill(top / "orders-7", "cat.png", "dog/dog.png")


def like_etc(top: Path) -> Path:
    directory = fill(top / "etc", *(f"d{n}/x" for n in range(60)), "passwd", "hosts", "dpkg.log")
    return fill(directory, "python-3/x", "rc-0/y", "lib-1/z.log")


def mostly_foreign(top: Path) -> Path:
    directory = fill(top / "home", *(f"d{n}/x" for n in range(4)))
    return fill(directory, f"orders-0/{LOG}", f"broker1/orders-1/{LOG}")


def a_repairs_folder(top: Path) -> Path:
    folder = log_directory(top / "logs") / "orders-0" / ".kdump"
    (folder / "0123456789ab").mkdir(parents=True)
    return folder


def below_a_partition(top: Path) -> Path:
    return fill(log_directory(top / "logs") / "orders-0" / "notes", "notes.txt")


def below_a_log_directory(top: Path) -> Path:
    return fill(log_directory(top / "logs") / "lost+found")


def a_file_of_no_broker(top: Path) -> Path:
    return fill(top, "notes.txt") / "notes.txt"


def below_a_file(top: Path) -> Path:
    return fill(top, "notes.txt") / "notes.txt" / "orders-0"


#: What is at a path, and what the error says of it, with {top} for the directory above.
KINDS: dict[Callable[[Path], Path], str] = {
    nosuch: "nosuch: cannot be read: No such file or directory: {top} has no nosuch",
    beside_a_similar_name: "did you mean {top}/kafka-logs?",
    below_nosuch: "cannot be read: No such file or directory: {top} has no no",
    no_such_segment: f"{{top}}/logs/orders-0 has no {99:020}.log",
    no_such_partition: "did you mean {top}/logs/orders-0?",
    a_link_to_nowhere: "No such file or directory: it is a link",
    empty: "found an empty directory: is the disk mounted?",
    empty_named_like_a_partition: "found an empty directory: is the disk mounted?",
    an_empty_mount: "found an empty file system: is the disk mounted?",
    a_mount_of_strimzi: "holds a log directory ({top}/data-0/kafka-log0): name it instead",
    above_a_mount_of_strimzi: "holds a log directory ({top}/kafka/data-0/kafka-log0): name it",
    above_several_mounts: "holds log directories ({top}/kafka/data-0/logs, "
    "{top}/kafka/data-1/logs, {top}/kafka/data-2/logs): name these instead",
    above_log_directories: "({top}/mnt/d0, {top}/mnt/d1, {top}/mnt/d2, ...): name these instead",
    above_a_freshly_formatted_one: "holds a log directory ({top}/data-0/kafka-log0): name it",
    partitions_beside_a_log_directory: "holds a log directory ({top}/incident/backup): name it",
    foreign_named_like_a_partition: "a directory with 2 entries and none of a broker's files in it",
    like_etc: "a directory with 66 entries and none of a broker's files in it",
    mostly_foreign: "but below partition directories ({top}/home/orders-0, "
    "{top}/home/broker1/orders-1): name these instead",
    a_repairs_folder: "it lies in {top}/logs/orders-0, name that instead",
    below_a_partition: "it lies in {top}/logs/orders-0, name that instead",
    below_a_log_directory: "it lies in {top}/logs, name that instead",
    a_file_of_no_broker: "found a file that no broker writes",
    below_a_file: "notes.txt/orders-0: cannot be read: Not a directory",
}
#: Commands that also write, with what they need; {out} is a directory for it.
WRITING = {
    "scrub": ["scrub", "--state", "{out}/state"],
    "scrub-json": ["scrub", "--state", "{out}/state", "--quiet", "--format", "json"],
    "manifest": ["manifest", "--to", "{out}/manifest"],
    "export": ["export", "--format", "jsonl", "--to", "{out}/export"],
    "salvage": ["salvage", "--output", "{out}/salvaged"],
    "convert-output": ["convert-v0-v2", "--output", "{out}/converted"],
    "heal": ["heal", "--from", "{out}/../good"],
    "move": ["move", "--to", "{out}/../good"],
}
COMMANDS = {**READING, "verify-scan": ["next-start", "--scan"], **WRITING}
#: Reports in JSON have a line of the path, and end with exit 5.
WITH_JSON_LINES = {"verify-json", "next-start-scan"}
#: What reports of repairs, and of dumps, say without a word of a path.
WITH_ENDS = {"reindex-all-json", "truncate", "convert-json", "dump-json"}
KIND_IDS = [kind.__name__ for kind in KINDS]


def test_every_command_that_takes_a_log_is_here() -> None:
    commands = set(cli.list_commands(click.Context(cli)))
    assert {words[0] for words in COMMANDS.values()} == commands - {"check", "explain", "help"}


@pytest.mark.parametrize("kind", KINDS, ids=KIND_IDS)
@pytest.mark.slow
def test_a_wrong_path_is_one_line_and_exit_5(
    kind: Callable[[Path], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    log_directory(tmp_path / "good")
    path = kind(top)
    before = state(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    for name, words in COMMANDS.items():
        ran = f"{name}: {path}"
        code = main([*(word.format(out=out) for word in words), str(path)])
        printed = capfd.readouterr()
        assert code == exits.INCOMPLETE, ran
        (line,) = printed.err.splitlines()
        assert line.startswith(f"kdump: {path}: "), ran
        assert KINDS[kind].format(top=top) in line, ran
        if name in WITH_JSON_LINES | WITH_ENDS:
            found = [json.loads(text) for text in printed.out.splitlines()]
            assert (found[0]["type"], found[-1]["type"]) == ("header", "summary"), ran
            assert found[-1]["exit"] == exits.INCOMPLETE, ran
            between = [(each["code"], each["severity"]) for each in found[1:-1]]
            told = [] if name in WITH_ENDS else [between[0]]
            assert between == told, ran
            assert not told or told[0] in (
                ("vanished", "incomplete"),
                ("unreadable", "incomplete"),
            ), ran
        else:
            assert printed.out == "", ran
        assert os.listdir(out) == [], ran
    out.rmdir()
    assert {name: was for name, was in state(tmp_path).items() if name != "."} == {
        name: was for name, was in before.items() if name != "."
    }


@pytest.mark.parametrize("kind", first_of(KINDS, 8), ids=KIND_IDS)
@pytest.mark.slow
def test_the_others_are_reported_beside_a_wrong_path(
    kind: Callable[[Path], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    top, good = tmp_path / "top", log_directory(tmp_path / "good")
    top.mkdir()
    path = kind(top)
    for words in (["verify"], ["next-start"], ["dump"], ["reindex"], WRITING["scrub"]):
        argv = [word.format(out=tmp_path) for word in words]
        assert main([*argv, str(path), str(good)]) == exits.INCOMPLETE, words
        printed = capfd.readouterr()
        (line,) = printed.err.splitlines()
        assert line.startswith(f"kdump: {path}: "), words
        text = " ".join(printed.out.split())
        assert ("orders-0: nothing to do" if words == ["reindex"] else str(good)) in text, words
        assert not text.startswith(("sound", "OK")), words


def test_a_wrong_copy_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = log_directory(tmp_path / "good")
    write_partition(good, "orders", 1, {0: [batch(0, [record(b"v")])]})
    path = a_mount_of_strimzi(tmp_path)
    assert main(["heal", str(good), "--from", str(path)]) == exits.INCOMPLETE
    printed = capfd.readouterr()
    (line,) = printed.err.splitlines()
    assert f"({path}/kafka-log0): name it instead" in line
    assert printed.out == ""


def test_all_wrong_paths_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = log_directory(tmp_path / "good")
    paths = [empty(tmp_path), nosuch(tmp_path), good]
    for command in ("compare", "groups", "transactions", "verify"):
        assert main([command, *map(str, paths)]) == exits.INCOMPLETE
        lines = capfd.readouterr().err.splitlines()
        assert [line.split(": ")[1] for line in lines] == list(map(str, paths[:2])), command


# --- directories in which there is nothing, and that are legal


@pytest.mark.parametrize("command", ["verify", "verify-quick", "next-start", "next-start-scan"])
def test_a_freshly_formatted_directory_has_no_partition(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text(META)
    words = [word for word in READING[command] if word not in ("--format", "json")]
    assert main([*words, str(tmp_path)]) == exits.OK
    printed = capfd.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("NOT CHECKED   no partition: ")


def test_a_partition_without_a_file_is_empty_and_not_sound(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A broker makes the directory first, and then its files."""
    path = fill(log_directory(tmp_path / "logs") / "new-0")
    for words in (["verify"], ["next-start"], WRITING["scrub"]):
        argv = [word.format(out=tmp_path) for word in words]
        assert main([*argv, str(path)]) == exits.OK
        printed = capfd.readouterr()
        assert printed.out.startswith("NOT CHECKED   1 partition: "), words
        assert printed.err == ""
    assert main(["verify", "--format", "json", str(path)]) == exits.OK
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["state"] == "not-checked"
    assert main(["verify", str(path.parent)]) == exits.OK
    assert capfd.readouterr().out.startswith("OK")


def test_damage_in_an_empty_directory_comes_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, "meta.properties", "lost+found/x")
    assert main(["verify", str(tmp_path)]) == exits.PROBLEMS
    assert capfd.readouterr().out.startswith("DO NOT START  ")


def test_repairs_of_a_directory_without_a_partition_say_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text(META)
    for command in ("reindex", "truncate-to-valid", "convert-v0-v2"):
        assert main([command, str(tmp_path)]) == exits.OK
        assert capfd.readouterr().out == "no partition here: nothing to do\n"


def test_patterns_that_leave_nothing_are_wrong_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good = log_directory(tmp_path / "good")
    for command in ("verify", "next-start", "reindex", "compare", "truncate-to-valid"):
        assert main([command, str(good), "--exclude", "o*", "--exclude", "x"]) == exits.USAGE
        printed = capfd.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        assert line.startswith("kdump: --exclude o* --exclude x: expected patterns that leave some")
    # A path that is a partition is not left out, and an empty directory has none to leave out.
    assert main(["verify", str(good / "orders-0"), "--exclude", "o*"]) == exits.OK
    shutil.rmtree(good / "orders-0")
    assert main(["verify", str(good), "--exclude", "*"]) == exits.OK


# --- what a scrub remembers


def test_a_scrub_remembers_no_mistyped_path_but_a_mount_that_is_gone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = log_directory(tmp_path / "disk-1")
    scrub = ["scrub", "--state", str(tmp_path / "state"), "--prometheus", str(tmp_path / "metrics")]
    assert main([*scrub, str(data)]) == exits.OK
    metrics = (tmp_path / "metrics").read_text()
    assert main([*scrub, str(tmp_path / "nosuch")]) == exits.INCOMPLETE
    assert (tmp_path / "metrics").read_text() == metrics
    data.rename(tmp_path / "elsewhere")
    capfd.readouterr()
    assert main([*scrub, str(an_empty_mount(tmp_path))]) == exits.INCOMPLETE
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "is the disk mounted?" in printed.err
    after = (tmp_path / "metrics").read_text()
    assert after != metrics
    assert main(["scrub", "--state", str(tmp_path / "state"), "--status", "--format", "json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(line["path"], line["exit"]) for line in lines[1:-1]] == [(str(data), 5)]


# --- the search


def test_links_are_not_followed_out_of_a_directory(tmp_path: Path) -> None:
    log_directory(tmp_path / "elsewhere" / "data")
    (tmp_path / "top" / "inner").mkdir(parents=True)
    (tmp_path / "top" / "link").symlink_to(tmp_path / "elsewhere" / "data")
    (tmp_path / "top" / "up").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "inner" / "deep").symlink_to(tmp_path / "elsewhere" / "data")
    with pytest.raises(ForeignDirectoryError, match="none of a broker's files"):
        open_path(tmp_path / "top")


def test_the_search_ends_two_levels_below(tmp_path: Path) -> None:
    log_directory(tmp_path / "top" / "a" / "b" / "c")
    with pytest.raises(ForeignDirectoryError, match="none of a broker's files"):
        open_path(tmp_path / "top")
    with pytest.raises(ForeignDirectoryError, match="b/c"):
        open_path(tmp_path / "top" / "a")


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    peek = logdir._peek

    def counting(path: Path) -> list[DirectoryEntry] | None:
        looked.append(path)
        return peek(path)

    monkeypatch.setattr(logdir, "_peek", counting)
    fill(tmp_path / "top", *(f"{a}/{b}/x" for a in range(30) for b in range(30)))
    with pytest.raises(ForeignDirectoryError):
        open_path(tmp_path / "top")
    assert len(looked) == logdir._SEARCHED + len(tmp_path.parents[:2]) + 1


def test_partitions_that_are_links_make_a_log_directory(tmp_path: Path) -> None:
    """A broker reaches them through links too."""
    good = log_directory(tmp_path / "good")
    (tmp_path / "incident").mkdir()
    (tmp_path / "incident" / "orders-5").symlink_to(good / "orders-0")
    opened = open_path(tmp_path / "incident")
    assert isinstance(opened, LogDirectory)
    assert [path.name for path in opened.partition_paths] == ["orders-5"]


@pytest.mark.parametrize(
    "name",
    [
        LOG,
        f"{7:020}.index",
        f"{7:020}.log.deleted",
        "7.log",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "quorum-state",
        f"{5:020}-{1:010}.checkpoint",
        ".kdump/0123456789ab/plan.json",
    ],
)
def test_a_file_of_a_partition_makes_a_partition(tmp_path: Path, name: str) -> None:
    opened = open_path(fill(tmp_path / "evidence", name))
    assert isinstance(opened, Partition)


@pytest.mark.parametrize("name", ["dpkg.log", "core.snapshot", "x.checkpoint", "a.index", ".kdump"])
def test_other_files_make_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(ForeignDirectoryError):
        open_path(fill(tmp_path / "orders-0", name))


def test_the_error_has_its_kind(tmp_path: Path) -> None:
    with pytest.raises(ForeignFileError):
        open_path(a_file_of_no_broker(tmp_path))
    with pytest.raises(VanishedError):
        open_path(tmp_path / "nosuch")


def test_a_selection_has_partitions_alone(tmp_path: Path) -> None:
    opened = open_path(log_directory(tmp_path))
    assert isinstance(opened, LogDirectory)
    assert not any(map(TopicSelection(excluded=("*",)).selects, opened.partition_paths))
