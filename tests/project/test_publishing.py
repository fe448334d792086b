"""What a public release asks of the repository: values of its owner, versions, workflows, recipes.

``.ci/release`` has the formula read by ruby and the recipe by rattler-build.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from packaging.requirements import Requirement

import owner
import recipes
from kdump.cli.main import cli

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]
VALUES = owner.values(ROOT)
WORKFLOWS = ROOT / ".github/workflows"
FORMS = ROOT / ".github/ISSUE_TEMPLATE"
#: Where no value of the owner can stand, and what is no file of the repository.
ELSEWHERE = (
    "fixtures", "build", "dist", ".git", "*.egg-info", ".venv*", ".tools", ".*_cache",
    ".hypothesis", "__pycache__",
)  # fmt: skip


@cache
def texts() -> dict[str, str]:
    """The text files of the repository but for the fixtures, by their paths."""
    found = {}
    for top, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(map(Path(name).match, ELSEWHERE))]
        for path in (Path(top, name) for name in files):
            with suppress(UnicodeDecodeError, FileNotFoundError):
                found[path.relative_to(ROOT).as_posix()] = path.read_text()
    return found


# --- the owner's values


def test_there_are_five_values() -> None:
    assert list(VALUES) == ["repository", "author", "mail", "security", "image"]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_stands_in_its_files_and_in_no_other(name: str) -> None:
    value = VALUES[name]
    holding = {file for file, text in texts().items() if owner.spelled(value.value, file) in text}
    assert holding - {owner.TABLE, Path(__file__).relative_to(ROOT).as_posix()} == set(value.files)


def test_one_command_sets_all_values(tmp_path: Path) -> None:
    for file in {owner.TABLE, "packaging/owner.py", *sum((v.files for v in VALUES.values()), ())}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    new = {
        "repository": "https://forge.test/an-owner/kdump",
        "author": "The Authors",
        "mail": "authors@forge.test",
        "security": "secure@forge.test",
        "image": "forge.test/an-owner/kdump",
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, tmp_path / "packaging/owner.py", *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    wrong = run("owner=somebody")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        f"expected NAME=VALUE with a NAME of {', '.join(new)}\n",
    )
    some = run(f"author={new['author']}", f"mail={new['mail']}")
    left = [name for name in ("repository", "security", "image") if not VALUES[name].is_set]
    assert [line.split()[0] for line in some.stdout.splitlines()] == left
    assert some.returncode == bool(left)
    done = run(*(f"{name}={value}" for name, value in new.items()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {name: each.value for name, each in owner.values(tmp_path).items()} == new
    written = "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert not [value.value for value in VALUES.values() if value.value in written]
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    assert project["authors"] == [{"name": new["author"], "email": new["mail"]}]
    assert all(url.startswith(new["repository"]) for url in project["urls"].values())
    assert "docker://forge.test/an\\-owner/kdump:" in (tmp_path / "man/kdump-install.7").read_text()


def test_links_of_the_metadata_are_files_of_the_repository() -> None:
    links = PROJECT["urls"]
    assert set(links) == {"Homepage", "Documentation", "Changelog", "Issues", "Security"}
    for name in ("Documentation", "Changelog", "Security"):
        path = links[name].removeprefix(f"{links['Homepage']}/").split("/", 2)[2]
        assert (ROOT / path).exists(), path


# --- the version


def test_the_changelog_begins_with_the_version_and_its_date() -> None:
    (first, *_) = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.fullmatch(rf"\[{re.escape(VERSION)}\] - \d{{4}}-\d\d-\d\d|\[Unreleased\]", first)


def test_examples_name_the_version() -> None:
    named = re.compile(r"(?:kdump:|kdump-|kdump_)(\d+(?:\.\d+)+(?:rc\d+)?)")
    paths = [
        *ROOT.glob("*.md"),
        *(ROOT / "man").glob("*.md"),
        *(ROOT / "packaging/examples").iterdir(),
    ]
    found = {path.name: set(named.findall(path.read_text())) for path in paths}
    assert {name: versions for name, versions in found.items() if versions - {VERSION}} == {}
    assert sum(map(bool, found.values())) >= 4


def test_the_classifiers_name_releases_of_python_and_no_macos() -> None:
    start = "Programming Language :: Python :: 3."
    releases = [each.removeprefix(start) for each in PROJECT["classifiers"] if start in each]
    assert releases == ["11", "12", "13", "14"]
    assert not [each for each in PROJECT["classifiers"] if "MacOS" in each]


def test_the_table_of_wheels_follows_the_locks() -> None:
    locked = (ROOT / "requirements/spark.txt").read_text()
    rows = re.findall(
        r"^\| ([\w-]+) ([\d.]+) \|", (ROOT / "packaging/WHEELS.md").read_text(), re.MULTILINE
    )
    assert len(rows) >= 3
    for name, version in rows:
        assert re.search(rf"^{name}(\[.*\])?=={re.escape(version)} ", locked, re.MULTILINE), name


# --- the forge


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", sorted(WORKFLOWS.iterdir())),
        ("github-issue-forms", [FORMS / "bug.yml"]),
        ("github-issue-config", [FORMS / "config.yml"]),
    ],
)
def test_a_file_of_the_forge_matches_its_schema(schema: str, files: list[Path]) -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [program, "--builtin-schema", f"vendor.{schema}", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def workflow(name: str) -> dict[str, Any]:
    """A workflow; all its values are text: YAML 1.1 takes the key ``on`` for true."""
    loaded: dict[str, Any] = yaml.load((WORKFLOWS / name).read_text(), yaml.BaseLoader)
    return loaded


def runs(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_each_change_runs_what_it_must_pass() -> None:
    ci = workflow("ci.yml")
    assert {"push", "pull_request", "workflow_call"} == set(ci["on"])
    assert ".ci/run" in runs(ci["jobs"]["run"])
    releases = [
        each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3.1" in each
    ]
    assert ci["jobs"]["run"]["strategy"]["matrix"]["python"] == [releases[0], releases[-1]]


def test_a_release_is_tested_made_attested_and_published_in_this_order() -> None:
    release = workflow("release.yml")
    jobs = release["jobs"]
    assert release["on"] == {"push": {"tags": ["v*"]}}
    assert jobs["test"]["uses"] == "./.github/workflows/ci.yml"
    assert [step for step in runs(jobs["build"]) if not step.startswith(("apt-get", "git"))] == [
        "python3 packaging/owner.py",
        ".ci/release dist",
    ]
    needs = {name: job.get("needs") for name, job in jobs.items()}
    assert needs == {
        "test": None, "build": "test", "attest": "build", "pypi": "attest", "image": "attest",
        "publish": ["pypi", "image"],
    }  # fmt: skip


def test_pypi_trusts_the_workflow_without_a_token() -> None:
    job = workflow("release.yml")["jobs"]["pypi"]
    assert (job["environment"], job["permissions"]) == ("pypi", {"id-token": "write"})
    assert job["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert set(job["steps"][-1]["with"]) == {"packages-dir"}


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_workflows_have_few_rights_and_pinned_actions(name: str) -> None:
    assert workflow(name)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (\S+)(.*)", (WORKFLOWS / name).read_text())
    foreign = [(action, comment) for action, comment in used if not action.startswith("./")]
    for action, comment in foreign:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r"  # v\d+\.\d+\.\d+", comment), action


def test_the_issue_form_asks_for_what_kdump_prints() -> None:
    form = yaml.safe_load((FORMS / "bug.yml").read_text())
    asked = [part["attributes"].get("label", "") for part in form["body"]]
    commands = [label.split()[1:] for label in asked if label.startswith("kdump ")]
    assert commands == [
        ["--version"],
        ["verify", "--format", "json", "DIRECTORY"],
        ["manifest", "--anonymous", "--to", "FILE", "DIRECTORY"],
    ]
    top = click.Context(cli, **cli.context_settings)
    for name, *arguments in commands[1:]:
        command = cli.get_command(top, name)
        assert command is not None
        command.make_parser(click.Context(command, parent=top)).parse_args(arguments)


# --- the formula and the recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with a source distribution, and both files made of it."""
    directory = tmp_path_factory.mktemp("dist")
    sdist = directory / f"kafka_kdump-{VERSION}.tar.gz"
    sdist.write_bytes(b"a source distribution")
    recipes.main(sdist, directory)
    return directory


