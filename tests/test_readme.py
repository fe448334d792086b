"""What README.md shows was run: every ``console`` block is run again, on a copy of the fixtures."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kdump.audit.codes import CODES
from kdump.cli.main import cli

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)\n```", re.MULTILINE | re.DOTALL)

ON_SPARK = re.compile("kdump export|--master|exported")

#: What differs from run to run, and from machine to machine.
VARYING = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, \d[\d.]* s", "WHEN"),
    (r"([0-9a-f]{8}) \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r"\1 WHEN"),
    (r"done; \d[\d.]* (bytes|KiB)", "done; SIZE"),
    (r"free \d[\d.]* [KMGT]iB; device [0-9a-f]+:[0-9a-f]+, directory inode \d+", "PLACE"),
    (r"\d[\d.]* s, [\d,.]+ (bytes|[KMGT]iB)/s, \d+ jobs?", "TIME"),
    (r"; broker (stopped|unknown): .*? open(, as far as .*? are hidden)?", "; LIVENESS"),
]
#: Where plans are named: by other ids in each run, since files have other inodes and times.
PLAN_ID = re.compile(r"^(?:PLAN|DONE) ([0-9a-f]{8})\b", re.MULTILINE)


def steps() -> list[tuple[str, str]]:
    """The commands of all console blocks in order, each with what is shown below it."""
    found = []
    for block in CONSOLE.findall(README):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = step.partition("\n")
            found.append((command, output))
    return found


def settled(output: str) -> str:
    """``output`` with what varies replaced, and wrapped nowhere."""
    text = " ".join(output.split())
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands run."""
    return tmp_path_factory.mktemp("readme")


@pytest.fixture(scope="module")
def shown(place: Path) -> list[str]:
    """What the commands print now, each in turn."""
    shutil.copytree(ROOT / "fixtures", place / "fixtures")
    ids: dict[str, str] = {}  # as README has them, to what they are in this run
    texts = []
    for command, output in steps():
        printed = subprocess.run(
            ["bash", "-c", translated(command, ids)],
            cwd=place,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        ids |= zip(PLAN_ID.findall(output), PLAN_ID.findall(printed), strict=False)
        printed = printed.replace(str(place), "/srv")
        texts.append(translated(printed, {here: there for there, here in ids.items()}))
    return texts


def environment() -> dict[str, str]:
    """That of a shell that has the environment of the tests activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "COLUMNS": "80"}


def translated(text: str, ids: dict[str, str]) -> str:
    """``text`` with the ids of plans replaced."""
    return re.sub(r"\b[0-9a-f]{8}\b", lambda found: ids.get(found[0], found[0]), text)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(
            number,
            id=command,
            marks=[pytest.mark.spark] if ON_SPARK.search(command) else [],
        )
        for number, (command, _) in enumerate(steps())
    ],
)
def test_the_commands_print_what_is_shown(shown: list[str], number: int) -> None:
    _, output = steps()[number]
    assert settled(shown[number]) == settled(output)


@pytest.mark.spark
@pytest.mark.usefixtures("shown")  # its commands make the damage
def test_the_example_in_python_prints_what_is_shown(place: Path) -> None:
    ((program, output),) = EXAMPLE.findall(README)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=place,
        env=environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.split() == output.split(), ran.stderr


def test_every_command_is_shown() -> None:
    commands = cli.list_commands(click.Context(cli))
    assert all(re.search(rf"^\$ kdump {name}\b", README, re.MULTILINE) for name in commands)


def test_only_commands_that_exist_are_named() -> None:
    named = set(
        re.findall(
            r"kdump ([a-z][a-z0-9-]*)\b(?= [A-Z'\-$]| damaged| broken| old| fixtures| --quiet)",
            README,
        )
    )
    assert named == set(cli.list_commands(click.Context(cli)))


def test_the_exit_codes_are_those_of_the_help() -> None:
    epilog = (cli.epilog or "").removeprefix("Exit codes: ").removesuffix(".")
    for item in epilog.split("; "):
        code, meaning = re.fullmatch(r"(\d+(?:, \d+)*) (.*)", item).groups()  # type: ignore[union-attr]
        assert f"| {code} | {meaning}" in README


def test_log_lines_in_the_table_are_known() -> None:
    table = README.partition("## Which command")[2].partition("\n## ")[0]
    lines = re.findall(r"`([A-Z][a-z]+ [^`]*)`", table)
    assert len(lines) >= 5
    messages = [message.replace("{}", "…") for code in CODES.values() for message in code.messages]
    for line in lines:
        assert any(message.startswith(line.removesuffix(" …")) for message in messages)


def test_ci_runs_the_test_command() -> None:
    _, test_command = SHELL.findall(README)
    ci = (ROOT / ".ci/run").read_text().replace(" -q ", " ")
    assert all(part in ci for part in test_command.split(" && "))
