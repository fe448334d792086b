"""What repairs tell: plans, receipts and backups fit a terminal, hide nothing, and can be read."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unicodedata import category

import pytest

from kdump.audit.survey.recovery import Span
from kdump.cli.main import main
from kdump.repair.transaction.plan import (
    ConvertedPart,
    Cut,
    Line,
    Loss,
    Plan,
    Prefix,
    Put,
    PutMarker,
    RebuiltIndex,
    Remove,
    Stamp,
    TakeMarker,
)
from kdump.storage.repair_record import RepairRecord, RepairState
from kdump.ui import exits
from kdump.ui.repairs.steps import step_texts
from kdump.ui.repairs.text import (
    backup_lines,
    consent_text,
    partition_name,
    pending_lines,
    plan_lines,
    receipt_lines,
)
from support import forge
from support.damaged import FIRST, LAST, Recipe, batches, name

pytestmark = pytest.mark.once

DAMAGED = [*batches(FIRST)[:3], forge.flip(batches(FIRST)[3], 70), *batches(FIRST)[4:]]
TORN = [*batches(LAST)[:-1], batches(LAST)[-1][:-5]]
#: Of a topic that nobody would make, and that a directory may be called all the same.
ODD = "a\x1b[2J b\u202e"
SUMMARY = {"type", "exit", "plans", "receipts", "failed"}
PLAN = {"type", "id", "command", "lossy", "steps", "loss", "space", "log_start", "log_end", "notes"}
RECEIPT = {"type", "id", "command", "begun", "seconds", "uid", "loss", "log_end", "files"}


def write(top: Path, first: Sequence[bytes], last: Sequence[bytes], topic: str = "orders") -> Path:
    """A partition in a stopped log directory that knows its high watermark."""
    path = Recipe(topic, (), first, last).write(top)
    (top / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    if topic.isprintable():
        for checkpoint in ("recovery-point", "replication"):
            (top / f"{checkpoint}-offset-checkpoint").write_text(f"0\n1\n{topic} 0 150\n")
    return path


def told(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    """What a command prints to standard output."""
    capsys.readouterr()
    assert main([os.fspath(each) for each in arguments]) == code
    return capsys.readouterr().out


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def of(text: str, kind: str) -> dict[str, object]:
    (found,) = [one for one in objects(text) if one["type"] == kind]
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The commands that stand in ``text``, each on one line."""
    for line in text.splitlines():
        found = re.match(r"(?:\S+ \S+|\S*) +(kdump .*)$|  (kdump .*)$", line)
        if found:
            yield shlex.split(found[1] or found[2])


def assert_fits(text: str) -> None:
    """No line is wider than a terminal, but for one that has a command or one long word."""
    for line in text.splitlines():
        words = line.split()
        assert len(line) <= 80 or "kdump" in words or len(words) == 1
        assert line == line.rstrip()


def assert_escaped(text: str) -> None:
    unsafe = {"Cc", "Cf", "Zl", "Zp", "Cs"}
    assert not [c for c in text if c != "\n" and category(c) in unsafe]


def a_plan(partition: Path, *steps: object, **fields: object) -> Plan:
    files = {name(FIRST, ".log"): Stamp(2310, 0), name(LAST, ".log"): Stamp(2310, 0)}
    files |= {name(LAST, each): Stamp(60, 0) for each in (".index", ".timeindex", ".snapshot")}
    plan = Plan("truncate-to-valid", (), partition, (1, 2), partition.parent, (), files)
    return replace(plan, steps=steps, **fields)  # type: ignore[arg-type]


# --- plans


def test_a_plan_begins_with_the_worst_and_ends_with_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST))
    text = told(capsys, exits.PROBLEMS, "truncate-to-valid", path)
    first, second, *_ = text.splitlines()
    plan_id = first.split()[1]
    assert first == f"PLAN {plan_id}  truncate-to-valid orders-0: nothing is changed yet"
    assert second.startswith("LOSS        170 records: 160 VALID + 10 unreadable; ")
    assert "BELOW the high watermark" in text
    assert "\nresult      log end offset 200 -> 30; log start 0\n" in text
    found = list(commands(text))
    assert ["kdump", "salvage", os.fspath(path), "--output", "DIR"] in found
    command = ["truncate-to-valid", os.fspath(path), "--apply", "--confirm", plan_id]
    assert found[-1] == ["kdump", *command]
    assert text.rstrip().endswith(shlex.join(command))
    assert_fits(text)
    # With it the plan is carried out, and nobody is told to do it again.
    text = told(capsys, exits.OK, *command)
    assert "apply  " not in text
    assert text.startswith(f"DONE {plan_id}  truncate-to-valid orders-0: 2")  # no plan again


