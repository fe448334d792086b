"""Draws what README shows: ``python man/picture.py [FILE]`` runs its example, and writes an SVG.

The commands of the example run in a terminal of 80 columns, in a copy of the fixtures. What they
write there, colours included, becomes text in the picture, without a script or an address.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS = 80
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)
#: Rich's picture without its fonts, which it would fetch.
_SVG = """<svg class="rich-terminal" xml:space="preserve" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
font-family: monospace; font-size: {char_height}px; line-height: {line_height}px;
font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def recorded() -> str:
    """What a terminal shows of README's example: its commands, and what they write."""
    block = _BLOCK.search((HERE.parent / "README.md").read_text())
    if block is None:
        raise ValueError("README.md: expected a console block, found none")
    shown = []
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(HERE.parent / "fixtures", Path(place) / "fixtures")
        for command in _COMMAND.findall(block[1]):
            shown += [f"$ {command}\n", _in_terminal(command, Path(place))]
    return "".join(shown)


def _in_terminal(command: str, place: Path) -> str:
    ours, theirs = pty.openpty()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(
        ["bash", "-c", f"stty cols {COLUMNS}; {command}"],
        cwd=place,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.DEVNULL,  # its progress
    ):
        os.close(theirs)
        written = b""
        with suppress(OSError):  # the terminal is closed once no process writes to it
            while piece := os.read(ours, 65536):
                written += piece
    os.close(ours)
    return written.decode().replace("\r\n", "\n")


def picture(text: str) -> str:
    """The SVG of a terminal that shows ``text``, whose colours are escape sequences."""
    console = Console(
        record=True, width=COLUMNS, file=StringIO(), force_terminal=True, legacy_windows=False
    )
    console.print(Text.from_ansi(text.rstrip("\n")), soft_wrap=False)
    return console.export_svg(
        title="kdump", theme=MONOKAI, code_format=_SVG, unique_id="kdump", font_aspect_ratio=0.61
    )


def main(file: Path) -> None:
    """Write the picture of README's example."""
    file.write_text(picture(recorded()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "kdump-verify.svg")
