"""What README and the guides show: their commands, and what these print now.

``python tests/support/shown.py`` prints what differs; with ``--write`` it writes that into the
documents. Commands stand in ``console`` blocks, behind ``$``, with their output below. A line
``...`` in an output stands for lines that are not shown: those whose label, the text before two
blanks or a colon, no line of the output has. A comment ``<!-- run: COMMAND -->`` is run too, and
shows nothing: it makes the damage that a reader of the guide already has.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Each runs in its own copy of the fixtures.
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "man").glob("*.md")))

_BLOCK = re.compile(
    r"^(?P<indent> *)```console\n(?P<shown>.*?)^ *```$|^ *<!-- run: (?P<hidden>.*?) -->",
    re.MULTILINE | re.DOTALL,
)
_STEP = re.compile(
    r"^ *\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?! *\$ ).*\n)*)", re.MULTILINE
)
_SETTING = re.compile(r"[A-Z]+=\S+(?: [A-Z]+=\S+)*")
_ELLIPSIS = "..."

#: On a machine under load a command takes minutes.
_TOOK = r"(?:\d+ min )?\d[\d.]* s"
#: What differs from run to run, and from machine to machine.
VARYING = [
    (rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ, {_TOOK}", "WHEN"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?:\.\.[\dT:-]+Z)?, (\S+ \S+), until", r"WHEN, \1, until"),
    (rf"unread for more than {_TOOK}", "unread for AGE"),
    (r"([0-9a-f]{8}) \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", r"\1 WHEN"),
    (r"done; \d[\d.]* (bytes|KiB)", "done; SIZE"),
    (r"records older than \w+|retention\.ms=\d+", "AGE"),
    (r"as run [0-9a-f-]{36}", "as run ID"),
    (r"free \d[\d.]* [KMGT]iB; device [0-9a-f]+:[0-9a-f]+, directory inode \d+", "PLACE"),
    (
        rf"(?<=; ){_TOOK}"
        r"(?:, [\d,.]+ (?:bytes|[KMGT]iB)/s(?: \(limit [\d.]+ MiB/s\))?)?"
        r"(?:, \d+ jobs?)?(?![^\s,;])",
        "TIME",
    ),
    (r"free \d[\d.]* [KMGT]iB: ", "free SPACE: "),
    (r"\d[\d.]* (bytes|[KMGT]iB) of \d[\d.]* [KMGT]iB free(, [\d,]+ inodes free)?", "SPACE"),
    (r"; broker (stopped|unknown): .*? open(, as far as .*? are hidden)?", "; LIVENESS"),
]
#: Where plans are named: by other ids in each run, since files have other inodes and times.
_PLAN_ID = re.compile(r"^(?:PLAN|DONE|PENDING) ([0-9a-f]{8})\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a document; ``output`` is shown below it, at ``span``, behind ``indent``."""

    command: str
    output: str | None  # None in a comment
    span: tuple[int, int] = (0, 0)
    indent: str = ""


def steps(text: str) -> Iterator[Step]:
    """The commands of a document in order."""
    for block in _BLOCK.finditer(text):
        if block["hidden"]:
            yield Step(block["hidden"], None)
            continue
        indent, start = block["indent"], block.start("shown")
        for step in _STEP.finditer(block["shown"]):
            output = re.sub(f"^{indent}", "", step["output"], flags=re.MULTILINE)
            command = re.sub(f"^{indent}", "", step["command"], flags=re.MULTILINE)
            span = (start + step.start("output"), start + step.end("output"))
            yield Step(command, output, span, indent)


def printed(text: str, place: Path) -> Iterator[tuple[Step, str]]:
    """Run the commands of a document in ``place``; yields what each prints, by the ids shown."""
    shutil.copytree(ROOT / "fixtures", place / "fixtures")
    ids: dict[str, str] = {}  # as shown, to what they are in this run
    settings = ""
    for step in steps(text):
        if _SETTING.fullmatch(step.command):
            settings += f"{step.command}\n"
        output = subprocess.run(
            ["bash", "-c", settings + translated(step.command, ids)],
            cwd=place,
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        ids |= zip(_PLAN_ID.findall(step.output or ""), _PLAN_ID.findall(output), strict=False)
        output = output.replace(str(place), "/srv")
        yield step, translated(output, {here: there for there, here in ids.items()})


def environment() -> dict[str, str]:
    """That of a shell that has the environment of this interpreter activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "COLUMNS": "80"}


def translated(text: str, ids: dict[str, str]) -> str:
    """``text`` with the ids of plans replaced."""
    return re.sub(r"\b[0-9a-f]{8}\b", lambda found: ids.get(found[0], found[0]), text)


def elided(output: str, shown: str) -> str:
    """Of ``output`` the lines that ``shown`` shows, if it leaves out any."""
    lines = shown.splitlines()
    if _ELLIPSIS not in lines:
        return output
    labels = set(map(_label, lines))
    items = re.findall(r"^\S.*\n(?:(?!\S).*\n)*", output, re.MULTILINE)
    parts = groupby(items, lambda item: _label(item) in labels)
    return "".join("".join(part) if taken else f"{_ELLIPSIS}\n" for taken, part in parts)


def _label(line: str) -> str:
    return re.split("  |:|\n", line, maxsplit=1)[0]


def normalize(output: str) -> str:
    """``output`` with what varies replaced, and wrapped nowhere."""
    text = " ".join(output.split())
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return text


def rewritten(text: str, place: Path) -> str:
    """The document ``text`` with what its commands print now; what is equal stays as it is."""
    parts: list[str] = []
    end = 0
    for step, output in printed(text, place):
        if step.output is None:
            continue
        now = elided(output, step.output)
        if normalize(now) != normalize(step.output):
            parts += text[end : step.span[0]], textwrap.indent(now, step.indent)
            end = step.span[1]
    return "".join(parts) + text[end:]


def main(arguments: list[str]) -> int:
    """Compare all documents, or those whose names are given; with ``--write`` rewrite them."""
    if importlib.util.find_spec("pyarrow") is None:
        raise SystemExit("no pyarrow here: kdump export would print nothing")
    names = {argument for argument in arguments if argument != "--write"}
    different = False
    for document in DOCUMENTS:
        if names and document.name not in names:
            continue
        text = document.read_text()
        with tempfile.TemporaryDirectory(prefix="kd") as place:
            now = rewritten(text, Path(place))
        different |= now != text
        if "--write" in arguments:
            document.write_text(now)
        before, after = text.splitlines(keepends=True), now.splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(before, after, document.name, document.name))
    return 4 if different and "--write" not in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
