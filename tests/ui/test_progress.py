"""Progress: what it says, when, and never on standard output."""

from __future__ import annotations

import os
import pty
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kdump.cli.main import main
from kdump.ui import exits, kernel
from kdump.ui.progress import Mode, Progress
from kdump.ui.units import (
    count_text,
    duration_text,
    part_text,
    period_text,
    rate_text,
    size_text,
)
from support.forge import batch, record, write_partition

pytestmark = pytest.mark.once

MIB = 1 << 20


class Clock:
    """A clock that goes when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(total_bytes: int, mode: Mode, clock: Clock) -> Progress:
    progress = Progress(mode, clock)
    progress.expect(total_bytes)
    return progress


def test_a_part_counts_its_size_whatever_is_reported(clock: Clock) -> None:
    progress = started(100, "none", clock)
    with progress.part(40) as advance:
        advance(30)
        assert progress.done == 30
        advance(30)
        assert progress.done == 40
    with progress.part(60) as advance:
        advance(5)
    assert progress.done == 100


def test_a_line_says_how_far_how_fast_and_how_long(clock: Clock) -> None:
    progress = started(100 * MIB, "none", clock)
    clock.now += 5
    progress.advance(25 * MIB)
    assert progress.line() == ("25.00 of 100.00 MiB (25 %), 5.00 MiB/s, about 15.0 s left")


def test_no_estimate_in_the_first_seconds(clock: Clock) -> None:
    progress = started(100 * MIB, "none", clock)
    clock.now += 1
    progress.advance(25 * MIB)
    assert progress.line() == "25.00 of 100.00 MiB (25 %)"


def test_the_rate_is_that_of_the_work_alone(clock: Clock) -> None:
    progress = Progress("none", clock)
    clock.now += 1000
    progress.expect(100 * MIB)
    clock.now += 5
    progress.advance(25 * MIB)
    assert ", 5.00 MiB/s, " in progress.line()


def test_nothing_to_do_is_no_division(clock: Clock) -> None:
    progress = started(0, "none", clock)
    clock.now += 10
    progress.advance(5)
    assert progress.line() == "0 of 0 bytes"


def test_bytes_that_are_read_again_do_not_exceed_the_total(clock: Clock) -> None:
    progress = started(10, "none", clock)
    progress.advance(8)
    progress.advance(8)
    assert progress.done == 10


def test_without_a_total_a_line_says_how_much_and_how_fast(clock: Clock) -> None:
    progress = Progress("none", clock)
    progress.expect(None)
    clock.now += 1
    progress.advance(10 * MIB)
    assert progress.line() == "10.00 MiB read"
    clock.now += 3
    progress.advance(10 * MIB)
    assert progress.line() == "20.00 MiB read, 5.00 MiB/s"


def test_a_line_a_minute(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with started(100 * MIB, "line", clock) as progress:
        for _ in range(13):
            clock.now += 10
            progress.advance(MIB)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.split(",")[0] for line in printed.err.splitlines()] == [
        "kdump: 6.00 of 100.00 MiB (6 %)",
        "kdump: 12.00 of 100.00 MiB (12 %)",
    ]


def test_none_says_nothing(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with started(100 * MIB, "none", clock) as progress:
        clock.now += 1000
        progress.advance(MIB)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_the_signal_prints_a_line_now(clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
    with started(100 * MIB, "line", clock) as progress:
        progress.advance(50 * MIB)
        os.kill(os.getpid(), signal.SIGUSR1)
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err == "kdump: 50.00 of 100.00 MiB (50 %)\n"


def test_the_handler_before_is_put_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with Progress("line"):
        assert signal.getsignal(signal.SIGUSR1) != before
    assert signal.getsignal(signal.SIGUSR1) == before


def test_auto_takes_lines_where_there_is_no_terminal(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(100 * MIB, "auto", clock) as progress:
        clock.now += 61
        progress.advance(MIB)
    assert capsys.readouterr().err.startswith("kdump: 1.00 of 100.00 MiB")


def on_a_terminal(
    mode: Mode, clock: Clock, monkeypatch: pytest.MonkeyPatch, during: Callable[[], None]
) -> bytes:
    """What a run writes to a terminal as its standard error."""
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with started(100 * MIB, mode, clock) as progress:
            clock.now += 90
            progress.advance(25 * MIB)
            during()
    # What was written comes in pieces, and behind the last one an error: nobody has it open.
    shown = b""
    with suppress(OSError):
        while piece := os.read(leader, 1 << 16):
            shown += piece
    os.close(leader)
    return shown


def test_a_bar_on_a_terminal_without_a_thread(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    before, threads = threading.active_count(), list[int]()
    shown = on_a_terminal(
        "auto", clock, monkeypatch, lambda: threads.append(threading.active_count())
    )
    assert b"25.00 of 100.00 MiB (25 %)" in shown
    assert b"kdump:" not in shown
    assert threads == [before]
    assert capsys.readouterr().out == ""


def test_a_dumb_terminal_gets_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    shown = on_a_terminal("auto", clock, monkeypatch, lambda: None)
    assert shown.startswith(b"kdump: 25.00 of 100.00 MiB")
    assert b"\x1b" not in shown


def test_importing_it_does_not_import_rich() -> None:
    source = Path(sys.modules[Progress.__module__].__file__ or "").read_text()
    assert "\nfrom rich" not in source
    assert "\nimport rich" not in source


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (count_text(1, "batch", "batches"), "1 batch"),
        (count_text(1204, "batch", "batches"), "1,204 batches"),
        (count_text(0, "note"), "0 notes"),
        (size_text(17), "17 bytes"),
        (size_text(1 << 30), "1.00 GiB"),
        (size_text(3 << 60), "3072.00 PiB"),
        (part_text(MIB, 2 << 30), "0.00 of 2.00 GiB"),
        (part_text(3, 1023), "3 of 1023 bytes"),
        (rate_text(MIB, 0), "1000.00 MiB/s"),
        (period_text(0, 1000), "1970-01-01T00:00:00Z..00:00:01Z"),
        (period_text(0, 86_400_000), "1970-01-01T00:00:00Z..1970-01-02T00:00:00Z"),
        (period_text(1000, 1999), "1970-01-01T00:00:01Z"),
        (period_text(1 << 61, 1 << 62), f"{1 << 61} ms..{1 << 62} ms"),
        (duration_text(0.44), "0.4 s"),
        (duration_text(72), "1 min 12 s"),
        (duration_text(22_320), "6 h 12 min"),
    ],
)
def test_units(said: str, expected: str) -> None:
    assert said == expected


# --- a kernel that is not compiled

WARNING = "inner loops run as plain Python"


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "kernel_name", lambda: "plain")


@pytest.mark.parametrize(
    ("mode", "total", "things", "warnings"),
    [
        ("line", (1 << 30) + 1, None, 1),
        ("line", 1 << 30, None, 0),
        ("line", (1 << 30) + 1, "partitions", 0),
        ("none", (1 << 30) + 1, None, 0),
    ],
)
@pytest.mark.usefixtures("plain")
def test_much_work_for_a_plain_kernel_is_announced_once(
    mode: Mode, total: int, things: str | None, warnings: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(mode) as meter:
        for _ in range(2):
            meter.expect(total, things)
    assert capsys.readouterr().err.count(WARNING) == warnings


def test_a_compiled_kernel_is_never_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernel, "kernel_name", lambda: "compiled")
    kernel.warn_if_plain([1 << 40])
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("plain")
def test_a_dump_with_a_plain_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(kernel, "_LARGE_BYTES", 10)
    partition = write_partition(tmp_path, "a", 0, {0: [batch(0, [record(b"v")])]})
    assert main(["dump", str(partition)]) == exits.OK
    assert capfdbinary.readouterr().err.count(WARNING.encode()) == 1