def test_what_a_cut_of_no_record_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, batches(FIRST), TORN)
    text = told(capsys, exits.PROBLEMS, "truncate-to-valid", path)
    assert "\nloss        no record; 226 bytes without records are removed\n" in text
    assert "\nresult      log end offset stays 190\n" in text
    assert "instead" not in text
    assert "--confirm" not in text
    assert_fits(text)


def test_a_reindex_says_that_no_log_is_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, batches(FIRST), batches(LAST))
    (path / name(LAST, ".index")).unlink()
    text = told(capsys, exits.PROBLEMS, "reindex", path)
    assert "\nresult      logs stay as they are; log end offset stays 200\n" in text
    assert "\nsave        nothing: no file is changed or removed\n" in text
    assert "loss" not in text.lower()
    assert list(commands(text)) == [["kdump", "reindex", os.fspath(path), "--apply"]]


def test_steps_of_one_kind_are_told_together(tmp_path: Path) -> None:
    log = name(FIRST, ".log")
    steps = (
        TakeMarker(),
        Line("recovery-point-offset-checkpoint", 150, 0),
        *(Remove(name(LAST, each)) for each in (".log", ".index")),
        Remove(name(LAST, ".snapshot")),
        Remove("leader-epoch-checkpoint"),
        Cut(log, 693, "", ""),
        Put(log, 693, "", replaces=True, recipe=Prefix(693)),
        Put.of(name(FIRST, ".index"), b"", replaces=False),
        Put(name(FIRST, ".timeindex"), 0, "", False, RebuiltIndex(log, ".timeindex", 1)),
        Put.of(name(FIRST, ".txnindex"), b"", replaces=True),
        Line("cleaner-offset-checkpoint", 100, None),
        PutMarker(),
    )
    first, last = name(FIRST, ""), name(LAST, "")
    assert list(step_texts(a_plan(tmp_path, *steps))) == [
        "remove the clean shutdown file",
        "recovery-point-offset-checkpoint, only this partition: 150 -> 0",
        f"remove {last}.{{log,index,snapshot}}, leader-epoch-checkpoint",
        f"truncate {log} 2310 -> 693",
        f"truncate a copy of {log}, which has other links: 2310 -> 693",
        f"write {first}.{{index,timeindex}}",
        f"replace {first}.txnindex",
        "cleaner-offset-checkpoint, only this partition: 100 -> no line",
        "restore the clean shutdown file, empty: the next startup scans no other partition",
    ]


def converting(base: int, *parts: int) -> list[object]:
    """The steps that convert a log to one of its name, and to further ones behind it."""
    log = name(base, ".log")
    found: list[object] = [Remove(name(base, ".index"))]
    for number in range(len(parts), -1, -1):
        part = (base, *parts)[number]
        recipe = ConvertedPart(log, None, 16384, number, 1000 + number, "0" * 31 + str(number))
        found += [
            Put(name(part, ".log"), 2048, "", number == 0, recipe),
            Put.of(name(part, ".timeindex"), b"", replaces=number == 0),
            Put.of(name(part, ".index"), b"", replaces=False),
        ]
    return found


def a_conversion(partition: Path, bases: Sequence[int], *steps: object) -> Plan:
    files = {name(base, each): Stamp(60, 0) for base in bases for each in (".index", ".timeindex")}
    files |= {name(base, ".log"): Stamp(2310, 0) for base in bases}
    return replace(a_plan(partition, *steps, log_end=(200, 200)), files=files)


def test_each_of_a_few_logs_is_converted_in_a_step(tmp_path: Path) -> None:
    steps = [*converting(FIRST), *converting(LAST, 150)]
    first, last = name(FIRST, ""), name(LAST, "")
    plan = a_conversion(tmp_path, (FIRST, LAST), *steps)
    assert list(step_texts(plan)) == [
        f"replace {first}.{{log,timeindex,index}}; 2.26 KiB -> 2.00 KiB, 1,000 records, digest "
        f"{'0' * 32}",
        f"write {name(150, '')}.{{log,timeindex,index}}; replace {last}.{{log,timeindex,index}}; "
        "2.26 KiB -> 4.00 KiB, 2,001 records",
    ]
    text = "\n".join(plan_lines(plan))
    assert "loss" not in text.lower()
    assert (
        " result 2 -> 3 logs of message format v2 with the same 3,001 records, 4.51 KiB -> 6.00 "
        "KiB; log end offset stays 200 steps 1 "
    ) in " ".join(text.split())
    assert_fits(text)


