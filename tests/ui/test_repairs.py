"""The commands that repair, as a shell sees them: exit codes, consent, JSON lines, ways back."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kdump.audit.run import prescan
from kdump.audit.targets.scope import Scope
from kdump.audit.targets.target import Target
from kdump.cli.main import main
from kdump.repair.transaction.folder import Folder
from kdump.storage import liveness
from kdump.storage import repair_record as storage_kept
from kdump.ui import exits
from kdump.ui.paragraphs import paragraph
from kdump.ui.repairs.repairing import partitions
from kdump.ui.repairs.steps import step_texts
from support.commands import Ran, kdump
from support.crashing.running import Run, run
from support.crashing.seam import Around, Call
from support.crashing.subjects import ALONE, LOSSY, MARKER, OTHER, REINDEX, TORN, batches
from support.damaged import name
from support.forge import flip
from support.planning import left

pytestmark = pytest.mark.once

LOG = name(100, ".log")
CUT = "truncate-to-valid"


def at(method: str, do: Callable[[], Any]) -> Around:
    """Does something before the first call of a kind."""
    done = False

    def around(call: Call, make: Callable[..., Any]) -> Any:
        nonlocal done
        if call.method == method and not done:
            done = True
            do()
        return make(*call.arguments)

    return around


def fail(error: int = errno.EIO) -> None:
    raise OSError(error, os.strerror(error))


def interrupt(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(10)  # until it is here


def planned(partition: Path, *arguments: str) -> str:
    """The id of the plan for a partition."""
    (plan_id,) = kdump(CUT, *arguments, partition).ids
    return plan_id


def pending(partition: Path) -> str:
    """Interrupts a cut between its steps; the id of its plan."""
    plan_id = planned(partition)
    ran = kdump(CUT, partition, "--apply", "--confirm", plan_id, around=at("truncate", fail))
    assert ran.code == exits.INCOMPLETE, ran
    return plan_id


def again(ran: Ran | Run) -> Ran:
    """Runs the command that the last line on standard error is."""
    text = ran.said if isinstance(ran, Ran) else ran.err
    program, *argv = shlex.split(text.strip().splitlines()[-1])
    assert program == "kdump"
    return kdump(*argv)


@pytest.fixture
def both(lossy: Path) -> Path:
    """A log directory with two partitions to be cut."""
    log = lossy.parent / OTHER / name(0, ".log")
    pieces = batches(0)
    log.write_bytes(b"".join([*pieces[:-1], flip(pieces[-1], -1)]))
    return lossy.parent


# --- plans


def test_a_plan_changes_nothing(lossy: Path) -> None:
    before = left(lossy.parent)
    ran = kdump(CUT, lossy)
    assert ran.code == exits.PROBLEMS
    assert [line["type"] for line in ran.lines] == ["header", "plan", "summary"]
    header, plan, summary = ran.lines
    assert (header["command"], header["schema"]) == (CUT, 1)
    assert (plan["command"], plan["partition"], plan["lossy"]) == (CUT, str(lossy), True)
    assert plan["loss"]["sound"]["count"] > 0
    assert plan["space"]["tail_bytes"] > 0
    assert [step["step"] for step in plan["steps"]][:2] == ["take-marker", "line"]
    assert (summary["exit"], summary["plans"], summary["receipts"]) == (4, 1, 0)
    assert kdump(CUT, lossy).ids == ran.ids
    assert left(lossy.parent) == before


def test_nothing_to_do(lossy: Path) -> None:
    before = left(lossy.parent)
    for arguments in ([], ["--apply"]):
        ran = kdump(CUT, lossy.parent / OTHER, *arguments)
        assert (ran.code, ran.said) == (exits.OK, "")
        (plan,) = ran.of("plan")
        assert plan["steps"] == []
    assert left(lossy.parent) == before


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([CUT], "Missing argument"),
        ([CUT, ".", "--at", "-1"], "--at"),
        ([CUT, ".", "--at", "x"], "--at"),
        ([CUT, ".", "--topic", "no*"], "expected a pattern that some topic matches"),
        (["reindex", ".", "--index-interval-bytes", "-5"], "--index-interval-bytes"),
        (["undo"], "Missing argument"),
        (["undo", ".", "--discard"], "--discard needs --plan ID"),
        (["undo", ".", "--discard", "--plan", "x", "--apply"], "does not take --apply"),
        (["undo", ".", "--plan", "12345678"], "expected the id of a repair in PATH, found none"),
    ],
)
def test_wrong_usage(
    lossy: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], told: str
) -> None:
    monkeypatch.chdir(lossy.parent)
    before = left(lossy.parent)
    ran = run(argv)
    assert ran.code == exits.USAGE, ran
    assert told in ran.err
    assert left(lossy.parent) == before


@pytest.mark.parametrize("argv", [[CUT], ["reindex", "--apply"], ["undo"], ["undo", "--apply"]])
def test_what_is_not_there_is_told(lossy: Path, argv: list[str]) -> None:
    ran = run([*argv, str(lossy), str(lossy.parent / "nowhere-0")])
    assert ran.code == exits.INCOMPLETE, ran
    assert "nowhere-0" in ran.err


def test_a_partition_that_goes_away_is_an_error(
    lossy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when paths were read, as one may be that another user moves to and fro."""

    def list_and_move(scope: Scope) -> list[Target]:
        found = partitions(scope)
        lossy.rename(lossy.parent / "elsewhere-0")
        return found

    monkeypatch.setattr("kdump.commands.undo.command.partitions", list_and_move)
    ran = run(["undo", str(lossy), "--apply"])
    assert ran.code == exits.INCOMPLETE, ran
    assert f"{lossy}: cannot be read: No such file or directory" in ran.err


