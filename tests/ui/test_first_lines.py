"""The first word of a report: what is known, and the command that checks what is not."""

from __future__ import annotations

import fcntl
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import kdump.cli.main
from kdump.commands.scrub.scrub import Scrub
from kdump.ui import exits
from kdump.ui.folding import fold_texts, likeness
from support import forge
from support.damaged import RECIPES
from support.fixtures_loader import ROOT, copy_fixture
from support.forge_metadata import METADATA
from support.forged_starts import Forged
from support.long_samples import first_of
from support.resealing import places

pytestmark = pytest.mark.once

#: The first words, and the state that JSON has for each.
STATES = {
    "OK": "ok",
    "WARNING": "warning",
    "ERROR": "error",
    "CORRUPT": "error",
    "DO NOT START": "error",
    "NOT CHECKED": "not-checked",
    "INCOMPLETE": "incomplete",
}


class Cli:
    """Runs commands in this process: their lines, after a check that text and JSON agree."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def lines(self, *arguments: str | Path, code: int = exits.OK) -> list[str]:
        """The lines of a text report."""
        command = [str(argument) for argument in arguments]
        assert kdump.cli.main.main(command) == code
        return self.capsys.readouterr().out.splitlines()

    def state(self, *arguments: str | Path, code: int = exits.OK) -> str:
        """The first word of a report, after a check that JSON has its state."""
        first = self.lines(*arguments, code=code)[0]
        word = max((word for word in STATES if first.startswith(word)), key=len)
        assert first.startswith(f"{word:14}") and first[14] != " "
        *_, summary = map(json.loads, self.lines(*arguments, "--format", "json", code=code))
        assert summary["state"] == STATES[word]
        return word


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    copy_fixture("4.3.1/clean", Path("data"))
    return Path("data")


def recipe(name: str, target: Path) -> Path:
    (found,) = (each for each in RECIPES if each.name == name)
    return found.write(target)


def joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("kind", ["clean", "killed"])
@pytest.mark.parametrize("version", first_of(["4.3.1", "0.10.2.2", "2.8.2", "3.9.1"]))
@pytest.mark.slow
def test_ok_stands_only_over_what_was_read(version: str, kind: str, cli: Cli) -> None:
    path = ROOT / "brokers" / version / kind
    assert cli.state("verify", path) == "OK"
    assert cli.state("verify", "--quick", path) == "NOT CHECKED"
    assert cli.state("next-start", "--scan", path) == "OK"
    # A clean shutdown leaves nothing to recover, but in the metadata log of a KRaft node.
    known = kind == "clean" and not (path / METADATA).exists()
    assert cli.state("next-start", path) == ("OK" if known else "NOT CHECKED")


def test_the_words_of_an_all_clear(cli: Cli, data: Path) -> None:
    assert joined(cli.lines("verify", data)[:2]) == (
        "OK 22 partitions, 1,929 records: every checksum matches. Startup recovers 18.94 KiB and "
        "removes no valid record."
    )
    assert joined(cli.lines("next-start", "--scan", data)[:2]) == (
        "OK 22 partitions; only what recovery reads was read. Startup recovers 18.94 KiB and "
        "removes no valid record."
    )


def test_what_was_not_read_has_the_command_that_reads_it(cli: Cli, data: Path) -> None:
    lines = cli.lines("verify", "--quick", data)
    assert joined(lines).startswith(
        "NOT CHECKED 22 partitions: nothing wrong in what was read (names, small files, ends of "
        "logs and indexes). Startup recovers at least 18.94 KiB; it may remove records. check with "
        "kdump verify data data: log directory"
    )
    assert "check with  kdump verify data" in lines
    assert "check with  kdump next-start --scan data" in cli.lines("next-start", data)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["verify", "--quick"], ["--topic", "codec-*", "--exclude", "codec-none"]),
        (
            ["next-start"],
            ["--unclean", "--recovery-point=3", "--log-start=2", "--topic", "codec-*"],
        ),
        (["scrub"], ["--state", "a state"]),
    ],
    ids=lambda words: words[0],
)
def test_the_command_that_reads_the_rest_has_the_options_of_the_run(
    cli: Cli, data: Path, command: list[str], options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for the same partitions, and finds the state; here no scrub comes to a segment."""
    monkeypatch.setattr(Scrub, "read", lambda *_: None)
    text = joined(cli.lines(*command, *options, data))
    rest = text.partition("check with ")[2]
    scan = ["--scan"] if command == ["next-start"] else []
    assert rest.startswith(shlex.join(["kdump", command[0], *scan, *options, str(data)]))