def test_many_logs_are_converted_in_one_step(tmp_path: Path) -> None:
    bases = range(0, 5000, 100)
    steps = [step for base in bases for step in converting(base)]
    plan = a_conversion(tmp_path, bases, *steps)
    assert list(step_texts(plan)) == [
        f"replace 150 files, {name(0, '')} to {name(4900, '')}: 50 .log, 50 .timeindex, 50 .index; "
        "112.79 KiB -> 100.00 KiB, 50,000 records"
    ]


def test_a_receipt_of_a_conversion_tells_what_was_read_back(tmp_path: Path) -> None:
    plan = a_conversion(tmp_path, (FIRST,), *converting(FIRST, 50))
    one = {
        "from": name(FIRST, ".log"),
        "records": 1000,
        "digest_before": "0" * 32,
        "digest_after": "0" * 32,
        "bytes_before": 2310,
        "bytes_after": 2048,
    }
    receipt: dict[str, object] = {"begun": "2026-11-21T04:02:11Z", "seconds": 3.8}
    logs = {name(FIRST, ".log"): one}
    text = "\n".join(receipt_lines(plan, receipt | {"converted": logs}, ()))
    assert "\nconverted   1 log, 2.26 KiB -> 2.00 KiB\n" in text
    assert f"\nread back   1,000 records, digest {'0' * 32}: the same as\n" in text
    assert "digests of the records" in " ".join(text.split())
    assert_fits(text)
    text = "\n".join(
        receipt_lines(plan, receipt | {"converted": logs | {name(50, ".log"): one}}, ())
    )
    assert "\nconverted   1 -> 2 logs, 2.26 KiB -> 4.00 KiB\n" in text
    assert "\nread back   2,000 records: the same as before\n" in text


def test_of_many_files_only_the_number_is_told(tmp_path: Path) -> None:
    removed = [
        Remove(name(base, each)) for base in range(5000, 0, -10) for each in (".log", ".index")
    ]
    (text,) = step_texts(a_plan(tmp_path, *removed, Remove("leader-epoch-checkpoint")))
    assert text == (
        f"remove 1,001 files, {name(10, '')} to {name(5000, '')}: 500 .log, 500 .index, "
        "leader-epoch-checkpoint"
    )


@pytest.mark.parametrize("topic", [ODD, "x" * 200, "with blanks, 'quotes' and $signs"])
def test_any_name_fits_and_is_escaped(
    tmp_path: Path, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{topic}-0"
    path.mkdir()
    loss = Loss(10, Span(7, 3, 9, 0, 10**15), Span(1, 2, None, None, None, True), 2, 1, 3, True)
    cut = Cut(name(FIRST, ".log"), 693, "", "")
    plan = a_plan(path, cut, loss=loss, log_end=(200, None), log_start=5, notes=(f"of {topic}",))
    one = RepairRecord("0a1b2c3d", path, topic, RepairState.DONE, 10**18, 4096)
    receipt = {"begun": "2026-11-21T04:02:11Z", "seconds": 3.8}
    text = "\n".join(
        [
            *plan_lines(plan),
            *receipt_lines(plan, receipt, ()),
            *backup_lines(one, path),
        ]
    )
    assert_escaped(text + consent_text(plan))
    assert_fits("\n".join(line for line in text.splitlines() if "x" * 200 not in line))
    assert "at least 8 records: 7 VALID + 1 or more unreadable" in " ".join(text.split())
    assert "of 2 producers; 1 ended transaction; 3 transactions left OPEN" in " ".join(text.split())
    assert "log end offset 200 -> unknown" in text
    assert consent_text(plan).endswith(f" (7 VALID). Type {plan.id} to continue")


@pytest.mark.slow
def test_odd_names_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST), topic=ODD)
    for form in ("text", "json"):
        text = told(capsys, exits.PROBLEMS, "truncate-to-valid", path, "--format", form)
        assert_escaped(text)
        plan_id = re.search(r"\b[0-9a-f]{8}\b", text)
        assert plan_id
        apply = ("--apply", "--confirm", plan_id[0], "--format", form)
        assert_escaped(told(capsys, exits.OK, "truncate-to-valid", path, *apply))
        assert_escaped(told(capsys, exits.OK, "undo", path, "--format", form))
        assert_escaped(told(capsys, exits.OK, "undo", path, "--apply", "--format", form))
    (tmp_path / "out").mkdir()
    assert main(["truncate-to-valid", os.fspath(path), "--apply"]) == exits.REFUSED
    printed = capsys.readouterr()
    assert_escaped(printed.out + printed.err)