@pytest.mark.parametrize("command", [CUT, "reindex", "undo"])
def test_a_file_is_no_partition(lossy: Path, command: str) -> None:
    before = left(lossy.parent)
    ran = run([command, str(lossy / LOG), "--apply"])
    assert ran.code == exits.USAGE, ran
    assert "give the directory that holds it" in ran.err
    assert left(lossy.parent) == before


def test_a_file_behind_a_partition_stops_it_all(unindexed: Path) -> None:
    before = left(unindexed.parent)
    ran = run(["reindex", "--apply", str(unindexed), str(unindexed / LOG)])
    assert ran.code == exits.USAGE, ran
    assert left(unindexed.parent) == before


# --- consent


def test_a_lossless_plan_needs_no_word(unindexed: Path) -> None:
    ran = kdump("reindex", unindexed, "--apply")
    assert (ran.code, ran.said) == (exits.OK, "")
    header, plan, receipt, summary = ran.lines
    assert header["type"] == "header"
    assert plan["lossy"] is False
    assert receipt["type"] == "receipt"
    assert (receipt["id"], receipt["problems"]) == (plan["id"], 0)
    assert receipt["next_start"] is not None
    assert receipt["files"].keys() == {step["name"] for step in plan["steps"]}
    assert (summary["exit"], summary["plans"], summary["receipts"]) == (0, 1, 1)
    assert kdump("reindex", unindexed).code == exits.OK


@pytest.mark.parametrize("confirm", [[], ["--confirm", "12345678"]], ids=["none", "another"])
def test_a_lossy_plan_needs_its_own_id(lossy: Path, confirm: list[str]) -> None:
    before = left(lossy.parent)
    plan_id = planned(lossy)
    ran = kdump(CUT, lossy, "--apply", *confirm)
    assert ran.code == exits.REFUSED
    assert f"expected --confirm {plan_id}" in ran.said
    assert [line["type"] for line in ran.lines] == ["header", "plan", "summary"]
    assert left(lossy.parent) == before


