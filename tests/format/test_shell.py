"""Commands that are printed are pasted into shells: what arrives is what was meant."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from forge import batch, flip, record, write_partition
from hypothesis import given
from hypothesis import strategies as st

from kdump.cli.main import main
from kdump.format.lines.shell import operand, shell_text
from kdump.format.lines.text import printable

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
_COMMAND = re.compile(r"(?:^|\s)(kdump (?:verify|truncate-to-valid|salvage|undo|reindex) .*)$")


def pasted(shell: str, lines: str, place: Path) -> list[list[bytes]]:
    """The words of each command of kdump that arrive when ``lines`` are typed into a shell."""
    if shutil.which(shell) is None:
        if os.environ.get("CI"):
            pytest.fail(f"CI requires {shell}", pytrace=False)
        pytest.skip(f"no {shell} here")
    got = place / f"{shell}.got"
    defined = f'kdump() {{ printf \'%s\\0\' "$#" "$@" >> {got}; }}\n'
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
    assert pasted(shell, lines, tmp_path) == [
        [os.fsencode(word) for word in row[1:]] for row in rows
    ]


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_text_of_commands_is_one_printable_line(name: bytes) -> None:
    text = shell_text(["kdump", operand(Path(os.fsdecode(name)))])
    assert text.isascii() or text == printable(text)
    assert "\n" not in text
    assert not text.startswith("kdump -")


@pytest.fixture
def torn(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a partition of each name, whose tail is torn."""
    log = [batch(0, [record(b"v")]), batch(1, [record(b"v")])[:-1]]
    write_partition(place, "orders", 0, {0: log})
    for name in NAMES:
        target = os.fsencode(place) + b"/" + name + b"-0"
        shutil.copytree(place / "orders-0", os.fsdecode(target))
    shutil.rmtree(place / "orders-0")
    monkeypatch.chdir(place)
    return place


def commands(text: str) -> Iterator[str]:
    """The commands in what was printed."""
    for line in text.split("\n"):
        if match := _COMMAND.search(line):
            yield match[1]


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
    for shell in SHELLS:
        arrived = pasted(shell, "".join(f"{line}\n" for line in lines), torn)
        operands = [word for words in arrived for word in words[1:] if word.endswith(b"-0")]
        assert [word.removeprefix(b"./") for word in operands] == expected
        assert not any(word.startswith(b"-") for word in operands)


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