def test_a_plan_of_a_directory_that_has_gone_is_printed(tmp_path: Path) -> None:
    plan = Plan("reindex", (), tmp_path / "orders-0", (1, 2), None, (PutMarker(),), {})
    text = "\n".join(plan_lines(plan))
    assert "\nspace       needs 0 bytes, free unknown; device 0:1, directory inode 2\n" in text


# --- several partitions, and none


def test_of_many_partitions_those_with_nothing_to_do_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(5):
        write(tmp_path, batches(FIRST), batches(LAST), topic=f"sound{number}")
    write(tmp_path, DAMAGED, batches(LAST))
    text = told(capsys, exits.PROBLEMS, "truncate-to-valid", tmp_path)
    assert "sound" not in text  # the topics of the others
    assert text.endswith("\nresult      1 plan, 1 of them lossy; nothing to do in 5 partitions\n")
    shutil.rmtree(tmp_path / "orders-0")
    text = told(capsys, exits.OK, "truncate-to-valid", tmp_path)
    assert text == "result      nothing to do in 5 partitions\n"
    text = told(capsys, exits.OK, "truncate-to-valid", tmp_path / "sound3-0")
    assert text == "sound3-0: nothing to do\n"


# --- consent


def test_who_is_asked_sees_the_question_last(tmp_path: Path) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST))
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 80))
    command = [sys.executable, "-c", "from kdump.cli.main import main; raise SystemExit(main())"]
    with subprocess.Popen(
        [*command, "truncate-to-valid", path, "--apply", "--progress", "bar"],
        env=os.environ | {"TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        said = b""
        while not said.rstrip().endswith(b"to continue:"):
            said += os.read(master, 4096)
        question = said.rsplit(b"\r\n", 1)[-1].decode()
        plan_id = re.fullmatch(
            r".*This loses 170 records of orders-0 \(160 VALID\)\. Type (\S+) to continue: ",
            question,
        )
        assert plan_id
        os.write(master, plan_id[1].encode() + b"\n")
        with suppress(OSError):  # its other end is closed
            while piece := os.read(master, 4096):
                said += piece
    os.close(master)
    assert process.returncode == exits.OK
    assert f"DONE {plan_id[1]}  truncate-to-valid orders-0: ".encode() in said


# --- receipts and backups


def test_a_receipt_ends_with_the_way_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST))
    plan_id = told(capsys, exits.PROBLEMS, "truncate-to-valid", path).split()[1]
    text = told(
        capsys, exits.OK, "truncate-to-valid", path, "--apply", "--confirm", plan_id
    ).partition("DONE")[2]
    assert re.match(
        rf" {plan_id}  truncate-to-valid orders-0: 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ, \d+\.\d+ s\n",
        text,
    )
    assert (
        f"\nlost        170 records; the removed bytes are in orders-0/.kdump/{plan_id}\n" in text
    )
    assert "\nchecked     0 problems in a quick check\n" in text
    assert "\nstartup     nothing seen that removes valid records; " in text
    undo = ["kdump", "undo", os.fspath(path), "--plan", plan_id]
    assert list(commands(text)) == [[*undo, "--discard"], [*undo, "--apply"]]
    assert_fits(text)
    text = told(capsys, exits.OK, "undo", path)
    assert re.match(rf"{plan_id}  20\S+Z  truncate-to-valid orders-0: done; \d+\.\d+ KiB\n", text)
    text = told(capsys, exits.OK, "undo", path, "--plan", plan_id)
    assert "\nLOSS        170 records" in text
    assert list(commands(text)) == [[*undo, "--discard"], [*undo, "--apply"]]
    shown, _, last = told(capsys, exits.OK, *undo[1:], "--apply").rpartition("UNDONE ")
    assert shown.startswith(f"UNDO {plan_id}  truncate-to-valid orders-0: nothing is")
    assert "\nsteps       1 " in shown
    assert last == f"{plan_id}  truncate-to-valid orders-0\n"
    assert told(capsys, exits.OK, "undo", path) == "no backup of a repair here\n"


def test_an_undo_that_is_refused_does_not_read_as_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, batches(FIRST), batches(LAST))
    index = path / name(FIRST, ".index")
    index.unlink()
    told(capsys, exits.OK, "reindex", path, "--apply")
    index.write_bytes(index.read_bytes() + bytes(8))
    text = told(capsys, exits.REFUSED, "undo", path, "--apply")
    plan_id = text.split()[1]
    assert text.startswith(f"UNDO {plan_id}  reindex orders-0: nothing is changed yet\n")
    assert "UNDONE" not in text
    assert text.endswith(f"REFUSED {plan_id}  reindex orders-0: this undo changed nothing\n")