def test_a_metadata_log_that_loses_records_is_not_ok(cli: Cli, data: Path) -> None:
    (log,) = (data / METADATA).glob("*.log")
    content = bytearray(log.read_bytes())
    content[places(bytes(content))[20][1] - 1] ^= 1
    log.write_bytes(content)
    (data / ".kafka_cleanshutdown").unlink()
    assert cli.state("next-start", data) == "NOT CHECKED"
    assert cli.state("next-start", "--scan", data, code=exits.PROBLEMS) == "DO NOT START"


def test_a_clean_directory_is_known_without_a_scan(cli: Cli) -> None:
    path = ROOT / "brokers" / "2.8.2" / "clean"
    lines = cli.lines("next-start", path)
    assert joined(lines[:2]) == (
        "OK 31 partitions, shut down cleanly; the contents of logs were not read. Startup recovers "
        "nothing and removes no valid record."
    )


@pytest.mark.slow
def test_a_start_that_replays_a_segment_depends_on_it(cli: Cli, tmp_path: Path) -> None:
    data = copy_fixture("2.8.2/clean", tmp_path / "data")
    max((data / "transactions-0").glob("*.snapshot")).write_bytes(bytes(8))
    assert cli.state("next-start", data) == "NOT CHECKED"
    assert cli.state("next-start", "--scan", data) == "OK"


@pytest.mark.slow
def test_an_error_is_one_at_any_depth(cli: Cli, data: Path) -> None:
    (data / "lost+found").mkdir()
    for command in (["verify"], ["verify", "--quick"], ["next-start"], ["next-start", "--scan"]):
        assert cli.state(*command, data, code=exits.PROBLEMS) == "DO NOT START"


@pytest.mark.slow
def test_a_warning_needs_the_depth_that_finds_errors(cli: Cli, tmp_path: Path) -> None:
    path = recipe("torn-last", tmp_path)
    assert cli.state("verify", path) == "WARNING"
    assert cli.state("verify", "--quick", path) == "NOT CHECKED"
    text = joined(cli.lines("verify", "--quick", path))
    assert text.startswith("NOT CHECKED 1 partition, warnings in 1: nothing worse in what was read")


def test_what_cannot_be_read_is_incomplete(cli: Cli, data: Path) -> None:
    assert cli.state("verify", data, "nosuch", code=exits.INCOMPLETE) == "INCOMPLETE"


def test_a_run_that_checked_no_byte_is_not_ok(cli: Cli, data: Path) -> None:
    assert cli.state("verify", data / "never-written-0") == "NOT CHECKED"
    first = joined(cli.lines("verify", data / "never-written-0")[:2])
    assert first.startswith("NOT CHECKED 1 partition: its logs hold no byte")


@pytest.mark.slow
def test_a_scrub_that_has_read_everything_says_so(cli: Cli, data: Path) -> None:
    command: list[str | Path] = ["scrub", "--state", "state", data]
    for _ in range(2):  # the second run reads nothing, because nothing is due
        assert cli.state(*command) == "OK"
    assert cli.state("verify", "--changed-since-last", "--state", "state", data) in (
        "OK",
        "NOT CHECKED",
    )


