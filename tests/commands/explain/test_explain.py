"""``kdump explain``: codes, lines of logs, and what is neither."""

from __future__ import annotations

import os
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from kdump.audit.codes import CODES
from kdump.cli.main import main
from kdump.commands.explain import command as explain
from kdump.commands.explain.broker_log.table import messages_of
from kdump.ui import exits
from kdump.ui.progress import Progress

pytestmark = pytest.mark.once


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.parametrize("name", CODES)
def test_a_code_is_explained_in_full(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(explained(capsys, name).split())
    code = CODES[name]
    assert text.startswith(f"{name}: {code.severity.value} meaning {code.meaning} broker ")
    for said in (code.broker, code.advice, *messages_of(code)):
        assert said.replace("{}", "…") in text


@pytest.mark.parametrize("name", CODES)
def test_lines_fit_a_terminal(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert max(map(len, explained(capsys, name).splitlines())) <= 80


def test_several_codes_in_the_order_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "torn-tail", "batch-crc-mismatch", "torn-tail")
    headings = [line for line in text.splitlines() if line and line[0] != " "]
    assert headings == ["torn-tail: warning", "batch-crc-mismatch: error"]


def test_the_list_has_every_code_with_its_severity(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in explained(capsys, "--list").splitlines()]
    assert rows == [[code.name, code.severity.value] for code in CODES.values()]


@pytest.mark.parametrize("quoted", [True, False])
def test_a_pasted_line_finds_its_codes(quoted: bool, capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "[2026-11-21 10:00:00,000] ERROR Found invalid messages during fetch for partition a-0 "
        "offset 812440 (kafka.server.ReplicaFetcherThread) "
        "org.apache.kafka.common.errors.CorruptRecordException: Record is corrupt "
        "(stored crc = 1, computed crc = 2)"
    )
    text = explained(capsys, *([line] if quoted else line.split()))
    assert "findings  batch-crc-mismatch\n" in text
    assert "partition a-0, offset 812440" in text


def test_a_misspelt_code_gets_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert "torn-tail" in refused(capsys, "torn-tial").rpartition("Did you mean")[2]


def test_a_strange_line_is_no_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "zebra \x1b[31m\u202e"]) == 5
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out
    assert "\u202e" not in printed.out
    assert "unknown to kdump; it does not seem to concern disks" in printed.out


def test_an_unknown_line_about_disks_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ERROR Segment fell over in log dir /d (kafka.log.Unheard)"]) == 5
    assert "it may concern disks" in capsys.readouterr().out


def test_standard_input_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = b"[2026-11-24 09:31:00,000] ERROR Found directory /d/lost+found, 'lost+found' is not in "
    log += b"the form of topic-partition or topic-partition.uniqueId-delete (x.Y)\n"
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(log)))
    assert "findings  foreign-directory\n" in explained(capsys)


def test_a_quiet_log_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2026-11-24 09:31:00,000] INFO started (kafka.server.KafkaServer)\n")
    assert "no line at WARN or above" in explained(capsys, str(log))


@pytest.mark.parametrize("words", [(), ("--list", "torn-tail")])
def test_it_wants_either_codes_or_the_list(
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "--list" in refused(capsys, *words)


def test_progress_is_that_of_the_bytes_of_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[tuple[int | None, int]] = []
    monkeypatch.setattr(explain, "_PROGRESS_BYTES", 100)
    monkeypatch.setattr(
        Progress, "advance", lambda meter, count: counts.append((meter.total, count))
    )
    log = tmp_path / "server.log"
    line = "[2026-11-21 10:00:00,000] INFO [LogLoader partition=t-0] x (kafka.log.UnifiedLog)\n"
    log.write_text(5 * line)
    assert main(["explain", str(log)]) == exits.OK
    assert counts == [(5 * len(line), size * len(line)) for size in (2, 2, 1)]
    counts.clear()
    with log.open() as stream:
        stream.buffer.read(len(line))
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["explain"]) == exits.OK
    assert {total for total, _ in counts} == {4 * len(line)}
    counts.clear()
    read, write = os.pipe()
    os.write(write, line.encode())
    os.close(write)
    with open(read) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert main(["explain", "-"]) == exits.OK
    assert counts == [(None, len(line))]