def test_the_id_of_a_lossy_plan_is_consent(lossy: Path) -> None:
    plan_id = planned(lossy)
    ran = kdump(CUT, lossy, "--apply", "--confirm", "12345678", "--confirm", plan_id)
    assert ran.code == exits.OK, ran
    assert [line["type"] for line in ran.lines] == ["header", "plan", "receipt", "summary"]
    again = kdump(CUT, lossy, "--apply", "--confirm", plan_id)
    assert again.code == exits.OK
    assert not list(again.of("receipt"))


def test_consent_is_to_what_was_planned(lossy: Path) -> None:
    plan_id = planned(lossy)
    with (lossy / name(200, ".log")).open("ab") as file:
        file.write(batches(300)[0])
    before = left(lossy.parent)
    ran = kdump(CUT, lossy, "--apply", "--confirm", plan_id)
    assert ran.code == exits.REFUSED
    assert left(lossy.parent) == before


def asked(argv: list[str], word: bytes) -> tuple[int, str]:
    """Runs a command on a terminal where ``word`` is typed, again and again if need be."""
    pid, master = pty.fork()
    if pid == 0:
        code = 99
        with suppress(BaseException):
            sys.stdin, sys.stdout, sys.stderr = (
                os.fdopen(number, mode, closefd=False) for number, mode in enumerate("rww")
            )
            signal.signal(signal.SIGINT, signal.default_int_handler)
            liveness._open_files = lambda *_: iter(())
            code = main(argv)
        os._exit(code)
    said = bytearray()
    with suppress(OSError):  # its other end is closed
        while not said.rstrip().endswith(b"to continue:"):
            said += os.read(master, 4096)
        os.write(master, word)
        while True:
            # Just as it begins to read a line, readline may miss an interrupt.
            if select.select([master], [], [], 2)[0]:
                said += os.read(master, 4096)
            else:
                os.write(master, word)
    os.close(master)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), said.decode()


def test_the_word_on_a_terminal(lossy: Path) -> None:
    plan_id = planned(lossy)
    code, said = asked([CUT, "--apply", str(lossy)], f"  {plan_id}\n".encode())
    assert code == exits.OK, said
    assert f"Type {plan_id} to continue:" in said
    assert kdump(CUT, lossy).code == exits.OK


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (b"\n", exits.REFUSED),
        (b"y\n", exits.REFUSED),
        (b"yes\n", exits.REFUSED),
        (b"\4", exits.REFUSED),
        (b"\3", exits.INTERRUPTED),
    ],
    ids=["nothing", "y", "yes", "end", "interrupt"],
)
def test_any_other_word_declines(lossy: Path, word: bytes, expected: int) -> None:
    before = left(lossy.parent)
    code, said = asked([CUT, "--apply", str(lossy)], word)
    assert code == expected, said
    assert "Traceback" not in said
    assert left(lossy.parent) == before


@pytest.mark.parametrize("begun", [False, True], ids=["new", "interrupted"])
def test_a_word_that_declines_says_whether_something_was_changed_before(
    lossy: Path, begun: bool
) -> None:
    if begun:
        pending(lossy)
    code, said = asked([CUT, "--apply", str(lossy)], b"no\n")
    assert code == exits.REFUSED, said
    assert f"declined, nothing {'more ' if begun else ''}was changed" in said


# --- what is refused


def test_a_live_broker(lossy: Path) -> None:
    before = left(lossy.parent)
    descriptor = os.open(lossy / LOG, os.O_RDWR)
    try:
        for argv in (
            [CUT, str(lossy), "--apply"],
            [CUT, str(lossy), "--apply", "--assume-stopped"],
            [CUT, str(lossy)],
        ):
            ran = run(argv, searching=True)
            assert ran.code == exits.REFUSED, ran
            assert f"process {os.getpid()}" in ran.err
    finally:
        os.close(descriptor)
    assert left(lossy.parent) == before


def unknown() -> None:
    liveness._network_file_system = lambda path: "NFS"


