"""``kdump convert-v0-v2`` as a shell sees it: plan, receipt, new directory, exit codes, text."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unicodedata import category

import pytest

from kdump.cli.main import main
from kdump.storage import liveness
from kdump.ui import exits, progress
from support import forge
from support.commands import Ran, kdump
from support.crashing.running import run
from support.crashing.seam import Call
from support.crashing.subjects import legacy
from support.damaged import batches, name
from support.forge import flip
from support.planning import left, restored

COMMAND = "convert-v0-v2"
ODD = "a\x1b[2J b\u202e"
_OPEN_FILES = liveness._open_files
HEX = re.compile(r"[0-9a-f]{32}")
CONVERTED = {"from", "records", "digest_before", "digest_after", "bytes_before", "bytes_after"}

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("unsearched")]


def write(top: Path, first: Sequence[bytes] | None = None, topic: str = "orders") -> Path:
    """A partition of a log with messages of magic 0 and 1, and of one with batches of magic 2."""
    segments = {0: legacy(0) if first is None else first, 100: batches(100)}
    return forge.write_partition(top, topic, 0, segments, interval=300)


def modern(top: Path, topic: str = "modern") -> Path:
    """A partition with nothing to convert."""
    return write(top, batches(0), topic)


def damaged(top: Path) -> Path:
    """One whose third message does not match its checksum."""
    messages = legacy(0)
    return write(top, [*messages[:2], flip(messages[2], -1), *messages[3:]], "damaged")


def converted(partition: Path) -> Ran:
    """Converts a partition in place."""
    ran = kdump(COMMAND, partition, "--apply", searching=False)
    assert (ran.code, ran.said) == (exits.OK, "")
    return ran


def told(capsys: pytest.CaptureFixture[str], code: int, *argv: str | Path) -> str:
    """What a command prints that ends with ``code`` and says nothing on standard error."""
    assert main([str(word) for word in argv]) == code
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def dumped(capsys: pytest.CaptureFixture[str], partition: Path) -> list[dict[str, Any]]:
    """The records as ``dump`` has them, but for what a conversion changes."""
    text = told(capsys, exits.OK, "dump", "--format", "json", "--records", partition)
    records = [json.loads(line) for line in text.splitlines()]
    return [
        {key: record[key] for key in ("offset", "key", "value", "headers")}
        | {"timestamp": -1 if record["timestamp"] is None else record["timestamp"]}
        for record in records
        if record["type"] == "record"
    ]


def magics(capsys: pytest.CaptureFixture[str], partition: Path) -> set[int]:
    text = told(capsys, exits.OK, "dump", "--format", "json", partition)
    lines = map(json.loads, text.splitlines())
    return {line["magic"] for line in lines if line["type"] == "batch"}


def words(text: str) -> str:
    """``text`` wrapped nowhere."""
    return " ".join(text.split())


def assert_fits(text: str) -> None:
    """No line is wider than a terminal, but for one that has a command or one long word."""
    for line in text.splitlines():
        assert len(line) <= 80 or "kdump" in line.split() or len(line.split()) == 1
        assert line == line.rstrip()


# --- in place


def test_a_plan_changes_nothing(tmp_path: Path) -> None:
    partition = write(tmp_path)
    before = left(tmp_path)
    ran = kdump(COMMAND, partition, searching=False)
    assert (ran.code, ran.said) == (exits.PROBLEMS, "")
    header, plan, summary = ran.lines
    assert (header["command"], header["schema"]) == (COMMAND, 1)
    assert (plan["command"], plan["arguments"], plan["lossy"]) == (COMMAND, [], False)
    assert plan["log_end"] == [200, 200]
    assert any("0.11" in note for note in plan["notes"])
    (step,) = [step for step in plan["steps"] if step["name"] == name(0, ".log")]
    recipe = step["recipe"]
    assert (recipe["from"], recipe["log"], recipe["part"]) == ("converted", name(0, ".log"), 0)
    assert (recipe["codec"], recipe["batch_bytes"]) == (None, 16384)
    assert HEX.fullmatch(recipe["digest"])
    assert plan["space"]["new_bytes"] >= step["size"] > 0
    assert not [step for step in plan["steps"] if step["name"].startswith(name(100, ""))]
    assert (summary["exit"], summary["plans"], summary["receipts"]) == (exits.PROBLEMS, 1, 0)
    assert left(tmp_path) == before


def test_it_is_carried_out_and_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = write(tmp_path)
    before, records = left(tmp_path), dumped(capsys, partition)
    ran = converted(partition)
    _, plan, receipt, summary = ran.lines
    assert receipt["id"] == plan["id"]
    assert receipt["converted"].keys() == {name(0, ".log")}
    log = receipt["converted"][name(0, ".log")]
    assert log.keys() >= CONVERTED
    (step,) = [step for step in plan["steps"] if step["name"] == name(0, ".log")]
    assert log["digest_before"] == log["digest_after"] == step["recipe"]["digest"]
    assert (log["from"], log["records"]) == (name(0, ".log"), step["recipe"]["records"])
    assert (log["bytes_before"], log["bytes_after"]) == (
        sum(map(len, legacy(0))),
        (partition / name(0, ".log")).stat().st_size,
    )
    assert (receipt["problems"], summary["receipts"]) == (0, 1)
    assert magics(capsys, partition) == {2}
    assert dumped(capsys, partition) == records
    again = kdump(COMMAND, partition, searching=False)
    assert (again.code, [plan["steps"] for plan in again.of("plan")]) == (exits.OK, [[]])
    assert kdump("undo", partition, "--apply", searching=False).code == exits.OK
    assert restored(tmp_path, before)


def test_its_other_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = write(tmp_path)
    ran = kdump("convert", partition, searching=False)
    assert ran.code == exits.PROBLEMS
    assert ran.lines[0]["command"] == COMMAND
    assert ran.ids == kdump(COMMAND, partition, searching=False).ids
    text = told(capsys, exits.PROBLEMS, "convert", partition)
    assert f"kdump {COMMAND} {partition} --apply" in text
    shown = told(capsys, exits.OK, "--help")
    assert f"  {COMMAND}  " in shown
    assert not re.search(r"^  convert  ", shown, re.MULTILINE)
    assert "kdump convert is the same command" in words(told(capsys, exits.OK, "help", COMMAND))


def test_the_number_of_processes_makes_no_difference(tmp_path: Path) -> None:
    partition = write(tmp_path)
    one, two = (kdump(COMMAND, partition, "--jobs", jobs, searching=False) for jobs in ("1", "2"))
    assert one.ids == two.ids


def test_the_options_are_part_of_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = write(tmp_path)
    options = ["--batch-bytes", "0", "--codec", "zstd"]
    ran = kdump(COMMAND, *options, partition, searching=False)
    (plan,) = ran.of("plan")
    assert plan["arguments"] == options
    assert {
        (step["recipe"]["codec"], step["recipe"]["batch_bytes"])
        for step in plan["steps"]
        if step["name"].endswith(".log")
    } == {("zstd", 0)}
    text = told(capsys, exits.PROBLEMS, COMMAND, *options, partition)
    command = shlex.join(["kdump", COMMAND, *options, str(partition), "--apply"])
    assert text.rstrip().endswith(command)
    text = told(capsys, exits.PROBLEMS, COMMAND, "--batch-bytes", "16384", partition)
    assert text.rstrip().endswith(shlex.join(["kdump", COMMAND, str(partition), "--apply"]))


def test_what_was_interrupted_goes_on_with_its_options(tmp_path: Path) -> None:
    partition = write(tmp_path)
    failed = False

    def around(call: Call, make: Callable[..., Any]) -> Any:
        nonlocal failed
        if call.method == "rename" and not failed and str(partition / name(0, "")) in str(call):
            failed = True
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return make(*call.arguments)

    argv = (COMMAND, "--batch-bytes", "0", partition, "--apply")
    ran = kdump(*argv, around=around, searching=False)
    assert ran.code == exits.INCOMPLETE, ran
    last = shlex.split(ran.said.strip().splitlines()[-1])
    assert last == ["kdump", *map(str, argv)]
    shown = run([COMMAND, str(partition)])
    assert (shown.code, "PENDING" in shown.out) == (exits.INCOMPLETE, True)
    done = kdump(*last[1:], searching=False)
    assert done.code == exits.OK, done
    (receipt,) = done.of("receipt")
    assert receipt["converted"].keys() == {name(0, ".log")}
    assert kdump(COMMAND, partition, searching=False).code == exits.OK


# --- to a new directory


def test_a_new_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition, output = write(tmp_path / "data"), tmp_path / "new"
    before, records = left(tmp_path / "data"), dumped(capsys, partition)
    ran = kdump(COMMAND, partition, "--output", output, searching=False)
    assert (ran.code, ran.said) == (exits.OK, "")
    header, receipt, summary = ran.lines
    target = output / "orders-0"
    assert (header["type"], header["command"]) == ("header", COMMAND)
    assert (receipt["partition"], receipt["target"]) == (str(partition), str(target))
    assert receipt["next"] == ["kdump", "verify", str(target)]
    ((log, *more),) = [segment["new_logs"] for segment in receipt["segments"]]
    assert not more
    assert log["digest_before"] == log["digest_after"]
    assert receipt["untouched"] == [name(100, ".log")]
    assert (summary["exit"], summary["partitions"], summary["nothing"], summary["failed"]) == (
        exits.OK,
        1,
        0,
        0,
    )
    stored = json.loads((target / ".kdump" / receipt["id"] / "receipt.json").read_text())
    assert stored["segments"] == receipt["segments"]
    assert left(tmp_path / "data") == before
    assert magics(capsys, target) == {2}
    assert dumped(capsys, target) == records
    assert kdump("verify", "--deep", target, searching=False).code == exits.OK
    again = kdump(COMMAND, target, "--output", tmp_path / "newer", searching=False)
    assert again.code == exits.OK
    assert [line["type"] for line in again.lines] == ["header", "nothing", "summary"]
    assert again.lines[1]["partition"] == str(target)
    assert not list(tmp_path.glob("newer/*"))


def search() -> None:
    liveness._open_files = _OPEN_FILES


def test_a_new_directory_beside_a_broker(tmp_path: Path) -> None:
    partition = write(tmp_path / "data")
    with (partition / name(100, ".log")).open("r+b"):
        argv = [COMMAND, str(partition), "--output", str(tmp_path / "new")]
        ran = run(argv, prepare=search, searching=True)
    assert ran.code == exits.OK, ran
    assert "note        a broker may be writing to the source" in ran.out


def test_of_a_log_directory_all_that_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top, output = tmp_path / "data", tmp_path / "new"
    for partition in (write(top), modern(top), damaged(top)):
        assert partition.is_dir()
    (top / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert main([COMMAND, str(top), "--output", str(output)]) == exits.REFUSED
    printed = capsys.readouterr()
    assert sorted(path.name for path in output.iterdir()) == ["orders-0"]
    assert printed.out.splitlines()[-1] == (
        "result      1 done; 1 refused or failed; nothing to do in 1 partition"
    )
    assert printed.err.startswith(f"kdump: refused: {top / 'damaged-0'}")


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = write(tmp_path / "data")
    (tmp_path / "new" / "orders-0").mkdir(parents=True)
    before = left(tmp_path)
    assert main([COMMAND, str(partition), "--output", str(tmp_path / "new")]) == exits.REFUSED
    assert "nothing is overwritten" in capsys.readouterr().err
    assert left(tmp_path) == before


def test_not_into_a_log_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = write(tmp_path / "data")
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    before = left(tmp_path)
    output = tmp_path / "data" / "new"
    assert main([COMMAND, str(partition), "--output", str(output)]) == exits.REFUSED
    assert "expected a place outside of log directories" in capsys.readouterr().err
    assert left(tmp_path) == before


# --- what is refused


@pytest.mark.parametrize("more", [[], ["--apply"], ["--output", "new"]], ids=" ".join)
@pytest.mark.parametrize("form", ["text", "json"])
def test_damage_is_refused_with_what_helps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    form: str,
    more: list[str],
) -> None:
    partition = damaged(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = left(tmp_path)
    assert main([COMMAND, str(partition), *more, "--format", form]) == exits.REFUSED
    printed = capsys.readouterr()
    assert "kdump truncate-to-valid" in printed.err
    assert "kdump salvage" in printed.err
    assert "PLAN" not in printed.out
    assert left(tmp_path) == before


def test_what_is_refused_holds_up_no_other(tmp_path: Path) -> None:
    sound, bad = write(tmp_path), damaged(tmp_path)
    ran = kdump(COMMAND, bad, sound, "--apply", searching=False)
    assert ran.code == exits.REFUSED
    (receipt,) = ran.of("receipt")
    assert receipt["partition"] == str(sound)
    assert (ran.lines[-1]["receipts"], ran.lines[-1]["failed"]) == (1, 1)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "Missing argument"),
        ([".", "--batch-bytes", "-1"], "--batch-bytes"),
        ([".", "--batch-bytes", "16KiB"], "--batch-bytes"),
        ([".", "--batch-bytes", "99999999999"], "--batch-bytes"),
        ([".", "--codec", "brotli"], "--codec"),
        ([".", "--output", "new", "--apply"], "--output"),
        ([".", "--output", "new", "--confirm", "12345678"], "--output"),
        ([".", "--output", "new", "--assume-stopped"], "--output"),
        ([".", "--output", "new", "--full-proof"], "--output"),
        ([name(0, ".log")], "give the directory that holds it"),
        ([name(0, ".log"), "--output", "new"], "give the directory that holds it"),
    ],
    ids=" ".join,
)
def test_wrong_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(write(tmp_path))
    before = left(tmp_path)
    assert main([COMMAND, *argv]) == exits.USAGE
    assert reason in capsys.readouterr().err
    assert left(tmp_path) == before


@pytest.mark.parametrize("more", [[], ["--output", "new"]], ids=" ".join)
def test_what_is_not_there_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([COMMAND, "nowhere-0", *more]) == exits.INCOMPLETE
    assert "nowhere-0" in capsys.readouterr().err


# --- text


def test_what_people_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    partition = write(tmp_path / "data")
    text = told(capsys, exits.PROBLEMS, COMMAND, partition)
    plan_id = text.split()[1]
    assert text.startswith(f"PLAN {plan_id}  {COMMAND} orders-0: nothing is changed yet\n")
    assert "loss" not in text.lower()
    assert re.search(
        r" result 1 log of message format v2 with the same \d+ records, \S+ KiB -> \S+ KiB; "
        rf"log end offset stays 200 .* steps 1 replace {name(0, '')}\.\{{log,timeindex,index\}}; "
        r"\S+ KiB -> \S+ KiB, \d+ records, digest [0-9a-f]{32} save ",
        words(text),
    )
    assert re.search(r" note [^.]*0\.11", words(text))
    assert_fits(text)
    text = told(capsys, exits.OK, COMMAND, partition, "--apply").partition("\nDONE")[2]
    assert re.search(
        r" converted 1 log, \S+ KiB -> \S+ KiB read back \d+ records, digest [0-9a-f]{32}: the "
        r"same as before checked 0 problems in a quick check ",
        words(text),
    )
    assert "digests of the records before and after" in words(text)
    assert_fits(text)
    assert told(capsys, exits.OK, COMMAND, partition) == "orders-0: nothing to do\n"


def test_what_people_read_of_a_new_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition, output = write(tmp_path / "data"), tmp_path / "new"
    text = told(capsys, exits.OK, COMMAND, partition, "--output", output)
    assert re.search(
        rf"^DONE [0-9a-f]{{8}} {COMMAND} {partition} -> {output / 'orders-0'}: \S+Z, \S+ s; the "
        r"source is unchanged converted 1 log, \S+ KiB -> \S+ KiB; \d+ old messages and "
        r"wrappers read back \d+ records, digest [0-9a-f]{32}: the same as before copied 1 "
        r"other log, byte for byte result log start offset 0, log end offset 200 .*checked 2 "
        rf"segments, every header and checksum: 0 problems proof \S+/receipt\.json in it: .* next "
        rf"kdump verify {output / 'orders-0'}$",
        words(text),
    )
    assert_fits(text)
    text = told(capsys, exits.OK, COMMAND, output / "orders-0", "--output", tmp_path / "newer")
    assert text == "orders-0: nothing to do\n"


def test_odd_names_and_no_keys_or_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = write(tmp_path / "data", topic=ODD)
    argvs: Iterator[list[str | Path]] = (
        [COMMAND, partition, *more, "--format", form]
        for more in ([], ["--output", tmp_path / "new"], ["--apply"])
        for form in ("text", "json")
    )
    for argv in argvs:
        with suppress(SystemExit):
            main([str(word) for word in argv])
        printed = capsys.readouterr()
        unsafe = {"Cc", "Cf", "Zl", "Zp", "Cs"}
        text = printed.out + printed.err
        assert text
        assert not [c for c in text if c != "\n" and category(c) in unsafe]
        assert "value 1" not in text
        assert "inner 1" not in text


# --- progress


@pytest.mark.parametrize("more", [[], ["--apply"], ["--output", "new"]], ids=" ".join)
def test_progress_comes_to_its_end_and_not_beyond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    partitions = [write(tmp_path / "data"), modern(tmp_path / "data"), damaged(tmp_path / "data")]
    monkeypatch.chdir(tmp_path)
    counts: list[int] = []
    ends: list[tuple[int, int | None]] = []

    class Counting(progress.Progress):
        def advance(self, count: int) -> None:
            counts.append(count)
            super().advance(count)

        def __exit__(self, *error: Any) -> None:
            ends.append((self.done, self.total))
            super().__exit__(*error)

    monkeypatch.setattr(progress, "Progress", Counting)
    main([COMMAND, *map(str, partitions), *more, "--jobs", "1"])
    ((done, total),) = ends
    assert total
    assert done == total == sum(counts)
    assert min(counts) >= 0
