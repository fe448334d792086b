"""Commands that are printed are pasted into shells: what arrives is what was meant."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdump.cli.main import main
from kdump.commands.salvage.receipt import way_back
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable
from kdump.ui.exits import INCOMPLETE, OK, PROBLEMS
from support.forge import batch, flip, message, record, write_partition
from support.planning import failing_at

pytestmark = pytest.mark.once

#: What a shell, a terminal, a parser of options or a decoder takes for something else.
NAMES = (
    *(b"-", b"--", b"-h", b"--help", b"--apply", b"- x", b"-\n"),
    *(b"a b", b" lead", b"trail ", b"a  b", b"tab\t", b"new\nline", b"\n", b"cr\rx"),
    *(b"\x1b[31m", b"bell\x07", b"del\x7f", b"\x01f", b"nul\\0"),
    *(b"it's", b"'", b"''", b'dq"', b"back\\slash", b"\\", b"\\x41\n", b"$'x'"),
    *(b"$HOME", b"${x}", b"$(id)", b"`id`", b"!!", b"!x", b"a!b'c\n!", b"^a^b"),
    *(b"*", b"?", b"[ab]", b"{a,b}", b"~", b"~root", b"#c", b"a#b", b"=ls", b"a=b", b"%1"),
    *(b"&", b";ls", b"|", b"<x", b">x", b"(x)", b"\\\n"),
    *("größe".encode(), "日本".encode(), "\u202eevil".encode(), "\u200b1".encode()),
    *("é\n".encode(), "\u2028".encode(), "\U000e0041a".encode()),
    *(b"\xff", b"\xc3(", b"a\xffF0", b"\xe2\x80", b"\xff'\n!\\", b"x" * 200),
)
SHELLS = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}
EACH = pytest.mark.parametrize("shell", SHELLS)
PROGRAMS = ("kdump", "mv", "chown")
_COMMAND = re.compile(
    r"(?:^|\s)(kdump (?:verify|truncate-to-valid|salvage|undo|reindex|convert-v0-v2) .*"
    r"|(?:mv|chown) .*)$"
)


def pasted(shell: str, lines: str, place: Path) -> list[list[bytes]]:
    """The words of each command that arrive when ``lines`` are typed into a shell."""
    if shutil.which(shell) is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI requires {shell}", pytrace=False)
        pytest.skip(f"no {shell} here")
    got = place / f"{shell}.got"
    defined = "".join(
        f"{program}() {{ printf '%s\\0' $(($# + 1)) {program} \"$@\" >> {got}; }}\n"
        for program in PROGRAMS
    )
    subprocess.run(
        [shell, *SHELLS[shell]],
        input=os.fsencode(defined + lines),
        cwd=place,
        env={"PATH": os.environ["PATH"], "HOME": os.fspath(place), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        check=False,
        start_new_session=True,  # else an interactive shell asks for the terminal
        timeout=60,
    )
    words = got.read_bytes().split(b"\0")[:-1]
    found = []
    while words:
        count = int(words[0])
        found.append(words[1 : 1 + count])
        words = words[1 + count :]
    return found


def test_there_are_enough_names() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 40


@EACH
def test_words_arrive_as_they_were(shell: str, tmp_path: Path) -> None:
    rows = [["kdump", "x", os.fsdecode(name), os.fsdecode(b"/d/" + name)] for name in NAMES]
    rows.append(["kdump", *map(os.fsdecode, NAMES), ""])
    lines = "".join(f"{shell_text(row)}\n" for row in rows)
    assert pasted(shell, lines, tmp_path) == [[os.fsencode(word) for word in row] for row in rows]


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_text_of_commands_is_one_printable_line(name: bytes) -> None:
    text = shell_text(["kdump", operand(Path(os.fsdecode(name)))])
    assert text.isascii() or text == printable(text)
    assert "\n" not in text
    assert not text.startswith("kdump -")


def copies(place: Path, log: Sequence[bytes]) -> None:
    """Write a partition of each name with this log, all in one directory."""
    write_partition(place, "orders", 0, {0: log})
    for name in NAMES:
        target = os.fsencode(place) + b"/" + name + b"-0"
        shutil.copytree(place / "orders-0", os.fsdecode(target))
    shutil.rmtree(place / "orders-0")


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def torn(here: Path) -> Path:
    """A directory with a partition of each name, whose tail is torn."""
    copies(here, [batch(0, [record(b"v")]), batch(1, [record(b"v")])[:-1]])
    return here


def commands(text: str) -> Iterator[str]:
    """The commands in what was printed."""
    for line in text.split("\n"):
        if match := _COMMAND.search(line):
            yield match[1]


def arrive(lines: Sequence[str], expected: Sequence[bytes], place: Path) -> None:
    """Make sure that the partitions in ``lines`` are those, the word of a path in each shell."""
    for shell in SHELLS:
        arrived = pasted(shell, "".join(f"{line}\n" for line in lines), place)
        assert len(arrived) == len(lines)
        operands = [word for words in arrived for word in words[1:] if word.endswith(b"-0")]
        assert [word.removeprefix(b"./") for word in operands] == expected
        assert not any(word.startswith(b"-") for word in operands)


@pytest.mark.slow
def test_what_commands_print_can_be_pasted(
    torn: Path, capsys: pytest.CaptureFixture[str], unsearched: None
) -> None:
    expected, lines = list[bytes](), list[str]()
    for name in NAMES:
        path = os.fsdecode(name + b"-0")
        for command, code in (("verify", 0), ("truncate-to-valid", 4)):
            assert main([command, "--jobs", "1", "--", path]) == code
            printed = list(commands(capsys.readouterr().out))
            assert printed, path
            lines += printed
            expected += [name + b"-0"] * len(printed)
    arrive(lines, expected, torn)


def test_the_plan_for_a_log_directory_can_be_pasted(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    damaged = [batch(0, [record(b"v")]), flip(batch(1, [record(b"v")]), -1), batch(2, [record()])]
    write_partition(place / "-data", "orders", 0, {0: damaged})
    (place / "-data" / "meta.properties").write_text("version=0\nbroker.id=1\n")
    assert main(["verify", "--", "-data"]) == 4
    printed = list(commands(capsys.readouterr().out))
    assert "kdump verify ./-data" in printed
    assert not any(word.startswith("-data") for line in printed for word in line.split())


@pytest.mark.slow
def test_what_receipts_print_can_be_pasted(
    place: Path,
    unsearched: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    damaged = [batch(0, [record(b"v")]), flip(batch(1, [record(b"v")]), -1), batch(2, [record()])]
    write_partition(place, "orders", 0, {0: damaged})
    lines, expected = list[str](), list[bytes]()
    for number, name in enumerate(NAMES):
        output = f"{number}/{os.fsdecode(name)}"
        (place / str(number)).mkdir()
        assert main(["salvage", "--output", output, "orders-0"]) == 0
        lines += commands(capsys.readouterr().out)
        expected.append(os.fsencode(output) + b"/orders-0")
    for shell in SHELLS:
        arrived = pasted(shell, "".join(f"{line}\n" for line in lines), place)
        assert [words[-1] for words in arrived] == expected


@pytest.mark.slow
def test_what_repairs_and_their_backups_print_can_be_pasted(
    here: Path, capsys: pytest.CaptureFixture[str], unsearched: None
) -> None:
    copies(here, [batch(0, [record(b"v")])])
    expected, lines = list[bytes](), list[str]()
    for name in NAMES:
        path = os.fsdecode(name + b"-0")
        Path(path, f"{0:020d}.index").write_bytes(b"123")
        command = ["reindex", "--apply", "--assume-stopped", "--jobs", "1", "--", path]
        with failing_at("rename", 3):
            assert main(command) == INCOMPLETE
        interrupted = capsys.readouterr()
        last = interrupted.err.rstrip("\n").split("\n")[-1]
        assert last.startswith("kdump reindex ")
        assert main(["reindex", "--", path]) == INCOMPLETE
        found = [last, *commands(capsys.readouterr().out)]
        assert main(command) == OK
        receipt = list(commands(capsys.readouterr().out))
        assert {line.rpartition(" ")[2] for line in receipt} >= {"--discard", "--apply"}
        (plan_id,) = os.listdir(os.path.join(path, ".kdump"))
        assert main(["undo", "--plan", plan_id, "--", path]) == OK
        found += [*receipt, *commands(capsys.readouterr().out)]
        assert main(["undo", "--apply", "--assume-stopped", "--", path]) == OK
        capsys.readouterr()
        lines += found
        expected += [name + b"-0"] * len(found)
    arrive(lines, expected, here)


@pytest.mark.slow
def test_what_conversions_print_can_be_pasted(
    here: Path, capsys: pytest.CaptureFixture[str], unsearched: None
) -> None:
    copies(here, [message(0, b"v")])
    expected, lines = list[bytes](), list[str]()
    for number, name in enumerate(NAMES):
        path = os.fsdecode(name + b"-0")
        assert main(["convert-v0-v2", "--jobs", "1", "--", path]) == PROBLEMS
        found = list(commands(capsys.readouterr().out))
        assert any(line.startswith("kdump convert-v0-v2 ") for line in found)
        to = ["--output", str(number), "--jobs", "1", "--", path]
        assert main(["convert-v0-v2", *to]) == OK
        (checked,) = commands(capsys.readouterr().out)
        lines += [*found, checked]
        expected += [*[name + b"-0"] * len(found), b"%d/%s-0" % (number, name)]
    arrive(lines, expected, here)


@pytest.mark.slow
def test_the_way_back_of_a_salvage_can_be_pasted(
    here: Path, capsys: pytest.CaptureFixture[str], unsearched: None
) -> None:
    lines, expected = list[str](), list[list[bytes]]()
    for number, name in enumerate(NAMES):
        data = here / str(number) / os.fsdecode(name)
        origin = write_partition(data, "orders", 0, {0: [batch(0, [record(b"v")])]})
        (data / "meta.properties").write_text("version=0\nbroker.id=1\n")
        output = here / f"{number}.out" / os.fsdecode(name)
        output.parent.mkdir()
        assert main(["salvage", "--output", str(output), str(origin)]) == OK
        check, *back = commands(capsys.readouterr().out)
        lines += back
        words = way_back(origin, output / "orders-0", data)
        assert [command[0] for command in words] == ["mv", "mv", "chown", "kdump"]
        expected += [[os.fsencode(word) for word in command] for command in words]
        assert check.startswith("kdump verify ")
    for shell in SHELLS:
        assert pasted(shell, "".join(f"{line}\n" for line in lines), here) == expected