def test_where_nobody_can_tell(place: Path) -> None:
    TORN.write(place)
    partition = TORN.partition(place)
    before = left(place)
    ran = run([CUT, str(partition)], prepare=unknown)
    assert ran.code == exits.REFUSED, ran
    assert "add --assume-stopped" in ran.err
    ran = run([CUT, str(partition), "--assume-stopped"], prepare=unknown)
    assert f" {partition} --apply" in ran.out
    assert "--assume-stopped" in ran.out  # what it prints can be carried out
    plan_id = planned(partition)
    argv = [CUT, str(partition), "--apply", "--confirm", plan_id]
    assert run(argv, prepare=unknown).code == exits.REFUSED
    assert left(place) == before
    assert run([*argv, "--assume-stopped"], prepare=unknown).code == exits.OK
    back = ["undo", str(partition), "--apply"]
    assert run(back, prepare=unknown).code == exits.REFUSED
    assert run([*back, "--assume-stopped"], prepare=unknown).code == exits.OK


@pytest.mark.slow
def test_one_of_several_is_refused(both: Path) -> None:
    ids = kdump(CUT, both).ids
    assert len(ids) == 2
    ran = kdump(CUT, both, "--apply", "--confirm", ids[1])
    assert ran.code == exits.REFUSED
    assert [line["type"] for line in ran.lines] == ["header", "plan", "plan", "receipt", "summary"]
    (receipt,) = ran.of("receipt")
    assert receipt["id"] == ids[1]
    assert str(both / "orders-0") in ran.said
    assert (ran.lines[-1]["plans"], ran.lines[-1]["receipts"]) == (2, 1)
    assert kdump(CUT, both).ids == (ids[0], *kdump(CUT, both / OTHER).ids)
    assert kdump(CUT, both / OTHER).code == exits.OK


def test_an_offset_that_one_of_several_does_not_reach_back_to(both: Path) -> None:
    before = left(both)
    ran = kdump(CUT, both / "orders-0", "--at", "3")
    assert ran.code == exits.USAGE
    ran = kdump(CUT, both, "--at", "7")
    assert ran.code == exits.PROBLEMS
    (both / "log-start-offset-checkpoint").write_text("0\n2\norders 0 0\norders 1 60\n")
    before = left(both)
    ran = kdump(CUT, both, "--at", "50")
    assert ran.code == exits.USAGE
    assert "expected an offset from 60 on, where the log starts, found 50" in ran.said
    assert len(ran.ids) == 1
    assert [line["type"] for line in ran.lines][-1] == "summary"
    assert left(both) == before


# --- what is interrupted


def test_a_fault_says_how_to_go_on(lossy: Path) -> None:
    plan_id = planned(lossy)
    argv = (CUT, lossy, "--apply", "--confirm", plan_id)
    ran = kdump(*argv, around=at("truncate", fail))
    assert ran.code == exits.INCOMPLETE
    assert ran.lines[-1]["exit"] == exits.INCOMPLETE
    done = again(ran)
    assert done.code == exits.OK, done
    (receipt,) = done.of("receipt")
    assert receipt["id"] == plan_id
    assert kdump(CUT, lossy).code == exits.OK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, exits.INTERRUPTED), (signal.SIGTERM, exits.TERMINATED)],
    ids=["SIGINT", "SIGTERM"],
)
def test_a_signal_between_the_steps(lossy: Path, number: int, expected: int) -> None:
    plan_id = planned(lossy)
    argv = (CUT, lossy, "--apply", "--confirm", plan_id)
    ran = kdump(*argv, around=at("truncate", lambda: interrupt(number)))
    assert ran.code == expected, ran
    assert again(ran).code == exits.OK
    ran = kdump("undo", lossy, "--apply", around=at("pwrite", lambda: interrupt(number)))
    assert ran.code == expected, ran
    assert again(ran).code == exits.OK
    assert planned(lossy) == plan_id


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (lambda: interrupt(signal.SIGINT), exits.INTERRUPTED),
        (lambda: interrupt(signal.SIGTERM), exits.TERMINATED),
        (lambda: fail(), exits.INCOMPLETE),
    ],
    ids=["SIGINT", "SIGTERM", "error"],
)
@pytest.mark.slow
def test_a_quick_check_that_is_stopped_leaves_the_receipt(
    lossy: Path, stop: Callable[[], None], expected: int, form: str
) -> None:
    """The repair is finished by then, and no other run would show what it has done."""

    def prepare() -> None:
        prescan.quick_pass = lambda *_, **__: stop()  # type: ignore[assignment]

    plan_id = planned(lossy)
    argv = [CUT, str(lossy), "--apply", "--confirm", plan_id, "--format", form]
    ran = run(argv, prepare=prepare)
    assert ran.code == expected, ran
    assert "Traceback" not in ran.err
    if form == "text":
        assert f"\nDONE {plan_id}  {CUT} orders-0: " in f"\n{ran.out}"
        assert f"kdump undo {lossy} --plan {plan_id} --apply" in ran.out
        assert "in a quick check" not in ran.out
    else:
        (receipt,) = (line for line in map(json.loads, ran.out.splitlines()) if "seconds" in line)
        assert (receipt["id"], receipt["problems"], receipt["next_start"]) == (plan_id, None, None)
    assert kdump(CUT, lossy).code == exits.OK


