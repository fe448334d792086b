"""What README and the guides show was run: it is run again, on copies of the fixtures."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest

from kdump.audit.codes import CODES
from kdump.cli.main import cli
from kdump.commands.explain.broker_log.message import BrokerMessage
from kdump.commands.explain.broker_log.table import MESSAGES, messages_of
from support.documents import EXAMPLE, TEXTS
from support.shown import DOCUMENTS, ROOT, elided, environment, normalize, printed, rewritten, steps

pytestmark = pytest.mark.once

README = TEXTS["README"]
STEPS = [step for text in TEXTS.values() for step in steps(text)]
SHELL = re.compile(r"^```sh\n(.*?)\n```", re.MULTILINE | re.DOTALL)
#: Commands that are named, not run: in text and tables, and in blocks that are no ``console``.
INLINE = re.compile(r"`((?:kdump|kafka-kdump) [^`\n]+)`")
SCRIPT = re.compile(r"^ *```(?!console)\w+\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"(?:^|/)(kdump [a-z].*)$", re.MULTILINE)

ON_SPARK = re.compile("kdump export|--master|exported")


@cache
def place(top: Path, name: str) -> Path:
    """Where the commands of a document run."""
    directory = top / name
    directory.mkdir()
    return directory


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shown")


@cache
def outputs(top: Path, name: str) -> list[str]:
    """What the commands of a document print now, each in turn, as far as it is shown."""
    return [
        "" if step.output is None else elided(output, step.output)
        for step, output in printed(TEXTS[name], place(top, name))
    ]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        pytest.param(
            name,
            number,
            id=f"{name}: {step.command}",
            marks=[
                *([pytest.mark.spark] if ON_SPARK.search(step.command) else []),
                *([pytest.mark.slow] if name != "README" else []),
            ],
        )
        for name, text in TEXTS.items()
        for number, step in enumerate(steps(text))
        if step.output is not None
    ],
)
def test_the_commands_print_what_is_shown(top: Path, name: str, number: int) -> None:
    output = list(steps(TEXTS[name]))[number].output
    assert output is not None
    assert normalize(outputs(top, name)[number]) == normalize(output)


@pytest.mark.spark
def test_the_examples_in_python_print_what_is_shown(top: Path) -> None:
    """They go on in the session of the first."""
    outputs(top, "kdump-spark")  # whose commands make the damage
    programs, shown = zip(*EXAMPLE.findall(TEXTS["kdump-spark"]), strict=True)
    ran = subprocess.run(
        [sys.executable, "-c", "".join(programs)],
        cwd=place(top, "kdump-spark"),
        env=environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout.split() == "".join(shown).split(), ran.stderr


def test_what_differs_is_rewritten_and_nothing_else(tmp_path: Path) -> None:
    text = (
        "1. Step:\n\n   ```console\n   $ D=x\n   $ printf 'a  1\\nb: 2\\n   3\\nc  4\\n' | tee $D\n"
        "   b: 9\n   ...\n   $ kdump --version | head -c5\n   kdump\n   ```\n\nEnd.\n"
    )
    assert rewritten(text, tmp_path) == text.replace("   b: 9\n", "   ...\n   b: 2\n      3\n")


def test_every_command_is_shown() -> None:
    commands = cli.list_commands(click.Context(cli))
    shown = {step.command.split()[1] for step in STEPS if step.command.startswith("kdump ")}
    assert shown >= set(commands)


@pytest.mark.parametrize("name", TEXTS)
def test_only_commands_and_options_that_exist_are_named(name: str) -> None:
    scripts = "".join(SCRIPT.findall(TEXTS[name]))
    for text in INLINE.findall(TEXTS[name]) + LINE.findall(scripts):
        words = shlex.split(re.split(" [|<] | && ", text)[0])
        # With the settings of a real run: a command keeps the help option that it first makes.
        top = click.Context(cli, **cli.context_settings)
        command = cli.get_command(top, words[1])
        assert command is not None, text
        command.make_parser(click.Context(command, parent=top)).parse_args(words[2:])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.pattern[:60])
def test_commands_that_an_answer_names_exist(message: BrokerMessage) -> None:
    for name, options in re.findall(
        r"kdump (?!cannot)([a-z0-9-]+)((?: --[a-z-]+)*)", message.advice
    ):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        known = {option for parameter in command.params for option in parameter.opts}
        assert known >= set(options.split())


def test_the_exit_codes_are_those_of_the_help() -> None:
    epilog = (cli.epilog or "").removeprefix("Exit codes: ").removesuffix(".")
    for item in epilog.split("; "):
        code, meaning = re.fullmatch(r"(\d+(?:, \d+)*) (.*)", item).groups()  # type: ignore[union-attr]
        assert f"| {code} | {meaning}" in TEXTS["kdump-reading"]


def test_log_lines_in_the_table_are_known() -> None:
    table = TEXTS["kdump-incident"].partition("## Which command")[2].partition("\n## ")[0]
    lines = re.findall(r"`([A-Z][a-z]+ [^`]*)`", table)
    assert len(lines) >= 5
    messages = [
        message.replace("{}", "…") for code in CODES.values() for message in messages_of(code)
    ]
    for line in lines:
        assert any(message.startswith(line.removesuffix(" …")) for message in messages)


def test_links_lead_to_files() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"]\(((?!https?:)[^)#]+)", document.read_text()):
            assert (document.parent / target).exists(), (document.name, target)


def test_readme_is_short() -> None:
    """A stranger reads it in some minutes: words as wc counts them, tables and code included."""
    assert len(README.split()) <= 900


def test_ci_runs_the_test_command() -> None:
    _, test_command = SHELL.findall(README)
    parts = (ROOT / name for name in (".ci/functions", ".ci/run"))
    ci = "".join(part.read_text() for part in parts).replace(" -q ", " ")
    assert all(part in ci for part in test_command.split(" && "))
