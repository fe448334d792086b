"""Reports in a real terminal of 80 columns: none of their tables has a line that is wrapped."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kdump.cli.main import _COMMANDS
from support.crashing.running import run
from support.fixtures_loader import ROOT, copy_fixture
from support.forge import flip
from support.long_samples import first_of_each

pytestmark = pytest.mark.once

#: What is printed as a table, records or a list; ``D`` is a damaged log directory.
REPORTS = (
    "verify D",
    "verify --info D",
    "verify D/codec-zstd-0",
    "next-start --scan D",
    "next-start K",
    "scrub --state s D",
    "scrub --status --state s",
    "explain --list",
    "groups D",
    "groups --wide D",
    "transactions D",
    "metadata D",
    "quorum D",
    "compare 1 2 3",
    "reindex D",
    "truncate-to-valid D",
    "salvage D/codec-zstd-0 --output o",
    "heal D/codec-zstd-0 --from C/codec-zstd-0",
    "undo D",
    "convert-v0-v2 L",
    "check e",
    "help",
    *(f"{name} --help" for name in sorted(_COMMANDS)),
)
#: Commands, which are whole to be pasted, lines of one word, and a head that names a file.
LONG = re.compile(r"^\s*(?:\w+ +)?(?:kdump|mv|chown) .*|^METADATA .*|^\s*\S+$")
END = "END-OF-REPORT"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories with short names, as in a terminal whose user has gone there."""
    top = tmp_path_factory.mktemp("place")
    for name, source in {"D": "4.3.1", "C": "4.3.1", "L": "0.10.2.2"}.items():
        copy_fixture(f"{source}/clean", top / name)
    copy_fixture("4.3.1/killed", top / "K")
    for node in "123":
        shutil.copytree(ROOT / "brokers/4.3.1/replicas" / node, top / node)
    log = top / "D/codec-zstd-0" / f"{0:020}.log"
    log.write_bytes(flip(log.read_bytes(), 600))
    return top


@pytest.fixture(scope="module")
def terminal(place: Path) -> Iterator[Callable[[str], list[str]]]:
    """``terminal(text)``: the lines that a terminal of 80 columns shows of it."""
    tmux = ["tmux", "-f", "/dev/null", "-S", str(place / "tmux")]

    def call(*arguments: str) -> str:
        done = subprocess.run([*tmux, *arguments], capture_output=True, text=True, check=True)
        return done.stdout

    call("new-session", "-d", "-x", "80", "-y", "50", "cat")
    call("set-option", "-g", "history-limit", "20000")

    def show(text: str) -> list[str]:
        file = place / "text"
        file.write_text(f"{text}{END}\n")
        window = call(
            "new-window", "-P", "-F", "#{window_id}", f"cat {shlex.quote(str(file))}; exec cat"
        ).strip()
        shown = ""
        while END not in shown:  # pytest-timeout ends it, if it never comes
            time.sleep(0.02)
            shown = call("capture-pane", "-p", "-S", "-", "-t", window)
        call("kill-window", "-t", window)
        return shown.partition(END)[0].split("\n")[:-1]

    yield show
    call("kill-server")


@pytest.mark.tmux
@pytest.mark.parametrize("command", first_of_each(REPORTS, lambda command: command.split()[0]))
def test_no_line_of_a_report_is_wrapped(
    command: str,
    place: Path,
    terminal: Callable[[str], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    if command == "check e":
        assert run(shlex.split("export D --to e --topic codec-none --format jsonl")).code == 0
    text = run(shlex.split(command)).out
    assert text
    shown = terminal(text)
    if "--wide" in command:
        assert len(shown) > text.count("\n")  # so a line that is too long is seen here
        return
    lines = [line for line in text.splitlines() if not LONG.match(line)]
    assert [line for line in lines if line.rstrip() not in shown] == []
    assert max(map(len, lines)) <= 80