@pytest.mark.slow
def test_a_signal_ends_the_run(unindexed: Path) -> None:
    other = unindexed.parent / OTHER
    (other / name(0, ".index")).write_bytes(b"123")
    before = left(other)
    stop = at("link", lambda: interrupt(signal.SIGINT))
    ran = kdump("reindex", unindexed, other, "--apply", around=stop)
    assert ran.code == exits.INTERRUPTED, ran
    assert left(other) == before
    assert again(ran).code == exits.OK
    assert kdump("reindex", other, "--apply").code == exits.OK
    ran = kdump(
        "undo",
        *(unindexed, other, "--apply"),
        around=at("rename", lambda: interrupt(signal.SIGINT)),
    )
    assert ran.code == exits.INTERRUPTED, ran
    assert list((other / ".kdump").iterdir())


def test_a_signal_before_the_first_step(lossy: Path) -> None:
    before = left(lossy.parent)
    argv = (CUT, lossy, "--apply", "--confirm", planned(lossy))
    ran = run([str(word) for word in argv], at("copy", lambda: interrupt(signal.SIGINT)))
    assert ran.code == exits.INTERRUPTED, ran
    assert left(lossy.parent) == before


@pytest.mark.slow
def test_a_pending_repair_is_shown_and_holds_up_others(lossy: Path) -> None:
    plan_id = pending(lossy)
    now = left(lossy.parent)
    ran = kdump(CUT, lossy)
    assert ran.code == exits.INCOMPLETE
    (line,) = ran.of("pending")
    assert (line["id"], line["state"], line["command"]) == (plan_id, "pending", CUT)
    assert shlex.split(ran.said.strip().splitlines()[-1]) == [
        *("kdump", CUT, str(lossy), "--apply", "--confirm", plan_id),
    ]
    text = run([CUT, str(lossy)])
    assert text.code == exits.INCOMPLETE
    assert f"PENDING {plan_id}  {CUT} orders-0" in text.out
    assert f"kdump undo {lossy} --apply" in text.out
    for arguments in ([], ["--apply"]):
        ran = kdump("reindex", lossy, *arguments)
        assert ran.code == exits.REFUSED, ran
        assert f"expected no interrupted repair, found {plan_id}: finish it with " in ran.said
        assert f"kdump {CUT} {lossy} --apply" in ran.said
    assert left(lossy.parent) == now
    # A plan that was found there needs the same consent as one that was made now.
    ran = kdump(CUT, lossy, "--apply")
    assert ran.code == exits.REFUSED, ran
    assert f"expected --confirm {plan_id}" in ran.said
    assert left(lossy.parent) == now
    ran = kdump(CUT, lossy, "--apply", "--confirm", plan_id)
    assert ran.code == exits.OK, ran
    assert [line["type"] for line in ran.lines] == ["header", "pending", "receipt", "summary"]


