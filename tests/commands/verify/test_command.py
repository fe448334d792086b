"""``kdump verify``: what it prints, its exit codes, and that it leaves everything as it was."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import re
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import kdump.cli.main
from bench import directory
from kdump.audit.codes import CODES
from kdump.audit.verdicts.verdict import Verdict
from kdump.format.lines.shell import shell_text
from kdump.ui import exits
from kdump.ui.verdicts.json_lines import JsonReport
from support import forge, forge_metadata
from support.crashing.running import run
from support.damaged import RECIPES, Recipe
from support.directory_state import state
from support.fixtures_loader import copy_fixture
from support.forge_metadata import METADATA
from support.long_samples import first_of
from support.recipes_directory import RECIPES as DIRECTORY_RECIPES
from support.resealing import places

pytestmark = pytest.mark.once

GAP = "offsets-missing"
NOTES = {name for name, code in CODES.items() if code.severity.value == "info"}


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return directory


def recipe(title: str) -> Recipe:
    (one,) = [recipe for recipe in RECIPES if recipe.name == title]
    return one


class Cli:
    """Runs ``kdump verify`` in this process and keeps what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: str | Path, code: int, wrong: Path | None = None) -> list[str]:
        """The lines of a run that ends with ``code``.

        Standard error has one line, of the path ``wrong``, and nothing without one.
        """
        assert kdump.cli.main.main(["verify", *map(str, arguments)]) == code
        printed = self.capsys.readouterr()
        if wrong is None:
            assert printed.err == ""
        else:
            assert printed.err.startswith(f"kdump: {wrong}: ")
            assert printed.err.count("\n") == 1
        return printed.out.splitlines()

    def json(
        self, *arguments: str | Path, code: int, wrong: Path | None = None
    ) -> list[dict[str, Any]]:
        """The objects of a run in JSON."""
        lines = self.text("--format", "json", *arguments, code=code, wrong=wrong)
        return [json.loads(line) for line in lines]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)


# --- exit codes


@pytest.mark.parametrize("one", first_of(RECIPES, 30, every=2), ids=lambda one: one.name)
def test_a_recipe_has_its_exit_code_and_codes(one: Recipe, cli: Cli, tmp_path: Path) -> None:
    severities = {CODES[name].severity.value for name in one.expected}
    code = exits.OK
    if "incomplete" in severities:
        code = exits.INCOMPLETE
    elif "error" in severities:
        code = exits.PROBLEMS
    options = ["--deep"] if one.deep else []
    lines = cli.json(*options, one.write(tmp_path), code=code)
    findings = [line["code"] for line in lines if line["type"] == "finding"]
    if GAP not in one.expected:  # a note, where old messages leave one before the second segment
        findings = [name for name in findings if name != GAP]
    assert sorted(findings) == sorted(one.expected)
    kinds = [line["type"] for line in lines]
    assert kinds == ["header", *["finding"] * kinds.count("finding"), "forecast", "summary"]
    assert lines[-1]["exit"] == code


def test_warnings_fail_on_request(cli: Cli, tmp_path: Path) -> None:
    directory = recipe("torn-last").write(tmp_path)
    cli.text(directory, code=exits.OK)
    cli.text("--fail-on", "warning", directory, code=exits.PROBLEMS)


def test_notes_never_fail(cli: Cli, tmp_path: Path) -> None:
    cli.text("--fail-on", "warning", recipe("zeros-last").write(tmp_path), code=exits.OK)


def test_a_missing_path_is_incomplete_and_the_rest_is_judged(cli: Cli, tmp_path: Path) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    missing = tmp_path / "missing-0"
    lines = cli.json(missing, directory, code=exits.INCOMPLETE, wrong=missing)
    findings = [line["code"] for line in lines if line["type"] == "finding"]
    assert findings == ["vanished", "batch-crc-mismatch"]
    assert lines[0]["liveness"][0] is None
    assert lines[0]["liveness"][1]["state"] == "stopped"
    assert lines[-1]["partitions"] == 1