def test_the_result_counts_what_is_ok(cli: Cli, data: Path) -> None:
    (line,) = (line for line in cli.lines("verify", data) if line.startswith("result"))
    assert re.fullmatch(r"result      22 OK; \d[\d.]* s; nothing was changed", line)
    lines = cli.lines("verify", "--info", "--jobs", "2", data)
    (line,) = (line for line in lines if line.startswith("result"))
    assert re.fullmatch(
        r"result      22 OK; \d[\d.]* s, \d[\d,.]* \w+/s, 2 jobs; nothing was changed", line
    )
    *_, summary = map(json.loads, cli.lines("verify", "--format", "json", data))
    assert summary["severities"] == {"error": 0, "incomplete": 0, "warning": 0, "info": 27}


# --- causes that stop a start


def full_index(directory: Path) -> tuple[Path, Path]:
    """A killed directory with a partition whose recovery fills its index, and its configuration."""
    data, config = directory / "data", directory / "server.properties"
    for name in ("torn-last", "sound"):
        recipe(name, data)
    large = [forge.batch(number, [forge.record(b"v" * 3000)]) for number in range(20)]
    Forged("t-idxfull", segments={0: large}).write(data)
    (data / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    config.write_text("log.index.size.max.bytes=24\n")
    return data, config


def test_a_corrupt_log_that_stops_the_broker_is_not_left_as_it_is(cli: Cli, tmp_path: Path) -> None:
    """A sealed segment is corrupt, and the index of the last one has no room."""
    data, config = full_index(tmp_path)
    partition = data / "t-idxfull-0"
    for path in partition.glob("0*"):
        path.rename(partition / f"{20:020}{path.suffix}")
    last = [forge.batch(20 + number, [forge.record(b"v" * 3000)]) for number in range(20)]
    (partition / f"{20:020}.log").write_bytes(b"".join(last))
    sealed = [forge.batch(number, [forge.record(b"v")]) for number in range(20)]
    sealed[7] = forge.flip(sealed[7], 65)
    (partition / f"{0:020}.log").write_bytes(b"".join(sealed))
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\nt-idxfull 0 20\n")
    text = joined(cli.lines("verify", "--config", config, data, code=exits.PROBLEMS))
    assert "t-idxfull-0 stops the broker" in text
    assert "t-idxfull-0 batch-crc-mismatch" in text
    assert "leaves the log as it is" not in text


def test_a_cause_that_is_no_finding_has_an_entry_of_its_own(cli: Cli, tmp_path: Path) -> None:
    data, config = full_index(tmp_path)
    lines = cli.lines("verify", "--config", config, data, code=exits.PROBLEMS)
    text = joined(lines)
    assert text.startswith("DO NOT START The broker DOES NOT START. No record is lost. ")
    entries = [line for line in lines if line.startswith("ERROR  t-idxfull-0")]
    assert [entry.split() for entry in entries] == [
        ["ERROR", "t-idxfull-0", "stops", "the", "broker"]
    ]
    assert joined(lines[lines.index(entries[0]) + 1 :]).startswith(
        f"startup: the broker DOES NOT START: {data}/t-idxfull-0/00000000000000000000.log at "
    )
    assert "result 1 OK, 1 with errors, 1 with warnings" in text
    assert text.count("more index entries than there is room for") == 3
    why = (
        "more index entries than there is room for. Raise log.index.size.max.bytes, or "
        "segment.index.bytes where the topic has it"
    )
    assert f" t-idxfull-0: {why} " in text.partition(" plan ")[2]
    assert "; start the broker" not in text
    assert text.endswith(
        "check again; no broker starts with this log directory while the report names a cause: "
        f"kdump verify {data}"
    )
    arguments: list[str | Path] = ["next-start", "--scan", "--config", config, data]
    assert cli.state(*arguments, code=exits.PROBLEMS) == "DO NOT START"
    assert "t-idxfull-0: the broker DOES NOT START: " in joined(
        cli.lines(*arguments, code=exits.PROBLEMS)
    )
    left = joined(cli.lines("repair", "--config", config, data, code=exits.INCOMPLETE))
    assert f"LEFT t-idxfull-0: {why}" in left
    found = map(json.loads, cli.lines(*arguments, "--format", "json", code=exits.PROBLEMS))
    (line,) = (each for each in found if each.get("topic") == "t-idxfull")
    assert (line["cures"], line["left"]) == ([], {"reason": why, "remedy": None})


# --- equal entries


@pytest.mark.parametrize("command", [["verify"], ["next-start"]])
def test_equal_entries_are_counted_after_three(command: list[str], cli: Cli, data: Path) -> None:
    for number in range(69):
        (data / f"foreign{number}").mkdir()
    lines = cli.lines(*command, data, code=exits.PROBLEMS)
    text = joined(lines)
    assert "... and 66 more like this (--format json lists all)" in text
    assert text.count("expected a topic, '-'") <= 6
    assert len(lines) < 40
    found = [json.loads(line) for line in cli.lines(*command, data, "--format", "json", code=4)]
    (start,) = found[-1]["next_starts"]
    assert len(start["reasons"]) == 69
    if command == ["verify"]:
        assert sum(line.get("code") == "foreign-directory" for line in found) == 69


def test_partitions_with_equal_findings_are_counted_after_three(cli: Cli, data: Path) -> None:
    lost = [path for path in data.glob("*-0") if path.name != METADATA][:9]
    for path in lost:
        min(path.glob("*.index")).unlink()
    text = joined(cli.lines("verify", data))
    assert text.count(" index-missing 00000000000000000000.log: ") == 3
    assert "... and 6 more like this (--format json lists all)" in text
    found = [json.loads(line) for line in cli.lines("verify", data, "--format", "json")]
    assert sum(line.get("code") == "index-missing" for line in found) == 9


def test_the_metadata_log_is_counted_with_the_others(cli: Cli, data: Path) -> None:
    for path in data.glob("*/partition.metadata"):
        path.write_bytes(b"")
    lines = cli.lines("verify", data, code=exits.PROBLEMS)
    assert sum(line.startswith("ERROR ") for line in lines) == 3
    assert "... and 19 more like this (--format json lists all)" in joined(lines)


def test_entries_that_differ_in_more_than_names_are_all_listed() -> None:
    texts = [f"t-{number}: expected {number % 2}" for number in range(8)]
    alike = [likeness(text, f"t-{number}") for number, text in enumerate(texts)]
    assert list(fold_texts(texts, alike)) == [
        *texts[:5],
        "... and 1 more like this (--format json lists all)",
        texts[5],
        "... and 1 more like this (--format json lists all)",
    ]


# --- what the first sentence claims


def test_a_running_broker_beside_it_takes_no_warning_away(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    copy_fixture("4.3.1/clean", Path("running"))
    recipe("crc-sealed", Path("bad"))
    Path("bad/meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    alone = joined(cli.lines("verify", "bad", code=exits.PROBLEMS)[:3])
    assert alone.startswith("DO NOT START At most 10 records of crc-sealed-0 are corrupt. If the ")
    with Path("running/.lock").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "kdump", "verify", "running", "bad"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert " ".join(done.stdout.split()).startswith(alone.partition("VALID")[0])
    assert "broker live" in " ".join(done.stdout.split())


def test_what_was_not_read_bounds_no_loss(cli: Cli, tmp_path: Path) -> None:
    path = recipe("torn-sealed", tmp_path)
    whole, quick = (
        joined(cli.lines("verify", *depth, path, code=exits.PROBLEMS)[:3])
        for depth in ((), ("--quick",))
    )
    assert "torn-sealed-0 are corrupt. " in whole
    assert "torn-sealed-0 are corrupt, as far as was read. " in quick


def test_a_start_that_fails_removes_records_only_later(cli: Cli, tmp_path: Path) -> None:
    for name in ("below", "crc-sealed"):
        recipe(name, tmp_path / "data")
    text = joined(cli.lines("verify", tmp_path / "data", code=exits.PROBLEMS)[:5])
    assert "The broker DOES NOT START. Once that is repaired, a startup also removes 160 " in text
