"""Reading leaves a directory as it was: names, sizes, times and content."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import click
import pytest

from kdump.cli.main import cli, main
from support.directory_state import State, state
from support.fixtures_loader import copy_fixture, few_first
from support.forge import batch, flip, record, write_partition
from support.reading_commands import READING

pytestmark = pytest.mark.once


def damaged(top: Path) -> Path:
    """A log directory with a bad checksum, a torn tail, and index files that are missing."""
    (top / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    )
    first = [batch(offset, [record(b"v" * 100)]) for offset in range(10)]
    first[3] = flip(first[3], 100)
    write_partition(top, "orders", 0, {0: first, 10: [batch(10, [record()])[:-1]]})
    for path in (top / "orders-0").glob("*.index"):
        path.unlink()
    return top


@pytest.fixture(scope="module", params=[*few_first(), "damaged"])
def untouched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, State]:
    """A log directory of its own for these tests, and its state before the first of them."""
    top = tmp_path_factory.mktemp("log-directory")
    top = damaged(top) if request.param == "damaged" else copy_fixture(request.param, top)
    return top, state(top)


def test_a_change_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a")
    seen = [state(tmp_path)]
    for change in (
        lambda: path.write_bytes(b"b"),
        lambda: (tmp_path / ".lock").touch(),
        lambda: os.utime(path, ns=(0, 0)),
        lambda: path.chmod(0o600),
        lambda: path.unlink(),
    ):
        change()
        seen.append(state(tmp_path))
    assert all(before != after for before, after in pairwise(seen))


def test_every_command_that_takes_a_path_is_here() -> None:
    commands = set(cli.list_commands(click.Context(cli)))
    # What those that write elsewhere leave of where they read, their own tests say.
    elsewhere = {
        "check",
        "explain",
        "export",
        "heal",
        "help",
        "manifest",
        "move",
        "salvage",
        "scrub",
    }
    assert {arguments[0] for arguments in READING.values()} == commands - elsewhere


@pytest.mark.parametrize("arguments", READING.values(), ids=READING)
@pytest.mark.slow
def test_reading_changes_nothing(
    untouched: tuple[Path, State],
    arguments: list[str],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    directory, before = untouched
    code = main([*arguments, str(directory)])
    printed = capfdbinary.readouterr().out
    if arguments[0] == "metadata" and not (directory / "__cluster_metadata-0").is_dir():
        assert code == 2
    else:
        left = {5} if arguments[0] == "repair" else set()  # what no cure is allowed for
        assert code in {0, 4, 6} | left  # a plan may be refused
        assert printed or "--quiet" in arguments
    assert state(directory) == before


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
def test_a_single_file_is_read_without_touching_its_neighbours(
    untouched: tuple[Path, State],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    directory, before = untouched
    for log in sorted(directory.rglob("*.log")):
        assert main(["verify", str(log)]) in (0, 4)
        assert main(["dump", str(log)]) in (0, 4)
    assert capfdbinary.readouterr().out
    assert state(directory) == before