@pytest.mark.slow
def test_an_interrupted_undo_is_gone_on_with_by_undo_alone(lossy: Path) -> None:
    plan_id = planned(lossy)
    assert kdump(CUT, lossy, "--apply", "--confirm", plan_id).code == exits.OK
    ran = kdump("undo", lossy, "--apply", around=at("pwrite", fail))
    assert ran.code == exits.INCOMPLETE
    for arguments in ([], ["--apply", "--confirm", plan_id]):
        refused = kdump(CUT, lossy, *arguments)
        assert refused.code == exits.REFUSED
        assert f"found {plan_id}: undo it with kdump undo {lossy}" in refused.said
    assert again(ran).code == exits.OK
    assert planned(lossy) == plan_id


@pytest.mark.slow
def test_a_kill_while_another_partition_waits(both: Path) -> None:
    ids = kdump(CUT, both).ids
    agreed = [word for one in ids for word in ("--confirm", one)]
    ran = kdump(CUT, both, "--apply", *agreed, around=at("truncate", fail))
    assert ran.code == exits.INCOMPLETE
    # The first holds the marker, so that the second is refused.
    assert f"{both / 'orders-0'}: expected no interrupted repair in this log directory" in ran.said
    assert again(ran).code == exits.OK
    ran = kdump(CUT, both, "--apply", *agreed)
    assert ran.code == exits.OK, ran
    assert (both / MARKER).read_bytes() == b""
    assert kdump(CUT, both).code == exits.OK


@pytest.mark.slow
def test_a_damaged_folder_is_refused_by_all(lossy: Path) -> None:
    plan_id = pending(lossy)
    (lossy / ".kdump" / plan_id / "plan.json").write_text("{")
    now = left(lossy.parent)
    for command, *arguments in (
        [CUT],
        [CUT, "--apply"],
        ["reindex", "--apply"],
        ["undo", "--apply"],
        ["undo", "--plan", plan_id],
        ["undo", "--plan", plan_id, "--discard"],
    ):
        ran = kdump(command, lossy, *arguments)
        assert ran.code == exits.REFUSED, (command, ran)
        assert "Traceback" not in ran.said
    assert kdump("undo", lossy).code == exits.OK
    assert left(lossy.parent) == now


# --- undo


@pytest.fixture
def repaired(place: Path) -> Path:
    """A partition that was repaired twice."""
    replace(LOSSY, files={**REINDEX.files, **LOSSY.files}).write(place)
    partition = LOSSY.partition(place)
    assert kdump("reindex", partition, "--apply").code == exits.OK
    assert kdump(CUT, partition, "--apply", "--confirm", planned(partition)).code == exits.OK
    return partition


def backups(partition: Path) -> list[dict[str, Any]]:
    ran = kdump("undo", partition)
    assert ran.code == exits.OK
    assert ran.lines[-1]["backups"] == len(ran.lines) - 2
    return list(ran.of("backup"))


def test_backups_are_listed_and_shown(repaired: Path) -> None:
    now = left(repaired.parent)
    older, newer = backups(repaired)
    assert (older["command"], newer["command"]) == ("reindex", CUT)
    assert older["begun_ns"] < newer["begun_ns"]
    assert {older["state"], newer["state"]} == {"done"}
    size = sum(
        path.stat().st_size
        for path in (repaired / ".kdump" / newer["id"]).rglob("*")
        if path.is_file()
    )
    assert (newer["partition"], newer["bytes"]) == (str(repaired), size)
    (whole,) = kdump("undo", repaired, "--plan", newer["id"]).of("backup")
    assert whole["plan"]["id"] == newer["id"]
    assert whole["plan"]["loss"]["sound"]["count"] > 0
    assert "plan" not in newer
    shown = run(["undo", str(repaired), "--plan", older["id"]])
    assert shown.code == exits.OK
    assert older["id"] in shown.out
    assert f"--plan {older['id']} --apply" not in shown.out
    assert f"found {newer['id']}: undo that repair first" in " ".join(shown.out.split())
    shown = run(["undo", str(repaired), "--plan", newer["id"]])
    assert older["id"] not in shown.out
    assert f"kdump undo {repaired} --plan {newer['id']} --apply" in shown.out
    listed = run(["undo", str(repaired.parent)])
    assert listed.code == exits.OK
    assert older["id"] in listed.out
    assert newer["id"] in listed.out
    assert left(repaired.parent) == now