def test_a_receipt_names_what_is_still_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, batches(FIRST), batches(LAST))
    (path / name(LAST, ".index")).unlink()
    (path / f"{150:020d}.snapshot").write_bytes(b"\0\1spoiled")
    text = told(capsys, exits.OK, "reindex", path, "--apply")
    assert re.search(r"\nchecked     \d+ problems? in a quick check(: [a-z-]+)?\n", text)


def test_a_salvaged_directory_is_not_undone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "data", DAMAGED, batches(LAST))
    text = told(capsys, exits.OK, "salvage", path, "--output", tmp_path / "out")
    plan_id = text.split()[1]
    made = tmp_path / "out" / path.name
    assert f"  salvage {path.name}: done; " in told(capsys, exits.OK, "undo", made)
    assert main(["undo", os.fspath(made), "--apply"]) == exits.REFUSED
    assert "remove the directory" in capsys.readouterr().err
    text = told(capsys, exits.OK, "undo", made, "--plan", plan_id, "--discard")
    assert text == f"DISCARDED {plan_id}  salvage {path.name}\n"


def test_a_repair_that_was_interrupted_shows_both_ways_on(tmp_path: Path) -> None:
    path = tmp_path / "with blanks-0"
    one = RepairRecord("ab12cd34", path, "reindex", RepairState.PENDING, 0, 10)
    first, *rest = pending_lines(one, Plan("reindex", (), path, (0, 0), None, (), {}))
    assert first.startswith("PENDING ab12cd34  reindex with blanks-0: interrupted")
    assert list(commands("\n".join(rest))) == [
        ["kdump", "reindex", os.fspath(path), "--apply"],
        ["kdump", "undo", os.fspath(path), "--apply"],
    ]


def test_every_state_of_a_backup_has_its_words() -> None:
    path = Path("orders-0")
    for state in RepairState:
        line = " ".join(backup_lines(RepairRecord("ab12cd34", path, None, state, None, 10), path))
        assert re.match(r"ab12cd34  unreadable plan of orders-0: [^;]+(; [^;]+)?; 10 bytes", line)


# --- JSON


def test_the_lines_that_scripts_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST))
    command = ("truncate-to-valid", path, "--format", "json")
    text = told(capsys, exits.PROBLEMS, *command)
    header, plan, summary = objects(text)
    assert (header["type"], header["schema"], header["command"]) == ("header", 1, command[0])
    assert plan.keys() >= PLAN
    assert (plan["type"], plan["lossy"], plan["partition"]) == ("plan", True, os.fspath(path))
    assert plan["space"] == {"new_bytes": 22, "tail_bytes": 1617}
    kinds = [step["step"] for step in plan["steps"]]  # type: ignore[attr-defined]
    assert {"line", "remove", "cut", "put"} == set(kinds)
    assert summary.keys() == SUMMARY
    assert (summary["exit"], summary["plans"], summary["receipts"]) == (exits.PROBLEMS, 1, 0)
    text = told(capsys, exits.REFUSED, *command, "--apply")
    assert of(text, "summary")["failed"] == 1
    text = told(capsys, exits.OK, *command, "--apply", "--confirm", str(plan["id"]))
    receipt, summary = of(text, "receipt"), of(text, "summary")
    assert receipt.keys() >= {*RECEIPT, "partition", "problems", "next_start"}
    assert (receipt["id"], receipt["loss"]) == (plan["id"], plan["loss"])
    assert (receipt["problems"], receipt["log_end"]) == (0, [200, 30])
    assert (summary["exit"], summary["receipts"], summary["failed"]) == (exits.OK, 1, 0)
    stored = json.loads((path / ".kdump" / str(plan["id"]) / "receipt.json").read_text())
    assert stored.items() <= receipt.items()
    text = told(capsys, exits.OK, "undo", path, "--format", "json")
    backup, summary = of(text, "backup"), of(text, "summary")
    assert (backup["id"], backup["state"]) == (plan["id"], "done")
    assert (summary["exit"], summary["backups"]) == (exits.OK, 1)


def test_no_key_or_value_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, DAMAGED, batches(LAST))
    for form in ("text", "json"):
        text = told(capsys, exits.PROBLEMS, "truncate-to-valid", path, "--format", form)
        assert "value 1" not in text
        assert b"value 1".hex() not in text


def test_the_directory_that_somebody_stands_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "orders-0").mkdir()
    monkeypatch.chdir(tmp_path / "orders-0")
    assert partition_name(Path()) == "orders-0"
    assert partition_name(Path("orders-1")) == "orders-1"
