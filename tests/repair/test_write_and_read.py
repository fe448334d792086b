"""A log that is read back while another process writes it: what is found, and what goes wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from kdump.audit.facts.small_files import TopicSettings
from kdump.errors import Refused, SourceError
from kdump.repair.rewrite import read_back, write_and_read
from kdump.repair.rewrite.read_back import LogReader, ReadBack
from kdump.repair.rewrite.write_and_read import OnWrite, report_writes, use_two_processes
from kdump.storage.workers import Report
from support.children import children
from support.forge import batch, flip, record

MIB = 1 << 20
BATCHES = [batch(10 * number, [record(b"value %d" % number)]) for number in range(20)]
PARTS = {0: BATCHES[:12], 120: BATCHES[12:]}


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How far was read each time, None for the end; every byte pays."""
    monkeypatch.setattr(read_back, "STRETCH_BYTES", 1)
    read, found = LogReader._read, []

    def record(reader: LogReader, size: int | None) -> None:
        found.append(size)
        read(reader, size)

    monkeypatch.setattr(LogReader, "_read", record)
    return found


def run(
    write: Callable[[Report, OnWrite], str],
    *,
    share: bool = True,
    report: Report = lambda _: None,
    close_descriptors: tuple[int, ...] = (),
) -> tuple[str, list[ReadBack]]:
    """Return the result of ``write``; assert that no process is left."""
    before = children()
    try:
        return write_and_read.write_and_read(
            write,
            Path("old.log"),
            TopicSettings(),
            1 << 20,
            share=share,
            report=report,
            close_descriptors=close_descriptors,
        )
    finally:
        assert children() == before


def writer(
    directory: Path, change: Callable[[bytes], bytes] = bytes, then: Callable[[], object] = int
) -> Callable[[Report, OnWrite], str]:
    """Return a writer of ``PARTS``; it applies ``change`` to the fifth batch, and then ``then``."""

    def write(report: Report, on_write: OnWrite) -> str:
        for base_offset, batches in PARTS.items():
            path = directory / f"{base_offset}.log"
            with path.open("wb", buffering=0) as file:
                reported = report_writes(batches, partial(on_write, path, base_offset))
                for number, data in enumerate(reported):
                    file.write(change(data) if number == 4 else data)
                    report(number)
                    if number == 5:
                        then()
        return f"written by {os.getpid()}"

    return write


def test_both_ways_find_the_same(tmp_path: Path, steps: list[int | None]) -> None:
    counts: dict[bool, list[int]] = {False: [], True: []}
    found = {}
    for share in counts:
        result, found[share] = run(writer(tmp_path), share=share, report=counts[share].append)
        assert (result == f"written by {os.getpid()}") is not share
    assert found[True] == found[False]
    assert counts[True] == counts[False]
    assert [back.size for back in found[True]] == [
        sum(map(len, batches)) for batches in PARTS.values()
    ]
    assert [back.records for back in found[True]] == [12, 8]
    alone, together = steps[:2], steps[2:]
    assert alone == [None, None]
    ends = [sum(map(len, BATCHES[:number])) for number in range(1, 13)]
    assert together[:12] == ends
    assert together[-2:] == [None, None]


def test_a_part_without_batches_is_read_too(tmp_path: Path) -> None:
    def write(_: Report, on_write: OnWrite) -> str:
        path = tmp_path / "empty.log"
        path.write_bytes(b"".join(report_writes([b""], lambda size: on_write(path, 7, size))))
        return ""

    _, (back,) = run(write)
    assert (back.size, back.batches, back.records) == (0, 0, 0)


def test_what_stands_in_the_file_is_read(tmp_path: Path) -> None:
    """The reported sizes do not count: further bytes are found, and missing bytes too."""

    def longer(_: Report, on_write: OnWrite) -> str:
        path = tmp_path / "new.log"
        path.write_bytes(b"".join(BATCHES[:3]))
        on_write(path, 0, len(BATCHES[0]))
        return ""

    def shorter(_: Report, on_write: OnWrite) -> str:
        path = tmp_path / "new.log"
        path.write_bytes(BATCHES[0])
        on_write(path, 0, 3 * len(BATCHES[0]))
        return ""

    assert [run(write)[1][0].records for write in (longer, shorter)] == [3, 1]


def test_damage_ends_the_writing(tmp_path: Path) -> None:
    write = writer(tmp_path, lambda data: flip(data, -1), signal.pause)
    with pytest.raises(
        Refused, match=r"to read back valid batches of .*, found bad-checksum at position"
    ):
        run(write)


def test_a_writer_that_is_killed_is_reported(tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(SourceError, match=r"old\.log: SIGKILL killed the process"):
        run(writer(tmp_path, then=die))


@pytest.mark.parametrize("error", [Refused("no"), SourceError("old.log", "gone"), OSError(5, "x")])
def test_what_the_writer_raises_is_raised(tmp_path: Path, error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run(writer(tmp_path, then=fail))
    assert str(raised.value) == str(error)
    if isinstance(error, OSError):
        assert raised.value.args == error.args


@pytest.mark.parametrize("when", ["follow", "finish"])
def test_an_interrupt_while_it_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LogReader, when, interrupted)
    then = signal.pause if when == "follow" else int
    with pytest.raises(KeyboardInterrupt):
        run(writer(tmp_path, then=then))


def test_the_writer_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)

    def check_lock() -> None:
        held = (path.resolve() for path in Path("/proc/self/fd").iterdir())
        if tmp_path in held:
            raise Refused("held")

    try:
        run(writer(tmp_path, then=check_lock), close_descriptors=(lock,))
        with pytest.raises(Refused, match="held"):
            run(writer(tmp_path, then=check_lock))
    finally:
        os.close(lock)


def test_no_core_is_taken_that_is_not_given() -> None:
    assert use_two_processes(2, 1, 8 * MIB)
    assert not use_two_processes(1, 1, 1 << 30)
    assert not use_two_processes(2, 2, 1 << 30)
    assert not use_two_processes(2, 1, 8 * MIB - 1)
