"""Repairs of log directories that were interrupted early, in several directories, or refused."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands.heal.forged_copies import broken
from commands.repair import damaged_directory as damaged
from commands.repair.damaged_directory import FIRST
from commands.repair.repairing import directory, lines, plan_id, repair, tree
from kdump.ui import exits
from support.crashing.recorded import record
from support.crashing.running import run
from support.crashing.seam import Call, failing
from support.crashing.trees import put
from support.damaged import name
from support.long_samples import first_of

pytestmark = pytest.mark.once

GOOD = damaged.whole()
NOBODY = 65534
NO_INDEX = (GOOD, {name(FIRST, ".index"): None})


def warnings(*data: Path) -> set[str]:
    """The codes of errors and warnings of ``verify``."""
    ran = run(["verify", *map(str, data), "--format", "json"])
    return {each["code"] for each in lines(ran, "finding") if each["severity"] != "info"}


@pytest.fixture
def two(place: Path) -> list[Path]:
    """The log directories of a node, each with a partition that has lost an index."""
    return [directory(place / each, {each: NO_INDEX}) for each in ("one", "two")]


def signalled(place: Path, number: signal.Signals) -> Callable[[Call, Callable[..., Any]], Any]:
    """The process gets a signal once the journal in a log directory stands."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        made = make(*call.arguments)
        if call.method == "rename" and str(call.paths[-1]).startswith(f"{place}/.kdump."):
            os.kill(os.getpid(), number)
        return made

    return around


@pytest.mark.parametrize(
    "number", first_of([signal.SIGKILL, signal.SIGTERM, signal.SIGINT], every=1)
)
def test_journals_in_some_log_directories_alone(two: list[Path], number: signal.Signals) -> None:
    """Nothing was changed: the second directory is not forgotten, and neither is the consent."""
    ended = repair(*two, "--apply", around=signalled(two[0], number))
    assert ended.code in (-number, 128 + number)
    assert repair(*two).code == exits.PROBLEMS
    assert repair(*two, "--apply").code == exits.OK
    assert warnings(*two) == set()
    assert repair(*two).code == exits.OK


def test_journals_of_a_repair_that_changed_nothing_go(two: list[Path]) -> None:
    repair(*two, "--apply", around=signalled(two[0], signal.SIGKILL))
    assert "directory-repair-pending" in warnings(*two)
    assert repair(two[0], "--apply").code == exits.OK  # another plan, of one directory
    assert repair(two[1], "--apply").code == exits.OK
    assert warnings(*two) == set()
    assert [len(list(each.glob(".kdump.*"))) for each in two] == [1, 1]


@pytest.mark.parametrize("number", range(10))
def test_a_journal_that_cannot_be_written_is_a_refusal(two: list[Path], number: int) -> None:
    before = [tree(each) for each in two]
    ran = repair(*two, "--apply", around=failing(number.__eq__, errno.ENOSPC))
    assert ran.code == exits.REFUSED, ran
    assert ("nothing was changed" in ran.err) is (number >= len(two))
    assert ("cannot be locked" in ran.err) is (number < len(two))
    assert [tree(each) for each in two] == before


