r"""Commands as text that bash and zsh split into the same words.

A word that shells would split or expand is in quotes. Bytes that a terminal could interpret, or
that are not UTF-8, are ``\xNN`` in ``$'...'``. Commands of kdump begin with the name by which the
process was called: where packages install ``kafka-kdump`` alone, ``kdump`` is the kernel's.

Spec: POSIX.1-2024, Shell Command Language, 2.2; zsh's option EQUALS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from shlex import quote
from typing import Final

from kdump.format.lines.text import printable
from kdump.program import NAME, program

#: The characters that ``$'...'`` holds unescaped; ``!`` would expand from the history of a shell.
_PLAIN: Final = re.compile(r"[^\\'!]", re.S)


def operand(path: PathLike[str]) -> str:
    """Return ``path`` as an argument of a command that cannot be read as an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def shell_text(words: Iterable[str]) -> str:
    """Return ``words`` as a command line; kdump has the name by which it was called."""
    first, *others = words
    return " ".join(map(_word, (program() if first == NAME else first, *others)))


def _word(word: str) -> str:
    if printable(word) != word or "!" in word:
        return "$'" + "".join(map(_escape, word)) + "'"
    # In zsh a word that begins with = expands to the path of a command.
    return f"'{word}'" if word.startswith("=") and quote(word) == word else quote(word)


def _escape(char: str) -> str:
    if printable(char) == char and _PLAIN.fullmatch(char):
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))
