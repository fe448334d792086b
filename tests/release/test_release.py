"""What .ci/release makes, where brokers run: old releases of Debian, another processor.

KDUMP_RELEASE names a directory with a release that was made before; else these tests make one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fixtures_loader import FIXTURES, copy_fixture

pytestmark = [pytest.mark.nightly, pytest.mark.root]

ROOT = Path(__file__).parents[2]
KDUMP = Path(sys.executable).parent / "kdump"
#: Debian 11 has glibc 2.31, Debian 12 has 2.36.
RELEASES = ("bullseye", "bookworm")
NOBODY = 65534
#: What differs from run to run: times, and the processes of other users.
PASSING = {"elapsed", "seconds", "liveness", "begun", "id"}


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of this commit."""
    made = os.environ.get("KDUMP_RELEASE")
    if made:
        return Path(made)
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / ".ci/release", directory], check=True)
    return directory


def one_file(dist: Path, architecture: str) -> Path:
    (path,) = dist.glob(f"kdump-*-linux-{architecture}")
    return path


@contextmanager
def mounted(*arguments: str | Path) -> Iterator[None]:
    """A file system at the last of ``arguments``, which are those of mount."""
    subprocess.run(["mount", *arguments], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", arguments[-1]], check=True)


@pytest.fixture(scope="session", params=RELEASES)
def system(
    request: pytest.FixtureRequest, dist: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The root directory of a Debian without Python, with the executable."""
    top = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        ["debootstrap", "--variant=minbase", request.param, top],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert not [*top.glob("usr/bin/python*")]
    top.chmod(0o755)
    shutil.copy(one_file(dist, "x86_64"), top / "usr/bin/kdump")
    with (
        mounted("-t", "proc", "proc", top / "proc"),
        mounted("-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", top / "tmp"),
        mounted("--bind", top / "usr", top / "usr"),
    ):
        subprocess.run(["mount", "-o", "remount,ro,bind", top / "usr"], check=True)
        yield top


def ran(command: Sequence[str], cwd: Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def inside(system: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and output of kdump in ``system``, as nobody, in its directory ``data``."""
    script = 'cd /data && exec kdump "$@"'
    command = ["chroot", "--userspec=nobody:nogroup", str(system), "sh", "-c", script, "sh"]
    return ran([*command, *arguments], system)


def outside(directory: Path, *arguments: str) -> tuple[int, str]:
    """The same of the kdump that is installed here."""
    command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", str(KDUMP)]
    return ran([*command, *arguments], directory)


def lines(output: str) -> list[Any]:
    """The lines of JSON without what differs from run to run."""
    found = [json.loads(line) for line in output.splitlines()]
    for line in found:
        for name in PASSING & line.keys():
            del line[name]
        if line.get("code") == "timestamps-future":
            del line["detail"]["expected"]
    return found


@pytest.fixture
def data(system: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory outside, the twin of ``data`` inside: ``put`` writes to both."""
    shutil.rmtree(system / "data", ignore_errors=True)
    (system / "data").mkdir()
    os.chown(system / "data", NOBODY, NOBODY)
    directory = tmp_path_factory.mktemp("data")
    for parent in (directory, *directory.parents):
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    os.chown(directory, NOBODY, NOBODY)
    return directory


def put(name: str, *directories: Path) -> str:
    """Copy a fixture into each directory, for nobody; returns where it is there."""
    for directory in directories:
        copy_fixture(name, directory / "logs")
        for path in (directory / "logs", *(directory / "logs").rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    return "logs"


def content(top: Path) -> dict[str, bytes]:
    """The files below ``top``, but what repairs keep."""
    return {
        str(path.relative_to(top)): path.read_bytes()
        for path in sorted(top.rglob("*"))
        if path.is_file() and ".kdump" not in path.parts
    }


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_the_same_is_reported(system: Path, data: Path, name: str) -> None:
    logs = put(name, data, system / "data")
    for command in (
        ["verify", "--deep", "--info", "--format", "json", logs],
        ["next-start", "--format", "json", logs],
    ):
        (code, found), (here_code, here) = inside(system, *command), outside(data, *command)
        assert (code, lines(found)) == (here_code, lines(here))


def test_the_same_is_repaired_converted_and_exported(system: Path, data: Path) -> None:
    logs = put("0.10.2.2/clean", data, system / "data")
    for directory in (data, system / "data"):
        next((directory / logs).glob("*/*.index")).unlink()
    for command in (
        ["reindex", "--apply", logs],
        ["convert-v0-v2", "--apply", logs],
        ["export", "--format", "jsonl", "--to", "exported", logs],
    ):
        (code, _), (here_code, _) = inside(system, *command), outside(data, *command)
        assert code == here_code == 0
    found, here = content(system / "data"), content(data)
    assert found.keys() == here.keys()
    differing = {name for name in found if found[name] != here[name]}
    assert {Path(name).name for name in differing} <= {"_manifest.json"}


def test_nothing_is_left_behind(system: Path, data: Path) -> None:
    logs = put("4.3.1/clean", data, system / "data")
    process = subprocess.Popen(
        ["chroot", "--userspec=nobody:nogroup", system, "kdump", "dump", f"/data/{logs}"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.kill()
    process.wait()
    assert [*(system / "tmp").iterdir()] == []


def test_an_emulated_processor_prints_the_same(dist: Path, tmp_path: Path) -> None:
    logs = copy_fixture("4.3.1/clean", tmp_path / "logs")
    executable = str(one_file(dist, "aarch64"))
    emulated = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", executable]
    for command in (
        ["verify", "--deep", "--info", "--format", "json", "logs"],
        ["dump", "--format", "json", "--records", f"logs/{next(logs.glob('*-0')).name}"],
    ):
        code, found = ran([*emulated, *command], tmp_path)
        here_code, here = ran([str(KDUMP), *command], tmp_path)
        assert (code, lines(found)) == (here_code, lines(here))


def test_a_wheel_is_for_this_release_of_python(dist: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (wheel,) = dist.glob("*manylinux*_x86_64.whl")
    subprocess.run([tmp_path / "venv/bin/pip", "install", "-q", wheel], check=True)
    _, version = ran([str(tmp_path / "venv/bin/kdump"), "--version"], tmp_path)
    assert "(kernel compiled)" in version
