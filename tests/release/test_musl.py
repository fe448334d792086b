"""The wheel for musl, in a CPython that is built here for musl 1.2.5, as Alpine has it.

What kdump needs comes as wheels too, but for lz4, which has none for musl: it is compiled, as pip
does on Alpine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from release.released import (
    KDUMP,
    WAL_DATABASE,
    Place,
    assert_databases,
    assert_same_changes,
    assert_same_reports,
)
from support.fixtures_loader import FIXTURES

pytestmark = [pytest.mark.nightly, pytest.mark.root]

ROOT = Path(__file__).parents[2]
#: Debian's musl, unpacked into a directory. Installed beside glibc, it misleads other programs.
UNPACK = """
source .ci/functions
lists_of deb trixie amd64 "$1"
cd "$1"
apt-get "${apt[@]}" download musl
dpkg -x musl_*.deb .
"""
#: Wheels for musl and the Python that is built.
MUSL = (
    "--platform=musllinux_1_2_x86_64",
    "--platform=musllinux_1_1_x86_64",
    "--python-version=3.13",
    "--only-binary=:all:",
)


@pytest.fixture(scope="module")
def musl(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs kdump in a CPython for musl."""
    top = tmp_path_factory.mktemp("musl")
    interpreter, site = top / "interpreter", top / "site"
    subprocess.run([sys.executable, "-m", "venv", top / "tools"], check=True)
    tools = top / "tools/bin/python"

    def pip(*arguments: str | Path) -> None:
        subprocess.run([tools, "-m", "pip", "-q", *arguments], check=True, cwd=top)

    pip("install", "--require-hashes", "-r", ROOT / "requirements/release.txt")
    pip("install", "setuptools-scm", "pkgconfig")  # which lz4 is built with
    subprocess.run([ROOT / "packaging/sources", top / "sources"], check=True)
    (top / "libc").mkdir()
    subprocess.run(["bash", "-e", "-c", UNPACK, "bash", top / "libc"], check=True, cwd=ROOT)
    loader = top / "libc/usr/lib/ld-musl-x86_64.so.1"
    subprocess.run(
        [ROOT / "packaging/interpreter", top / "sources", "x86_64", interpreter, loader],
        env={**os.environ, "RELEASE_PYTHON": str(tools)},
        check=True,
    )
    locked = (ROOT / "requirements/base.txt").read_text().replace("\\\n", " ").splitlines()
    for name, of_lz4 in (("wheels.txt", False), ("source.txt", True)):
        (top / name).write_text(
            "\n".join(line for line in locked if line.startswith("lz4==") is of_lz4)
        )
    hashed = ("--require-hashes", "--no-deps", "-r")
    pip("install", "--target", site, *MUSL, *hashed, "wheels.txt")
    pip("download", "--no-binary=:all:", *hashed, "source.txt")
    (wheel,) = dist.glob("*musllinux*_x86_64.whl")
    pip("install", "--target", site, *MUSL, "--no-deps", wheel)
    # The new interpreter has no TLS: it runs the pip of the other one, and downloads nothing.
    (packages,) = top.glob("tools/lib/python3*/site-packages")
    (source,) = top.glob("lz4-*.tar.gz")
    (built,) = interpreter.glob("work/Python-*")
    python = interpreter / "python"
    subprocess.run(
        [python, "-m", "pip", "-q", "install", "--no-index", "--no-build-isolation", "--no-deps",
         "--target", site, source],
        env={**os.environ, "PYTHONPATH": str(packages), "CFLAGS": f"-I{built} -I{built}/Include"},
        check=True,
    )  # fmt: skip
    return ["env", f"PYTHONPATH={site}", str(python), "-P", "-m", "kdump"]


@pytest.fixture
def places(musl: list[str], tmp_path: Path) -> tuple[Place, Place]:
    """The kdump for musl, and the one that is installed here."""
    both = []
    for name, command in (("musl", musl), ("here", [str(KDUMP)])):
        directory = tmp_path / name
        directory.mkdir()
        both.append(Place(command, directory, directory))
    return both[0], both[1]


def test_its_kernel_is_compiled(places: tuple[Place, Place]) -> None:
    _, version = places[0].run("--version")
    assert "(kernel compiled)" in version


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_the_same_is_reported(places: tuple[Place, Place], name: str) -> None:
    assert_same_reports(*places, name)


def test_the_same_is_repaired_converted_and_exported(places: tuple[Place, Place]) -> None:
    assert_same_changes(*places)


def test_its_python_has_sqlite(musl: list[str], tmp_path: Path) -> None:
    assert_databases([musl[musl.index("-P") - 1], str(WAL_DATABASE)], tmp_path)
