"""What .ci/release makes, where brokers run: old releases of Debian, another processor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from release.released import (
    KDUMP,
    WAL_DATABASE,
    Place,
    assert_databases,
    assert_same_changes,
    assert_same_reports,
    lines,
    ran,
)
from support.fixtures_loader import FIXTURES, copy_fixture

pytestmark = [pytest.mark.nightly, pytest.mark.root]

ROOT = Path(__file__).parents[2]
#: Debian 11 has glibc 2.31, Debian 12 has 2.36.
RELEASES = ("bullseye", "bookworm")
NOBODY = 65534
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EMULATOR = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")


def one_file(dist: Path, architecture: str) -> Path:
    (path,) = dist.glob(f"kdump-*-linux-{architecture}")
    return path


def package(dist: Path, pattern: str) -> Path:
    (path,) = dist.glob(pattern)
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
def debian(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root directory of a Debian without Python."""
    top = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        ["debootstrap", "--variant=minbase", request.param, top],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    assert not [*top.glob("usr/bin/python*")]
    top.chmod(0o755)
    return top


@pytest.fixture
def copied(debian: Path, tmp_path: Path) -> Iterator[Path]:
    """A root directory that begins as ``debian`` and may change."""
    tmp_path.chmod(0o755)
    for name in ("upper", "work", "root"):
        (tmp_path / name).mkdir()
    with mounted("-t", "tmpfs", "tmpfs", tmp_path / "upper"):
        for name in ("upper", "work"):
            (tmp_path / "upper" / name).mkdir()
        layers = f"lowerdir={debian},upperdir={tmp_path}/upper/upper,workdir={tmp_path}/upper/work"
        with mounted("-t", "overlay", "-o", layers, "overlay", tmp_path / "root"):
            yield tmp_path / "root"


@pytest.fixture(scope="session")
def system(debian: Path, dist: Path) -> Iterator[Path]:
    """``debian`` with the executable; what is installed is read-only, and /tmp small."""
    top = debian
    shutil.copy(one_file(dist, "x86_64"), top / "usr/bin/kdump")
    with (
        mounted("-t", "proc", "proc", top / "proc"),
        mounted("-t", "tmpfs", "-o", "noexec,size=1m", "tmpfs", top / "tmp"),
        mounted("--bind", top / "usr", top / "usr"),
    ):
        subprocess.run(["mount", "-o", "remount,ro,bind", top / "usr"], check=True)
        yield top