def test_without_a_backup(unindexed: Path) -> None:
    before = left(unindexed.parent)
    for arguments in ([], ["--apply"]):
        ran = run(["undo", str(unindexed), *arguments])
        assert (ran.code, ran.out) == (exits.OK, "no backup of a repair here\n")
    assert left(unindexed.parent) == before


@pytest.mark.slow
def test_the_newest_is_taken_back_first(repaired: Path) -> None:
    older, newer = backups(repaired)
    now = left(repaired.parent)
    ran = kdump("undo", repaired, "--plan", older["id"], "--apply")
    assert ran.code == exits.REFUSED
    assert f"expected {older['id']} to be the newest repair, found {newer['id']}" in ran.said
    assert left(repaired.parent) == now
    ran = kdump("undo", repaired, "--apply")
    assert ran.code == exits.OK, ran
    (line,) = ran.of("undone")
    assert line["id"] == newer["id"]
    assert planned(repaired) == newer["id"]
    ran = kdump("undo", repaired, "--plan", older["id"], "--apply")
    assert ran.code == exits.OK, ran
    assert not backups(repaired)
    assert kdump("reindex", repaired).ids == (older["id"],)


@pytest.mark.slow
def test_a_backup_is_discarded_by_its_id(repaired: Path) -> None:
    older, newer = backups(repaired)
    argv = ["undo", str(repaired), "--plan", newer["id"], "--discard"]
    told = run(argv)
    assert told.code == exits.OK
    assert told.out.startswith(f"DISCARDED {newer['id']}")
    assert [one["id"] for one in backups(repaired)] == [older["id"]]
    assert run(argv).code == exits.USAGE
    # The logs are no more as the older one left them.
    ran = kdump("undo", repaired, "--apply")
    assert ran.code == exits.REFUSED
    assert "changed since" in ran.said


def test_an_interrupted_repair_is_taken_back_not_discarded(lossy: Path) -> None:
    before = left(lossy.parent)
    plan_id = pending(lossy)
    ran = kdump("undo", lossy, "--plan", plan_id, "--discard")
    assert ran.code == exits.REFUSED
    (line,) = backups(lossy)
    assert line["state"] == "pending"
    assert kdump("undo", lossy, "--apply").code == exits.OK
    now = left(lossy.parent)
    assert now.keys() == before.keys()
    assert {path for path in now if now[path].lasting != before[path].lasting} == set()


def test_what_was_only_prepared_is_listed_and_discarded(lossy: Path) -> None:
    before = left(lossy.parent)
    plan_id = planned(lossy)
    argv = [CUT, str(lossy), "--apply", "--confirm", plan_id]

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    assert run(argv, at("copy", kill)).code == -signal.SIGKILL
    (line,) = backups(lossy)
    assert (line["id"], line["state"], line["begun_ns"]) == (plan_id, "prepared", None)
    assert kdump("undo", lossy, "--apply").code == exits.OK
    assert kdump("undo", lossy, "--plan", plan_id, "--discard").code == exits.OK
    assert left(lossy.parent) == before


@pytest.mark.slow
def test_several_partitions_are_undone(both: Path) -> None:
    agreed = [word for one in kdump(CUT, both).ids for word in ("--confirm", one)]
    assert kdump(CUT, both, "--apply", *agreed).code == exits.OK
    (both / OTHER / name(0, ".index")).write_bytes(b"a broker's")
    ran = kdump("undo", both, "--apply")
    assert ran.code == exits.REFUSED
    (line,) = ran.of("undone")
    assert line["partition"] == str(both / "orders-0")
    assert ran.lines[-1]["exit"] == exits.REFUSED


