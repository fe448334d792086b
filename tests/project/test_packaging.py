"""What a build and an install of kdump must hold, whether or not there is a compiler."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module, metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kdump
from kdump.format.kernel import headers as _headers
from support.kernel_builds import BUILT, PACKAGE, PRELUDES

ROOT = Path(__file__).parents[2]
INSTALLED = Path(kdump.__file__).parent
FROM_SOURCE = os.environ.get("KDUMP_TEST_SOURCE") == "1"
NOT_SOURCE = pytest.mark.skipif(FROM_SOURCE, reason="KDUMP_TEST_SOURCE=1: nothing is installed")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Where a distribution has another name than its module.
DISTRIBUTIONS = {"snappy": "python-snappy"}
#: What a build needs of the checkout, beside the package.
BUILT_FROM = ("LICENSE", "MANIFEST.in", "pyproject.toml", "setup.py")

#: The hooks of PEP 517 run in the current directory; the tools of the test extra do the rest.
BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, sys.argv[1])('out'))"


def modules(package: Path) -> set[str]:
    """The Python sources below ``package``, as paths relative to it."""
    return {path.relative_to(package).as_posix() for path in package.rglob("*.py")}


@NOT_SOURCE
def test_the_installed_package_is_tested() -> None:
    assert INSTALLED.parent.name == "site-packages"
    assert ROOT / "kdump" != INSTALLED


@NOT_SOURCE
def test_the_installed_sources_are_those_of_the_checkout() -> None:
    assert modules(INSTALLED) == modules(ROOT / "kdump")
    changed = [
        name
        for name in modules(INSTALLED)
        if (INSTALLED / name).read_bytes() != (ROOT / "kdump" / name).read_bytes()
    ]
    assert changed == []


@pytest.mark.parametrize("name", BUILT)
def test_a_compiled_module_is_built_from_the_source_beside_it(name: str) -> None:
    module = import_module(f"{PACKAGE}.{name}")
    folder = ROOT.joinpath(*PACKAGE.split("."))
    sources = [folder / f"{part}.py" for part in (name, *PRELUDES)]
    compiled = not str(module.__file__).endswith(".py")
    assert compiled == _headers.COMPILED
    text = b"".join(source.read_bytes() for source in sources)
    stamp = hashlib.sha256(text).hexdigest() if compiled else None
    assert getattr(module, "SOURCE_SHA256", None) == stamp


@NOT_SOURCE
def test_metadata() -> None:
    about = metadata.metadata("kafka-kdump")
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    assert (INSTALLED / "py.typed").is_file()
    commands = {entry.name: entry.value for entry in metadata.entry_points(module="kdump.__main__")}
    assert commands == dict.fromkeys(("kdump", "kafka-kdump"), "kdump.__main__:main")


@NOT_SOURCE
@pytest.mark.parametrize("command", ["kdump", "kafka-kdump"])
def test_the_commands_say_which_kernel_runs(command: str) -> None:
    shown = subprocess.run(
        [Path(sys.executable).parent / command, "--version"], capture_output=True, text=True
    )
    kernel = "compiled" if _headers.COMPILED else "plain"
    assert shown.stdout.splitlines()[0] == f"kdump {PROJECT['version']} (kernel {kernel})"
    assert shown.returncode == 0


@NOT_SOURCE
def test_the_manual_is_installed() -> None:
    for section in "17":
        pages = sorted((ROOT / "man").glob(f"*.{section}"))
        assert pages
        for page in pages:
            installed = Path(sys.prefix, f"share/man/man{section}", page.name)
            assert installed.read_bytes() == page.read_bytes()
    for schema in (ROOT / "man/schemas").iterdir():
        installed = Path(sys.prefix, "share/doc/kafka-kdump/schemas", schema.name)
        assert installed.read_bytes() == schema.read_bytes()


def test_a_free_threaded_python_is_refused() -> None:
    code = (
        "import runpy, sysconfig; sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1; "
        "runpy.run_path('setup.py', run_name='__main__')"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1
    assert "found a free-threaded build" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.slow
def test_what_is_imported_is_declared() -> None:
    trees = [ast.parse(path.read_bytes()) for path in (ROOT / "kdump").rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    foreign = {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"kdump"}
    lines = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]]
    # That one is Spark's own need.
    declared = {re.split("[^a-z0-9-]", line)[0] for line in lines} - {"pandas"}
    # The kernel asks for Cython and does without it.
    assert {DISTRIBUTIONS.get(name, name) for name in foreign - {"cython"}} == declared


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution, built from a copy of the checkout and unpacked."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in (*(ROOT / name for name in BUILT_FROM), *ROOT.glob("*.md")):
        shutil.copy(path, copy)
    for name in ("fixtures", "kdump", "man", "packaging", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    archive = copy / "out" / build("build_sdist", copy, os.environ)
    unpacked = tmp_path_factory.mktemp("sdist")
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="data")
    (top,) = unpacked.iterdir()
    return top


def build(hook: str, directory: Path, environment: dict[str, str] | os._Environ[str]) -> str:
    """Run a build hook in ``directory``; returns the name of what it made in ``out``."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD, hook],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.once