def test_a_directory_in_the_place_of_the_journal_is_a_refusal(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    (data / f".kdump.{agreed}").mkdir()
    before = tree(data)
    ran = repair(data, "--apply", "--confirm", agreed)
    assert (ran.code, ran.err.count("\n")) == (exits.REFUSED, 1), ran
    assert tree(data) == before


def test_what_another_process_adds_to_the_journal_stays(place: Path) -> None:
    data, _ = damaged.write(place)
    agreed = plan_id(data)
    journal = data / f".kdump.{agreed}"

    def around(call: Call, make: Callable[..., Any]) -> Any:
        made = make(*call.arguments)
        if call.method == "rename" and "/both-0/" in call.paths[-1]:
            fields = json.loads(journal.read_text())
            fields["cures"][-1]["applied"] = ["12345678"]
            journal.write_text(json.dumps(fields))
        return made

    assert repair(data, "--apply", "--confirm", agreed, around=around).code == exits.INCOMPLETE
    assert "12345678" in json.loads(journal.read_text())["cures"][-1]["applied"]


def test_a_partition_that_cannot_be_listed_is_left(place: Path) -> None:
    data, _ = damaged.write(place)
    place.chmod(0o755)
    for path in (data, *data.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    (data / "index-0").chmod(0)
    command = ["repair", str(data), "--format", "json"]
    ran = run(command, prepare=lambda: os.setuid(NOBODY))
    (summary,) = lines(ran, "summary")
    assert (ran.code, summary["plans"]) == (exits.INCOMPLETE, 3), ran
    assert "index-0" in {Path(each["partition"]).name for each in lines(ran, "left")}
    alone = run(["repair", str(data / "index-0")], prepare=lambda: os.setuid(NOBODY))
    assert (alone.code, alone.err.count("\n")) == (exits.INCOMPLETE, 1), alone


def killed_amid(path: str) -> Callable[[Call, Callable[..., Any]], Any]:
    """The process is killed when it puts a file in place whose path has ``path`` in it."""

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "rename" and path in call.paths[-1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(*call.arguments)

    return around


@pytest.mark.parametrize("selection", [("--topic", "both"), ("both-0",)])
def test_a_repair_of_some_partitions_says_nothing_about_the_others(
    place: Path, selection: tuple[str, ...]
) -> None:
    data, _ = damaged.write(place)
    paths = ["--topic", "both", str(data)] if "--topic" in selection else [str(data / "both-0")]
    assert repair(*paths, "--apply", around=killed_amid("/both-0/0")).code < 0
    ran = repair(data, "--apply")
    assert ran.code == exits.INCOMPLETE, ran
    assert "about 1 partition, not 6" in " ".join(ran.out.split())
    assert repair(*paths).code == exits.OK


def test_a_log_directory_alone_does_not_hide_itself_from_the_whole_repair(two: list[Path]) -> None:
    """It was not begun there, and its records are not given up without consent."""
    log = two[1] / "two-0" / name(damaged.LAST, ".log")
    log.write_bytes(b"".join(broken(GOOD[damaged.LAST], len(GOOD[damaged.LAST]) - 1)))
    command = [*two, "--apply", "--confirm", plan_id(*two)]
    assert repair(*command, around=killed_amid("/one-0/0")).code < 0
    alone = repair(two[1], *command[2:])
    assert alone.code == exits.REFUSED, alone
    assert repair(*command).code == exits.OK
    assert repair(*two).code == exits.OK
    assert warnings(*two) == set()


@pytest.mark.parametrize(
    "words",
    first_of(
        [["--from"], ["--only", "all"], ["--from", ""], ["--only"], ["--jobs", "1"], ["--topic"]],
        count=2,
        every=1,
    ),
)
def test_a_journal_with_options_that_no_repair_has(place: Path, words: list[str]) -> None:
    data, _ = damaged.write(place)
    repair(data, "--apply", "--confirm", plan_id(data))
    (journal,) = data.glob(".kdump.*")
    fields = json.loads(journal.read_text())
    journal.write_text(json.dumps(fields | {"done": False, "arguments": words}))
    for apply in ([], ["--apply"]):
        ran = repair(data, *apply)
        assert (ran.code, ran.err.count("\n")) == (exits.REFUSED, 1), ran
        assert str(journal) in ran.err


def test_another_working_directory_finishes_it(place: Path) -> None:
    data, _ = damaged.write(place)
    (place / "elsewhere").mkdir()
    (place / "server.properties").write_text("log.dirs=data\n")
    command = ["repair", "--config", "server.properties", str(data), "--topic", "both"]
    killed = run([*command, "--apply"], killed_amid("/both-0/0"), prepare=lambda: os.chdir(place))
    assert killed.code < 0
    pending = run(["repair", str(data)])
    finish = shlex.split(pending.last_line)[1:]
    assert str(place / "server.properties") in finish
    ran = run(finish, prepare=lambda: os.chdir(place / "elsewhere"))
    assert ran.code == exits.OK, ran


@pytest.mark.parametrize("word", ["\0", "\ud800"])
def test_a_journal_with_words_that_no_command_gets(place: Path, word: str) -> None:
    data, _ = damaged.write(place)
    repair(data, "--apply", "--confirm", plan_id(data))
    (journal,) = data.glob(".kdump.*")
    fields = json.loads(journal.read_text())
    journal.write_text(json.dumps(fields | {"done": False, "arguments": ["--from", word]}))
    ran = repair(data, "--apply")
    assert (ran.code, ran.err.count("\n")) == (exits.INCOMPLETE, 1), ran


def test_another_selection_finishes_what_the_first_one_began(place: Path) -> None:
    """The plan of the first partition that was selected has the checkpoint files."""
    data, _ = damaged.write(place)
    (data / "replication-offset-checkpoint").write_bytes(b"garbage\n")
    command = ["--topic", "index", "--topic", "torn", str(data)]

    def around(call: Call, make: Callable[..., Any]) -> Any:
        if call.method == "make_directory" and "/index-0/.kdump" in call.paths[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return make(*call.arguments)

    assert repair(*command, "--apply", around=around).code < 0
    pending = repair(data)
    finish = shlex.split(pending.last_line)[1:]
    assert "--topic" in finish
    ran = repair(data, "--apply")
    assert ran.code == exits.INCOMPLETE, ran
    assert "about 2 partitions, not 6" in " ".join(ran.out.split())
    assert (data / "replication-offset-checkpoint").read_bytes() == b"0\n0\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root may read more than the owner of the directory")
def test_root_takes_no_path_from_the_journal(place: Path) -> None:
    """Its owner could name a replica there that only root can read."""
    data, replica = damaged.write(place)
    first = ["--from", str(replica), str(data)]
    recorded = record(["repair", *first, "--apply"], place)
    finished = tree(data)
    put(place, recorded.before[len(recorded.before) // 2])
    (journal,) = data.glob(".kdump.????????")
    assert json.loads(journal.read_text())["arguments"] == first[:2]
    refused = repair(data, "--apply")
    assert refused.code == exits.REFUSED
    assert f"root takes no path from this file, found none: --from {replica}" in refused.err
    shown = repair(data)
    assert shown.code == exits.INCOMPLETE
    assert run(shlex.split(shown.last_line)[1:]).code == exits.OK
    assert tree(data).keys() == finished.keys()