def test_both_name_the_source_distribution_of_the_release(made: Path) -> None:
    formula = (made / "kafka-kdump.rb").read_text()
    source = yaml.safe_load((made / "recipe.yaml").read_text())["source"]
    place = (
        f"{VALUES['repository'].value}/releases/download/v{VERSION}/kafka_kdump-{VERSION}.tar.gz"
    )
    digest = sha256(b"a source distribution").hexdigest()
    assert source == {"url": place, "sha256": digest}
    assert f'  url "{place}"\n  version "{VERSION}"\n  sha256 "{digest}"\n' in formula
    for path in made.glob("*.[ry]*"):
        assert not re.search(r"(?<!\$)\$\{[A-Z]", path.read_text()), path


def test_the_formula_installs_from_what_the_source_distribution_holds(made: Path) -> None:
    formula = (made / "kafka-kdump.rb").read_text()
    (lock,) = re.findall(r'"--require-hashes", "-r", "([^"]+)"', formula)
    assert (ROOT / lock).is_file()
    assert f"graft {lock.split('/')[0]}\n" in (ROOT / "MANIFEST.in").read_text()
    assert f'depends_on "python@{recipes.PYTHON}"' in formula
    (description,) = re.findall(r'desc "(.*)"', formula)
    assert len(description) < 80


def test_the_recipe_asks_for_what_the_metadata_asks_for(made: Path) -> None:
    recipe = yaml.safe_load((made / "recipe.yaml").read_text())
    wanted = {each.name: str(each.specifier) for each in map(Requirement, PROJECT["dependencies"])}
    asked = dict(line.split() for line in recipe["requirements"]["run"] if line != "python")
    assert {name.removeprefix("python-"): asked[name] for name in asked} == {
        name.removeprefix("python-"): specifier for name, specifier in wanted.items()
    }
    assert recipe["context"]["version"] == VERSION
