"""HtmlPage: the lines of a text report, and pictures, as one page."""

from __future__ import annotations

import re
from html import escape
from typing import Final

#: A text in a colour, as ``click.style`` writes it; the page has a class for each number.
_STYLED: Final = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
#: A command on a line of its own, or behind a label.
_COMMAND: Final = re.compile(r"^( {14}| {7}do: |(?:do|check with|meaning) +)(kdump [a-z].*)$")
_STYLE: Final = """
:root { color-scheme: light dark; --text: #1b1f24; --page: #fff; --soft: #59636e; --box: #f3f5f7;
  --red: #b3261e; --green: #1a7f37; --yellow: #8a5a00; --magenta: #8250df; --cyan: #0a6c8a;
  --valid: #7fb08f; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e9ec; --page: #14181c; --soft: #9aa4ae;
  --box: #1f252b; --red: #ff8a80; --green: #6fd08c; --yellow: #e8b84a; --magenta: #c9a6ff;
  --cyan: #6cc7e6; --valid: #4d7f5d; } }
body { background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif;
  max-width: 52rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
header { border-left: .4rem solid; padding: .2rem 1rem; background: var(--box); }
h1 { font-size: 1.5rem; margin: 0; } header p { color: var(--text); margin: .3rem 0; }
pre { font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
pre, figure { direction: ltr; unicode-bidi: bidi-override; }
code { font: inherit; background: var(--box); user-select: all; }
figure { margin: 1.5rem 0; break-inside: avoid; } figcaption { font-weight: 600; }
figure p { font-size: .8rem; color: var(--soft); margin: .4rem 0 0; }
figure b { color: var(--text); } svg { display: block; width: 100%; height: 16px; }
svg.key { display: inline-block; width: 12px; height: 12px; margin: 0 .3rem 0 .8rem; }
.c31 { color: var(--red); } .c32 { color: var(--green); } .c33 { color: var(--yellow); }
.c35 { color: var(--magenta); } .c36 { color: var(--cyan); }
rect { stroke: var(--page); } rect.thin { stroke: none; }
.size { fill: var(--cyan); } .valid { fill: var(--valid); } .corrupt { fill: var(--red); }
.removed { fill: url(#removed); } .alone { fill: url(#alone); } .tail { fill: var(--soft); }
rect.unread { fill: none; stroke: var(--soft); stroke-dasharray: 1 3; }
rect.missing { fill: var(--page); stroke: var(--red); stroke-dasharray: 4 2; }
rect.remote { fill: none; stroke: var(--cyan); }
.ground { fill: var(--page); stroke: none; } path { stroke-width: 2; }
#removed path { stroke: var(--yellow); } #alone path { stroke: var(--magenta); }
@media print { :root { --text: #000; --page: #fff; --box: #fff; } body { margin: 0; }
  * { print-color-adjust: exact; } }
"""
_PATTERNS: Final = '<svg style="height: 0" aria-hidden="true">{}</svg>'.format(
    "".join(
        f'<pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({angle})"><rect class="ground" width="6" height="6"/>'
        '<path d="M1 0V6"/></pattern>'
        for name, angle in (("removed", 45), ("alone", 0))
    )
)
#: No script runs, and nothing is fetched, whatever the page should come to hold.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


class HtmlPage:
    """A report as a page: the same lines as in text, and pictures between or below them.

    The first line, if it has a colour, becomes the head of the page: its verdict. Lines and
    pictures may hold hostile names.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._pieces: list[str] = []
        self._lines: list[str] = []

    def emit(self, text: str) -> None:
        """Add lines of the text report."""
        self._lines += text.split("\n")

    def draw(self, drawn: str) -> None:
        """Add a picture below the lines so far."""
        self._end_lines()
        self._pieces.append(drawn)

    def html(self) -> str:
        """Return the page, in characters of ASCII, whatever standard output is written in."""
        self._end_lines()
        title = escape(self._title)
        page = (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{title}</title><style>{_STYLE}</style></head><body>\n"
            f"{_PATTERNS}\n" + "\n".join(self._pieces) + "\n</body></html>"
        )
        return page.encode("ascii", "xmlcharrefreplace").decode()

    def _end_lines(self) -> None:
        lines, self._lines = self._lines, []
        if not self._pieces:
            lines = self._head(lines)
        text = "\n".join(map(_line, lines)).strip("\n")
        if text:
            self._pieces.append(f"<pre>{text}</pre>")

    def _head(self, lines: list[str]) -> list[str]:
        """Add the head of the page; return the lines that follow."""
        verdict = _STYLED.match(lines[0]) if lines else None
        if verdict is None:
            self._pieces.append(f"<header><h1>{escape(self._title)}</h1></header>")
            return lines
        end = next((n for n, line in enumerate(lines) if n and line[:1] != " "), len(lines))
        sentence = " ".join([lines[0][verdict.end() :], *lines[1:end]])
        self._pieces.append(
            f'<header class="c{verdict[1]}"><h1>{escape(verdict[2].strip())}</h1>\n'
            f"<p>{escape(' '.join(sentence.split()))}</p></header>"
        )
        return lines[end:]


def _line(line: str) -> str:
    command = _COMMAND.match(line)
    if command is not None:
        return f"{escape(command[1])}<code>{escape(command[2])}</code>"
    # The marks of colours are no characters that are escaped.
    return _STYLED.sub(r'<b class="c\1">\2</b>', escape(line))