@pytest.mark.slow
def test_the_sdist_holds_the_package_its_tests_and_every_fixture(sdist: Path) -> None:
    assert modules(sdist / "kdump") == modules(ROOT / "kdump")
    assert modules(sdist / "tests") == modules(ROOT / "tests")
    for folder in ("fixtures", "man", "packaging"):
        packed, kept = (
            {
                path.relative_to(top).as_posix()
                for path in (top / folder).rglob("*")
                if path.is_file() and path.suffix != ".pyc"
            }
            for top in (sdist, ROOT)
        )
        assert packed == kept


@pytest.mark.once
@pytest.mark.slow
def test_the_sdist_holds_the_documents_that_its_readme_links_to(sdist: Path) -> None:
    links = re.findall(r"\]\(([^:)#]+)\)", (ROOT / "README.md").read_text())
    assert {"SECURITY.md", "kdump/README.md"} < set(links)
    assert [link for link in links if not (sdist / link).is_file()] == []


@pytest.mark.once
@pytest.mark.slow
def test_a_wheel_is_built_where_no_compiler_is(sdist: Path) -> None:
    name = build("build_wheel", sdist, os.environ | {"CC": "/bin/false"})
    with zipfile.ZipFile(sdist / "out" / name) as wheel:
        names = wheel.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = wheel.read(metadata).decode()
    packed = {name.removeprefix("kdump/") for name in names if name.startswith("kdump/")}
    assert packed == modules(ROOT / "kdump") | {"py.typed"}
    assert {name.split("/")[0] for name in names} - {"kdump"} == {
        f"kafka_kdump-{PROJECT['version']}{end}" for end in (".data", ".dist-info")
    }
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    # Registries show README beside none of its files.
    place = f"{PROJECT['urls']['Homepage']}/blob/v{PROJECT['version']}"
    assert "Description-Content-Type: text/markdown\n" in about
    assert f"[SECURITY.md]({place}/SECURITY.md)" in about
    assert re.findall(r"\]\((?!https?:).*?\)", about) == []
    pages = {"/".join(Path(name).parts[-2:]) for name in names if "/share/man/" in name}
    assert pages == {f"man{page.suffix[1:]}/{page.name}" for page in (ROOT / "man").glob("*.[157]")}


@pytest.mark.parametrize(("lock", "extras"), [("test", ["test"]), ("spark", ["test", "spark"])])
def test_the_locks_name_every_dependency_with_hashes(lock: str, extras: list[str]) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    entries = re.split(r"^(?=\S)", text, flags=re.MULTILINE)[1:]
    locked: dict[str, list[str]] = {}
    for entry in entries:
        found = re.match(r"([\w.-]+)(?:\[[^]]*\])?==([^ ;\\]+)", entry)
        assert found is not None, entry
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), found[1]
        locked.setdefault(canonicalize_name(found[1]), []).append(found[2])
    wanted = [Requirement(text) for text in PROJECT["dependencies"]]
    for extra in extras:
        wanted += [Requirement(text) for text in PROJECT["optional-dependencies"][extra]]
    for requirement in wanted:
        versions = locked[canonicalize_name(requirement.name)]
        assert any(version in requirement.specifier for version in versions), requirement


@pytest.mark.parametrize("lock", ["test", "spark"])
def test_the_locks_name_the_extras_that_dependencies_ask_for(lock: str) -> None:
    """Without its extra pip takes the newest release for another one than the locked."""
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()
    names = {canonicalize_name(re.split(r"\[|==", line)[0]) for line in lines if "==" in line}
    for distribution in importlib.metadata.distributions():
        if canonicalize_name(distribution.name) not in names:
            continue
        for text in distribution.requires or ():
            wanted = Requirement(text)
            if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
                start = f"{wanted.name}[{','.join(sorted(wanted.extras))}]=="
                assert any(line.startswith(start) for line in lines), (distribution.name, text)
