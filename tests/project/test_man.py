"""The manual pages say what the commands' help says, all of it, and are up to date."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import click
import pytest

from kdump.audit.codes import CODES
from kdump.cli.main import cli, main
from kdump.commands.dump.differences import DIFFERENCES
from kdump.ui import exits

pytestmark = pytest.mark.once

MAN = Path(__file__).parents[2] / "man"
PAGES = {path.stem: path.read_text() for path in sorted(MAN.glob("*.1"))}
GUIDES = {path.name: path.read_text() for path in sorted(MAN.glob("*.[57]"))}

TOP = click.Context(cli, info_name="kdump", **cli.context_settings)
COMMANDS = {
    name: command for name in cli.list_commands(TOP) if (command := cli.get_command(TOP, name))
}
EXIT_CODE = re.compile(r"(?:Exit codes:|;) ((?:\d+(?:, )?)+) ")


def context(title: str) -> click.Context:
    """The context of the command that the page ``title`` is about."""
    if title == "kdump":
        return TOP
    name = title.removeprefix("kdump-")
    return click.Context(COMMANDS[name], info_name=name, parent=TOP)


def manual(title: str) -> str:
    """The words of the page that is printed where no man shows it."""
    with redirect_stdout(TextIOWrapper(BytesIO())) as out:
        assert main(["help", title]) == exits.OK
    out.seek(0)
    return words(out.read())


def words(text: str) -> str:
    """``text`` with single blanks, however it was wrapped."""
    return " ".join(text.split())


def plain(page: str) -> str:
    """The text of a page as a reader sees it, with single blanks."""
    lines = [
        re.sub(r"^\.(?:B|BR|SH|TH) ", "", line)
        for line in page.splitlines()
        if not re.match(r"\.(?:\\\"|TP|PP|br|nf|fi)", line)
    ]
    text = words("\n".join(lines)).replace("\\-", "-").replace("\\(dq", '"').replace("\\&", "")
    text = re.sub(r"\\\[u([0-9A-F]{4,})]", lambda found: chr(int(found[1], 16)), text)
    return text.replace("\\e", "\\")


def read(page: str) -> list[str]:
    """The words of a page as groff shows it, whatever pandoc has set between them."""
    done = subprocess.run(
        ["groff", "-man", "-t", "-Tutf8", "-P-cbou", "-rLL=72n"],
        input=page,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return re.sub(".\b", "", done.stdout).split()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the generator writes now; without pandoc all but the guides' pages."""
    directory = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, MAN / "generate.py", directory])
    return directory


def test_the_pages_are_those_that_the_generator_writes(written: Path) -> None:
    assert {path.stem: path.read_text() for path in written.glob("*.1")} == PAGES
    for guide in ("kdump-findings.md", "kdump-json.md"):
        assert (written / guide).read_text() == (MAN / guide).read_text()


def test_what_comments_cite_is_in_the_guide() -> None:
    guide = (MAN / "kdump-on-disk.md").read_text()
    parts = {
        number: set(re.findall(r"^(\d+)\. ", text, re.MULTILINE))
        for number, text in re.findall(
            r"^###? (\d+(?:\.\d)?)\.? .*\n((?:(?!##).*\n)*)", guide, re.MULTILINE
        )
    }
    cited = set()
    for path in (MAN.parent / "kdump").rglob("*.py"):
        text = path.read_text()
        cited |= set(re.findall(r"KOD (\d+(?:\.\d)?)", text))
        steps = re.findall(r"KOD (\d)[,: ]+steps?\s(\d)", text)
        assert all(step in parts[number] for number, step in steps), path
        checks = re.findall(r"KOD \d(?:\.\d)?[, (:]+checks?\s(\d+)", text)
        assert set(checks) <= parts["9"], path
    assert len(cited) > 10
    assert cited - {"10.8"} <= set(parts)  # an item of section 10
    assert {str(code.check) for code in CODES.values() if code.check} <= parts["9"]


def test_there_is_a_page_for_every_guide() -> None:
    assert {Path(name).stem for name in GUIDES} == {path.stem for path in MAN.glob("*.md")}


@pytest.mark.parametrize("name", GUIDES)
def test_the_pages_of_guides_are_those_that_pandoc_makes(written: Path, name: str) -> None:
    for command in ("pandoc", "groff"):
        if shutil.which(command) is None:
            if os.environ.get("CI"):
                pytest.fail(f"CI requires {command}", pytrace=False)
            pytest.skip(f"no {command} command on PATH")
    assert read((written / name).read_text()) == read(GUIDES[name])


def test_there_is_a_page_for_every_command() -> None:
    assert set(PAGES) == {"kdump"} | {f"kdump-{name}" for name in COMMANDS}


@pytest.mark.parametrize("title", PAGES)
def test_page_and_help_say_the_same(title: str) -> None:
    command = context(title)
    page = plain(PAGES[title])
    shown = manual(title)
    records = [option.get_help_record(command) for option in command.command.get_params(command)]
    for names, text in filter(None, records):
        assert names in shown or title == "kdump"
        assert not text or f"{names} {words(text)}" in page
    for paragraph in (command.command.help or "").replace("\b\n", "").split("\n\n"):
        assert words(paragraph) in page
        assert words(paragraph) in shown
    codes = EXIT_CODE.findall(shown)
    assert codes
    for code in codes:
        assert f"\n.TP\n.B {code}\n" in PAGES[title]


def test_every_command_is_in_the_help_and_on_the_page() -> None:
    for name in COMMANDS:
        assert f" {name} " in words(TOP.get_help())
        spelled = name.replace("-", "\\-")
        assert f"\n.TP\n.B {spelled}\n" in PAGES["kdump"]


def test_every_finding_code_is_in_the_help_and_on_the_page() -> None:
    shown = set(manual("kdump-explain").replace(",", " ").replace(".", " ").split())
    guide = (MAN / "kdump-findings.md").read_text().replace("\\", "")
    for code in CODES.values():
        assert code.name in shown
        assert f"### {code.name}\n\n**{code.severity.value}**: {code.meaning}\n" in guide
        assert f"- Broker: {code.broker}\n- Do: {code.advice}\n" in guide


def test_every_difference_from_kafkas_tool_is_in_the_help_and_on_the_page() -> None:
    shown = manual("kdump-dump")
    page = plain(PAGES["kdump-dump"])
    for name, text in DIFFERENCES.items():
        assert f"{name} {text}" in shown
        assert f"{name} {words(text)}" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff command on PATH")
@pytest.mark.parametrize("name", [*(f"{name}.1" for name in PAGES), *GUIDES])
def test_groff_takes_the_pages_without_a_warning(name: str) -> None:
    done = subprocess.run(
        ["groff", "-man", "-t", "-Tutf8", "-ww", "-z", MAN / name],
        capture_output=True,
        text=True,
    )
    # Where a table meets the end of a sheet of paper is no matter of the page's.
    warnings = [line for line in done.stderr.splitlines() if "will not fit on one page" not in line]
    assert (done.returncode, warnings) == (0, [])