def test_an_empty_directory_is_not_sound(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    path.mkdir()
    assert cli.text(path, code=exits.INCOMPLETE, wrong=path) == []


def test_a_file_of_another_kind_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recipe("sound").write(tmp_path) / "partition.metadata"
    assert kdump.cli.main.main(["verify", str(path)]) == exits.USAGE
    assert "partition metadata" in capsys.readouterr().err


# --- text


def test_a_log_directory_worst_first(cli: Cli, log_directory: Path) -> None:
    for title in ("crc-sealed", "index-zeros", "sound", "torn-last"):
        recipe(title).write(log_directory)
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    text = " ".join(" ".join(lines).split())
    assert text.startswith(
        "DO NOT START At most 10 records of crc-sealed-0 are corrupt. If the broker starts now, it "
        "also removes 160 VALID records of crc-sealed-0. "
        f"2 of 4 partitions are OK. {log_directory}: log directory of "
        "node 1, 4 partitions, no clean shutdown file; "
        "broker stopped: "
    )
    shown = [line.split() for line in lines if re.match(r"[A-Z]+ ", line)][1:]
    assert shown == [
        ["ERROR", "crc-sealed-0", "batch-crc-mismatch"],
        ["WARN", "torn-last-0", "torn-tail"],
    ]
    assert "offsets 30..39" in text
    assert "meaning     kdump explain batch-crc-mismatch torn-tail" in lines
    assert "checked 4 partitions, 8 segments, " in text
    assert "78 batches, 780 records" in text  # one is damaged, one torn
    assert re.search(
        r" result 2 OK, 1 with errors, 1 with warnings; \d[\d.]* s; nothing was changed plan 1 ",
        text,
    )
    assert cli.json(log_directory, code=exits.PROBLEMS)[-1]["severities"]["info"] == 1


def test_notes_are_listed_on_request(cli: Cli, log_directory: Path) -> None:
    recipe("index-zeros").write(log_directory)
    lines = cli.text("--info", log_directory, code=exits.OK)
    assert "INFO   index-zeros-0 index-padded" in lines
    lines = cli.text(log_directory, code=exits.OK)
    assert not any(line.startswith("INFO") for line in lines)


def test_one_partition_segment_by_segment(cli: Cli, tmp_path: Path) -> None:
    lines = cli.text(recipe("crc-sealed").write(tmp_path), code=exits.PROBLEMS)
    heading = " ".join(" ".join(lines[:5]).split())
    assert re.search(
        r"crc-sealed-0: 2 segments, .* KiB, offsets 0\.\.199; broker stopped:", heading
    )
    rows = [line.split() for line in lines if ".log " in line]
    assert [row[3:] for row in rows] == [["ERROR", "0..99"], ["OK", "100..199"]]
    assert "    ERROR  batch-crc-mismatch" in lines
    assert "configs     from Kafka's defaults" in lines


def test_a_sound_run_says_what_it_covered(cli: Cli, tmp_path: Path) -> None:
    arguments = "--jobs", "1", recipe("sound").write(tmp_path)
    text = " ".join(" ".join(cli.text(*arguments, code=exits.OK)).split())
    assert "checked 1 partition, 2 segments, " in text
    assert (
        "20 batches, 200 records: every header and checksum (--deep reads the records too)" in text
    )
    assert re.search(r" result 1 OK; \d[\d.]* s; nothing was changed$", text)
    assert "kdump explain" not in text
    text = " ".join(" ".join(cli.text("--info", *arguments, code=exits.OK)).split())
    assert re.search(
        r" result 1 OK; \d[\d.]* s, \d[\d,.]* \w+/s, 1 job; nothing was changed$", text
    )


def test_deep_says_that_records_were_read(cli: Cli, tmp_path: Path) -> None:
    lines = cli.text("--deep", recipe("sound").write(tmp_path), code=exits.OK)
    assert "every header, checksum and record" in " ".join(" ".join(lines).split())


def test_lines_fit_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for one in RECIPES:
        one.write(tmp_path / "d")
    monkeypatch.chdir(tmp_path)
    lines = cli.text("--info", "--deep", "d", code=exits.INCOMPLETE)
    assert [line for line in lines if len(line) > 80] == []


def test_three_problems_fit_a_screen(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A flipped bit, a torn end of a log that was closed cleanly, an index entry that misleads."""
    monkeypatch.chdir(tmp_path)
    data = Path("data")
    data.mkdir()
    logs = directory.make(data, 5)
    flipped, torn = logs[1], logs[7]
    flip(flipped, 60_000)
    os.truncate(torn, torn.stat().st_size - 700)
    flip(logs[12].with_suffix(".index"), 7)
    lines = cli.text(data, code=exits.PROBLEMS)
    plan = next(number for number, line in enumerate(lines) if line.startswith("plan "))
    assert plan <= 25
    assert len(lines) - plan <= 12
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("DO NOT START  ")
    told = [line.split()[1:] for line in lines if line.startswith("ERROR")]
    assert told == [
        ["topic-0000-1", "torn-tail-clean"],  # the start loses sound records: worst
        ["topic-0000-0", "batch-crc-mismatch"],
        ["topic-0000-3", "index-misplaced"],
    ]
    assert "       also: recovery-point-beyond-end, high-watermark-beyond-end" in lines
    assert "result      2 OK, 3 with errors" in "\n".join(lines)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_damaged_partition_shows_its_sound_neighbours(cli: Cli, tmp_path: Path) -> None:
    logs = directory.make(tmp_path, 1)
    flip(logs[1], 60_000)
    text = " ".join(" ".join(cli.text(logs[1].parent, code=exits.PROBLEMS)).split())
    assert "valid to 1763; valid again from position 65168, offset 1911" in text
    when = "2023-11-14T22:13:20Z"
    assert f"lost at most 147 records: 1764..1910 ({when}) consumers stop at 1764" in text
    assert "can seek to 1911" in text


def test_repeats_are_told(cli: Cli, tmp_path: Path) -> None:
    same = [forge.batch(0, [forge.record()])] * 13
    directory = Recipe("twice", [], same, [b""], {"00000000000000000000.index": b""}).write(
        tmp_path
    )
    lines = cli.text(directory, code=exits.PROBLEMS)
    assert lines.count("    ERROR  offsets-not-increasing") == 8
    assert "4 more of these in this file" in " ".join(" ".join(lines).split())
    assert cli.json(directory, code=exits.PROBLEMS)[-1]["severities"]["error"] == 12


def test_quiet_is_silent_on_success(cli: Cli, tmp_path: Path) -> None:
    sound = recipe("sound").write(tmp_path)
    torn = recipe("torn-last").write(tmp_path)
    damaged = recipe("crc-sealed").write(tmp_path)
    assert cli.text("--quiet", sound, torn, code=exits.OK) == []
    assert cli.text("--quiet", "--format", "json", sound, code=exits.OK) == []
    assert len(cli.text("--quiet", damaged, code=exits.PROBLEMS)) > 3
    lines = cli.json("--quiet", damaged, code=exits.PROBLEMS)
    assert [line["type"] for line in lines] == ["header", "finding", "forecast", "summary"]


def test_colours_are_for_terminals(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    assert not any("\x1b" in line for line in cli.text(directory, code=exits.PROBLEMS))
    monkeypatch.setattr("click._compat.isatty", lambda _: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert any("\x1b[31m" in line for line in cli.text(directory, code=exits.PROBLEMS))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("\x1b" in line for line in cli.text(directory, code=exits.PROBLEMS))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not any("\x1b" in line for line in cli.text(directory, code=exits.PROBLEMS))


def test_a_partition_shows_what_stands_at_the_top_of_its_directory_once(
    cli: Cli, log_directory: Path
) -> None:
    paths = [recipe(title).write(log_directory) for title in ("sound", "gaps")]
    (log_directory / "lost+found").mkdir()
    lines = cli.text(*paths, code=exits.PROBLEMS)
    assert lines.count("ERROR  foreign-directory") == 1
    text = " ".join(" ".join(lines).split())
    assert text.count(" startup the broker DOES NOT START: ") == 2


def test_a_partition_that_stands_twice_is_not_sound(cli: Cli, log_directory: Path) -> None:
    recipe("sound").write(log_directory)
    (log_directory / "meta.properties").write_text("version=0\nbroker.id=1\n")
    (log_directory / "sound-00").mkdir()
    text = "\n".join(cli.text(log_directory, code=exits.PROBLEMS))
    assert "result      1 OK, 1 with errors" in text


# --- JSON


def test_the_fields_of_every_line(cli: Cli, tmp_path: Path) -> None:
    directory = recipe("crc-sealed").write(tmp_path)
    first_bytes = (directory / "00000000000000000000.log").stat().st_size
    total = sum(path.stat().st_size for path in directory.glob("*.log"))
    header, finding, forecast, summary = cli.json("--jobs", "2", directory, code=exits.PROBLEMS)
    assert forecast == {
        "type": "forecast",
        "path": str(directory),
        "topic": "crc-sealed",
        "partition": 0,
        "last_stable_offset": 200,
        "open_transaction": None,
        "outcome": "starts",
        "reasons": [],
        "log_start_offset": 0,
        "log_end_offset": 30,
        "segments": [0],
        "cut": {"segment": 0, "position": finding["position"], "offset": 30},
        "cuts": [
            {
                "segment": 0,
                "position": finding["position"],
                "offset": 30,
                "size": first_bytes - finding["position"],
            }
        ],
        "recovered_segments": [0],
        "recovery": [{"segment": 0, "reason": "no-recovery-point"}],
        "deleted_segments": [100],
        "deleted_bytes": total - finding["position"],
        "replaced": [],
        "reads_bytes": forecast["reads_bytes"],
        "rereads_bytes": 0,
        "lost": {
            "sound": 160,
            "unreadable": 10,
            "first_offset": 30,
            "last_offset": 199,
            "first_timestamp": forge.TIMESTAMP + 4_000,
            "last_timestamp": forge.TIMESTAMP + 109_000,
        },
        "snapshots_lost": [],
        "exact": True,
        "release": None,
        "set_aside": None,
        "lost_now": {
            "records": 10,
            "first_offset": 30,
            "last_offset": 39,
            "first_timestamp": forge.TIMESTAMP + 3_000 - 1_000,
            "last_timestamp": forge.TIMESTAMP + 4_000,
        },
        "cures": [
            {"cure": "replica", "option": "--from REPLICA"},
            {"cure": "refetch", "option": "--refetch"},
            {"cure": "drop", "option": "--only-copy"},
            {"cure": "as-broker", "option": "--as-broker"},
        ],
        "left": {
            "reason": "valid batches follow corrupt ones",
            "remedy": ["kdump", "salvage", str(directory), "--output", "DIR"],
        },
    }
    assert header == {
        "type": "header",
        "schema": 1,
        "command": "verify",
        "version": header["version"],
        "paths": [str(directory)],
        "depth": "default",
        "deep": False,
        "liveness": [{**header["liveness"][0], "state": "stopped", "pid": None}],
    }
    assert set(header["liveness"][0]) == {"state", "reason", "pid", "uninspected"}
    log = (directory / "00000000000000000000.log").read_bytes()
    size = len(log) // 10
    assert finding == {
        "type": "finding",
        "code": "batch-crc-mismatch",
        "severity": "error",
        "path": str(directory / "00000000000000000000.log"),
        "position": finding["position"],
        "size": finding["size"],
        "offsets": {"first": 30, "last": 39},
        "detail": finding["detail"],
        "remedy": ["kdump", "salvage", str(directory), "--output", "DIR"],
        "repeats": 0,
    }
    assert abs(finding["position"] - 3 * size) < size
    assert set(finding["detail"]) == {"expected", "found"}
    assert summary == {
        "type": "summary",
        "exit": 4,
        "depth": "default",
        "deep": False,
        "partitions": 1,
        "partitions_total": 1,
        "segments": 2,
        "bytes": total,
        "bytes_total": total,
        "batches": 19,
        "control_batches": 0,
        "records": 190,
        "uncounted_wrappers": 0,
        "severities": {"error": 1, "incomplete": 0, "warning": 0, "info": 0},
        "codes": {"batch-crc-mismatch": 1},
        "seconds": summary["seconds"],
        "jobs": 2,
        "limit_rate": None,
        "verdict": "error",
        "state": "error",
        "losses": {
            "now": 10,
            "now_partitions": 1,
            "now_exact": True,
            "next_start": 160,
            "next_start_partitions": 1,
            "next_start_exact": True,
            "outcome": "starts",
            "strays": 0,
        },
        "next_starts": [],
    }


def test_notes_are_always_in_the_json(cli: Cli, tmp_path: Path) -> None:
    lines = cli.json(recipe("zeros-last").write(tmp_path), code=exits.OK)
    assert lines[1]["code"] in NOTES


def test_names_never_leave_raw(cli: Cli, log_directory: Path) -> None:
    name = os.fsdecode(b"a\x1b[31m\xe2\x80\xae\xff-0")
    recipe("crc-sealed").write(log_directory).rename(log_directory / name)
    text = "\n".join(cli.text(log_directory, code=exits.PROBLEMS))
    assert "a\\x1b[31m\\u202e\\udcff-0" in text
    lines = cli.text("--format", "json", log_directory, code=exits.PROBLEMS)
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines)
    finding = json.loads(lines[1])
    assert "path" not in finding
    path = base64.b64decode(finding["path_base64"])
    assert path == os.fsencode(log_directory / name / "00000000000000000000.log")


def test_no_key_or_value_is_ever_shown(cli: Cli, log_directory: Path) -> None:
    for one in RECIPES:
        one.write(log_directory)
    for form in ("text", "json"):
        arguments = ["--deep", "--info", "--format", form]
        lines = cli.text(*arguments, log_directory, code=exits.INCOMPLETE)
        assert not re.search(r"value \d|\bplain\b", "\n".join(lines))


# --- evidence


@pytest.mark.parametrize("form", ["text", "json"])
def test_everything_stays_as_it_was(form: str, cli: Cli, log_directory: Path) -> None:
    for one in RECIPES:
        one.write(log_directory)
    before = state(log_directory)
    cli.text("--deep", "--format", form, log_directory, code=exits.INCOMPLETE)
    assert state(log_directory) == before


@pytest.mark.parametrize("command", ["verify", "next-start"])
def test_a_pattern_that_matches_no_topic_is_a_mistake(
    command: str, log_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe("sound").write(log_directory)
    arguments = [command, "--topic", "so*", "--topic", "paymets", str(log_directory)]
    assert kdump.cli.main.main(arguments) == exits.USAGE
    assert "--topic paymets: expected a pattern that some topic matches" in capsys.readouterr().err


def test_a_pattern_may_go_with_a_directory_without_partitions(
    log_directory: Path, cli: Cli
) -> None:
    recipe("sound").write(log_directory)
    empty = log_directory.parent / "empty"
    empty.mkdir()
    (empty / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    cli.text("--topic", "payments", empty, code=exits.OK)
    cli.text("--topic", "payments", log_directory / "sound-0", code=exits.OK)
    cli.text("--topic", "so*", empty, log_directory, code=exits.OK)


def test_a_transaction_that_hung_before_the_broker_stopped_is_an_error(
    log_directory: Path, cli: Cli, tmp_path: Path
) -> None:
    """What holds committed readers is always shown; the times of files give its age."""
    opened = forge.batch(
        3, [forge.record()], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    before, behind = (forge.batch(at, [forge.record()] * 3) for at in (0, 4))
    path = forge.write_partition(log_directory, "late", 0, {0: [before, opened, behind]})
    config = tmp_path / "server.properties"
    config.write_text("transaction.max.timeout.ms=60000\n")
    (log_directory / "replication-offset-checkpoint").write_bytes(forge.checkpoint([]))
    for minutes, code in ((7, exits.PROBLEMS), (5, exits.OK)):
        written = time.time() - 60 * minutes
        os.utime(path / f"{0:020d}.log", (written, written))
        printed = " ".join(cli.text(path, "--config", config, code=code))
        assert ("transaction-hanging" in printed) is (code == exits.PROBLEMS)
        assert (
            "last stable offset 3: the open transaction of producer 7, epoch 0, holds it since "
            "2023-11-14T22:13:20.000Z"
        ) in " ".join(printed.split())
        assert "at most 4 records wait for its end" in " ".join(printed.split())


def test_a_late_transaction_comes_with_the_command_that_aborts_it(
    log_directory: Path, cli: Cli, tmp_path: Path
) -> None:
    """The broker's last sign of life, a marker, is an hour behind the transaction."""
    hour = 3_600_000
    opened = forge.batch(
        0, [forge.record()], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
    )
    others = [
        forge.marker(offset, 8, commit=True, timestamp=forge.TIMESTAMP + offset * hour)
        for offset in (1, 2)
    ]
    path = forge.write_partition(log_directory, "late", 0, {0: [opened, *others]})
    command = (
        "do: kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic late --partition 0 "
        "--start-offset 0"
    )
    for target in (path, log_directory):
        printed = cli.text(target, code=exits.OK)
        assert any(
            line.lstrip().startswith(("WARN   transaction-late", "WARN   late-0"))
            for line in printed
        )
        assert command in [line.strip() for line in printed]
    config = tmp_path / "server.properties"
    config.write_text("transaction.max.timeout.ms=7200000\n")
    assert command not in "\n".join(cli.text("--config", config, path, code=exits.OK))
    config.write_text("")
    assert command in "\n".join(cli.text("--config", config, path, code=exits.PROBLEMS))


def test_a_directory_is_judged_once_however_it_is_spelled(
    log_directory: Path, cli: Cli, tmp_path: Path
) -> None:
    partition = recipe("sound").write(log_directory)
    link = tmp_path / "link"
    link.symlink_to(log_directory)
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={log_directory}\n")
    for options in ([], ["--config", str(config)]):
        for paths in ([log_directory, link], [link / ".." / "data", link, link]):
            printed = " ".join(" ".join(cli.text(*options, *paths, code=exits.OK)).split())
            assert printed.count("log directory") == 1
            assert "checked 1 partition, 2 segments" in printed
        cli.text(*options, link / partition.name, log_directory, code=exits.OK)


# --- lost now, and at the next start


def test_lost_records_are_an_error_though_the_next_start_loses_no_more(
    cli: Cli, log_directory: Path
) -> None:
    recipe("crc-sealed").write(log_directory)
    (log_directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    assert lines[0].startswith("CORRUPT       At most 10 records of crc-sealed-0 are corrupt. ")
    text = " ".join(" ".join(lines).split())
    assert "; removes no valid record disk " in text
    assert "no record is" not in text.lower()
    losses = cli.json(log_directory, code=exits.PROBLEMS)[-1]["losses"]
    assert (losses["now"], losses["next_start"]) == (10, 0)


def test_a_broker_without_another_log_directory_exits(
    cli: Cli, log_directory: Path, tmp_path: Path
) -> None:
    path = recipe("sound").write(log_directory)
    (path / "leader-epoch-checkpoint").write_text("7\n0\n")
    text = " ".join(" ".join(cli.text(log_directory, code=exits.PROBLEMS)).split())
    assert "a broker that has no other log directory EXITS" in text
    config = tmp_path / "server.properties"
    for others, ends, words in (
        ("", True, "the broker EXITS"),
        (f",{tmp_path}/other", False, "the broker continues with its other directories"),
    ):
        config.write_text(f"log.dirs={log_directory}{others}\n")
        arguments = "--config", config, log_directory
        assert words in " ".join(" ".join(cli.text(*arguments, code=exits.PROBLEMS)).split())
        (start,) = cli.json(*arguments, code=exits.PROBLEMS)[-1]["next_starts"]
        assert start["ends_broker"] is ends


# --- what to do


def test_a_log_directory_ends_in_a_numbered_plan(cli: Cli, log_directory: Path) -> None:
    for title in ("crc-sealed", "torn-last", "sound"):
        recipe(title).write(log_directory)
    damaged, torn = log_directory / "crc-sealed-0", log_directory / "torn-last-0"
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    plan = lines[next(n for n, line in enumerate(lines) if line.startswith("plan ")) :]
    commands = [line.strip() for line in plan if line.strip().startswith("kdump ")]
    assert commands == [
        f"kdump salvage {damaged} --output DIR",
        f"kdump truncate-to-valid {torn}",
        f"kdump verify {log_directory}",
    ]
    text = " ".join(" ".join(plan).split())
    assert text.startswith(
        "plan 1 if another replica of crc-sealed-0 is in sync, start its broker first "
        "2 crc-sealed-0:"
    )
    assert ", without at most 10 corrupt records; " in text
    assert not any("do: kdump verify" in line for line in lines)


def test_the_plan_for_a_damaged_metadata_log(cli: Cli, tmp_path: Path) -> None:
    """No client reads it, no repair is of it, and the strays that follow have one step."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for path in (data / METADATA).glob("*.checkpoint"):
        path.unlink()
    (log,) = (data / METADATA).glob("*.log")
    flip(log, places(log.read_bytes())[20][1] - 1)
    for path in (data, data / METADATA):
        text = " ".join(" ".join(cli.text(path, code=exits.PROBLEMS)).split())
        assert "At most 9 records of __cluster_metadata-0 are corrupt. " in text
        assert not {"consumers", "salvage", "truncate-to-valid"} & set(text.split())
    _, plan = " ".join(" ".join(cli.text(data, code=exits.PROBLEMS)).split()).split(" plan 1 ")
    assert plan == (
        "if another controller of the quorum is in sync, start that controller first "
        f"2 {METADATA}: no command repairs it: copy the log directory before a broker starts on it "
        "kdump explain batch-crc-mismatch "
        "3 __consumer_offsets-0, __consumer_offsets-1, __transaction_state-0 and 1 other: a "
        "startup on the truncated metadata log renames them to -stray. Their own files need no "
        f"repair 4 check again; start the broker unless it says DO NOT START: "
        f"kdump verify {data}"
    )


def test_partitions_that_lack_indexes_alone_share_a_command(cli: Cli, log_directory: Path) -> None:
    for name in ("a-0", "b-0"):
        path = recipe("sound").write(log_directory).rename(log_directory / name)
        next(path.glob("*.index")).unlink()
    lines = cli.text(log_directory, code=exits.OK)
    assert lines[-4:] == [
        "plan        1 can wait: rebuild indexes or small files of a-0, b-0:",
        f"              kdump reindex {log_directory}",
        "            2 check again; start the broker unless it says DO NOT START:",
        f"              kdump verify {log_directory}",
    ]


def test_an_error_that_only_explain_is_for_has_its_step(cli: Cli, log_directory: Path) -> None:
    for title in ("overlap", "codec-5", "sound"):
        recipe(title).write(log_directory)
    for title in ("overlap", "codec-5"):  # what is no error has no step
        next((log_directory / f"{title}-0").glob("*.index")).unlink()
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    plan = lines[next(n for n, line in enumerate(lines) if line.startswith("plan ")) :]
    text = " ".join(" ".join(plan).split())
    steps = [
        "plan 1 overlap-0: set the fields that no checksum covers, where the log leaves them one "
        f"value. No record is lost: kdump repair {log_directory} --only field",
        "2 codec-5-0: batch-codec-unknown in 00000000000000000000.log. Seek consumers past "
        "the batch: kdump explain batch-codec-unknown",
        "3 overlap-0: segments-overlap in 00000000000000000000.log. If another replica is in sync, "
        "start its broker first: kdump explain segments-overlap",
        "4 can wait: rebuild indexes or small files of codec-5-0, overlap-0: "
        f"kdump reindex {log_directory}",
        "5 check again; start the broker unless it says DO NOT START: "
        f"kdump verify {log_directory}",
    ]
    assert text == " ".join(steps)


@pytest.mark.nightly
def test_the_plan_has_the_command_of_each_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Unless a copy of the sound batches, or the end of a repair, goes first."""
    found = 0
    for written in DIRECTORY_RECIPES:
        with TemporaryDirectory() as scratch:
            written.write(Path(scratch))
            printed = []
            for form in ("json", "text"):
                kdump.cli.main.main(["verify", "--format", form, "--progress", "none", scratch])
                printed.append(capsys.readouterr().out)
            errors = [
                shell_text(line["remedy"])
                for line in map(json.loads, printed[0].splitlines())
                if line["type"] == "finding" and line["severity"] == "error" and line["remedy"]
            ]
        repairs = {command for command in errors if not command.startswith("kdump explain ")}
        plan = " ".join(printed[1].partition("\nplan ")[2].split())
        whole = f"kdump reindex {scratch} "  # of several partitions
        first = [f"kdump salvage {scratch}", "finish the repair", f"kdump verify {scratch} "]
        assert not errors or first[-1].strip() in plan, (written.name, plan)
        if not any(step in plan for step in first[:-1]):
            missing = {command for command in repairs if command not in plan}
            assert not missing or whole in plan, (written.name, missing, plan)
            found += len(repairs)
    assert found > 12


def test_a_partition_with_the_topic_id_of_another_has_its_step(cli: Cli, tmp_path: Path) -> None:
    (misnamed,) = (each for each in DIRECTORY_RECIPES if each.name == "id-of-other")
    misnamed.write(tmp_path)
    text = " ".join(" ".join(cli.text(tmp_path, code=exits.PROBLEMS)).split())
    assert (
        "plan 1 id-of-other-0: topic-id-mismatch in partition.metadata. If only partition.metadata "
        "was copied here, write the id of the topic into it: kdump explain topic-id-mismatch 2 "
        "check again"
    ) in text


def test_a_plan_beside_a_broker_begins_with_its_stop(cli: Cli, log_directory: Path) -> None:
    recipe("crc-sealed").write(log_directory)
    with (log_directory / ".lock").open("wb") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # which a child does not inherit
        ran = run(["verify", str(log_directory)])
    assert ran.code == exits.PROBLEMS, ran
    text = " ".join(ran.out.split())
    assert (
        "plan 1 stop this broker before any repair: repairs refuse to run while it runs 2 if "
        "another replica of crc-sealed-0 is in sync"
    ) in text


def test_an_interrupted_repair_is_finished_first(cli: Cli, log_directory: Path) -> None:
    damaged = recipe("crc-sealed").write(log_directory)
    folder = damaged / ".kdump" / "0123456789ab"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text('{"command": "reindex"}')
    (folder / "begun.json").write_text('{"begun_ns": 1}')
    text = " ".join(" ".join(cli.text(log_directory, code=exits.PROBLEMS)).split())
    assert (
        "plan 1 crc-sealed-0: finish the repair that was interrupted: "
        f"kdump reindex {damaged} --apply 2 check again; start the broker unless it says "
        "DO NOT START:"
    ) in text


def test_the_indexes_of_a_log_are_rebuilt_after_its_cut(cli: Cli, log_directory: Path) -> None:
    torn = recipe("torn-last").write(log_directory)
    min(torn.glob("*.index")).unlink()
    text = " ".join(" ".join(cli.text(log_directory, code=exits.OK)).split())
    assert (
        "plan 1 torn-last-0: truncate the unreadable end, which removes no valid record: "
        f"kdump truncate-to-valid {torn} "
        "2 can wait: rebuild indexes or small files of torn-last-0: "
        f"kdump reindex {torn} "
        "3 check again"
    ) in text


def test_a_sound_log_directory_needs_no_plan(cli: Cli, log_directory: Path) -> None:
    recipe("sound").write(log_directory)
    assert not any(line.startswith("plan ") for line in cli.text(log_directory, code=exits.OK))


@pytest.mark.parametrize(
    ("nodes", "in_sync", "text"),
    [
        ([1, 2, 3], [3], "start node 3 first: in sync for crc-sealed-0, by the metadata log."),
        ([1, 2, 3], [1], "nodes 2, 3 held a replica, not in sync by the metadata log"),
        ([1], [1], "by the metadata log, no other node has a replica of crc-sealed-0"),
    ],
)
def test_the_plan_names_the_replicas_to_start_first(
    nodes: list[int], in_sync: list[int], text: str, cli: Cli, log_directory: Path
) -> None:
    recipe("crc-sealed").write(log_directory)
    (log_directory / METADATA).mkdir()
    values = [
        forge_metadata.topic("crc-sealed", forge.TOPIC_ID),
        forge_metadata.partition(forge.TOPIC_ID, 0, nodes, in_sync=in_sync),
    ]
    (log_directory / forge_metadata.segment_name()).write_bytes(forge_metadata.log(values))
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    assert text in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("title", "before"),
    [
        ("sound", ""),  # its records stay on disk: no replica needs to be started first
        (
            "hole-unknown-jump",
            "by the metadata log, no other node has a replica of {name} "
            "1 {name}: no command repairs it: copy the directory before a broker starts on it "
            "kdump explain segments-hole ",
        ),
    ],
)
def test_the_plan_writes_a_missing_topic_id(
    title: str, before: str, cli: Cli, log_directory: Path
) -> None:
    (written,) = (each for each in [*RECIPES, *DIRECTORY_RECIPES] if each.name == title)
    path = written.write(log_directory)
    (path / "partition.metadata").unlink()
    (log_directory / METADATA).mkdir()
    values = [
        forge_metadata.topic(title, forge.TOPIC_ID),
        forge_metadata.partition(forge.TOPIC_ID, 0, [1], in_sync=[1]),
    ]
    (log_directory / forge_metadata.segment_name()).write_bytes(forge_metadata.log(values))
    lines = cli.text(log_directory, code=exits.PROBLEMS)
    plan = lines[next(n for n, line in enumerate(lines) if line.startswith("plan ")) :]
    text = " ".join(" ".join(plan).split()).removeprefix("plan ")
    assert text.startswith(before.format(name=path.name))
    rest = text.removeprefix(before.format(name=path.name))
    assert rest.split(" ", 1)[1].startswith(
        f"rebuild indexes or small files of {path.name}: kdump reindex {path} "
    )


def test_the_plan_removes_a_log_start_beyond_the_end(cli: Cli, log_directory: Path) -> None:
    """A start would delete all of the log."""
    path = recipe("sound").write(log_directory)
    start = "log-start-offset-checkpoint"
    (log_directory / start).write_text("0\n1\nsound 0 100000\n")
    text = " ".join(" ".join(cli.text(log_directory, code=exits.PROBLEMS)).split())
    assert (
        f"plan 1 if another replica of {path.name} is in sync, start its broker first "
        f"2 rebuild indexes or small files of {path.name}: kdump reindex {path} 3 check again"
    ) in text


def test_a_note_beside_others_has_its_offsets(cli: Cli, tmp_path: Path) -> None:
    """A log that begins above 0, beside a snapshot that no broker needs."""
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for path in (data / "codec-none-0").glob(f"{0:020}.*"):
        path.unlink()
    (data / "codec-none-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 60\n2 78\n")
    lines = cli.text("--info", data, code=exits.OK)
    at = next(number for number, line in enumerate(lines) if "codec-none-0 " in line)
    assert "       also: log-start-raised (offsets 0..59)" in lines[at : at + 5]


def test_the_plan_says_when_a_topic_id_may_be_written(cli: Cli, tmp_path: Path) -> None:
    """Records of a topic that was deleted do not go into the one that has its name now."""
    (unknown,) = (each for each in DIRECTORY_RECIPES if each.name == "id-unknown")
    path = unknown.write(tmp_path)
    max(path.glob("*.index")).unlink()
    text = " ".join(" ".join(cli.text(path.parent, code=exits.PROBLEMS)).split())
    assert (
        f"{path.name}: if the topic was deleted and created again, put the directory of the new "
        "topic in its place. Only if partition.metadata alone was copied here or changed, write "
        f"the topic id that the metadata log has: kdump reindex {path} "
    ) in text.partition("plan ")[2]
    assert text.count(f"kdump reindex {path}") == 1


def test_the_plan_rebuilds_beside_a_command_of_kafka(cli: Cli, tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    for coordinator in data.glob("__transaction_state-*"):
        shutil.rmtree(coordinator)
    path = data / "transactions-0"
    os.utime(max(path.glob("*.log")), (0, time.time() - 10_000))
    min(path.glob("*.index")).unlink()
    config = tmp_path / "server.properties"
    config.write_text("transaction.max.timeout.ms=900000\n")
    text = " ".join(" ".join(cli.text("--config", config, data, code=exits.PROBLEMS)).split())
    plan = text.partition("plan ")[2]
    assert "transactions-0: kafka-transactions.sh --bootstrap-server" in plan
    assert f"rebuild indexes or small files of transactions-0: kdump reindex {path} " in plan


def test_many_sound_segments_share_a_line(cli: Cli, tmp_path: Path) -> None:
    logs = directory.make(tmp_path, 1)
    flip(logs[0], 60_000)
    partition = logs[0].parent
    lines = cli.text(partition, code=exits.PROBLEMS)
    rows = [line.split() for line in lines if "  OK  " in line]
    behind = len(logs) - 1
    assert [row[:4] for row in rows] == [
        [str(behind), "segments", "from", logs[1].stem.lstrip("0")]
    ]
    listed = cli.text("--info", partition, code=exits.PROBLEMS)
    assert sum(".log " in line for line in listed) == len(logs)


# --- words


def test_what_cannot_be_read_is_named_with_its_reason(cli: Cli, tmp_path: Path) -> None:
    path = forge.write_partition(tmp_path, "orders", 0, {0: [forge.batch(0, [forge.record()])]})
    missing = tmp_path / "missing-0"
    lines = cli.text(path, missing, code=exits.INCOMPLETE, wrong=missing)
    text = " ".join(" ".join(lines).split())
    assert "missing-0: cannot be read: No such file or directory" in text
    assert text.count("cannot be read: ") == 1
    assert "expected something" not in text


def test_times_are_no_raw_milliseconds(cli: Cli, tmp_path: Path) -> None:
    batches = {
        0: [forge.batch(0, [forge.record()], base_timestamp=1_900_000_000_000)],
        1: [forge.batch(1, [forge.record()], base_timestamp=-1_000, delete_horizon=True)],
    }
    lines = cli.text("--info", forge.write_partition(tmp_path, "odd", 0, batches), code=exits.OK)
    text = " ".join(" ".join(lines).split())
    assert re.search(r"no timestamp above \d{4}-\d\d-\d\dT[\d:.]+Z, the present", text)
    assert "the present, found 2030-03-17T17:46:40.000Z" in text
    assert "found 1 batches with 1969-12-31T23:59:59.000Z to 1969-12-31T23:59:59.000Z" in text


def test_damage_at_the_start_of_a_log_has_nothing_sound_before_it(cli: Cli, tmp_path: Path) -> None:
    logs = directory.make(tmp_path, 1)
    flip(logs[0], 100)
    text = " ".join(" ".join(cli.text(logs[0].parent, code=exits.PROBLEMS)).split())
    assert "nothing valid before it; valid again from position" in text
    assert "valid to -1" not in text


def test_a_partition_does_not_show_what_is_missing_of_another(cli: Cli, tmp_path: Path) -> None:
    data = copy_fixture("4.3.1/clean", tmp_path / "data")
    shutil.rmtree(data / "codec-gzip-0")
    directory_codes = {one.get("code") for one in cli.json(data, code=exits.PROBLEMS)}
    assert "replica-missing-only" in directory_codes
    others = cli.json(data / "codec-zstd-0", code=exits.OK)
    assert "replica-missing-only" not in {one.get("code") for one in others}


def test_no_more_is_checked_than_there_is(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A log that grows between the quick pass and the read counts with the size that was read."""
    log = directory.make(tmp_path, 1)[-1]
    data = log.read_bytes()
    seen = JsonReport.preview

    def grow(report: JsonReport, verdict: Verdict) -> None:
        seen(report, verdict)
        with log.open("ab") as file:
            file.write(data)

    monkeypatch.setattr(JsonReport, "preview", grow)
    # With a rate the quick pass reads no whole segment, however small.
    summary = cli.json("--limit-rate", "1GB", tmp_path, code=exits.PROBLEMS)[-1]
    size = sum(path.stat().st_size for path in log.parent.glob("*.log"))
    assert summary["bytes"] == summary["bytes_total"] == size
