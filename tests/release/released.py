"""Runs kdump in two places, one of them what a release has, and compares what they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.fixtures_loader import copy_fixture

#: The kdump that is installed here.
KDUMP: Final = Path(sys.executable).parent / "kdump"
#: A program that a release's Python runs; see assert_databases().
WAL_DATABASE: Final = Path(__file__).with_name("wal_database.py")
#: What differs from run to run: times, and the processes of other users.
_PASSING: Final = {"elapsed", "seconds", "liveness", "begun", "id"}


@dataclass(frozen=True)
class Place:
    """A kdump, as ``command`` runs it, with a directory for data that it is run in.

    ``command`` is run in ``above``; what is put into ``data`` belongs to ``owner``.
    """

    command: Sequence[str]
    above: Path
    data: Path
    owner: int | None = None

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and output."""
        return ran([*self.command, *arguments], self.above)

    def put(self, name: str) -> str:
        """Copy a fixture into the directory; returns its name there."""
        logs = copy_fixture(name, self.data / "logs")
        if self.owner is not None:
            for path in (logs, *logs.rglob("*")):
                os.chown(path, self.owner, self.owner)
        return logs.name


def ran(command: Sequence[str], cwd: Path) -> tuple[int, str]:
    """Exit code and output of ``command``, which ends without a traceback."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def lines(output: str) -> list[Any]:
    """The lines of JSON without what differs from run to run."""
    found = [json.loads(line) for line in output.splitlines()]
    for line in found:
        for name in _PASSING & line.keys():
            del line[name]
        if line.get("code") == "timestamps-future":
            del line["detail"]["expected"]
        for start in line.get("next_starts", ()):
            del start["file_system"]  # on whose free space others write
    return found


def assert_same_reports(place: Place, here: Place, name: str) -> None:
    """Both report the same of a fixture."""
    logs = place.put(name)
    here.put(name)
    for command in (
        ["verify", "--deep", "--info", "--format", "json", logs],
        ["next-start", "--format", "json", logs],
    ):
        (code, found), (here_code, expected) = place.run(*command), here.run(*command)
        assert (code, lines(found)) == (here_code, lines(expected))


def assert_same_changes(place: Place, here: Place) -> None:
    """Both repair, convert and export old partitions to the same bytes."""
    for each in (place, here):
        logs = each.put("0.10.2.2/clean")
        min((each.data / logs).glob("*/*.index")).unlink()  # the same one in both
        for command in (
            ["reindex", "--apply", logs],
            ["convert-v0-v2", "--apply", logs],
            ["export", "--format", "jsonl", "--to", "exported", logs],
        ):
            code, output = each.run(*command)
            assert code == 0, output
    found, expected = _content(place.data), _content(here.data)
    assert found.keys() == expected.keys()
    differing = {name for name in found if found[name] != expected[name]}
    assert {Path(name).name for name in differing} <= {"_manifest.json"}


def assert_databases(python: Sequence[str], cwd: Path) -> str:
    """Two runs of WAL_DATABASE by ``python`` write and read; returns the version of SQLite."""
    for before in (0, 1):
        code, output = ran(python, cwd)
        assert code == 0
        found = json.loads(output)
        assert (found["mode"], found["rows"]) == ("wal", [before, before, before + 1])
        assert {"THREADSAFE=1", "OMIT_LOAD_EXTENSION"} <= set(found["options"])
        assert (cwd / "state.db-wal").stat().st_size > 0
    return str(found["version"])


def _content(top: Path) -> dict[str, bytes]:
    """The files below ``top``, but what repairs keep."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".kdump" not in path.parts
    }