@pytest.mark.slow
def test_what_cannot_be_read_outweighs_what_is_refused(
    repaired: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repaired / LOG).write_bytes(b"a broker's")
    other = repaired.parent.parent / "other-0"
    other.mkdir()

    def scan(path: Path) -> Any:
        if path == other / ".kdump":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.scandir(path)

    monkeypatch.setattr(storage_kept, "scan", scan)
    for paths in ((repaired, other), (other, repaired)):
        ran = kdump("undo", *paths, "--apply")
        assert ran.code == exits.INCOMPLETE, ran
        assert len(ran.said.splitlines()) == 2


@pytest.mark.slow
def test_outside_of_a_log_directory(place: Path) -> None:
    ALONE.write(place)
    partition = ALONE.partition(place)
    before = left(place)
    plan_id = planned(partition)
    assert kdump(CUT, partition, "--apply", "--confirm", plan_id).code == exits.OK
    assert [path.name for path in partition.parent.iterdir()] == [partition.name]
    assert kdump("undo", partition, "--apply").code == exits.OK
    assert left(place) == before


@pytest.mark.parametrize("undoing", [False, True])
def test_an_interruption_lists_the_steps_that_are_done_and_left(lossy: Path, undoing: bool) -> None:
    planned = run([CUT, str(lossy), "--format", "json"])
    plan_id = json.loads(planned.out.splitlines()[1])["id"]
    command = [CUT, str(lossy), "--apply", "--confirm", plan_id]
    if undoing:
        assert run(command).code == 0
        command = ["undo", str(lossy), "--apply"]
    ran = run(command, at("pwrite" if undoing else "truncate", fail))
    assert ran.code == 5, ran
    plan = Folder(lossy, plan_id).plan()
    texts = list(step_texts(plan))
    cut = next(number for number, text in enumerate(texts) if text.startswith("truncate "))
    done, rest = (texts[cut + 1 :], texts[: cut + 1]) if undoing else (texts[:cut], texts[cut:])
    first, *lines, last = [line for line in ran.err.splitlines() if line]
    assert f" of {len(plan.steps)} steps are {'undone' if undoing else 'done'}; " in first
    wanted = [
        line
        for label, some in (("done", done), ("left", rest))
        for number, text in enumerate(some)
        for line in paragraph("" if number else label, text).splitlines()
    ]
    assert lines == wanted
    assert done
    assert last.startswith("kdump undo " if undoing else "kdump truncate-to-valid ")


@pytest.mark.parametrize("way", ["finish it with", "undo it with", "verify"])
def test_a_printed_way_on_from_a_lossy_repair_can_be_pasted(lossy: Path, way: str) -> None:
    """Without a terminal that could ask for the consent."""
    planned = run([CUT, str(lossy), "--at", "150", "--format", "json"])
    plan_id = json.loads(planned.out.splitlines()[1])["id"]
    command = [CUT, str(lossy), "--at", "150", "--apply", "--confirm", plan_id]
    assert run(command, at("truncate", fail)).code == 5
    if way == "verify":
        lines = map(json.loads, run(["verify", str(lossy), "--format", "json"]).out.splitlines())
        (remedy,) = (line["remedy"] for line in lines if line.get("code") == "repair-pending")
    else:
        refusal = run(["reindex", str(lossy), "--apply"])
        assert refusal.code == 6, refusal
        found = re.search(f"{way} (kdump .*?)(?:, or undo it|$)", refusal.err)
        assert found is not None, refusal
        remedy = shlex.split(found[1])
    assert remedy[0] == "kdump"
    ran = run(remedy[1:])
    assert ran.code == 0, ran
    assert run(["undo", str(lossy)]).out.count(plan_id) == (way != "undo it with")