@pytest.fixture
def inside(system: Path) -> Place:
    """The executable in ``system``, as nobody."""
    data = system / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    os.chown(data, NOBODY, NOBODY)
    script = 'cd /data && exec kdump "$@"'
    command = ["chroot", "--userspec=nobody:nogroup", str(system), "sh", "-c", script, "sh"]
    return Place(command, system, data, NOBODY)


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The kdump that is installed here, as nobody."""
    data = tmp_path_factory.mktemp("data")
    for parent in (data, *data.parents):
        if parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    os.chown(data, NOBODY, NOBODY)
    command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", str(KDUMP)]
    return Place(command, data, data, NOBODY)


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_the_same_is_reported(inside: Place, outside: Place, name: str) -> None:
    assert_same_reports(inside, outside, name)


def test_the_same_is_repaired_converted_and_exported(inside: Place, outside: Place) -> None:
    assert_same_changes(inside, outside)


def test_nothing_is_left_behind(system: Path, inside: Place) -> None:
    logs = inside.put("4.3.1/clean")
    process = subprocess.Popen(
        ["chroot", "--userspec=nobody:nogroup", system, "kdump", "dump", f"/data/{logs}"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1)
    process.kill()
    process.wait()
    assert [*(system / "tmp").iterdir()] == []


def test_where_no_file_in_memory_can_be_made_a_directory_serves(dist: Path, tmp_path: Path) -> None:
    strace = ["strace", "-f", "-o", "/dev/null", "-e", "inject=memfd_create:error=EPERM"]
    command = [*strace, str(one_file(dist, "x86_64")), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "set KDUMP_LIBRARIES to a directory of your own" in done.stderr
    assert "Traceback" not in done.stderr
    place = {**os.environ, "KDUMP_LIBRARIES": str(tmp_path / "libraries")}
    for _ in range(2):  # the second run finds them there
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=place)
        assert (done.returncode, done.stderr) == (0, "")
        assert "(kernel compiled)" in done.stdout


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_an_emulated_processor_prints_the_same(dist: Path, tmp_path: Path, name: str) -> None:
    logs = copy_fixture(name, tmp_path / "logs")
    emulated = [*EMULATOR, str(one_file(dist, "aarch64"))]
    for command in (
        ["verify", "--deep", "--info", "--format", "json", "logs"],
        ["dump", "--format", "json", "--records", f"logs/{next(logs.glob('*-0')).name}"],
    ):
        code, found = ran([*emulated, *command], tmp_path)
        here_code, here = ran([str(KDUMP), *command], tmp_path)
        assert (code, lines(found)) == (here_code, lines(here))


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
def test_its_python_has_sqlite(dist: Path, tmp_path: Path, architecture: str) -> None:
    copy = tmp_path / "copy"
    shutil.copy(one_file(dist, architecture), copy)
    with ZipFile(copy, "a") as archive:  # a package goes before the module that starts kdump
        archive.write(WAL_DATABASE, "startup/__init__.py")
    emulator = EMULATOR if architecture == "aarch64" else ()
    version = assert_databases([*emulator, str(copy)], tmp_path)
    bill = json.loads(package(dist, "*-sbom.cdx.json").read_text())
    listed = {part["name"]: part["version"] for part in bill["components"]}
    assert listed["sqlite"] == version


def test_a_wheel_is_for_this_release_of_python(dist: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    (wheel,) = dist.glob("*manylinux*_x86_64.whl")
    subprocess.run([tmp_path / "venv/bin/pip", "install", "-q", wheel], check=True)
    _, version = ran([str(tmp_path / "venv/bin/kdump"), "--version"], tmp_path)
    assert "(kernel compiled)" in version


# --- packages


def files(top: Path) -> set[str]:
    """All files below ``top``, but for what the system notes of its packages."""
    noted = ("var/lib/dpkg/", "var/log/", "var/cache/", "var/lib/rpm/", "usr/lib/sysimage/rpm/")
    names = {str(path.relative_to(top)) for path in top.rglob("*")}
    return {name for name in names if not name.startswith(noted)}


def test_a_deb_is_installed_used_and_removed(dist: Path, copied: Path) -> None:
    made = package(dist, "*_amd64.deb")
    shutil.copy(made, copied / "kdump.deb")
    before = files(copied)
    chroot = ["chroot", str(copied)]
    subprocess.run([*chroot, "dpkg", "-i", "/kdump.deb"], check=True, stdout=subprocess.DEVNULL)
    added = files(copied) - before
    assert "usr/bin/kafka-kdump" in added
    assert not {name for name in added if name in ("usr/bin/kdump", "usr/sbin/kdump")}
    assert {
        "usr/share/bash-completion/completions/kafka-kdump",
        "usr/share/zsh/vendor-completions/_kafka-kdump",
        "usr/share/fish/vendor_completions.d/kafka-kdump.fish",
        "usr/share/doc/kafka-kdump/examples/kafka-kdump-scrub.timer",
    } <= added
    executable = copied / "usr/bin/kafka-kdump"
    assert executable.read_bytes() == one_file(dist, "x86_64").read_bytes()
    copy_fixture("4.3.1/clean", copied / "logs")
    (copied / "logs/codec-zstd-0/00000000000000000000.log").write_bytes(b"x" * 100)
    with mounted("-t", "proc", "proc", copied / "proc"):
        code, text = ran([*chroot, "kafka-kdump", "verify", "/logs"], copied)
        _, usage = ran([*chroot, "kafka-kdump", "help", "verify"], copied)
    assert code == 4
    assert "next        kafka-kdump explain " in text
    assert usage.startswith("Usage: kafka-kdump verify ")
    shutil.rmtree(copied / "logs")
    subprocess.run([*chroot, "dpkg", "-P", "kafka-kdump"], check=True, stdout=subprocess.DEVNULL)
    assert files(copied) == before


def test_dpkg_and_rpm_take_a_candidate_for_older_than_its_release(dist: Path) -> None:
    deb, rpm = package(dist, "*_amd64.deb"), package(dist, "*.x86_64.rpm")
    _, of_deb = ran(["dpkg-deb", "-f", str(deb), "Version"], dist)
    _, of_rpm = ran(["rpm", "-qp", "--qf", "%{VERSION}-%{RELEASE}\n", str(rpm)], dist)
    release = VERSION.partition("rc")[0]
    expected = f"{VERSION.replace('rc', '~rc')}-1\n"
    assert (of_deb, of_rpm) == (expected, expected)
    older = ["dpkg", "--compare-versions", of_deb.strip(), "lt", f"{release}-2"]
    assert ran(older, dist)[0] == 0


def test_an_rpm_is_installed_and_removed(dist: Path, tmp_path: Path) -> None:
    made = package(dist, "*.x86_64.rpm")
    rpm = ["rpm", "--root", str(tmp_path), "--nodeps"]
    subprocess.run(["rpm", "--root", tmp_path, "--initdb"], check=True)
    before = files(tmp_path)
    subprocess.run([*rpm, "--ignorearch", "-i", made], check=True)
    executable = tmp_path / "usr/bin/kafka-kdump"
    assert executable.read_bytes() == one_file(dist, "x86_64").read_bytes()
    assert (tmp_path / "usr/share/zsh/site-functions/_kafka-kdump").is_file()
    assert ran([str(executable), "--version"], tmp_path)[1].startswith(f"kdump {VERSION} ")
    subprocess.run([*rpm, "-e", "kafka-kdump"], check=True)
    assert {name for name in files(tmp_path) - before if (tmp_path / name).is_file()} == set()
    assert "libc.so.6(GLIBC_2.28)(64bit)" in ran(["rpm", "-qpR", str(made)], tmp_path)[1]


@pytest.mark.parametrize("pattern", ["*_amd64.deb", "*_arm64.deb"])
def test_lintian_finds_no_error(dist: Path, pattern: str) -> None:
    done = subprocess.run(
        ["lintian", "--allow-root", "--fail-on", "error", package(dist, pattern)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("pattern", ["*.x86_64.rpm", "*.aarch64.rpm"])
def test_rpmlint_finds_no_error(dist: Path, pattern: str) -> None:
    done = subprocess.run(
        ["rpmlint", "-c", ROOT / "packaging/nfpm/rpmlint.toml", package(dist, pattern)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert " 0 errors, " in done.stdout, done.stdout + done.stderr


# --- the image


@pytest.fixture
def container(dist: Path, tmp_path: Path) -> Iterator[Path]:
    """The root directory of the image for this processor, read-only but for what is mounted."""
    archive, layout, root = package(dist, "*-image.tar"), tmp_path / "layout", tmp_path / "root"
    for directory in (tmp_path, layout, root):
        directory.mkdir(exist_ok=True, mode=0o755)
    subprocess.run(["tar", "-xf", archive, "-C", layout], check=True)

    def blob(digest: str) -> Path:
        path = layout / "blobs" / digest.replace(":", "/")
        assert f"sha256:{sha256(path.read_bytes()).hexdigest()}" == digest
        return path

    index = json.loads((layout / "index.json").read_text())
    both = json.loads(blob(index["manifests"][0]["digest"]).read_text())["manifests"]
    assert {each["platform"]["architecture"] for each in both} == {"amd64", "arm64"}
    (own,) = [each for each in both if each["platform"]["architecture"] == "amd64"]
    manifest = json.loads(blob(own["digest"]).read_text())
    config = json.loads(blob(manifest["config"]["digest"]).read_text())["config"]
    assert (config["User"], config["Entrypoint"]) == ("65532:65532", ["/usr/bin/kdump"])
    for layer in manifest["layers"]:
        subprocess.run(["tar", "-xzf", blob(layer["digest"]), "-C", root], check=True)
    (root / "data").mkdir()
    with mounted("--bind", root, root):
        subprocess.run(["mount", "-o", "remount,ro,bind", root], check=True)
        with (
            mounted("-t", "tmpfs", "tmpfs", root / "data"),
            mounted("-t", "proc", "proc", root / "proc"),
        ):
            yield root


def test_the_image_runs_as_nobody_on_a_read_only_root(
    container: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    logs, here = container / "data/logs", tmp_path_factory.mktemp("here")
    for target in (logs, here / "logs"):
        copy_fixture("4.3.1/clean", target)
    os.chown(container / "data", 65532, 65532)
    for path in (logs, *logs.rglob("*")):
        os.chown(path, 65532, 65532)
    command = ["verify", "--deep", "--info", "--format", "json", "logs"]
    chroot = ["chroot", "--userspec=65532:65532", str(container), "/bin/sh", "-c"]
    code, found = ran([*chroot, 'cd /data && exec kdump "$@"', "sh", *command], container)
    expected_code, expected = ran([str(KDUMP), *command], here)
    assert (code, lines(found)) == (expected_code, lines(expected))
    bill = json.loads((container / "usr/share/doc/kdump/sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert {"python", "zstandard", "busybox-static"} <= {
        part["name"] for part in bill["components"]
    }


def test_tools_for_images_read_it(dist: Path) -> None:
    archive = package(dist, "*-image.tar")
    for architecture in ("amd64", "arm64"):
        done = subprocess.run(
            ["skopeo", f"--override-arch={architecture}", "inspect", f"oci-archive:{archive}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout)["Architecture"] == architecture


def test_the_sums_are_those_of_all_files(dist: Path) -> None:
    listed = {}
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        listed[name] = digest
    made = {path.name for path in dist.iterdir()} - {"SHA256SUMS"}
    assert listed == {name: sha256((dist / name).read_bytes()).hexdigest() for name in made}
