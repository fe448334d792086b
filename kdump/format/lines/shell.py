r"""Commands as text that bash and zsh split into the same words.

What shells would take apart stands in quotes, and bytes that could upset a terminal, or are no
UTF-8, as ``\xNN`` in ``$'...'``.

Spec: POSIX.1-2024, Shell Command Language, 2.2; zsh's option EQUALS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike, fspath
from shlex import quote
from typing import Final

from kdump.format.lines.text import printable

#: What stands for itself in ``$'...'``; ``!`` does not, for the sake of a shell's history.
_PLAIN: Final = re.compile(r"[^\\'!]", re.S)


def operand(path: PathLike[str]) -> str:
    """Return ``path`` as a command's argument that no parser takes for an option."""
    text = fspath(path)
    return f"./{text}" if text.startswith("-") else text


def shell_text(words: Iterable[str]) -> str:
    """Return a command line of ``words``."""
    return " ".join(map(_word, words))


def _word(word: str) -> str:
    if printable(word) != word or "!" in word:
        return "$'" + "".join(map(_escaped, word)) + "'"
    # In zsh a word that begins with = stands for the path of a command.
    return f"'{word}'" if word.startswith("=") and quote(word) == word else quote(word)


def _escaped(char: str) -> str:
    if printable(char) == char and _PLAIN.fullmatch(char):
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogateescape"))
